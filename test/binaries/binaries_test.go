// Copyright Contributors to the Open Cluster Management project

package binaries

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestProvidedAssets(t *testing.T) {
	cases := []struct {
		name  string
		env   string
		get   func(context.Context) (string, error)
		files []string
		want  string // part of the error
	}{
		{name: "control plane", env: "KUBEBUILDER_ASSETS", get: controlPlane, files: []string{"etcd", "kube-apiserver", "kube-controller-manager"}},
		{name: "no controller manager", env: "KUBEBUILDER_ASSETS", get: controlPlane, files: []string{"etcd", "kube-apiserver"}, want: "no usable kube-controller-manager"},
		{name: "nothing there", env: "KUBEBUILDER_ASSETS", get: controlPlane, want: "no usable etcd"},
		{name: "agents", env: "OCM_AGENT_ASSETS", get: agents, files: []string{"registration", "registration-operator"}},
		{name: "no operator", env: "OCM_AGENT_ASSETS", get: agents, files: []string{"registration"}, want: "no usable registration-operator"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			assets := t.TempDir()
			for _, name := range tc.files {
				write(t, filepath.Join(assets, name), "", 0o700)
			}
			t.Setenv(tc.env, assets)
			t.Setenv("PATH", "") // a build would fail
			dir, err := tc.get(t.Context())
			switch {
			case tc.want == "" && (err != nil || dir != assets):
				t.Errorf("got %q, %v", dir, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), tc.env)):
				t.Errorf("want %q of %s in the error, got %v", tc.want, tc.env, err)
			}
		})
	}
}

func controlPlane(ctx context.Context) (string, error) { return ControlPlane(ctx, nil) }
func agents(ctx context.Context) (string, error)       { return Agents(ctx, nil) }

func TestKubectl(t *testing.T) {
	dir, path := t.TempDir(), t.TempDir()
	t.Setenv("PATH", path)
	if _, err := Kubectl(dir); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("want not found, got %v", err)
	}
	for _, from := range []string{path, dir} { // the directory wins
		want := filepath.Join(from, "kubectl")
		write(t, want, "", 0o700)
		if got, err := Kubectl(dir); err != nil || got != want {
			t.Errorf("want %s, got %q, %v", want, got, err)
		}
	}
}

func TestModuleRoot(t *testing.T) {
	root := t.TempDir()
	nested := filepath.Join(root, "test", "nested")
	write(t, filepath.Join(root, "go.mod"), "// comment\nmodule "+modulePath+"\n", 0o600)
	write(t, filepath.Join(nested, "go.mod"), "module "+modulePath+"/test/nested\n", 0o600)
	t.Chdir(nested)
	if got, err := ModuleRoot(); err != nil || !sameDir(t, got, root) {
		t.Errorf("want %s, got %q, %v", root, got, err)
	}
	t.Chdir(t.TempDir())
	if got, err := ModuleRoot(); err == nil {
		t.Errorf("found %s outside of a checkout", got)
	}
}

// TestBuild builds a module that is as small as can be.
func TestBuild(t *testing.T) {
	root, cache := t.TempDir(), filepath.Join(t.TempDir(), "cache")
	module := filepath.Join(root, "test", "tiny")
	source := filepath.Join(module, "tiny", "main.go")
	write(t, filepath.Join(root, "go.mod"), "module "+modulePath+"\n", 0o600)
	write(t, filepath.Join(module, "go.mod"), "module example.com/tiny\n\ngo 1.26\n", 0o600)
	write(t, source, "package main\n\nfunc main() {}\n", 0o600)
	write(t, filepath.Join(cache, ".build-tiny-killed", "half"), "", 0o600)
	t.Chdir(module)
	t.Setenv("IMPORT_PROVIDER_CACHE", cache)
	tiny := set{
		name: "tiny", title: "a tiny program", env: "TINY_ASSETS", dir: filepath.Join("test", "tiny"),
		packages: []string{"./tiny"}, ldflags: "-s -w", required: []string{"tiny"},
	}

	var outputs [3]bytes.Buffer
	var dirs [3]string
	var wg sync.WaitGroup
	for i := range dirs {
		wg.Go(func() {
			var err error
			if dirs[i], err = ensure(t.Context(), &outputs[i], tiny); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	all := outputs[0].String() + outputs[1].String() + outputs[2].String()
	if got := strings.Count(all, "building "); got != 1 {
		t.Errorf("built %d times:\n%s", got, all)
	}
	if dirs[0] != dirs[1] || dirs[1] != dirs[2] || filepath.Dir(dirs[0]) != cache || !strings.HasPrefix(filepath.Base(dirs[0]), "tiny-") {
		t.Errorf("got %q", dirs)
	}
	if err := executable(filepath.Join(dirs[0], "tiny")); err != nil {
		t.Error(err)
	}

	var again bytes.Buffer
	if dir, err := ensure(t.Context(), &again, tiny); err != nil || dir != dirs[0] || again.Len() > 0 {
		t.Errorf("want a silent hit, got %q, %v, %q", dir, err, again.String())
	}

	write(t, source, "package main\n\nfunc main() { mistake }\n", 0o600)
	if _, err := ensure(t.Context(), nil, tiny); err == nil || !strings.Contains(err.Error(), "undefined: mistake") {
		t.Errorf("want the compiler's words, got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	if _, err := ensure(ctx, nil, tiny); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("want the context's error, got %v", err)
	}

	entries, err := os.ReadDir(cache)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if name := entry.Name(); name != "tiny.lock" && name != filepath.Base(dirs[0]) {
			t.Errorf("%s is left in the cache", name)
		}
	}
}

func write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func sameDir(t *testing.T, a, b string) bool {
	t.Helper()
	infoA, errA := os.Stat(a)
	infoB, errB := os.Stat(b)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	return os.SameFile(infoA, infoB)
}
