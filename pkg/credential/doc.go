// Copyright Contributors to the Open Cluster Management project

// Package credential is the extension point of the import provider: a Resolver turns an import Secret into a rest.Config
// for the cluster, and a Set holds the resolvers that the administrator of the hub enabled.
//
// # Usage
//
//	kubeconfig := credential.NewKubeconfigResolver(credential.KubeconfigOptions{})
//	set, err := credential.NewSet(map[string]credential.Resolver{
//		credential.ResolverKubeconfig: kubeconfig,
//		credential.ResolverToken:      credential.NewTokenResolver(),
//		"my-cloud":                    myResolver,
//	}, credential.SetOptions{})
//	cfg, err := set.Resolve(ctx, credential.Request{ClusterName: "cluster1", Secret: secret})
//
// The annotation import.open-cluster-management.io/credential-resolver on the Secret names the resolver.
//
// # Writing a resolver
//
// Implement Resolve, return Invalid, Denied or Pending where they apply, keep values out of error texts, and run
// credentialtest.RunConformance in a test. Use restconfig.FromToken or restconfig.FromKubeconfig to build the result: whatever
// a resolver returns must pass restconfig.Check, and the Set refuses it otherwise.
//
// # Trade-offs
//
// There is no registry that packages add themselves to: the composition root names each resolver, so that what a hub can
// do is read in one place. A resolver gets the whole Secret, also keys that are not its own; it runs inside the hub's process
// and is trusted as such. The Set guards against mistakes (changed inputs, panics, unsafe results), not against malice.
// The Set puts no time limit on a resolver: the caller's context does.
package credential
