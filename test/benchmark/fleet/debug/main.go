// Copyright Contributors to the Open Cluster Management project

// Command import-controller is the import-controller with a port for those who measure it: profiles of net/http/pprof,
// numbers of the runtime, and a dump of the live heap, which may hold credentials. It is built for benchmarks alone.
package main

import (
	"fmt"
	"net/http"
	_ "net/http/pprof" //nolint:gosec // that is what the port is for.
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"k8s.io/component-base/cli"
	ctrl "sigs.k8s.io/controller-runtime"

	"open-cluster-management.io/import-provider/pkg/hub"
)

// addressVariable is the environment variable with the address to listen at.
const addressVariable = "IMPORT_DEBUG_ADDRESS"

func main() {
	http.HandleFunc("/stats", stats)
	http.HandleFunc("/heap-dump", heapDump)
	server := &http.Server{Addr: os.Getenv(addressVariable), ReadHeaderTimeout: time.Minute}
	go func() {
		fmt.Fprintln(os.Stderr, server.ListenAndServe())
		os.Exit(1)
	}()
	command, err := hub.NewImportController("benchmark")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	command.SetContext(ctrl.SetupSignalHandler())
	os.Exit(cli.Run(command))
}

// stats answers with numbers of the runtime; with ?gc it collects garbage before and gives free memory back.
func stats(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Has("gc") {
		collect()
	}
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	fmt.Fprintf(w, `{"goroutines":%d,"heapBytes":%d}`, runtime.NumGoroutine(), memory.HeapAlloc)
}

// collect runs twice: what has a finalizer, or was in a pool, is free after the second collection.
func collect() {
	runtime.GC()
	debug.FreeOSMemory()
}

// heapDump writes all live objects to the file that ?path names.
func heapDump(w http.ResponseWriter, r *http.Request) {
	file, err := os.Create(r.URL.Query().Get("path"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	collect()
	debug.WriteHeapDump(file.Fd())
	if err := file.Close(); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}
