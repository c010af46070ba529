// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/pkg/credential"
)

func TestIdentity(t *testing.T) {
	const (
		recorded = AnnotationClusterUID
		isHub    = "HubAsSpoke: the cluster is the hub itself; " +
			"correct the Secret, or set label local-cluster=true of the ManagedCluster to import the hub"
		swapped = "ClusterSwapped: it leads to another cluster than the one that was imported under this name; correct the Secret, " +
			"or remove annotation import.open-cluster-management.io/kube-system-uid of the ManagedCluster to import this cluster instead"
		duplicate = "DuplicateCluster: the cluster is imported as ManagedCluster cluster2 already; " +
			"correct the Secret, or delete one of the two ManagedClusters"
		none     = "NotKubernetes: the cluster has no namespace kube-system; correct the server of the kubeconfig"
		noServer = "NotKubernetes: the server does not answer like a Kubernetes API server; correct the server of the kubeconfig"
	)
	cases := []struct {
		name    string
		answer  http.HandlerFunc // kubeSystem(clusterUID) when nil
		cluster *clusterv1.ManagedCluster
		others  []*clusterv1.ManagedCluster
		claimed map[types.UID]string
		want    string // none: it may be imported
	}{
		{name: "new", cluster: managedCluster()},
		{name: "imported before", cluster: managedCluster(annotated(recorded, clusterUID))},
		{name: "imported before, in the cache", cluster: managedCluster(annotated(recorded, clusterUID)),
			others: []*clusterv1.ManagedCluster{managedCluster(annotated(recorded, clusterUID))}},
		{name: "the hub", answer: kubeSystem(hubUID), cluster: managedCluster(), want: isHub},
		{name: "the hub, as it was before", answer: kubeSystem(hubUID), cluster: managedCluster(annotated(recorded, hubUID)), want: isHub},
		{name: "the hub, asked for", answer: kubeSystem(hubUID), cluster: managedCluster(labelled(LabelLocalCluster, "true"))},
		{name: "the hub, asked for by another value", answer: kubeSystem(hubUID), cluster: managedCluster(labelled(LabelLocalCluster, "yes")), want: isHub},
		{name: "the hub, asked for by its name", answer: kubeSystem(hubUID), cluster: managedCluster(named(LabelLocalCluster)), want: isHub},
		{name: "another cluster with the label of the hub", cluster: managedCluster(labelled(LabelLocalCluster, "true"))},
		{name: "swapped", cluster: managedCluster(annotated(recorded, "other")), want: swapped},
		{name: "swapped for the hub", answer: kubeSystem(hubUID), cluster: managedCluster(annotated(recorded, "other"), labelled(LabelLocalCluster, "true")),
			want: swapped},
		{name: "swapped, and answered", cluster: managedCluster(annotated(recorded, ""))},
		{name: "recorded on another", cluster: managedCluster(),
			others: []*clusterv1.ManagedCluster{managedCluster(named("cluster2"), annotated(recorded, clusterUID))}, want: duplicate},
		{name: "recorded on both", cluster: managedCluster(annotated(recorded, clusterUID)),
			others: []*clusterv1.ManagedCluster{managedCluster(named("cluster2"), annotated(recorded, clusterUID))}, want: duplicate},
		{name: "recorded on several", cluster: managedCluster(),
			others: []*clusterv1.ManagedCluster{
				managedCluster(named("cluster3"), annotated(recorded, clusterUID)),
				managedCluster(named("cluster2"), annotated(recorded, clusterUID)),
				managedCluster(named("cluster4"), annotated(recorded, clusterUID)),
			}, want: duplicate},
		{name: "others are of other clusters", cluster: managedCluster(),
			others: []*clusterv1.ManagedCluster{managedCluster(named("cluster2"), annotated(recorded, "other")), managedCluster(named("cluster3"))}},
		{name: "claimed by another import", cluster: managedCluster(), claimed: map[types.UID]string{clusterUID: "cluster2"}, want: duplicate},
		{name: "claimed by itself", cluster: managedCluster(), claimed: map[types.UID]string{clusterUID: testCluster, "other": "cluster2"}},
		{name: "no namespace", answer: answer(http.StatusNotFound, notFoundJSON), cluster: managedCluster(), want: none},
		{name: "no UID", answer: kubeSystem(""), cluster: managedCluster(), want: none},
		{name: "no Kubernetes", answer: answer(http.StatusOK, "<html>"+sentinel), cluster: managedCluster(), want: noServer},
		{name: "forbidden", answer: answer(http.StatusForbidden, sentinel), cluster: managedCluster(),
			want: "Forbidden: the credential may not do all that an import does; " + reasonInfos[ReasonForbidden].next},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			for _, other := range c.others {
				f.setCluster(other)
			}
			for uid, name := range c.claimed {
				f.setCluster(managedCluster(named(name)))
				f.claim(name, uid)
			}
			if c.answer == nil {
				c.answer = kubeSystem(clusterUID)
			}
			_, config := startSpoke(t, apiServer(map[string]http.HandlerFunc{kubeSystemPath: c.answer}))
			ctx, logs := testContext(t)
			got := ""
			if err := f.provider.preflight(ctx, mustConnect(t, config, patient()), c.cluster); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			expectNoSecret(t, "text", got)
			expectNoSecret(t, "log", logs.String())
			if claimed := f.claimed(c.cluster.Name); (claimed != "") != (c.want == "") {
				t.Errorf("claimed %q", claimed)
			}
		})
	}
}

