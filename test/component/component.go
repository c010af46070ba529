// Copyright Contributors to the Open Cluster Management project

// Package component builds, installs and runs the project's own commands as a user does: the manifests by kubectl, the
// binary under the ServiceAccount that the manifests make, with a token of it and nothing else.
package component

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"open-cluster-management.io/import-provider/test/binaries"
	"open-cluster-management.io/import-provider/test/harness"
	"open-cluster-management.io/import-provider/test/process"
)

const (
	// Namespace and ServiceAccount are those of manifests/import-controller.
	Namespace      = "open-cluster-management-hub"
	ServiceAccount = "import-controller"
	// ImportNamespace is the default import namespace, which manifests/rbac makes.
	ImportNamespace = "open-cluster-management-import"

	// tokenLifetime is longer than any suite: a process outside a pod gets no renewed token.
	tokenLifetime = 6 * time.Hour
	readyTimeout  = 30 * time.Second
	stopGrace     = 30 * time.Second
	probeInterval = 50 * time.Millisecond
)

// Build builds import-controller and registration into dir, with the flags that the whole project is built with.
func Build(ctx context.Context, dir string) error {
	root, err := binaries.ModuleRoot()
	if err != nil {
		return fmt.Errorf("finding the module: %w", err)
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags=-s -w",
		"-o", dir+string(filepath.Separator), "./pkg/cmd/...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the commands: %w\n%s", err, output)
	}
	return nil
}

// Install applies a folder of manifests, by its name, to a control plane as its administrator. Its Deployment stays
// inert where no controller manager runs; the component runs as a process of the suite.
func Install(ctx context.Context, plane *harness.ControlPlane, binDir, folder string) error {
	root, err := binaries.ModuleRoot()
	if err != nil {
		return fmt.Errorf("finding the module: %w", err)
	}
	kubectl, err := binaries.Kubectl(binDir)
	if err != nil {
		return fmt.Errorf("finding kubectl: %w", err)
	}
	cmd := exec.CommandContext(ctx, kubectl, "--kubeconfig="+plane.KubeconfigPath(), "apply", "--server-side", "--force-conflicts",
		"-k", filepath.Join(root, "manifests", folder))
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("applying manifests/%s: %w\n%s", folder, err, output)
	}
	return nil
}

// Options say how to run import-controller.
type Options struct {
	// BinDir holds the binary. Required.
	BinDir string
	// Kubeconfig is the path of a kubeconfig of the hub. Required: see InstallImportController.
	Kubeconfig string
	// Args are further flags.
	Args []string
	// Policy is the ImportPolicy, as YAML without apiVersion and kind. Default: LoopbackPolicy.
	Policy string
	// Env is the environment, NAME=value. Default: none.
	Env []string
	// LogFile receives the output, appended. Default: discarded.
	LogFile string
	// NotReady makes Start return once the process is healthy, ready or not.
	NotReady bool
}

// LoopbackPolicy is the default policy with the addresses at which tests run their clusters.
const LoopbackPolicy = "endpoints: {allowCIDRs: [127.0.0.0/8]}"

// WritePolicy writes an ImportPolicy, as YAML without apiVersion and kind.
func WritePolicy(path, spec string) error {
	content := "apiVersion: config.import.open-cluster-management.io/v1alpha1\nkind: ImportPolicy\n" + spec + "\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		return fmt.Errorf("writing a policy: %w", err)
	}
	return nil
}

// Process is a running import-controller.
type Process struct {
	*process.Process
	// PolicyFile is the path of its policy.
	PolicyFile string

	probes  string
	metrics string
}

// ServiceAccountKubeconfig writes a kubeconfig of the hub with a token of the ServiceAccount alone.
func ServiceAccountKubeconfig(ctx context.Context, hub *harness.ControlPlane, path, namespace, name string) error {
	token, err := hub.ServiceAccountToken(ctx, namespace, name, tokenLifetime)
	if err != nil {
		return fmt.Errorf("getting a token of ServiceAccount %s/%s: %w", namespace, name, err)
	}
	if err := os.WriteFile(path, harness.TokenKubeconfig(hub.URL(), hub.CAData(), token), 0o600); err != nil {
		return fmt.Errorf("writing a kubeconfig: %w", err)
	}
	return nil
}

// InstallImportController applies manifests/import-controller and writes a kubeconfig of its ServiceAccount to path.
func InstallImportController(ctx context.Context, hub *harness.ControlPlane, binDir, path string) error {
	if err := Install(ctx, hub, binDir, "import-controller"); err != nil {
		return err
	}
	return ServiceAccountKubeconfig(ctx, hub, path, Namespace, ServiceAccount)
}

// Start starts import-controller and returns once it is ready. The context bounds the start alone.
func Start(ctx context.Context, o Options) (*Process, error) {
	addresses, err := process.FreeAddresses(2)
	if err != nil {
		return nil, err
	}
	probes, metrics := addresses[0], addresses[1]
	if o.Policy == "" {
		o.Policy = LoopbackPolicy
	}
	// A name of its own: several processes may have one kubeconfig.
	policyFile := o.Kubeconfig + "-" + probes[strings.LastIndex(probes, ":")+1:] + ".policy.yaml"
	if err := WritePolicy(policyFile, o.Policy); err != nil {
		return nil, err
	}
	child, err := process.Start(process.Options{
		Env:  o.Env,
		Path: filepath.Join(o.BinDir, "import-controller"),
		Args: slices.Concat([]string{
			"--kubeconfig=" + o.Kubeconfig,
			"--health-probe-bind-address=" + probes,
			"--metrics-bind-address=" + metrics,
			"--policy-file=" + policyFile,
		}, o.Args),
		LogFile: o.LogFile,
	})
	if err != nil {
		return nil, err
	}
	p := &Process{Process: child, PolicyFile: policyFile, probes: probes, metrics: metrics}
	path := "/readyz"
	if o.NotReady {
		path = "/healthz"
	}
	if err := p.wait(ctx, path); err != nil {
		child.Kill()
		return nil, fmt.Errorf("import-controller did not start (log %q): %w", o.LogFile, err)
	}
	return p, nil
}

// Stop ends the process as a pod is ended, and says whether it ended by itself.
func (p *Process) Stop() bool { return p.Process.Stop(stopGrace) }

// URL is the address of a path of the probes or, for /metrics, of the metrics.
func (p *Process) URL(path string) string {
	if path == "/metrics" {
		return "http://" + p.metrics + path
	}
	return "http://" + p.probes + path
}

func (p *Process) wait(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		err := p.get(ctx, path)
		if err == nil {
			return nil
		}
		select {
		case <-p.Done():
			return fmt.Errorf("it exited with code %d", p.ExitCode())
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(probeInterval):
		}
	}
}

func (p *Process) get(ctx context.Context, path string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.URL(path), http.NoBody)
	if err != nil {
		return fmt.Errorf("asking %s: %w", path, err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking %s: %w", path, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("asking %s: status %d", path, resp.StatusCode)
	}
	return nil
}
