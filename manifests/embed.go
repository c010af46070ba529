// Copyright Contributors to the Open Cluster Management project

// Package manifests has those of the manifests that the code applies itself.
package manifests

import (
	_ "embed" // for the files
)

//go:embed managed-cluster/clusterrole.yaml
var managedClusterRole string

//go:embed managed-cluster/account.yaml
var managedClusterAccount string

// ManagedCluster is the YAML of managed-cluster: an account on a managed cluster that may do what an import does, and no more.
func ManagedCluster() string { return managedClusterRole + "---\n" + managedClusterAccount }
