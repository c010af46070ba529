// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"errors"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/credential"
)

// TestExpiryMintsNothing: after a start the Secrets of all clusters are read, and only what is in them is looked at.
func TestExpiryMintsNothing(t *testing.T) {
	for annotation, want := range map[string]int{"": 1, credential.ResolverEKS: 0} {
		f := newFixture(t)
		f.set(partial(DefaultImportNamespace, testSecret, testCluster, func(secret *metav1.PartialObjectMetadata) {
			secret.Annotations[credential.AnnotationCredentialResolver] = annotation
		}))
		f.resolver.Respond = func(context.Context, credential.Request) (*rest.Config, error) {
			return nil, credential.Invalid(errors.New("mend it"))
		}
		ctx, _ := testContext(t)
		cluster := managedCluster()
		known, err := f.provider.expiries.look(ctx, cluster, newAttempt(cluster, f.provider.candidates(testCluster)))
		if err != nil {
			t.Fatal(err)
		}
		if calls := len(f.resolver.Calls()); calls != want || (known.problem != nil) != (want > 0) {
			t.Errorf("resolver %q: %d calls, problem %v", annotation, calls, known.problem)
		}
	}
}

// TestCauseOfAFailedMintIsLogged: it may vary, and is thus nowhere else.
func TestCauseOfAFailedMintIsLogged(t *testing.T) {
	f := newFixture(t)
	f.set(partial(DefaultImportNamespace, testSecret, testCluster))
	f.resolver.Respond = func(context.Context, credential.Request) (*rest.Config, error) {
		return nil, credential.MintFailedBecause(errors.New("dial tcp 192.0.2.1:443: refused"), errors.New("the service gives no token: call its administrator"))
	}
	ctx, logs := testContext(t)
	cluster := managedCluster()
	_, err := f.provider.Clients(ctx, cluster)
	if err == nil || !strings.HasSuffix(err.Error(), "TokenMintFailed: credential resolver kubeconfig: the service gives no token: call its administrator") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(logs.String(), "dial tcp 192.0.2.1:443: refused") {
		t.Errorf("the log has no cause: %s", logs)
	}
}
