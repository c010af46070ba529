// Copyright Contributors to the Open Cluster Management project

// Package cloud is what the resolvers of the clouds have in common: where their clusters are, and that a token goes nowhere else.
package cloud

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
)

const (
	// requestTimeout bounds a request to a service of a cloud.
	requestTimeout = 15 * time.Second
	// MaxResponseBytes bounds an answer of a service of a cloud.
	MaxResponseBytes = 8 << 20
)

// Options are what the resolver of a cloud works with.
type Options struct {
	// Policy returns what the administrator allows now. Required.
	Policy func() *policy.Policy
	// Tokens holds the tokens. Required.
	Tokens *tokensource.Cache
	// Kubeconfig are the choices of the kubeconfig resolver.
	Kubeconfig credential.KubeconfigOptions
	// Clock is the time. Default: that of the machine.
	Clock clock.PassiveClock
	// HTTPClient sends requests to the services of the cloud, and to no managed cluster. Default: one that waits 15 s for an answer
	// and takes proxies from the environment. Whichever it is, Default makes a copy of it follow no redirect, so that no credential
	// goes elsewhere, and fail to read an answer beyond MaxResponseBytes.
	HTTPClient *http.Client
	// Getenv reads the environment, in which the hub's platform says where its workload identity is. Default: os.Getenv.
	Getenv func(string) string
}

// Default sets the fields that have defaults.
func (o *Options) Default() {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.HTTPClient == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone() // it is one by its documentation.
		transport.ResponseHeaderTimeout = requestTimeout
		o.HTTPClient = &http.Client{Transport: transport, Timeout: requestTimeout}
	}
	o.HTTPClient = Bounded(o.HTTPClient)
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
}

// Bounded returns a copy of a client that follows no redirect, and whose answers can't be read beyond MaxResponseBytes.
func Bounded(client *http.Client) *http.Client {
	copied := *client
	copied.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	next := copied.Transport
	if next == nil {
		next = http.DefaultTransport
	}
	copied.Transport = bounded{next}
	return &copied
}

type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, MaxResponseBytes)
	return resp, nil
}

// Endpoint is where a cloud says that a cluster is.
type Endpoint struct {
	// Servers are the addresses of the API server, https://host[:port]; the first is the one to use by default.
	Servers []string
	// CA is what Servers are verified with, in PEM form.
	CA []byte
	// PublicServers are further addresses, which have a certificate of a public authority and are verified without CA.
	PublicServers []string
}

// ErrOtherEndpoint is a DeniedError: what was given leads elsewhere than to the cluster that it names.
var ErrOtherEndpoint = credential.Denied(errors.New("the server or the CA is not that of the cluster that the credential is for, as the cloud " +
	"reports it: correct it, or let the administrator of the hub add it to endpoints.pinned"))

// ErrNoCA is a DeniedError: what was given has no CA, which is right only at a server with a certificate of a public authority.
var ErrNoCA = credential.Denied(errors.New("no CA is given, and the server is not one of the cluster that has a certificate of a public " +
	"authority, as the cloud reports it: put the CA of the cluster into certificate-authority-data, or correct the server"))

// Binding returns nil if a token may be sent to the server of a config: the cloud reports it, with its CA or as one without. The
// error is ErrOtherEndpoint or ErrNoCA.
func (e Endpoint) Binding(config *rest.Config) error {
	isOneOf := func(servers []string) bool {
		return slices.ContainsFunc(servers, func(server string) bool { return policy.SameServer(server, config.Host) })
	}
	switch {
	// With another TLS name it would be another server with a certificate of that authority.
	case config.Insecure, config.ServerName != "":
		return ErrOtherEndpoint
	case len(config.CAData) == 0:
		if !isOneOf(e.PublicServers) {
			return ErrNoCA
		}
	// Also at one of PublicServers: with a CA of the tenant, whoever answers for that name would get the token.
	case !isOneOf(e.Servers), !policy.SameCA(e.CA, config.CAData):
		return ErrOtherEndpoint
	}
	return nil
}

// Config is the config for a cluster without a kubeconfig: the first server, and the first public one if there is no other. The
// error is a MintError.
func (e Endpoint) Config() (*rest.Config, error) {
	switch {
	case len(e.Servers) > 0 && e.Servers[0] != "" && len(e.CA) > 0:
		return &rest.Config{Host: e.Servers[0], TLSClientConfig: rest.TLSClientConfig{CAData: slices.Clone(e.CA)}}, nil
	case len(e.Servers) == 0 && len(e.PublicServers) > 0:
		return &rest.Config{Host: e.PublicServers[0]}, nil
	}
	return nil, credential.MintFailed(errors.New("the cloud reports no endpoint of the cluster, or no CA"))
}

// WithTokens returns a copy of a config whose requests carry the tokens of a source. One token is minted at once, so that an
// error of the service is not taken for one of the cluster.
func WithTokens(ctx context.Context, config *rest.Config, source *tokensource.Source) (*rest.Config, error) {
	if _, err := source.Token(ctx); err != nil {
		return nil, err //nolint:wrapcheck // the caller adds the resolver.
	}
	config = rest.CopyConfig(config)
	// The copy shares the bytes of the CA, with which a Mint compares what the cloud reports.
	config.CAData = slices.Clone(config.CAData)
	config.WrapTransport = source.Wrap
	return config, nil
}

// Key is the key of a token for a config.
func Key(resolver string, req credential.Request, config *rest.Config, parameters string) tokensource.Key {
	return tokensource.Key{
		Resolver: resolver, SecretUID: req.Secret.UID, ResourceVersion: req.Secret.ResourceVersion,
		Endpoint: tokensource.EndpointOf(config.Host, config.CAData), Parameters: parameters,
	}
}
