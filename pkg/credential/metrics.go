// Copyright Contributors to the Open Cluster Management project

package credential

import (
	"sync"

	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
)

const (
	resultSucceeded = "succeeded"
	resultFailed    = "failed"

	// noResolver stands for a Secret that asks for a resolver which the set does not have: an annotation may hold anything.
	noResolver = "none"
)

// Names and labels of metrics are API: docs/troubleshooting.md has them in a table, manifests/monitoring uses them.
var credentialsTotal = metrics.NewCounterVec(&metrics.CounterOpts{
	Namespace:      "import_provider",
	Name:           "credentials_total",
	Help:           "Credentials that resolvers were asked for, by resolver and result: succeeded or failed.",
	StabilityLevel: metrics.ALPHA,
}, []string{"resolver", "result"})

// registerMetrics puts the metrics into the registry that /metrics serves, which cannot take them twice.
var registerMetrics = sync.OnceFunc(func() { legacyregistry.MustRegister(credentialsTotal) })

// countCredential counts an answer of a resolver, by its name in the set or "" if the set does not have it.
func countCredential(resolver string, err error) {
	if resolver == "" {
		resolver = noResolver
	}
	result := resultSucceeded
	if err != nil {
		result = resultFailed
	}
	credentialsTotal.WithLabelValues(resolver, result).Inc()
}
