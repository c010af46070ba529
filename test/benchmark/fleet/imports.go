// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/client-go/util/retry"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/benchmark/figures"
	"open-cluster-management.io/import-provider/test/benchmark/usage"
	"open-cluster-management.io/import-provider/test/fleet"
	"open-cluster-management.io/import-provider/test/importhub"
)

const (
	// joinAfter is about what agents take from the import until they have joined.
	joinAfter = 5 * time.Second
	// atOnce is how many objects the benchmark writes at the same time.
	atOnce = 32
	// settleLimit bounds each wait for a program to be idle.
	settleLimit = 3 * time.Minute
	// tokenPrefix begins every token, for the search for credentials in memory.
	tokenPrefix = "fleetsentinel7f3a91c4"
	reviewPath  = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
)

// result is what one run gave.
type result struct {
	size, dead int
	// durations are in seconds, in order, one for each healthy cluster that was imported: from the moment that the
	// ManagedCluster was sent to the hub to the moment that the condition was seen.
	durations []float64
	// last is in seconds from the first ManagedCluster to the last condition.
	last float64
	// used is until then.
	used cpu
	// hubRequests and attempts are by import, until all is quiet; attempts are imports that were begun.
	hubRequests map[string]float64
	attempts    float64
	requests    float64
	// idle is before the first import, peak during them, rest after them with garbage collected, and fresh that of a new
	// process after the same imports.
	idle, peak, rest, fresh usage.Level
	patches                 float64
	restart                 float64
	touched                 float64
}

func (r result) percentile(p float64) float64 {
	if len(r.durations) == 0 {
		return figures.None
	}
	return r.durations[min(len(r.durations)-1, int(p*float64(len(r.durations))))]
}

// spokes is a fleet with what its clusters were asked.
type spokes struct {
	*fleet.Fleet
	healthy, dead []*fleet.Cluster

	lock sync.Mutex // guards what follows, for the time of a change
	// reviews are the requests that begin an attempt, and requests all, of healthy clusters.
	reviews, requests float64
	// firstOK is when a cluster first accepted a request.
	firstOK map[string]time.Time
}

// startSpokes starts healthy clusters, and dead ones, of some behaviours in turns, so that they are a share, in percent, of all.
func (b *bench) startSpokes(ctx context.Context, size, share int, dead ...fleet.Behaviour) (*spokes, error) {
	s := &spokes{firstOK: map[string]time.Time{}}
	s.Fleet = fleet.New(fleet.Options{Latency: b.latency, TokenPrefix: tokenPrefix, Observe: s.observe})
	behaviour := fleet.Healthy
	if b.latency.Median > 0 {
		behaviour = fleet.Slow
	}
	for i := range size {
		cluster, err := s.Add(ctx, fmt.Sprintf("healthy-%04d", i), behaviour)
		if err != nil {
			s.Stop()
			return nil, err
		}
		s.healthy = append(s.healthy, cluster)
	}
	for i := range deadBeside(size, share) {
		cluster, err := s.Add(ctx, fmt.Sprintf("dead-%04d", i), dead[i%len(dead)])
		if err != nil {
			s.Stop()
			return nil, err
		}
		s.dead = append(s.dead, cluster)
	}
	return s, nil
}

func deadBeside(size, share int) int { return (size*share + (100-share)/2) / (100 - share) }

