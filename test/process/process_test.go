// Copyright Contributors to the Open Cluster Management project

//go:build linux

package process_test

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"open-cluster-management.io/import-provider/test/process"
)

const parentEnv = "PROCESS_TEST_PARENT"

// TestMain turns this test binary into the parent of TestChildDiesWithParent when it is asked to.
func TestMain(m *testing.M) {
	if os.Getenv(parentEnv) != "" {
		p, err := process.Start(process.Options{Path: "/bin/sleep", Args: []string{"60"}})
		if err != nil {
			panic(err)
		}
		_, _ = os.Stdout.WriteString(strconv.Itoa(p.PID()) + "\n")
		select {}
	}
	os.Exit(m.Run())
}

func TestExitCodes(t *testing.T) {
	cases := []struct {
		name, script string
		stop         time.Duration // 0: wait
		want         int
		graceful     bool
	}{
		{name: "zero", script: "exit 0", want: 0},
		{name: "own code", script: "exit 3", want: 3},
		{name: "terminated", script: "exec sleep 60", stop: 5 * time.Second, want: 128 + int(syscall.SIGTERM), graceful: true},
		{
			name:   "ignores SIGTERM",
			script: "trap '' TERM; while :; do sleep 0.1; done", stop: 300 * time.Millisecond, want: 128 + int(syscall.SIGKILL),
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p, err := process.Start(process.Options{Path: "/bin/sh", Args: []string{"-c", c.script}, Env: []string{"PATH=/usr/bin:/bin"}})
			if err != nil {
				t.Fatal(err)
			}
			if c.stop > 0 {
				time.Sleep(200 * time.Millisecond) // The shell needs a moment to install its trap.
				if got := p.Stop(c.stop); got != c.graceful {
					t.Errorf("graceful = %v, want %v", got, c.graceful)
				}
			}
			select {
			case <-p.Done():
			case <-time.After(10 * time.Second):
				t.Fatal("still running after 10 s")
			}
			if got := p.ExitCode(); got != c.want {
				t.Errorf("exit code %d, want %d", got, c.want)
			}
		})
	}
}

func TestStartFails(t *testing.T) {
	if _, err := process.Start(process.Options{Path: "/does/not/exist"}); err == nil {
		t.Fatal("no error for a binary that does not exist")
	}
}

func TestEnvironmentIsNotInherited(t *testing.T) {
	t.Setenv("PROCESS_TEST_SECRET", "sentinel")
	var out strings.Builder
	p, err := process.Start(process.Options{Path: "/usr/bin/env", Output: &out})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if out.String() != "" {
		t.Errorf("the child saw an environment: %q", out.String())
	}
}

// The parent is killed the way a test timeout or the OOM killer does it: nothing of it runs any more.
func TestChildDiesWithParent(t *testing.T) {
	parent := exec.Command(os.Args[0]) //nolint:gosec,noctx // This test binary.
	parent.Env = append(os.Environ(), parentEnv+"=1")
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		// An orphan that nobody reaped yet still has an entry: a zombie has no command line.
		cmdline, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err != nil || len(cmdline) == 0 {
			return
		}
	}
	t.Errorf("child %d outlived its parent", pid)
}
