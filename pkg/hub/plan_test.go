// Copyright Contributors to the Open Cluster Management project

package hub

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"
	"open-cluster-management.io/ocm/pkg/operator/helpers/chart"
	"open-cluster-management.io/ocm/pkg/registration/hub/importer"
	importeroptions "open-cluster-management.io/ocm/pkg/registration/hub/importer/options"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
)

// configured is a renderer that changes the configuration.
func configured(edit func(*chart.KlusterletChartConfig)) importer.KlusterletConfigRenderer {
	return func(_ context.Context, _ *clusterv1.ManagedCluster, config *chart.KlusterletChartConfig) (*chart.KlusterletChartConfig, error) {
		edit(config)
		return config, nil
	}
}

func failingRenderer(context.Context, *clusterv1.ManagedCluster, *chart.KlusterletChartConfig) (*chart.KlusterletChartConfig, error) {
	return nil, errors.New("no token")
}

func mustPlan(t *testing.T, renderers []importer.KlusterletConfigRenderer) *kubeconfig.Plan {
	t.Helper()
	planned, err := plan(renderers)(t.Context(), testCluster())
	if err != nil {
		t.Fatal(err)
	}
	return planned
}

// planned returns kind, namespace and name of the objects of a plan, sorted: all but the first come in random order.
func planned(p *kubeconfig.Plan) []string {
	var result []string
	for _, object := range p.Objects {
		result = append(result, strings.Replace(object.GetKind()+" "+object.GetNamespace()+"/"+object.GetName(), " /", " ", 1))
	}
	slices.Sort(result)
	return result
}

func find(t *testing.T, p *kubeconfig.Plan, kind string) *unstructured.Unstructured {
	t.Helper()
	for _, object := range p.Objects {
		if object.GetKind() == kind {
			return object
		}
	}
	t.Fatalf("no %s is planned", kind)
	return nil
}

func TestPlan(t *testing.T) {
	const (
		crd        = "CustomResourceDefinition klusterlets.operator.open-cluster-management.io"
		namespace  = "Namespace open-cluster-management-agent"
		klusterlet = "Klusterlet klusterlet"
		bootstrap  = "Secret open-cluster-management-agent/bootstrap-hub-kubeconfig"
		pull       = "Secret open-cluster-management-agent/open-cluster-management-image-pull-credentials"
	)
	operator := []string{
		"ClusterRole klusterlet", "ClusterRoleBinding klusterlet", "ServiceAccount open-cluster-management-agent/klusterlet",
		"Deployment open-cluster-management-agent/klusterlet",
	}
	cases := []struct {
		name    string
		objects []runtime.Object
		want    []string
	}{
		{name: "what OCM knows", want: append([]string{crd, namespace, klusterlet, bootstrap}, operator...)},
		{name: "with a pull Secret", objects: []runtime.Object{pullSecret},
			want: append([]string{crd, namespace, klusterlet, bootstrap, pull}, operator...)},
		{name: "without an operator", objects: []runtime.Object{configSecret("noOperator: true")},
			want: []string{crd, namespace, klusterlet, bootstrap}},
		{name: "without a namespace", objects: []runtime.Object{configSecret("createNamespace: false")},
			want: append([]string{crd, klusterlet, bootstrap}, operator...)},
		{name: "with agents elsewhere", objects: []runtime.Object{configSecret("klusterlet: {namespace: agents}")},
			want: append([]string{crd, namespace, "Namespace agents", klusterlet, "Secret agents/bootstrap-hub-kubeconfig"}, operator...)},
		{name: "with a priority", objects: []runtime.Object{configSecret("priorityClassName: high")},
			want: append([]string{crd, namespace, klusterlet, bootstrap, "PriorityClass high"}, operator...)},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			built, err := newRenderers(t, []string{importeroptions.RenderAuto, importeroptions.RenderFromConfigSecret}, nil, c.objects...)
			if err != nil {
				t.Fatal(err)
			}
			p := mustPlan(t, built)
			slices.Sort(c.want)
			if diff := cmp.Diff(c.want, planned(p)); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
			for _, object := range p.Objects {
				if object.GetAPIVersion() == "" {
					t.Errorf("%s has no version", object.GetKind())
				}
			}
			if p.Hub.Server != "https://hub.example.com" {
				t.Errorf("the hub is %s", p.Hub.Server)
			}
			// What an import writes is the same for each attempt.
			if diff := cmp.Diff(planned(p), planned(mustPlan(t, built))); diff != "" {
				t.Errorf("another plan (-first +second):\n%s", diff)
			}
		})
	}
}

