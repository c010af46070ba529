// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"fmt"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/sdk-go/pkg/basecontroller/factory"
)

const (
	// firstLook is when a klusterlet that has not joined is looked at for the first time after it was deployed: one that
	// is well joins in about half of that. Later looks are as far apart as the retries of an import.
	firstLook = 10 * time.Second

	// progressWorkers is how many conditions are written at a time. One would lag behind a thousand clusters that join at once, and
	// clusters that have joined would be looked at in vain.
	progressWorkers = 8
	// diagnosisWorkers is how many looks there are at a time. A look waits for the cluster.
	diagnosisWorkers = 16
)

// progressController follows an import from the deployed klusterlet to a cluster that has joined and is available, and
// writes ConditionCompleted. What it needs of the hub it has in memory; what a look at the cluster found is left to it by
// the diagnosisController, so that no cluster holds up another's condition.
type progressController struct {
	provider *Provider
	queue    factory.SyncContext

	lock sync.Mutex // guards the fields below, for the time of a look-up or a change
	// applying are the clusters that the importer is writing to, and since when.
	applying map[string]time.Time
	found    map[string]*problem
}

func newProgressController(p *Provider) (*progressController, factory.Controller, error) {
	c := &progressController{
		provider: p,
		queue:    factory.NewSyncContext("import-progress"),
		applying: map[string]time.Time{},
		found:    map[string]*problem{},
	}
	if _, err := p.clusters.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(oldObj, newObj any) {
			before, wasCluster := oldObj.(*clusterv1.ManagedCluster)
			after, isCluster := newObj.(*clusterv1.ManagedCluster)
			if wasCluster && isCluster && !isImported(before) && isImported(after) {
				c.deployed(after)
			}
		},
	}); err != nil {
		return nil, nil, fmt.Errorf("watching ManagedClusters: %w", err)
	}
	return c, factory.New().
		WithSyncContext(c.queue).
		WithFilteredEventsInformersQueueKeysFunc(clusterName, isDeployed, p.clusters.Informer()).
		WithSync(c.sync).
		ToController("import-progress"), nil
}

// isDeployed says whether an object is a ManagedCluster whose klusterlet this provider has deployed.
func isDeployed(obj any) bool {
	cluster, ok := obj.(*clusterv1.ManagedCluster)
	return ok && cluster.DeletionTimestamp.IsZero() && isImported(cluster) &&
		meta.FindStatusCondition(cluster.Status.Conditions, ConditionCompleted) != nil
}

// isCompleted says whether there is nothing left to do for a deployed klusterlet.
func isCompleted(cluster *clusterv1.ManagedCluster) bool {
	return meta.IsStatusConditionTrue(cluster.Status.Conditions, ConditionCompleted)
}

// started notes that the importer goes on to write to the cluster.
func (c *progressController) started(clusterName string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.applying[clusterName] = time.Now()
	delete(c.found, clusterName)
}

// hasBegun says whether the importer has gone on to write to the cluster, and the cache does not say that it is done.
func (c *progressController) hasBegun(clusterName string) bool {
	c.lock.Lock()
	defer c.lock.Unlock()
	_, ok := c.applying[clusterName]
	return ok
}

// deployed says that the importer has written all to the cluster.
func (c *progressController) deployed(cluster *clusterv1.ManagedCluster) {
	c.lock.Lock()
	since, ok := c.applying[cluster.Name]
	delete(c.applying, cluster.Name)
	c.lock.Unlock()
	if ok {
		observeDuration(stageApply, time.Since(since))
		c.provider.both(c.provider.candidates(cluster.Name), cluster, corev1.EventTypeNormal, ReasonKlusterletDeployed,
			"the klusterlet is deployed to the cluster")
	}
}

// setFound notes what a look at the cluster found; nil is nothing wrong.
func (c *progressController) setFound(clusterName string, p *problem) {
	c.lock.Lock()
	c.found[clusterName] = p
	c.lock.Unlock()
	c.queue.Queue().Add(clusterName)
}

func (c *progressController) forget(clusterName string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	delete(c.applying, clusterName)
	delete(c.found, clusterName)
}

