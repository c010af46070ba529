// Copyright Contributors to the Open Cluster Management project

package exec_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/exec"
)

// gone waits until a process is gone, or is a zombie that its new parent has not noticed.
func gone(t *testing.T, pid string, deadline time.Time) {
	t.Helper()
	for {
		stat, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("process %s is still there: %s", pid, stat)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// withChild passes the plugin the file that it writes the PID of its child to.
func (f *fixture) withChild(t *testing.T) (pid func() string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pid")
	t.Setenv("PLUGIN_PID_FILE", path)
	f.plugin.PassEnv = append(f.plugin.PassEnv, "PLUGIN_PID_FILE")
	return func() string {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
}

func TestPluginThatHangs(t *testing.T) {
	const limit = time.Second
	t.Run("its timeout", func(t *testing.T) {
		f := newFixture(t, "hang")
		f.plugin.Timeout = metav1.Duration{Duration: limit}
		pid := f.withChild(t)
		start := time.Now()
		_, err := f.Resolve(t.Context(), request(t, "hang"))
		if took := time.Since(start); took < limit || took > limit+time.Second {
			t.Errorf("returned after %s", took)
		}
		expectError(t, err, credential.IsMintFailed, "the plugin demo did not end within its timeout; it was killed")
		gone(t, pid(), start.Add(limit+time.Second))
	})
	t.Run("the context", func(t *testing.T) {
		f := newFixture(t, "hang")
		pid := f.withChild(t)
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		start := time.Now()
		_, err := f.Resolve(ctx, request(t, "hang"))
		if took := time.Since(start); took < limit || took > limit+time.Second {
			t.Errorf("returned after %s", took)
		}
		if !errors.Is(err, context.DeadlineExceeded) || credential.IsMintFailed(err) {
			t.Errorf("got %v", err)
		}
		gone(t, pid(), start.Add(limit+time.Second))
	})
}

// A child that holds the pipes open does not hold up the import, nor does it stay.
func TestPluginThatLeavesAChild(t *testing.T) {
	f := newFixture(t, "leave")
	pid := f.withChild(t)
	start := time.Now()
	config, err := f.Resolve(t.Context(), request(t, "leave"))
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > time.Second {
		t.Errorf("returned after %s", took)
	}
	if bearer(t, config) != "left-a-child" {
		t.Error("another token")
	}
	gone(t, pid(), start.Add(time.Second))
}

// One that has left the group is out of reach, and holds up nothing for long.
func TestPluginWhoseChildLeavesTheGroup(t *testing.T) {
	f := newFixture(t, "escape")
	pid := f.withChild(t)
	start := time.Now()
	_, err := f.Resolve(t.Context(), request(t, "escape"))
	if took := time.Since(start); took > time.Second+500*time.Millisecond {
		t.Errorf("returned after %s", took)
	}
	expectError(t, err, credential.IsMintFailed, "the plugin demo ended with an error")
	id, err := strconv.Atoi(pid())
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(id, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}

func TestPluginThatFloods(t *testing.T) {
	f := newFixture(t, "flood")
	start := time.Now()
	_, err := f.Resolve(t.Context(), request(t, "flood"))
	expectError(t, err, credential.IsMintFailed, "the plugin demo printed more than its limit; it was killed")
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("returned after %s", took)
	}
}

func TestLimitOfTheOutput(t *testing.T) {
	f := newFixture(t)
	output := `{"apiVersion":"` + v1 + `","kind":"ExecCredential","status":{"token":"` + sentinel + `"}}`
	f.plugin.MaxOutputBytes = int64(len(output))
	if _, err := f.Resolve(t.Context(), f.prints(t, output)); err != nil {
		t.Errorf("output that fits: %v", err)
	}
	_, err := f.Resolve(t.Context(), f.prints(t, output+" "))
	expectError(t, err, credential.IsMintFailed, "the plugin demo printed more than its limit")
}

// logged returns a context whose log lines are kept.
func logged(ctx context.Context) (_ context.Context, lines func() []string) {
	var (
		lock sync.Mutex // guards found
		all  []string
	)
	logger := funcr.New(func(_, args string) {
		lock.Lock()
		defer lock.Unlock()
		all = append(all, args)
	}, funcr.Options{})
	return klog.NewContext(ctx, logger), func() []string {
		lock.Lock()
		defer lock.Unlock()
		return all
	}
}

// What a plugin says on standard error is in the log only: once, in part, and without what a terminal would take for orders.
func TestStandardError(t *testing.T) {
	f := newFixture(t)
	text := "\x1b[31mred\x1b[0m \x1b]0;title\x07bell\a cr\r lf\n tab\t back\b \u202eturned \xff \x1b(B del\x7f " + sentinel
	f.plugin.Args = []string{"noise", strconv.Quote(text)}
	ctx, lines := logged(t.Context())
	_, err := f.Resolve(ctx, documentRequest(t, credential.ExecParameters{Plugin: pluginName, Server: server, CertificateAuthorityData: string(testCA())}))
	expectError(t, err, credential.IsMintFailed, "the plugin demo ended with an error")
	if len(lines()) != 1 {
		t.Fatalf("%d lines in the log", len(lines()))
	}
	line := lines()[0]
	if want := `"stderr"="red bell cr  lf  tab  back turned  B del ` + sentinel + "xxx"; !strings.Contains(line, want) {
		t.Errorf("%.200s is not in %.400s", want, line)
	}
	if !strings.Contains(line, `"result"="exit status 3"`) || strings.Contains(line, `\u`) || strings.Contains(line, `\x`) {
		t.Errorf("log: %.400s", line)
	}
	if len(line) > 4096+200 {
		t.Errorf("a line of %d bytes", len(line))
	}
}

func TestNothingIsLoggedOfARunThatSaysNothing(t *testing.T) {
	f := newFixture(t, "report")
	ctx, lines := logged(t.Context())
	if _, err := f.Resolve(ctx, request(t, "report")); err != nil {
		t.Fatal(err)
	}
	if len(lines()) != 0 {
		t.Errorf("log: %q", lines())
	}
}

func TestRunsLeaveNothing(t *testing.T) {
	f := newFixture(t, "report")
	counts := func() (descriptors, goroutines, children int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			t.Fatal(err)
		}
		for _, task := range tasks {
			// A thread may end meanwhile.
			data, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
			children += len(strings.Fields(string(data)))
		}
		return len(entries), runtime.NumGoroutine(), children
	}
	run := func() {
		t.Helper()
		if _, err := f.Resolve(t.Context(), request(t, "report")); err != nil {
			t.Fatal(err)
		}
	}
	run()
	descriptors, goroutines, children := counts()
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for range 50 {
				run()
			}
		})
	}
	group.Wait()
	// What has handed over its result may still be about to end.
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		afterDescriptors, afterGoroutines, afterChildren := counts()
		if afterDescriptors <= descriptors && afterGoroutines <= goroutines && afterChildren <= children {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("descriptors %d, goroutines %d, children %d became %d, %d, %d",
				descriptors, goroutines, children, afterDescriptors, afterGoroutines, afterChildren)
		}
	}
}

