// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"net/http"
	"slices"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/workqueue" // the depth of the importer's queue
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// withComponentMetrics makes /metrics of the manager serve the registry of component-base too. OCM's packages register
// the metrics of client-go and of work queues there, which can be registered in one place only.
func withComponentMetrics(*rest.Config, *http.Client) (metricsserver.Filter, error) {
	return func(logr.Logger, http.Handler) (http.Handler, error) {
		return promhttp.HandlerFor(prometheus.GathererFunc(gatherAll), promhttp.HandlerOpts{}), nil
	}, nil
}

// gatherAll gathers both registries; metrics of the process and of Go are in both and taken once.
func gatherAll() ([]*dto.MetricFamily, error) {
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		return nil, err
	}
	more, err := ctrlmetrics.Registry.Gather()
	if err != nil {
		return nil, err
	}
	for _, family := range more {
		if !slices.ContainsFunc(families, func(known *dto.MetricFamily) bool { return known.GetName() == family.GetName() }) {
			families = append(families, family)
		}
	}
	return families, nil
}
