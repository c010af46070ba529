// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/import-provider/test/benchmark/figures"
	"open-cluster-management.io/import-provider/test/harness"
)

const (
	goalAlone    = 0.25
	goalSlowdown = 1.1
	// importLimit is far above what the slowest import takes. Beyond it something does not work.
	importLimit = 3 * time.Minute
	// extraAlone and extraHung are further rounds of the scenarios with goals. With the hung cluster they make an even
	// number, so that either order comes as often.
	extraAlone, extraHung = 2, 1
)

// result is what one round of one side gave.
type result struct {
	// durations are in seconds, in order, one for each healthy cluster that was imported: from the moment that the
	// ManagedCluster was sent to the hub to the moment that the condition was seen.
	durations []float64
	// last is in seconds from the first ManagedCluster to the last condition; infinite when one is missing.
	last          float64
	used          usage
	spokeRequests float64
}

// p99 of fewer than a hundred is the highest.
func (r result) p99(healthy int) float64 {
	if len(r.durations) < healthy {
		return math.Inf(1)
	}
	return slices.Max(r.durations)
}

// imports has clusters imported at once and returns when the healthy ones are imported or the limit is over. The hung
// cluster is the first that the importer hears of.
func (b *bench) imports(ctx context.Context, s *side, healthy int, hung bool, limit time.Duration) (result, error) {
	b.round++
	spokes, err := startSpokes(ctx, b.controlPlaneBin, healthy)
	if err != nil {
		return result{}, err
	}
	r, err := b.importsTo(ctx, s, spokes, hung, limit)
	return r, errors.Join(err, stopSpokes(spokes))
}

func (b *bench) importsTo(ctx context.Context, s *side, spokes []*harness.ControlPlane, hung bool, limit time.Duration) (result, error) {
	var all, healthy []string
	if hung {
		name := fmt.Sprintf("r%02d-hung", b.round)
		server, err := startHungServer(ctx)
		if err != nil {
			return result{}, err
		}
		defer server.stop()
		if err := s.CreateCredential(ctx, name, harness.TokenKubeconfig(server.url(), s.CAData(), "token")); err != nil {
			return result{}, err
		}
		all = append(all, name)
	}
	for i, spoke := range spokes {
		name := fmt.Sprintf("r%02d-c%02d", b.round, i)
		if err := s.CreateCredential(ctx, name, spoke.Kubeconfig()); err != nil {
			return result{}, err
		}
		healthy = append(healthy, name)
	}
	all = append(all, healthy...)
	imported, err := s.watch(ctx)
	if err != nil {
		return result{}, err
	}
	defer imported.stop()
	requestsBefore, err := spokeRequests(ctx, spokes[0])
	if err != nil {
		return result{}, err
	}
	before, err := s.usage(ctx)
	if err != nil {
		return result{}, err
	}

	created := map[string]time.Time{}
	for _, name := range all {
		created[name] = time.Now()
		if err := s.CreateCluster(ctx, name); err != nil {
			return result{}, err
		}
	}
	waitCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	seen, waitErr := imported.wait(waitCtx, healthy)
	// Too slow is a result beside a hung cluster, and a fault otherwise.
	tooSlow := hung && errors.Is(waitErr, context.DeadlineExceeded) && ctx.Err() == nil
	if waitErr != nil && !tooSlow {
		return result{}, fmt.Errorf("%s: %w", s.name, waitErr)
	}

	after, err := s.usage(ctx)
	if err != nil {
		return result{}, err
	}
	requestsAfter, err := spokeRequests(ctx, spokes[0])
	if err != nil {
		return result{}, err
	}
	r := result{used: after.minus(before), spokeRequests: requestsAfter - requestsBefore, last: math.Inf(1)}
	var last time.Time
	for _, name := range healthy {
		if at, ok := seen[name]; ok {
			r.durations = append(r.durations, at.Sub(created[name]).Seconds())
			if at.After(last) {
				last = at
			}
		}
	}
	if waitErr == nil {
		r.last = last.Sub(created[all[0]]).Seconds()
	}
	slices.Sort(r.durations)
	if hung {
		// Out of the importer's sight.
		return r, s.Clusters.Delete(ctx, all[0], metav1.DeleteOptions{})
	}
	return r, nil
}

// pair runs the two sides, the first one first in every other round.
func pair(round int, first, second func() error) error {
	if round%2 == 1 {
		first, second = second, first
	}
	if err := first(); err != nil {
		return err
	}
	return second()
}

// alone imports one cluster.
func (b *bench) alone(ctx context.Context) error {
	var ours, upstream []result
	rounds := b.rounds + extraAlone
	for round := range rounds {
		one := func(s *side, results *[]result) func() error {
			return func() error {
				r, err := b.imports(ctx, s, 1, false, importLimit)
				if err != nil {
					return err
				}
				figures.Progress("%s %d/%d: %s: %.3f s", scenarioAlone, round+1, rounds, s.name, r.last)
				*results = append(*results, r)
				return nil
			}
		}
		if err := pair(round, one(&b.ours, &ours), one(&b.upstream, &upstream)); err != nil {
			return err
		}
	}
	last := func(r result) float64 { return r.last }
	requests := func(r result) float64 { return r.spokeRequests }
	ratio := b.report.add(figure{name: "alone", unit: "s", value: median(ours, last), peer: median(upstream, last)})
	b.report.add(figure{name: "alone-spoke-requests", unit: "requests", value: median(ours, requests), peer: median(upstream, requests)})
	b.report.goal("alone: an import takes at most a quarter of upstream's", "ratio", ratio, goalAlone)
	return nil
}

