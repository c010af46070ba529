// Copyright Contributors to the Open Cluster Management project

// Package kubeconfig imports clusters that exist already: an annotated Secret holds the credential of a cluster, and
// a ManagedCluster asks for its import. The package implements the importer's providers.Interface.
//
// # Usage
//
//	provider, err := kubeconfig.New(kubeconfig.Options{
//		KubeClient: kubeClient, MetadataClient: metadataClient, ClusterClient: clusterClient,
//		ManagedClusters: clusterInformers.Cluster().V1().ManagedClusters(),
//		Resolvers: resolvers, Recorder: recorder,
//	})
//
// Put it before other providers in the importer's list, start it with Run, and start the importer's workers once
// HasSynced is true: until then the provider owns no cluster.
//
// # Where a behaviour lives
//
//   - secrets.go: where import Secrets may live and which one is for a cluster
//   - provider.go: the path from a Secret to clients
//   - reason.go: the reasons an import can fail for
//   - outcome.go: how a failure is told to the importer, and when it is tried again
//   - connection.go, response.go: the bounds on every request to a managed cluster
//   - preflight.go: the one request that says whether the credential works
//   - guard.go: clusters whose klusterlet belongs to somebody else
//   - klusterlet.go: how the Klusterlet is created without waiting
//   - capi.go: clusters that Cluster API owns
//   - notices.go: events about Secrets that no import is tried with
//   - reimport.go: the annotation that asks for one more import
//
// # Trade-offs
//
// Secrets are watched as metadata and read when an import needs one. That costs a request an attempt and keeps
// every credential out of caches. Responses of a managed cluster are read whole before the client sees them, which
// costs a copy and makes it possible to bound them and to keep their text out of conditions; the clients are for an
// import only and cannot watch.
package kubeconfig
