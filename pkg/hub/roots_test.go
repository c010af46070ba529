// Copyright Contributors to the Open Cluster Management project

package hub_test

import (
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestRoots runs itself again as in an image without files: the roots of a process are read once.
func TestRoots(t *testing.T) {
	const again = "TEST_ROOTS_AGAIN"
	if os.Getenv(again) == "" {
		missing := filepath.Join(t.TempDir(), "missing")
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRoots$") //nolint:forbidigo,gosec // It is this test.
		cmd.Env = []string{again + "=1", "SSL_CERT_FILE=" + missing, "SSL_CERT_DIR=" + missing}
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, output)
		}
		return
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	if roots.Equal(x509.NewCertPool()) {
		t.Error("nothing that a public authority certifies can be verified")
	}
}
