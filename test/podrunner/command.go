// Copyright Contributors to the Open Cluster Management project

package podrunner

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"open-cluster-management.io/import-provider/test/process"
)

const (
	serviceAccountMount = "/var/run/secrets/kubernetes.io/serviceaccount"
	// defaultHubKubeconfigDir is where OCM's agents keep the hub's credentials unless a flag says otherwise.
	defaultHubKubeconfigDir = "/spoke/hub-kubeconfig"
	loopback                = "127.0.0.1"
)

// binaries are the programs that we play, as images of OCM name them, and the subcommands that take the flags
// we add.
var binaries = map[string][]string{
	"/registration-operator": {"klusterlet", "agent"},
	"/registration":          {"agent"},
}

// argv is the container's command line. An image of OCM has no entry point of its own.
func argv(c *corev1.Container) []string { return slices.Concat(c.Command, c.Args) }

// supported reports whether the whole pod can be played, and if not, why.
func supported(pod *corev1.Pod) (string, bool) {
	if len(pod.Spec.InitContainers) > 0 {
		return "it has init containers", false
	}
	for i := range pod.Spec.Containers {
		c := &pod.Spec.Containers[i]
		args := argv(c)
		if len(args) < 2 || !slices.Contains(binaries[args[0]], args[1]) {
			return fmt.Sprintf("container %s runs no agent of OCM", c.Name), false
		}
	}
	return "", true
}

// command is what to execute for a container.
type command struct {
	path string
	args []string
	env  []string
	// address is where the process serves health checks and metrics, host:port.
	address string
}

// layout is where a container's things are on this machine.
type layout struct {
	binDir string
	// dir belongs to the container alone and outlives its restarts.
	dir     string
	server  string
	caFile  string
	volumes *volumes
}

// newCommand translates a container into a process. It writes the kubeconfig that stands in for in-cluster
// configuration.
func newCommand(pod *corev1.Pod, c *corev1.Container, l layout) (*command, error) {
	mounts := map[string]string{}
	for _, m := range c.VolumeMounts {
		if m.SubPathExpr != "" {
			return nil, fmt.Errorf("mount %s: expanded sub-paths are not supported", m.Name)
		}
		mounts[path.Clean(m.MountPath)] = filepath.Join(l.volumes.path(m.Name), m.SubPath)
	}
	address, err := process.FreeAddress()
	if err != nil {
		return nil, err
	}

	args := argv(c)
	cmd := &command{path: filepath.Join(l.binDir, filepath.Base(args[0])), address: address}
	for _, a := range args[1:] {
		cmd.args = append(cmd.args, relocate(a, mounts))
	}
	add := func(flag, value string) {
		if !hasFlag(args, flag) {
			cmd.args = append(cmd.args, flag+"="+value)
		}
	}
	add("--listen", address)
	add("--namespace", pod.Namespace)
	if args[1] == "agent" {
		dir, ok := mounts[defaultHubKubeconfigDir]
		if !ok {
			return nil, fmt.Errorf("nothing is mounted at %s", defaultHubKubeconfigDir)
		}
		add("--hub-kubeconfig-dir", dir)
	}
	// Without a service account there is no in-cluster configuration either, and the process fails as it
	// would in a container.
	if dir, ok := mounts[serviceAccountMount]; ok {
		kubeconfig := filepath.Join(l.dir, "kubeconfig")
		if err := writeKubeconfig(kubeconfig, l.server, l.caFile, filepath.Join(dir, "token"), pod.Namespace); err != nil {
			return nil, err
		}
		add("--kubeconfig", kubeconfig)
	}

	tmp, ok := mounts["/tmp"]
	if !ok {
		tmp = filepath.Join(l.dir, "tmp")
		if err := os.MkdirAll(tmp, 0o700); err != nil {
			return nil, fmt.Errorf("create temporary directory: %w", err)
		}
	}
	cmd.env, err = environment(pod, c, l.server, tmp)
	return cmd, err
}

// relocate replaces a mount path at the start of a flag's value by the directory that stands for it.
func relocate(arg string, mounts map[string]string) string {
	flag, value, ok := strings.Cut(arg, "=")
	if !ok || !strings.HasPrefix(flag, "-") {
		return arg
	}
	// The longest mount wins, as nested mounts do.
	best := ""
	for mount := range mounts {
		if (value == mount || strings.HasPrefix(value, mount+"/")) && len(mount) > len(best) {
			best = mount
		}
	}
	if best == "" {
		return arg
	}
	return flag + "=" + mounts[best] + strings.TrimPrefix(value, best)
}

func hasFlag(args []string, flag string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return a == flag || strings.HasPrefix(a, flag+"=") })
}

// environment is the container's own variables and those that a kubelet and an image would set. Nothing of
// our environment gets through.
func environment(pod *corev1.Pod, c *corev1.Container, server, tmp string) ([]string, error) {
	u, err := url.Parse(server)
	if err != nil {
		return nil, fmt.Errorf("parse API server address: %w", err)
	}
	port := u.Port()
	if port == "" {
		port = "443"
	}
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + tmp,
		"HOSTNAME=" + pod.Name,
		"KUBERNETES_SERVICE_HOST=" + u.Hostname(),
		"KUBERNETES_SERVICE_PORT=" + port,
	}
	for _, e := range c.Env {
		value := e.Value
		if e.ValueFrom != nil {
			if e.ValueFrom.FieldRef == nil {
				return nil, fmt.Errorf("variable %s: only field references are supported", e.Name)
			}
			if value, err = podField(pod, e.ValueFrom.FieldRef.FieldPath); err != nil {
				return nil, fmt.Errorf("variable %s: %w", e.Name, err)
			}
		}
		env = append(env, e.Name+"="+value)
	}
	if len(c.EnvFrom) > 0 {
		return nil, errors.New("variables from whole objects are not supported")
	}
	return append(env, "TMPDIR="+tmp), nil
}

func writeKubeconfig(file, server, caFile, tokenFile, namespace string) error {
	const name = "in-cluster"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{Server: server, CertificateAuthority: caFile}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{TokenFile: tokenFile}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	config.CurrentContext = name
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		return fmt.Errorf("write kubeconfig: %w", err)
	}
	return nil
}
