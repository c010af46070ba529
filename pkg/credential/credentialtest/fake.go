// Copyright Contributors to the Open Cluster Management project

package credentialtest

import (
	"context"
	"slices"
	"sync"

	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/credential"
)

// Fake is a resolver that answers what it was told to and records its calls. It is safe for concurrent use; set the
// fields before the first call.
type Fake struct {
	// Config is the answer; each call gets a copy. Default: nil.
	Config *rest.Config
	// Err is the error of every call. Default: nil.
	Err error
	// Respond, if set, gives the answer in place of Config and Err.
	Respond credential.ResolverFunc

	lock  sync.Mutex // guards calls
	calls []credential.Request
}

var _ credential.Resolver = (*Fake)(nil)

// Resolve records the request and answers.
func (f *Fake) Resolve(ctx context.Context, req credential.Request) (*rest.Config, error) {
	f.lock.Lock()
	f.calls = append(f.calls, req)
	f.lock.Unlock()
	if f.Respond != nil {
		return f.Respond(ctx, req)
	}
	if f.Err != nil || f.Config == nil {
		return nil, f.Err
	}
	return rest.CopyConfig(f.Config), nil
}

// Calls returns the requests so far, in order.
func (f *Fake) Calls() []credential.Request {
	f.lock.Lock()
	defer f.lock.Unlock()
	return slices.Clone(f.calls)
}
