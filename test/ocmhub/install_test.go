// Copyright Contributors to the Open Cluster Management project

package ocmhub_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	operatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"
	operatorv1 "open-cluster-management.io/api/operator/v1"
	sdkhelpers "open-cluster-management.io/sdk-go/pkg/helpers"

	"open-cluster-management.io/import-provider/test/binaries"
	"open-cluster-management.io/import-provider/test/harness"
	"open-cluster-management.io/import-provider/test/ocmhub"
)

func TestInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	ctx := t.Context()
	bin, err := binaries.ControlPlane(ctx, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	hub, err := harness.Start(ctx, harness.Options{Name: "install", BinDir: bin, LogDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hub.Stop() })

	options := ocmhub.InstallOptions{APIServerURL: hub.URL(), CAData: hub.CAData()}
	// A second time changes nothing.
	for range 2 {
		if err := ocmhub.Install(ctx, hub.Config(), options); err != nil {
			t.Fatal(err)
		}
	}
	client := must(kubernetes.NewForConfig(hub.Config()))(t)

	t.Run("cluster-info", func(t *testing.T) {
		if url := must(sdkhelpers.GetAPIServer(client))(t); url != hub.URL() {
			t.Errorf("url %s, want %s", url, hub.URL())
		}
		if ca := must(sdkhelpers.GetCACert(client))(t); !bytes.Equal(ca, hub.CAData()) {
			t.Error("another CA bundle")
		}
	})
	t.Run("no webhooks without a server", func(t *testing.T) {
		crds, err := must(apiextensionsclient.NewForConfig(hub.Config()))(t).ApiextensionsV1().CustomResourceDefinitions().
			List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, crd := range crds.Items {
			if crd.Spec.Conversion != nil && crd.Spec.Conversion.Webhook != nil {
				t.Errorf("CRD %s converts by webhook", crd.Name)
			}
		}
	})
	t.Run("gate", func(t *testing.T) { checkGate(ctx, t, hub.Config()) })
	t.Run("Cluster API", func(t *testing.T) { checkCAPI(ctx, t, hub.Config()) })
}

func checkGate(ctx context.Context, t *testing.T, hub *rest.Config) {
	t.Helper()
	managers := must(operatorclient.NewForConfig(hub))(t).OperatorV1().ClusterManagers()
	for _, c := range []struct {
		on   bool
		want operatorv1.FeatureGateModeType
	}{{true, operatorv1.FeatureGateModeTypeEnable}, {false, operatorv1.FeatureGateModeTypeDisable}, {true, operatorv1.FeatureGateModeTypeEnable}} {
		if err := ocmhub.SetClusterImporterGate(ctx, hub, c.on); err != nil {
			t.Fatal(err)
		}
		m, err := managers.Get(ctx, ocmhub.ClusterManagerName, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := m.Spec.RegistrationConfiguration.FeatureGates
		if len(got) != 1 || got[0].Feature != "ClusterImporter" || got[0].Mode != c.want {
			t.Errorf("on=%v: gates %+v", c.on, got)
		}
	}
}

func checkCAPI(ctx context.Context, t *testing.T, hub *rest.Config) {
	t.Helper()
	if err := ocmhub.InstallCAPI(ctx, hub); err != nil {
		t.Fatal(err)
	}
	clusters := must(dynamic.NewForConfig(hub))(t).
		Resource(schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta1", Resource: "clusters"}).Namespace("default")
	cluster, err := clusters.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster",
		"metadata": map[string]any{"name": "c"},
		"spec":     map[string]any{"controlPlaneEndpoint": map[string]any{"host": "h", "port": int64(1)}},
	}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(cluster.Object, "Provisioned", "status", "phase"); err != nil {
		t.Fatal(err)
	}
	cluster, err = clusters.UpdateStatus(ctx, cluster, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	phase, _, _ := unstructured.NestedString(cluster.Object, "status", "phase")
	host, _, _ := unstructured.NestedString(cluster.Object, "spec", "controlPlaneEndpoint", "host")
	if phase != "Provisioned" || host != "h" {
		t.Errorf("content got lost: %v", cluster.Object)
	}
}

func TestInstallNeedsAnAddress(t *testing.T) {
	if err := ocmhub.Install(t.Context(), &rest.Config{}, ocmhub.InstallOptions{}); err == nil {
		t.Error("no error")
	}
}

// An error in a manifest must not quote it: it may be a Secret.
func TestApplyErrorsCarryNoContent(t *testing.T) {
	err := ocmhub.Apply(t.Context(), &rest.Config{}, []byte("stringData: {token: sentinel-token"))
	if err == nil || strings.Contains(err.Error(), "sentinel") {
		t.Errorf("error %v", err)
	}
}

func TestStartControllerReportsAnExit(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	started := time.Now()
	_, err := ocmhub.StartController(t.Context(), ocmhub.ControllerOptions{
		Command: []string{"/bin/sh", "-c", "echo said; exit 7"}, Kubeconfig: "none", LogFile: log,
	})
	if err == nil || !strings.Contains(err.Error(), "exit code 7") || !strings.Contains(err.Error(), log) {
		t.Errorf("error %v", err)
	}
	if took := time.Since(started); took > 5*time.Second {
		t.Errorf("noticed after %s", took)
	}
	if out, err := os.ReadFile(log); err != nil || string(out) != "said\n" {
		t.Errorf("log %q, %v", out, err)
	}
}

// must is for constructors that fail only on a programming error.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
