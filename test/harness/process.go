// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// logTailBytes is how much of a process's log an error carries.
const logTailBytes = 3 << 10

// process is a running child and its log.
type process struct {
	name    string
	logPath string
	cmd     *exec.Cmd
	done    chan struct{} // closed when it has ended
	err     error         // how it ended; read after done
}

// startProcess runs bin with its output appended to logPath. The process outlives ctx: only stop ends it.
func startProcess(ctx context.Context, bin, logPath string, args ...string) (*process, error) {
	name := filepath.Base(bin)
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log of %s: %w", name, err)
	}

	cmd := exec.CommandContext(context.WithoutCancel(ctx), bin, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = sysProcAttr()
	for _, kv := range os.Environ() {
		// etcd reads a flag from every ETCD_ variable, and a test must not meet the developer's own cluster.
		if !strings.HasPrefix(kv, "ETCD_") && !strings.HasPrefix(kv, "KUBE") {
			cmd.Env = append(cmd.Env, kv)
		}
	}

	p := &process{name: name, logPath: logPath, cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The parent death signal comes when the *thread* that started the child ends. So this goroutine keeps its thread
		// as long as the child lives, and never gives it back: the thread ends with the goroutine.
		runtime.LockOSThread()
		defer func() { _ = log.Close() }()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// signal sends sig; it fails when the process has ended.
func (p *process) signal(sig syscall.Signal) error {
	if err := p.cmd.Process.Signal(sig); err != nil {
		return fmt.Errorf("send %s to %s: %w", sig, p.name, err)
	}
	return nil
}

// kill ends the process at once, a stopped one too, and waits until it is gone. Killing an ended one is no error.
func (p *process) kill() error {
	if err := p.signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-p.done
	return nil
}

// ended says whether the process is gone.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// failure describes an end that nobody asked for.
func (p *process) failure() error {
	return fmt.Errorf("%s ended early (%s); %s", p.name, p.cmd.ProcessState, p.tail())
}

// portTaken says whether the process ended because another one listens on its port.
func (p *process) portTaken() bool {
	return p.ended() && strings.Contains(p.tail(), "address already in use")
}

// tail returns the end of the log, for errors.
func (p *process) tail() string {
	f, err := os.Open(p.logPath)
	if err != nil {
		return fmt.Sprintf("its log cannot be read: %v", err)
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > logTailBytes {
		if _, err := f.Seek(-logTailBytes, io.SeekEnd); err != nil {
			return fmt.Sprintf("its log cannot be read: %v", err)
		}
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return fmt.Sprintf("its log cannot be read: %v", err)
	}
	return fmt.Sprintf("the end of %s:\n%s", p.logPath, strings.TrimSpace(string(data)))
}
