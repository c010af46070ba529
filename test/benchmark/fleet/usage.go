// Copyright Contributors to the Open Cluster Management project

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	// ticksPerSecond is USER_HZ, which is 100 on all platforms that Go runs on.
	ticksPerSecond = 100
	kib            = 1 << 10
	mib            = 1 << 20

	sampleEvery = 250 * time.Millisecond
)

// cpu is what programs have used since they started, in seconds.
type cpu struct {
	// importer is the program that imports; hub are API server and etcd; simulator is the benchmark itself with all clusters.
	importer, hub, simulator float64
}

func (c cpu) minus(before cpu) cpu {
	return cpu{importer: c.importer - before.importer, hub: c.hub - before.hub, simulator: c.simulator - before.simulator}
}

// level is what the importer holds at one time.
type level struct {
	rss, descriptors float64
	// anonymous is the part of rss that is no copy of a file.
	anonymous float64
	// goroutines and heap, in bytes, are those of the import-controller alone.
	goroutines, heap float64
}

func (l *level) raise(other level) {
	l.rss, l.anonymous = max(l.rss, other.rss), max(l.anonymous, other.anonymous)
	l.descriptors = max(l.descriptors, other.descriptors)
	l.goroutines, l.heap = max(l.goroutines, other.goroutines), max(l.heap, other.heap)
}

// cpu reads Linux's /proc; elsewhere it is an error.
func (h *hub) cpu() (cpu, error) {
	var c cpu
	var err error
	if c.importer, err = cpuSeconds(h.importer.PID()); err != nil {
		return c, err
	}
	if c.simulator, err = cpuSeconds(os.Getpid()); err != nil {
		return c, err
	}
	for _, pid := range children("etcd", "kube-apiserver") {
		seconds, err := cpuSeconds(pid)
		if err != nil {
			return c, err
		}
		c.hub += seconds
	}
	return c, nil
}

// level reads what the importer holds; collected collects garbage before.
func (h *hub) level(ctx context.Context, collected bool) (level, error) {
	var l level
	if !h.upstream {
		path := "/stats"
		if collected {
			path += "?gc"
		}
		var numbers struct{ Goroutines, HeapBytes float64 }
		body, err := h.getDebug(ctx, path)
		if err == nil {
			err = json.Unmarshal(body, &numbers)
		}
		if err != nil {
			return l, fmt.Errorf("reading the numbers of the runtime: %w", err)
		}
		l.goroutines, l.heap = numbers.Goroutines, numbers.HeapBytes
	}
	var err error
	if l.rss, l.anonymous, err = residentBytes(h.importer.PID()); err != nil {
		return l, err
	}
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", h.importer.PID()))
	l.descriptors = float64(len(entries))
	return l, err
}

func (h *hub) getDebug(ctx context.Context, path string) ([]byte, error) {
	return get(ctx, "http://"+h.debug+path)
}

func get(ctx context.Context, url string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", req.URL.Path, resp.Status)
	}
	return body, err
}

// sample notes the highest level until the returned function is called.
func (h *hub) sample(ctx context.Context) (stop func() level) {
	ctx, cancel := context.WithCancel(ctx)
	var (
		done sync.WaitGroup
		peak level
	)
	done.Go(func() {
		ticker := time.NewTicker(sampleEvery)
		defer ticker.Stop()
		for {
			// A reading that fails is one that is missing.
			if now, err := h.level(ctx, false); err == nil {
				peak.raise(now)
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	})
	return func() level {
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
		used, err := cpuSeconds(h.importer.PID())
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

func cpuSeconds(pid int) (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the CPU time of a process: %w", err)
	}
	// The name of the program, in brackets, may hold spaces. utime and stime are the fields 14 and 15 of proc(5).
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const utime = 14 - 3
	if len(fields) <= utime+1 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var ticks int
	for _, field := range fields[utime : utime+2] {
		n, err := strconv.Atoi(string(field))
		if err != nil {
			return 0, fmt.Errorf("reading the CPU time of a process: %w", err)
		}
		ticks += n
	}
	return float64(ticks) / ticksPerSecond, nil
}

// residentBytes is the resident set of a process, and of it what is not a copy of a file: pages of the program are resident from
// their first use on, until the kernel wants the room.
func residentBytes(pid int) (rss, anonymous float64, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, fmt.Errorf("reading the memory of a process: %w", err)
	}
	found := 0
	for line := range strings.Lines(string(status)) {
		for name, bytes := range map[string]*float64{"VmRSS:": &rss, "RssAnon:": &anonymous} {
			value, ok := strings.CutPrefix(line, name)
			if !ok {
				continue
			}
			n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")))
			if err != nil {
				return 0, 0, fmt.Errorf("reading %s of a process: %w", name, err)
			}
			*bytes = float64(n) * kib
			found++
		}
	}
	if found != 2 {
		return 0, 0, fmt.Errorf("/proc/%d/status has no VmRSS, or no RssAnon", pid)
	}
	return rss, anonymous, nil
}

// counted are the resources that an importer asks the hub for. An API server sends itself requests for others.
var counted = map[string]bool{
	"secrets": true, "configmaps": true, "serviceaccounts": true, "managedclusters": true, "events": true, "namespaces": true,
}

var labelPattern = regexp.MustCompile(`([a-z_]+)="([^"]*)"`)

// requests counts what the hub has answered, by verb and resource, without watches and without the benchmark's own.
func (h *hub) requests(ctx context.Context) (map[string]float64, error) {
	raw, err := h.kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
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
