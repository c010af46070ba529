// Copyright Contributors to the Open Cluster Management project

package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"open-cluster-management.io/import-provider/test/benchmark/figures"
)

const barWidth = 40

// bar is a progress bar on standard error, or a line at its end where that is no terminal.
type bar struct {
	title    string
	total    int
	terminal bool
	started  time.Time
	current  int
	drawn    time.Time
}

func newBar(title string, total int) *bar {
	info, err := os.Stderr.Stat()
	return &bar{title: title, total: total, started: time.Now(), terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

// set shows how much is done, some times a second.
func (b *bar) set(done int) {
	b.current = done
	if !b.terminal || time.Since(b.drawn) < 100*time.Millisecond {
		return
	}
	b.drawn = time.Now()
	b.draw()
}

func (b *bar) draw() {
	filled := barWidth * b.current / max(b.total, 1)
	fmt.Fprintf(os.Stderr, "\r%s [%s%s] %d/%d %s ", b.title, strings.Repeat("=", filled), strings.Repeat(" ", barWidth-filled),
		b.current, b.total, time.Since(b.started).Round(time.Second))
}

func (b *bar) end() {
	if b.terminal {
		b.draw()
		fmt.Fprintln(os.Stderr)
		return
	}
	figures.Progress("%s: %d of %d in %s", b.title, b.current, b.total, time.Since(b.started).Round(time.Millisecond))
}
