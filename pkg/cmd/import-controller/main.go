// Copyright Contributors to the Open Cluster Management project

// Command import-controller imports existing clusters into an Open Cluster Management hub. It runs beside the hub's own
// components.
package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"k8s.io/component-base/cli"
	ctrl "sigs.k8s.io/controller-runtime"

	"open-cluster-management.io/import-provider/pkg/hub"
)

func main() {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	command, err := hub.NewImportController(version)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	command.SetContext(ctrl.SetupSignalHandler())
	os.Exit(cli.Run(command))
}
