// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"encoding/base64"
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

// onCluster is the API server of a cluster that has some objects, each at its path.
func onCluster(t *testing.T, objects map[string]any) http.HandlerFunc {
	t.Helper()
	overrides := map[string]http.HandlerFunc{}
	for path, object := range objects {
		body, err := json.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		overrides[path] = answer(http.StatusOK, string(body))
	}
	handler := apiServer(overrides)
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.URL.Path != reviewPath {
			t.Errorf("the guard sends %s %s", r.Method, r.URL.Path)
		}
		handler(w, r)
	}
}

func TestGuard(t *testing.T) {
	const (
		joined    = agentPath + "/secrets/hub-kubeconfig-secret"
		bootstrap = agentPath + "/secrets/bootstrap-hub-kubeconfig"
		other     = "https://other.example.com:6443"
	)
	deleted := metav1.NewTime(time.Now())
	klusterlet := func(name string, edits ...func(*operatorv1.Klusterlet)) *operatorv1.Klusterlet {
		k := klusterletObject(edits...)
		k.Spec.ClusterName = name
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
	agents := func(phase corev1.NamespacePhase) *corev1.Namespace {
		return &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, Status: corev1.NamespaceStatus{Phase: phase}}
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
		{name: "namespace without a Klusterlet", objects: map[string]any{agentPath: agents(corev1.NamespaceActive)}},
		{
			name:    "namespace being deleted",
			objects: map[string]any{agentPath: agents(corev1.NamespaceTerminating)},
			want:    "Leftovers: the namespace open-cluster-management-agent of an earlier import is being deleted" + leftovers,
		},
		{name: "CRD without a Klusterlet", objects: map[string]any{crdPath: crd(nil)}},
		{name: "Klusterlet that knows no hub", objects: map[string]any{klusterletPath: klusterlet("c1")}},
		{name: "this hub", objects: map[string]any{klusterletPath: klusterlet("c1"), joined: knows(testHub, "x")}},
		{name: "this hub, not joined", objects: map[string]any{klusterletPath: klusterlet("c1"), bootstrap: knows(testHub, "x")}},
		{name: "this hub by another address", objects: map[string]any{klusterletPath: klusterlet("c1"), joined: knows(other, "hub CA\n")}},
		{
			name:    "another hub",
			objects: map[string]any{klusterletPath: klusterlet("c1"), joined: knows(other, "x")},
			want:    owned(other, "c1"),
		},
		{
			name:    "another hub, not joined",
			objects: map[string]any{klusterletPath: klusterlet("c1"), bootstrap: knows(other, "x")},
			want:    owned(other, "c1"),
		},
		{
			name: "joined another hub, bootstrap of this one",
			objects: map[string]any{
				klusterletPath: klusterlet("c1"), joined: knows(other, "x"), bootstrap: knows(testHub, "x"),
			},
			want: owned(other, "c1"),
		},
		{
			name: "another hub, in the namespace of the Klusterlet",
			objects: map[string]any{
				klusterletPath: klusterlet("c1", func(k *operatorv1.Klusterlet) { k.Spec.Namespace = "agents" }),
				"/api/v1/namespaces/agents/secrets/hub-kubeconfig-secret": knows(other, "x"),
			},
			want: owned(other, "c1"),
		},
		{
			name:    "another name on this hub",
			objects: map[string]any{klusterletPath: klusterlet("c2"), joined: knows(testHub, "x")},
			want:    owned(testHub, "c2"),
		},
		{
			name:    "another name on no hub",
			objects: map[string]any{klusterletPath: klusterlet("c2")},
			want:    owned("unknown", "c2"),
		},
		{
			name:     "taken over",
			objects:  map[string]any{klusterletPath: klusterlet("c2"), joined: knows(other, "x")},
			takeover: other,
		},
		{
			name:     "taken over from yet another",
			objects:  map[string]any{klusterletPath: klusterlet("c1"), joined: knows(other, "x")},
			takeover: "https://third.example.com",
			want:     owned(other, "c1"),
		},
		{
			name: "hostile texts",
			objects: map[string]any{
				klusterletPath: klusterlet(sentinel + "\n"),
				joined:         knows("https://"+strings.Repeat("y", 200), "x"),
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
	// guarded asks the guard, on the hub of the fixtures, and says how often that hub was asked for.
	guarded := func(t *testing.T, hubErr error, cluster *clusterv1.ManagedCluster, objects map[string]any) (hubAsked int, err error) {
		t.Helper()
		_, config := startSpoke(t, onCluster(t, objects))
		ctx, _ := testContext(t)
		err = guard(ctx, mustConnect(t, config, patient()), cluster, func() (*Plan, error) {
			hubAsked++
			return &Plan{Hub: HubIdentity{Server: testHub, CAData: []byte("hub CA")}}, hubErr
		})
		return hubAsked, err
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			cluster := managedCluster(named("c1"))
			if c.takeover != "" {
				annotated(AnnotationTakeover, c.takeover)(cluster)
			}
			got := ""
			if _, err := guarded(t, nil, cluster, c.objects); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}

	t.Run("the hub's own address cannot be read", func(t *testing.T) {
		_, err := guarded(t, errors.New(sentinel), managedCluster(named("c1")), map[string]any{
			klusterletPath: klusterlet("c1"), joined: knows(other, "x"),
		})
		want := "HubReadFailed: the hub's own address cannot be read; " + reasonInfos[ReasonHubReadFailed].next
		if err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	})
	t.Run("the hub's own address is not needed", func(t *testing.T) {
		if asked, err := guarded(t, errors.New(sentinel), managedCluster(named("c1")), nil); err != nil || asked != 0 {
			t.Errorf("got %v, asked %d times", err, asked)
		}
	})
}

// The preflight has the guard, and gives it the hub of the plan.
func TestPreflightGuards(t *testing.T) {
	kubeconfig := base64.StdEncoding.EncodeToString([]byte(`{"clusters":[{"name":"x","cluster":{"server":"` + testHub + `"}}]}`))
	_, config := startSpoke(t, apiServer(map[string]http.HandlerFunc{
		klusterletPath: answer(http.StatusOK, `{"kind":"Klusterlet","spec":{"clusterName":"`+testCluster+`"}}`),
		agentPath + "/secrets/hub-kubeconfig-secret": answer(http.StatusOK, `{"kind":"Secret","data":{"kubeconfig":"`+kubeconfig+`"}}`),
	}))
	ctx, _ := testContext(t)
	for hub, want := range map[string]Reason{testHub: "", "https://other.example.com": ReasonOwnedByAnotherHub} {
		f := newFixture(t, func(o *Options) {
			o.Plan = func(context.Context, *clusterv1.ManagedCluster) (*Plan, error) {
				return &Plan{Hub: HubIdentity{Server: hub}}, nil
			}
		})
		err := f.provider.preflight(ctx, mustConnect(t, config, patient()), managedCluster())
		var p *problem
		if want == "" && err != nil || want != "" && (!errors.As(err, &p) || p.reason != want) {
			t.Errorf("hub %s: got %v, want %s", hub, err, want)
		}
	}
}
