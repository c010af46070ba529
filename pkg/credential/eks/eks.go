// Copyright Contributors to the Open Cluster Management project

// Package eks is a stub.
package eks

import (
	"context"
	"errors"

	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/cloud"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

type resolver struct{ options cloud.Options }

// New returns the resolver.
func New(o cloud.Options) credential.StanzaResolver {
	o.Default()
	return &resolver{options: o}
}

// Resolve implements credential.Resolver.
func (r *resolver) Resolve(ctx context.Context, req credential.Request) (*rest.Config, error) {
	return nil, errors.New("not there yet")
}

// ResolveStanza implements credential.StanzaResolver.
func (r *resolver) ResolveStanza(ctx context.Context, req credential.Request, kubeconfig *restconfig.Kubeconfig) (*rest.Config, error) {
	return nil, errors.New("not there yet")
}
