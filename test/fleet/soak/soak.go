// Copyright Contributors to the Open Cluster Management project

package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	clusterclientset "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/test/benchmark/usage"
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/fleet"
	"open-cluster-management.io/import-provider/test/harness"
	"open-cluster-management.io/import-provider/test/importhub"
	"open-cluster-management.io/import-provider/test/ocmhub"
)

const (
	// faultsPart is the part of the time in which replicas end. After it the leader stays, so that what it holds in the end is
	// of a long time.
	faultsPart = 0.6
	// joinAfter is what agents take from the import until they have joined.
	joinAfter = 2 * time.Second
	// freshExtra and freshFactor bound what the leader may hold above a new process: connections to the hub come and go, and
	// its caches of what it saw grow in steps.
	freshExtra  = 8
	freshFactor = 1.25
	freshBytes  = 4 << 20
)

// Options say what to run.
type Options struct {
	// Duration is how long things happen. What was begun then is given SettleLimit.
	Duration, SettleLimit time.Duration
	// Clusters is how many there are about.
	Clusters int
	// ChangeEvery is the time between two changes of a Secret, a cluster or a ManagedCluster, FaultEvery that between two faults of
	// the hub or the replicas.
	ChangeEvery, FaultEvery time.Duration
	// Seed decides what happens.
	Seed uint64
	// Args are more flags of the replicas.
	Args []string
	// ControlPlaneBin holds etcd, kube-apiserver and kubectl; Dir receives the import-controller and its kubeconfig, LogDir the logs.
	ControlPlaneBin, Dir, LogDir string
	// Progress is told what happens; Figure is a result.
	Progress func(text string)
	Figure   func(name string, value float64, unit string)
}

type soak struct {
	options    Options
	random     *rand.Rand // of the changes alone
	hub        *importhub.Hub
	kubeconfig string
	fleet      *fleet.Fleet
	ledger     *ledger
	replicas   []*replica
	// parked are clusters whose ManagedCluster was deleted and that may come again.
	parked []*fleet.Cluster
	added  int
	before inventory

	agents sync.WaitGroup

	lock   sync.Mutex // guards what follows, for the time of a change
	events map[string]int
	// gap is the longest time without a leader, after a kill and after a handover.
	gaps map[string]time.Duration
}

// Run runs the soak and returns an error that says all that is wrong at its end.
func Run(ctx context.Context, o Options) (err error) {
	s := &soak{
		options: o, ledger: newLedger(), events: map[string]int{}, gaps: map[string]time.Duration{},
		random: rand.New(rand.NewPCG(o.Seed, o.Seed)), //nolint:gosec // no secret
	}
	s.fleet = fleet.New(fleet.Options{Observe: s.ledger.request})
	defer s.fleet.Stop()
	defer func() { err = errors.Join(err, s.hub.Stop()) }()
	if err := s.startHub(ctx); err != nil {
		return fmt.Errorf("starting the hub: %w", err)
	}
	watching, stopWatching := context.WithCancel(ctx)
	// Agents and the watch end before the hub.
	defer s.agents.Wait()
	defer stopWatching()
	if err := s.watch(watching); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stopReplicas()) }()
	for _, name := range []string{"replica-1", "replica-2"} {
		r, err := s.startReplica(name)
		if err != nil {
			return err
		}
		s.replicas = append(s.replicas, r)
	}
	if _, _, err := s.leader(ctx); err != nil {
		return err
	}
	for range o.Clusters {
		if err := s.addCluster(ctx); err != nil {
			return err
		}
	}
	if err := s.churn(ctx); err != nil {
		return err
	}
	return s.finish(ctx)
}

// startHub starts a hub with OCM's API and the component's manifests.
func (s *soak) startHub(ctx context.Context) error {
	if err := usage.Build(ctx, s.options.Dir); err != nil {
		return err
	}
	var err error
	s.hub, err = importhub.Start(ctx, importhub.Options{
		ControlPlane: harness.Options{Name: "soak-hub", BinDir: s.options.ControlPlaneBin, LogDir: s.options.LogDir},
		// Below the time of an outage, so that a request that hangs is tried again.
		Client: func(config *rest.Config) { config.Timeout = 10 * time.Second },
	})
	if err != nil {
		return err
	}
	if err := ocmhub.SetClusterImporterGate(ctx, s.hub.Config(), true); err != nil {
		return err
	}
	s.kubeconfig = filepath.Join(s.options.Dir, "soak.kubeconfig")
	return component.InstallImportController(ctx, s.hub.ControlPlane, s.options.ControlPlaneBin, s.kubeconfig)
}

// watch tells the ledger what the hub says. An informer lists anew after an API server was restarted.
func (s *soak) watch(ctx context.Context) error {
	config := s.hub.Config()
	config.QPS = -1
	client, err := clusterclientset.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := clusterinformers.NewSharedInformerFactory(client, 0)
	informer := factory.Cluster().V1().ManagedClusters().Informer()
	see := func(obj any) {
		cluster, ok := obj.(*clusterv1.ManagedCluster)
		if ok && s.ledger.see(cluster) {
			s.agents.Go(func() { s.join(ctx, cluster) })
		}
	}
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, obj any) { see(obj) }}); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return ctx.Err()
	}
	s.before, err = s.takeInventory(ctx)
	return err
}

func (s *soak) stopReplicas() error {
	for _, r := range s.replicas {
		r.stop()
	}
	var errs []error
	for _, r := range s.replicas {
		<-r.done
		errs = append(errs, r.err)
	}
	s.replicas = nil
	return errors.Join(errs...)
}

func (s *soak) count(event string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.events[event]++
}

