// Copyright Contributors to the Open Cluster Management project

// Command soak lets things break for a long time and looks whether anything is lost, imported twice or leaked. Run it as
// `make soak`; docs/benchmarks.md says what the figures mean. The exit code is not zero when something is wrong.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"open-cluster-management.io/import-provider/test/benchmark/figures"
	"open-cluster-management.io/import-provider/test/binaries"
	"open-cluster-management.io/import-provider/test/fleet/soak"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o := soak.Options{
		Progress: func(text string) { figures.Progress("%s", text) },
		Figure: func(name string, value float64, unit string) {
			fmt.Println(figures.Line(name, value, figures.None, unit))
		},
	}
	var out, more string
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	flags.DurationVar(&o.Duration, "duration", 30*time.Minute, "How long things happen.")
	flags.DurationVar(&o.SettleLimit, "settle", 6*time.Minute, "How long to wait at the end for what was begun; the longest back-off is 5m.")
	flags.IntVar(&o.Clusters, "clusters", 60, "How many clusters there are about; some MiB each.")
	flags.DurationVar(&o.ChangeEvery, "change-every", 300*time.Millisecond, "Time between two changes of Secrets, clusters and ManagedClusters.")
	flags.DurationVar(&o.FaultEvery, "fault-every", 30*time.Second, "Time between two faults of the hub and the replicas.")
	flags.Uint64Var(&o.Seed, "seed", 1, "Decides what happens.")
	flags.StringVar(&more, "args", "", "More flags of the import-controller, separated by spaces.")
	flags.StringVar(&out, "out", filepath.Join("_output", "bench-soak"), "Folder of the logs, which is emptied.")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.Duration <= 0 || o.Clusters < 4 || o.ChangeEvery <= 0 || o.FaultEvery <= 0 || flags.NArg() > 0 {
		return errors.New("durations must be above 0 and --clusters above 3, and there are no arguments")
	}
	o.Args = strings.Fields(more)
	o.Dir, o.LogDir = filepath.Join(out, "bin"), filepath.Join(out, "logs")
	// Programs append to their logs.
	if err := os.RemoveAll(out); err != nil {
		return fmt.Errorf("removing old logs: %w", err)
	}
	for _, dir := range []string{o.Dir, o.LogDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("creating a folder: %w", err)
		}
	}
	var err error
	if o.ControlPlaneBin, err = binaries.ControlPlane(ctx, os.Stderr); err != nil {
		return err
	}
	return soak.Run(ctx, o)
}
