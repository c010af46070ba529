// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"fmt"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/ocm/pkg/registration/hub/importer/providers/capi"
)

// clusterAPI knows which managed clusters another importer's Cluster API provider owns. Two importers write the same
// condition, so each cluster must be one importer's alone.
type clusterAPI struct {
	informer cache.SharedIndexInformer
	// absent is true while the API server does not serve Cluster API's clusters: most hubs never do.
	absent atomic.Bool
}

func newClusterAPI(client metadata.Interface) (*clusterAPI, error) {
	c := &clusterAPI{informer: metadatainformer.NewFilteredMetadataInformer(
		client, capi.ClusterAPIGVR, metav1.NamespaceAll, 0, cache.Indexers{}, nil).Informer()}
	if err := c.informer.SetTransform(keepOwnMetadata); err != nil {
		return nil, fmt.Errorf("setting up the Cluster API informer: %w", err)
	}
	// The reflector goes on listing, at most 30 s apart, and finds Cluster API when it is installed later.
	if err := c.informer.SetWatchErrorHandlerWithContext(func(ctx context.Context, r *cache.Reflector, err error) {
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			if !c.absent.Swap(true) {
				klog.FromContext(ctx).V(2).Info("The hub does not serve Cluster API's clusters")
			}
			return
		}
		cache.DefaultWatchErrorHandler(ctx, r, err)
	}); err != nil {
		return nil, fmt.Errorf("setting up the Cluster API informer: %w", err)
	}
	return c, nil
}

// owns says whether Cluster API's provider claims the cluster: by annotation, or by a Cluster that has its name in the
// namespace of that name.
func (c *clusterAPI) owns(cluster *clusterv1.ManagedCluster) bool {
	if c == nil {
		return false
	}
	if _, ok := cluster.Annotations[capi.CAPIAnnotationKey]; ok {
		return true
	}
	_, exists, err := c.informer.GetIndexer().GetByKey(cluster.Name + "/" + cluster.Name)
	return err == nil && exists
}

// onChange calls enqueue with the name of each cluster whose owner may have changed.
func (c *clusterAPI) onChange(enqueue func(clusterName string)) error {
	if c == nil {
		return nil
	}
	notify := func(obj any) {
		if cluster, err := eventObject(obj); err == nil && cluster.GetNamespace() == cluster.GetName() {
			enqueue(cluster.GetName())
		}
	}
	if _, err := c.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: notify, DeleteFunc: notify}); err != nil {
		return fmt.Errorf("watching Cluster API's clusters: %w", err)
	}
	return nil
}

func (c *clusterAPI) run(ctx context.Context) {
	if c != nil {
		go c.informer.RunWithContext(ctx)
	}
}

func (c *clusterAPI) hasSynced() bool {
	return c == nil || c.absent.Load() || c.informer.HasSynced()
}
