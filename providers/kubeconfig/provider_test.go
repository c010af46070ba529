// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/ocm/pkg/common/helpers"
	"open-cluster-management.io/ocm/pkg/registration/hub/importer/providers/capi"

	"open-cluster-management.io/import-provider/pkg/credential"
)

func TestNew(t *testing.T) {
	cases := []struct {
		name string
		edit func(*Options)
		want string // no error when empty
	}{
		{"all that is required", func(*Options) {}, ""},
		{"KubeClient", func(o *Options) { o.KubeClient = nil }, "option KubeClient is required"},
		{"MetadataClient", func(o *Options) { o.MetadataClient = nil }, "option MetadataClient is required"},
		{"ClusterClient", func(o *Options) { o.ClusterClient = nil }, "option ClusterClient is required"},
		{"ManagedClusters", func(o *Options) { o.ManagedClusters = nil }, "option ManagedClusters is required"},
		{"Resolvers", func(o *Options) { o.Resolvers = nil }, "option Resolvers is required"},
		{"Plan", func(o *Options) { o.Plan = nil }, "option Plan is required"},
		{"Recorder", func(o *Options) { o.Recorder = nil }, "option Recorder is required"},
		{"timeout", func(o *Options) { o.Connection.DialTimeout = -time.Second },
			"option Connection: dial-timeout: must be above 0 and at most 10m0s, not -1s"},
		{"namespace", func(o *Options) { o.ImportNamespaces = []string{"good", "Not_Good"} },
			`option ImportNamespaces: "Not_Good" is not the name of a namespace`},
		{"empty namespace, which is all of them", func(o *Options) { o.ImportNamespaces = []string{""} },
			`option ImportNamespaces: "" is not the name of a namespace`},
		{"namespace twice", func(o *Options) { o.ImportNamespaces = []string{"a", "b", "a"} }, `option ImportNamespaces: "a" stands twice`},
		{"no import namespace at all", func(o *Options) { o.ImportNamespaces = []string{} }, ""},
		{"informer of another provider", func(o *Options) { o.ManagedClusters = newFixture(t).options().ManagedClusters },
			"indexing ManagedClusters by cluster: "},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			o := f.options()
			o.ManagedClusters = clusterinformers.NewSharedInformerFactory(f.clusters, 0).Cluster().V1().ManagedClusters()
			c.edit(&o)
			provider, err := New(o)
			if c.want == "" {
				if err != nil || provider == nil {
					t.Errorf("got %v, %v", provider, err)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestNewDefaults(t *testing.T) {
	p := newFixture(t).provider
	var want ConnectionOptions
	want.Default()
	if diff := cmp.Diff(want, p.connection); diff != "" {
		t.Errorf("connection (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{DefaultImportNamespace}, p.secrets.importNamespaces); diff != "" {
		t.Errorf("import namespaces (-want +got):\n%s", diff)
	}
	if p.clusterAPI != nil {
		t.Error("clusters of Cluster API are declined by default")
	}
	none := newFixture(t, func(o *Options) { o.ImportNamespaces = []string{} }).provider
	if len(none.secrets.informers) != 1 {
		t.Errorf("without import namespaces %d informers watch", len(none.secrets.informers))
	}
}

// requeue returns what the importer finds in an error.
func requeue(err error) (time.Duration, bool) {
	var requeue helpers.RequeueError
	found := errors.As(err, &requeue)
	return requeue.RequeueTime, found
}

func expectRetry(t *testing.T, err error, want time.Duration) {
	t.Helper()
	got, ok := requeue(err)
	if !ok {
		t.Errorf("the importer finds no time to try again in %v", err)
		return
	}
	if got < want-time.Second || got > want+time.Duration(float64(want)*retryJitter) {
		t.Errorf("tried again after %s, want %s and at most a fifth more", got, want)
	}
}

var ignoreTransitionTime = cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")

func TestClientsOutcome(t *testing.T) {
	placed := partial(DefaultImportNamespace, testSecret, testCluster)
	second := partial(testCluster, SecretName, testCluster)
	fail := func(err error) func(*fixture) {
		return func(f *fixture) {
			f.set(placed)
			f.resolver.Err = err
		}
	}
	importer := time.Duration(-1) // by the importer's own back-off
	cases := []struct {
		name    string
		prepare func(*fixture)
		secret  string // whose key the text has, that of placed when empty
		reason  Reason // none: nil, nil
		detail  string
		retry   time.Duration
		calls   int
	}{
		{name: "no Secret", prepare: func(*fixture) {}},
		{
			name: "Secret is gone since",
			prepare: func(f *fixture) {
				f.cacheOnly(placed)
			},
		},
		{
			name: "annotation is gone since",
			prepare: func(f *fixture) {
				f.set(partial(DefaultImportNamespace, testSecret, "-"))
				f.cacheOnly(placed)
			},
		},
		{
			name: "annotation names another cluster since",
			prepare: func(f *fixture) {
				f.set(partial(DefaultImportNamespace, testSecret, "cluster2"))
				f.cacheOnly(placed)
			},
			reason: ReasonSecretMisplaced, detail: "its annotation names another cluster", retry: invalidRetry,
		},
		{
			name:    "misplaced only",
			prepare: func(f *fixture) { f.set(partial(testCluster, SecretName, "cluster2")) },
			secret:  testCluster + "/" + SecretName,
			reason:  ReasonSecretMisplaced, detail: "its annotation names another cluster", retry: invalidRetry,
		},
		{
			name:    "two Secrets",
			prepare: func(f *fixture) { f.set(placed, second) },
			secret:  objectKey(second),
			reason:  ReasonSecretAmbiguous, retry: invalidRetry,
			detail: "it is not the only one for this cluster: " + objectKey(second) + ", " + objectKey(placed),
		},
		{
			name: "many Secrets",
			prepare: func(f *fixture) {
				for _, name := range []string{"g", "f", "e", "d", "c", "b", "a"} {
					f.set(partial(DefaultImportNamespace, name, testCluster))
				}
			},
			secret: DefaultImportNamespace + "/a",
			reason: ReasonSecretAmbiguous, retry: invalidRetry,
			detail: "it is not the only one for this cluster: " + strings.ReplaceAll("NS/a, NS/b, NS/c, NS/d, NS/e and 2 more", "NS", DefaultImportNamespace),
		},
		{
			name: "the hub does not answer",
			prepare: func(f *fixture) {
				f.set(placed)
				f.kube.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
					return true, nil, errors.New("etcd: port 12345")
				})
			},
			reason: ReasonHubReadFailed, detail: "it cannot be read from the hub", retry: importer,
		},
		{
			name: "resolver that is not enabled",
			prepare: func(f *fixture) {
				f.set(partial(DefaultImportNamespace, testSecret, testCluster, func(object *metav1.PartialObjectMetadata) {
					object.Annotations[credential.AnnotationCredentialResolver] = sentinel
				}))
			},
			reason: ReasonPolicyDenied, retry: invalidRetry,
			detail: "its credential resolver is not enabled: set the annotation " + credential.AnnotationCredentialResolver + " to one of kubeconfig, or let the administrator of the hub allow it",
		},
		{
			name:    "invalid",
			prepare: fail(credential.Invalid(errors.New("data key value: broken; mend it"))),
			reason:  ReasonCredentialInvalid, detail: "credential resolver kubeconfig: data key value: broken; mend it",
			retry: invalidRetry, calls: 1,
		},
		{
			name: "config that breaks a rule",
			prepare: func(f *fixture) {
				f.set(placed)
				f.resolver.Config = &rest.Config{Host: "https://example.com", TLSClientConfig: rest.TLSClientConfig{CAData: newAuthority(f.t).pem}}
			},
			reason: ReasonKubeconfigInvalid, retry: invalidRetry, calls: 1,
			detail: "credential resolver kubeconfig: rest.Config.BearerToken is missing: give a token, or a client certificate with its key",
		},
		{
			name:    "pending",
			prepare: fail(credential.Pending(errors.New("not there yet"), 0)),
			reason:  ReasonCredentialPending, detail: "credential resolver kubeconfig: not there yet",
			retry: firstRetry, calls: 1,
		},
		{
			name:    "pending, with a time",
			prepare: fail(credential.Pending(errors.New("not there yet"), 42*time.Second)),
			reason:  ReasonCredentialPending, detail: "credential resolver kubeconfig: not there yet",
			retry: 42 * time.Second, calls: 1,
		},
		{
			name:    "pending, with a time below zero",
			prepare: fail(credential.Pending(errors.New("not there yet"), -time.Second)),
			reason:  ReasonCredentialPending, detail: "credential resolver kubeconfig: not there yet",
			retry: firstRetry, calls: 1,
		},
		{
			name:    "pending, with a time that is very long",
			prepare: fail(credential.Pending(errors.New("not there yet"), 24*time.Hour)),
			reason:  ReasonCredentialPending, detail: "credential resolver kubeconfig: not there yet",
			retry: lastRetry, calls: 1,
		},
		{
			name:    "unclassified",
			prepare: fail(errors.New("quotes " + testToken)),
			reason:  ReasonTokenMintFailed, detail: "the credential resolver failed; see the logs of the import controller", retry: firstRetry, calls: 1,
		},
		{
			name:    "neither config nor error",
			prepare: fail(nil),
			reason:  ReasonTokenMintFailed, detail: "the credential resolver failed; see the logs of the import controller", retry: firstRetry, calls: 1,
		},
		{
			name: "unreachable",
			prepare: func(f *fixture) {
				f.set(placed)
				listener := tcpListener(f.t, silent)
				_ = listener.Close()
				f.resolver.Config = &rest.Config{
					Host: "https://" + listener.Addr().String(), BearerToken: testToken,
					TLSClientConfig: rest.TLSClientConfig{CAData: newAuthority(f.t).pem},
				}
			},
			reason: ReasonUnreachable, detail: "the connection is refused", retry: firstRetry, calls: 1,
		},
		{
			name: "unauthorized",
			prepare: func(f *fixture) {
				f.set(placed)
				_, f.resolver.Config = startSpoke(f.t, answer(http.StatusUnauthorized, testToken))
			},
			reason: ReasonUnauthorized, detail: "the cluster's API server does not accept the credential", retry: firstRetry, calls: 1,
		},
		{
			name: "throttled, with a time",
			prepare: func(f *fixture) {
				f.set(placed)
				_, f.resolver.Config = startSpoke(f.t, answer(http.StatusTooManyRequests, testToken, "Retry-After", "42"))
			},
			reason: ReasonServerFailed, detail: "the cluster's API server throttles", retry: 42 * time.Second, calls: 1,
		},
		{
			name: "too old",
			prepare: func(f *fixture) {
				f.set(placed)
				_, f.resolver.Config = startSpoke(f.t, apiServer(map[string]http.HandlerFunc{
					versionPath: answer(http.StatusOK, `{"gitVersion":"v1.15.0"}`),
				}))
			},
			reason: ReasonClusterTooOld, detail: "the cluster has Kubernetes 1.15, an import needs 1.16", retry: firstRetry, calls: 1,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			c.prepare(f)
			ctx, logs := testContext(t)
			cluster := managedCluster()
			clients, err := f.provider.Clients(ctx, cluster)
			if clients != nil {
				t.Error("clients are returned")
			}
			if c.reason == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			if c.secret == "" {
				c.secret = objectKey(placed)
			}
			message := (&problem{reason: c.reason, detail: c.detail}).message()
			if want := "import Secret " + c.secret + ": " + string(c.reason) + ": " + message; err == nil || err.Error() != want {
				t.Fatalf("got %v\nwant %s", err, want)
			}
			if c.retry != importer {
				expectRetry(t, err, c.retry)
			} else if after, ok := requeue(err); ok {
				t.Errorf("the importer's own back-off is replaced by %s", after)
			}
			if got := len(f.resolver.Calls()); got != c.calls {
				t.Errorf("%d calls of the resolver, want %d", got, c.calls)
			}
			conditions := ownConditions(cluster)
			if diff := cmp.Diff(map[string]metav1.Condition{ConditionPreflightPassed: {
				Type: ConditionPreflightPassed, Status: metav1.ConditionFalse, Reason: string(c.reason), Message: "import Secret " + c.secret + ": " + message,
			}}, conditions, ignoreTransitionTime); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
			// Another attempt that fails the same way has the same text, and nothing more to tell.
			f.recorder.take()
			f.elapseBackOff()
			if _, again := f.provider.Clients(ctx, cluster); again == nil || again.Error() != err.Error() {
				t.Errorf("the second text differs:\n%v\n%v", err, again)
			}
			if diff := cmp.Diff(conditions, ownConditions(cluster)); diff != "" {
				t.Errorf("the same failure changes the conditions (-first +second):\n%s", diff)
			}
			if events := f.recorder.take(); events != nil {
				t.Errorf("events for the same failure: %v", events)
			}
			expectNoSecret(t, "error", err.Error())
			expectNoSecret(t, "log", logs.String())
		})
	}
}

func TestClientsReady(t *testing.T) {
	f := newFixture(t)
	f.set(partial(testCluster, SecretName, testCluster))
	var s *spoke
	s, f.resolver.Config = startSpoke(t, healthy)
	ctx, _ := testContext(t)
	clients, err := f.provider.Clients(ctx, managedCluster())
	if err != nil || clients == nil {
		t.Fatalf("got %v, %v", clients, err)
	}
	if clients.KubeClient == nil || clients.APIExtClient == nil || clients.OperatorClient == nil || clients.DynamicClient == nil {
		t.Errorf("a client is missing: %+v", clients)
	}
	if diff := cmp.Diff(preflightRequests, s.requested()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	calls := f.resolver.Calls()
	if len(calls) != 1 || calls[0].ClusterName != testCluster || string(calls[0].Secret.Data["kubeconfig"]) != testToken {
		t.Errorf("the resolver is called with %+v", calls)
	}
}

func TestMisplacedSecretIsNotRead(t *testing.T) {
	f := newFixture(t)
	f.set(partial(testCluster, SecretName, "cluster2"))
	ctx, _ := testContext(t)
	for _, name := range []string{testCluster, "cluster2"} {
		cluster := managedCluster(named(name))
		if clients, _ := f.provider.Clients(ctx, cluster); clients != nil {
			t.Errorf("%s is imported with it", name)
		}
	}
	if calls := f.resolver.Calls(); len(calls) != 0 {
		t.Errorf("the resolver is called: %d times", len(calls))
	}
}

// Whatever wakes the importer, a cluster is tried no more often than its back-off says.
func TestBackOff(t *testing.T) {
	f := newFixture(t)
	placed := partial(DefaultImportNamespace, testSecret, testCluster)
	f.set(placed)
	f.resolver.Err = credential.Pending(errors.New("not there yet"), 0)
	ctx, _ := testContext(t)
	attempt := func() error {
		_, err := f.provider.Clients(ctx, managedCluster())
		return err
	}
	expectCalls := func(want int) {
		t.Helper()
		if got := len(f.resolver.Calls()); got != want {
			t.Fatalf("%d calls of the resolver, want %d", got, want)
		}
	}
	expectRetry(t, attempt(), firstRetry)
	for range 10 {
		expectRetry(t, attempt(), firstRetry)
	}
	expectCalls(1)
	f.elapseBackOff()
	expectRetry(t, attempt(), 2*firstRetry)
	expectCalls(2)
	// A changed Secret is tried at once, with a new back-off.
	f.cacheOnly(partial(DefaultImportNamespace, testSecret, testCluster, resourceVersion("2")))
	expectRetry(t, attempt(), firstRetry)
	expectCalls(3)
	expectRetry(t, attempt(), firstRetry)
	expectCalls(3)
	// So is one more Secret, and one fewer.
	second := partial(testCluster, SecretName, testCluster)
	f.set(second)
	if err := attempt(); !strings.Contains(err.Error(), string(ReasonSecretAmbiguous)) {
		t.Errorf("got %v", err)
	}
	f.unset(second)
	expectRetry(t, attempt(), firstRetry)
	expectCalls(4)
	// And one with another UID: it was deleted and created again.
	f.cacheOnly(partial(DefaultImportNamespace, testSecret, testCluster, resourceVersion("2"),
		func(object *metav1.PartialObjectMetadata) { object.UID = "new" }))
	expectRetry(t, attempt(), firstRetry)
	expectCalls(5)
	// Another cluster has a back-off of its own.
	f.set(partial(DefaultImportNamespace, "secret2", "cluster2"))
	_, _ = f.provider.Clients(ctx, managedCluster(named("cluster2")))
	expectCalls(6)
}

// What a person changes on the ManagedCluster is the answer to a failure, and is tried at once; all else is not.
func TestBackOffEndsWithAnAnswer(t *testing.T) {
	f := newFixture(t)
	f.set(partial(DefaultImportNamespace, testSecret, testCluster))
	f.resolver.Err = credential.Pending(errors.New("not there yet"), 0)
	ctx, _ := testContext(t)
	cluster := managedCluster()
	for i, c := range []struct {
		name  string
		edit  func(*clusterv1.ManagedCluster)
		calls int
	}{
		{"first", func(*clusterv1.ManagedCluster) {}, 1},
		{"nothing", func(*clusterv1.ManagedCluster) {}, 1},
		{"another annotation", annotated("example.com/x", "y"), 1},
		{"another label", labelled("example.com/x", "y"), 1},
		{"takeover", annotated(AnnotationTakeover, testHub), 2},
		{"the same takeover", annotated(AnnotationTakeover, testHub), 2},
		{"another takeover", annotated(AnnotationTakeover, testHub+"1"), 3},
		{"a UID", annotated(AnnotationClusterUID, clusterUID), 4},
		{"no UID", func(c *clusterv1.ManagedCluster) { delete(c.Annotations, AnnotationClusterUID) }, 5},
		{"the hub itself", labelled(LabelLocalCluster, "true"), 6},
		{"not the hub itself", func(c *clusterv1.ManagedCluster) { delete(c.Labels, LabelLocalCluster) }, 7},
	} {
		c.edit(cluster)
		if _, err := f.provider.Clients(ctx, cluster); err == nil {
			t.Errorf("step %d, %s: no error", i, c.name)
		}
		if got := len(f.resolver.Calls()); got != c.calls {
			t.Fatalf("step %d, %s: %d attempts, want %d", i, c.name, got, c.calls)
		}
	}
}

func TestFailureOfTheHubLeavesTheBackOffToTheImporter(t *testing.T) {
	f := newFixture(t)
	f.set(partial(DefaultImportNamespace, testSecret, testCluster))
	reads := 0
	f.kube.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		reads++
		return true, nil, errors.New("unexpected")
	})
	ctx, _ := testContext(t)
	for want := range 3 {
		_, _ = f.provider.Clients(ctx, managedCluster())
		if reads != want+1 {
			t.Errorf("%d reads of the Secret, want %d", reads, want+1)
		}
	}
}

func TestFailuresAreForgotten(t *testing.T) {
	placed := partial(DefaultImportNamespace, testSecret, testCluster)
	remembered := func(f *fixture) bool {
		f.provider.failures.lock.Lock()
		defer f.provider.failures.lock.Unlock()
		return len(f.provider.failures.byCluster) > 0
	}
	failed := func(t *testing.T) (context.Context, *fixture) {
		t.Helper()
		f := newFixture(t)
		f.set(placed)
		f.resolver.Respond = func(context.Context, credential.Request) (*rest.Config, error) {
			return nil, credential.Pending(errors.New("not there yet"), 0)
		}
		ctx, _ := testContext(t)
		if _, err := f.provider.Clients(ctx, managedCluster()); err == nil || !remembered(f) {
			t.Fatalf("nothing to forget: %v", err)
		}
		return ctx, f
	}
	t.Run("success", func(t *testing.T) {
		ctx, f := failed(t)
		_, config := startSpoke(t, healthy)
		f.resolver.Respond = func(context.Context, credential.Request) (*rest.Config, error) { return config, nil }
		f.elapseBackOff()
		if _, err := f.provider.Clients(ctx, managedCluster()); err != nil {
			t.Fatal(err)
		}
		if remembered(f) {
			t.Error("a failure is remembered")
		}
	})
	t.Run("Secret deleted", func(t *testing.T) {
		ctx, f := failed(t)
		f.unset(placed)
		if _, err := f.provider.Clients(ctx, managedCluster()); err != nil {
			t.Fatal(err)
		}
		if remembered(f) {
			t.Error("a failure is remembered")
		}
	})
	t.Run("ManagedCluster deleted", func(t *testing.T) {
		ctx, f := failed(t)
		if err := f.clusters.Tracker().Add(managedCluster()); err != nil {
			t.Fatal(err)
		}
		f.informer.Start(ctx.Done())
		f.informer.WaitForCacheSync(ctx.Done())
		if !remembered(f) {
			t.Fatal("forgotten too early")
		}
		if err := f.clusters.ClusterV1().ManagedClusters().Delete(ctx, testCluster, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the failure is forgotten", func() bool { return !remembered(f) })
	})
}

func TestEndOfTheProcessIsNoFailure(t *testing.T) {
	f := newFixture(t)
	f.set(partial(DefaultImportNamespace, testSecret, testCluster))
	ctx, _ := testContext(t)
	ctx, cancel := context.WithCancel(ctx)
	f.resolver.Respond = func(ctx context.Context, _ credential.Request) (*rest.Config, error) {
		cancel()
		return nil, ctx.Err()
	}
	if _, err := f.provider.Clients(ctx, managedCluster()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if len(f.provider.failures.byCluster) > 0 || f.recorder.take() != nil {
		t.Error("a failure is recorded")
	}
}

func TestResolverHasADeadline(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Connection.ImportTimeout = 50 * time.Millisecond })
	f.set(partial(DefaultImportNamespace, testSecret, testCluster))
	f.resolver.Respond = func(ctx context.Context, _ credential.Request) (*rest.Config, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	ctx, _ := testContext(t)
	_, err := f.provider.Clients(ctx, managedCluster())
	if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), string(ReasonTokenMintFailed)) {
		t.Errorf("got %v", err)
	}
}

