// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/policy"
)

// queued returns the names that wait in the importer's queue, and takes them.
func (f *fixture) queued() []string {
	var names []string
	for f.syncCtx.Queue().Len() > 0 {
		name, _ := f.syncCtx.Queue().Get()
		f.syncCtx.Queue().Done(name)
		names = append(names, name)
	}
	return names
}

func TestPolicyChanged(t *testing.T) {
	s, config := startSpoke(t, healthy)
	var current atomic.Pointer[policy.Policy]
	current.Store(policy.Default())
	f := newPolicyFixture(t, current.Load)
	f.provider.Register(f.syncCtx)
	f.set(partial(DefaultImportNamespace, testSecret, testCluster), partial(DefaultImportNamespace, "secret2", "cluster2"))
	f.resolver.Respond = func(_ context.Context, req credential.Request) (*rest.Config, error) {
		if req.ClusterName != testCluster {
			return nil, credential.Invalid(errors.New("mend it"))
		}
		return rest.CopyConfig(config), nil
	}
	ctx, _ := testContext(t)
	attempt := func(name string) error {
		_, err := f.provider.Clients(ctx, managedCluster(named(name)))
		return err
	}
	expect := func(what string, wantCalls int) {
		t.Helper()
		denied, invalid := attempt(testCluster), attempt("cluster2")
		if denied == nil || !strings.Contains(denied.Error(), ": PolicyDenied: ") || invalid == nil {
			t.Errorf("%s: got %v and %v", what, denied, invalid)
		}
		if got := len(f.resolver.Calls()); got != wantCalls {
			t.Errorf("%s: %d calls of the resolver, want %d", what, got, wantCalls)
		}
	}
	expect("at first", 2)
	expect("again", 2)
	f.recorder.take()

	current.Store(testPolicy(t, "endpoints: {denyCIDRs: [10.0.0.0/8]}"))
	f.provider.PolicyChanged()
	if got := f.queued(); len(got) != 1 || got[0] != testCluster {
		t.Errorf("woken: %q", got)
	}
	expect("denied by the new one too", 3)
	if events := f.recorder.take(); len(events) != 0 {
		t.Errorf("the same failure again has events: %v", events)
	}

	current.Store(loopbackPolicy())
	f.provider.PolicyChanged()
	if got := f.queued(); len(got) != 1 || got[0] != testCluster {
		t.Errorf("woken: %q", got)
	}
	if s.connectionCount() != 0 {
		t.Error("the cluster saw a connection")
	}
	if err := attempt(testCluster); err != nil {
		t.Errorf("allowed: %v", err)
	}
	f.provider.PolicyChanged()
	if got := f.queued(); len(got) != 0 {
		t.Errorf("woken after that: %q", got)
	}

	// What is stricter counts from the next attempt.
	current.Store(policy.Default())
	f.provider.PolicyChanged()
	if err := attempt(testCluster); err == nil {
		t.Error("allowed by a policy that is not in force any more")
	}
}

// TestPolicyChangesDuringAnAttempt: the attempt has asked the policy of before.
func TestPolicyChangesDuringAnAttempt(t *testing.T) {
	_, config := startSpoke(t, healthy)
	var current atomic.Pointer[policy.Policy]
	current.Store(policy.Default())
	f := newPolicyFixture(t, current.Load)
	f.provider.Register(f.syncCtx)
	f.set(partial(DefaultImportNamespace, testSecret, testCluster))
	f.resolver.Respond = func(context.Context, credential.Request) (*rest.Config, error) {
		if len(f.resolver.Calls()) > 1 {
			return rest.CopyConfig(config), nil
		}
		current.Store(loopbackPolicy())
		f.provider.PolicyChanged()
		return nil, credential.Denied(errors.New("the policy of before"))
	}
	ctx, _ := testContext(t)
	if _, err := f.provider.Clients(ctx, managedCluster()); err == nil {
		t.Fatal("not denied")
	}
	if got := f.queued(); len(got) != 1 || got[0] != testCluster {
		t.Errorf("woken: %q", got)
	}
	if _, err := f.provider.Clients(ctx, managedCluster()); err != nil {
		t.Errorf("got %v", err)
	}
}
