// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"
)

// onCluster answers a path with an object, and all others as an API server that has or serves nothing there.
func onCluster(t *testing.T, objects map[string]any) http.HandlerFunc {
	t.Helper()
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			t.Errorf("the guard sends %s %s", r.Method, r.URL.Path)
		}
		object, found := objects[r.URL.Path]
		switch {
		case found:
			w.Header().Set("Content-Type", "application/json")
			if err := json.NewEncoder(w).Encode(object); err != nil {
				t.Error(err)
			}
		case strings.Contains(r.URL.Path, "/klusterlets/"):
			http.NotFound(w, r)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(notFoundJSON))
		}
	}
}

func TestGuard(t *testing.T) {
	const (
		klusterletPath = "/apis/operator.open-cluster-management.io/v1/klusterlets/klusterlet"
		crdPath        = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/klusterlets.operator.open-cluster-management.io"
		agentPath      = "/api/v1/namespaces/open-cluster-management-agent/secrets/"
		joined         = "hub-kubeconfig-secret"
		bootstrap      = "bootstrap-hub-kubeconfig"
		other          = "https://other.example.com:6443"
	)
	deleted := metav1.NewTime(time.Now())
	klusterlet := func(name string, edits ...func(*operatorv1.Klusterlet)) *operatorv1.Klusterlet {
		k := &operatorv1.Klusterlet{
			TypeMeta: metav1.TypeMeta{APIVersion: operatorv1.GroupVersion.String(), Kind: "Klusterlet"},
			Spec:     operatorv1.KlusterletSpec{ClusterName: name},
		}
		for _, edit := range edits {
			edit(k)
		}
		return k
	}
	knows := func(server, ca string) *corev1.Secret {
		config, err := yaml.Marshal(clientcmdapiv1.Config{Clusters: []clientcmdapiv1.NamedCluster{{
			Cluster: clientcmdapiv1.Cluster{Server: server, CertificateAuthorityData: []byte(ca)},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		return &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, Data: map[string][]byte{"kubeconfig": config}}
	}
	crd := func(deletion *metav1.Time) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{
			TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
			ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: deletion},
		}
	}
	owned := func(server, name string) string {
		return "OwnedByAnotherHub: the cluster has a klusterlet of hub " + server + ", where its name is " + name + "; delete that klusterlet, " +
			"or set annotation import.open-cluster-management.io/takeover of the ManagedCluster to " + server + " to replace it"
	}
	const leftovers = "; wait, or see what keeps it on the cluster; the import is tried again"

	cases := []struct {
		name     string
		objects  map[string]any
		takeover string
		want     string // none: the import may go on
	}{
		{name: "fresh"},
		{name: "CRD without a Klusterlet", objects: map[string]any{crdPath: crd(nil)}},
		{name: "Klusterlet that knows no hub", objects: map[string]any{klusterletPath: klusterlet("c1")}},
		{name: "this hub", objects: map[string]any{klusterletPath: klusterlet("c1"), agentPath + joined: knows(testHub, "x")}},
		{name: "this hub, not joined", objects: map[string]any{klusterletPath: klusterlet("c1"), agentPath + bootstrap: knows(testHub, "x")}},
		{name: "this hub by another address", objects: map[string]any{klusterletPath: klusterlet("c1"), agentPath + joined: knows(other, "hub CA\n")}},
		{
			name:    "another hub",
			objects: map[string]any{klusterletPath: klusterlet("c1"), agentPath + joined: knows(other, "x")},
			want:    owned(other, "c1"),
		},
		{
			name:    "another hub, not joined",
			objects: map[string]any{klusterletPath: klusterlet("c1"), agentPath + bootstrap: knows(other, "x")},
			want:    owned(other, "c1"),
		},
		{
			name: "joined another hub, bootstrap of this one",
			objects: map[string]any{
				klusterletPath: klusterlet("c1"), agentPath + joined: knows(other, "x"), agentPath + bootstrap: knows(testHub, "x"),
			},
			want: owned(other, "c1"),
		},
		{
			name: "another hub, in the namespace of the Klusterlet",
			objects: map[string]any{
				klusterletPath: klusterlet("c1", func(k *operatorv1.Klusterlet) { k.Spec.Namespace = "agents" }),
				"/api/v1/namespaces/agents/secrets/" + joined: knows(other, "x"),
			},
			want: owned(other, "c1"),
		},
		{
			name:    "another name on this hub",
			objects: map[string]any{klusterletPath: klusterlet("c2"), agentPath + joined: knows(testHub, "x")},
			want:    owned(testHub, "c2"),
		},
		{
			name:    "another name on no hub",
			objects: map[string]any{klusterletPath: klusterlet("c2")},
			want:    owned("unknown", "c2"),
		},
		{
			name:     "taken over",
			objects:  map[string]any{klusterletPath: klusterlet("c2"), agentPath + joined: knows(other, "x")},
			takeover: other,
		},
		{
			name:     "taken over from yet another",
			objects:  map[string]any{klusterletPath: klusterlet("c1"), agentPath + joined: knows(other, "x")},
			takeover: "https://third.example.com",
			want:     owned(other, "c1"),
		},
		{
			name: "hostile texts",
			objects: map[string]any{
				klusterletPath:     klusterlet(sentinel + "\n"),
				agentPath + joined: knows("https://"+strings.Repeat("y", 200), "x"),
			},
			want: owned("unknown", "unknown"),
		},
		{
			name:    "Klusterlet being deleted",
			objects: map[string]any{klusterletPath: klusterlet("c1", func(k *operatorv1.Klusterlet) { k.DeletionTimestamp = &deleted })},
			want:    "Leftovers: the klusterlet of an earlier import is being deleted" + leftovers,
		},
		{
			name:    "CRD being deleted",
			objects: map[string]any{crdPath: crd(&deleted)},
			want:    "Leftovers: the CustomResourceDefinition of Klusterlets is being deleted" + leftovers,
		},
		{
			name:    "not what was asked for",
			objects: map[string]any{klusterletPath: knows(testHub, sentinel)},
			want:    "NotKubernetes: the server does not answer like a Kubernetes API server; correct the server of the kubeconfig",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			_, config := startSpoke(t, onCluster(t, c.objects))
			cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1", Annotations: map[string]string{}}}
			if c.takeover != "" {
				cluster.Annotations[AnnotationTakeover] = c.takeover
			}
			ctx, _ := testContext(t)
			got := ""
			if err := f.provider.guard(ctx, mustConnect(t, config, patient()), cluster); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}

	t.Run("the hub's own address cannot be read", func(t *testing.T) {
		f := newFixture(t, func(o *Options) {
			o.Hub = func(context.Context, *clusterv1.ManagedCluster) (HubIdentity, error) {
				return HubIdentity{}, errors.New(sentinel)
			}
		})
		_, config := startSpoke(t, onCluster(t, map[string]any{klusterletPath: klusterlet("c1"), agentPath + joined: knows(other, "x")}))
		ctx, _ := testContext(t)
		err := f.provider.guard(ctx, mustConnect(t, config, patient()), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c1"}})
		var p *problem
		if !errors.As(err, &p) || p.reason != ReasonHubReadFailed || !p.unexpected || strings.Contains(p.Error(), sentinel) {
			t.Errorf("got %v", err)
		}
	})
}

func TestTerminatingNamespaceIsWaitedFor(t *testing.T) {
	_, config := startSpoke(t, onCluster(t, map[string]any{"/api/v1/namespaces/open-cluster-management-agent": &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		Status:   corev1.NamespaceStatus{Phase: corev1.NamespaceTerminating},
	}}))
	ctx, _ := testContext(t)
	var p *problem
	if err := mustConnect(t, config, patient()).preflight(ctx); !errors.As(err, &p) || p.reason != ReasonLeftovers {
		t.Errorf("got %v", err)
	}
}
