// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"encoding/json"
	"errors"
	"strconv"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/pkg/credential"
)

var imported = withCondition(metav1.ConditionTrue, "ImportSucceed", "")

func (f *fixture) reimport() {
	f.t.Helper()
	ctx, _ := testContext(f.t)
	if err := f.reimporting.Sync(ctx, f.syncCtx, testCluster); err != nil {
		f.t.Fatal(err)
	}
}

// onHub returns the ManagedCluster as it is stored, and puts it into the cache.
func (f *fixture) onHub() *clusterv1.ManagedCluster {
	f.t.Helper()
	cluster, err := f.clusters.ClusterV1().ManagedClusters().Get(f.t.Context(), testCluster, metav1.GetOptions{})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.provider.clusters.Informer().GetIndexer().Update(cluster); err != nil {
		f.t.Fatal(err)
	}
	return cluster
}

// versions makes the hub count versions of the ManagedCluster from its present one on, and refuse a write to an earlier one.
func (f *fixture) versions() {
	resource := clusterv1.SchemeGroupVersion.WithResource("managedclusters")
	tracker := f.clusters.Tracker()
	react := clienttesting.ObjectReaction(tracker)
	f.clusters.PrependReactor("patch", resource.Resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		stored, err := tracker.Get(resource, "", testCluster)
		if err != nil {
			return true, nil, err
		}
		before := stored.(*clusterv1.ManagedCluster).ResourceVersion
		var patch struct{ Metadata metav1.ObjectMeta }
		if err := json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &patch); err != nil {
			return true, nil, err
		}
		if version := patch.Metadata.ResourceVersion; version != "" && version != before {
			return true, nil, apierrors.NewConflict(resource.GroupResource(), testCluster, errors.New("later version"))
		}
		_, object, err := react(action)
		if err != nil {
			return true, nil, err
		}
		cluster := object.(*clusterv1.ManagedCluster)
		cluster.ResourceVersion = nextVersion(before)
		return true, cluster, tracker.Update(resource, cluster, "")
	})
}

func nextVersion(version string) string {
	n, _ := strconv.Atoi(version)
	return strconv.Itoa(n + 1)
}

// store puts a ManagedCluster on the hub and into the cache, as a version of its own.
func (f *fixture) store(edits ...func(*clusterv1.ManagedCluster)) {
	f.t.Helper()
	before := "0"
	if stored, err := f.clusters.ClusterV1().ManagedClusters().Get(f.t.Context(), testCluster, metav1.GetOptions{}); err == nil {
		before = stored.ResourceVersion
	}
	cluster := managedCluster(edits...)
	cluster.ResourceVersion = nextVersion(before)
	f.setCluster(cluster)
}

func (f *fixture) writes() int {
	var writes int
	for _, action := range f.clusters.Actions() {
		if action.GetVerb() != "get" {
			writes++
		}
	}
	return writes
}

func TestReimportOfAnImportedCluster(t *testing.T) {
	f := newFixture(t)
	f.versions()
	f.provider.Register(f.syncCtx)
	f.set(partial(DefaultImportNamespace, testSecret, testCluster))
	f.store(annotated(AnnotationImmediateImport, ""), annotated("other", "kept"), imported)
	f.reimport()
	cluster := f.onHub()
	condition := meta.FindStatusCondition(cluster.Status.Conditions, conditionImported)
	if condition.Status != metav1.ConditionFalse || condition.Reason != "ReimportRequested" ||
		condition.Message != "annotation import.open-cluster-management.io/immediate-import asks for an import" {
		t.Fatalf("condition is %+v", condition)
	}
	if got := cluster.Annotations[AnnotationImmediateImport]; got != "" {
		t.Errorf("annotation is %q before the import", got)
	}
	f.reimport()
	f.reimport() // the condition may change for another reason in between
	if cluster := f.onHub(); cluster.Annotations[AnnotationImmediateImport] != "" || f.writes() != 1 {
		t.Errorf("%d writes before the import, annotation is %q", f.writes(), cluster.Annotations[AnnotationImmediateImport])
	}
	if f.syncCtx.Queue().Len() != 0 {
		t.Error("the importer is woken besides by the change of the condition: it would import twice")
	}
	f.store(annotated(AnnotationImmediateImport, ""), annotated("other", "kept"), imported)
	f.reimport()
	cluster = f.onHub()
	if cluster.Annotations[AnnotationImmediateImport] != ImmediateImportCompleted || cluster.Annotations["other"] != "kept" {
		t.Errorf("annotations are %v", cluster.Annotations)
	}
	if !meta.IsStatusConditionTrue(cluster.Status.Conditions, conditionImported) {
		t.Error("imported once more")
	}
	f.reimport()
	if f.writes() != 2 {
		t.Errorf("%d writes", f.writes())
	}
	// It can be asked for again.
	f.store(annotated(AnnotationImmediateImport, ""), imported)
	f.reimport()
	if meta.IsStatusConditionTrue(f.onHub().Status.Conditions, conditionImported) {
		t.Error("a second request is not served")
	}
}

