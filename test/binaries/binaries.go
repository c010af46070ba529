// Copyright Contributors to the Open Cluster Management project

// Package binaries makes sure that the programs which suites, the demo and benchmarks run as processes exist: a real
// control plane (etcd, kube-apiserver, kube-controller-manager, kubectl) and the Open Cluster Management agents.
//
// They are built from Go modules of their own (test/controlplane, test/agents), so that a checkout and a module proxy are
// all that is needed, and once: the result is kept outside the tree under a key made of everything that decides what is
// built. The first build takes minutes; afterwards a call costs a few milliseconds.
//
// # Environment
//
//   - KUBEBUILDER_ASSETS: directory with control plane binaries to use instead; nothing is built then.
//   - OCM_AGENT_ASSETS: the same for the agents.
//   - IMPORT_PROVIDER_CACHE: where built binaries are kept; default os.UserCacheDir()/ocm-import-provider.
package binaries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	modulePath = "open-cluster-management.io/import-provider"

	// KubernetesVersion is the version that the control plane reports. It has to be the one that
	// test/controlplane/go.mod builds: clients parse it, and without it they fail on "v0.0.0-master+$Format:%H$".
	KubernetesVersion = "v1.34.4"

	// The names of the programs, as files in the directories that ControlPlane and Agents return.
	Etcd                  = "etcd"
	KubeAPIServer         = "kube-apiserver"
	KubeControllerManager = "kube-controller-manager"
	kubectl               = "kubectl"
	Registration          = "registration"
	RegistrationOperator  = "registration-operator"
)

// ControlPlane returns the directory that holds etcd, kube-apiserver, kube-controller-manager and kubectl, building them
// first when they are not in the cache. Lines about a build go to progress, which may be nil; nothing is written when there
// is nothing to build. It is safe to call concurrently, from several processes too: one builds and the others wait.
//
// With KUBEBUILDER_ASSETS set that directory is returned and only checked; kubectl need not be in it, see Kubectl.
func ControlPlane(ctx context.Context, progress io.Writer) (string, error) {
	minor := strings.SplitN(strings.TrimPrefix(KubernetesVersion, "v"), ".", 3)
	ldflags := []string{"-s", "-w"}
	for _, pkg := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		ldflags = append(ldflags,
			"-X", pkg+".gitVersion="+KubernetesVersion,
			"-X", pkg+".gitMajor="+minor[0],
			"-X", pkg+".gitMinor="+minor[1],
			"-X", pkg+".gitTreeState=clean")
	}
	return ensure(ctx, progress, set{
		name:     "controlplane",
		title:    "the test control plane (etcd, kube-apiserver, kube-controller-manager, kubectl)",
		env:      "KUBEBUILDER_ASSETS",
		dir:      filepath.Join("test", "controlplane"),
		packages: []string{"./etcd", "k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes/cmd/kube-controller-manager", "k8s.io/kubernetes/cmd/kubectl"},
		ldflags:  strings.Join(ldflags, " "),
		required: []string{Etcd, KubeAPIServer, KubeControllerManager},
	})
}

// Agents returns the directory that holds registration and registration-operator, the agents of Open Cluster Management,
// on the same terms as ControlPlane. With OCM_AGENT_ASSETS set that directory is returned and only checked.
func Agents(ctx context.Context, progress io.Writer) (string, error) {
	return ensure(ctx, progress, set{
		name:     "agents",
		title:    "the Open Cluster Management agents (registration, registration-operator)",
		env:      "OCM_AGENT_ASSETS",
		dir:      filepath.Join("test", "agents"),
		packages: []string{"open-cluster-management.io/ocm/cmd/registration", "open-cluster-management.io/ocm/cmd/registration-operator"},
		ldflags:  "-s -w",
		required: []string{Registration, RegistrationOperator},
	})
}

// Kubectl returns the path of kubectl: the one in dir, which ControlPlane returned, or else the one on PATH. The fallback is
// for KUBEBUILDER_ASSETS directories, which do not always carry it.
func Kubectl(dir string) (string, error) {
	path := filepath.Join(dir, kubectl)
	if err := executable(path); err == nil {
		return path, nil
	}
	path, err := exec.LookPath(kubectl)
	if err != nil {
		return "", fmt.Errorf("kubectl is neither in %s nor on PATH: %w", dir, err)
	}
	return path, nil
}

// ModuleRoot returns the directory of this module's go.mod, found upwards from the working directory: `go test` runs in the
// package's directory, and binaries built with -trimpath do not know where their source was.
func ModuleRoot() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		switch {
		case err == nil && declaresModule(string(data)):
			return dir, nil
		case err != nil && !errors.Is(err, os.ErrNotExist):
			return "", fmt.Errorf("look for module %s: %w", modulePath, err)
		case dir == filepath.Dir(dir):
			return "", fmt.Errorf("no go.mod of module %s in %s or above: run inside a checkout", modulePath, wd)
		}
	}
}

func declaresModule(gomod string) bool {
	for line := range strings.Lines(gomod) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "module" {
			return strings.Trim(fields[1], `"`) == modulePath
		}
	}
	return false
}

func executable(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return fmt.Errorf("%s is not an executable file", path)
	}
	return nil
}
