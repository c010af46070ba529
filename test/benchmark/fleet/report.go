// Copyright Contributors to the Open Cluster Management project

package main

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"open-cluster-management.io/import-provider/test/benchmark/figures"
	"open-cluster-management.io/import-provider/test/benchmark/usage"
)

// restGoroutines is how many more than before the imports are no leak: connections to the hub come and go.
const restGoroutines = 5

// report collects the figures, prints them as they come, and writes the files.
type report struct {
	started time.Time
	load    string
	lines   []string
	goals   []string
	ours    []result
	peers   []result
}

func (r *report) begin() {
	r.started = time.Now()
	r.load = loadAverage()
}

func loadAverage() string {
	load, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(load))[:3], " ")
}

func (r *report) print(line string) {
	fmt.Fprintln(os.Stdout, line)
	r.lines = append(r.lines, line)
}

// figure prints a figure that upstream has nothing to compare with.
func (r *report) figure(name string, value float64, unit string) {
	r.compared(name, value, figures.None, unit)
}

func (r *report) compared(name string, value, peer float64, unit string) {
	r.print(figures.Line(name, value, peer, unit))
}

// bound says on which side of a limit a value has to be.
type bound string

const (
	atMost  bound = "at most"
	atLeast bound = "at least"
)

func (r *report) goal(text, name string, value float64, side bound, limit float64) {
	verdict := "not met"
	// Not a number is not met.
	if side == atMost && value <= limit || side == atLeast && value >= limit {
		verdict = "met"
	}
	r.goals = append(r.goals, fmt.Sprintf("goal: %s: %s (%s %s, goal %s %s)", text, verdict, name, figures.Number(value), side, figures.Number(limit)))
}

// imported prints the figures of one fleet. peer is empty where upstream did not run.
func (r *report) imported(ours, peer result) {
	r.ours = append(r.ours, ours)
	if peer.size > 0 {
		r.peers = append(r.peers, peer)
	}
	name := ours.name()
	compared := func(figure, unit string, of func(result) float64) {
		value := figures.None
		if peer.size > 0 {
			value = of(peer)
		}
		r.compared(name+"-"+figure, of(ours), value, unit)
	}
	imports := func(res result) float64 { return float64(len(res.durations)) }
	// whole is for figures of runs that did not end.
	whole := func(of func(result) float64) func(result) float64 {
		return func(res result) float64 {
			if len(res.durations) < res.size {
				return math.Inf(1)
			}
			return of(res)
		}
	}
	compared("imported", "clusters", imports)
	compared("p50", "s", whole(func(res result) float64 { return res.percentile(0.5) }))
	compared("p99", "s", whole(func(res result) float64 { return res.percentile(0.99) }))
	compared("last", "s", whole(func(res result) float64 { return res.last }))
	compared("rate", "clusters/s", func(res result) float64 {
		if res.last == 0 {
			return 0
		}
		return imports(res) / res.last
	})
	perImport := func(of func(result) float64) func(result) float64 {
		return func(res result) float64 { return of(res) / max(imports(res), 1) }
	}
	compared("cpu-per-import", "s", perImport(func(res result) float64 { return res.used.importer }))
	compared("hub-cpu-per-import", "s", perImport(func(res result) float64 { return res.used.hub }))
	compared("simulator-cpu-per-import", "s", perImport(func(res result) float64 { return res.used.simulator }))
	compared("rss-peak", "MiB", func(res result) float64 { return res.peak.RSS / mib })
	compared("descriptors-peak", "descriptors", func(res result) float64 { return res.peak.Descriptors })
	r.figure(name+"-goroutines-peak", ours.peak.Goroutines, "goroutines")
	if ours.dead > 0 {
		r.figure(name+"-patches-per-failing-cluster", ours.patches, "patches/min")
		return
	}
	compared("hub-requests-per-import", "requests", func(res result) float64 { return sumOf(res.hubRequests) })
	compared("spoke-requests-per-import", "requests", func(res result) float64 { return res.requests })
	r.figure(name+"-attempts-per-import", ours.attempts, "attempts")
	for _, l := range []struct {
		when  string
		level usage.Level
	}{{"idle", ours.idle}, {"rest", ours.rest}, {"restarted", ours.fresh}} {
		r.figure(name+"-rss-"+l.when, l.level.RSS/mib, "MiB")
		r.figure(name+"-anonymous-"+l.when, l.level.Anonymous/mib, "MiB")
		r.figure(name+"-heap-"+l.when, l.level.Heap/mib, "MiB")
		r.figure(name+"-goroutines-"+l.when, l.level.Goroutines, "goroutines")
		r.figure(name+"-descriptors-"+l.when, l.level.Descriptors, "descriptors")
	}
	r.figure(name+"-restart", ours.restart, "s")
	r.figure(name+"-restart-connections", ours.touched, "connections")
	for _, what := range slices.Sorted(maps.Keys(ours.hubRequests)) {
		r.lines = append(r.lines, fmt.Sprintf("        %s: %s by import", what, figures.Number(ours.hubRequests[what])))
	}
}

