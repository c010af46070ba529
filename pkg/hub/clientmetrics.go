// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	clientmetrics "k8s.io/client-go/tools/metrics"
)

// hubHost is the host of the hub, as host:port; nil before it is known, when all requests go there.
var hubHost atomic.Pointer[string]

// countHubRequestsOnly makes client-go's metrics leave requests to managed clusters out. Their label host would be what a
// tenant writes into a kubeconfig, and would stay for ever: 20 KiB for each cluster that was ever asked. Call it before the first
// client is made; setHub says later which host is the hub's.
//
// The variables are set, since client-go's Register works once and OCM's packages have called it.
var countHubRequestsOnly = sync.OnceFunc(func() {
	clientmetrics.RequestLatency = hubLatency{clientmetrics.RequestLatency}
	clientmetrics.RateLimiterLatency = hubLatency{clientmetrics.RateLimiterLatency}
	clientmetrics.RequestSize = hubSize{clientmetrics.RequestSize}
	clientmetrics.ResponseSize = hubSize{clientmetrics.ResponseSize}
	clientmetrics.RequestResult = hubResult{clientmetrics.RequestResult}
	clientmetrics.RequestRetry = hubRetry{clientmetrics.RequestRetry}
})

// setHub says which host is the hub's.
func setHub(config *rest.Config) error {
	address, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return fmt.Errorf("reading the address of the hub: %w", err)
	}
	hubHost.Store(&address.Host)
	return nil
}

func isHub(host string) bool {
	hub := hubHost.Load()
	return hub == nil || *hub == host
}

type hubLatency struct{ next clientmetrics.LatencyMetric }

func (m hubLatency) Observe(ctx context.Context, verb string, u url.URL, latency time.Duration) {
	if isHub(u.Host) {
		m.next.Observe(ctx, verb, u, latency)
	}
}

type hubSize struct{ next clientmetrics.SizeMetric }

func (m hubSize) Observe(ctx context.Context, verb, host string, size float64) {
	if isHub(host) {
		m.next.Observe(ctx, verb, host, size)
	}
}

type hubResult struct{ next clientmetrics.ResultMetric }

func (m hubResult) Increment(ctx context.Context, code, method, host string) {
	if isHub(host) {
		m.next.Increment(ctx, code, method, host)
	}
}

type hubRetry struct{ next clientmetrics.RetryMetric }

func (m hubRetry) IncrementRetry(ctx context.Context, code, method, host string) {
	if isHub(host) {
		m.next.IncrementRetry(ctx, code, method, host)
	}
}
