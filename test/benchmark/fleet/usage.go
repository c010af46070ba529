// Copyright Contributors to the Open Cluster Management project

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"open-cluster-management.io/import-provider/test/benchmark/usage"
)

const (
	kib = 1 << 10
	mib = 1 << 20

	sampleEvery = 250 * time.Millisecond
)

// cpu is what programs have used since they started, in seconds.
type cpu struct {
	// importer is the program that imports; hub are API server, etcd and OCM's registration controller beside ours; simulator is the benchmark itself with all clusters.
	importer, hub, simulator float64
}

func (c cpu) minus(before cpu) cpu {
	return cpu{importer: c.importer - before.importer, hub: c.hub - before.hub, simulator: c.simulator - before.simulator}
}

// cpu reads Linux's /proc; elsewhere it is an error.
func (h *hub) cpu() (cpu, error) {
	var c cpu
	var err error
	if c.importer, err = usage.CPUSeconds(h.importer.PID()); err != nil {
		return c, err
	}
	if c.simulator, err = usage.CPUSeconds(os.Getpid()); err != nil {
		return c, err
	}
	programs := []string{"etcd", "kube-apiserver"}
	if !h.Upstream {
		programs = append(programs, "registration")
	}
	for _, pid := range children(programs...) {
		seconds, err := usage.CPUSeconds(pid)
		if err != nil {
			return c, err
		}
		c.hub += seconds
	}
	return c, nil
}

// level reads what the importer holds; collected collects garbage before.
func (h *hub) level(ctx context.Context, collected bool) (usage.Level, error) {
	return usage.Read(ctx, h.importer.PID(), h.debug, collected)
}

func (h *hub) getDebug(ctx context.Context, path string) ([]byte, error) {
	return usage.Get(ctx, h.debug, path)
}

// sample notes the highest level until the returned function is called.
func (h *hub) sample(ctx context.Context) (stop func() usage.Level) {
	ctx, cancel := context.WithCancel(ctx)
	var (
		done sync.WaitGroup
		peak usage.Level
	)
	done.Go(func() {
		ticker := time.NewTicker(sampleEvery)
		defer ticker.Stop()
		for {
			// A reading that fails is one that is missing.
			if now, err := h.level(ctx, false); err == nil {
				peak.Raise(now)
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	return func() usage.Level {
		cancel()
		done.Wait()
		return peak
	}
}

// quiet returns when the importer has used less than a twentieth of a core for two seconds, and since when.
func (h *hub) quiet(ctx context.Context) (since time.Time, err error) {
	const long, share = 2 * time.Second, 0.05
	type reading struct {
		at   time.Time
		used float64
	}
	var readings []reading
	err = poll(ctx, 100*time.Millisecond, func() (bool, error) {
		used, err := usage.CPUSeconds(h.importer.PID())
		if err != nil {
			return false, err
		}
		now := time.Now()
		readings = append(readings, reading{now, used})
		for len(readings) > 2 && now.Sub(readings[1].at) >= long {
			readings = readings[1:]
		}
		first := readings[0]
		since = first.at
		return now.Sub(first.at) >= long && used-first.used < share*long.Seconds(), nil
	})
	return since, err
}

// poll calls done until it says so, fails, or the context ends.
func poll(ctx context.Context, every time.Duration, done func() (bool, error)) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// children are our child processes of some names.
func children(names ...string) []int {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	var pids []int
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		begin, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
		fields := bytes.Fields(stat[end+1:])
		if len(fields) < 2 || string(fields[1]) != strconv.Itoa(os.Getpid()) {
			continue
		}
		for _, name := range names {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil && string(stat[begin+1:end]) == name {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// counted are the resources that an importer asks the hub for. An API server sends itself requests for others.
var counted = map[string]bool{
	"secrets": true, "configmaps": true, "serviceaccounts": true, "managedclusters": true, "events": true, "namespaces": true,
}

var labelPattern = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)

// requests counts what the hub has answered, by verb and resource, without watches and without the benchmark's own.
func (h *hub) requests(ctx context.Context) (map[string]float64, error) {
	raw, err := h.Kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of the hub: %w", err)
	}
	sums := map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, mib)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), "apiserver_request_total{")
		if !ok {
			continue
		}
		end := strings.LastIndex(rest, "} ")
		if end < 0 {
			return nil, errors.New("the metrics of the hub have a line without a value")
		}
		labels := map[string]string{}
		for _, label := range labelPattern.FindAllStringSubmatch(rest[:end], -1) {
			labels[label[1]] = label[2]
		}
		if !counted[labels["resource"]] || labels["verb"] == "LIST" || labels["verb"] == "WATCH" {
			continue
		}
		value, err := strconv.ParseFloat(rest[end+2:], 64)
		if err != nil {
			return nil, fmt.Errorf("reading the metrics of the hub: %w", err)
		}
		what := labels["verb"] + " " + labels["resource"]
		if labels["subresource"] != "" {
			what += "/" + labels["subresource"]
		}
		sums[what] += value
	}
	for what, n := range h.own.snapshot() {
		if _, ok := sums[what]; ok {
			sums[what] -= n
		}
	}
	return sums, lines.Err()
}

func sumOf(counts map[string]float64) float64 {
	var sum float64
	for _, n := range counts {
		sum += n
	}
	return sum
}

func difference(after, before map[string]float64) map[string]float64 {
	result := map[string]float64{}
	for what, n := range after {
		if n -= before[what]; n != 0 {
			result[what] = n
		}
	}
	return result
}
