// Copyright Contributors to the Open Cluster Management project

// Command fleet measures the import of many clusters into one hub, by the import-controller and, where it can finish, by
// upstream's importer. Run it as `make bench-fleet`; docs/benchmarks.md says what the figures mean.
//
// The hub is a real etcd and API server with OCM's API; the clusters are simulated (test/fleet). Each run has a new hub, a
// new importer and new clusters. No registration controller runs beside the import-controller: what agents say of themselves
// after they joined, the benchmark says some seconds after each import. Upstream's importer is part of the registration
// controller.
//
// Standard output has a line for each figure and the verdicts of the goals; progress goes to standard error; the report and
// the plot are files. The exit code is not zero only when something did not work: a goal that is not met is a result.
package main