// compareRuns judges the goals that the runs have.
func (b *bench) compareRuns() {
	r := &b.report
	biggest := slices.Max(b.clusters)
	for _, res := range r.ours {
		without, found := r.find(res.size, 0)
		if res.dead > 0 && found {
			slowdown := res.percentile(0.99) / without.percentile(0.99)
			if len(res.durations) < res.size {
				slowdown = math.Inf(1)
			}
			r.figure(res.name()+"-slowdown", slowdown, "times")
			r.goal("dead clusters cost the healthy ones at most a tenth, in p99", res.name()+"-slowdown", slowdown, atMost, 1.1)
		}
		if res.dead > 0 || res.size != biggest {
			continue
		}
		name := res.name()
		r.goal("at least 10 healthy clusters a second", name+"-rate", float64(len(res.durations))/res.last, atLeast, 10)
		r.goal("goroutines come back", name+"-goroutines-rest above those of a new process",
			res.rest.Goroutines-res.fresh.Goroutines, atMost, restGoroutines)
		r.goal("memory comes back", name+"-anonymous-rest by that of a new process", res.rest.Anonymous/res.fresh.Anonymous, atMost, 1.1)
		r.goal("a restart settles", name+"-restart", res.restart, atMost, 10)
		r.goal("a restart touches no cluster", name+"-restart-connections", res.touched, atMost, 0)
		if hundred, ok := r.find(100, 0); ok && res.size > 100 {
			cost := func(res result) float64 { return res.used.importer / float64(len(res.durations)) }
			ratio := cost(res) / cost(hundred)
			r.figure(name+"-cost-growth", ratio, "times")
			r.goal("the cost of a cluster is flat from 100 clusters on, ± 20 %", name+"-cost-growth - 1", math.Abs(ratio-1), atMost, 0.2)
		}
	}
}

func (r *report) find(size, dead int) (result, bool) {
	i := slices.IndexFunc(r.ours, func(res result) bool { return res.size == size && res.dead == dead })
	if i < 0 {
		return result{}, false
	}
	return r.ours[i], true
}

// finish prints the goals and writes report.txt and plot.svg.
func (r *report) finish(dir string) error {
	for _, goal := range r.goals {
		r.print(goal)
	}
	head := fmt.Sprintf("%s, %d cores (%s), %s, load before %s and after %s, %s\n\n", r.started.Format(time.DateOnly), runtime.NumCPU(),
		cpuModel(), runtime.Version(), r.load, loadAverage(), time.Since(r.started).Round(time.Second))
	text, plot := filepath.Join(dir, "report.txt"), filepath.Join(dir, "plot.svg")
	figures.Progress("%s, %s", text, plot)
	return errors.Join(
		os.WriteFile(text, []byte(head+strings.Join(r.lines, "\n")+"\n"), 0o600),
		os.WriteFile(plot, []byte(drawPlot(r.ours, r.peers)), 0o600),
	)
}

func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.Trim(name, " \t:\n")
		}
	}
	return runtime.GOARCH
}