// The namespace kube-system of the hub lives as long as the hub.
func TestHubIsReadOnce(t *testing.T) {
	f := newFixture(t)
	fail := true
	reads := 0
	f.kube.PrependReactor("get", "namespaces", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if name := action.(clienttesting.GetAction).GetName(); name != "kube-system" {
			t.Errorf("reads namespace %s", name)
		}
		reads++
		return fail, nil, apierrors.NewForbidden(clusterv1.Resource("namespaces"), "kube-system", errors.New(sentinel))
	})
	_, config := startSpoke(t, apiServer(map[string]http.HandlerFunc{kubeSystemPath: kubeSystem(hubUID)}))
	ctx, _ := testContext(t)
	for i, c := range []struct {
		fail  bool
		want  Reason
		reads int
	}{
		{true, ReasonHubReadFailed, 1},
		{true, ReasonHubReadFailed, 2},
		{false, ReasonHubAsSpoke, 3},
		{true, ReasonHubAsSpoke, 3},
	} {
		fail = c.fail
		err := f.provider.preflight(ctx, mustConnect(t, config, patient()), managedCluster())
		var p *problem
		if !errors.As(err, &p) || p.reason != c.want || reads != c.reads {
			t.Errorf("step %d: got %v after %d reads, want %s after %d", i, err, reads, c.want, c.reads)
		}
		if c.want == ReasonHubReadFailed {
			if want := "HubReadFailed: the hub's namespace kube-system cannot be read; " + reasonInfos[c.want].next; err.Error() != want {
				t.Errorf("got  %s\nwant %s", err, want)
			}
			if !apierrors.IsForbidden(err) {
				t.Error("the log does not say why")
			}
		}
	}
}

func (f *fixture) claim(name string, uid types.UID) (other string) {
	return f.provider.identities.claim(managedCluster(named(name)), uid)
}

func (f *fixture) claimed(name string) types.UID {
	return f.provider.identities.claimed(managedCluster(named(name)))
}

// imports is a fixture with two ManagedClusters whose Secrets lead to one cluster, and what the importer is woken for.
func imports(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t)
	f.provider.Register(f.syncCtx)
	_, config := startSpoke(t, healthy)
	f.respond(config, nil)
	for _, name := range []string{"a", "b"} {
		f.set(partial(DefaultImportNamespace, name, name))
		f.setCluster(managedCluster(named(name)))
	}
	return f
}

