// Copyright Contributors to the Open Cluster Management project

package credential

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/restconfig"
)

// Data keys of the token resolver: token and ca.crt as in the Secret of a service account, server as ACM has it.
const (
	tokenKeyServer = "server"
	tokenKeyToken  = "token"
	tokenKeyCA     = "ca.crt"
)

type tokenResolver struct{}

// NewTokenResolver returns the resolver for Secrets with the data keys server (https://host:port), token (a bearer token)
// and ca.crt (PEM). Without ca.crt the server is verified with the roots of the system: its absence never means that the server is
// not verified. Other keys, such as ACM's autoImportRetry, are not read.
//
// Every error is an InvalidError, except that of a context that is done.
func NewTokenResolver() Resolver { return tokenResolver{} }

// Resolve implements Resolver.
func (tokenResolver) Resolve(ctx context.Context, req Request) (*rest.Config, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if req.Secret == nil {
		return nil, errors.New("the request has no secret")
	}
	data := req.Secret.Data
	cfg, err := restconfig.FromToken(string(data[tokenKeyServer]), data[tokenKeyCA], string(data[tokenKeyToken]))
	if err != nil {
		// The fields of FromToken have the names of the data keys.
		return nil, Invalid(fmt.Errorf("data key %w", err))
	}
	return cfg, nil
}
