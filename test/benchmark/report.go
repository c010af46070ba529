// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"open-cluster-management.io/import-provider/test/benchmark/figures"
)

// figure is one result. peer is upstream's, and not a number where upstream has none to compare with.
type figure struct {
	name, unit  string
	value, peer float64
}

type report struct {
	goals []string
}

// add prints a figure and returns its ratio to upstream's.
func (r *report) add(f figure) float64 {
	fmt.Fprintln(os.Stdout, figures.Line(f.name, f.value, f.peer, f.unit))
	return figures.Ratio(f.value, f.peer)
}

// goal notes for the summary whether a value is at most the limit.
func (r *report) goal(text, name string, value, limit float64) {
	verdict := "met"
	if !(value <= limit) { // Not a number is not met.
		verdict = "not met"
	}
	r.goals = append(r.goals, fmt.Sprintf("goal: %s: %s (%s %s, goal %s)", text, verdict, name, figures.Number(value), figures.Number(limit)))
}

func (r *report) summary(w io.Writer) {
	for _, goal := range r.goals {
		fmt.Fprintln(w, goal)
	}
}

func median(results []result, of func(result) float64) float64 {
	values := make([]float64, 0, len(results))
	for _, r := range results {
		values = append(values, of(r))
	}
	return middle(values)
}

// middle returns the median: the mean of the two in the middle of an even number of values.
func middle(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}