// ten imports many clusters at once.
func (b *bench) ten(ctx context.Context) error {
	var ours, upstream []result
	for round := range b.rounds {
		one := func(s *side, results *[]result) func() error {
			return func() error {
				r, err := b.imports(ctx, s, b.clusters, false, importLimit)
				if err != nil {
					return err
				}
				figures.Progress("%s %d/%d: %s: p50 %.2f s, p99 %.2f s, last %.2f s", scenarioTen, round+1, b.rounds, s.name,
					middle(r.durations), r.p99(b.clusters), r.last)
				*results = append(*results, r)
				return nil
			}
		}
		if err := pair(round, one(&b.ours, &ours), one(&b.upstream, &upstream)); err != nil {
			return err
		}
	}
	n := float64(b.clusters)
	for _, f := range []struct {
		name, unit string
		of         func(result) float64
		oursAlone  bool
	}{
		{"ten-p50", "s", func(r result) float64 { return middle(r.durations) }, false},
		{"ten-p99", "s", func(r result) float64 { return r.p99(b.clusters) }, false},
		{"ten-last", "s", func(r result) float64 { return r.last }, false},
		{"ten-cpu-per-import", "s", func(r result) float64 { return r.used.cpuHub / n }, false},
		{"ten-controller-cpu-per-import", "s", func(r result) float64 { return r.used.cpuImporter / n }, true},
		{"ten-hub-requests-per-import", "requests", func(r result) float64 { return r.used.hubRequests / n }, false},
	} {
		peer := math.NaN()
		if !f.oursAlone {
			peer = median(upstream, f.of)
		}
		b.report.add(figure{name: f.name, unit: f.unit, value: median(ours, f.of), peer: peer})
	}
	controller, hub, err := b.ours.memory()
	if err != nil {
		return err
	}
	_, peer, err := b.upstream.memory()
	if err != nil {
		return err
	}
	b.report.add(figure{name: "ten-memory", unit: "MiB", value: hub, peer: peer})
	b.report.add(figure{name: "ten-controller-memory", unit: "MiB", value: controller, peer: math.NaN()})
	return nil
}

// oneHung imports many clusters at once of which the first accepts connections and never answers, and compares with
// the same healthy clusters without it, in turns.
func (b *bench) oneHung(ctx context.Context) error {
	healthy := b.clusters - 1
	var without, with []result
	rounds := b.rounds + extraHung
	for round := range rounds {
		one := func(hung bool, results *[]result) func() error {
			return func() error {
				r, err := b.imports(ctx, &b.ours, healthy, hung, b.limit(hung))
				if err != nil {
					return err
				}
				figures.Progress("%s %d/%d: ours: hung cluster %t: %d of %d imported, p50 %.2f s, p99 %.2f s", scenarioOneHung, round+1, rounds,
					hung, len(r.durations), healthy, middle(r.durations), r.p99(healthy))
				*results = append(*results, r)
				return nil
			}
		}
		if err := pair(round, one(false, &without), one(true, &with)); err != nil {
			return err
		}
	}
	figures.Progress("%s: upstream: waiting up to %s", scenarioOneHung, b.hungLimit)
	upstream, err := b.imports(ctx, &b.upstream, healthy, true, b.hungLimit)
	if err != nil {
		return err
	}
	figures.Progress("%s: upstream: %d of %d imported", scenarioOneHung, len(upstream.durations), healthy)

	p99 := func(r result) float64 { return r.p99(healthy) }
	imported := func(r result) float64 { return float64(len(r.durations)) }
	b.report.add(figure{name: "ten-one-hung-imported", unit: "clusters", value: median(with, imported), peer: imported(upstream)})
	b.report.add(figure{name: "ten-one-hung-p99", unit: "s", value: median(with, p99), peer: p99(upstream)})
	b.report.add(figure{name: "ten-one-hung-p99-without", unit: "s", value: median(without, p99), peer: math.NaN()})
	// By pairs: what else the machine did changes from round to round.
	slowdowns := make([]float64, 0, rounds)
	for i := range with {
		slowdowns = append(slowdowns, p99(with[i])/p99(without[i]))
	}
	slowdown := middle(slowdowns)
	b.report.add(figure{name: "ten-one-hung-slowdown", unit: "times", value: slowdown, peer: math.NaN()})
	b.report.goal("ten-one-hung: a hung cluster costs the others at most a tenth", "slowdown", slowdown, goalSlowdown)
	return nil
}

func (b *bench) limit(hung bool) time.Duration {
	if hung {
		return b.hungLimit
	}
	return importLimit
}
