// Copyright Contributors to the Open Cluster Management project

// Package hub puts the importer together and runs it: the providers in their order, the renderers, the credential
// resolvers, the workers. It is the only package that imports the importer of OCM, which brings Helm with it.
//
// The importer runs in one of two processes, by the same RunImporter:
//
//   - NewImportController is a component of its own beside an unmodified hub (manager.go). It follows the
//     ClusterImporter feature gate of the hub's ClusterManager while it runs (gate.go).
//   - NewRegistrationController is upstream's hub registration controller with its importer replaced (registration.go).
//     The hub's operator starts it with the feature gate as a flag, and again when the gate changes.
package hub
