// Copyright Contributors to the Open Cluster Management project

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"open-cluster-management.io/import-provider/test/benchmark/figures"
	"open-cluster-management.io/import-provider/test/binaries"
	"open-cluster-management.io/import-provider/test/component"
)

const (
	scenarioAlone   = "alone"
	scenarioTen     = "ten"
	scenarioOneHung = "ten-one-hung"
	// scenarioCredentials needs no hub.
	scenarioCredentials = "credentials"
)

var scenarios = []string{scenarioCredentials, scenarioAlone, scenarioTen, scenarioOneHung}

type options struct {
	rounds    int
	clusters  int
	hungLimit time.Duration
	only      string
	binDir    string
}

func main() {
	o := options{}
	flag.IntVar(&o.rounds, "rounds", 3, "Rounds of ten; alone takes two more, ten-one-hung one.")
	flag.IntVar(&o.clusters, "clusters", 10, "Clusters of the scenarios with many, at 300 MiB each.")
	flag.DurationVar(&o.hungLimit, "hung-limit", time.Minute, "How long to wait for the healthy clusters beside the hung one.")
	flag.StringVar(&o.only, "only", "", "Run one scenario: "+strings.Join(scenarios, ", ")+".")
	flag.StringVar(&o.binDir, "bin-dir", "", "Folder with import-controller; built from the source when empty.")
	flag.Parse()
	if o.rounds < 1 || o.clusters < 2 || o.only != "" && !slices.Contains(scenarios, o.only) || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchmark:", err)
		os.Exit(1)
	}
}

// run keeps the logs of the controllers when it fails.
func run(ctx context.Context, o options) (err error) {
	started := time.Now()
	dir, err := os.MkdirTemp("", "benchmark-")
	if err != nil {
		return fmt.Errorf("creating a directory: %w", err)
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%w\nlogs are in %s", err, dir)
			return
		}
		err = os.RemoveAll(dir)
	}()
	b := &bench{options: o, dir: dir, ours: side{name: "ours"}, upstream: side{name: "upstream"}}
	defer func() { err = errors.Join(err, b.stop()) }()
	for _, s := range []struct {
		name string
		run  func(context.Context) error
	}{{scenarioCredentials, b.credentials}, {scenarioAlone, b.alone}, {scenarioTen, b.ten}, {scenarioOneHung, b.oneHung}} {
		if o.only != "" && o.only != s.name {
			continue
		}
		if s.name != scenarioCredentials && b.ours.Hub == nil {
			if err := b.start(ctx); err != nil {
				return err
			}
		}
		if err := s.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	b.report.summary(os.Stdout)
	figures.Progress("%s on %d cores in %s", time.Now().Format(time.DateOnly), runtime.NumCPU(), time.Since(started).Round(time.Second))
	return nil
}

// bench is one run: the two hubs and what was measured so far.
type bench struct {
	options
	dir             string
	controlPlaneBin string
	ours, upstream  side
	report          report
	round           int
}

func (b *bench) start(ctx context.Context) error {
	var err error
	if b.controlPlaneBin, err = binaries.ControlPlane(ctx, os.Stderr); err != nil {
		return err
	}
	agentBin, err := binaries.Agents(ctx, os.Stderr)
	if err != nil {
		return err
	}
	if b.binDir == "" {
		figures.Progress("building import-controller")
		b.binDir = filepath.Join(b.dir, "bin")
		if err := component.Build(ctx, b.binDir); err != nil {
			return err
		}
	}
	figures.Progress("starting two hubs")
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return b.startOurs(ctx, agentBin) })
	g.Go(func() error { return b.startUpstream(ctx, agentBin) })
	return g.Wait()
}

func (b *bench) stop() error {
	return errors.Join(b.ours.Stop(), b.upstream.Stop())
}
