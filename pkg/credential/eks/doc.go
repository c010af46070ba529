// Copyright Contributors to the Open Cluster Management project

// Package eks is the credential resolver for clusters of Amazon EKS. It makes the tokens that the AWS CLI and the AWS IAM
// Authenticator make, in this process, from the workload identity of the hub.
//
// # Usage
//
// An import Secret holds the kubeconfig as one of these tools wrote it, or names the cluster in credential.yaml
// (credential.EKSParameters). The rule of the policy for its namespace says which roles may be assumed, with which external id,
// and whether the hub's own role may be used.
//
// The workload identity is that of the platform: IAM roles for service accounts (AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE),
// or else EKS Pod Identity (AWS_CONTAINER_CREDENTIALS_FULL_URI and AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE). Nothing else is
// looked at: no profile, no shared file, no key in the environment, no instance metadata.
//
// # What it promises
//
// A token is signed only after EKS has said that the server and the CA of the kubeconfig are those of the cluster that the token
// is for, or if the administrator pinned them. Such a token is good for that one cluster, but the API server of the cluster can
// use it as long as it lives, like any bearer token.
//
// # Trade-offs
//
// A token is a signed request to the Security Token Service (STS) that the API server of the cluster sends. The host in it is
// always the public name of STS in the region of the cluster, since EKS accepts no other; clouds.aws.sts in the policy is for the
// requests that the hub itself sends. Those go to the region of the hub (AWS_REGION), or else to that of the cluster: a hub in a
// private network reaches its own region only, and the credentials are good in all.
//
// Credentials of AWS are kept only while a token is made, so that each token costs one to three requests. The tokens are kept, see
// package tokensource.
package eks