func TestEventsOfFailures(t *testing.T) {
	f := newFixture(t)
	f.set(partial(DefaultImportNamespace, testSecret, testCluster))
	respond := func(err error) {
		f.resolver.Respond = func(context.Context, credential.Request) (*rest.Config, error) { return nil, err }
	}
	ctx, _ := testContext(t)
	attempt := func() []recordedEvent {
		t.Helper()
		f.elapseBackOff()
		if _, err := f.provider.Clients(ctx, managedCluster()); err == nil {
			t.Fatal("no error")
		}
		return f.recorder.take()
	}
	want := func(reason Reason) []string {
		return []string{
			"Warning " + string(reason) + " Secret " + DefaultImportNamespace + "/" + testSecret,
			"Warning " + string(reason) + " ManagedCluster /" + testCluster,
		}
	}
	respond(credential.Pending(errors.New("first"), 0))
	events := attempt()
	if diff := cmp.Diff(want(ReasonCredentialPending), subjects(events)); diff != "" {
		t.Errorf("first failure (-want +got):\n%s", diff)
	}
	for _, event := range events {
		if event.Note != "import Secret open-cluster-management-import/secret1: CredentialPending: credential resolver kubeconfig: first" {
			t.Errorf("note is %q", event.Note)
		}
	}
	if events := attempt(); events != nil {
		t.Errorf("same failure: %v", events)
	}
	respond(credential.Pending(errors.New("second"), 0))
	if diff := cmp.Diff(want(ReasonCredentialPending), subjects(attempt())); diff != "" {
		t.Errorf("other text (-want +got):\n%s", diff)
	}
	f.cacheOnly(partial(DefaultImportNamespace, testSecret, testCluster, resourceVersion("2")))
	if diff := cmp.Diff(want(ReasonCredentialPending), subjects(attempt())); diff != "" {
		t.Errorf("same text, changed Secret (-want +got):\n%s", diff)
	}
	// A text of 3-byte characters is cut between two of them.
	for _, length := range []int{250, 310, 331, 332, 333, 334, 400, 3000} {
		respond(credential.Invalid(errors.New(strings.Repeat("€", length))))
		events = attempt()
		if len(events) != 2 {
			t.Fatalf("long text: %v", events)
		}
		for _, event := range events {
			if len(event.Note) > 1024 || !utf8.ValidString(event.Note) {
				t.Errorf("a note of %d bytes, valid UTF-8 %t", len(event.Note), utf8.ValidString(event.Note))
			}
			if whole := strings.HasSuffix(event.Note, ": "+strings.Repeat("€", length)); whole != (length <= 250) {
				t.Errorf("length %d: the whole note is there: %t", length, whole)
			}
		}
	}
}

