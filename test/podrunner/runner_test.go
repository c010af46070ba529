// Copyright Contributors to the Open Cluster Management project

package podrunner_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"open-cluster-management.io/import-provider/test/binaries"
	"open-cluster-management.io/import-provider/test/harness"
	"open-cluster-management.io/import-provider/test/podrunner"
)

const (
	namespace = "default"
	badImage  = "registry.example.com/missing:1"
)

// TestMain turns this binary into the agent when the pod runner starts it under the agent's name.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "registration-operator" {
		if err := fakeAgent(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// fakeAgent takes the flags of the real one and tells its log what it finds. The key "mode" of its secret says
// how it fares: healthy, unhealthy, or exit.
func fakeAgent() error {
	fs := flag.NewFlagSet("agent", flag.ContinueOnError)
	listen := fs.String("listen", "", "")
	kubeconfig := fs.String("kubeconfig", "", "")
	_ = fs.String("namespace", "", "")
	hubDir := fs.String("hub-kubeconfig-dir", "", "")
	input := fs.String("input", "", "")
	if err := fs.Parse(os.Args[2:]); err != nil {
		return err
	}

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	me, err := client.AuthenticationV1().SelfSubjectReviews().
		Create(context.Background(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	fmt.Printf("user=%s pod=%s\n", me.Status.UserInfo.Username, os.Getenv("POD_NAME"))

	starts := filepath.Join(*hubDir, "starts")
	earlier, _ := os.ReadFile(starts)
	if err := os.WriteFile(starts, append(earlier, 'x'), 0o600); err != nil {
		return err
	}
	fmt.Printf("pid=%d starts=%d\n", os.Getpid(), len(earlier)+1)

	var healthy atomic.Bool
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !healthy.Load() {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	_ = server.Listener.Close()
	if server.Listener, err = net.Listen("tcp", *listen); err != nil { //nolint:noctx // A test's own server.
		return err
	}
	server.StartTLS()

	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	for last := ""; ; {
		select {
		case <-terminated:
			fmt.Println("terminated")
			return nil
		case <-time.After(20 * time.Millisecond):
		}
		mode, err := os.ReadFile(*input)
		if err != nil {
			return err
		}
		if string(mode) == last {
			continue
		}
		last = string(mode)
		fmt.Println("mode=" + last)
		healthy.Store(last == "healthy")
		if last == "exit" {
			return nil
		}
	}
}

// cluster is a control plane with a pod runner whose agent is this test binary.
type cluster struct {
	t      *testing.T
	client kubernetes.Interface
	runner *podrunner.Runner
	// pullable decides about badImage.
	pullable *atomic.Bool
}

func start(t *testing.T) *cluster {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	ctx := t.Context()
	bin, err := binaries.ControlPlane(ctx, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	plane, err := harness.Start(ctx, harness.Options{Name: "podrunner", ControllerManager: true, BinDir: bin, LogDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = plane.Stop() })
	client, err := kubernetes.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	agents := t.TempDir()
	for _, name := range []string{"registration", "registration-operator"} {
		if err := os.Symlink(self, filepath.Join(agents, name)); err != nil {
			t.Fatal(err)
		}
	}
	pullable := &atomic.Bool{}
	runner, err := podrunner.Start(ctx, podrunner.Options{
		Config: plane.Config(), CAData: plane.CAData(), BinDir: agents, Dir: t.TempDir(), Logger: testr.New(t),
		UnpullableImages: func(image string) bool { return image == badImage && !pullable.Load() },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = runner.Stop() })
	return &cluster{t: t, client: client, runner: runner, pullable: pullable}
}

func (c *cluster) createPod(name, image string, args ...string) {
	c.t.Helper()
	probe := &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: "/healthz", Scheme: corev1.URISchemeHTTPS, Port: intstr.FromInt32(8443),
		}},
		PeriodSeconds: 1, FailureThreshold: 1,
	}
	liveness := probe.DeepCopy()
	liveness.InitialDelaySeconds, liveness.FailureThreshold = 2, 3
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: ptr.To[int64](5),
			Containers: []corev1.Container{{
				Name: "agent", Image: image, Args: args, ReadinessProbe: probe, LivenessProbe: liveness,
				Env: []corev1.EnvVar{
					{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
				},
				VolumeMounts: []corev1.VolumeMount{
					{Name: "input", MountPath: "/spoke/input"}, {Name: "hub", MountPath: "/spoke/hub-kubeconfig"},
				},
			}},
			Volumes: []corev1.Volume{
				{Name: "input", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name}}},
				{Name: "hub", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
			},
		},
	}
	c.eventually("pod created", func() bool {
		// The service account appears a moment after the control plane.
		_, err := c.client.CoreV1().Pods(namespace).Create(c.t.Context(), pod, metav1.CreateOptions{})
		return err == nil
	})
}

