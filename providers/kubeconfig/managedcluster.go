// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	clusterclientv1 "open-cluster-management.io/api/client/cluster/clientset/versioned/typed/cluster/v1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/sdk-go/pkg/patcher"
)

// What the controllers of the provider do with the ManagedClusters of the hub.

func isImported(cluster *clusterv1.ManagedCluster) bool {
	return meta.IsStatusConditionTrue(cluster.Status.Conditions, conditionImported)
}

// managedCluster returns a ManagedCluster as the informer has it, or nil if there is none of the name.
func (p *Provider) managedCluster(name string) (*clusterv1.ManagedCluster, error) {
	cluster, err := p.clusters.Lister().Get(name)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking up ManagedCluster %s: %w", name, err)
	}
	return cluster, nil
}

// LatestManagedCluster returns a ManagedCluster as the hub has it, ahead of any cache, or nil if there is none of the name. The
// component may list ManagedClusters and not get them.
func LatestManagedCluster(ctx context.Context, clusters clusterclientv1.ManagedClusterInterface, name string) (*clusterv1.ManagedCluster, error) {
	list, err := clusters.List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()})
	if err != nil {
		return nil, fmt.Errorf("reading ManagedCluster %s: %w", name, err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	return &list.Items[0], nil
}

// patchStatus writes what differs in the status of a ManagedCluster.
func (p *Provider) patchStatus(ctx context.Context, updated, cluster *clusterv1.ManagedCluster) error {
	statuses := patcher.NewPatcher[*clusterv1.ManagedCluster, clusterv1.ManagedClusterSpec, clusterv1.ManagedClusterStatus](
		p.clusterClient.ClusterV1().ManagedClusters())
	if _, err := statuses.PatchStatus(ctx, updated, updated.Status, cluster.Status); err != nil {
		return fmt.Errorf("patching the status of ManagedCluster %s: %w", cluster.Name, err)
	}
	return nil
}

// annotate sets an annotation of a ManagedCluster.
func (p *Provider) annotate(ctx context.Context, clusterName, key, value string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{key: value}}})
	if err != nil {
		return fmt.Errorf("marshalling annotation %s: %w", key, err)
	}
	if _, err := p.clusterClient.ClusterV1().ManagedClusters().Patch(
		ctx, clusterName, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		return fmt.Errorf("setting annotation %s of ManagedCluster %s: %w", key, clusterName, err)
	}
	return nil
}
