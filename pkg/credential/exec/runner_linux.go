// Copyright Contributors to the Open Cluster Management project

package exec

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
	"k8s.io/klog/v2"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/policy"
)

const nonblock = unix.O_NONBLOCK

// program is the path of the descriptor that the child has its program open as: the first of ExtraFiles is 3.
//
// The kernel looks the path up in the child, between fork and exec, and finds the open file that was hashed, whatever has been put
// in place of its name since. The parent's own number of the descriptor would not do: the runtime makes copies of others in the
// child, and may put one there. The plugin inherits the descriptor, which reads its own file and nothing else.
const program = "/proc/self/fd/3"

// run runs a plugin and returns what it printed. The error is a *faultError, a MintError, or that of the context. It returns at
// the latest half a second after the timeout of the plugin or the end of the context.
func (r *runner) run(parent context.Context, plugin policy.Plugin, args, env []string) ([]byte, error) {
	if err := parent.Err(); err != nil {
		return nil, err
	}
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-parent.Done():
		return nil, parent.Err()
	}
	root, err := openDirectory(r.directory)
	if root != nil {
		defer root.Close() //nolint:errcheck // it was only read.
	}
	if err != nil {
		return nil, err
	}
	file, _, err := openPlugin(root, plugin)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it was only read.
	if r.beforeStart != nil {
		r.beforeStart()
	}

	ctx, cancel := context.WithTimeout(parent, plugin.Timeout.Duration)
	defer cancel()
	stdout, stderr := &output{limit: plugin.MaxOutputBytes, over: cancel}, &beginning{}
	cmd := exec.Command(program, args...) //nolint:gosec,noctx // the program is the one that was checked; a context would kill one process, wait kills the group.
	cmd.Args[0] = plugin.File
	cmd.Env, cmd.Dir, cmd.ExtraFiles = env, "/", []*os.File{file}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = stdout, stderr, drain
	// A group of its own, to be killed as a whole. Should this process be killed, the kernel kills the plugin.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	err = wait(ctx, cmd)
	if err != nil || len(stderr.data) > 0 {
		klog.FromContext(parent).Info("Plugin ended", "plugin", plugin.Name, "result", result(err), "stderr", stderr.text())
	}
	switch {
	case err == nil:
		return stdout.data.Bytes(), nil
	case parent.Err() != nil:
		return nil, parent.Err()
	case stdout.exceeded:
		err = errOutput
	case ctx.Err() != nil:
		err = errTimeout
	case cmd.Process == nil:
		err = errStart
	default:
		err = errExit
	}
	return nil, credential.MintFailed(fmt.Errorf("the plugin %s %w; see the logs of the import controller", plugin.Name, err))
}

// wait starts a command and waits for its end, at which nothing is left of its group.
func wait(ctx context.Context, cmd *exec.Cmd) error {
	// The kernel takes the end of this thread for that of the process, as far as Pdeathsig goes.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Start(); err != nil {
		return err
	}
	pid := cmd.Process.Pid
	kill := func() { _ = unix.Kill(-pid, unix.SIGKILL) }
	killed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(killed)
		kill()
	})
	// The end is awaited without taking note of it: until Wait does, the number of the group belongs to no other.
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if !stop() {
		<-killed
	}
	// What the plugin has left behind would keep its pipes open.
	kill()
	return cmd.Wait()
}

func result(err error) string {
	if err == nil {
		return "success"
	}
	return err.Error()
}

// accessTo returns what this process may do with a file or directory. Root may write everywhere, says the kernel, but on a mount
// that is read-only; where the mode lets nobody write, that is taken for its answer.
func accessTo(file *os.File) (access, error) {
	var mount unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &mount); err != nil {
		return access{}, fault("its file system cannot be looked at", "check the volume of the plugin directory")
	}
	info, err := file.Stat()
	if err != nil {
		return access{}, fault("its mode cannot be read", "check the volume of the plugin directory")
	}
	path := fmt.Sprintf("/proc/self/fd/%d", file.Fd())
	return access{
		writable:   info.Mode().Perm()&0o222 != 0 && unix.Access(path, unix.W_OK) == nil,
		noexec:     mount.Flags&unix.ST_NOEXEC != 0,
		executable: unix.Access(path, unix.X_OK) == nil,
	}, nil
}
