// Copyright Contributors to the Open Cluster Management project

package ocmhub_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	clusterclient "open-cluster-management.io/api/client/cluster/clientset/versioned"
	operatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"
	workclient "open-cluster-management.io/api/client/work/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"
	workv1 "open-cluster-management.io/api/work/v1"
	"open-cluster-management.io/ocm/pkg/operator/helpers/chart"
	sdkhelpers "open-cluster-management.io/sdk-go/pkg/helpers"

	"open-cluster-management.io/import-provider/test/binaries"
	"open-cluster-management.io/import-provider/test/harness"
	"open-cluster-management.io/import-provider/test/ocmhub"
	"open-cluster-management.io/import-provider/test/podrunner"
)

const (
	clusterName = "cluster1"
	// importNamespace is where upstream's importer puts the operator, and where the agent runs.
	importNamespace = "open-cluster-management-agent"
)

// stages prints how long each stage took.
type stages struct {
	t    *testing.T
	last time.Time
}

func (s *stages) done(format string, args ...any) {
	s.t.Helper()
	now := time.Now()
	s.t.Logf("%8.2f s  %s", now.Sub(s.last).Seconds(), fmt.Sprintf(format, args...))
	s.last = now
}

// TestClusterJoins carries a cluster from nothing to Available with the real controller, operator and agent,
// the way an import would, and back: the stand-ins of these packages are good enough for everything that
// the end-to-end tests are about.
func TestClusterJoins(t *testing.T) {
	if testing.Short() {
		t.Skip("starts two control planes and real agents")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	controlPlaneBin, err := binaries.ControlPlane(ctx, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	agentBin, err := binaries.Agents(ctx, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	logs := t.TempDir()
	t.Cleanup(func() { dumpLogs(t, logs) })
	s := &stages{t: t, last: time.Now()}

	hub, spoke := startTwo(ctx, t, controlPlaneBin, logs)
	s.done("two control planes")

	if err := ocmhub.Install(ctx, hub.Config(), ocmhub.InstallOptions{APIServerURL: hub.URL(), CAData: hub.CAData()}); err != nil {
		t.Fatal(err)
	}
	s.done("hub installed")
	controller, err := ocmhub.StartController(ctx, ocmhub.ControllerOptions{
		BinDir: agentBin, Kubeconfig: controllerKubeconfig(ctx, t, hub), LogFile: filepath.Join(logs, "hub-controller.log"), AutoApprove: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := controller.Stop(); err != nil {
			t.Error(err)
		}
	})
	s.done("hub controller healthy")

	runner, err := podrunner.Start(ctx, podrunner.Options{
		Config: spoke.Config(), CAData: spoke.CAData(), BinDir: agentBin, Dir: filepath.Join(logs, "podrunner"), Logger: testr.New(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := runner.Stop(); err != nil {
			t.Error(err)
		}
	})
	s.done("node ready")

	clusters := must(clusterclient.NewForConfig(hub.Config()))(t).ClusterV1().ManagedClusters()
	if _, err := clusters.Create(ctx, &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: clusterName},
		Spec:       clusterv1.ManagedClusterSpec{LeaseDurationSeconds: 10},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := ocmhub.Apply(ctx, spoke.Config(), klusterletManifests(ctx, t, hub.Config())...); err != nil {
		t.Fatal(err)
	}
	s.done("klusterlet applied")

	for _, condition := range []string{
		clusterv1.ManagedClusterConditionHubAccepted, clusterv1.ManagedClusterConditionJoined, clusterv1.ManagedClusterConditionAvailable,
	} {
		eventually(ctx, t, 3*time.Minute, condition, func(ctx context.Context) (bool, error) {
			c, err := clusters.Get(ctx, clusterName, metav1.GetOptions{})
			return err == nil && meta.IsStatusConditionTrue(c.Status.Conditions, condition), err
		})
		s.done("%s", condition)
	}

	// What the controller manager and the operator make of the pods' status.
	klusterlets := must(operatorclient.NewForConfig(spoke.Config()))(t).OperatorV1().Klusterlets()
	eventually(ctx, t, time.Minute, "Klusterlet available", func(ctx context.Context) (bool, error) {
		k, err := klusterlets.Get(ctx, "klusterlet", metav1.GetOptions{})
		return err == nil && meta.IsStatusConditionTrue(k.Status.Conditions, "Available"), err
	})
	s.done("Klusterlet available")
	spokeClient := must(kubernetes.NewForConfig(spoke.Config()))(t)
	deployments, err := spokeClient.AppsV1().Deployments(importNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(deployments.Items) != 2 {
		t.Errorf("%d deployments, want operator and agent", len(deployments.Items))
	}
	for _, d := range deployments.Items {
		if d.Status.AvailableReplicas != 1 {
			t.Errorf("deployment %s has %d available replicas, want 1", d.Name, d.Status.AvailableReplicas)
		}
	}

	works := must(workclient.NewForConfig(hub.Config()))(t).WorkV1().ManifestWorks(clusterName)
	if _, err := works.Create(ctx, manifestWork(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, time.Minute, "work applied", func(ctx context.Context) (bool, error) {
		_, err := spokeClient.CoreV1().ConfigMaps("default").Get(ctx, "from-the-hub", metav1.GetOptions{})
		return err == nil, nil
	})
	s.done("ManifestWork applied on the cluster")

	// A rollout ends the old pod with SIGTERM and removes it before the next test step.
	replaceAgentPod(ctx, t, spokeClient)
	s.done("agent pod deleted and replaced")

	if err := clusters.Delete(ctx, clusterName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, 2*time.Minute, "cluster deleted", func(ctx context.Context) (bool, error) {
		list, err := clusters.List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0, err
	})
	s.done("ManagedCluster deleted")

	// Nothing may hold up the agents' namespaces: the operator cleans up when its Klusterlet goes.
	if err := klusterlets.Delete(ctx, "klusterlet", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, 2*time.Minute, "klusterlet cleaned up", func(ctx context.Context) (bool, error) {
		list, err := klusterlets.List(ctx, metav1.ListOptions{})
		return err == nil && len(list.Items) == 0, err
	})
	s.done("Klusterlet deleted")
}

func startTwo(ctx context.Context, t *testing.T, binDir, logs string) (hub, spoke *harness.ControlPlane) {
	t.Helper()
	g, gctx := errgroup.WithContext(ctx)
	start := func(to **harness.ControlPlane, name string) {
		g.Go(func() (err error) {
			*to, err = harness.Start(gctx, harness.Options{Name: name, ControllerManager: true, BinDir: binDir, LogDir: logs})
			return err
		})
	}
	start(&hub, "hub")
	start(&spoke, "spoke")
	err := g.Wait()
	t.Cleanup(func() {
		for _, c := range []*harness.ControlPlane{hub, spoke} {
			if c == nil {
				continue
			}
			if err := c.Stop(); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return hub, spoke
}

// controllerKubeconfig gives the controller the rights that it has on a real hub, and no more.
func controllerKubeconfig(ctx context.Context, t *testing.T, hub *harness.ControlPlane) string {
	t.Helper()
	token, err := hub.ServiceAccountToken(ctx, ocmhub.HubNamespace, ocmhub.ControllerServiceAccount, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, kubeconfig(t, hub.URL(), hub.CAData(), token), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// klusterletManifests is what upstream's importer would apply, with the address and CA that OCM finds in cluster-info.
func klusterletManifests(ctx context.Context, t *testing.T, hub *rest.Config) [][]byte {
	t.Helper()
	client := must(kubernetes.NewForConfig(hub))(t)
	url := must(sdkhelpers.GetAPIServer(client))(t)
	ca := must(sdkhelpers.GetCACert(client))(t)
	token, err := client.CoreV1().ServiceAccounts(ocmhub.OperatorNamespace).
		CreateToken(ctx, ocmhub.BootstrapServiceAccount, tokenRequest(), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	crds, objects, err := chart.RenderKlusterletChart(ctx, &chart.KlusterletChartConfig{
		ReplicaCount:    1,
		CreateNamespace: true,
		Klusterlet: chart.KlusterletConfig{
			Create: true, ClusterName: clusterName,
			ResourceRequirement: &operatorv1.ResourceRequirement{Type: operatorv1.ResourceQosClassDefault},
		},
		BootstrapHubKubeConfig: string(kubeconfig(t, url, ca, token.Status.Token)),
	}, importNamespace)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(crds, objects)
}

func kubeconfig(t *testing.T, url string, ca []byte, token string) []byte {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["hub"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	config.AuthInfos["account"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["hub"] = &clientcmdapi.Context{Cluster: "hub", AuthInfo: "account"}
	config.CurrentContext = "hub"
	return must(clientcmd.Write(*config))(t)
}

func manifestWork() *workv1.ManifestWork {
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Name: "work"}}
	manifest := workv1.Manifest{}
	manifest.Object = &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "from-the-hub"},
	}
	work.Spec.Workload.Manifests = []workv1.Manifest{manifest}
	return work
}

func replaceAgentPod(ctx context.Context, t *testing.T, client kubernetes.Interface) {
	t.Helper()
	pods := client.CoreV1().Pods(importNamespace)
	selector := metav1.ListOptions{LabelSelector: "app=klusterlet-agent"}
	before, err := pods.List(ctx, selector)
	if err != nil || len(before.Items) != 1 {
		t.Fatalf("want one agent pod: %d, %v", len(before.Items), err)
	}
	if err := pods.Delete(ctx, before.Items[0].Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, time.Minute, "agent pod replaced", func(ctx context.Context) (bool, error) {
		now, err := pods.List(ctx, selector)
		if err != nil || len(now.Items) != 1 || now.Items[0].UID == before.Items[0].UID {
			return false, err
		}
		return slices.ContainsFunc(now.Items[0].Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		}), nil
	})
}

func eventually(ctx context.Context, t *testing.T, timeout time.Duration, what string, f wait.ConditionWithContextFunc) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		var ok bool
		ok, last = f(ctx)
		return ok, nil
	})
	if err != nil {
		t.Fatalf("%s: not within %s: %v", what, timeout, last)
	}
}

func dumpLogs(t *testing.T, dir string) {
	t.Helper()
	if !t.Failed() {
		return
	}
	keep, err := os.MkdirTemp("", "ocmhub-join-logs-")
	if err != nil {
		t.Log(err)
		return
	}
	_ = os.CopyFS(keep, os.DirFS(dir))
	t.Logf("logs: %s", keep)
}

// must turns a pair of value and error into a value, or ends the test.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func tokenRequest() *authenticationv1.TokenRequest {
	return &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](24 * 3600)}}
}
