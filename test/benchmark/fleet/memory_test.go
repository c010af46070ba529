// Copyright Contributors to the Open Cluster Management project

package main

import (
	"encoding/base64"
	"os"
	"runtime"
	"strings"
	"testing"
)

// A search that finds nothing in any memory would call every program clean.
func TestCountFindsTokens(t *testing.T) {
	for shift := range 4 {
		document := strings.Repeat("x", shift) + " token: " + tokenPrefix + "-SECRET\n"
		for name, memory := range map[string]string{"plain": document, "base64": base64.StdEncoding.EncodeToString([]byte(document))} {
			if n := count([]byte(memory)); n != 1 {
				t.Errorf("%s, shifted by %d: found %v times", name, shift, n)
			}
		}
	}
	if n := count([]byte("token: another")); n != 0 {
		t.Errorf("found %v times where it is not", n)
	}
}

func TestCountInProcess(t *testing.T) {
	held := []byte(strings.Repeat(tokenPrefix, 2))
	n, err := countInProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if n < 2 {
		t.Errorf("found %v times", n)
	}
	runtime.KeepAlive(held)
}

func TestParse(t *testing.T) {
	o, err := parse([]string{"--clusters=5, 7", "--dead=0", "--peer=", "--latency=2ms,9ms", "--workers=3"})
	if err != nil {
		t.Fatal(err)
	}
	if len(o.clusters) != 2 || o.clusters[1] != 7 || len(o.peer) != 0 || o.latency.P99.Milliseconds() != 9 || o.workers != 3 {
		t.Errorf("parsed as %+v", o)
	}
	for _, wrong := range []string{"--clusters=0", "--clusters=x", "--dead=100", "--latency=fast", "--workers=-1", "argument"} {
		if _, err := parse([]string{wrong}); err == nil {
			t.Errorf("%s is taken", wrong)
		}
	}
}

// The dead are a share of all clusters.
func TestDeadBeside(t *testing.T) {
	for _, c := range []struct{ size, share, want int }{{1000, 20, 250}, {100, 0, 0}, {10, 20, 3}, {9, 10, 1}} {
		if got := deadBeside(c.size, c.share); got != c.want {
			t.Errorf("%d %% beside %d: %d, want %d", c.share, c.size, got, c.want)
		}
	}
}

func TestDrawPlot(t *testing.T) {
	run := result{size: 2, dead: 20, durations: []float64{0.5, 30}}
	svg := drawPlot([]result{run}, []result{{size: 2}})
	for _, part := range []string{"<svg ", "2, 20 % dead beside", "upstream, 2", "100 s", "</svg>"} {
		if !strings.Contains(svg, part) {
			t.Errorf("no %q in the plot", part)
		}
	}
}
