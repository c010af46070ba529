// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The importer comes back after an import during which something changed, before its cache has the result.
func TestClientsBeforeTheCacheHasTheResult(t *testing.T) {
	for _, c := range []struct {
		name, stored string
		behind       bool
	}{
		{"the hub has the result", "2", true},
		{"nothing was written to the hub", "1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.set(partial(testCluster, SecretName, testCluster))
			_, f.resolver.Config = startSpoke(t, healthy)
			cluster := managedCluster()
			cluster.ResourceVersion = "1"
			f.setCluster(cluster)
			ctx, _ := testContext(t)
			if _, err := f.provider.Clients(ctx, cluster.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			stored := cluster.DeepCopy()
			stored.ResourceVersion = c.stored
			if _, err := f.clusters.ClusterV1().ManagedClusters().Update(ctx, stored, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			before := len(f.resolver.Calls())
			clients, err := f.provider.Clients(ctx, cluster.DeepCopy())
			if errors.Is(err, errBehind) != c.behind || (clients == nil) != c.behind {
				t.Errorf("again: %v, %v", clients, err)
			}
			if again := len(f.resolver.Calls()) > before; again == c.behind {
				t.Errorf("the Secret is resolved again: %t", again)
			}
		})
	}
}