// Nothing of a Secret, nor of what a cluster sends back, is in an error, a condition, an event or the log.
func TestNoValueOfASecretIsRepeated(t *testing.T) {
	echo := func(code int, header ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			answer(code, "<html>"+r.Header.Get("Authorization"), append(header, "X-Echo", r.Header.Get("Authorization"))...)(w, r)
		}
	}
	failing := func(err error) credential.ResolverFunc {
		return func(context.Context, credential.Request) (*rest.Config, error) { return nil, err }
	}
	answering := func(handler http.HandlerFunc, edits ...func(*rest.Config)) func(*testing.T) credential.ResolverFunc {
		return func(t *testing.T) credential.ResolverFunc {
			_, config := startSpoke(t, handler)
			for _, edit := range edits {
				edit(config)
			}
			return func(context.Context, credential.Request) (*rest.Config, error) { return rest.CopyConfig(config), nil }
		}
	}
	plain := func(f credential.ResolverFunc) func(*testing.T) credential.ResolverFunc {
		return func(*testing.T) credential.ResolverFunc { return f }
	}
	cases := []struct {
		name    string
		respond func(*testing.T) credential.ResolverFunc
		want    Reason
	}{
		{"unclassified error", plain(failing(errors.New("token " + testToken))), ReasonTokenMintFailed},
		{"unclassified error that wraps", plain(failing(fmt.Errorf("%s: %w", testToken, io.EOF))), ReasonTokenMintFailed},
		{"API error", plain(failing(apierrors.NewForbidden(schema.GroupResource{Resource: testToken}, testToken, errors.New(testToken)))), ReasonTokenMintFailed},
		{"panic", plain(func(_ context.Context, r credential.Request) (*rest.Config, error) {
			panic(string(r.Secret.Data["kubeconfig"]))
		}), ReasonTokenMintFailed},
		{"panic with an error", plain(func(_ context.Context, r credential.Request) (*rest.Config, error) {
			panic(fmt.Errorf("secret %v: %s", r.Secret, r.Secret.Data["kubeconfig"]))
		}), ReasonTokenMintFailed},
		{"refused config: host", answering(healthy, func(c *rest.Config) { c.Host = "http://" + sentinel + ":" + sentinel }), ReasonKubeconfigInvalid},
		{"refused config: user", answering(healthy, func(c *rest.Config) { c.Host = "https://" + sentinel + ":p@127.0.0.1" }), ReasonFieldForbidden},
		{"refused config: file", answering(healthy, func(c *rest.Config) { c.BearerTokenFile = "/" + sentinel }), ReasonFieldForbidden},
		{"refused config: CA", answering(healthy, func(c *rest.Config) { c.CAData = []byte(sentinel) }), ReasonKubeconfigInvalid},
		{"refused config: pair", answering(healthy, func(c *rest.Config) { c.CertData, c.KeyData = []byte(sentinel), []byte(sentinel) }), ReasonKubeconfigInvalid},
		{"unauthorized", answering(echo(http.StatusUnauthorized)), ReasonUnauthorized},
		{"forbidden", answering(echo(http.StatusForbidden)), ReasonForbidden},
		{"server error", answering(echo(http.StatusInternalServerError)), ReasonServerFailed},
		{"redirect", answering(echo(http.StatusFound, "Location", "https://"+testToken+".example.com/")), ReasonNotKubernetes},
		{"not found", answering(echo(http.StatusNotFound)), ReasonNotKubernetes},
		{"HTML", answering(echo(http.StatusOK)), ReasonNotKubernetes},
		{"version", answering(apiServer(map[string]http.HandlerFunc{versionPath: answer(http.StatusOK, `{"gitVersion":"v1.15.0-`+testToken+`"}`)})),
			ReasonClusterTooOld},
		{"identity", answering(apiServer(map[string]http.HandlerFunc{kubeSystemPath: kubeSystem(testToken)})), ReasonClusterSwapped},
		{"other name", answering(healthy, func(c *rest.Config) { c.ServerName = sentinel + ".example.com" }), ReasonTLSNameMismatch},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.set(partial(DefaultImportNamespace, testSecret, testCluster))
			f.resolver.Respond = c.respond(t)
			ctx, logs := testContext(t)
			cluster := managedCluster(annotated(AnnotationClusterUID, clusterUID))
			_, err := f.provider.Clients(ctx, cluster)
			if err == nil || !strings.Contains(err.Error(), ": "+string(c.want)+": ") {
				t.Fatalf("got %v, want %s", err, c.want)
			}
			expectNoSecret(t, "condition", fmt.Sprint(cluster.Status.Conditions))
			expectNoSecret(t, "error", fmt.Sprintf("%v %+v", err, err))
			for unwrapped := errors.Unwrap(err); unwrapped != nil; unwrapped = errors.Unwrap(unwrapped) {
				expectNoSecret(t, "wrapped error", unwrapped.Error())
			}
			events := f.recorder.take()
			if len(events) != 2 {
				t.Errorf("events: %v", events)
			}
			expectNoSecret(t, "event", fmt.Sprint(events))
			if !slices.Contains([]Reason{ReasonNotKubernetes, ReasonClusterTooOld, ReasonClusterSwapped}, c.want) && logs.String() == "" {
				t.Error("nothing is logged")
			}
			expectNoSecret(t, "log", logs.String())
		})
	}
}