func (s *spokes) observe(r fleet.Request) {
	if !strings.HasPrefix(r.Cluster, "healthy-") {
		return
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	s.requests++
	if r.Path == reviewPath {
		s.reviews++
	}
	if _, seen := s.firstOK[r.Cluster]; !seen && r.Code < 300 {
		s.firstOK[r.Cluster] = r.At
	}
}

// importFleet measures the import of one fleet, by both importers where upstream's can finish.
func (b *bench) importFleet(ctx context.Context, size, dead int) error {
	ours, err := b.oneSide(ctx, size, dead, false)
	if err != nil {
		return err
	}
	peer := result{}
	if b.peerRuns(size, dead) {
		if peer, err = b.oneSide(ctx, size, dead, true); err != nil {
			return fmt.Errorf("upstream: %w", err)
		}
	}
	b.report.imported(ours, peer)
	return nil
}

func (b *bench) oneSide(ctx context.Context, size, dead int, upstream bool) (r result, err error) {
	behaviours := fleet.Dead
	if upstream {
		// It reads an answer that does not end until the machine has no memory: 17 GiB within a minute.
		behaviours = slices.DeleteFunc(slices.Clone(behaviours), func(b fleet.Behaviour) bool { return b == fleet.Endless })
	}
	clusters, err := b.startSpokes(ctx, size, dead, behaviours...)
	if err != nil {
		return r, err
	}
	defer clusters.Stop()
	var h *hub
	if upstream {
		h, err = b.startUpstream(ctx)
	} else {
		h, err = b.startOurs(ctx)
	}
	defer func() { err = errors.Join(err, h.Stop()) }()
	if err != nil {
		return r, err
	}
	r.size, r.dead = size, dead
	run := &importRun{bench: b, hub: h, spokes: clusters, result: &r}
	err = run.do(ctx)
	return r, err
}

// importRun is the import of one fleet into one hub.
type importRun struct {
	bench  *bench
	hub    *hub
	spokes *spokes
	result *result
}

func (r *importRun) do(ctx context.Context) error {
	limit := r.bench.limit
	if r.hub.Upstream && r.result.dead > 0 {
		limit = r.bench.peerLimit
	}
	all := slices.Concat(r.spokes.healthy, r.spokes.dead)
	// The same order in every run, with the dead ones anywhere.
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) //nolint:gosec // no secret
	if err := forEach(ctx, all, func(ctx context.Context, cluster *fleet.Cluster) error {
		return r.hub.CreateCredential(ctx, cluster.Name(), cluster.Kubeconfig())
	}); err != nil {
		return fmt.Errorf("creating Secrets: %w", err)
	}
	if _, err := r.hub.quiet(ctx); err != nil {
		return err
	}
	var err error
	if r.result.idle, err = r.hub.level(ctx, true); err != nil {
		return err
	}
	requestsBefore, err := r.hub.requests(ctx)
	if err != nil {
		return err
	}
	watcher, err := r.hub.watch(ctx)
	if err != nil {
		return err
	}
	defer watcher.stop()
	stopProfile := r.startProfile(ctx)
	stopSampling := r.hub.sample(ctx)
	before, err := r.hub.cpu()
	if err != nil {
		return err
	}

	var lock sync.Mutex
	created := map[string]time.Time{}
	started := time.Now()
	go func() {
		// An error shows as a cluster that is missing.
		_ = forEach(ctx, all, func(ctx context.Context, cluster *fleet.Cluster) error {
			lock.Lock()
			created[cluster.Name()] = time.Now()
			lock.Unlock()
			return r.hub.CreateCluster(ctx, cluster.Name())
		})
	}()
	importCtx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	title := fmt.Sprintf("%s: %d healthy, %d dead", r.side(), len(r.spokes.healthy), len(r.spokes.dead))
	seen, err := watcher.imported(importCtx, title, r.spokes.healthy)
	if err != nil && (ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded)) {
		return err
	}
	after, err := r.hub.cpu()
	if err != nil {
		return err
	}
	stopProfile()
	r.result.peak = stopSampling()
	r.result.used = after.minus(before)
	lock.Lock()
	for name, at := range seen {
		r.result.durations = append(r.result.durations, at.Sub(created[name]).Seconds())
		r.result.last = max(r.result.last, at.Sub(started).Seconds())
	}
	lock.Unlock()
	slices.Sort(r.result.durations)
	if r.hub.Upstream || len(r.result.durations) < len(r.spokes.healthy) {
		r.note(ctx, requestsBefore)
		return nil
	}
	if err := watcher.completed(ctx, r.spokes.healthy); err != nil {
		return err
	}
	return r.afterwards(ctx, requestsBefore)
}

func (r *importRun) side() string {
	if r.hub.Upstream {
		return "upstream"
	}
	return "ours"
}