func (c *cluster) createAgent(name, image string) {
	c.t.Helper()
	c.createPod(name, image, "/registration-operator", "agent", "--input=/spoke/input/mode")
}

func (c *cluster) setMode(name, mode string) {
	c.t.Helper()
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: map[string]string{"mode": mode}}
	secrets := c.client.CoreV1().Secrets(namespace)
	_, err := secrets.Create(c.t.Context(), s, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = secrets.Update(c.t.Context(), s, metav1.UpdateOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) pod(name string) *corev1.Pod {
	c.t.Helper()
	pod, err := c.client.CoreV1().Pods(namespace).Get(c.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return pod
}

func (c *cluster) container(name string) corev1.ContainerStatus {
	c.t.Helper()
	if s := c.pod(name).Status.ContainerStatuses; len(s) == 1 {
		return s[0]
	}
	return corev1.ContainerStatus{}
}

func (c *cluster) ready(name string) bool {
	c.t.Helper()
	pod := c.pod(name)
	return pod.Status.Phase == corev1.PodRunning && slices.ContainsFunc(pod.Status.Conditions, func(p corev1.PodCondition) bool {
		return p.Type == corev1.PodReady && p.Status == corev1.ConditionTrue && p.Reason == ""
	})
}

func (c *cluster) waitingFor(name, reason string) func() bool {
	return func() bool {
		w := c.container(name).State.Waiting
		return w != nil && w.Reason == reason
	}
}

// log is the output of the pod's container.
func (c *cluster) log(name string) string {
	data, _ := os.ReadFile(filepath.Join(c.runner.LogDir(), namespace+"_"+name+"_agent.log"))
	return string(data)
}

func (c *cluster) logHas(name, text string) func() bool {
	return func() bool { return strings.Contains(c.log(name), text) }
}

// pid is that of the latest process.
func (c *cluster) pid(name string) int {
	c.t.Helper()
	text := c.log(name)
	_, rest, _ := strings.Cut(text[strings.LastIndex(text, "\npid="):], "=")
	pid, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		c.t.Fatal(err)
	}
	return pid
}

func (c *cluster) eventually(what string, f func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if f() {
			return
		}
	}
	c.t.Fatalf("not within 30 s: %s", what)
}