// TestRunsAreLimited: each is a process with its own memory.
func TestRunsAreLimited(t *testing.T) {
	f := newFixture(t, "report")
	const limit, all = 16, 20
	var (
		lock          sync.Mutex
		running, most int
		arrived       = make(chan struct{}, all)
		release       = make(chan struct{})
	)
	exec.BeforeStart(f.StanzaResolver, func() {
		lock.Lock()
		running++
		most = max(most, running)
		lock.Unlock()
		arrived <- struct{}{}
		<-release
		lock.Lock()
		running--
		lock.Unlock()
	})
	var group sync.WaitGroup
	for range all {
		group.Go(func() {
			if _, err := f.Resolve(t.Context(), request(t, "report")); err != nil {
				t.Error(err)
			}
		})
	}
	for range limit {
		<-arrived
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := f.Resolve(ctx, request(t, "report")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v while all places are taken", err)
	}
	close(release)
	group.Wait()
	if most != limit {
		t.Errorf("%d plugins ran at the same time", most)
	}
}

// BenchmarkRun is what one token costs: hashing and starting a program of 2 MB, and reading its output. cpu-ms is the CPU of this process
// and of the plugin.
func BenchmarkRun(b *testing.B) {
	f := newFixture(b, "report")
	req := request(b, "report")
	var before, after [2]syscall.Rusage
	usage := func(u *[2]syscall.Rusage) {
		if err := errors.Join(syscall.Getrusage(syscall.RUSAGE_SELF, &u[0]), syscall.Getrusage(syscall.RUSAGE_CHILDREN, &u[1])); err != nil {
			b.Fatal(err)
		}
	}
	usage(&before)
	for b.Loop() {
		f.tokens.Forget(req.Secret.UID)
		if _, err := f.Resolve(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
	usage(&after)
	var spent time.Duration
	for i := range after {
		for _, pair := range [][2]syscall.Timeval{{before[i].Utime, after[i].Utime}, {before[i].Stime, after[i].Stime}} {
			spent += time.Duration(pair[1].Nano() - pair[0].Nano())
		}
	}
	b.ReportMetric(float64(spent)/float64(time.Millisecond)/float64(b.N), "cpu-ms/op")
}
