// Copyright Contributors to the Open Cluster Management project

// Package credentialtest helps those who write a credential resolver or code that uses one: a conformance suite that
// every resolver must pass, and a fake that records its calls.
//
// # Usage
//
//	func TestConformance(t *testing.T) {
//		credentialtest.RunConformance(t, credentialtest.Suite{
//			Resolver:    mycloud.New(...),
//			ValidSecret: func() *corev1.Secret { ... },
//			InvalidSecrets: map[string]*corev1.Secret{
//				"no account": {...},
//			},
//		})
//	}
//
// # Trade-offs
//
// The suite sees a resolver from the outside only. It cannot tell whether a resolver reads files or runs programs, nor
// whether it leaks a value that it got from elsewhere; a resolver's own tests do that.
package credentialtest
