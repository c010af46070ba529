// Copyright Contributors to the Open Cluster Management project

// Package harness starts real control planes: an etcd and a kube-apiserver each, and a kube-controller-manager on demand.
// Tests, the demo and benchmarks play hubs and managed clusters with them.
//
//	hub, err := harness.Start(ctx, harness.Options{Name: "hub", ControllerManager: true})
//	if err != nil {
//		return err
//	}
//	defer hub.Stop()
//	client, err := kubernetes.NewForConfig(hub.Config())
//
// # Why not envtest
//
// An import must survive an API server that dies, hangs or comes back, with expired certificates and tokens of every kind.
// envtest neither ends and restarts one process of a control plane on the same port, data and certificates, nor does it run
// the controller manager without which no Deployment gets a pod and no namespace is ever deleted.
//
// # What a control plane is like
//
// It listens on 127.0.0.1 only. The serving certificate and the client certificates have separate authorities, so that a
// mix-up of the two fails here as it does elsewhere. Authorization is Node and RBAC, anonymous requests are on as by
// default, service account tokens are served by TokenRequest. There is no kubelet and no scheduler: pods stay Pending.
//
// # Processes
//
// Each process is in a process group of its own, so that Ctrl-C in a terminal reaches only the program that called Start,
// which then stops them in order. On Linux they are killed with it when it dies without doing so.
package harness
