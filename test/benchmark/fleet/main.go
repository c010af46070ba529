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
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"open-cluster-management.io/import-provider/test/benchmark/figures"
	"open-cluster-management.io/import-provider/test/benchmark/usage"
	"open-cluster-management.io/import-provider/test/binaries"
	"open-cluster-management.io/import-provider/test/fleet"
)

type options struct {
	clusters, dead, peer []int
	latency              fleet.Latency
	registration         bool
	workers              int
	args                 string
	limit, peerLimit     time.Duration
	observe              time.Duration
	idleSecrets, fixed   int
	out                  string
	profile              bool
}

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err = run(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "fleet:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	var clusters, dead, peer, latency string
	flags := flag.NewFlagSet("fleet", flag.ContinueOnError)
	flags.StringVar(&clusters, "clusters", "10,100,1000", "Healthy clusters of each run, comma separated; some MiB each.")
	flags.StringVar(&dead, "dead", "0,20", "Percent of all clusters that are dead, a run for each; they come on top of the healthy ones.")
	// The default is about what an API server beside its etcd takes for a write. Without it upstream's importer comes before the
	// kind of the klusterlet is served, gives up, and is spared the two seconds that a real server holds it back.
	flags.StringVar(&latency, "latency", "5ms,25ms", "What each answer of a cluster takes: MEDIAN or MEDIAN,P99 of a log-normal distribution.")
	flags.BoolVar(&o.registration, "registration", false, "Run OCM's registration controller beside the import-controller, with its importer off. It uses the same cores and writes to the same ManagedClusters.")
	flags.IntVar(&o.workers, "workers", 0, "Imports at the same time; 0 is the default of the import-controller.")
	flags.StringVar(&o.args, "args", "", "More flags of the import-controller, separated by spaces.")
	flags.StringVar(&peer, "peer", "10,100", "Sizes at which upstream's importer runs too, without dead clusters and at the first with them.")
	flags.DurationVar(&o.limit, "limit", 10*time.Minute, "How long to wait for the healthy clusters of a run.")
	flags.DurationVar(&o.peerLimit, "peer-limit", time.Minute, "How long upstream may take beside dead clusters.")
	flags.DurationVar(&o.observe, "observe", time.Minute, "How long failing clusters are watched after the imports.")
	flags.IntVar(&o.idleSecrets, "idle-secrets", 2000, "Import Secrets without a cluster, for the memory of one; 0 leaves that out.")
	flags.IntVar(&o.fixed, "fixed", 200, "Import Secrets that are mended at once; 0 leaves that out.")
	flags.StringVar(&o.out, "out", filepath.Join("_output", "bench-fleet"), "Folder of report, plot, logs and profiles.")
	flags.BoolVar(&o.profile, "profile", false, "Keep profiles of the import-controller, of CPU and heap, which costs some percent.")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	for _, list := range []struct {
		name, value  string
		into         *[]int
		lowest, most int
	}{
		{"clusters", clusters, &o.clusters, 1, 10000},
		{"dead", dead, &o.dead, 0, 90},
		{"peer", peer, &o.peer, 1, 10000},
	} {
		var err error
		if *list.into, err = numbers(list.value, list.lowest, list.most); err != nil {
			return o, fmt.Errorf("--%s: %w", list.name, err)
		}
	}
	if o.workers < 0 || o.idleSecrets < 0 || o.fixed < 0 || flags.NArg() > 0 {
		return o, errors.New("fleet: --workers, --idle-secrets and --fixed must not be below 0, and there are no arguments")
	}
	median, p99, hasP99 := strings.Cut(latency, ",")
	var err error
	if o.latency.Median, err = time.ParseDuration(median); err == nil && hasP99 {
		o.latency.P99, err = time.ParseDuration(p99)
	}
	if err != nil {
		return o, fmt.Errorf("--latency: %w", err)
	}
	return o, nil
}

func numbers(list string, lowest, highest int) ([]int, error) {
	var all []int
	for _, text := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' }) {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < lowest || n > highest {
			return nil, fmt.Errorf("%q is not a number from %d to %d", text, lowest, highest)
		}
		all = append(all, n)
	}
	return all, nil
}

// bench is one run of the command.
type bench struct {
	options
	controlPlaneBin, agentBin, binDir string
	logDir                            string
	report                            report
}

func run(ctx context.Context, o options) error {
	b := &bench{options: o, logDir: filepath.Join(o.out, "logs"), binDir: filepath.Join(o.out, "bin")}
	// Programs append to their logs.
	if err := os.RemoveAll(b.logDir); err != nil {
		return fmt.Errorf("removing old logs: %w", err)
	}
	for _, dir := range []string{b.logDir, b.binDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("creating a folder: %w", err)
		}
	}
	var err error
	if b.controlPlaneBin, err = binaries.ControlPlane(ctx, os.Stderr); err != nil {
		return err
	}
	if len(b.peer) > 0 || b.registration {
		if b.agentBin, err = binaries.Agents(ctx, os.Stderr); err != nil {
			return err
		}
	}
	figures.Progress("building the import-controller")
	if err := usage.Build(ctx, b.binDir); err != nil {
		return err
	}
	b.report.begin()
	err = b.scenarios(ctx)
	// What was measured before a failure is worth its time.
	return errors.Join(err, b.report.finish(o.out))
}

func (b *bench) scenarios(ctx context.Context) error {
	for _, size := range b.clusters {
		for _, dead := range b.dead {
			if err := b.importFleet(ctx, size, dead); err != nil {
				return fmt.Errorf("%d clusters, %d %% dead: %w", size, dead, err)
			}
		}
	}
	b.compareRuns()
	if err := b.held(ctx, min(maxHeld, slices.Max(b.clusters))); err != nil {
		return fmt.Errorf("held credentials: %w", err)
	}
	if b.fixed > 0 {
		if err := b.mend(ctx); err != nil {
			return fmt.Errorf("mended Secrets: %w", err)
		}
	}
	if b.idleSecrets > 0 {
		if err := b.idle(ctx); err != nil {
			return fmt.Errorf("idle Secrets: %w", err)
		}
	}
	return nil
}

// peerRuns says whether upstream's importer runs at a size.
func (b *bench) peerRuns(size, dead int) bool {
	return slices.Contains(b.peer, size) && (dead == 0 || size == b.peer[0])
}
