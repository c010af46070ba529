// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
)

func keys(objects []*metav1.PartialObjectMetadata) []string {
	var result []string
	for _, object := range objects {
		result = append(result, objectKey(object))
	}
	return result
}

func TestWhichSecretIsForWhichCluster(t *testing.T) {
	cases := []struct {
		name             string
		importNamespaces []string
		secrets          []*metav1.PartialObjectMetadata
		cluster          string // testCluster when empty
		want             []string
		wantMisplaced    []string
	}{
		{name: "none"},
		{
			name:    "import namespace",
			secrets: []*metav1.PartialObjectMetadata{partial(DefaultImportNamespace, testSecret, testCluster)},
			want:    []string{DefaultImportNamespace + "/" + testSecret},
		},
		{
			name:    "import namespace, for another cluster",
			secrets: []*metav1.PartialObjectMetadata{partial(DefaultImportNamespace, testSecret, "cluster2")},
		},
		{
			name:    "import namespace, no annotation",
			secrets: []*metav1.PartialObjectMetadata{partial(DefaultImportNamespace, testCluster, "-")},
		},
		{
			name:             "second of the import namespaces",
			importNamespaces: []string{"imports1", "imports2"},
			secrets:          []*metav1.PartialObjectMetadata{partial("imports2", testSecret, testCluster)},
			want:             []string{"imports2/" + testSecret},
		},
		{
			name:             "default import namespace, which is not named",
			importNamespaces: []string{"imports1"},
			secrets:          []*metav1.PartialObjectMetadata{partial(DefaultImportNamespace, testSecret, testCluster)},
		},
		{
			name:    "own namespace",
			secrets: []*metav1.PartialObjectMetadata{partial(testCluster, SecretName, testCluster)},
			want:    []string{testCluster + "/" + SecretName},
		},
		{
			name:    "own namespace, other name",
			secrets: []*metav1.PartialObjectMetadata{partial(testCluster, testSecret, testCluster)},
		},
		{
			name:    "own namespace, no annotation",
			secrets: []*metav1.PartialObjectMetadata{partial(testCluster, SecretName, "-")},
		},
		{
			name:          "own namespace, names another cluster",
			secrets:       []*metav1.PartialObjectMetadata{partial(testCluster, SecretName, "cluster2")},
			wantMisplaced: []string{testCluster + "/" + SecretName},
		},
		{
			name:          "own namespace, empty annotation",
			secrets:       []*metav1.PartialObjectMetadata{partial(testCluster, SecretName, "")},
			wantMisplaced: []string{testCluster + "/" + SecretName},
		},
		{
			name:    "namespace of another cluster claims this one",
			secrets: []*metav1.PartialObjectMetadata{partial("cluster2", SecretName, testCluster)},
		},
		{
			name:    "foreign namespace, any name",
			secrets: []*metav1.PartialObjectMetadata{partial("team-a", testSecret, testCluster)},
		},
		{
			name:             "import namespace that is also the cluster's: any name, once",
			importNamespaces: []string{testCluster},
			secrets: []*metav1.PartialObjectMetadata{
				partial(testCluster, SecretName, testCluster), partial(testCluster, testSecret, "cluster2"),
			},
			want: []string{testCluster + "/" + SecretName},
		},
		{
			name:             "import namespace that is also a cluster's name may name any cluster with the fixed name",
			importNamespaces: []string{"cluster2"},
			secrets:          []*metav1.PartialObjectMetadata{partial("cluster2", SecretName, testCluster)},
			want:             []string{"cluster2/" + SecretName},
		},
		{
			name:             "in such a namespace nothing is misplaced",
			importNamespaces: []string{testCluster},
			secrets:          []*metav1.PartialObjectMetadata{partial(testCluster, SecretName, "cluster2")},
		},
		{
			name: "two, in the order of their keys",
			secrets: []*metav1.PartialObjectMetadata{
				partial(DefaultImportNamespace, "z", testCluster), partial(testCluster, SecretName, testCluster),
				partial(DefaultImportNamespace, "a", testCluster),
			},
			want: []string{testCluster + "/" + SecretName, DefaultImportNamespace + "/a", DefaultImportNamespace + "/z"},
		},
		{
			name:    "the empty name is a name of none",
			secrets: []*metav1.PartialObjectMetadata{partial(DefaultImportNamespace, testSecret, "")},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, func(o *Options) { o.ImportNamespaces = c.importNamespaces })
			f.set(c.secrets...)
			s := f.provider.secrets
			for range 5 { // an index is a map
				if diff := cmp.Diff(c.want, keys(s.forCluster(testCluster))); diff != "" {
					t.Fatalf("for the cluster (-want +got):\n%s", diff)
				}
			}
			if diff := cmp.Diff(c.wantMisplaced, keys(s.misplaced(testCluster))); diff != "" {
				t.Errorf("misplaced (-want +got):\n%s", diff)
			}
			// The Secret that is read is judged as its metadata was.
			for _, object := range c.secrets {
				secret := &corev1.Secret{ObjectMeta: object.ObjectMeta}
				if got, want := s.claims(secret, testCluster), slices.Contains(c.want, objectKey(object)); got != want {
					t.Errorf("claims(%s) = %t, want %t", objectKey(object), got, want)
				}
			}
		})
	}
}

