// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

func TestControlPlane(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	began := time.Now()
	dir, logs := filepath.Join(t.TempDir(), "cluster"), t.TempDir()
	c, err := Start(t.Context(), Options{
		Name: "hub", ControllerManager: true, Dir: dir, LogDir: logs,
		Authenticate: func(token string) (string, []string) {
			if token == "of-a-cloud" {
				return "cloud-user", []string{"cloud-group"}
			}
			return "", nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Logf("started in %s", time.Since(began).Round(100*time.Millisecond))
	admin := client(t, c.Config())

	t.Run("kubeconfig", func(t *testing.T) {
		data, err := os.ReadFile(c.KubeconfigPath())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(data, c.Kubeconfig()) {
			t.Error("the file differs from Kubeconfig()")
		}
		if info, err := os.Stat(c.KubeconfigPath()); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("want mode 0600, got %v, %v", info.Mode(), err)
		}
		user, groups := whoAmI(t, fromKubeconfig(t, data))
		if user != adminUser || !strings.Contains(groups, adminGroup) {
			t.Errorf("got user %q in %q", user, groups)
		}
	})

	t.Run("client certificate", func(t *testing.T) {
		cert, key, err := c.IssueClientCert("jane", []string{"devs"}, time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		jane := fromKubeconfig(t, CertKubeconfig(c.URL(), c.CAData(), cert, key))
		if user, groups := whoAmI(t, jane); user != "jane" || !strings.Contains(groups, "devs") {
			t.Errorf("got user %q in %q", user, groups)
		}
		if _, err := jane.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("want forbidden, got %v", err)
		}

		cert, key, err = c.IssueClientCert("jane", nil, time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		expired := fromKubeconfig(t, CertKubeconfig(c.URL(), c.CAData(), cert, key))
		if _, err := expired.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
			t.Errorf("want unauthorized with an expired certificate, got %v", err)
		}
	})

	t.Run("service account token", func(t *testing.T) {
		token, err := c.ServiceAccountToken(t.Context(), "default", "default", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		user, _ := whoAmI(t, fromKubeconfig(t, TokenKubeconfig(c.URL(), c.CAData(), token)))
		if user != "system:serviceaccount:default:default" {
			t.Errorf("got user %q", user)
		}
	})

	t.Run("authenticator", func(t *testing.T) {
		user, groups := whoAmI(t, fromKubeconfig(t, TokenKubeconfig(c.URL(), c.CAData(), "of-a-cloud")))
		if user != "cloud-user" || !strings.Contains(groups, "cloud-group") {
			t.Errorf("got user %q in %q", user, groups)
		}
		nobody := fromKubeconfig(t, TokenKubeconfig(c.URL(), c.CAData(), "of-nobody"))
		if _, err := nobody.CoreV1().Secrets("default").List(t.Context(), metav1.ListOptions{}); !apierrors.IsUnauthorized(err) {
			t.Errorf("want unauthorized with a token that is nobody's, got %v", err)
		}
	})

	t.Run("controller manager", func(t *testing.T) {
		namespace := createNamespace(t, admin, "work")
		labels := map[string]string{"app": "a"}
		_, err := admin.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "a"},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "example.com/a"}}},
				},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "a pod of the deployment", func() error {
			pods, err := admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app=a"})
			if err == nil && len(pods.Items) != 1 {
				err = fmt.Errorf("%d pods", len(pods.Items))
			}
			return err
		})
		if err := admin.CoreV1().Namespaces().Delete(t.Context(), namespace, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the namespace to be gone", func() error {
			_, err := admin.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
			switch {
			case apierrors.IsNotFound(err):
				return nil
			case err == nil:
				err = errors.New("still there")
			}
			return err
		})
	})

	t.Run("kill and start", func(t *testing.T) {
		namespace, url := createNamespace(t, admin, "kept"), c.URL()
		if err := c.StartAPIServer(t.Context()); err == nil {
			t.Error("started a second API server")
		}
		if err := c.KillAPIServer(); err != nil {
			t.Fatal(err)
		}
		if err := reach(t, admin); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("want connection refused, got %v", err)
		}
		began := time.Now()
		if err := c.StartAPIServer(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("ready again in %s", time.Since(began).Round(100*time.Millisecond))
		if c.URL() != url {
			t.Errorf("moved from %s to %s", url, c.URL())
		}
		if _, err := admin.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{}); err != nil {
			t.Errorf("the data is gone: %v", err)
		}
	})

	t.Run("pause and resume", func(t *testing.T) {
		if err := c.PauseAPIServer(); err != nil {
			t.Fatal(err)
		}
		// Threads stop one after another: a request just now may still be answered.
		eventually(t, "no answer", func() error {
			if err := reach(t, admin); !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("want a timeout, got %w", err)
			}
			return nil
		})
		if err := c.ResumeAPIServer(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "an answer", func() error { return reach(t, admin) })
	})

	t.Run("stop", func(t *testing.T) {
		var pids []int
		for _, p := range []*child{c.etcd, c.apiServer, c.controllerManager} {
			pids = append(pids, p.PID())
		}
		if err := c.PauseAPIServer(); err != nil { // a halted one has to go as well
			t.Fatal(err)
		}
		for range 2 {
			if err := c.Stop(); err != nil {
				t.Fatal(err)
			}
		}
		for _, pid := range pids {
			if alive(pid) {
				t.Errorf("process %d is left", pid)
			}
		}
		if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the directory is left: %v", err)
		}
		if found, err := filepath.Glob(filepath.Join(logs, "hub-*.log")); err != nil || len(found) != 3 {
			t.Errorf("want three logs, got %q, %v", found, err)
		}
		if err := c.KillAPIServer(); err == nil {
			t.Error("killed the API server of a stopped control plane")
		}
		if err := c.StartAPIServer(t.Context()); err == nil {
			t.Error("started the API server of a stopped control plane")
		}
	})
}

