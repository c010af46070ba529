// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	clusterclientset "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterclientv1 "open-cluster-management.io/api/client/cluster/clientset/versioned/typed/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/ocm/pkg/registration/hub/importer"
	"open-cluster-management.io/sdk-go/pkg/patcher"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
)

// importerClient is the client by which OCM's importer writes what became of an import. Other controllers of the hub write to a
// ManagedCluster while it is imported, a new one above all, so that in the end the importer writes to a version that is an old
// one. That is a conflict, and it would import once more; here its conditions are written to the later version.
type importerClient struct{ clusterclientset.Interface }

func (c importerClient) ClusterV1() clusterclientv1.ClusterV1Interface {
	return importerClientV1{c.Interface.ClusterV1()}
}

type importerClientV1 struct {
	clusterclientv1.ClusterV1Interface
}

func (c importerClientV1) ManagedClusters() clusterclientv1.ManagedClusterInterface {
	return importedClusters{c.ClusterV1Interface.ManagedClusters()}
}

type importedClusters struct {
	clusterclientv1.ManagedClusterInterface
}

// importConditions are those that the importer writes, its own and its provider's.
var importConditions = []string{importer.ManagedClusterConditionImported, kubeconfig.ConditionPreflightPassed, kubeconfig.ConditionCompleted}

// Patch is the only write of the importer: of the status.
func (c importedClusters) Patch(ctx context.Context, name string, patchType types.PatchType, data []byte, options metav1.PatchOptions,
	subresources ...string,
) (*clusterv1.ManagedCluster, error) {
	patched, conflict := c.ManagedClusterInterface.Patch(ctx, name, patchType, data, options, subresources...)
	if !apierrors.IsConflict(conflict) || !slices.Equal(subresources, []string{"status"}) {
		return patched, conflict
	}
	var wanted clusterv1.ManagedCluster
	if err := json.Unmarshal(data, &wanted); err != nil {
		return nil, fmt.Errorf("reading the patch of ManagedCluster %s: %w", name, err)
	}
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		latest, err := kubeconfig.LatestManagedCluster(ctx, c.ManagedClusterInterface, name)
		if err != nil {
			return err
		}
		if latest == nil || latest.UID != wanted.UID || meta.IsStatusConditionTrue(latest.Status.Conditions, importer.ManagedClusterConditionImported) {
			// Of another ManagedCluster this says nothing, and after another import, which is done, nothing new.
			patched = nil
			return nil
		}
		patched = latest.DeepCopy()
		for _, condition := range wanted.Status.Conditions {
			if slices.Contains(importConditions, condition.Type) {
				meta.SetStatusCondition(&patched.Status.Conditions, condition)
			}
		}
		_, err = patcher.NewPatcher[*clusterv1.ManagedCluster, clusterv1.ManagedClusterSpec, clusterv1.ManagedClusterStatus](
			c.ManagedClusterInterface).PatchStatus(ctx, patched, patched.Status, latest.Status)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case patched == nil:
		return nil, conflict
	}
	return patched, nil
}