func TestWatchesNoMoreThanItMayRead(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.ImportNamespaces = []string{"imports1", "imports2"} })
	ctx, _ := testContext(t)
	f.provider.secrets.run(ctx)
	eventually(t, "sync", f.provider.HasSynced)
	watched := map[string]string{}
	for _, action := range f.metadata.Actions() {
		if action.GetResource() != corev1.SchemeGroupVersion.WithResource("secrets") {
			t.Errorf("unexpected request: %v", action)
		}
		switch action := action.(type) {
		case clienttesting.ListAction:
			watched[action.GetNamespace()] = action.GetListRestrictions().Fields.String()
		case clienttesting.WatchAction:
			watched[action.GetNamespace()] = action.GetWatchRestrictions().Fields.String()
		}
	}
	want := map[string]string{"imports1": "", "imports2": "", "": "metadata.name=" + SecretName}
	if diff := cmp.Diff(want, watched); diff != "" {
		t.Errorf("field selector by namespace (-want +got):\n%s", diff)
	}
}

func TestCacheKeepsNothingButOurAnnotations(t *testing.T) {
	const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	object := partial(DefaultImportNamespace, testSecret, testCluster, func(object *metav1.PartialObjectMetadata) {
		object.Annotations[annotationPrefix+"kubeconfig-key"] = "value"
		object.Annotations[lastApplied] = `{"data":{"kubeconfig":"` + sentinel + `"}}`
		object.Annotations["import.open-cluster-management.io.example.com/x"] = "x"
		object.Labels = map[string]string{"a": "b"}
		object.Finalizers = []string{"example.com/finalizer"}
		object.OwnerReferences = []metav1.OwnerReference{{Name: "owner"}}
		object.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
		object.GenerateName = "secret"
	})
	f := newFixture(t)
	if err := f.metadata.Tracker().Add(object); err != nil {
		t.Fatal(err)
	}
	ctx, _ := testContext(t)
	f.provider.secrets.run(ctx)
	eventually(t, "sync", f.provider.HasSynced)
	want := []*metav1.PartialObjectMetadata{{
		TypeMeta: object.TypeMeta,
		ObjectMeta: metav1.ObjectMeta{
			Namespace: object.Namespace, Name: object.Name, UID: object.UID, ResourceVersion: object.ResourceVersion,
			Annotations: map[string]string{
				AnnotationManagedCluster:            testCluster,
				annotationPrefix + "kubeconfig-key": "value",
			},
		},
	}}
	if diff := cmp.Diff(want, f.provider.secrets.forCluster(testCluster)); diff != "" {
		t.Errorf("cached metadata (-want +got):\n%s", diff)
	}
}

func TestTransformLeavesOtherObjects(t *testing.T) {
	tombstone := cache.DeletedFinalStateUnknown{Key: "a/b"}
	if got, err := keepOwnMetadata(tombstone); err != nil || got != any(tombstone) {
		t.Errorf("got %v, %v", got, err)
	}
}