func TestIsManagedClusterOwner(t *testing.T) {
	placed := partial(DefaultImportNamespace, testSecret, testCluster)
	cases := []struct {
		name    string
		secrets []*metav1.PartialObjectMetadata
		cluster *clusterv1.ManagedCluster
		capi    []string // keys of Clusters
		decline bool
		want    bool
	}{
		{name: "no Secret", cluster: managedCluster()},
		{name: "Secret", secrets: []*metav1.PartialObjectMetadata{placed}, cluster: managedCluster(), want: true},
		{name: "two Secrets", secrets: []*metav1.PartialObjectMetadata{placed, partial(testCluster, SecretName, testCluster)},
			cluster: managedCluster(), want: true},
		{name: "misplaced only", secrets: []*metav1.PartialObjectMetadata{partial(testCluster, SecretName, "cluster2")},
			cluster: managedCluster(), want: true},
		{name: "Secret for another", secrets: []*metav1.PartialObjectMetadata{partial(DefaultImportNamespace, testSecret, "cluster2")},
			cluster: managedCluster()},
		{name: "paused", secrets: []*metav1.PartialObjectMetadata{placed}, cluster: managedCluster(annotated(AnnotationDisableAutoImport, ""))},
		{name: "paused, any value", secrets: []*metav1.PartialObjectMetadata{placed},
			cluster: managedCluster(annotated(AnnotationDisableAutoImport, "false"))},
		{name: "paused with a failure", cluster: managedCluster(annotated(AnnotationDisableAutoImport, ""),
			withPreflight(metav1.ConditionFalse, ReasonUnreachable))},
		{name: "failed before", cluster: managedCluster(withPreflight(metav1.ConditionFalse, ReasonUnreachable)), want: true},
		{name: "failed before, and the importer says so", cluster: managedCluster(withPreflight(metav1.ConditionFalse, ReasonUnreachable),
			withCondition(metav1.ConditionFalse, "KubeConfigGetFailed", "x")), want: true},
		{name: "passed before, not imported", cluster: managedCluster(withPreflight(metav1.ConditionTrue, ReasonPreflightPassed),
			withCondition(metav1.ConditionFalse, "ImportFailed", "x")), want: true},
		{name: "imported", cluster: managedCluster(withPreflight(metav1.ConditionTrue, ReasonPreflightPassed),
			withCondition(metav1.ConditionTrue, "ImportSucceed", ""))},
		{name: "failed since it was imported", cluster: managedCluster(withPreflight(metav1.ConditionFalse, ReasonUnreachable),
			withCondition(metav1.ConditionTrue, "ImportSucceed", ""))},
		// Nothing tells of a Secret that is gone any more.
		{name: "Secret was gone before", cluster: managedCluster(withPreflight(metav1.ConditionFalse, ReasonSecretNotFound),
			withCondition(metav1.ConditionFalse, "KubeConfigNotFound", "Secret for kubeconfig is not found."))},
		{name: "Secret was gone before, and is back", secrets: []*metav1.PartialObjectMetadata{placed},
			cluster: managedCluster(withPreflight(metav1.ConditionFalse, ReasonSecretNotFound)), want: true},
		{name: "failure of another provider", cluster: managedCluster(withCondition(metav1.ConditionFalse, "KubeConfigGetFailed",
			messagePrefix+"x/y: Unreachable: the connection is refused"))},
		{name: "Cluster API by annotation", secrets: []*metav1.PartialObjectMetadata{placed},
			cluster: managedCluster(annotated(capi.CAPIAnnotationKey, "a/b")), decline: true},
		{name: "Cluster API by annotation, in the same importer", secrets: []*metav1.PartialObjectMetadata{placed},
			cluster: managedCluster(annotated(capi.CAPIAnnotationKey, "a/b")), want: true},
		{name: "Cluster API by Cluster", secrets: []*metav1.PartialObjectMetadata{placed}, cluster: managedCluster(),
			capi: []string{testCluster + "/" + testCluster}, decline: true},
		{name: "Cluster API by own failure", cluster: managedCluster(withPreflight(metav1.ConditionFalse, ReasonUnreachable)),
			capi: []string{testCluster + "/" + testCluster}, decline: true},
		{name: "Cluster of the name elsewhere", secrets: []*metav1.PartialObjectMetadata{placed}, cluster: managedCluster(),
			capi: []string{"other/" + testCluster, testCluster + "/other"}, decline: true, want: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, func(o *Options) { o.DeclineClusterAPI = c.decline })
			f.set(c.secrets...)
			for _, key := range c.capi {
				f.setCAPICluster(key)
			}
			if got := f.provider.IsManagedClusterOwner(c.cluster); got != c.want {
				t.Errorf("got %t, want %t", got, c.want)
			}
			if len(f.kube.Actions())+len(f.metadata.Actions())+len(f.clusters.Actions()) > 0 {
				t.Error("requests are sent to the hub")
			}
		})
	}
}

