// Copyright Contributors to the Open Cluster Management project

package credential

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

// Annotations that a user sets on the import Secret. They are API: a change goes through the changelog.
const (
	// AnnotationCredentialResolver is the name of the resolver. Default: the one that Document names; else the one that serves
	// the exec stanza of the kubeconfig; else ResolverKubeconfig.
	AnnotationCredentialResolver = "import.open-cluster-management.io/credential-resolver"
	// AnnotationKubeconfigKey is the data key that holds the kubeconfig. Default: the first that the Secret has of
	// kubeconfig, value, value.yaml, config, admin.conf.
	AnnotationKubeconfigKey = "import.open-cluster-management.io/kubeconfig-key"
	// AnnotationKubeconfigContext is the context of the kubeconfig to use. Default: the file's current-context; if that is
	// empty and the file has one context, that one.
	AnnotationKubeconfigContext = "import.open-cluster-management.io/kubeconfig-context"
)

// Names of the built-in resolvers.
const (
	// ResolverKubeconfig is for Secrets that hold a kubeconfig. See NewKubeconfigResolver.
	ResolverKubeconfig = "kubeconfig"
	// ResolverToken is for Secrets that hold server, token and maybe ca.crt. See NewTokenResolver.
	ResolverToken = "token"
	// ResolverEKS is for clusters of Amazon EKS. See package eks.
	ResolverEKS = "eks"
	// ResolverGKE is for clusters of Google Kubernetes Engine. See package gke.
	ResolverGKE = "gke"
	// ResolverAKS is for clusters of Azure Kubernetes Service. See package aks.
	ResolverAKS = "aks"
	// ResolverExec is for plugins that the administrator provides. See package exec.
	ResolverExec = "exec"
	// ResolverClusterProfile is for ClusterProfiles on the hub. See package clusterprofile.
	ResolverClusterProfile = "clusterprofile"
)

// Request is what a resolver works from.
type Request struct {
	// ClusterName is the name of the ManagedCluster that is being imported.
	ClusterName string
	// Secret is the import Secret, with its data. A resolver must not change it; a Set hands out a deep copy all the same.
	Secret *corev1.Secret
}

// Resolver turns an import Secret into a rest.Config.
type Resolver interface {
	// Resolve returns a new rest.Config for the cluster, which the caller may change. It is called for every import
	// attempt and from several goroutines at once, and returns soon after ctx is done.
	//
	// The error is an *InvalidError if a person must change the input, a *DeniedError if the administrator's options do not
	// allow what the input asks for, a *PendingError if the input is fine but not ready yet, a *MintError if a service refused or
	// failed to give a credential, a *ClusterError if the managed cluster did, and any other error for what is unexpected. Its text
	// reaches a condition that everyone who may read the ManagedCluster sees, and whose change starts another attempt: it holds no
	// value of the Secret, and is the same for the same failure (no time, port, counter or order of a map). It names the data key or
	// annotation; the caller names the Secret.
	Resolve(ctx context.Context, req Request) (*rest.Config, error)
}

// ResolverFunc is a function that is a Resolver.
type ResolverFunc func(ctx context.Context, req Request) (*rest.Config, error)

var _ Resolver = ResolverFunc(nil)

// Resolve calls f.
func (f ResolverFunc) Resolve(ctx context.Context, req Request) (*rest.Config, error) {
	return f(ctx, req)
}
