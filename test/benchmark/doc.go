// Copyright Contributors to the Open Cluster Management project

// Command benchmark measures how long imports take with the import-controller, and with upstream's importer in the same
// run on the same machine. Run it as `go run ./test/benchmark`; docs/benchmarks.md says what the figures mean.
//
// It runs real programs: two hubs with OCM's registration controller, one of them with the import-controller beside it
// and one with upstream's importer (Cluster API's provider, which is the only one there is), and an etcd and an API
// server for each managed cluster, new for each import. No managed cluster has a controller manager: an import ends
// when the klusterlet is stored.
//
// Standard output has a line for each figure and a summary of the goals; progress goes to standard error. The exit code
// is not zero only when something did not work: a goal that is not met is a result.
package main