// woken returns the clusters that the importer was woken for, once each.
func (f *fixture) woken() []string {
	var result []string
	for f.syncCtx.Queue().Len() > 0 {
		key, _ := f.syncCtx.Queue().Get()
		f.syncCtx.Queue().Done(key)
		result = append(result, key)
	}
	slices.Sort(result)
	return result
}

func expectReason(t *testing.T, step string, cluster *clusterv1.ManagedCluster, want Reason) {
	t.Helper()
	condition := meta.FindStatusCondition(cluster.Status.Conditions, ConditionPreflightPassed)
	if condition == nil || condition.Reason != string(want) {
		t.Errorf("%s: got %+v, want %s", step, condition, want)
	}
}

// Until the UID is recorded, the first import has the cluster.
func TestOneClusterUnderTwoNames(t *testing.T) {
	f := imports(t)
	a, b := managedCluster(named("a")), managedCluster(named("b"))
	_ = f.tryImport(a)
	expectReason(t, "the first", a, ReasonPreflightPassed)
	_ = f.tryImport(b)
	expectReason(t, "the second", b, ReasonDuplicateCluster)
	_ = f.tryImport(a)
	expectReason(t, "the first again", a, ReasonPreflightPassed)

	// After it is recorded, without a claim.
	annotated(AnnotationClusterUID, clusterUID)(a)
	f.setCluster(a)
	f.provider.identities.release("a")
	f.elapseBackOff()
	_ = f.tryImport(b)
	expectReason(t, "the second, after the first is imported", b, ReasonDuplicateCluster)

	// The deletion of the first is what the second waits for, not the back-off.
	if err := f.provider.clusters.Informer().GetIndexer().Delete(a); err != nil {
		t.Fatal(err)
	}
	f.woken()
	f.provider.forgetCluster("a")
	if woken := f.woken(); !slices.Equal(woken, []string{"b"}) {
		t.Errorf("woken: %v", woken)
	}
	_ = f.tryImport(b)
	expectReason(t, "the second, after the first is deleted", b, ReasonPreflightPassed)
}

func TestClaimsOfFailedImports(t *testing.T) {
	failure := credential.Pending(errors.New("not there yet"), 0)
	for name, fail := range map[string]func(f *fixture, config *rest.Config){
		"before the cluster is asked": func(f *fixture, _ *rest.Config) { f.respond(nil, failure) },
		"after it is known": func(f *fixture, _ *rest.Config) {
			_, config := startSpoke(f.t, apiServer(map[string]http.HandlerFunc{
				klusterletPath: answer(http.StatusOK, `{"kind":"Klusterlet","spec":{"clusterName":"other"}}`),
			}))
			f.respond(config, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := imports(t)
			a, b := managedCluster(named("a")), managedCluster(named("b"))
			config, err := f.resolver.Respond(t.Context(), credential.Request{})
			if err != nil {
				t.Fatal(err)
			}
			_ = f.tryImport(a)
			expectReason(t, "the first", a, ReasonPreflightPassed)
			fail(f, config)
			if err := f.tryImport(a); err == nil {
				t.Fatal("no error")
			}
			f.respond(config, nil)
			_ = f.tryImport(b)
			expectReason(t, "the second, after the first failed", b, ReasonPreflightPassed)
		})
	}
}

// A Secret that is deleted before its cluster is imported leaves the cluster to another name.
func TestClaimOfAnImportThatIsGivenUp(t *testing.T) {
	f := imports(t)
	a, b := managedCluster(named("a")), managedCluster(named("b"))
	_ = f.tryImport(a)
	f.unset(partial(DefaultImportNamespace, "a", "a"))
	_ = f.tryImport(a)
	expectReason(t, "the first", a, ReasonSecretNotFound)
	_ = f.tryImport(b)
	expectReason(t, "the second", b, ReasonPreflightPassed)
}

