// Copyright Contributors to the Open Cluster Management project

package ocmhub

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"open-cluster-management.io/import-provider/test/process"
)

const (
	// stopGrace is what the controller gets between SIGTERM and SIGKILL.
	stopGrace = 15 * time.Second
	// startTimeout is how long the controller may take to answer its health check.
	startTimeout = 60 * time.Second
)

// ControllerOptions says how to run the registration controller, or a program that takes its place.
type ControllerOptions struct {
	// BinDir holds the binary registration. Required unless Command is given.
	BinDir string
	// Command is the program and its first arguments. It must take the flags of the registration controller.
	// Default: <BinDir>/registration controller.
	Command []string
	// Kubeconfig is the path of the kubeconfig to reach the hub with. Required. With the credentials of
	// ControllerServiceAccount the controller has the rights of a real hub's.
	Kubeconfig string
	// LogFile receives the output, appended. Default: discarded.
	LogFile string
	// Args are further flags.
	Args []string
	// Env are further variables, NAME=value; nothing of our environment is inherited.
	Env []string
	// FeatureGates are enabled or disabled as Name=true or Name=false.
	FeatureGates []string
	// AutoApprove lets every cluster that registers with the bootstrap account join without a person's approval.
	// It also turns on the gate that the approval hangs on, which accepts every ManagedCluster.
	AutoApprove bool
}

// Process is a controller that was started.
type Process struct {
	process *process.Process
	address string
	tmp     string
	done    chan struct{}
}

// StartController starts the controller without leader election and returns once it is healthy. The context
// bounds only the start: Stop ends the controller.
func StartController(ctx context.Context, o ControllerOptions) (*Process, error) {
	if o.Kubeconfig == "" {
		return nil, errors.New("a kubeconfig is required")
	}
	command := o.Command
	if len(command) == 0 {
		command = []string{filepath.Join(o.BinDir, "registration"), "controller"}
	}
	address, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}
	tmp, err := os.MkdirTemp("", "ocmhub-")
	if err != nil {
		return nil, fmt.Errorf("create temporary directory: %w", err)
	}
	child, err := process.Start(process.Options{
		Path:    command[0],
		Args:    slices.Concat(command[1:], controllerArgs(o, address)),
		Env:     slices.Concat(controllerEnv(tmp), o.Env),
		LogFile: o.LogFile,
	})
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(tmp))
	}
	p := &Process{process: child, address: address, tmp: tmp, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		<-child.Done()
		// The controller leaves a serving certificate behind at every start.
		_ = os.RemoveAll(tmp)
	}()
	if err := p.healthy(ctx); err != nil {
		p.Kill()
		return nil, fmt.Errorf("controller %s did not become healthy (log %q): %w", command[0], o.LogFile, err)
	}
	return p, nil
}

func controllerArgs(o ControllerOptions, address string) []string {
	gates := slices.Clone(o.FeatureGates)
	args := []string{
		"--kubeconfig=" + o.Kubeconfig,
		"--namespace=" + HubNamespace,
		"--listen=" + address,
		"--disable-leader-election",
	}
	if o.AutoApprove {
		gates = append(gates, "ManagedClusterAutoApproval=true")
		args = append(args, "--auto-approved-csr-users=system:serviceaccount:"+OperatorNamespace+":"+BootstrapServiceAccount)
	}
	if len(gates) > 0 {
		args = append(args, "--feature-gates="+strings.Join(gates, ","))
	}
	return append(args, o.Args...)
}

func controllerEnv(tmp string) []string {
	return []string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + tmp,
		"TMPDIR=" + tmp,
		// The controller's events need a pod to hang on.
		"POD_NAME=" + ClusterManagerName + "-registration-controller",
	}
}

// healthy waits until the controller answers /healthz, exits, or ctx ends.
func (p *Process) healthy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // Its certificate is self-signed.
		DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+p.address+"/healthz", nil)
	if err != nil {
		return err
	}
	for {
		resp, err := client.Do(req)
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = fmt.Errorf("health check answers %s", resp.Status)
		}
		select {
		case <-p.done:
			return fmt.Errorf("exit code %d", p.process.ExitCode())
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(pollInterval):
		}
	}
}

// Address is where the controller serves health checks and metrics over https, host:port.
func (p *Process) Address() string { return p.address }

// PID is the controller's process id.
func (p *Process) PID() int { return p.process.PID() }

// Done is closed once the controller has exited.
func (p *Process) Done() <-chan struct{} { return p.done }

// Stop sends SIGTERM, waits up to 15 s, and kills the controller if it is still there. An error means that it
// had to be killed. Stopping twice is harmless.
func (p *Process) Stop() error {
	graceful := p.process.Stop(stopGrace)
	<-p.done
	if !graceful {
		return fmt.Errorf("the controller did not end within %s", stopGrace)
	}
	return nil
}

// Kill ends the controller as a crash does.
func (p *Process) Kill() {
	p.process.Kill()
	<-p.done
}
