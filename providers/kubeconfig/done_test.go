// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// The importer comes back after an import during which something changed, before its cache has the result.
func TestClientsBeforeTheCacheHasTheResult(t *testing.T) {
	others := withCondition(metav1.ConditionFalse, "x", "")
	for _, c := range []struct {
		name string
		// stored is what the hub has, cached what the importer sees then.
		stored, cached func(*clusterv1.ManagedCluster)
		done           bool
	}{
		{"the hub has the result", imported, others, true},
		{"the hub has the result, and the cache what another wrote before", imported, annotated("a", "b"), true},
		{"nothing was written to the hub", others, others, false},
		{"another wrote to the hub", annotated("a", "b"), others, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.set(partial(testCluster, SecretName, testCluster))
			_, f.resolver.Config = startSpoke(t, healthy)
			cluster := managedCluster()
			f.setCluster(cluster)
			ctx, _ := testContext(t)
			if _, err := f.provider.Clients(ctx, cluster.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if _, err := f.clusters.ClusterV1().ManagedClusters().Update(ctx, managedCluster(c.stored), metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			before := len(f.resolver.Calls())
			clients, err := f.provider.Clients(ctx, managedCluster(c.cached))
			if errors.Is(err, errDone) != c.done || (clients == nil) != c.done {
				t.Errorf("again: %v, %v", clients, err)
			}
			if again := len(f.resolver.Calls()) > before; again == c.done {
				t.Errorf("the Secret is resolved again: %t", again)
			}
		})
	}
}
