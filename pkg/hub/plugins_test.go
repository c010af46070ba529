// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// runVerify runs the command as a user does.
func runVerify(t *testing.T, args ...string) (output string, err error) {
	t.Helper()
	cmd, err := NewImportController("v0")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs(append([]string{"plugins", "verify"}, args...))
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

// columns are the lines of a table, by single spaces.
func columns(table string) string {
	var lines []string
	for line := range strings.Lines(table) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

func TestPluginsVerify(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("plugins run on Linux")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	chmod := func(path string, mode os.FileMode) {
		if err := os.Chmod(path, mode); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []string{"demo-file", "other"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		chmod(path, 0o555)
	}
	chmod(dir, 0o555)
	t.Cleanup(func() { chmod(dir, 0o755) })
	sum := sha256.Sum256(data)
	right, wrong := hex.EncodeToString(sum[:]), strings.Repeat("0", 64)
	platform := runtime.GOOS + "/" + runtime.GOARCH
	policyWith := func(digest string) string {
		path := filepath.Join(t.TempDir(), "policy.yaml")
		content := fmt.Sprintf("apiVersion: config.import.open-cluster-management.io/v1alpha1\nkind: ImportPolicy\n"+
			"plugins: [{name: demo, file: demo-file, hosts: [\"*.example.com\"], sha256: {%s: %q}}]\n", platform, digest)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const unused = "\n- other - not used: no plugin of the policy has this file remove it, or add it to plugins"

	output, err := runVerify(t, "--policy-file="+policyWith(right), "--plugin-directory="+dir)
	if want := "PLUGIN FILE SHA256 VERDICT NEXT STEP\n- . - ok -\ndemo demo-file " + right + " ok -" + unused; err != nil || columns(output) != want {
		t.Errorf("got %v and\n%s\nnot\n%s", err, columns(output), want)
	}
	t.Setenv("IMPORT_POLICY_FILE", policyWith(wrong))
	output, err = runVerify(t, "--plugin-directory="+dir)
	if want := "PLUGIN FILE SHA256 VERDICT NEXT STEP\n- . - ok -\ndemo demo-file " + right + " its file does not have the digest that the policy has for " +
		platform + " put the right file there, or the digest of this one into sha256" + unused; columns(output) != want {
		t.Errorf("got\n%s\nnot\n%s", columns(output), want)
	}
	if err == nil || err.Error() != "1 of 3 checks failed" {
		t.Errorf("got %v", err)
	}
}

func TestPluginsVerifyWithoutPlugins(t *testing.T) {
	if output, err := runVerify(t); err != nil || output != "The policy has no plugins.\n" {
		t.Errorf("got %v, %q", err, output)
	}
	if _, err := runVerify(t, "--policy-file=/does/not/exist"); err == nil || !strings.HasPrefix(err.Error(), "--policy-file: ") {
		t.Errorf("got %v", err)
	}
}
