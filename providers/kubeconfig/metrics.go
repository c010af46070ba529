// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

// importStage is a part of an import whose duration is measured.
type importStage string

const (
	// stageSecret reads the import Secret from the hub.
	stageSecret importStage = "secret"
	// stageCredential resolves the credential.
	stageCredential importStage = "credential"
	// stageConnection resolves the name, connects, verifies and authenticates.
	stageConnection importStage = "connection"
	// stageVersion asks for the version.
	stageVersion importStage = "version"
	// stagePlan renders what the import will write.
	stagePlan importStage = "plan"
	// stageAuthorization asks for every verb.
	stageAuthorization importStage = "authorization"
	// stageIdentity asks which cluster it is.
	stageIdentity importStage = "identity"
	// stageOwnership looks for a klusterlet.
	stageOwnership importStage = "ownership"
	// stageApply is from the end of the preflight until the klusterlet is deployed.
	stageApply importStage = "apply"
	// stageJoin is from there until the klusterlet has joined and is available.
	stageJoin importStage = "join"
)

// Names and labels of metrics are API: docs/troubleshooting.md has them in a table, manifests/monitoring uses them. Values
// of labels are words of this code, never what a Secret or a cluster says; the one exception is the name of a
// ManagedCluster at the expiry of its credential.
const metricsNamespace = "import_provider"

const (
	resultPassed = "passed"
	resultFailed = "failed"

	// unknownReason stands for the reasons that this code does not have: anybody can write a condition.
	unknownReason = "Unknown"
)

var (
	attemptsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      metricsNamespace,
		Name:           "attempts_total",
		Help:           "Attempts to import a cluster, by the result of the preflight: passed or failed.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})

	failuresTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      metricsNamespace,
		Name:           "failures_total",
		Help:           "Attempts to import a cluster whose preflight failed, by reason.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"reason"})

	stageDuration = metrics.NewHistogramVec(&metrics.HistogramOpts{
		Namespace: metricsNamespace,
		Name:      "stage_duration_seconds",
		Help:      "Duration of the stages of an import, failed ones included.",
		// From an answer within a data center to a klusterlet whose images are pulled slowly.
		Buckets:        []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300},
		StabilityLevel: metrics.ALPHA,
	}, []string{"stage"})

	importsInFlight = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace:      metricsNamespace,
		Name:           "in_flight",
		Help:           "Preflights that are running now.",
		StabilityLevel: metrics.ALPHA,
	})

	pendingDesc = newStateDesc("pending_clusters",
		"ManagedClusters whose import is not complete, by the reason of the condition that says so.", "reason")
	completedDesc = newStateDesc("completed_clusters",
		"ManagedClusters whose klusterlet has joined and become available.")
	oldestPendingDesc = newStateDesc("oldest_pending_timestamp_seconds",
		"Unix time since when the import that is pending longest is pending. Absent when none is.")
	credentialExpiryDesc = newStateDesc("credential_expiry_timestamp_seconds",
		"Unix time at which the credential in the import Secret of a ManagedCluster expires.", "managed_cluster")
)

func newStateDesc(name, help string, labels ...string) *metrics.Desc {
	return metrics.NewDesc(metrics.BuildFQName(metricsNamespace, "", name), help, labels, nil, metrics.ALPHA, "")
}

// registerMetrics puts the metrics into the registry that /metrics serves, which cannot take them twice.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(attemptsTotal, failuresTotal, stageDuration, importsInFlight)
	legacyregistry.CustomMustRegister(&stateCollector{source: &currentSource})
	// A rate needs a sample from before the first attempt.
	attemptsTotal.WithLabelValues(resultPassed)
	attemptsTotal.WithLabelValues(resultFailed)
})

// observeStage measures a stage from now until done is called.
func observeStage(stage importStage) (done func()) {
	start := time.Now()
	return func() { observeDuration(stage, time.Since(start)) }
}

func observeDuration(stage importStage, duration time.Duration) {
	stageDuration.WithLabelValues(string(stage)).Observe(duration.Seconds())
}

// countAttempt counts an attempt that ended with a reason.
func countAttempt(reason Reason) {
	if reason == ReasonPreflightPassed {
		attemptsTotal.WithLabelValues(resultPassed).Inc()
		return
	}
	attemptsTotal.WithLabelValues(resultFailed).Inc()
	failuresTotal.WithLabelValues(string(reason)).Inc()
}

