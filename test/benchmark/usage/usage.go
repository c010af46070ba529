// Copyright Contributors to the Open Cluster Management project

// Package usage builds an import-controller that tells about itself, and reads what a running one holds. It needs Linux's
// /proc; elsewhere all that it reads is an error.
package usage

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"open-cluster-management.io/import-provider/test/binaries"
)

const (
	// AddressVariable is the environment variable with the debug address of an import-controller that Build made.
	AddressVariable = "IMPORT_DEBUG_ADDRESS"

	// ticksPerSecond is USER_HZ, which is 100 on all platforms that Go runs on.
	ticksPerSecond = 100
	kib            = 1 << 10
)

// Build builds the import-controller with a debug port into a folder.
func Build(ctx context.Context, dir string) error {
	return BuildProgram(ctx, filepath.Join(dir, "import-controller"), "./test/benchmark/fleet/debug")
}

// BuildProgram builds a program of this module, with the flags that the whole project is built with and more, into a file.
func BuildProgram(ctx context.Context, path, program string, flags ...string) error {
	root, err := binaries.ModuleRoot()
	if err != nil {
		return fmt.Errorf("finding the module: %w", err)
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("finding %s: %w", path, err)
	}
	args := slices.Concat([]string{"build", "-trimpath", "-gcflags=all=-dwarf=false"}, flags, []string{"-o", absolute, program})
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", program, err, output)
	}
	return nil
}

// Level is what a process holds at one time.
type Level struct {
	// RSS is in bytes; Anonymous is the part of it that is no copy of a file.
	RSS, Anonymous, Descriptors float64
	// Goroutines and Heap, in bytes, are those of a process with a debug port alone.
	Goroutines, Heap float64
}

// Raise makes each number the higher one of two levels.
func (l *Level) Raise(other Level) {
	l.RSS, l.Anonymous = max(l.RSS, other.RSS), max(l.Anonymous, other.Anonymous)
	l.Descriptors = max(l.Descriptors, other.Descriptors)
	l.Goroutines, l.Heap = max(l.Goroutines, other.Goroutines), max(l.Heap, other.Heap)
}

// Read reads what a process holds; collected collects garbage before. debug is the address of its debug port, empty without one.
func Read(ctx context.Context, pid int, debug string, collected bool) (Level, error) {
	var l Level
	if debug != "" {
		path := "/stats"
		if collected {
			path += "?gc"
		}
		var numbers struct{ Goroutines, HeapBytes float64 }
		body, err := Get(ctx, debug, path)
		if err == nil {
			err = json.Unmarshal(body, &numbers)
		}
		if err != nil {
			return l, fmt.Errorf("reading the numbers of the runtime: %w", err)
		}
		l.Goroutines, l.Heap = numbers.Goroutines, numbers.HeapBytes
	}
	var err error
	if l.RSS, l.Anonymous, err = ResidentBytes(pid); err != nil {
		return l, err
	}
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	l.Descriptors = float64(len(entries))
	return l, err
}

// Get returns what a port answers.
func Get(ctx context.Context, address, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", req.URL.Path, resp.Status)
	}
	return body, err
}

// CPUSeconds is the CPU time that a process has used since it started.
func CPUSeconds(pid int) (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the CPU time of a process: %w", err)
	}
	// The name of the program, in brackets, may hold spaces. utime and stime are the fields 14 and 15 of proc(5).
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const utime = 14 - 3
	if len(fields) <= utime+1 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var ticks int
	for _, field := range fields[utime : utime+2] {
		n, err := strconv.Atoi(string(field))
		if err != nil {
			return 0, fmt.Errorf("reading the CPU time of a process: %w", err)
		}
		ticks += n
	}
	return float64(ticks) / ticksPerSecond, nil
}

// ResidentBytes is the resident set of a process, and of it what is not a copy of a file: pages of the program are resident from
// their first use on, until the kernel wants the room.
func ResidentBytes(pid int) (rss, anonymous float64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("reading the memory of a process: %w", err)
	}
	found := 0
	for line := range strings.Lines(string(status)) {
		for name, bytes := range map[string]*float64{"VmRSS:": &rss, "RssAnon:": &anonymous} {
			value, ok := strings.CutPrefix(line, name)
			if !ok {
				continue
			}
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")))
			if err != nil {
				return 0, 0, fmt.Errorf("reading %s of a process: %w", name, err)
			}
			*bytes = float64(n) * kib
			found++
		}
	}
	if found != 2 {
		return 0, 0, fmt.Errorf("/proc/%d/status has no VmRSS, or no RssAnon", pid)
	}
	return rss, anonymous, nil
}