// The values that the importer starts with. Some of them are defaults of the chart as well, which a renderer may look for.
func TestPlanStartsAsTheImporterDoes(t *testing.T) {
	var got chart.KlusterletChartConfig
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	p, err := plan([]importer.KlusterletConfigRenderer{configured(func(c *chart.KlusterletChartConfig) { got = *c })})(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	want := chart.KlusterletChartConfig{
		ReplicaCount: 1, CreateNamespace: true,
		Klusterlet: chart.KlusterletConfig{
			Create: true, ClusterName: "east",
			ResourceRequirement: &operatorv1.ResourceRequirement{Type: operatorv1.ResourceQosClassDefault},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
	name, _, _ := unstructured.NestedString(find(t, p, "Klusterlet").Object, "spec", "clusterName")
	if name != "east" {
		t.Errorf("the klusterlet is that of %q", name)
	}
	if p.Objects[0].GetKind() != "CustomResourceDefinition" || p.Objects[1].GetKind() != "Namespace" {
		t.Errorf("first come %s and %s", p.Objects[0].GetKind(), p.Objects[1].GetKind())
	}
}

func TestPlanHasNoSecrets(t *testing.T) {
	values := configSecret("grpcConfig: grpc-credential\nexternalManagedKubeConfig: external-credential\n")
	built, err := newRenderers(t, []string{importeroptions.RenderAuto, importeroptions.RenderFromConfigSecret}, nil, pullSecret, values)
	if err != nil {
		t.Fatal(err)
	}
	var config string
	built = append(built, configured(func(c *chart.KlusterletChartConfig) { config = c.BootstrapHubKubeConfig }))
	p := mustPlan(t, built)
	if !strings.Contains(config, "minted") {
		t.Fatalf("no token is in the bootstrap kubeconfig: %s", config)
	}
	secrets := 0
	for _, object := range p.Objects {
		if object.GetKind() == "Secret" {
			secrets++
			for _, key := range []string{"data", "stringData"} {
				if _, found := object.Object[key]; found {
					t.Errorf("Secret %s has %s", object.GetName(), key)
				}
			}
		}
		text, err := object.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range []string{config, "minted", "grpc-credential", "external-credential", "s3nt1nel-pull", string(pullSecret.Data[".dockerconfigjson"])} {
			if strings.Contains(string(text), value) || strings.Contains(string(text), base64.StdEncoding.EncodeToString([]byte(value))) {
				t.Errorf("%s %s holds %s", object.GetKind(), object.GetName(), value)
			}
		}
	}
	if secrets != 3 {
		t.Errorf("%d Secrets", secrets)
	}
}

func TestHubOfAPlan(t *testing.T) {
	rendered := func(kubeconfig string) importer.KlusterletConfigRenderer {
		return configured(func(config *chart.KlusterletChartConfig) { config.BootstrapHubKubeConfig = kubeconfig })
	}
	unchanged := configured(func(*chart.KlusterletChartConfig) {})
	const first = "clusters: [{name: hub, cluster: {server: https://first.example.com, certificate-authority-data: Zmlyc3Q=}}]"
	const second = "clusters: [{name: hub, cluster: {server: https://second.example.com}}]"
	cases := []struct {
		name      string
		renderers []importer.KlusterletConfigRenderer
		want      kubeconfig.HubIdentity
	}{
		{name: "none"},
		{
			name: "one", renderers: []importer.KlusterletConfigRenderer{rendered(first), unchanged},
			want: kubeconfig.HubIdentity{Server: "https://first.example.com", CAData: []byte("first")},
		},
		{
			name: "the last counts", renderers: []importer.KlusterletConfigRenderer{rendered(first), rendered(second)},
			want: kubeconfig.HubIdentity{Server: "https://second.example.com"},
		},
		{name: "not a kubeconfig", renderers: []importer.KlusterletConfigRenderer{rendered("mine")}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, mustPlan(t, c.renderers).Hub); diff != "" {
				t.Errorf("hub (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPlanFails(t *testing.T) {
	// Without a name, which the template of its Secret needs.
	nameless := configured(func(config *chart.KlusterletChartConfig) {
		config.BootstrapHubKubeConfig = "s3nt1nel"
		config.MultiHubBootstrapHubKubeConfigs = []chart.BootStrapKubeConfig{{KubeConfig: "s3nt1nel"}}
	})
	broken := configured(func(config *chart.KlusterletChartConfig) {
		config.BootstrapHubKubeConfig = "s3nt1nel"
		config.Klusterlet.ClusterName = `"s3nt1nel`
	})
	onHub, err := newRenderers(t, []string{importeroptions.RenderFromConfigSecret}, nil)
	if err != nil {
		t.Fatal(err)
	}
	cases := []struct {
		name      string
		renderers []importer.KlusterletConfigRenderer
		want      string // what the error begins with
		is        func(error) bool
	}{
		{name: "renderer", renderers: []importer.KlusterletConfigRenderer{failingRenderer},
			want: "rendering the configuration of the klusterlet: no token"},
		{name: "renderer of OCM", renderers: onHub, want: "rendering the configuration of the klusterlet: ", is: apierrors.IsNotFound},
		{name: "template", renderers: []importer.KlusterletConfigRenderer{nameless}, want: "rendering the klusterlet: "},
		{name: "manifest", renderers: []importer.KlusterletConfigRenderer{broken}, want: "rendering the klusterlet: "},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var logged strings.Builder
			logger := funcr.New(func(prefix, args string) { logged.WriteString(prefix + args) }, funcr.Options{Verbosity: 10})
			planned, err := plan(c.renderers)(klog.NewContext(t.Context(), logger), testCluster())
			if planned != nil || err == nil || !strings.HasPrefix(err.Error(), c.want) || c.is != nil && !c.is(err) {
				t.Fatalf("got %v, %v, want %s", planned, err, c.want)
			}
			// The preflight logs the error, and the chart what it renders.
			if strings.Contains(err.Error(), "s3nt1nel") || logged.Len() > 0 {
				t.Errorf("the error is %v, the log %s", err, logged.String())
			}
		})
	}
}
