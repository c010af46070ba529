// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"errors"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	"open-cluster-management.io/ocm/pkg/operator/helpers/chart"
	"open-cluster-management.io/ocm/pkg/registration/hub/importer"
	importeroptions "open-cluster-management.io/ocm/pkg/registration/hub/importer/options"
)

// kubeconfigSecret is an import Secret whose kubeconfig has a line more in its cluster.
func kubeconfigSecret(clusterLine string) *corev1.Secret {
	return &corev1.Secret{Data: map[string][]byte{"kubeconfig": []byte(`apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: c}}]
users: [{name: c, user: {token: token}}]
clusters:
- name: c
  cluster:
    server: https://api.example.com:6443
    ` + clusterLine + "\n")}}
}

// pullSecret is what the hub pulls images with.
var pullSecret = &corev1.Secret{
	ObjectMeta: metav1.ObjectMeta{Namespace: "hub-namespace", Name: "open-cluster-management-image-pull-credentials"},
	Data:       map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"registry.example.com":{"auth":"s3nt1nel-pull"}}}`)},
}

func configSecret(values string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "cluster1", Name: "cluster-import-config"},
		Data:       map[string][]byte{"values.yaml": []byte(values)},
	}
}

// newRenderers returns OCM's renderers of the names on a hub that has the objects.
func newRenderers(t *testing.T, names []string, prepare func(*kubefake.Clientset), objects ...runtime.Object) ([]importer.KlusterletConfigRenderer, error) {
	t.Helper()
	client := kubefake.NewClientset(objects...)
	client.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if action.GetSubresource() != "token" {
			return false, nil, nil
		}
		return true, &authenticationv1.TokenRequest{Status: authenticationv1.TokenRequestStatus{Token: "minted"}}, nil
	})
	if prepare != nil {
		prepare(client)
	}
	o := importeroptions.New()
	o.APIServerURL, o.AgentImage, o.ImporterRenderers = "https://hub.example.com", "registry.example.com/ocm/registration-operator:v1", names
	before := *o
	built, err := renderers(o, client, "hub-namespace")
	if err == nil && (o.ImporterRenderers[0] != before.ImporterRenderers[0] || len(o.ImporterRenderers) != len(names)) {
		t.Error("the options are changed")
	}
	return built, err
}

func testCluster() *clusterv1.ManagedCluster {
	return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster1"}}
}

func render(t *testing.T, names []string, prepare func(*kubefake.Clientset), objects ...runtime.Object) (*chart.KlusterletChartConfig, error) {
	t.Helper()
	built, err := newRenderers(t, names, prepare, objects...)
	if err != nil {
		return nil, err
	}
	config := &chart.KlusterletChartConfig{ReplicaCount: 1, Klusterlet: chart.KlusterletConfig{ClusterName: "cluster1"}}
	for _, renderer := range built {
		if config, err = renderer(t.Context(), testCluster(), config); err != nil {
			return nil, err
		}
		if config == nil {
			t.Fatal("a renderer returns no configuration")
		}
	}
	return config, nil
}

func TestRenderers(t *testing.T) {
	const auto, own = importeroptions.RenderAuto, importeroptions.RenderFromConfigSecret
	unavailable := func(client *kubefake.Clientset) {
		client.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, errors.New("the hub fails")
		})
	}
	values := configSecret("replicaCount: 3\nbootstrapHubKubeConfig: of-the-cluster\n")
	cases := []struct {
		name    string
		names   []string
		objects []runtime.Object
		prepare func(*kubefake.Clientset)
		want    func(*chart.KlusterletChartConfig) string // what is wrong
		wantErr func(error) bool
	}{
		{
			name:  "what OCM knows, without a Secret of the cluster",
			names: []string{auto, own},
			want: func(c *chart.KlusterletChartConfig) string {
				if !strings.Contains(c.BootstrapHubKubeConfig, "https://hub.example.com") || !strings.Contains(c.BootstrapHubKubeConfig, "minted") {
					return "bootstrap kubeconfig " + c.BootstrapHubKubeConfig
				}
				if c.Images.Registry == "" && c.Images.Overrides.OperatorImage == "" {
					return "image"
				}
				if c.ReplicaCount != 1 || c.Klusterlet.ClusterName != "cluster1" {
					return "what was there is lost"
				}
				return ""
			},
		},
		{
			name:    "what a cluster has of its own is put over it",
			names:   []string{auto, own},
			objects: []runtime.Object{values, pullSecret},
			want: func(c *chart.KlusterletChartConfig) string {
				if c.BootstrapHubKubeConfig != "of-the-cluster" || c.ReplicaCount != 3 {
					return "not over it"
				}
				if c.Images.Overrides.OperatorImage == "" && c.Images.Registry == "" || !c.Images.ImageCredentials.CreateImageCredentials {
					return "the rest is lost"
				}
				return ""
			},
		},
		{
			name:    "in the other order, what OCM knows is put over the cluster's own",
			names:   []string{own, auto},
			objects: []runtime.Object{values},
			want: func(c *chart.KlusterletChartConfig) string {
				if !strings.Contains(c.BootstrapHubKubeConfig, "minted") || c.ReplicaCount != 3 {
					return "order"
				}
				return ""
			},
		},
		{name: "in the other order, the Secret is required", names: []string{own, auto}, wantErr: apierrors.IsNotFound},
		{name: "alone, the Secret is required", names: []string{own}, wantErr: apierrors.IsNotFound},
		{
			name:    "alone",
			names:   []string{own},
			objects: []runtime.Object{values},
			want: func(c *chart.KlusterletChartConfig) string {
				if c.BootstrapHubKubeConfig != "of-the-cluster" || c.Klusterlet.ClusterName != "cluster1" {
					return "not rendered"
				}
				return ""
			},
		},
		{name: "malformed", names: []string{auto, own}, objects: []runtime.Object{configSecret("replicaCount: [")}, wantErr: contains("is invalid")},
		{name: "empty", names: []string{auto, own}, objects: []runtime.Object{configSecret("")}, wantErr: contains("no values found")},
		{name: "unreadable", names: []string{auto, own}, prepare: unavailable, wantErr: contains("the hub fails")},
		{name: "unknown", names: []string{auto, "x"}, wantErr: contains("building renderer x: ")},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			config, err := render(t, c.names, c.prepare, c.objects...)
			if c.wantErr != nil {
				if err == nil || !c.wantErr(err) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if problem := c.want(config); problem != "" {
				t.Error(problem)
			}
		})
	}
}

func contains(text string) func(error) bool {
	return func(err error) bool { return strings.Contains(err.Error(), text) }
}

// Only the absence of the Secret is no error, and it changes nothing.
func TestIfSecretExists(t *testing.T) {
	config := &chart.KlusterletChartConfig{ReplicaCount: 7}
	for _, c := range []struct {
		err  error
		want *chart.KlusterletChartConfig
	}{
		{apierrors.NewNotFound(corev1.Resource("secrets"), "x"), config},
		{apierrors.NewForbidden(corev1.Resource("secrets"), "x", nil), nil},
	} {
		renderer := ifSecretExists(func(context.Context, *clusterv1.ManagedCluster, *chart.KlusterletChartConfig) (*chart.KlusterletChartConfig, error) {
			return nil, c.err
		})
		got, err := renderer(t.Context(), nil, config)
		if got != c.want || (err == nil) != (c.want != nil) {
			t.Errorf("%v: got %v, %v", c.err, got, err)
		}
	}
}