// settle waits until all is imported and complete. What is not then is lost, which the ledger tells.
func (s *soak) settle(ctx context.Context) error {
	deadline := time.Now().Add(s.options.SettleLimit)
	for {
		waiting := s.ledger.waiting()
		if len(waiting) == 0 || time.Now().After(deadline) {
			s.progress("settled, %d are waiting %v", len(waiting), waiting[:min(len(waiting), 5)])
			return nil
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

// finish waits for rest, looks for leaks, and judges.
func (s *soak) finish(ctx context.Context) error {
	started := time.Now()
	if err := s.settle(ctx); err != nil {
		return err
	}
	settled := time.Since(started)
	_, leader, err := s.leader(ctx)
	if err != nil {
		return err
	}
	rest, err := s.atRest(ctx, leader)
	if err != nil {
		return err
	}
	var problems []error
	connections := s.fleet.Connections()
	fresh, err := s.killedAtRest(ctx)
	if err != nil {
		return err
	}
	if more := s.fleet.Connections() - connections; more > 0 {
		problems = append(problems, fmt.Errorf("after kill -9 at rest, clusters got %d connections", more))
	}
	verdict := s.ledger.judge()
	exits := 0
	for _, r := range s.replicas {
		r.lock.Lock()
		exits += r.exits
		r.lock.Unlock()
	}
	s.figures(verdict, settled, exits, rest, fresh)
	problems = append(problems, s.stopReplicas(), s.checkHub(ctx), s.checkClusters(ctx), leaks(rest, fresh))
	for _, text := range verdict.violations {
		problems = append(problems, errors.New(text))
	}
	if hidden := verdict.violated - len(verdict.violations); hidden > 0 {
		problems = append(problems, fmt.Errorf("and %d more", hidden))
	}
	return errors.Join(problems...)
}

// atRest reads what a process holds when that does not fall any more: connections to clusters are closed some seconds after
// the last request.
func (s *soak) atRest(ctx context.Context, p *component.Process) (usage.Level, error) {
	const pause, steady = time.Second, 6
	debug := ""
	for _, r := range s.replicas {
		if r.current() == p {
			debug = r.debug
		}
	}
	lowest, err := usage.Read(ctx, p.PID(), debug, true)
	for since := 0; err == nil && since < steady; since++ {
		if err = sleep(ctx, pause); err != nil {
			break
		}
		var now usage.Level
		if now, err = usage.Read(ctx, p.PID(), debug, true); err != nil {
			break
		}
		if now.Goroutines < lowest.Goroutines || now.Descriptors < lowest.Descriptors {
			since = -1
		}
		lowest = now
	}
	return lowest, err
}

// killedAtRest kills the leader and returns what the next one, which has done nothing, holds.
func (s *soak) killedAtRest(ctx context.Context) (usage.Level, error) {
	if err := s.replaceLeader(ctx, true); err != nil {
		return usage.Level{}, err
	}
	_, leader, err := s.leader(ctx)
	if err != nil {
		return usage.Level{}, err
	}
	return s.atRest(ctx, leader)
}

func leaks(rest, fresh usage.Level) error {
	var errs []error
	for _, number := range []struct {
		of           string
		value, limit float64
	}{
		{"goroutines", rest.Goroutines, fresh.Goroutines + freshExtra},
		{"descriptors", rest.Descriptors, fresh.Descriptors + freshExtra},
		{"bytes of heap", rest.Heap, fresh.Heap*freshFactor + freshBytes},
	} {
		if number.value > number.limit {
			errs = append(errs, fmt.Errorf("the leader holds %.0f %s at rest, a new process at most %.0f", number.value, number.of, number.limit))
		}
	}
	return errors.Join(errs...)
}

func (s *soak) figures(v verdict, settled time.Duration, exits int, rest, fresh usage.Level) {
	const mib = 1 << 20
	f := s.options.Figure
	for _, event := range []string{rotation, addition, deletion, death, request, apiRestart, killing, handover, write} {
		f("soak-"+event, float64(s.events[event]), "events")
	}
	f("soak-exits", float64(exits), "exits")
	f("soak-asked", float64(v.asked), "imports")
	f("soak-imports", float64(v.imports), "imports")
	f("soak-repeated", float64(v.repeated), "imports")
	f("soak-lost", float64(v.lost), "clusters")
	f("soak-violations", float64(v.violated), "violations")
	for _, p := range []struct {
		name string
		at   float64
	}{{"p50", 0.5}, {"p99", 0.99}} {
		if n := len(v.durations); n > 0 {
			f("soak-import-"+p.name, v.durations[min(n-1, int(p.at*float64(n)))], "s")
		}
	}
	f("soak-settled", settled.Seconds(), "s")
	for _, event := range []string{killing, handover} {
		f("soak-gap-after-"+event, s.gaps[event].Seconds(), "s")
	}
	for _, l := range []struct {
		when string
		usage.Level
	}{{"rest", rest}, {"fresh", fresh}} {
		f("soak-goroutines-"+l.when, l.Goroutines, "goroutines")
		f("soak-descriptors-"+l.when, l.Descriptors, "descriptors")
		f("soak-heap-"+l.when, l.Heap/mib, "MiB")
		f("soak-rss-"+l.when, l.RSS/mib, "MiB")
		f("soak-anonymous-"+l.when, l.Anonymous/mib, "MiB")
	}
}

func (s *soak) progress(format string, args ...any) {
	s.options.Progress(fmt.Sprintf(format, args...))
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// pick takes one of several.
func pick[T any](random *rand.Rand, from []T) T { return from[random.IntN(len(from))] }

func remove[T comparable](from []T, item T) []T {
	return slices.DeleteFunc(from, func(other T) bool { return other == item })
}
