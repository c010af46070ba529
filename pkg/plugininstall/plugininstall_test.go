// Copyright Contributors to the Open Cluster Management project

package plugininstall_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"open-cluster-management.io/import-provider/pkg/plugininstall"
	"open-cluster-management.io/import-provider/test/process"
)

// TestMain makes a plugin of the test's own program: with "install DIR" it installs itself, and is a test otherwise.
func TestMain(m *testing.M) {
	plugininstall.Main()
	os.Exit(m.Run())
}

func self(t *testing.T) (path string, content []byte) {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if content, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return path, content
}

func install(t *testing.T, program, dir string) (code int, output string) {
	t.Helper()
	var buffer bytes.Buffer
	p, err := process.Start(process.Options{Path: program, Args: []string{"install", dir}, Output: &buffer})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	return p.ExitCode(), buffer.String()
}

func TestMainInstalls(t *testing.T) {
	program, content := self(t)
	dir := t.TempDir()
	target := filepath.Join(dir, filepath.Base(program))
	// What is there is replaced, also if it is read-only.
	if err := os.WriteFile(target, []byte("old"), 0o400); err != nil {
		t.Fatal(err)
	}
	if code, output := install(t, program, dir); code != 0 || output != "" {
		t.Fatalf("exit code %d: %s", code, output)
	}
	installed, err := os.ReadFile(target)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(installed, content) {
		t.Error("the file is another one")
	}
	info, err := os.Stat(target)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o555 {
		t.Errorf("mode %s", info.Mode())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("there is more in the directory: %v", entries)
	}
}

func TestMainFails(t *testing.T) {
	program, _ := self(t)
	missing := filepath.Join(t.TempDir(), "missing")
	if code, output := install(t, program, missing); code != 1 || !strings.HasPrefix(output, "installing into "+missing+": ") {
		t.Errorf("exit code %d: %s", code, output)
	}
}

// A file that cannot be put in its place leaves nothing behind.
func TestInstallLeavesNothing(t *testing.T) {
	program, _ := self(t)
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, filepath.Base(program), "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := plugininstall.Install(dir); err == nil {
		t.Error("no error")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("there is more in the directory: %v", entries)
	}
}

func ExampleMain() {
	plugininstall.Main()
	// Not for "install DIR": what a plugin is for.
	fmt.Println(`{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"…"}}`)
	// Output:
	// {"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"…"}}
}
