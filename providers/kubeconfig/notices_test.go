// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/ocm/pkg/registration/hub/importer/providers/capi"
)

func (f *fixture) notices(clusterName string) []recordedEvent {
	f.t.Helper()
	ctx, _ := testContext(f.t)
	if err := f.noticing.Sync(ctx, f.syncCtx, clusterName); err != nil {
		f.t.Fatal(err)
	}
	return f.recorder.take()
}

func TestNotices(t *testing.T) {
	placed := partial(DefaultImportNamespace, testSecret, testCluster)
	own := partial(testCluster, SecretName, testCluster)
	misplaced := partial(testCluster, SecretName, "cluster2")
	event := func(kind, reason, regarding, note string) recordedEvent {
		return recordedEvent{regarding, kind, reason, note}
	}
	const (
		placedKey = "Secret " + DefaultImportNamespace + "/" + testSecret
		ownKey    = "Secret " + testCluster + "/" + SecretName
		cluster   = "ManagedCluster /" + testCluster
	)
	ownedNote := "ManagedCluster cluster1 is imported by Cluster API's provider; this Secret is not used"
	pausedEvent := event("Normal", "ImportPaused", cluster,
		"annotation import.open-cluster-management.io/disable-auto-import pauses the import; remove it to go on")
	cases := []struct {
		name    string
		secrets []*metav1.PartialObjectMetadata
		cluster *clusterv1.ManagedCluster
		key     string // testCluster when empty
		want    []recordedEvent
	}{
		{name: "nothing"},
		{name: "a cluster alone", cluster: managedCluster(annotated(AnnotationDisableAutoImport, ""))},
		{name: "all is well", secrets: []*metav1.PartialObjectMetadata{placed}, cluster: managedCluster()},
		{
			name: "no ManagedCluster", secrets: []*metav1.PartialObjectMetadata{placed},
			want: []recordedEvent{event("Normal", "ManagedClusterNotFound", placedKey,
				"there is no ManagedCluster cluster1; create it, or correct annotation import.open-cluster-management.io/managed-cluster")},
		},
		{
			name: "no name", secrets: []*metav1.PartialObjectMetadata{partial(DefaultImportNamespace, testSecret, "Not a name")}, key: "Not a name",
			want: []recordedEvent{event("Warning", "AnnotationInvalid", placedKey,
				"annotation import.open-cluster-management.io/managed-cluster is not the name of a ManagedCluster; set it to one")},
		},
		{
			name: "two Secrets", secrets: []*metav1.PartialObjectMetadata{placed, own}, cluster: managedCluster(),
			want: []recordedEvent{
				event("Warning", "SecretAmbiguous", ownKey, "2 Secrets are for ManagedCluster cluster1, none is used; "+reasonInfos[ReasonSecretAmbiguous].next),
				event("Warning", "SecretAmbiguous", placedKey, "2 Secrets are for ManagedCluster cluster1, none is used; "+reasonInfos[ReasonSecretAmbiguous].next),
			},
		},
		{
			name: "two Secrets, imported", secrets: []*metav1.PartialObjectMetadata{placed, own},
			cluster: managedCluster(withCondition(metav1.ConditionTrue, "ImportSucceed", "")),
			want: []recordedEvent{
				event("Warning", "SecretAmbiguous", ownKey, "2 Secrets are for ManagedCluster cluster1, none is used; "+reasonInfos[ReasonSecretAmbiguous].next),
				event("Warning", "SecretAmbiguous", placedKey, "2 Secrets are for ManagedCluster cluster1, none is used; "+reasonInfos[ReasonSecretAmbiguous].next),
			},
		},
		{
			name: "misplaced", secrets: []*metav1.PartialObjectMetadata{misplaced}, cluster: managedCluster(),
			want: []recordedEvent{event("Warning", "SecretMisplaced", ownKey,
				"annotation import.open-cluster-management.io/managed-cluster names another cluster than cluster1, whose namespace this is; set it to cluster1")},
		},
		{
			name: "Cluster API", secrets: []*metav1.PartialObjectMetadata{placed}, cluster: managedCluster(annotated(capi.CAPIAnnotationKey, "a/b")),
			want: []recordedEvent{
				event("Warning", "OwnedByClusterAPI", placedKey, ownedNote),
				event("Warning", "OwnedByClusterAPI", cluster, "Cluster API's provider imports this cluster; its import Secret is not used"),
			},
		},
		{
			name: "Cluster API, imported", secrets: []*metav1.PartialObjectMetadata{placed},
			cluster: managedCluster(annotated(capi.CAPIAnnotationKey, "a/b"), withCondition(metav1.ConditionTrue, "ImportSucceed", "")),
			want:    []recordedEvent{event("Warning", "OwnedByClusterAPI", placedKey, ownedNote)},
		},
		{
			name: "paused", secrets: []*metav1.PartialObjectMetadata{placed}, cluster: managedCluster(annotated(AnnotationDisableAutoImport, "")),
			want: []recordedEvent{pausedEvent},
		},
		{
			name: "paused, imported", secrets: []*metav1.PartialObjectMetadata{placed},
			cluster: managedCluster(annotated(AnnotationDisableAutoImport, ""), withCondition(metav1.ConditionTrue, "ImportSucceed", "")),
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, declining)
			f.set(c.secrets...)
			if c.cluster != nil {
				f.setCluster(c.cluster)
			}
			key := c.key
			if key == "" {
				key = testCluster
			}
			if diff := cmp.Diff(c.want, f.notices(key)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if events := f.notices(key); events != nil {
				t.Errorf("told twice: %v", events)
			}
		})
	}
}

