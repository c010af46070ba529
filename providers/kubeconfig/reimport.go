// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/sdk-go/pkg/basecontroller/factory"
)

// reasonReimportRequested is the reason of the condition between the request and the import.
const reasonReimportRequested = "ReimportRequested"

// reimportController serves AnnotationImmediateImport. The importer never looks again at a cluster that it imported,
// so a further import starts by saying that the cluster is not imported.
type reimportController struct {
	provider *Provider

	lock sync.Mutex // guards requests, for the time of a look-up or a change
	// requests are those of the clusters whose annotation asks for an import. They are lost with the process: then an import
	// that was done is done once more, which changes nothing.
	requests map[string]reimportRequest
}

// reimportRequest is what became of a request.
type reimportRequest struct {
	// importing says that the importer was told, and has not said yet that the import is done.
	importing bool
	// answered is the version of the ManagedCluster that was written to last. The condition is written to that version alone, so that
	// each later one is of after that: the condition need not have been seen, since an import may be faster than this controller.
	answered string
}

func newReimportController(p *Provider) factory.Controller {
	c := &reimportController{provider: p, requests: map[string]reimportRequest{}}
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
		c.set(clusterName, nil)
		return nil
	}
	value, asked := cluster.Annotations[AnnotationImmediateImport]
	if !asked || value != "" {
		c.set(clusterName, nil)
		return nil
	}
	if !cluster.DeletionTimestamp.IsZero() || !c.provider.IsManagedClusterOwner(cluster) {
		return nil
	}
	request, known := c.get(clusterName)
	switch {
	case known && request.answered == cluster.ResourceVersion:
		// What was written is not in the cache yet.
		return nil
	case !isImported(cluster):
		if !request.importing {
			c.set(clusterName, &reimportRequest{importing: true})
			// The import is tried now, not after the back-off of an earlier attempt. Without one the change that led here has woken
			// the importer, and a second wake would make it import twice: when its first import ends, its cache is still without
			// the result.
			if c.provider.failures.forget(clusterName) {
				c.provider.wake(clusterName)
			}
		}
		return nil
	case request.importing:
		err = c.provider.annotate(ctx, cluster.Name, AnnotationImmediateImport, ImmediateImportCompleted)
	default:
		err = c.begin(ctx, cluster)
	}
	if apierrors.IsConflict(err) {
		// The later version leads here again.
		return nil
	}
	if err == nil {
		c.set(clusterName, &reimportRequest{importing: !request.importing, answered: cluster.ResourceVersion})
	}
	return err
}

// begin says that the cluster is not imported, which wakes the importer. No back-off is in its way: a success has ended that.
func (c *reimportController) begin(ctx context.Context, cluster *clusterv1.ManagedCluster) error {
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
	return nil
}

func (c *reimportController) get(clusterName string) (request reimportRequest, known bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	request, known = c.requests[clusterName]
	return request, known
}

// set notes a request, or with nil that there is none.
func (c *reimportController) set(clusterName string, request *reimportRequest) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if request == nil {
		delete(c.requests, clusterName)
		return
	}
	c.requests[clusterName] = *request
}
