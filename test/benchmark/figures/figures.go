// Copyright Contributors to the Open Cluster Management project

// Package figures says how the benchmarks print their results and their progress.
package figures

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"time"
)

// None is the value of a figure that there is none of.
var None = math.NaN()

// Line is one result, and that of the peer, which is None where there is nothing to compare with.
func Line(name string, value, peer float64, unit string) string {
	return fmt.Sprintf("figure: %s %s %s peer=%s ratio=%s", name, Number(value), unit, Number(peer), Number(Ratio(value, peer)))
}

// Ratio is that of a value to the peer's, None without one to compare with.
func Ratio(value, peer float64) float64 {
	if peer == 0 || math.IsInf(peer, 0) {
		return None
	}
	return value / peer
}

// Number has three significant digits; "-" is no number and "never" an infinite time.
func Number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case math.IsInf(v, 0):
		return "never"
	case math.Abs(v) >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

// Progress tells on standard error what happens now.
func Progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", slices.Concat([]any{time.Now().Format(time.TimeOnly)}, args)...)
}