func (c *progressController) sync(ctx context.Context, _ factory.SyncContext, clusterName string) error {
	cluster, err := c.provider.managedCluster(clusterName)
	if err != nil || cluster == nil || !isDeployed(cluster) {
		return err
	}
	if err := c.record(ctx, cluster); err != nil {
		return err
	}
	updated := cluster.DeepCopy()
	observe(updated)
	if isCompleted(cluster) {
		return c.provider.patchStatus(ctx, updated, cluster)
	}
	c.lock.Lock()
	found, looked := c.found[clusterName]
	c.lock.Unlock()
	waiting := waitingFor(cluster, found)
	if waiting != nil && !looked && standsUntilLook(cluster, waiting.reason) {
		return c.provider.patchStatus(ctx, updated, cluster)
	}
	status, eventType, reason, message := metav1.ConditionFalse, corev1.EventTypeWarning, ReasonCompleted, ""
	if waiting == nil {
		status, eventType, message = metav1.ConditionTrue, corev1.EventTypeNormal, "the klusterlet has joined and is available"
	} else {
		reason, message = waiting.reason, waiting.message()
	}
	setCondition(updated, ConditionCompleted, status, reason, message)
	if err := c.provider.patchStatus(ctx, updated, cluster); err != nil {
		return err
	}
	if waiting == nil {
		c.forget(clusterName)
		if deployed := meta.FindStatusCondition(cluster.Status.Conditions, conditionImported); deployed != nil {
			observeDuration(stageJoin, time.Since(deployed.LastTransitionTime.Time))
		}
	}
	before := meta.FindStatusCondition(cluster.Status.Conditions, ConditionCompleted)
	changed := before.Reason != string(reason) || before.Message != message
	if changed && reason != ReasonNotJoined && reason != ReasonNotAvailable {
		c.provider.both(c.provider.candidates(clusterName), cluster, eventType, reason, message)
	}
	return nil
}

// waitingFor returns what a deployed klusterlet waits for until it has joined and is available, or nil when it is. found is
// what the last look at the cluster found.
func waitingFor(cluster *clusterv1.ManagedCluster, found *problem) *problem {
	joined := meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ManagedClusterConditionJoined)
	switch {
	case joined && meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable):
		return nil
	case found != nil && found.reason != ReasonNotJoined:
		return found
	case !cluster.Spec.HubAcceptsClient:
		return &problem{reason: ReasonNotAccepted, detail: "the ManagedCluster does not accept the cluster"}
	case joined:
		return &problem{reason: ReasonNotAvailable, detail: "the klusterlet has joined and is not available"}
	case found != nil:
		return found
	}
	return notJoined("")
}

// standsUntilLook says whether the condition has what an earlier run of the process found on the cluster. It is not known to
// be over before the cluster is looked at.
func standsUntilLook(cluster *clusterv1.ManagedCluster, waiting Reason) bool {
	before := meta.FindStatusCondition(cluster.Status.Conditions, ConditionCompleted)
	switch Reason(before.Reason) {
	case ReasonNotAccepted, ReasonNotAvailable:
		return false
	case ReasonNotJoined:
		// Its text may say that the cluster could not be looked at.
		return waiting == ReasonNotJoined
	}
	return true
}

func notJoined(more string) *problem {
	return &problem{reason: ReasonNotJoined, detail: "the klusterlet has not joined the hub" + more}
}

// record writes the identity of an imported cluster to its ManagedCluster.
func (c *progressController) record(ctx context.Context, cluster *clusterv1.ManagedCluster) error {
	uid := string(c.provider.identities.claimed(cluster))
	switch uid {
	case "":
		return nil
	case cluster.Annotations[AnnotationClusterUID]:
		c.provider.identities.release(cluster.Name)
		return nil
	}
	return c.provider.annotate(ctx, cluster.Name, AnnotationClusterUID, uid)
}

// diagnosisController looks at clusters whose klusterlet is deployed and has not joined.
type diagnosisController struct {
	provider *Provider
	progress *progressController

	lock  sync.Mutex // guards looks, for the time of a look-up or a change
	looks map[string]look
}

// look is when a cluster was looked at, by which Secret, and after which deployment.
type look struct {
	input    string
	deployed metav1.Time
	count    int
	next     time.Time
}

