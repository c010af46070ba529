// Copyright Contributors to the Open Cluster Management project

package fleet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/test/fleet"
)

func add(t *testing.T, o fleet.Options, behaviour fleet.Behaviour) *fleet.Cluster {
	t.Helper()
	clusters := fleet.New(o)
	t.Cleanup(clusters.Stop)
	return must(clusters.Add(t.Context(), "cluster", behaviour))(t)
}

// must is for what fails only if a test is wrong.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// Clients of Kubernetes send protobuf where they can, and JSON else.
func TestObjects(t *testing.T) {
	config := add(t, fleet.Options{}, fleet.Healthy).Config()
	inJSON := rest.CopyConfig(config)
	inJSON.ContentType = "application/json"
	for name, config := range map[string]*rest.Config{"protobuf": config, "json": inJSON} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			kube := must(kubernetes.NewForConfig(config))(t)
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"k": "v"}}
			if _, err := kube.CoreV1().Secrets(name).Create(ctx, secret, metav1.CreateOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("in a namespace that there is not: %v", err)
			}
			must(kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
			secrets := kube.CoreV1().Secrets(name)
			must(secrets.Create(ctx, secret, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}}))(t)
			first := must(secrets.Create(ctx, secret, metav1.CreateOptions{}))(t)
			if first.UID == "" || first.ResourceVersion == "" || first.CreationTimestamp.IsZero() {
				t.Errorf("created as %+v", first.ObjectMeta)
			}
			if first.Type != corev1.SecretTypeOpaque || string(first.Data["k"]) != "v" {
				t.Errorf("type %s, data %v", first.Type, first.Data)
			}
			if _, err := secrets.Create(ctx, secret, metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
				t.Errorf("created again: %v", err)
			}
			if same := must(secrets.Update(ctx, first, metav1.UpdateOptions{}))(t); same.ResourceVersion != first.ResourceVersion {
				t.Error("an update without a change makes a version")
			}
			second := first.DeepCopy()
			second.Data["k"] = []byte("w")
			must(secrets.Update(ctx, second, metav1.UpdateOptions{}))(t)
			if _, err := secrets.Update(ctx, first, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				t.Errorf("updated by an old version: %v", err)
			}
			if list := must(secrets.List(ctx, metav1.ListOptions{}))(t); len(list.Items) != 1 || string(list.Items[0].Data["k"]) != "w" {
				t.Errorf("list: %v", list.Items)
			}
			if err := secrets.Delete(ctx, "s", metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			if _, err := secrets.Get(ctx, "s", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				t.Errorf("deleted and found: %v", err)
			}
		})
	}
}

func TestListByLabel(t *testing.T) {
	ctx := t.Context()
	pods := must(kubernetes.NewForConfig(add(t, fleet.Options{}, fleet.Healthy).Config()))(t).CoreV1().Pods("default")
	for _, name := range []string{"a", "b"} {
		must(pods.Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}}, metav1.CreateOptions{}))(t)
	}
	list := must(pods.List(ctx, metav1.ListOptions{LabelSelector: "app in (b,c)"}))(t)
	if len(list.Items) != 1 || list.Items[0].Name != "b" {
		t.Errorf("list: %v", list.Items)
	}
}

func TestDiscovery(t *testing.T) {
	client := must(discovery.NewDiscoveryClientForConfig(add(t, fleet.Options{}, fleet.Healthy).Config()))(t)
	must(client.ServerVersion())(t)
	_, lists, err := client.ServerGroupsAndResources()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(lists, func(list *metav1.APIResourceList) bool { return list.GroupVersion == "apps/v1" }) {
		t.Errorf("no apps/v1 in %v", lists)
	}
}

