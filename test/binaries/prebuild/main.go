// Copyright Contributors to the Open Cluster Management project

// Command prebuild builds the binaries that suites and the demo run, unless they are built already. Progress goes to standard
// error; the two directories, control plane first, go to standard output, one a line.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"open-cluster-management.io/import-provider/test/binaries"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "prebuild:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	// One after the other: each build keeps all cores busy, and they share most of their packages.
	controlPlane, err := binaries.ControlPlane(ctx, os.Stderr)
	if err != nil {
		return err
	}
	agents, err := binaries.Agents(ctx, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Println(controlPlane)
	fmt.Println(agents)
	return nil
}
