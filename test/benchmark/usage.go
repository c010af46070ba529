// Copyright Contributors to the Open Cluster Management project

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"k8s.io/client-go/kubernetes"

	proc "open-cluster-management.io/import-provider/test/benchmark/usage"
	"open-cluster-management.io/import-provider/test/harness"
)

const bytesPerMib = 1 << 20

// usage is what the programs of a hub have used since they started.
type usage struct {
	// cpu is in seconds: of the import-controller, and of all programs that import clusters or run beside.
	cpuImporter, cpuHub float64
	// hubRequests were answered by the hub, whoever sent them.
	hubRequests float64
}

func (u usage) minus(before usage) usage {
	return usage{
		cpuImporter: u.cpuImporter - before.cpuImporter,
		cpuHub:      u.cpuHub - before.cpuHub,
		hubRequests: u.hubRequests - before.hubRequests,
	}
}

// usage reads Linux's /proc; elsewhere it is an error.
func (s *side) usage(ctx context.Context) (usage, error) {
	var u usage
	var err error
	if u.hubRequests, err = requests(ctx, s.ControlPlane, func(labels string) bool {
		return !isWatch(labels) && !strings.Contains(labels, `,resource="leases"`)
	}); err != nil {
		return u, err
	}
	if u.cpuHub, err = proc.CPUSeconds(s.registration.PID()); err != nil {
		return u, err
	}
	if s.importer == nil {
		return u, nil
	}
	if u.cpuImporter, err = proc.CPUSeconds(s.importer.PID()); err != nil {
		return u, err
	}
	u.cpuHub += u.cpuImporter
	return u, nil
}

// memory returns the resident set, in MiB, of the import-controller and of all programs.
func (s *side) memory() (importer, hub float64, err error) {
	if hub, err = residentMib(s.registration.PID()); err != nil || s.importer == nil {
		return 0, hub, err
	}
	importer, err = residentMib(s.importer.PID())
	return importer, hub + importer, err
}

func residentMib(pid int) (float64, error) {
	rss, _, err := proc.ResidentBytes(pid)
	return rss / bytesPerMib, err
}

// importedResources are those of the objects that an import reads and writes. API servers send themselves requests
// for others all the time.
var importedResources = []string{
	"namespaces", "customresourcedefinitions", "clusterroles", "clusterrolebindings", "serviceaccounts", "secrets",
	"deployments", "klusterlets",
}

// spokeRequests counts the requests of importers that a managed cluster has answered.
func spokeRequests(ctx context.Context, spoke *harness.ControlPlane) (float64, error) {
	return requests(ctx, spoke, func(labels string) bool {
		return !isWatch(labels) && slices.ContainsFunc(importedResources, func(resource string) bool {
			return strings.Contains(labels, `,resource="`+resource+`"`)
		})
	})
}

// isWatch finds the requests of informers, which an API server has of its own.
func isWatch(labels string) bool {
	return strings.Contains(labels, `verb="LIST"`) || strings.Contains(labels, `verb="WATCH"`)
}

// requests counts the requests that an API server has answered.
func requests(ctx context.Context, c *harness.ControlPlane, counted func(labels string) bool) (float64, error) {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return 0, err
	}
	metrics, err := client.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, fmt.Errorf("reading the metrics of an API server: %w", err)
	}
	return sumMetric(bytes.NewReader(metrics), "apiserver_request_total", counted)
}

// sumMetric adds up the samples of a metric, in Prometheus's text format, whose labels are counted.
func sumMetric(metrics io.Reader, name string, counted func(labels string) bool) (float64, error) {
	var sum float64
	lines := bufio.NewScanner(metrics)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name+"{")
		if !ok {
			continue
		}
		end := strings.LastIndex(rest, "} ")
		if end < 0 || !counted(rest[:end]) {
			continue
		}
		value, err := strconv.ParseFloat(rest[end+2:], 64)
		if err != nil {
			return 0, fmt.Errorf("reading metric %s: %w", name, err)
		}
		sum += value
	}
	return sum, lines.Err()
}
