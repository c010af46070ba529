// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	clusterfake "open-cluster-management.io/api/client/cluster/clientset/versioned/fake"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/ocm/pkg/registration/hub/importer"
	"open-cluster-management.io/sdk-go/pkg/patcher"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
)

// conflicting returns a hub with a ManagedCluster that refuses writes to another version than the stored one, and the stored
// one as it is now.
func conflicting(t *testing.T, cluster *clusterv1.ManagedCluster) (*clusterfake.Clientset, func() *clusterv1.ManagedCluster) {
	t.Helper()
	resource := clusterv1.SchemeGroupVersion.WithResource("managedclusters")
	client := clusterfake.NewSimpleClientset(cluster)
	stored := func() *clusterv1.ManagedCluster {
		object, err := client.Tracker().Get(resource, "", cluster.Name)
		if err != nil {
			t.Fatal(err)
		}
		return object.(*clusterv1.ManagedCluster)
	}
	client.PrependReactor("patch", resource.Resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
		var patch struct{ Metadata metav1.ObjectMeta }
		if err := json.Unmarshal(action.(clienttesting.PatchAction).GetPatch(), &patch); err != nil {
			return true, nil, err
		}
		if patch.Metadata.ResourceVersion != stored().ResourceVersion {
			return true, nil, apierrors.NewConflict(resource.GroupResource(), cluster.Name, errors.New("later version"))
		}
		return false, nil, nil
	})
	return client, stored
}

func TestImporterClient(t *testing.T) {
	const (
		imported = importer.ManagedClusterConditionImported
		passed   = kubeconfig.ConditionPreflightPassed
		accepted = clusterv1.ManagedClusterConditionHubAccepted
		name     = "cluster1"
	)
	isTrue, isFalse := metav1.ConditionTrue, metav1.ConditionFalse
	cluster := func(uid types.UID, version string, conditions map[string]metav1.ConditionStatus) *clusterv1.ManagedCluster {
		c := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, UID: uid, ResourceVersion: version}}
		for condition, status := range conditions {
			meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{Type: condition, Status: status, Reason: "x"})
		}
		return c
	}
	statuses := func(c *clusterv1.ManagedCluster) map[string]metav1.ConditionStatus {
		all := map[string]metav1.ConditionStatus{}
		for _, condition := range c.Status.Conditions {
			all[condition.Type] = condition.Status
		}
		return all
	}
	type conditions = map[string]metav1.ConditionStatus
	cases := []struct {
		name string
		// read is what the importer read, stored what the hub has when it writes; the importer says the conditions of says.
		read, stored *clusterv1.ManagedCluster
		says, want   conditions
		conflict     bool
	}{
		{
			name: "nobody else wrote", read: cluster("1", "1", nil), stored: cluster("1", "1", nil),
			says: conditions{imported: isTrue, passed: isTrue}, want: conditions{imported: isTrue, passed: isTrue},
		},
		{
			name: "another wrote", read: cluster("1", "1", conditions{accepted: isFalse}), stored: cluster("1", "2", conditions{accepted: isTrue}),
			says: conditions{imported: isTrue, passed: isTrue}, want: conditions{imported: isTrue, passed: isTrue, accepted: isTrue},
		},
		{
			name: "another took a condition away", read: cluster("1", "1", conditions{accepted: isTrue}), stored: cluster("1", "2", nil),
			says: conditions{imported: isFalse}, want: conditions{imported: isFalse},
		},
		{
			name: "a failure comes late", read: cluster("1", "1", nil), stored: cluster("1", "2", conditions{imported: isTrue, passed: isTrue}),
			says: conditions{imported: isFalse, passed: isFalse}, want: conditions{imported: isTrue, passed: isTrue}, conflict: true,
		},
		{
			name: "a success comes late", read: cluster("1", "1", nil),
			stored: cluster("1", "2", conditions{imported: isTrue, kubeconfig.ConditionCompleted: isTrue}),
			says:   conditions{imported: isTrue, kubeconfig.ConditionCompleted: isFalse},
			want:   conditions{imported: isTrue, kubeconfig.ConditionCompleted: isTrue}, conflict: true,
		},
		{
			name: "another cluster of that name", read: cluster("1", "1", nil), stored: cluster("2", "2", nil),
			says: conditions{imported: isTrue}, want: conditions{}, conflict: true,
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			client, stored := conflicting(t, c.stored)
			writer := patcher.NewPatcher[*clusterv1.ManagedCluster, clusterv1.ManagedClusterSpec, clusterv1.ManagedClusterStatus](
				importerClient{client}.ClusterV1().ManagedClusters())
			updated := c.read.DeepCopy()
			for condition, status := range c.says {
				meta.SetStatusCondition(&updated.Status.Conditions, metav1.Condition{Type: condition, Status: status, Reason: "y"})
			}
			_, err := writer.PatchStatus(t.Context(), updated, updated.Status, c.read.Status)
			if apierrors.IsConflict(err) != c.conflict || err != nil && !c.conflict {
				t.Errorf("got %v", err)
			}
			if diff := cmp.Diff(c.want, statuses(stored())); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// TestImporterClientFails: what the hub says is what the importer gets, and it is asked again only while others write.
func TestImporterClientFails(t *testing.T) {
	const patch = `{"metadata":{"uid":"1","resourceVersion":"1"},"status":{"conditions":[{"type":"ManagedClusterImportSucceeded","status":"True"}]}}`
	cases := []struct {
		name string
		// others is how often another writer is faster after the first time; list is the error of a list.
		others     int
		list       error
		deleted    bool
		isConflict bool
		patches    int
	}{
		{name: "others write twice more", others: 2, patches: 4},
		{name: "others write on and on", others: 1000, isConflict: true, patches: 6},
		{name: "the list fails", list: errors.New("no list"), patches: 1},
		{name: "it is deleted", deleted: true, isConflict: true, patches: 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			client := clusterfake.NewSimpleClientset(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster1", UID: "1", ResourceVersion: "9"}})
			if c.deleted {
				client = clusterfake.NewSimpleClientset()
			}
			patches := 0
			client.PrependReactor("patch", "managedclusters", func(clienttesting.Action) (bool, runtime.Object, error) {
				if patches++; patches <= 1+c.others {
					return true, nil, apierrors.NewConflict(clusterv1.Resource("managedclusters"), "cluster1", errors.New("later version"))
				}
				return false, nil, nil
			})
			client.PrependReactor("list", "managedclusters", func(clienttesting.Action) (bool, runtime.Object, error) {
				return c.list != nil, nil, c.list
			})
			got, err := importerClient{client}.ClusterV1().ManagedClusters().Patch(t.Context(), "cluster1", types.MergePatchType, []byte(patch),
				metav1.PatchOptions{}, "status")
			if apierrors.IsConflict(err) != c.isConflict || c.list != nil && !errors.Is(err, c.list) {
				t.Errorf("got %v", err)
			}
			if (err == nil) != (got != nil && meta.IsStatusConditionTrue(got.Status.Conditions, importer.ManagedClusterConditionImported)) {
				t.Errorf("got %+v and %v", got, err)
			}
			if patches != c.patches {
				t.Errorf("%d patches, want %d", patches, c.patches)
			}
		})
	}
}