// handlers returns what onChange registers on one informer. It is called as an informer calls it.
type capturedInformer struct {
	cache.SharedIndexInformer
	handler cache.ResourceEventHandler
}

func (c *capturedInformer) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	c.handler = handler
	return nil, nil //nolint:nilnil // nobody uses the registration.
}

func TestSecretChangesWakeClusters(t *testing.T) {
	placed := partial(DefaultImportNamespace, testSecret, testCluster)
	cases := []struct {
		name   string
		change func(cache.ResourceEventHandler)
		want   []string
	}{
		{
			name:   "added",
			change: func(h cache.ResourceEventHandler) { h.OnAdd(placed, true) },
			want:   []string{testCluster},
		},
		{
			name:   "added without annotation",
			change: func(h cache.ResourceEventHandler) { h.OnAdd(partial(DefaultImportNamespace, testSecret, "-"), false) },
		},
		{
			name: "names another cluster now",
			change: func(h cache.ResourceEventHandler) {
				h.OnUpdate(placed, partial(DefaultImportNamespace, testSecret, "cluster2"))
			},
			want: []string{testCluster, "cluster2"},
		},
		{
			name: "annotation removed",
			change: func(h cache.ResourceEventHandler) {
				h.OnUpdate(placed, partial(DefaultImportNamespace, testSecret, "-"))
			},
			want: []string{testCluster},
		},
		{
			name: "annotation added",
			change: func(h cache.ResourceEventHandler) {
				h.OnUpdate(partial(DefaultImportNamespace, testSecret, "-"), placed)
			},
			want: []string{testCluster},
		},
		{
			name:   "deleted",
			change: func(h cache.ResourceEventHandler) { h.OnDelete(placed) },
			want:   []string{testCluster},
		},
		{
			name: "deleted while the watch was broken",
			change: func(h cache.ResourceEventHandler) {
				h.OnDelete(cache.DeletedFinalStateUnknown{Key: objectKey(placed), Obj: placed})
			},
			want: []string{testCluster},
		},
		{
			name:   "misplaced concerns the cluster of the namespace too",
			change: func(h cache.ResourceEventHandler) { h.OnAdd(partial("cluster2", SecretName, testCluster), false) },
			want:   []string{testCluster, "cluster2"},
		},
		{
			name:   "something else",
			change: func(h cache.ResourceEventHandler) { h.OnAdd("no object", false) },
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			informer := &capturedInformer{}
			s := &secrets{importNamespaces: []string{DefaultImportNamespace}, informers: []cache.SharedIndexInformer{informer}}
			var woken []string
			if err := s.onChange(func(name string) { woken = append(woken, name) }); err != nil {
				t.Fatal(err)
			}
			c.change(informer.handler)
			slices.Sort(woken)
			if diff := cmp.Diff(c.want, slices.Compact(woken)); diff != "" {
				t.Errorf("clusters (-want +got):\n%s", diff)
			}
		})
	}
}

// The importer does not wait for a provider's cache, so that what Register sets up has to wake it for each Secret.
func TestRegisterWakesTheImporter(t *testing.T) {
	f := newFixture(t)
	f.provider.Register(f.syncCtx)
	placed := partial(DefaultImportNamespace, testSecret, testCluster)
	if err := f.metadata.Tracker().Add(placed); err != nil {
		t.Fatal(err)
	}
	ctx, _ := testContext(t)
	f.provider.secrets.run(ctx)
	next := func() string {
		t.Helper()
		eventually(t, "a key in the importer's queue", func() bool { return f.syncCtx.Queue().Len() > 0 })
		key, _ := f.syncCtx.Queue().Get()
		f.syncCtx.Queue().Done(key)
		return key
	}
	if got := next(); got != testCluster {
		t.Errorf("added Secret: woke %q", got)
	}
	eventually(t, "sync", f.provider.HasSynced)
	secrets := corev1.SchemeGroupVersion.WithResource("secrets")
	if err := f.metadata.Tracker().Delete(secrets, placed.Namespace, placed.Name); err != nil {
		t.Fatal(err)
	}
	if got := next(); got != testCluster {
		t.Errorf("deleted Secret: woke %q", got)
	}
}
