// Copyright Contributors to the Open Cluster Management project

//go:build tools

// Package agents pins the Open Cluster Management agents that the end-to-end tests and the demo run as processes.
package agents

import (
	_ "open-cluster-management.io/ocm/cmd/registration"
	_ "open-cluster-management.io/ocm/cmd/registration-operator"
)
