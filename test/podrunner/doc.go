// Copyright Contributors to the Open Cluster Management project

// Package podrunner plays the kubelet, and the scheduler for one node, for the pods of OCM's agents: it
// runs the real binaries as child processes, without a container runtime and without root.
//
// # Usage
//
//	runner, err := podrunner.Start(ctx, podrunner.Options{
//		Config: controlPlane.Config(), CAData: controlPlane.CAData(), BinDir: agents,
//	})
//	defer runner.Stop()
//
// From then on a Deployment whose containers start /registration-operator or /registration becomes
// available when the process really answers its readiness probe, and not before. Every other pod stays
// Pending.
//
// # What a container sees
//
// The pod's arguments and environment, and its volumes (emptyDir, secret, configMap, downwardAPI,
// projected) as directories that follow their sources. With no chroot, three things can't be where the
// pod spec says and are passed as flags and variables instead:
//
//   - arguments of the form --flag=<mount path>/… point into the volume's directory, and the agent's
//     default directory for the hub kubeconfig is given as --hub-kubeconfig-dir;
//   - in-cluster configuration becomes --kubeconfig (its token file is the projected token, so that the
//     process holds the rights of the pod's service account and no more) and --namespace;
//   - /tmp becomes TMPDIR, and the fixed port 8443 becomes --listen on a free loopback port.
//
// # Trade-offs
//
// Limits, security contexts, images, host aliases and init containers are not enforced. OCM's binaries also
// read their own namespace from the fixed path of the service account and find nothing there: the agent
// then assumes open-cluster-management-agent, which is the default, and the operator looks for an image
// pull secret to copy in open-cluster-management. Pods on one node share the loopback address, which is
// also the address that they report.
package podrunner