// note keeps what the hub and the clusters were asked. What can't be read is missing.
func (r *importRun) note(ctx context.Context, before map[string]float64) {
	n := float64(max(len(r.result.durations), 1))
	r.result.hubRequests = map[string]float64{}
	if after, err := r.hub.requests(ctx); err == nil {
		for what, count := range difference(after, before) {
			r.result.hubRequests[what] = count / n
		}
	}
	r.spokes.lock.Lock()
	defer r.spokes.lock.Unlock()
	r.result.attempts, r.result.requests = r.spokes.reviews/n, r.spokes.requests/n
}

// afterwards measures what is left when all healthy clusters are imported and available.
func (r *importRun) afterwards(ctx context.Context, requestsBefore map[string]float64) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit+r.bench.observe)
	defer cancel()
	if len(r.spokes.dead) > 0 {
		return r.watchFailing(ctx)
	}
	if _, err := r.hub.quiet(ctx); err != nil {
		return fmt.Errorf("the importer does not come to rest: %w", err)
	}
	r.note(ctx, requestsBefore)
	var err error
	// Connections to the clusters are closed five seconds after the last request.
	if err = poll(ctx, time.Second, func() (bool, error) {
		r.result.rest, err = r.hub.level(ctx, true)
		return r.result.rest.Goroutines <= r.result.idle.Goroutines+restGoroutines || ctx.Err() != nil, err
	}); err != nil {
		figures.Progress("goroutines did not come back: %.0f after, %.0f before", r.result.rest.Goroutines, r.result.idle.Goroutines)
	}
	if r.bench.profile {
		if err := r.saveProfile(ctx, "/debug/pprof/heap?gc=1", "heap"); err != nil {
			return err
		}
	}
	return r.again(ctx)
}

// watchFailing counts what failing clusters cost the hub.
func (r *importRun) watchFailing(ctx context.Context) error {
	const patch = "PATCH managedclusters/status"
	figures.Progress("watching the dead clusters for %s", r.bench.observe)
	before, err := r.hub.requests(ctx)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(r.bench.observe):
	}
	after, err := r.hub.requests(ctx)
	if err != nil {
		return err
	}
	r.result.patches = (after[patch] - before[patch]) / float64(len(r.spokes.dead)) / r.bench.observe.Minutes()
	r.result.rest, err = r.hub.level(ctx, true)
	return err
}

// again restarts the import-controller.
func (r *importRun) again(ctx context.Context) error {
	connections := r.spokes.Connections()
	if err := r.hub.StopImportController(); err != nil {
		return err
	}
	started := time.Now()
	if err := r.hub.start(ctx); err != nil {
		return err
	}
	since, err := r.hub.quiet(ctx)
	if err != nil {
		return fmt.Errorf("the new process does not come to rest: %w", err)
	}
	r.result.restart = since.Sub(started).Seconds()
	// Longer than the first look at a klusterlet.
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(min(15*time.Second, r.bench.observe)):
	}
	r.result.touched = float64(r.spokes.Connections() - connections)
	r.result.fresh, err = r.hub.level(ctx, true)
	return err
}

// startProfile keeps CPU profiles of the import-controller, ten seconds each, until the returned function is called.
func (r *importRun) startProfile(ctx context.Context) (stop func()) {
	if !r.bench.profile || r.hub.Upstream {
		return func() {}
	}
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(done)
		for part := 0; ctx.Err() == nil; part++ {
			if err := r.saveProfile(ctx, "/debug/pprof/profile?seconds=10", fmt.Sprintf("cpu-%02d", part)); err != nil {
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (r *importRun) saveProfile(ctx context.Context, path, name string) error {
	data, err := r.hub.getDebug(ctx, path)
	if err != nil {
		return fmt.Errorf("taking a profile: %w", err)
	}
	return os.WriteFile(filepath.Join(r.bench.out, r.result.name()+"-"+name+".pprof"), data, 0o600)
}

func (r result) name() string { return fmt.Sprintf("n%d-dead%d", r.size, r.dead) }

// watcher sees when ManagedClusters fulfil a condition, by a watch: a poll would round the times up.
type watcher struct {
	hub   *hub
	watch watch.Interface
	done  chan struct{}
	agent errgroup.Group

	lock sync.Mutex // guards what follows, for the time of a change
	// importedAt and completedAt are when the conditions were seen.
	importedAt, completedAt map[string]time.Time
	broken                  error
}

func (h *hub) watch(ctx context.Context) (*watcher, error) {
	list, err := h.Clusters.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	// An API server ends the watch of a client that is slow for a moment.
	events, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return h.Clusters.Watch(ctx, o)
		},
	})
	if err != nil {
		return nil, err
	}
	w := &watcher{hub: h, watch: events, done: make(chan struct{}), importedAt: map[string]time.Time{}, completedAt: map[string]time.Time{}}
	w.agent.SetLimit(-1)
	go w.run(ctx)
	return w, nil
}

