// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/pkg/credential"
)

// respond sets what the resolver answers from now on.
func (f *fixture) respond(config *rest.Config, err error) {
	f.resolver.Respond = func(context.Context, credential.Request) (*rest.Config, error) {
		if err != nil {
			return nil, err
		}
		return rest.CopyConfig(config), nil
	}
}

// tryImport asks for clients as the importer does, with a copy of a cluster whose status it keeps.
func (f *fixture) tryImport(cluster *clusterv1.ManagedCluster) error {
	f.t.Helper()
	ctx, _ := testContext(f.t)
	given := cluster.DeepCopy()
	clients, err := f.provider.Clients(ctx, given)
	if clients != nil && err != nil {
		f.t.Errorf("both clients and an error: %v", err)
	}
	before := cluster.DeepCopy()
	before.Status.Conditions = given.Status.Conditions
	if diff := cmp.Diff(before, given); diff != "" {
		f.t.Errorf("more than the conditions is changed (-want +got):\n%s", diff)
	}
	cluster.Status = given.Status
	return err
}

func generation(generation int64) func(*clusterv1.ManagedCluster) {
	return func(cluster *clusterv1.ManagedCluster) { cluster.Generation = generation }
}

// expectConditions compares the provider's conditions without their times.
func expectConditions(t *testing.T, step string, cluster *clusterv1.ManagedCluster, want ...metav1.Condition) {
	t.Helper()
	byType := map[string]metav1.Condition{}
	for _, condition := range want {
		byType[condition.Type] = condition
	}
	if diff := cmp.Diff(byType, ownConditions(cluster), ignoreTransitionTime); diff != "" {
		t.Errorf("%s: conditions (-want +got):\n%s", step, diff)
	}
}

const placedKey = DefaultImportNamespace + "/" + testSecret

func preflightFailed(generation int64, reason Reason, message string) metav1.Condition {
	return metav1.Condition{
		Type: ConditionPreflightPassed, Status: metav1.ConditionFalse, ObservedGeneration: generation, Reason: string(reason),
		Message: "import Secret " + placedKey + ": " + message,
	}
}

// Each outcome of an attempt is said by the conditions, for the generation that it was made with.
func TestConditionsOfAttempts(t *testing.T) {
	_, good := startSpoke(t, healthy)
	_, bad := startSpoke(t, answer(http.StatusUnauthorized, ""))
	placed := partial(DefaultImportNamespace, testSecret, testCluster)
	f := newFixture(t)
	f.set(placed)
	cluster := managedCluster(generation(3), withCondition(metav1.ConditionFalse, "KubeConfigGetFailed", "x"))

	f.respond(nil, credential.Pending(errors.New("not there yet"), 0))
	pending := preflightFailed(3, ReasonCredentialPending, "credential resolver kubeconfig: not there yet")
	if err := f.tryImport(cluster); err == nil {
		t.Error("no error")
	}
	expectConditions(t, "failed", cluster, pending)

	// During the back-off the failure is said for the present generation, and also when it never reached the hub.
	cluster.Generation, cluster.Status.Conditions = 4, nil
	pending.ObservedGeneration = 4
	if err := f.tryImport(cluster); err == nil || len(f.resolver.Calls()) != 1 {
		t.Errorf("got %v after %d attempts", err, len(f.resolver.Calls()))
	}
	expectConditions(t, "pending", cluster, pending)

	f.respond(bad, nil)
	f.elapseBackOff()
	_ = f.tryImport(cluster)
	expectConditions(t, "another failure", cluster, preflightFailed(4, ReasonUnauthorized,
		"the cluster's API server does not accept the credential; put a valid credential into the Secret, or give its identity access to the cluster"))

	f.respond(good, nil)
	f.elapseBackOff()
	cluster.Generation = 5
	if err := f.tryImport(cluster); err != nil {
		t.Fatal(err)
	}
	reason, message := passedText(attempt{secretKey: placedKey}, validity{}, metav1.Now().Time)
	completed := metav1.Condition{
		Type: ConditionCompleted, Status: metav1.ConditionFalse, ObservedGeneration: 5, Reason: string(ReasonNotJoined),
		Message: "the klusterlet has not joined the hub; " + reasonInfos[ReasonNotJoined].next,
	}
	expectConditions(t, "passed", cluster, completed, metav1.Condition{
		Type: ConditionPreflightPassed, Status: metav1.ConditionTrue, ObservedGeneration: 5, Reason: string(reason), Message: message,
	})

	// What is said of an import before stays: the preflight alone has failed.
	f.respond(bad, nil)
	if err := f.tryImport(cluster); err == nil {
		t.Error("no error")
	}
	expectConditions(t, "failed after it passed", cluster, completed, preflightFailed(5, ReasonUnauthorized,
		"the cluster's API server does not accept the credential; put a valid credential into the Secret, or give its identity access to the cluster"))

	f.unset(placed)
	if err := f.tryImport(cluster); err != nil {
		t.Error(err)
	}
	expectConditions(t, "no Secret", cluster, completed, metav1.Condition{
		Type: ConditionPreflightPassed, Status: metav1.ConditionFalse, ObservedGeneration: 5, Reason: string(ReasonSecretNotFound),
		Message: "the import Secret is gone; create a Secret with the annotation import.open-cluster-management.io/managed-cluster",
	})
	if meta.FindStatusCondition(cluster.Status.Conditions, conditionImported) != nil {
		t.Error("the importer's own condition is set")
	}
}

