// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/flowcontrol"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/sdk-go/pkg/basecontroller/factory"
)

const (
	// expiryDelay leaves the first reading of a Secret to its import, whose result is used here.
	expiryDelay = 5 * time.Second
	// expiryReads bounds, in Secrets a second, how fast the Secrets of clusters that are imported are read after a start.
	expiryReads = 20
)

// expiryController knows until when the credentials in import Secrets are valid, of imported clusters too, and says
// when one expires. It reads no cluster.
type expiryController struct {
	provider *Provider
	queue    factory.SyncContext
	reads    flowcontrol.RateLimiter

	lock  sync.Mutex // guards known, for the time of a look-up or a change
	known map[string]expiry
}

// expiry is when the credential expires that a cluster's Secret has in one state, or why it can't be used.
type expiry struct {
	state   string
	valid   validity
	problem *problem
	// said is the last reason that an event was recorded for.
	said Reason
}

func newExpiryController(p *Provider) (*expiryController, factory.Controller, error) {
	c := &expiryController{
		provider: p,
		queue:    factory.NewSyncContext("import-expiry"),
		reads:    flowcontrol.NewTokenBucketRateLimiter(expiryReads, expiryReads),
		known:    map[string]expiry{},
	}
	if err := p.secrets.onChange(func(clusterName string) { c.queue.Queue().AddAfter(clusterName, expiryDelay) }); err != nil {
		return nil, nil, err
	}
	return c, factory.New().WithSyncContext(c.queue).WithSync(c.sync).ToController("import-expiry"), nil
}

// set notes the validity of the credential that a Secret holds.
func (c *expiryController) set(clusterName string, secret metav1.Object, valid validity) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if last := c.known[clusterName]; last.state != stateOf(secret) || last.valid != valid {
		c.known[clusterName] = expiry{state: stateOf(secret), valid: valid}
		c.queue.Queue().Add(clusterName)
	}
}

func (c *expiryController) forget(clusterName string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	delete(c.known, clusterName)
}

// times returns when the credential of each cluster expires.
func (c *expiryController) times() map[string]time.Time {
	c.lock.Lock()
	defer c.lock.Unlock()
	times := map[string]time.Time{}
	for name, known := range c.known {
		if !known.valid.notAfter.IsZero() {
			times[name] = known.valid.notAfter
		}
	}
	return times
}

func (c *expiryController) sync(ctx context.Context, syncCtx factory.SyncContext, clusterName string) error {
	cluster, err := c.provider.managedCluster(clusterName)
	if err != nil {
		return err
	}
	secrets := c.provider.secrets.forCluster(clusterName)
	if cluster == nil || len(secrets) != 1 {
		c.forget(clusterName)
		return nil
	}
	attempt := newAttempt(cluster, secrets)
	known, err := c.look(ctx, cluster, attempt)
	if err != nil {
		return err
	}
	now := time.Now()
	said, err := c.say(ctx, cluster, attempt, known, now)
	if err != nil {
		return err
	}
	c.lock.Lock()
	if known.said = said; c.known[clusterName].state == known.state {
		c.known[clusterName] = known
	}
	c.lock.Unlock()
	for _, next := range []time.Time{known.valid.warnAt(), known.valid.end()} {
		if next.After(now) {
			// One second later, since a time of a certificate is a whole second.
			syncCtx.Queue().AddAfter(clusterName, next.Sub(now)+time.Second)
			break
		}
	}
	return nil
}

// look returns the validity of the credential in the Secret, which it reads if that is not known of its present state.
func (c *expiryController) look(ctx context.Context, cluster *clusterv1.ManagedCluster, attempt attempt) (expiry, error) {
	c.lock.Lock()
	known, ok := c.known[cluster.Name]
	c.lock.Unlock()
	if ok && known.state == stateOf(attempt.secret()) {
		return known, nil
	}
	if err := c.reads.Wait(ctx); err != nil {
		return expiry{}, fmt.Errorf("waiting to read an import Secret: %w", err)
	}
	known = expiry{state: stateOf(attempt.secret())}
	secret, err := c.provider.readSecret(ctx, cluster.Name, attempt.secrets)
	// A credential that is not in the Secret would have to be made, for a cluster that nobody asks for now.
	if err == nil && secret != nil && c.provider.resolvers.Holds(secret) {
		_, known.valid, err = c.provider.usable(ctx, cluster.Name, secret)
	}
	if err != nil {
		// It is not read again before it changes.
		known.problem = problemOf(err).withoutCause()
		if known.problem.reason == ReasonHubReadFailed || ctx.Err() != nil {
			return expiry{}, err
		}
	}
	if before := meta.FindStatusCondition(cluster.Status.Conditions, ConditionPreflightPassed); before != nil {
		known.said = Reason(before.Reason)
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.known[cluster.Name] = known
	return known, nil
}

// say sets the condition of a cluster that is imported, which the importer looks at no more, and records an event when the
// credential begins to expire and when it has expired.
func (c *expiryController) say(ctx context.Context, cluster *clusterv1.ManagedCluster, attempt attempt, known expiry, now time.Time) (Reason, error) {
	status := metav1.ConditionTrue
	reason, message := passedText(attempt, known.valid, now)
	unusable := known.problem
	if unusable == nil {
		unusable = known.valid.problem(now)
	}
	if unusable != nil {
		status, reason, message = metav1.ConditionFalse, unusable.reason, attempt.about(unusable.message())
	}
	before := meta.FindStatusCondition(cluster.Status.Conditions, ConditionPreflightPassed)
	if isImported(cluster) && before != nil {
		switch {
		case status == metav1.ConditionTrue && before.Status == metav1.ConditionUnknown:
			return reason, nil
		case status == metav1.ConditionTrue && before.Status == metav1.ConditionFalse:
			status, reason = metav1.ConditionUnknown, ReasonCredentialChanged
			message = attempt.about("it has another credential than the last preflight; set annotation " +
				AnnotationImmediateImport + ` to "" to import with it`)
		}
		updated := cluster.DeepCopy()
		setCondition(updated, ConditionPreflightPassed, status, reason, message)
		if err := c.provider.patchStatus(ctx, updated, cluster); err != nil {
			return known.said, err
		}
	}
	// Of a cluster that is not imported, the import says why it fails.
	if reason != known.said && (reason == ReasonCredentialExpiring || unusable != nil && isImported(cluster)) {
		c.provider.both(attempt.secrets, cluster, corev1.EventTypeWarning, reason, message)
	}
	return reason, nil
}
