// Copyright Contributors to the Open Cluster Management project

// Package ocmhub turns a fresh control plane into a hub of Open Cluster Management, from the manifests that
// the ocm module embeds and with the real registration controller as a child process.
//
// # Usage
//
//	err := ocmhub.Install(ctx, hub.Config(), ocmhub.InstallOptions{APIServerURL: hub.URL(), CAData: hub.CAData()})
//	controller, err := ocmhub.StartController(ctx, ocmhub.ControllerOptions{
//		BinDir: agents, Kubeconfig: hub.KubeconfigPath(), AutoApprove: true,
//	})
//	defer controller.Stop()
//
// # What is missing
//
// No cluster-manager operator, placement, work or add-on controller runs, and no webhook: a ManagedCluster
// gets no default cluster set label, and custom resources convert between versions by name only.
package ocmhub
