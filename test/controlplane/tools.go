// Copyright Contributors to the Open Cluster Management project

//go:build tools

// Package controlplane pins the control plane binaries that tests and the demo run.
package controlplane

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kubectl"
)