// thing is a CustomResourceDefinition of a kind with a default.
func thing() *apiextensionsv1.CustomResourceDefinition {
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
						"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
							"mode": {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"plain"`)}},
						}},
					},
				}},
			}},
		},
	}
}

func TestCustomResources(t *testing.T) {
	const delay, hold = 300 * time.Millisecond, 400 * time.Millisecond
	ctx := t.Context()
	config := add(t, fleet.Options{EstablishedDelay: delay, CreateHold: hold}, fleet.Healthy).Config()
	crds := must(apiextensionsclient.NewForConfig(config))(t).ApiextensionsV1().CustomResourceDefinitions()
	things := must(dynamic.NewForConfig(config))(t).Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"})
	object := func(name string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": name}, "spec": map[string]any{},
		}}
	}
	started := time.Now()
	must(crds.Create(ctx, thing(), metav1.CreateOptions{}))(t)
	if _, err := things.Apply(ctx, "a", object("a"), metav1.ApplyOptions{FieldManager: "test"}); !apierrors.IsNotFound(err) {
		t.Errorf("served at once: %v", err)
	}
	var applied *unstructured.Unstructured
	for err := error(nil); applied == nil; applied, err = things.Apply(ctx, "a", object("a"), metav1.ApplyOptions{FieldManager: "test"}) {
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		if time.Since(started) > 10*time.Second {
			t.Fatal("not served in ten seconds")
		}
		time.Sleep(10 * time.Millisecond) // between two looks
	}
	if took := time.Since(started); took < delay {
		t.Errorf("established after %s", took)
	}
	if mode, _, _ := unstructured.NestedString(applied.Object, "spec", "mode"); mode != "plain" {
		t.Errorf("without its default: %v", applied.Object)
	}
	crd := must(crds.Get(ctx, "things.example.com", metav1.GetOptions{}))(t)
	if len(crd.Status.Conditions) != 2 || crd.Status.AcceptedNames.Kind != "Thing" {
		t.Errorf("status %+v", crd.Status)
	}
	// A create is held back, an apply was not.
	began := time.Now()
	must(things.Create(ctx, object("b"), metav1.CreateOptions{}))(t)
	if took := time.Since(began); took < hold {
		t.Errorf("created after %s", took)
	}
	changed := object("a")
	changed.Object["spec"] = map[string]any{"mode": "fancy"}
	applied = must(things.Apply(ctx, "a", changed, metav1.ApplyOptions{FieldManager: "test"}))(t)
	if applied.GetGeneration() != 2 {
		t.Errorf("generation %d", applied.GetGeneration())
	}
}

func TestBehaviours(t *testing.T) {
	isTimeout := func(_ answer, err error) bool {
		var netErr net.Error
		return errors.As(err, &netErr) && netErr.Timeout()
	}
	hasCode := func(code int) func(answer, error) bool {
		return func(got answer, err error) bool { return err == nil && got.code == code }
	}
	for behaviour, expected := range map[fleet.Behaviour]func(answer, error) bool{
		fleet.Healthy:          hasCode(http.StatusOK),
		fleet.HangsAfterAccept: isTimeout,
		fleet.HangsAfterTLS:    isTimeout,
		fleet.Resets:           func(_ answer, err error) bool { return errors.Is(err, syscall.ECONNRESET) },
		fleet.Refuses:          func(_ answer, err error) bool { return errors.Is(err, syscall.ECONNREFUSED) },
		fleet.Unauthorized:     hasCode(http.StatusUnauthorized),
		fleet.Forbidden:        hasCode(http.StatusForbidden),
		fleet.Throttles: func(got answer, err error) bool {
			return hasCode(http.StatusTooManyRequests)(got, err) && got.retryAfter != ""
		},
		fleet.Endless: func(_ answer, err error) bool { return errors.Is(err, errEndless) },
		fleet.WrongCA: func(_ answer, err error) bool {
			return err != nil && strings.Contains(err.Error(), "signed by unknown authority")
		},
	} {
		t.Run(string(behaviour), func(t *testing.T) {
			if behaviour != fleet.Healthy && !slices.Contains(fleet.Dead, behaviour) {
				t.Error("not one of the dead")
			}
			cluster := add(t, fleet.Options{}, behaviour)
			got, err := getVersion(t.Context(), cluster.Config())
			if !expected(got, err) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

var errEndless = errors.New("the body does not end")

// answer is what of an answer the tests look at.
type answer struct {
	code       int
	retryAfter string
}

// getVersion returns the answer, whose body was read, or why there is none.
func getVersion(ctx context.Context, config *rest.Config) (answer, error) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return answer{}, err
	}
	defer client.CloseIdleConnections()
	client.Timeout = time.Second
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+"/version", http.NoBody)
	if err != nil {
		return answer{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	const most = 8 << 20
	n, err := io.Copy(io.Discard, io.LimitReader(resp.Body, most))
	if n == most {
		err = errEndless
	}
	return answer{code: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After")}, err
}

func TestSlow(t *testing.T) {
	cluster := add(t, fleet.Options{Latency: fleet.Latency{Median: 200 * time.Millisecond}}, fleet.Slow)
	started := time.Now()
	if _, err := getVersion(t.Context(), cluster.Config()); err != nil {
		t.Error(err)
	}
	if took := time.Since(started); took < 200*time.Millisecond {
		t.Errorf("answered after %s", took)
	}
}

func TestCredentials(t *testing.T) {
	var lock sync.Mutex
	var codes []int
	clusters := fleet.New(fleet.Options{Observe: func(r fleet.Request) {
		lock.Lock()
		defer lock.Unlock()
		codes = append(codes, r.Code)
	}})
	t.Cleanup(clusters.Stop)
	first := must(clusters.Add(t.Context(), "first", fleet.Healthy))(t)
	second := must(clusters.Add(t.Context(), "second", fleet.Healthy))(t)
	if first.UID() == second.UID() || first.URL() == second.URL() {
		t.Error("two clusters are one")
	}
	config := first.Config()
	config.BearerToken = second.Config().BearerToken
	if got := must(getVersion(t.Context(), config))(t); got.code != http.StatusUnauthorized {
		t.Errorf("the token of another cluster: %d", got.code)
	}
	config.CAData = second.CAData()
	if _, err := getVersion(t.Context(), config); err == nil {
		t.Error("the CA of another cluster is accepted")
	}
	if clusters.Connections() != 2 {
		t.Errorf("%d connections", clusters.Connections())
	}
	lock.Lock()
	defer lock.Unlock()
	if !slices.Equal(codes, []int{http.StatusUnauthorized}) {
		t.Errorf("observed %v", codes)
	}
}

func TestChanges(t *testing.T) {
	codes := make(chan int, 1)
	clusters := fleet.New(fleet.Options{Observe: func(r fleet.Request) { codes <- r.Code }})
	t.Cleanup(clusters.Stop)
	cluster := must(clusters.Add(t.Context(), "cluster", fleet.Healthy))(t)
	before := cluster.Config()
	expect := func(config *rest.Config, want int) {
		t.Helper()
		if got, err := getVersion(t.Context(), config); err == nil != (want > 0) || want > 0 && got.code != want {
			t.Errorf("%+v, %v, want %d", got, err, want)
		}
		if code := <-codes; code != want {
			t.Errorf("observed %d, want %d", code, want)
		}
	}
	expect(before, http.StatusOK)
	cluster.Rotate()
	expect(before, http.StatusUnauthorized)
	expect(cluster.Config(), http.StatusOK)
	// Half an answer is none.
	cluster.SetBehaviour(fleet.Resets)
	expect(cluster.Config(), 0)
	cluster.SetBehaviour(fleet.Forbidden)
	expect(cluster.Config(), http.StatusForbidden)
	cluster.SetBehaviour(fleet.Healthy)
	expect(cluster.Config(), http.StatusOK)
	clusters.Remove(cluster)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(cluster.URL(), "https://"))
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("removed: %v, %v", conn, err)
	}
}
