// Copyright Contributors to the Open Cluster Management project

// Package policy is what the administrator of a hub lets import Secrets ask for: one file, of kind ImportPolicy.
//
// # Usage
//
//	policies, err := policy.NewSource("/etc/import-policy/policy.yaml")
//	go policies.Run(ctx, func() { /* what was denied may be tried again */ })
//	rule := policies.Current().Rule(secret.Namespace)
//	err = policies.Current().CheckServer(config.Host, config.Proxy != nil)
//
// CheckServer is for what stands in a kubeconfig, before anything is sent or resolved. CheckAddress is for the dialer: the address
// that a name resolves to is known for certain only when it is dialled.
//
// # Trade-offs
//
// What a policy does not name is denied, but for addresses: most hubs don't know where their clusters will be, so that all
// are allowed save those where no cluster is and something worth an attack often is. A file that is not right as a whole has no
// effect at all; a hub does not start with one, and goes on with the policy before if it changes into one.
package policy
