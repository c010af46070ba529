// Copyright Contributors to the Open Cluster Management project

package policy

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/testutil"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// mountedFile is a file in a directory as Kubernetes mounts a ConfigMap: a link to a file behind a link to a directory, and
// each change is a new directory and a swap of the link to it.
type mountedFile struct {
	t       *testing.T
	dir     string
	version int
}

func (m *mountedFile) path() string { return filepath.Join(m.dir, "policy.yaml") }

func (m *mountedFile) write(spec string) {
	m.t.Helper()
	m.version++
	versionDir := filepath.Join(m.dir, "..v"+strings.Repeat("i", m.version))
	link, swap := filepath.Join(m.dir, "..data"), filepath.Join(m.dir, "..data_tmp")
	for _, step := range []func() error{
		func() error { return os.Mkdir(versionDir, 0o700) },
		func() error {
			return os.WriteFile(filepath.Join(versionDir, "policy.yaml"), []byte("apiVersion: "+APIVersion+"\nkind: "+Kind+"\n"+spec), 0o600)
		},
		func() error { return os.Symlink(versionDir, swap) },
		func() error { return os.Rename(swap, link) },
	} {
		if err := step(); err != nil {
			m.t.Fatal(err)
		}
	}
	if m.version == 1 {
		if err := os.Symlink(filepath.Join("..data", "policy.yaml"), m.path()); err != nil {
			m.t.Fatal(err)
		}
	}
}

type lockedBuffer struct {
	lock sync.Mutex // guards text
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.lock.Lock()
	defer b.lock.Unlock()
	return b.text.String()
}

func value(t *testing.T, metric metrics.CounterMetric) float64 {
	t.Helper()
	got, err := testutil.GetCounterMetricValue(metric)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestSourceFollowsTheFile(t *testing.T) {
	file := &mountedFile{t: t, dir: t.TempDir()}
	file.write("rules: [{namespaces: ['*'], resolvers: [one]}]")
	s, err := NewSource(file.path())
	if err != nil {
		t.Fatal(err)
	}
	s.interval = time.Millisecond
	resolver := func() string { return s.Current().Rule("x").Resolvers[0] }
	if got := resolver(); got != "one" {
		t.Fatalf("at first: %s", got)
	}
	succeeded, failed := value(t, reloadsTotal.WithLabelValues("succeeded")), value(t, reloadsTotal.WithLabelValues("failed"))

	logs := &lockedBuffer{}
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(logs)))))
	var changes atomic.Int32
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx, func() {
			if changes.Add(1) == 1 && resolver() != "two" {
				t.Error("changed is called before the change")
			}
		})
	}()
	eventually := func(what string, condition func() bool) {
		t.Helper()
		if err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 10*time.Second, true,
			func(context.Context) (bool, error) { return condition(), nil }); err != nil {
			t.Fatalf("%s: %v\n%s", what, err, logs)
		}
	}
	expect := func(what string, wantChanges int32, wantResolver string, wantSucceeded, wantFailed, wantUpToDate float64) {
		t.Helper()
		eventually(what, func() bool {
			return value(t, reloadsTotal.WithLabelValues("succeeded")) == succeeded+wantSucceeded &&
				value(t, reloadsTotal.WithLabelValues("failed")) == failed+wantFailed && changes.Load() == wantChanges
		})
		// Some more looks at the file.
		time.Sleep(20 * s.interval)
		upToDateNow, err := testutil.GetGaugeMetricValue(upToDate)
		if err != nil {
			t.Fatal(err)
		}
		if resolver() != wantResolver || changes.Load() != wantChanges || upToDateNow != wantUpToDate ||
			value(t, reloadsTotal.WithLabelValues("failed")) != failed+wantFailed {
			t.Errorf("%s: %s after %d changes, up to date %g", what, resolver(), changes.Load(), upToDateNow)
		}
	}
	expect("unchanged", 0, "one", 0, 0, 1)
	file.write("rules: [{namespaces: ['*'], resolvers: [two]}]")
	expect("changed", 1, "two", 1, 0, 1)
	file.write("rules: [{namespaces: ['*'], resolvers: [THREE]}]")
	expect("bad", 1, "two", 1, 1, 0)
	file.write("rules: [{namespaces: ['*'], resolvers: [FOUR]}]")
	expect("bad in another way", 1, "two", 1, 2, 0)
	file.write("rules: [{namespaces: ['*'], resolvers: [two]}]")
	expect("as it was", 2, "two", 2, 2, 1)
	if err := os.Remove(file.path()); err != nil {
		t.Fatal(err)
	}
	expect("gone", 2, "two", 2, 3, 0)
	if err := os.Symlink(filepath.Join("..data", "policy.yaml"), file.path()); err != nil {
		t.Fatal(err)
	}
	file.write("rules: [{namespaces: ['*'], resolvers: [five]}]")
	eventually("there again", func() bool { return resolver() == "five" })

	cancel()
	<-done
	for text, count := range map[string]int{
		"rules[0].resolvers[0]: Invalid value: \\\"THREE\\\"": 1, "Invalid value: \\\"FOUR\\\"": 1, "no such file": 1,
		"New policy cannot be used": 3, file.path(): 3,
	} {
		if got := strings.Count(logs.String(), text); got < count || text != file.path() && got != count {
			t.Errorf("the log has %q %d times, want %d:\n%s", text, got, count, logs)
		}
	}
}

func TestNewSource(t *testing.T) {
	s, err := NewSource("")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Run(ctx, func() { t.Error("the default changes") })
	if got := s.Current().Rule("any").Resolvers; len(got) != 2 {
		t.Errorf("default allows %q", got)
	}
	if first := s.Current(); first != s.Current() {
		t.Error("two policies without a change")
	}

	path := filepath.Join(t.TempDir(), "policy.yaml")
	if _, err := NewSource(path); err == nil || !strings.Contains(err.Error(), "reading the policy: open "+path) {
		t.Errorf("no file: got %v", err)
	}
	if err := os.WriteFile(path, []byte("kind: ImportPolicy"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := NewSource(path); err == nil || !strings.HasPrefix(err.Error(), "policy "+path+": apiVersion: ") {
		t.Errorf("bad file: got %v", err)
	}
}
