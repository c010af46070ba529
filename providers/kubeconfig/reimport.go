// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/sdk-go/pkg/basecontroller/factory"
)

// reasonReimportRequested is the reason of the condition between the request and the import.
const reasonReimportRequested = "ReimportRequested"

// reimportController serves AnnotationImmediateImport. The importer never looks again at a cluster that it imported,
// so a further import starts by saying that the cluster is not imported.
type reimportController struct {
	provider *Provider

	lock sync.Mutex // guards requested, for the time of a look-up or a change
	// requested are the clusters whose import was asked for and is not done. It is lost with the process: then an
	// import that was done is done once more, which changes nothing.
	requested map[string]bool
}

func newReimportController(p *Provider) factory.Controller {
	c := &reimportController{provider: p, requested: map[string]bool{}}
	return factory.New().
		WithInformersQueueKeysFunc(clusterName, p.clusters.Informer()).
		WithSync(c.sync).
		ToController("import-reimport")
}

func (c *reimportController) sync(ctx context.Context, _ factory.SyncContext, clusterName string) error {
	cluster, err := c.provider.managedCluster(clusterName)
	if err != nil {
		return err
	}
	if cluster == nil {
		c.setRequested(clusterName, false)
		return nil
	}
	value, asked := cluster.Annotations[AnnotationImmediateImport]
	if !asked || value != "" {
		c.setRequested(clusterName, false)
		return nil
	}
	if !cluster.DeletionTimestamp.IsZero() || !c.provider.IsManagedClusterOwner(cluster) {
		return nil
	}
	imported := isImported(cluster)
	switch {
	case imported && c.isRequested(clusterName):
		if err := c.provider.annotate(ctx, clusterName, AnnotationImmediateImport, ImmediateImportCompleted); err != nil {
			return err
		}
		c.setRequested(clusterName, false)
	case imported:
		updated := cluster.DeepCopy()
		meta.SetStatusCondition(&updated.Status.Conditions, metav1.Condition{
			Type:    conditionImported,
			Status:  metav1.ConditionFalse,
			Reason:  reasonReimportRequested,
			Message: fmt.Sprintf("annotation %s asks for an import", AnnotationImmediateImport),
		})
		if err := c.provider.patchStatus(ctx, updated, cluster); err != nil {
			return fmt.Errorf("asking for an import: %w", err)
		}
		// Not requested yet: the cached condition is still the old one until the patch comes back.
	case !c.isRequested(clusterName):
		c.setRequested(clusterName, true)
		// The import is tried now, not after the back-off of an earlier attempt. Without one the change that led here has woken
		// the importer, and a second wake would make it import twice: when its first import ends, its cache is still without
		// the result.
		if c.provider.failures.forget(clusterName) {
			c.provider.wake(clusterName)
		}
	}
	return nil
}

func (c *reimportController) isRequested(clusterName string) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.requested[clusterName]
}

func (c *reimportController) setRequested(clusterName string, requested bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if requested {
		c.requested[clusterName] = true
		return
	}
	delete(c.requested, clusterName)
}