func TestPassedText(t *testing.T) {
	reason, message := passedText(attempt{secretKey: placedKey}, validity{}, metav1.Now().Time)
	if want := "import Secret " + placedKey + ": "; reason != ReasonPreflightPassed || len(message) <= len(want) || message[:len(want)] != want {
		t.Errorf("got %s, %s", reason, message)
	}
}

// The same outcome twice is no change, so that nothing is written and the importer is not woken by itself.
func TestConditionsAreStable(t *testing.T) {
	_, good := startSpoke(t, healthy)
	cases := []struct {
		name   string
		config func(*testing.T) *rest.Config
		fails  bool
	}{
		{name: "passed", config: func(*testing.T) *rest.Config { return good }},
		// Another server has another port, as another attempt has.
		{"refused", func(t *testing.T) *rest.Config {
			listener := tcpListener(t, silent)
			_ = listener.Close()
			config := rest.CopyConfig(good)
			config.Host = "https://" + listener.Addr().String()
			return config
		}, true},
		{"other CA", func(t *testing.T) *rest.Config {
			config := rest.CopyConfig(good)
			config.CAData = newAuthority(t).pem
			return config
		}, true},
		{"error", func(t *testing.T) *rest.Config {
			_, config := startSpoke(t, func(w http.ResponseWriter, r *http.Request) {
				answer(http.StatusInternalServerError, r.RemoteAddr, "Retry-After", "1")(w, r)
			})
			return config
		}, true},
		{"another hub's", func(t *testing.T) *rest.Config {
			_, config := startSpoke(t, apiServer(map[string]http.HandlerFunc{
				klusterletPath: answer(http.StatusOK, `{"kind":"Klusterlet","spec":{"clusterName":"other"}}`),
			}))
			return config
		}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.set(partial(DefaultImportNamespace, testSecret, testCluster))
			cluster := managedCluster(generation(2))
			var first []metav1.Condition
			for range 3 {
				f.respond(c.config(t), nil)
				f.elapseBackOff()
				if err := f.tryImport(cluster); (err != nil) != c.fails {
					t.Fatalf("got %v", err)
				}
				if first == nil {
					first = cluster.DeepCopy().Status.Conditions
					if len(f.recorder.take()) != 2 {
						t.Error("the outcome is not recorded")
					}
					// A time that is set anew would be the same within a second.
					for i := range cluster.Status.Conditions {
						first[i].LastTransitionTime.Time = first[i].LastTransitionTime.Add(-giveUp)
						cluster.Status.Conditions[i].LastTransitionTime = first[i].LastTransitionTime
					}
				}
				if diff := cmp.Diff(first, cluster.Status.Conditions); diff != "" {
					t.Errorf("the same outcome changes the conditions (-first +later):\n%s", diff)
				}
				if events := f.recorder.take(); events != nil {
					t.Errorf("the same outcome has events: %v", events)
				}
			}
		})
	}
}

