// Copyright Contributors to the Open Cluster Management project

// Package soak runs two replicas of the import-controller on a real hub whose managed clusters are simulated (test/fleet), for as
// long as it is told, while clusters come and go and things break: Secrets are rotated, ManagedClusters are created and
// deleted, clusters die and come back, others write to the ManagedClusters, the API server of the hub is restarted, the leader is killed or ends. In the end
// nothing may be lost, imported twice or leaked. What exactly that means is said at ledger and at checkHub.
//
// The order of what happens is that of a seed; how it falls together with imports is not.
package soak
