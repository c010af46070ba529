// Copyright Contributors to the Open Cluster Management project

// Command import-controller imports existing clusters into an Open Cluster Management hub. It runs beside the hub's own
// components.
package main

import (
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	ctrl "sigs.k8s.io/controller-runtime"

	"open-cluster-management.io/ocm/pkg/version"

	"open-cluster-management.io/import-provider/pkg/hub"
)

func main() {
	// The build sets the version where it does for OCM's own commands.
	command, err := hub.NewImportController(version.Get().String())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	command.SetContext(ctrl.SetupSignalHandler())
	os.Exit(cli.Run(command))
}