// A name has one cluster: that of its last preflight.
func TestClaimOfAnotherCluster(t *testing.T) {
	f := newFixture(t)
	f.setCluster(managedCluster(named("a")))
	for n := range 20 {
		uid := types.UID(fmt.Sprintf("uid%d", n))
		if other := f.claim("a", uid); other != "" {
			t.Fatalf("%s is claimed by %s", uid, other)
		}
		if claimed := f.claimed("a"); claimed != uid {
			t.Fatalf("claimed %s, want %s", claimed, uid)
		}
	}
	if other := f.claim("b", "uid0"); other != "" {
		t.Errorf("the first is still claimed by %s", other)
	}
}

func TestClaims(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"a", "b", "c"} {
		f.setCluster(managedCluster(named(name)))
	}
	expect := func(step, name string, uid types.UID, want string) {
		t.Helper()
		if other := f.claim(name, uid); other != want {
			t.Errorf("%s: %s of %s is claimed by %q, want %q", step, uid, name, other, want)
		}
	}
	expect("first", "a", "1", "")
	expect("again", "a", "1", "")
	expect("by another", "b", "1", "a")
	expect("another cluster", "b", "2", "")
	if a, b, c := f.claimed("a"), f.claimed("b"), f.claimed("c"); a != "1" || b != "2" || c != "" {
		t.Errorf("claimed are %q, %q, %q", a, b, c)
	}
	f.provider.identities.release("a")
	expect("released", "c", "1", "")
	expect("not released", "c", "2", "b")
}

// Of two imports of one cluster at the same time, one passes.
func TestClaimsAtTheSameTime(t *testing.T) {
	const names = 8
	f := newFixture(t)
	for n := range names {
		f.setCluster(managedCluster(named(fmt.Sprintf("cluster%d", n))))
	}
	start, results := make(chan struct{}), make(chan bool, names)
	for n := range names {
		go func() {
			<-start
			results <- f.claim(fmt.Sprintf("cluster%d", n), clusterUID) == ""
		}()
	}
	close(start)
	passed := 0
	for range names {
		if <-results {
			passed++
		}
	}
	if passed != 1 {
		t.Errorf("%d imports of one cluster pass", passed)
	}
}

// A ManagedCluster that is deleted leaves nothing behind, and wakes those that failed because of it.
func TestForgetCluster(t *testing.T) {
	f := newFixture(t)
	f.provider.Register(f.syncCtx)
	for name, reason := range map[string]Reason{
		"a": ReasonUnreachable, "b": ReasonDuplicateCluster, "c": ReasonDuplicateCluster, "d": ReasonUnauthorized,
	} {
		_, _ = f.provider.failures.add(attempt{clusterName: name}, "text", &problem{reason: reason})
	}
	f.claim("a", clusterUID)
	f.claim("d", "other")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if err := f.clusters.Tracker().Add(managedCluster(named("a"))); err != nil {
		t.Fatal(err)
	}
	f.informer.Start(ctx.Done())
	f.informer.WaitForCacheSync(ctx.Done())
	if err := f.clusters.ClusterV1().ManagedClusters().Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var woken []string
	eventually(t, "two are woken", func() bool {
		woken = append(woken, f.woken()...)
		return len(woken) == 2
	})
	slices.Sort(woken)
	if !slices.Equal(woken, []string{"b", "c"}) {
		t.Errorf("woken: %v", woken)
	}
	for name, pending := range map[string]bool{"a": false, "b": false, "c": false, "d": true} {
		if _, err := f.provider.failures.pending(attempt{clusterName: name}); (err != nil) != pending {
			t.Errorf("%s: the last failure is %v", name, err)
		}
	}
	if a, d := f.claimed("a"), f.claimed("d"); a != "" || d != "other" {
		t.Errorf("claimed are %q and %q", a, d)
	}
}
