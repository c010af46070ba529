// Copyright Contributors to the Open Cluster Management project

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// intervals stands in for the variables that Grafana puts into expressions.
var intervals = strings.NewReplacer("$__rate_interval", "5m", "$__interval", "1m", "$__range", "1h")

// prometheusRule is what is read of a PrometheusRule.
type prometheusRule struct {
	Spec struct {
		Groups []struct {
			Rules []rule `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// panel is what is read of a panel of a dashboard. A row has panels of its own.
type panel struct {
	Title   string `json:"title"`
	Targets []struct {
		Expr string `json:"expr"`
	} `json:"targets"`
	Panels []panel `json:"panels"`
}

// expression is a PromQL expression and where it stands.
type expression struct{ where, text string }

// usedMetrics returns the sorted names of the metrics in a PrometheusRule and a dashboard. The error has every expression
// that is not valid.
func usedMetrics(rulesFile, dashboardFile string) ([]string, error) {
	rules, err := readRules(rulesFile)
	if err != nil {
		return nil, err
	}
	var expressions []expression
	for _, rule := range rules {
		expressions = append(expressions, expression{rulesFile + ": " + rule.Alert, rule.Expr})
	}
	inDashboard, err := dashboardExpressions(dashboardFile)
	if err != nil {
		return nil, err
	}
	var (
		names []string
		errs  []error
	)
	for _, expression := range append(expressions, inDashboard...) {
		found, err := metricsIn(expression.text)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", expression.where, err))
		}
		names = append(names, found...)
	}
	slices.Sort(names)
	return slices.Compact(names), errors.Join(errs...)
}

// readRules returns the rules of a PrometheusRule.
func readRules(file string) ([]rule, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var object prometheusRule
	if err := yaml.Unmarshal(data, &object); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var rules []rule
	for _, group := range object.Spec.Groups {
		rules = append(rules, group.Rules...)
	}
	if len(rules) == 0 {
		return nil, fmt.Errorf("%s has no rules", file)
	}
	return rules, nil
}

// dashboardExpressions returns the expressions of a dashboard, with durations in place of Grafana's variables.
func dashboardExpressions(file string) ([]expression, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var dashboard panel
	if err := json.Unmarshal(data, &dashboard); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var expressions []expression
	var visit func(panel)
	visit = func(p panel) {
		for _, target := range p.Targets {
			expressions = append(expressions, expression{file + ": " + p.Title, intervals.Replace(target.Expr)})
		}
		for _, inner := range p.Panels {
			visit(inner)
		}
	}
	visit(dashboard)
	if len(expressions) == 0 {
		return nil, fmt.Errorf("%s has no expressions", file)
	}
	return expressions, nil
}

// metricsIn returns the names of the metrics in a PromQL expression.
func metricsIn(text string) ([]string, error) {
	parsed, err := parser.NewParser(parser.Options{}).ParseExpr(text)
	if err != nil {
		return nil, err
	}
	var names []string
	parser.Inspect(parsed, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		if selector.Name == "" {
			err = fmt.Errorf("%s selects metrics without their name", selector)
		}
		names = append(names, selector.Name)
		return nil
	})
	if err == nil && len(names) == 0 {
		err = errors.New("the expression has no metric")
	}
	return names, err
}

// unknownMetrics returns the names that are not in an answer of /metrics, in the text format. A histogram is queried by
// the names of its buckets, its sum and its count.
func unknownMetrics(names []string, served string) ([]string, error) {
	known := map[string]bool{}
	for line := range strings.Lines(served) {
		fields := strings.Fields(line)
		if len(fields) != 4 || fields[0] != "#" || fields[1] != "TYPE" {
			continue
		}
		name, suffixes := fields[2], []string{""}
		switch fields[3] {
		case "histogram":
			suffixes = []string{"_bucket", "_sum", "_count"}
		case "summary":
			suffixes = []string{"", "_sum", "_count"}
		}
		for _, suffix := range suffixes {
			known[name+suffix] = true
		}
	}
	if len(known) == 0 {
		return nil, errors.New("no metric is served")
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return known[name] }), nil
}
