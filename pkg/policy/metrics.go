// Copyright Contributors to the Open Cluster Management project

package policy

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

// Names and labels of metrics are API: docs/troubleshooting.md has them in a table.
const (
	metricsNamespace = "import_provider"
	metricsSubsystem = "policy"

	resultSucceeded = "succeeded"
	resultFailed    = "failed"
)

var (
	reloadsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
		Namespace:      metricsNamespace,
		Subsystem:      metricsSubsystem,
		Name:           "reloads_total",
		Help:           "Changes of the policy file since the start, by result: succeeded or failed.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"result"})

	upToDate = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace:      metricsNamespace,
		Subsystem:      metricsSubsystem,
		Name:           "up_to_date",
		Help:           "1 if the policy in force is what the policy file has, 0 if that cannot be used.",
		StabilityLevel: metrics.ALPHA,
	})
)

// registerMetrics puts the metrics into the registry that /metrics serves, which cannot take them twice.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(reloadsTotal, upToDate)
	// A rate needs a sample from before the first change.
	reloadsTotal.WithLabelValues(resultSucceeded)
	reloadsTotal.WithLabelValues(resultFailed)
})

// countReload counts a change of the file.
func countReload(good bool) {
	if !good {
		reloadsTotal.WithLabelValues(resultFailed).Inc()
		upToDate.Set(0)
		return
	}
	reloadsTotal.WithLabelValues(resultSucceeded).Inc()
	upToDate.Set(1)
}