// A cluster whose Secret is deleted is the provider's until its condition says so.
func TestLostSecret(t *testing.T) {
	f := newFixture(t)
	placed := partial(DefaultImportNamespace, testSecret, testCluster)
	f.set(placed)
	f.resolver.Err = errors.New("unexpected")
	ctx, _ := testContext(t)
	cluster := managedCluster()
	if _, err := f.provider.Clients(ctx, cluster); err == nil {
		t.Fatal("no error")
	}
	f.unset(placed)
	if !f.provider.IsManagedClusterOwner(cluster) {
		t.Error("not known again")
	}
	if clients, err := f.provider.Clients(ctx, cluster); clients != nil || err != nil {
		t.Errorf("got %v, %v", clients, err)
	}
	if f.provider.IsManagedClusterOwner(cluster) {
		t.Error("still the owner")
	}
}

func TestRunAndSync(t *testing.T) {
	f := newFixture(t)
	if f.provider.HasSynced() {
		t.Error("synced before Run")
	}
	ctx, _ := testContext(t)
	ctx, cancel := context.WithCancel(ctx)
	if err := f.metadata.Tracker().Add(partial(DefaultImportNamespace, testSecret, testCluster)); err != nil {
		t.Fatal(err)
	}
	f.informer.Start(ctx.Done())
	done := make(chan struct{})
	go func() {
		f.provider.Run(ctx)
		close(done)
	}()
	eventually(t, "sync", f.provider.HasSynced)
	// The notices run: there is a Secret and no ManagedCluster.
	var events []recordedEvent
	eventually(t, "notice", func() bool {
		events = append(events, f.recorder.take()...)
		return len(events) > 0
	})
	want := []string{corev1.EventTypeNormal + " ManagedClusterNotFound Secret " + DefaultImportNamespace + "/" + testSecret}
	if diff := cmp.Diff(want, subjects(events)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	cancel()
	select {
	case <-done:
	case <-time.After(giveUp):
		t.Error("Run does not end with its context")
	}
}
