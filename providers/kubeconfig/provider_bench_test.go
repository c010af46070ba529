// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metadatafake "k8s.io/client-go/metadata/fake"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// BenchmarkIsManagedClusterOwner is the question that the importer asks at each event of each ManagedCluster. Its price
// must not depend on the number of import Secrets.
func BenchmarkIsManagedClusterOwner(b *testing.B) {
	for _, count := range []int{10, 10_000} {
		secrets, err := newSecrets(metadatafake.NewSimpleMetadataClient(metadatafake.NewTestScheme()), []string{DefaultImportNamespace})
		if err != nil {
			b.Fatal(err)
		}
		p := &Provider{secrets: secrets}
		for i := range count {
			// Half of the Secrets are in the import namespace and half in that of their cluster, one informer each.
			name := fmt.Sprintf("cluster%d", i)
			secret := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: DefaultImportNamespace, Name: name, Annotations: map[string]string{AnnotationManagedCluster: name},
			}}
			if i%2 == 1 {
				secret.Namespace, secret.Name = name, SecretName
			}
			if err := secrets.informers[i%2].GetIndexer().Add(secret); err != nil {
				b.Fatal(err)
			}
		}
		for _, c := range []struct {
			name, cluster string
			owner         bool
		}{
			{"import namespace", "cluster0", true},
			{"own namespace", "cluster1", true},
			{"no Secret", "other", false},
		} {
			b.Run(fmt.Sprintf("%d Secrets/%s", count, c.name), func(b *testing.B) {
				cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: c.cluster}}
				b.ReportAllocs()
				for b.Loop() {
					if p.IsManagedClusterOwner(cluster) != c.owner {
						b.Fatal("wrong owner")
					}
				}
			})
		}
	}
}
