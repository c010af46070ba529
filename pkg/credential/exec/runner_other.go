// Copyright Contributors to the Open Cluster Management project

//go:build !linux

package exec

import (
	"context"
	"os"

	"open-cluster-management.io/import-provider/pkg/policy"
)

const nonblock = 0

func errSystem() error {
	return fault("plugins run on Linux only", "run the import controller on Linux")
}

// run returns an error: what makes it safe to run a plugin is there on Linux only.
func (*runner) run(context.Context, policy.Plugin, []string, []string) ([]byte, error) {
	return nil, errSystem()
}

func accessTo(*os.File) (access, error) { return access{}, errSystem() }