func alive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestRunner(t *testing.T) {
	c := start(t)

	t.Run("node", func(t *testing.T) {
		c.t = t
		node, err := c.client.CoreV1().Nodes().Get(t.Context(), podrunner.DefaultNodeName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if len(node.Status.Conditions) != 1 || node.Status.Conditions[0].Status != corev1.ConditionTrue || node.Status.Capacity.Cpu().IsZero() {
			t.Errorf("node is not ready with a capacity: %+v", node.Status)
		}
		lease, err := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(t.Context(), podrunner.DefaultNodeName, metav1.GetOptions{})
		if err != nil || lease.Spec.RenewTime == nil {
			t.Errorf("lease: %+v, %v", lease, err)
		}
	})

	t.Run("life of a pod", func(t *testing.T) {
		c.t = t
		const name = "life"
		c.createAgent(name, "image:1")
		c.eventually("waits for its secret", func() bool {
			w := c.container(name).State.Waiting
			return w != nil && strings.Contains(w.Message, "secret "+name+" not found")
		})
		if c.pod(name).Spec.NodeName != podrunner.DefaultNodeName {
			t.Error("not bound to the node")
		}

		c.setMode(name, "unhealthy at first")
		c.eventually("runs", func() bool { return c.pod(name).Status.Phase == corev1.PodRunning })
		if c.ready(name) {
			t.Error("ready while its probe fails")
		}
		c.setMode(name, "healthy")
		c.eventually("ready", func() bool { return c.ready(name) })
		c.eventually("has the rights of its service account",
			c.logHas(name, "user=system:serviceaccount:default:default pod="+name))

		// As when the bootstrap kubeconfig changes: the agent ends well and is started with the new file.
		before := c.container(name).RestartCount
		c.setMode(name, "exit")
		c.eventually("exits", c.logHas(name, "mode=exit"))
		c.setMode(name, "healthy")
		c.eventually("ready again", func() bool { return c.ready(name) && c.container(name).RestartCount > before })
		if last := c.container(name).LastTerminationState.Terminated; last == nil || last.ExitCode != 0 || last.Reason != "Completed" {
			t.Errorf("last state %+v", last)
		}

		before = c.container(name).RestartCount
		if err := syscall.Kill(c.pid(name), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		c.eventually("ready after kill -9", func() bool { return c.ready(name) && c.container(name).RestartCount > before })
		if last := c.container(name).LastTerminationState.Terminated; last == nil || last.ExitCode != 137 {
			t.Errorf("last state %+v", last)
		}
		if strings.Contains(c.log(name)[strings.LastIndex(c.log(name), "pid="):], "starts=1") {
			t.Error("the emptyDir did not survive the restarts")
		}

		before = c.container(name).RestartCount
		c.setMode(name, "unhealthy")
		c.eventually("not ready", func() bool { return !c.ready(name) })
		c.eventually("restarted by its liveness probe", func() bool { return c.container(name).RestartCount > before })
		c.setMode(name, "healthy")
		c.eventually("ready once more", func() bool { return c.ready(name) })

		pid := c.pid(name)
		if err := c.client.CoreV1().Pods(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		c.eventually("gone", func() bool {
			_, err := c.client.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		})
		if alive(pid) {
			t.Error("the process outlived its pod")
		}
		if !strings.Contains(c.log(name), "terminated") {
			t.Error("the process got no SIGTERM")
		}

		c.createAgent(name, "image:1")
		c.eventually("namesake ready", func() bool { return c.ready(name) })
		if !strings.Contains(c.log(name)[strings.LastIndex(c.log(name), "pid="):], "starts=1") {
			t.Error("the emptyDir survived the pod")
		}
	})

	t.Run("forced deletion", func(t *testing.T) {
		c.t = t
		const name = "forced"
		c.setMode(name, "healthy")
		c.createAgent(name, "image:1")
		c.eventually("ready", func() bool { return c.ready(name) })
		pid := c.pid(name)
		if err := c.client.CoreV1().Pods(namespace).Delete(t.Context(), name, *metav1.NewDeleteOptions(0)); err != nil {
			t.Fatal(err)
		}
		c.eventually("process gone", func() bool { return !alive(pid) })
	})

	t.Run("image that can't be pulled", func(t *testing.T) {
		c.t = t
		const name = "unpullable"
		c.setMode(name, "healthy")
		c.createAgent(name, badImage)
		c.eventually("waits for its image", c.waitingFor(name, "ErrImagePull"))
		if phase := c.pod(name).Status.Phase; phase != corev1.PodPending {
			t.Errorf("phase %s", phase)
		}
		c.pullable.Store(true)
		c.eventually("ready", func() bool { return c.ready(name) })
	})

	t.Run("crash loop", func(t *testing.T) {
		c.t = t
		const name = "crash"
		c.setMode(name, "healthy")
		c.createPod(name, "image:1", "/registration-operator", "agent", "--no-such-flag")
		c.eventually("backs off", func() bool { return c.container(name).RestartCount >= 2 })
		c.eventually("says so", c.waitingFor(name, "CrashLoopBackOff"))
	})

	t.Run("another program", func(t *testing.T) {
		c.t = t
		const name = "other"
		c.setMode(name, "healthy")
		c.createPod(name, "image:1", "/bin/other")
		// Nothing marks the moment at which a pod was left alone; the next pod comes after it in the queue.
		c.setMode("after", "healthy")
		c.createAgent("after", "image:1")
		c.eventually("next pod ready", func() bool { return c.ready("after") })
		if pod := c.pod(name); pod.Spec.NodeName != "" || pod.Status.Phase != corev1.PodPending {
			t.Errorf("node %q, phase %s", pod.Spec.NodeName, pod.Status.Phase)
		}
	})

	t.Run("stop", func(t *testing.T) {
		c.t = t
		pids := []int{c.pid("life"), c.pid("unpullable"), c.pid("after")}
		if err := c.runner.Stop(); err != nil {
			t.Fatal(err)
		}
		for _, pid := range pids {
			if alive(pid) {
				t.Errorf("process %d outlived the runner", pid)
			}
		}
		if _, err := os.Stat(filepath.Join(c.runner.LogDir(), "..", "pods")); !os.IsNotExist(err) {
			t.Errorf("files with credentials stay behind: %v", err)
		}
		if c.ready("life") {
			t.Error("a pod without a process is still ready")
		}
	})
}
