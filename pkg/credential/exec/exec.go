// Copyright Contributors to the Open Cluster Management project

// Package exec is a stub.
package exec

import (
	"context"
	"errors"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

// Options configure the resolver.
type Options struct {
	// Policy returns what the administrator allows now. Required.
	Policy func() *policy.Policy
	// Tokens holds the tokens. Required.
	Tokens *tokensource.Cache
	// Directory holds the plugins. Without one no plugin runs.
	Directory string
	// Kubeconfig are the choices of the kubeconfig resolver.
	Kubeconfig credential.KubeconfigOptions
	// Clock is the time. Default: that of the machine.
	Clock clock.PassiveClock
}

type resolver struct{ options Options }

// New returns the resolver.
func New(o Options) credential.StanzaResolver { return &resolver{options: o} }

// Resolve implements credential.Resolver.
func (r *resolver) Resolve(ctx context.Context, req credential.Request) (*rest.Config, error) {
	return nil, errors.New("not there yet")
}

// ResolveStanza implements credential.StanzaResolver.
func (r *resolver) ResolveStanza(ctx context.Context, req credential.Request, kubeconfig *restconfig.Kubeconfig) (*rest.Config, error) {
	return nil, errors.New("not there yet")
}