// TestReimportThatIsFasterThanTheCache: the import is done before this controller has seen that it began.
func TestReimportThatIsFasterThanTheCache(t *testing.T) {
	f := newFixture(t)
	f.versions()
	f.provider.Register(f.syncCtx)
	f.set(partial(DefaultImportNamespace, testSecret, testCluster))
	f.store(annotated(AnnotationImmediateImport, ""), imported)
	f.reimport()
	f.reimport() // The cache does not have what was written.
	if f.writes() != 1 {
		t.Fatalf("%d writes for one request", f.writes())
	}
	f.store(annotated(AnnotationImmediateImport, ""), imported)
	f.reimport()
	f.reimport()
	cluster := f.onHub()
	if cluster.Annotations[AnnotationImmediateImport] != ImmediateImportCompleted ||
		!meta.IsStatusConditionTrue(cluster.Status.Conditions, conditionImported) || f.writes() != 2 {
		t.Errorf("%d writes, annotations %v, conditions %v", f.writes(), cluster.Annotations, cluster.Status.Conditions)
	}
}

// TestReimportFromAnOldCache: another writer has made a later version, which comes.
func TestReimportFromAnOldCache(t *testing.T) {
	f := newFixture(t)
	f.versions()
	f.set(partial(DefaultImportNamespace, testSecret, testCluster))
	old := managedCluster(annotated(AnnotationImmediateImport, ""), imported)
	old.ResourceVersion = "1"
	for _, later := range []struct {
		what string
		edit func(*clusterv1.ManagedCluster)
	}{
		{"paused meanwhile", annotated(AnnotationDisableAutoImport, "")},
		{"done by another replica", annotated(AnnotationImmediateImport, ImmediateImportCompleted)},
	} {
		f.store(annotated(AnnotationImmediateImport, ""), imported, later.edit)
		f.store(annotated(AnnotationImmediateImport, ""), imported, later.edit)
		if err := f.provider.clusters.Informer().GetIndexer().Update(old); err != nil {
			t.Fatal(err)
		}
		f.reimport()
		if cluster := f.onHub(); !meta.IsStatusConditionTrue(cluster.Status.Conditions, conditionImported) {
			t.Errorf("%s: imported again", later.what)
		}
		f.reimport()
		if cluster := f.onHub(); !meta.IsStatusConditionTrue(cluster.Status.Conditions, conditionImported) {
			t.Errorf("%s: imported again when that came", later.what)
		}
	}
}

