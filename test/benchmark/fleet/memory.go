// Copyright Contributors to the Open Cluster Management project

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"open-cluster-management.io/import-provider/test/benchmark/figures"
	"open-cluster-management.io/import-provider/test/fleet"
)

// maxHeld is enough clusters for something that keeps credentials to show.
const maxHeld = 100

// idleConnection is longer than the import-controller keeps a connection that it does not need.
const idleConnection = 8 * time.Second

// credentials is how often the beginning of a token was found in the memory of the import-controller.
type credentials struct {
	// heap is in objects that are in use, by a dump of the heap; anywhere is in all memory of the process that can be
	// written to, stacks and buffers of the runtime included.
	heap, anywhere float64
}

// held imports clusters and searches the import-controller for their tokens when it is at rest. Go leaves what was freed as
// it is until the place is needed, so this process overwrites it: else a new object that does not fill its place would
// seem to hold a token.
func (b *bench) held(ctx context.Context, size int) (err error) {
	clusters, err := b.startSpokes(ctx, size, 0)
	if err != nil {
		return err
	}
	defer clusters.Stop()
	h, err := b.startOurs(ctx, "GODEBUG=clobberfree=1")
	defer func() { err = errors.Join(err, h.Stop()) }()
	if err != nil {
		return err
	}
	watcher, err := h.watch(ctx)
	if err != nil {
		return err
	}
	defer watcher.stop()
	if err := forEach(ctx, clusters.healthy, func(ctx context.Context, cluster *fleet.Cluster) error {
		return errors.Join(h.CreateCredential(ctx, cluster.Name(), cluster.Kubeconfig()), h.CreateCluster(ctx, cluster.Name()))
	}); err != nil {
		return fmt.Errorf("creating clusters: %w", err)
	}
	// Without imports a search finds nothing in any program.
	if err := watcher.completed(ctx, clusters.healthy); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	if _, err := h.quiet(ctx); err != nil {
		return err
	}
	// Connections to the clusters are closed five seconds after the last request.
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(idleConnection):
	}
	found, err := h.findCredentials(ctx, filepath.Join(b.out, "heapdump"))
	if err != nil {
		return err
	}
	name := fmt.Sprintf("held-%d", size)
	b.report.figure(name+"-heap", found.heap, "places")
	b.report.figure(name+"-anywhere", found.anywhere, "places")
	b.report.goal("no credential is held at rest", name+"-heap", found.heap, atMost, 0)
	return nil
}

// sentinels are the beginning of a token as it is, and as the JSON of a Secret has it: in base64, at the three places of a
// group at which it may begin.
func sentinels() [][]byte {
	all := [][]byte{[]byte(tokenPrefix)}
	for shift := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat(" ", shift) + tokenPrefix))
		// The first and the last group hold what is beside the token too.
		all = append(all, []byte(encoded[4:len(encoded)-4]))
	}
	return all
}

// findCredentials searches the import-controller for tokens. The file, with the dump of the heap, is left when some are found.
func (h *hub) findCredentials(ctx context.Context, file string) (credentials, error) {
	var found credentials
	path, err := filepath.Abs(file)
	if err != nil {
		return found, fmt.Errorf("finding %s: %w", file, err)
	}
	if _, err := h.getDebug(ctx, "/heap-dump?path="+url.QueryEscape(path)); err != nil {
		return found, fmt.Errorf("dumping the heap: %w", err)
	}
	dump, err := os.ReadFile(path)
	if err != nil {
		return found, fmt.Errorf("reading the dump of the heap: %w", err)
	}
	found.heap = count(dump)
	if found.heap > 0 {
		figures.Progress("credentials in the heap: %s", file)
	} else if err := os.Remove(path); err != nil {
		return found, fmt.Errorf("removing the dump of the heap: %w", err)
	}
	found.anywhere, err = countInProcess(h.importer.PID())
	return found, err
}

func count(memory []byte) float64 {
	n := 0
	for _, sentinel := range sentinels() {
		n += bytes.Count(memory, sentinel)
	}
	return float64(n)
}

// countInProcess searches the memory of a process of the same user.
func countInProcess(pid int) (float64, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the mappings of a process: %w", err)
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return 0, fmt.Errorf("reading the memory of a process: %w", err)
	}
	defer func() { _ = memory.Close() }()
	var sum float64
	for line := range strings.Lines(string(maps)) {
		fields := strings.Fields(line)
		if len(fields) < 2 || !strings.HasPrefix(fields[1], "rw") {
			continue
		}
		begin, end, _ := strings.Cut(fields[0], "-")
		from, err1 := strconv.ParseInt(begin, 16, 64)
		to, err2 := strconv.ParseInt(end, 16, 64)
		if errors.Join(err1, err2) != nil {
			continue
		}
		// Pages that were given back can't be read.
		data, err := io.ReadAll(io.NewSectionReader(memory, from, to-from))
		if err != nil && len(data) == 0 {
			continue
		}
		sum += count(data)
	}
	return sum, nil
}
