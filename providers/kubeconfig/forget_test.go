// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"open-cluster-management.io/import-provider/pkg/credential"
)

func TestSecretsThatAreGoneAreForgotten(t *testing.T) {
	placed := partial(DefaultImportNamespace, testSecret, testCluster)
	again := partial(DefaultImportNamespace, testSecret, testCluster, func(object *metav1.PartialObjectMetadata) { object.UID = "again" })
	cases := []struct {
		name   string
		change func(cache.ResourceEventHandler)
		want   []types.UID
	}{
		{"added", func(h cache.ResourceEventHandler) { h.OnAdd(placed, true) }, nil},
		{"changed", func(h cache.ResourceEventHandler) {
			h.OnUpdate(placed, partial(DefaultImportNamespace, testSecret, testCluster, resourceVersion("2")))
		}, nil},
		{"deleted", func(h cache.ResourceEventHandler) { h.OnDelete(placed) }, []types.UID{placed.UID}},
		{"deleted while the watch was broken", func(h cache.ResourceEventHandler) {
			h.OnDelete(cache.DeletedFinalStateUnknown{Key: objectKey(placed), Obj: placed})
		}, []types.UID{placed.UID}},
		{"created again while the watch was broken", func(h cache.ResourceEventHandler) { h.OnUpdate(placed, again) }, []types.UID{placed.UID}},
		{"something else", func(h cache.ResourceEventHandler) { h.OnDelete("no object") }, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			informer := &capturedInformer{}
			s := &secrets{importNamespaces: []string{DefaultImportNamespace}, informers: []cache.SharedIndexInformer{informer}}
			var forgotten []types.UID
			if err := s.onDelete(func(secret types.UID) { forgotten = append(forgotten, secret) }); err != nil {
				t.Fatal(err)
			}
			c.change(informer.handler)
			if diff := cmp.Diff(c.want, forgotten); diff != "" {
				t.Errorf("forgotten (-want +got):\n%s", diff)
			}
		})
	}
}

func TestProviderForgetsSecretsThatAreGone(t *testing.T) {
	forgotten := make(chan types.UID, 1)
	resolvers, err := credential.NewSet(map[string]credential.Resolver{
		credential.ResolverKubeconfig: credential.NewKubeconfigResolver(credential.KubeconfigOptions{}),
	}, credential.SetOptions{Forget: func(secret types.UID) { forgotten <- secret }})
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, func(o *Options) { o.Resolvers = resolvers })
	placed := partial(DefaultImportNamespace, testSecret, testCluster)
	if err := f.metadata.Tracker().Add(placed); err != nil {
		t.Fatal(err)
	}
	ctx, _ := testContext(t)
	f.provider.secrets.run(ctx)
	eventually(t, "sync", f.provider.HasSynced)
	if err := f.metadata.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("secrets"), placed.Namespace, placed.Name); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Secret to be forgotten", func() bool { return len(forgotten) > 0 })
	if got := <-forgotten; got != placed.UID {
		t.Errorf("forgot %s", got)
	}
}