// That the preflight passed is an event when it did not before.
func TestEventsOfAPass(t *testing.T) {
	_, good := startSpoke(t, healthy)
	f := newFixture(t)
	f.set(partial(DefaultImportNamespace, testSecret, testCluster))
	cluster := managedCluster()
	passed := []string{"Normal PreflightPassed Secret " + placedKey, "Normal PreflightPassed ManagedCluster /" + testCluster}
	failed := []string{"Warning CredentialPending Secret " + placedKey, "Warning CredentialPending ManagedCluster /" + testCluster}
	for i, c := range []struct {
		err  error
		want []string
	}{
		{nil, passed},
		{nil, nil},
		{credential.Pending(errors.New("not there yet"), 0), failed},
		{nil, passed},
	} {
		f.respond(good, c.err)
		f.elapseBackOff()
		_ = f.tryImport(cluster)
		events := f.recorder.take()
		if diff := cmp.Diff(c.want, subjects(events)); diff != "" {
			t.Errorf("step %d (-want +got):\n%s", i, diff)
		}
		for _, event := range events {
			if condition := ownConditions(cluster)[ConditionPreflightPassed]; event.Type == "Normal" && event.Note != condition.Message {
				t.Errorf("step %d: the event says %q, the condition %q", i, event.Note, condition.Message)
			}
		}
	}
}

// An attempt that ends with the process says nothing of the cluster, and neither does one of a Secret that is not what
// it was.
func TestConditionsThatAreLeftAlone(t *testing.T) {
	before := func() *clusterv1.ManagedCluster {
		return managedCluster(generation(7), withPreflight(metav1.ConditionFalse, ReasonUnreachable))
	}
	placed := partial(DefaultImportNamespace, testSecret, testCluster)
	t.Run("the process ends", func(t *testing.T) {
		f := newFixture(t)
		f.set(placed)
		ctx, cancel := context.WithCancel(t.Context())
		f.resolver.Respond = func(ctx context.Context, _ credential.Request) (*rest.Config, error) {
			cancel()
			return nil, ctx.Err()
		}
		cluster := before()
		if _, err := f.provider.Clients(ctx, cluster); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		expectConditions(t, "ended", cluster, ownConditions(before())[ConditionPreflightPassed])
	})
	t.Run("the Secret is gone since", func(t *testing.T) {
		f := newFixture(t)
		f.cacheOnly(placed)
		cluster := before()
		if err := f.tryImport(cluster); err != nil {
			t.Error(err)
		}
		expectConditions(t, "gone", cluster, ownConditions(before())[ConditionPreflightPassed])
	})
}

// kubectl wait takes no condition of an older generation.
func TestObserve(t *testing.T) {
	cluster := managedCluster()
	setCondition(cluster, ConditionPreflightPassed, metav1.ConditionTrue, ReasonPreflightPassed, "")
	setCondition(cluster, ConditionCompleted, metav1.ConditionTrue, ReasonCompleted, "")
	cluster.Status.Conditions = append(cluster.Status.Conditions, metav1.Condition{Type: "Other", ObservedGeneration: 1})
	cluster.Generation = 7
	observe(cluster)
	for i, want := range []int64{7, 7, 1} {
		if got := cluster.Status.Conditions[i].ObservedGeneration; got != want {
			t.Errorf("%s: observed generation %d, want %d", cluster.Status.Conditions[i].Type, got, want)
		}
	}
}
