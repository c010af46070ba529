// Copyright Contributors to the Open Cluster Management project

// Package aws is a fake of the parts of AWS that the resolver eks talks to: the Security Token Service (STS), the API of EKS and
// the agent of EKS Pod Identity, and of what the API server of a cluster does with a token.
//
// # Usage
//
//	fake := aws.New(aws.Options{})
//	defer fake.Close()
//	fake.AddRole(aws.Role{ARN: hub, WebIdentityToken: "..."})
//	fake.AddRole(aws.Role{ARN: spoke, TrustedRole: hub, ExternalID: "..."})
//	fake.AddCluster(aws.Cluster{Name: "c", Region: "eu-central-1", Endpoint: server, CA: ca, Roles: []string{spoke}})
//
// Let the resolver send to fake.STS.URL and fake.EKS.URL with fake.Client(), and see fake.Requests() and fake.Verify(token) after.
//
// # Trade-offs
//
// Signatures are computed here a second time, from the documentation of Signature Version 4 and without the SDK: a fake that
// calls the code under test proves nothing. It knows only what the resolver may ask for, and refuses all else.
package aws