// metricsSource is the state that some metrics are computed from. It is only read, from any goroutine.
type metricsSource interface {
	managedClusters() []*clusterv1.ManagedCluster
	// expiryTimes returns when the credentials expire whose expiry is known, by the name of the ManagedCluster.
	expiryTimes() map[string]time.Time
}

// currentSource is that of the provider that runs; the registry outlives providers.
var currentSource atomic.Pointer[metricsSource]

// setMetricsSource sets what the metrics of the state are computed from. They are absent with nil.
func setMetricsSource(source metricsSource) {
	if source == nil {
		currentSource.Store(nil)
		return
	}
	currentSource.Store(&source)
}

// stateCollector computes metrics from the state when they are asked for. So a restart loses nothing, and a cluster that
// was deleted leaves nothing behind.
type stateCollector struct {
	metrics.BaseStableCollector

	source *atomic.Pointer[metricsSource]
}

var _ metrics.StableCollector = &stateCollector{}

// DescribeWithStability implements metrics.StableCollector.
func (c *stateCollector) DescribeWithStability(descs chan<- *metrics.Desc) {
	for _, desc := range []*metrics.Desc{pendingDesc, completedDesc, oldestPendingDesc, credentialExpiryDesc} {
		descs <- desc
	}
}

// CollectWithStability implements metrics.StableCollector. Clusters that are being deleted, or whose
// import is paused, are not imported.
func (c *stateCollector) CollectWithStability(collected chan<- metrics.Metric) {
	source := c.source.Load()
	if source == nil {
		return
	}
	var (
		pending   = map[string]int{}
		completed int
		oldest    time.Time
		expiries  = (*source).expiryTimes()
	)
	add := func(desc *metrics.Desc, value float64, labels ...string) {
		collected <- metrics.NewLazyConstMetric(desc, metrics.GaugeValue, value, labels...)
	}
	for _, cluster := range (*source).managedClusters() {
		if !cluster.DeletionTimestamp.IsZero() {
			continue
		}
		if expiry := expiries[cluster.Name]; !expiry.IsZero() {
			add(credentialExpiryDesc, float64(expiry.Unix()), cluster.Name)
		}
		_, paused := cluster.Annotations[AnnotationDisableAutoImport]
		if paused || meta.FindStatusCondition(cluster.Status.Conditions, ConditionPreflightPassed) == nil {
			continue
		}
		reason, since := pendingImport(cluster)
		if reason == "" {
			completed++
			continue
		}
		pending[reason]++
		if oldest.IsZero() || since.Before(oldest) {
			oldest = since
		}
	}
	for reason, count := range pending {
		add(pendingDesc, float64(count), reason)
	}
	add(completedDesc, float64(completed))
	if !oldest.IsZero() {
		add(oldestPendingDesc, float64(oldest.Unix()))
	}
}

// pendingImport returns why the import of a cluster is not complete, and since when; no reason if it is.
func pendingImport(cluster *clusterv1.ManagedCluster) (reason string, since time.Time) {
	if isImported(cluster) && isCompleted(cluster) {
		// A credential that expires afterwards holds nothing up.
		return "", time.Time{}
	}
	for _, conditionType := range []string{ConditionPreflightPassed, ConditionCompleted} {
		condition := meta.FindStatusCondition(cluster.Status.Conditions, conditionType)
		if condition == nil {
			// Somebody has removed it; the preflight passed at the time that is kept.
			return unknownReason, since
		}
		// The status of a ManagedCluster is writable for the cluster: no import is older than that.
		since = condition.LastTransitionTime.Time
		if created := cluster.CreationTimestamp.Time; since.Before(created) {
			since = created
		}
		if condition.Status != metav1.ConditionTrue {
			return reasonLabel(Reason(condition.Reason)), since
		}
	}
	return "", time.Time{}
}

// reasonLabel returns a reason of a condition, if it is one of ours.
func reasonLabel(reason Reason) string {
	switch reason {
	case ReasonPreflightPassed, ReasonCredentialExpiring, ReasonCredentialChanged, ReasonCompleted,
		ReasonKlusterletDeployed, ReasonManagedClusterNotFound, ReasonAnnotationInvalid, ReasonOwnedByClusterAPI, ReasonImportPaused:
		return string(reason)
	}
	if _, known := reasonInfos[reason]; known {
		return string(reason)
	}
	return unknownReason
}