func TestStartFailures(t *testing.T) {
	failing := t.TempDir()
	for _, name := range []string{"etcd", "kube-apiserver"} {
		script := "#!/bin/sh\necho " + name + " cannot go on\nexit 3\n"
		if err := os.WriteFile(filepath.Join(failing, name), []byte(script), 0o700); err != nil { //nolint:gosec // has to be executable
			t.Fatal(err)
		}
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	cases := []struct {
		name    string
		options Options
		want    []string
	}{
		{name: "the log is in the error", options: Options{Name: "x", BinDir: failing}, want: []string{`"x"`, "ended early with code 3", "cannot go on"}},
		{name: "no binaries", options: Options{BinDir: t.TempDir()}, want: []string{"etcd: no such file", "no such file"}},
		{name: "directory not empty", options: Options{BinDir: failing, Dir: full}, want: []string{"is not empty"}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Start(t.Context(), tc.options)
			if err == nil {
				t.Fatal("started")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in %v", want, err)
				}
			}
		})
	}
	if _, err := os.Stat(filepath.Join(full, "file")); err != nil {
		t.Errorf("a directory that was not empty was touched: %v", err)
	}
}

func TestStartTriesOtherPorts(t *testing.T) {
	bin, count := t.TempDir(), filepath.Join(t.TempDir(), "count")
	for name, script := range map[string]string{
		"etcd":           "#!/bin/sh\necho \"$*\" >> " + count + "\necho listen tcp: bind: address already in use\nexit 1\n",
		"kube-apiserver": "#!/bin/sh\nexec sleep 600\n",
	} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil { //nolint:gosec // has to be executable
			t.Fatal(err)
		}
	}
	if _, err := Start(t.Context(), Options{BinDir: bin}); err == nil {
		t.Fatal("started")
	}
	data, err := os.ReadFile(count)
	if err != nil {
		t.Fatal(err)
	}
	calls := strings.Split(strings.TrimSpace(string(data)), "\n")
	if len(calls) != startAttempts || calls[0] == calls[1] {
		t.Errorf("want %d attempts with different ports, got %q", startAttempts, calls)
	}
}

func alive(pid int) bool {
	if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
		// Whoever adopts orphans may be slow to reap them.
		return !strings.Contains(string(stat), ") Z ")
	}
	return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func client(t *testing.T, config *rest.Config) kubernetes.Interface {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func fromKubeconfig(t *testing.T, data []byte) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	return client(t, config)
}

func whoAmI(t *testing.T, c kubernetes.Interface) (user, groups string) {
	t.Helper()
	review, err := c.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return review.Status.UserInfo.Username, strings.Join(review.Status.UserInfo.Groups, ",")
}

func createNamespace(t *testing.T, c kubernetes.Interface, name string) string {
	t.Helper()
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return name
}

func reach(t *testing.T, c kubernetes.Interface) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := c.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
	return err
}

func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(60 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited for %s: %v", what, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