func newDiagnosisController(p *Provider, progress *progressController) (factory.Controller, error) {
	c := &diagnosisController{provider: p, progress: progress, looks: map[string]look{}}
	syncCtx := factory.NewSyncContext("import-diagnosis")
	if err := p.secrets.onChange(func(clusterName string) { syncCtx.Queue().Add(clusterName) }); err != nil {
		return nil, err
	}
	return factory.New().
		WithSyncContext(syncCtx).
		WithFilteredEventsInformersQueueKeysFunc(clusterName, isDeployed, p.clusters.Informer()).
		WithSync(c.sync).
		ToController("import-diagnosis"), nil
}

func (c *diagnosisController) sync(ctx context.Context, syncCtx factory.SyncContext, clusterName string) error {
	cluster, err := c.provider.managedCluster(clusterName)
	if err != nil {
		return err
	}
	// A cluster without a recorded identity was imported just before the process ended.
	if cluster == nil || !isDeployed(cluster) || isCompleted(cluster) && cluster.Annotations[AnnotationClusterUID] != "" {
		c.lock.Lock()
		defer c.lock.Unlock()
		delete(c.looks, clusterName)
		return nil
	}
	attempt := newAttempt(cluster, c.provider.candidates(clusterName))
	c.lock.Lock()
	last := c.looks[clusterName]
	c.lock.Unlock()
	deployed := meta.FindStatusCondition(cluster.Status.Conditions, conditionImported).LastTransitionTime
	if last.input != attempt.input || !last.deployed.Equal(&deployed) {
		last = look{input: attempt.input, deployed: deployed, next: deployed.Add(firstLook)}
	}
	if time.Now().After(last.next) {
		found := c.look(ctx, cluster, attempt)
		if ctx.Err() != nil {
			return nil
		}
		c.progress.setFound(clusterName, found)
		last.count++
		last.next = time.Now().Add(wait.Jitter(backoff(max(last.count, 2)), retryJitter))
	}
	c.lock.Lock()
	c.looks[clusterName] = last
	c.lock.Unlock()
	syncCtx.Queue().AddAfter(clusterName, time.Until(last.next))
	return nil
}

// look returns why the klusterlet of a cluster does not join, as far as it can be seen on the cluster and on the hub.
func (c *diagnosisController) look(ctx context.Context, cluster *clusterv1.ManagedCluster, attempt attempt) *problem {
	more := ""
	found, err := c.lookAtCluster(ctx, cluster, attempt)
	switch {
	case err != nil:
		more = ", and the cluster cannot be looked at: " + string(problemOf(err).reason)
	case found != nil && !found.mayBeOver():
		return found
	}
	request, err := newestCSR(ctx, c.provider.kubeClient, cluster.Name)
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).Error(err, "CertificateSigningRequests of a klusterlet cannot be read", "managedCluster", cluster.Name)
	}
	if found != nil && !isSince(request, cluster) {
		return found
	}
	waits := csrProblem(request)
	switch {
	case waits != nil:
		return waits
	case found != nil && cluster.Spec.HubAcceptsClient:
		// It got its certificate, and cannot use it.
		return found
	}
	return notJoined(more)
}

// isSince says whether a request was made by the klusterlet that was deployed last, which has reached the hub by that. Both times are
// the hub's: those of the cluster may be others.
func isSince(request *certificatesv1.CertificateSigningRequest, cluster *clusterv1.ManagedCluster) bool {
	imported := meta.FindStatusCondition(cluster.Status.Conditions, conditionImported)
	return request != nil && imported != nil && !request.CreationTimestamp.Time.Before(imported.LastTransitionTime.Time)
}

func (c *diagnosisController) lookAtCluster(ctx context.Context, cluster *clusterv1.ManagedCluster, attempt attempt) (*problem, error) {
	if len(attempt.secrets) == 0 {
		return nil, &problem{reason: ReasonSecretNotFound}
	}
	conn, _, err := c.provider.connect(ctx, cluster, attempt)
	if err != nil {
		return nil, err
	}
	if conn == nil {
		return nil, &problem{reason: ReasonSecretNotFound}
	}
	defer conn.close()
	if cluster.Annotations[AnnotationClusterUID] == "" {
		uid, err := conn.clusterUID(ctx)
		if err != nil {
			return nil, err
		}
		c.provider.identities.claim(cluster, uid)
	}
	return conn.diagnose(ctx)
}
