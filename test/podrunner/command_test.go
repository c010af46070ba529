// Copyright Contributors to the Open Cluster Management project

package podrunner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func agentPod() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "agents", Name: "agent-1", UID: "1234"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "agent",
			Args: []string{
				"/registration-operator", "agent", "--spoke-cluster-name=/spoke/bootstrap",
				"--bootstrap-kubeconfig=/spoke/bootstrap/kubeconfig",
				"--workload-source-config=/spoke/hub-kubeconfig/kubeconfig",
				"--terminate-on-files=/spoke/bootstrapped", "-v=4", "/spoke/bootstrap",
			},
			Env: []corev1.EnvVar{
				{Name: "PLAIN", Value: "value"},
				{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
			},
			VolumeMounts: []corev1.VolumeMount{
				{Name: "bootstrap", MountPath: "/spoke/bootstrap/"},
				{Name: "hub", MountPath: "/spoke/hub-kubeconfig"},
				{Name: "tmp", MountPath: "/tmp"},
				{Name: "account", MountPath: serviceAccountMount},
			},
		}}},
	}
}

func TestNewCommand(t *testing.T) {
	pod := agentPod()
	dir := t.TempDir()
	l := layout{binDir: "/bin-dir", dir: dir, server: "https://127.0.0.1:6443", caFile: "/ca.crt", volumes: &volumes{dir: "/v"}}
	cmd, err := newCommand(pod, &pod.Spec.Containers[0], l)
	if err != nil {
		t.Fatal(err)
	}
	if cmd.path != "/bin-dir/registration-operator" {
		t.Errorf("path %s", cmd.path)
	}
	want := []string{
		// A cluster name that looks like a path is rewritten too: nothing tells them apart, and no cluster is called so.
		"agent", "--spoke-cluster-name=/v/bootstrap",
		"--bootstrap-kubeconfig=/v/bootstrap/kubeconfig",
		"--workload-source-config=/v/hub/kubeconfig",
		"--terminate-on-files=/spoke/bootstrapped", "-v=4", "/spoke/bootstrap",
		"--listen=" + cmd.address,
		"--namespace=agents",
		"--hub-kubeconfig-dir=/v/hub",
		"--kubeconfig=" + filepath.Join(dir, "kubeconfig"),
	}
	if diff := cmp.Diff(want, cmd.args); diff != "" {
		t.Error(diff)
	}
	env := []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/v/tmp", "HOSTNAME=agent-1",
		"KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT=6443", "PLAIN=value", "POD_NAME=agent-1", "TMPDIR=/v/tmp",
	}
	if diff := cmp.Diff(env, cmd.env); diff != "" {
		t.Error(diff)
	}
	kubeconfig, err := os.ReadFile(filepath.Join(dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"server: https://127.0.0.1:6443", "certificate-authority: /ca.crt", "tokenFile: /v/account/token"} {
		if !strings.Contains(string(kubeconfig), s) {
			t.Errorf("kubeconfig lacks %q:\n%s", s, kubeconfig)
		}
	}
}

func TestNewCommandKeepsFlagsThatThePodSets(t *testing.T) {
	pod := agentPod()
	c := &pod.Spec.Containers[0]
	c.Args = append(c.Args, "--kubeconfig=/elsewhere", "--listen=127.0.0.1:1")
	cmd, err := newCommand(pod, c, layout{dir: t.TempDir(), server: "https://127.0.0.1:1", volumes: &volumes{dir: "/v"}})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(strings.Join(cmd.args, " "), "--kubeconfig="); n != 1 {
		t.Errorf("%d kubeconfigs", n)
	}
}

func TestNewCommandWithoutServiceAccount(t *testing.T) {
	pod := agentPod()
	c := &pod.Spec.Containers[0]
	c.VolumeMounts = c.VolumeMounts[:2]
	dir := t.TempDir()
	cmd, err := newCommand(pod, c, layout{dir: dir, server: "https://127.0.0.1:1", volumes: &volumes{dir: "/v"}})
	if err != nil {
		t.Fatal(err)
	}
	if hasFlag(cmd.args, "--kubeconfig") {
		t.Error("a pod without a service account got credentials")
	}
	if last := cmd.env[len(cmd.env)-1]; last != "TMPDIR="+filepath.Join(dir, "tmp") {
		t.Errorf("no temporary directory of its own: %s", last)
	}
}

func TestSupported(t *testing.T) {
	cases := []struct {
		name    string
		command []string
		args    []string
		init    bool
		want    bool
	}{
		{name: "operator", args: []string{"/registration-operator", "klusterlet"}, want: true},
		{name: "agent by command", command: []string{"/registration-operator"}, args: []string{"agent"}, want: true},
		{name: "registration agent", args: []string{"/registration", "agent"}, want: true},
		{name: "init container", args: []string{"/registration", "agent"}, init: true},
		{name: "webhook", args: []string{"/registration", "webhook-server"}},
		{name: "work", args: []string{"/work", "agent"}},
		{name: "image's entry point"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Command: c.command, Args: c.args}}}}
			if c.init {
				pod.Spec.InitContainers = []corev1.Container{{Name: "i"}}
			}
			why, got := supported(pod)
			if got != c.want || (why == "") != c.want {
				t.Errorf("got %v (%s), want %v", got, why, c.want)
			}
		})
	}
}
