// Copyright Contributors to the Open Cluster Management project

// Command monitoring checks manifests/monitoring with the parser of Prometheus: each expression of alerts and dashboard
// is valid, and with -metrics each metric in them is one that the component serves. It prints the names of the metrics,
// one a line.
//
//	go -C test/monitoring run . -metrics /path/of/FILE
//
// It is a module of its own, since Prometheus would raise the versions of libraries that the component is built from.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
)

// manifests is where the defaults of the flags are, from this directory.
const manifests = "../../manifests/monitoring/"

func main() {
	rules := flag.String("rules", manifests+"prometheusrule.yaml", "File of the PrometheusRule.")
	dashboard := flag.String("dashboard", manifests+"dashboard.json", "File of the dashboard.")
	metrics := flag.String("metrics", "", "File with what /metrics answered, which has to have the metrics; none by default.")
	flag.Parse()
	names, err := run(*rules, *dashboard, *metrics)
	for _, name := range names {
		fmt.Println(name)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(rules, dashboard, metrics string) ([]string, error) {
	names, err := usedMetrics(rules, dashboard)
	if err != nil || metrics == "" {
		return names, err
	}
	served, err := os.ReadFile(metrics)
	if err != nil {
		return names, err
	}
	unknown, err := unknownMetrics(names, string(served))
	if err != nil {
		return names, fmt.Errorf("%s: %w", metrics, err)
	}
	if len(unknown) > 0 {
		return names, errors.New("not served: " + strings.Join(unknown, ", "))
	}
	return names, nil
}
