// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"open-cluster-management.io/import-provider/test/process"
)

// logTailBytes is how much of a process's log an error carries.
const logTailBytes = 3 << 10

// child is a running process of a control plane and its log.
type child struct {
	*process.Process
	name    string
	logPath string
}

// startChild runs bin with its output appended to logPath.
func startChild(bin, logPath string, args ...string) (*child, error) {
	c := &child{name: filepath.Base(bin), logPath: logPath}
	var err error
	// No environment: etcd reads a flag from every ETCD_ variable, and a test must not meet the developer's own cluster.
	if c.Process, err = process.Start(process.Options{Path: bin, Args: args, LogFile: logPath}); err != nil {
		return nil, err
	}
	return c, nil
}

// signal sends sig; it fails when the process has ended.
func (p *child) signal(sig syscall.Signal) error {
	if err := p.Signal(sig); err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	return nil
}

// ended says whether the process is gone.
func (p *child) ended() bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// failure describes an end that nobody asked for.
func (p *child) failure() error {
	return fmt.Errorf("%s ended early with code %d; %s", p.name, p.ExitCode(), p.tail())
}

// portTaken says whether the process ended because another one listens on its port.
func (p *child) portTaken() bool {
	return p.ended() && strings.Contains(p.tail(), "address already in use")
}

// tail returns the end of the log, for errors.
func (p *child) tail() string {
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
