// Copyright Contributors to the Open Cluster Management project

// Package fleet simulates many managed clusters in one process: a TLS server for each, with a CA, a token and an identity of
// its own, that answers what an import asks of an API server. A thousand of them take less than one control plane of
// test/harness, so that a whole fleet can be imported into one real hub; what is measured then is the hub and the importer.
//
//	clusters := fleet.New(fleet.Options{})
//	defer clusters.Stop()
//	cluster, err := clusters.Add(ctx, "cluster1", fleet.Healthy)
//	// An import Secret with cluster.Kubeconfig() imports it.
//
// A cluster has a small store of objects by their path, which knows no kind by itself: create, update with a conflict of
// resourceVersions, server-side apply and merge, dry runs, delete, list by label. CustomResourceDefinitions are established
// after a delay, and their objects are held back for two seconds when they are created by POST, as by a real server.
//
// # What is missing
//
// No validation, no defaults but those that the next import of the same objects depends on, no conflicts of field managers, no
// watch, no protobuf in answers. Whoever has the token may do everything. test/integration imports a real cluster and a
// simulated one with the same component and compares requests and objects.
package fleet
