// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/test/benchmark/usage"
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/harness"
	"open-cluster-management.io/import-provider/test/importhub"
	"open-cluster-management.io/import-provider/test/ocmhub"
	"open-cluster-management.io/import-provider/test/process"
)

// hub is a hub and the program that imports its clusters.
type hub struct {
	// Hub is nil when it did not start.
	*importhub.Hub
	// importer is the import-controller, or the registration controller of upstream.
	importer interface{ PID() int }
	// options are those of the import-controller; debug is the address of its debug port.
	options component.Options
	debug   string
	// own are the requests of the benchmark itself.
	own *requestCounter
}

// newHub starts a hub on which nothing runs.
func (b *bench) newHub(ctx context.Context) (h *hub, err error) {
	h = &hub{own: &requestCounter{counts: map[string]float64{}}}
	h.Hub, err = importhub.Start(ctx, importhub.Options{
		ControlPlane: harness.Options{Name: "hub", BinDir: b.controlPlaneBin, LogDir: b.logDir}, Dir: b.logDir,
		Client: func(config *rest.Config) { config.Wrap(h.own.count) },
	})
	return h, err
}

// startOurs starts a hub with the import-controller, which has its default flags but for those of the benchmark.
func (b *bench) startOurs(ctx context.Context, env ...string) (*hub, error) {
	h, err := b.newHub(ctx)
	if err != nil {
		return h, err
	}
	if err := ocmhub.SetClusterImporterGate(ctx, h.Config(), true); err != nil {
		return h, err
	}
	if err := h.InstallImportController(ctx); err != nil {
		return h, err
	}
	if b.registration {
		if _, err := h.StartRegistration(ctx, ocmhub.ControllerOptions{BinDir: b.agentBin}); err != nil {
			return h, err
		}
	}
	if h.debug, err = process.FreeAddress(); err != nil {
		return h, err
	}
	h.options = component.Options{BinDir: b.binDir, Env: append(env, usage.AddressVariable+"="+h.debug), Args: strings.Fields(b.args)}
	if b.workers > 0 {
		h.options.Args = append(h.options.Args, fmt.Sprintf("--import-workers=%d", b.workers))
	}
	return h, h.start(ctx)
}

// start starts the import-controller, again after it was stopped.
func (h *hub) start(ctx context.Context) (err error) {
	h.importer, err = h.StartImportController(ctx, h.options)
	return err
}

// startUpstream starts a hub with upstream's importer.
func (b *bench) startUpstream(ctx context.Context) (*hub, error) {
	h, err := b.newHub(ctx)
	if err != nil {
		return h, err
	}
	if h.importer, err = h.StartUpstream(ctx, b.agentBin); err != nil {
		return h, err
	}
	return h, h.WarmUp(ctx)
}

// requestCounter counts requests by what they are about, as the metric of an API server does.
type requestCounter struct {
	lock   sync.Mutex // guards counts, for the time of a change
	counts map[string]float64
}

func (c *requestCounter) count(next http.RoundTripper) http.RoundTripper {
	return roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
		what := r.Method + " " + parts[len(parts)-1]
		// The names of the benchmark's objects begin with those of their runs; a name is followed by a subresource or nothing.
		switch {
		case parts[len(parts)-1] == "status":
			what = r.Method + " " + parts[len(parts)-3] + "/status"
		case r.Method != http.MethodPost && len(parts) > 1:
			what = r.Method + " " + parts[len(parts)-2]
		}
		c.lock.Lock()
		c.counts[what]++
		c.lock.Unlock()
		return next.RoundTrip(r)
	})
}

func (c *requestCounter) snapshot() map[string]float64 {
	c.lock.Lock()
	defer c.lock.Unlock()
	return maps.Clone(c.counts)
}

type roundTripperFunc func(*http.Request) (*http.Response, error)

func (f roundTripperFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
