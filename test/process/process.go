// Copyright Contributors to the Open Cluster Management project

// Package process runs one child process that never outlives us.
//
// The test clusters run the real agents and controllers as plain processes. A test binary that is
// killed by its timeout runs no deferred functions, so on Linux the kernel is asked to end the child
// with its parent. That request is tied to the thread that forked, not to the process: each child
// has a goroutine locked to a thread for as long as the child lives.
package process

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Ports lie below the range that systems take the source ports of outgoing connections from (Linux: from 32768). So no client
// sits on the port of an API server that was killed and is to start again, or connects to itself there.
const firstPort, lastPort = 20000, 29999

// Options says what to run.
type Options struct {
	// Path of the executable. Required.
	Path string
	// Args are the arguments after the program's name.
	Args []string
	// Env is the whole environment: nothing of ours is inherited.
	Env []string
	// Dir is the working directory. Default: ours.
	Dir string
	// LogFile is a path that standard output and standard error are appended to, instead of Output.
	LogFile string
	// Output receives standard output and standard error. Default: discarded.
	// With an *os.File the child writes to it directly.
	Output io.Writer
}

// Process is a child that was started. It is safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}

	mu       sync.Mutex
	exitCode int
}

// Start starts the child in a process group of its own, so that a Ctrl-C in a terminal reaches only us
// and we decide in which order things stop.
func Start(o Options) (*Process, error) {
	cmd := exec.Command(o.Path, o.Args...) //nolint:noctx // The caller names the binary; Stop ends it, not a context.
	cmd.Env = o.Env
	if cmd.Env == nil {
		// nil would inherit our environment, proxies and credentials included.
		cmd.Env = []string{}
	}
	cmd.Dir = o.Dir
	cmd.Stdout, cmd.Stderr = o.Output, o.Output
	if o.LogFile != "" {
		log, err := os.OpenFile(o.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open the log: %w", err)
		}
		// The child has a descriptor of its own once it is started.
		defer func() { _ = log.Close() }()
		cmd.Stdout, cmd.Stderr = log, log
	}
	cmd.SysProcAttr = sysProcAttr()

	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		err := cmd.Wait()
		p.mu.Lock()
		p.exitCode = exitCode(cmd.ProcessState, err)
		p.mu.Unlock()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", o.Path, err)
	}
	return p, nil
}

// exitCode follows the shell and the kubelet: 128 plus the signal for a child that a signal ended.
func exitCode(state *os.ProcessState, err error) int {
	if state == nil {
		return -1
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	if state.ExitCode() == 0 && err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return -1
	}
	return state.ExitCode()
}

// PID is the child's process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed once the child has exited and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// ExitCode is the child's exit code, 128 plus the signal number when a signal ended it. Valid after Done.
func (p *Process) ExitCode() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.exitCode
}

// Stop sends SIGTERM, waits up to grace, sends SIGKILL if the child is still there, and returns once it is
// gone. It reports whether SIGTERM was enough. Stopping a child that has exited does nothing.
func (p *Process) Stop(grace time.Duration) (graceful bool) {
	if grace > 0 {
		// Fails only when the child has exited, which the select sees.
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		timer := time.NewTimer(grace)
		defer timer.Stop()
		select {
		case <-p.done:
			return true
		case <-timer.C:
		}
	}
	p.Kill()
	return false
}

// Signal sends a signal. It fails when the child has exited.
func (p *Process) Signal(signal syscall.Signal) error {
	if err := p.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("send %s to process %d: %w", signal, p.PID(), err)
	}
	return nil
}

// Kill sends SIGKILL and returns once the child is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// FreeAddress is FreeAddresses for one.
func FreeAddress() (string, error) {
	addresses, err := FreeAddresses(1)
	if err != nil {
		return "", err
	}
	return addresses[0], nil
}

// FreeAddresses is FreePorts as addresses, 127.0.0.1:port.
func FreeAddresses(n int) ([]string, error) {
	ports, err := FreePorts(n)
	if err != nil {
		return nil, err
	}
	addresses := make([]string, n)
	for i, port := range ports {
		addresses[i] = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	}
	return addresses, nil
}

// FreePorts finds free loopback ports for a child to listen on, all different. Another process may take one first, which is
// unlikely: they are chosen at random from ports that no system chooses by itself. The start then fails.
func FreePorts(n int) ([]int, error) {
	var ports []int
	for range 1000 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)                            //nolint:gosec // No secret.
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // Local and immediate.
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }() //nolint:gocritic // Only at the end, so that the ports differ.
		if ports = append(ports, port); len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("no %d free ports from %d to %d on 127.0.0.1", n, firstPort, lastPort)
}
