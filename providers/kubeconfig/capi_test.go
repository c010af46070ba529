// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/ocm/pkg/registration/hub/importer/providers/capi"
)

func capiCluster(key string) *metav1.PartialObjectMetadata {
	namespace, name, _ := strings.Cut(key, "/")
	return &metav1.PartialObjectMetadata{
		TypeMeta:   metav1.TypeMeta{APIVersion: capi.ClusterAPIGVR.GroupVersion().String(), Kind: "Cluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
	}
}

func (f *fixture) setCAPICluster(key string) {
	f.t.Helper()
	if err := f.provider.clusterAPI.informer.GetIndexer().Add(capiCluster(key)); err != nil {
		f.t.Fatal(err)
	}
}

func declining(o *Options) { o.DeclineClusterAPI = true }

func TestClusterAPIWhereItIsAbsent(t *testing.T) {
	f := newFixture(t, declining)
	f.metadata.PrependReactor("list", capi.ClusterAPIGVR.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewNotFound(capi.ClusterAPIGVR.GroupResource(), "")
	})
	if f.provider.clusterAPI.hasSynced() {
		t.Error("synced before the hub was asked")
	}
	ctx, _ := testContext(t)
	f.provider.clusterAPI.run(ctx)
	eventually(t, "sync", f.provider.clusterAPI.hasSynced)
}

func TestClusterAPIWhereItIsPresent(t *testing.T) {
	f := newFixture(t, declining)
	if err := f.metadata.Tracker().Add(capiCluster(testCluster + "/" + testCluster)); err != nil {
		t.Fatal(err)
	}
	f.provider.Register(f.syncCtx)
	ctx, _ := testContext(t)
	f.provider.clusterAPI.run(ctx)
	eventually(t, "sync", f.provider.clusterAPI.hasSynced)
	if !f.provider.clusterAPI.owns(managedCluster()) {
		t.Error("not owned")
	}
	eventually(t, "a key in the importer's queue", func() bool { return f.syncCtx.Queue().Len() > 0 })
	if key, _ := f.syncCtx.Queue().Get(); key != testCluster {
		t.Errorf("woke %q", key)
	}
}

func TestClusterAPIForbidden(t *testing.T) {
	f := newFixture(t, declining)
	asked := make(chan struct{}, 100)
	f.metadata.PrependReactor("list", capi.ClusterAPIGVR.Resource, func(clienttesting.Action) (bool, runtime.Object, error) {
		asked <- struct{}{}
		return true, nil, apierrors.NewForbidden(capi.ClusterAPIGVR.GroupResource(), "", nil)
	})
	ctx, _ := testContext(t)
	f.provider.clusterAPI.run(ctx)
	// The second list comes after the first was judged.
	<-asked
	<-asked
	if f.provider.clusterAPI.hasSynced() {
		t.Error("who owns a cluster is not known, and an import may start")
	}
}

func TestClusterAPIChangesWakeClusters(t *testing.T) {
	informer := &capturedInformer{}
	c := &clusterAPI{informer: informer}
	var woken []string
	if err := c.onChange(func(name string) { woken = append(woken, name) }); err != nil {
		t.Fatal(err)
	}
	informer.handler.OnAdd(capiCluster("a/a"), true)
	informer.handler.OnAdd(capiCluster("b/other"), true)
	informer.handler.OnDelete(capiCluster("c/c"))
	informer.handler.OnDelete(cache.DeletedFinalStateUnknown{Key: "d/d", Obj: capiCluster("d/d")})
	if diff := cmp.Diff([]string{"a", "c", "d"}, woken); diff != "" {
		t.Errorf("clusters (-want +got):\n%s", diff)
	}
}

func TestClusterAPIOff(t *testing.T) {
	var c *clusterAPI
	ctx, _ := testContext(t)
	c.run(ctx)
	if err := c.onChange(nil); err != nil || !c.hasSynced() || c.owns(managedCluster(annotated(capi.CAPIAnnotationKey, "a/b"))) {
		t.Errorf("it is not off: %v", err)
	}
}