func TestNoticesFollowChanges(t *testing.T) {
	f := newFixture(t, declining)
	f.set(partial(DefaultImportNamespace, "a", testCluster))
	expect := func(step string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, subjects(f.notices(testCluster))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step, diff)
		}
	}
	const (
		a = " Secret " + DefaultImportNamespace + "/a"
		b = " Secret " + DefaultImportNamespace + "/b"
		c = " Secret " + DefaultImportNamespace + "/c"
	)
	expect("no ManagedCluster", "Normal ManagedClusterNotFound"+a)
	f.setCluster(managedCluster())
	expect("there it is")
	secretB := partial(DefaultImportNamespace, "b", testCluster)
	f.set(secretB)
	expect("a second Secret", "Warning SecretAmbiguous"+a, "Warning SecretAmbiguous"+b)
	f.set(partial(DefaultImportNamespace, "c", testCluster))
	expect("a third", "Warning SecretAmbiguous"+a, "Warning SecretAmbiguous"+b, "Warning SecretAmbiguous"+c)
	f.unset(partial(DefaultImportNamespace, "c", testCluster))
	expect("two again", "Warning SecretAmbiguous"+a, "Warning SecretAmbiguous"+b)
	f.cacheOnly(partial(DefaultImportNamespace, "b", testCluster, resourceVersion("9")))
	expect("a change that changes nothing")
	f.unset(secretB)
	expect("one again")
	f.setCluster(managedCluster(annotated(AnnotationDisableAutoImport, "")))
	expect("paused", "Normal ImportPaused ManagedCluster /"+testCluster)
	expect("still paused")
	f.setCluster(managedCluster())
	expect("not paused")
	f.setCluster(managedCluster(annotated(AnnotationDisableAutoImport, "")))
	expect("paused again", "Normal ImportPaused ManagedCluster /"+testCluster)
}

// An annotation holds anything; the API server refuses an event whose note is too long.
func TestNoticesAreBounded(t *testing.T) {
	name := strings.Repeat("ü", 5000)
	f := newFixture(t)
	f.set(partial(DefaultImportNamespace, testSecret, name))
	for _, event := range f.notices(name) {
		if len(event.Note) > 1024 {
			t.Errorf("%d bytes", len(event.Note))
		}
	}
}
