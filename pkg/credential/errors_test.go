// Copyright Contributors to the Open Cluster Management project

package credential_test

import (
	"errors"
	"fmt"
	"testing"

	"open-cluster-management.io/import-provider/pkg/credential"
)

// What the cluster says is found by its kind alone: its text reaches a condition.
func TestClusterErrorQuotesNothing(t *testing.T) {
	cause := errors.New("dial tcp 192.0.2.1:443: refused")
	err := credential.ClusterFailed(cause)
	const want = "the managed cluster gives no short-lived credential"
	for _, text := range []string{err.Error(), fmt.Sprintf("%v", err), fmt.Sprintf("%+v", err)} {
		if text != want {
			t.Errorf("got %q", text)
		}
	}
	if !errors.Is(err, cause) || !credential.IsClusterFailed(fmt.Errorf("resolver x: %w", err)) {
		t.Error("it is not found")
	}
	if credential.IsMintFailed(err) || credential.IsInvalid(err) || credential.IsDenied(err) || credential.IsClusterFailed(cause) {
		t.Error("it is taken for another kind of error")
	}
	if credential.ClusterFailed(nil) != nil {
		t.Error("nil does not stay nil")
	}
}