func (w *watcher) stop() {
	w.watch.Stop()
	<-w.done
	_ = w.agent.Wait()
}

func (w *watcher) run(ctx context.Context) {
	defer close(w.done)
	for event := range w.watch.ResultChan() {
		now := time.Now()
		cluster, ok := event.Object.(*clusterv1.ManagedCluster)
		if !ok {
			break
		}
		w.lock.Lock()
		if _, seen := w.importedAt[cluster.Name]; !seen && meta.IsStatusConditionTrue(cluster.Status.Conditions, importhub.ConditionImported) {
			w.importedAt[cluster.Name] = now
			if !w.hub.Upstream {
				w.agent.Go(func() error { return w.hub.join(ctx, cluster) })
			}
		}
		if _, seen := w.completedAt[cluster.Name]; !seen && meta.IsStatusConditionTrue(cluster.Status.Conditions, kubeconfig.ConditionCompleted) {
			w.completedAt[cluster.Name] = now
		}
		w.lock.Unlock()
	}
	w.lock.Lock()
	defer w.lock.Unlock()
	w.broken = errors.New("the watch of ManagedClusters broke off")
}

// join says of a cluster, some seconds later, what a klusterlet that has joined says.
func (h *hub) join(ctx context.Context, cluster *clusterv1.ManagedCluster) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(joinAfter):
	}
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		current, err := h.Clusters.Get(ctx, cluster.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, conditionType := range []string{clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable} {
			meta.SetStatusCondition(&current.Status.Conditions,
				metav1.Condition{Type: conditionType, Status: metav1.ConditionTrue, Reason: "Benchmark"})
		}
		_, err = h.Clusters.UpdateStatus(ctx, current, metav1.UpdateOptions{})
		return err
	})
}

// imported returns when each cluster was imported, or those that were when the context ends.
func (w *watcher) imported(ctx context.Context, title string, clusters []*fleet.Cluster) (map[string]time.Time, error) {
	shown := newBar(title, len(clusters))
	defer shown.end()
	err := w.wait(ctx, func() map[string]time.Time { return w.importedAt }, clusters, shown.set)
	w.lock.Lock()
	defer w.lock.Unlock()
	seen := map[string]time.Time{}
	for _, cluster := range clusters {
		if at, ok := w.importedAt[cluster.Name()]; ok {
			seen[cluster.Name()] = at
		}
	}
	return seen, err
}

// completed returns when the import-controller knows that all clusters have joined.
func (w *watcher) completed(ctx context.Context, clusters []*fleet.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	if err := w.wait(ctx, func() map[string]time.Time { return w.completedAt }, clusters, func(int) {}); err != nil {
		return fmt.Errorf("waiting for clusters to be complete: %w", err)
	}
	return nil
}

func (w *watcher) wait(ctx context.Context, times func() map[string]time.Time, clusters []*fleet.Cluster, show func(int)) error {
	return poll(ctx, 20*time.Millisecond, func() (bool, error) {
		w.lock.Lock()
		defer w.lock.Unlock()
		n := 0
		for _, cluster := range clusters {
			if _, ok := times()[cluster.Name()]; ok {
				n++
			}
		}
		show(n)
		return n == len(clusters), w.broken
	})
}

// forEach calls do for all items, some at a time.
func forEach[T any](ctx context.Context, items []T, do func(context.Context, T) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, item := range items {
		g.Go(func() error { return do(ctx, item) })
	}
	return g.Wait()
}