func TestReimportOfAFailingCluster(t *testing.T) {
	f := newFixture(t)
	f.versions()
	f.provider.Register(f.syncCtx)
	f.set(partial(DefaultImportNamespace, testSecret, testCluster))
	f.resolver.Err = credential.Pending(errors.New("not there yet"), 0)
	ctx, _ := testContext(t)
	attempt := func() int {
		_, _ = f.provider.Clients(ctx, managedCluster())
		return len(f.resolver.Calls())
	}
	attempt()
	f.store(annotated(AnnotationImmediateImport, ""), withCondition(metav1.ConditionFalse, "KubeConfigGetFailed", "x"))
	f.reimport()
	if f.syncCtx.Queue().Len() != 1 {
		t.Error("the importer is not woken")
	}
	if got := attempt(); got != 2 {
		t.Errorf("%d attempts: the back-off is not forgotten", got)
	}
	// One request is one attempt: what fails again has its back-off.
	f.reimport()
	if got := attempt(); got != 2 {
		t.Errorf("%d attempts by one request", got)
	}
	if f.writes() != 0 {
		t.Errorf("%d writes", f.writes())
	}
	// The request was noticed before, so that it is done when the import is.
	f.store(annotated(AnnotationImmediateImport, ""), imported)
	f.reimport()
	if got := f.onHub().Annotations[AnnotationImmediateImport]; got != ImmediateImportCompleted {
		t.Errorf("annotation is %q", got)
	}
}

func TestReimportLeavesAlone(t *testing.T) {
	cases := []struct {
		name     string
		cluster  *clusterv1.ManagedCluster // none when nil
		noSecret bool
	}{
		{name: "not asked", cluster: managedCluster(imported)},
		{name: "completed", cluster: managedCluster(annotated(AnnotationImmediateImport, ImmediateImportCompleted), imported)},
		{name: "another value", cluster: managedCluster(annotated(AnnotationImmediateImport, "true"), imported)},
		{name: "another value, failing", cluster: managedCluster(annotated(AnnotationImmediateImport, "true"))},
		{name: "not ours", cluster: managedCluster(annotated(AnnotationImmediateImport, ""), imported), noSecret: true},
		{name: "paused", cluster: managedCluster(annotated(AnnotationImmediateImport, ""), annotated(AnnotationDisableAutoImport, ""), imported)},
		{name: "Cluster API", cluster: managedCluster(annotated(AnnotationImmediateImport, ""), annotated("cluster.x-k8s.io/cluster", "a/b"), imported)},
		{name: "being deleted", cluster: managedCluster(annotated(AnnotationImmediateImport, ""), imported, func(c *clusterv1.ManagedCluster) {
			now := metav1.Now()
			c.DeletionTimestamp, c.Finalizers = &now, []string{"example.com/finalizer"}
		})},
		{name: "deleted"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, declining)
			f.provider.Register(f.syncCtx)
			if !c.noSecret {
				f.set(partial(DefaultImportNamespace, testSecret, testCluster))
			}
			if c.cluster != nil {
				f.setCluster(c.cluster)
			}
			f.reimport()
			f.reimport()
			if f.writes() != 0 || f.syncCtx.Queue().Len() != 0 {
				t.Errorf("%d writes, %d keys in the importer's queue", f.writes(), f.syncCtx.Queue().Len())
			}
		})
	}
}

func TestReimportIsTriedAgainWhenTheHubFails(t *testing.T) {
	f := newFixture(t)
	f.versions()
	f.set(partial(DefaultImportNamespace, testSecret, testCluster))
	f.store(annotated(AnnotationImmediateImport, ""), imported)
	fail := true
	f.clusters.PrependReactor("patch", "managedclusters", func(clienttesting.Action) (bool, runtime.Object, error) {
		return fail, nil, errors.New("the hub fails")
	})
	ctx, _ := testContext(t)
	sync := func() error { return f.reimporting.Sync(ctx, f.syncCtx, testCluster) }
	if err := sync(); err == nil {
		t.Error("a condition that is not written is no error")
	}
	fail = false
	if err := sync(); err != nil {
		t.Error(err)
	}
	f.onHub()
	if err := sync(); err != nil {
		t.Error(err)
	}
	f.store(annotated(AnnotationImmediateImport, ""), imported)
	fail = true
	if err := sync(); err == nil {
		t.Error("an annotation that is not written is no error")
	}
	fail = false
	if err := sync(); err != nil {
		t.Error(err)
	}
	if got := f.onHub().Annotations[AnnotationImmediateImport]; got != ImmediateImportCompleted {
		t.Errorf("annotation is %q", got)
	}
}
