// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"open-cluster-management.io/ocm/pkg/registration/hub/importer/providers"
)

// requests are those that an import makes, one by each client and more than one by method and path.
func requests(ctx context.Context, clients *providers.Clients) map[string]func() error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "x", Name: "x"}}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "x", "name": "x"},
	}}
	configMaps := clients.DynamicClient.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("x")
	return map[string]func() error{
		"get": func() error {
			_, err := clients.KubeClient.CoreV1().Namespaces().Get(ctx, "x", metav1.GetOptions{})
			return err
		},
		"get deployment": func() error {
			_, err := clients.KubeClient.AppsV1().Deployments("x").Get(ctx, "x", metav1.GetOptions{})
			return err
		},
		"get CRD": func() error {
			_, err := clients.APIExtClient.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, "x", metav1.GetOptions{})
			return err
		},
		"get klusterlet": func() error {
			_, err := clients.OperatorClient.OperatorV1().Klusterlets().Get(ctx, "x", metav1.GetOptions{})
			return err
		},
		"get dynamic": func() error {
			_, err := configMaps.Get(ctx, "x", metav1.GetOptions{})
			return err
		},
		"create": func() error {
			_, err := clients.KubeClient.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
			return err
		},
		"create dynamic": func() error {
			_, err := configMaps.Create(ctx, object, metav1.CreateOptions{})
			return err
		},
		"update": func() error {
			_, err := clients.KubeClient.AppsV1().Deployments("x").Update(ctx, deployment, metav1.UpdateOptions{})
			return err
		},
		"delete": func() error {
			return clients.KubeClient.CoreV1().Namespaces().Delete(ctx, "x", metav1.DeleteOptions{})
		},
		"list": func() error {
			_, err := clients.KubeClient.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
			return err
		},
	}
}

// hostileStatus is what a server may answer to put a text of its own into a condition.
func hostileStatus(code int, reason metav1.StatusReason) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"%[1]s","reason":%[2]q,`+
		`"details":{"name":"%[1]s","kind":"%[1]s","causes":[{"message":"%[1]s","field":"%[1]s"}],"retryAfterSeconds":30},"code":%[3]d}`,
		testToken, reason, code)
}

func TestStatusCodes(t *testing.T) {
	is := func(names ...string) []string { return names }
	cases := []struct {
		code     int
		want     []string // predicates
		wantPost []string // those of a POST where they differ
		wantText string
	}{
		{code: 400, wantText: "the answer is 400 Bad Request"},
		{code: 401, want: is("Unauthorized"), wantText: "Unauthorized: the cluster's API server does not accept the credential; " +
			reasonInfos[ReasonUnauthorized].next},
		{code: 403, want: is("Forbidden"), wantText: "Forbidden: the credential may not do all that an import does; " + reasonInfos[ReasonForbidden].next},
		{code: 404, want: is("NotFound"), wantText: "the answer is 404 Not Found"},
		{code: 405, wantText: "the answer is 405 Method Not Allowed"},
		{code: 409, want: is("Conflict"), wantPost: is("AlreadyExists"), wantText: "the answer is 409 Conflict"},
		{code: 415, wantText: "the answer is 415 Unsupported Media Type"},
		{code: 422, want: is("Invalid"), wantText: "the answer is 422 Unprocessable Entity"},
		{code: 429, want: is("TooManyRequests"), wantText: "ServerFailed: the cluster's API server throttles; " + reasonInfos[ReasonServerFailed].next},
		{code: 500, wantText: "ServerFailed: the cluster's API server answers with an error; " + reasonInfos[ReasonServerFailed].next},
		{code: 503, wantText: "ServerFailed: the cluster's API server answers with an error; " + reasonInfos[ReasonServerFailed].next},
		{code: 302, wantText: "NotKubernetes: the server redirects to another place, which is not followed; " + reasonInfos[ReasonNotKubernetes].next},
		{code: 307, wantText: "NotKubernetes: the server redirects to another place, which is not followed; " + reasonInfos[ReasonNotKubernetes].next},
		{code: 299, wantText: "the answer is 299"},
		{code: 499, wantText: "the answer is 499"},
	}
	predicates := map[string]func(error) bool{
		"NotFound": apierrors.IsNotFound, "AlreadyExists": apierrors.IsAlreadyExists, "Conflict": apierrors.IsConflict,
		"Forbidden": apierrors.IsForbidden, "Unauthorized": apierrors.IsUnauthorized, "Invalid": apierrors.IsInvalid,
		"TooManyRequests": apierrors.IsTooManyRequests, "Gone": apierrors.IsGone, "Expired": apierrors.IsResourceExpired,
	}
	header := []string{
		"Warning", `299 - "` + testToken + `"`, "Location", "https://" + testToken + ".example.com/", "Retry-After", "30",
		"WWW-Authenticate", testToken, "Audit-Id", testToken,
	}
	for _, c := range cases {
		// The reason that a server gives must not count: an apply takes NotFound for the absence of the object.
		for _, body := range []string{hostileStatus(c.code, metav1.StatusReasonNotFound), "<html>" + testToken + "</html>", testToken, ""} {
			t.Run(fmt.Sprintf("%d %.9s", c.code, body), func(t *testing.T) {
				_, config := startSpoke(t, answer(c.code, body, header...))
				ctx, logs := testContext(t)
				clients, err := mustConnect(t, config, patient()).clients()
				if err != nil {
					t.Fatal(err)
				}
				for name, request := range requests(ctx, clients) {
					err := request()
					if err == nil {
						t.Errorf("%s: no error", name)
						continue
					}
					if wantText := answerPrefix + c.wantText; err.Error() != wantText {
						t.Errorf("%s: got %q, want %q", name, err, wantText)
					}
					expectNoSecret(t, "error", fmt.Sprintf("%v %#v", err, err))
					want := c.want
					if c.wantPost != nil && strings.HasPrefix(name, "create") {
						want = c.wantPost
					}
					var got []string
					for predicate, holds := range predicates {
						if holds(err) {
							got = append(got, predicate)
						}
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("%s: predicates (-want +got):\n%s", name, diff)
					}
				}
				expectNoSecret(t, "log", logs.String())
			})
		}
	}
}

// Answers with a success code that hold no object that was asked for. The text must not depend on the request, and
// quote nothing of the answer, which decoders do.
func TestAnswersThatAreNoObjects(t *testing.T) {
	object := func(kind, apiVersion, rest string) string {
		return fmt.Sprintf(`{"kind":%q,"apiVersion":%q,%s}`, kind, apiVersion, rest)
	}
	const metadata = `"metadata":{"name":"x"}`
	cases := []struct {
		name string
		body string
	}{
		{"empty", ""},
		{"HTML", "<!DOCTYPE html><html>" + testToken + "</html>"},
		{"text", testToken},
		{"JSON string", `"` + testToken + `"`},
		{"JSON list", `["` + testToken + `"]`},
		{"JSON without kind", `{"` + testToken + `":"` + testToken + `"}`},
		{"cut off", `{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"` + testToken},
		{"unknown kind", object(testToken, "v1", metadata)},
		{"unknown group", object("Namespace", testToken+"/v1", metadata)},
		{"bad apiVersion", object("Namespace", "a/b/"+testToken, metadata)},
		{"bad time", object("Namespace", "v1", `"metadata":{"creationTimestamp":"`+testToken+`"}`)},
		{"bad type", object("Namespace", "v1", `"metadata":{"labels":"`+testToken+`"}`)},
		{"bad quantity", object("Deployment", "apps/v1", `"spec":{"template":{"spec":{"containers":[{"name":"x","resources":{"limits":{"cpu":"`+
			testToken+`"}}}]}}}`)},
		{"bad number", object("Deployment", "apps/v1", `"spec":{"replicas":"`+testToken+`"}`)},
		{"bad base64", object("Secret", "v1", `"data":{"a":"`+testToken+`"}`)},
		{"YAML of no kind", testToken + ": " + testToken},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, config := startSpoke(t, answer(http.StatusOK, c.body))
			ctx, logs := testContext(t)
			clients, err := mustConnect(t, config, patient()).clients()
			if err != nil {
				t.Fatal(err)
			}
			want := answerPrefix + "NotKubernetes: the server does not answer like a Kubernetes API server; " + reasonInfos[ReasonNotKubernetes].next
			for name, request := range requests(ctx, clients) {
				err := request()
				if err == nil || err.Error() != want {
					t.Errorf("%s: got %v, want %q", name, err, want)
				}
				if apierrors.IsNotFound(err) {
					t.Errorf("%s: taken for the absence of the object", name)
				}
			}
			expectNoSecret(t, "log", logs.String())
		})
	}
}

// A Status that tells of a failure is an error to client-go whatever the code of the answer.
func TestStatusWithASuccessCode(t *testing.T) {
	want := answerPrefix + "NotKubernetes: the server does not answer like a Kubernetes API server; " + reasonInfos[ReasonNotKubernetes].next
	for _, code := range []int{http.StatusOK, http.StatusCreated, http.StatusAccepted} {
		_, config := startSpoke(t, answer(code, hostileStatus(code, metav1.StatusReasonNotFound)))
		ctx, _ := testContext(t)
		clients, err := mustConnect(t, config, patient()).clients()
		if err != nil {
			t.Fatal(err)
		}
		for name, request := range requests(ctx, clients) {
			if err := request(); err == nil || err.Error() != want || apierrors.IsNotFound(err) {
				t.Errorf("%s with %d: got %v", name, code, err)
			}
		}
	}
}

// An API server answers to a DELETE with a Status of success. The importer's apply deletes a Secret that it cannot
// change, and records in an event whether it could.
func TestStatusOfADelete(t *testing.T) {
	_, config := startSpoke(t, answer(http.StatusOK,
		`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","details":{"name":"x","kind":"secrets"}}`))
	ctx, _ := testContext(t)
	clients, err := mustConnect(t, config, patient()).clients()
	if err != nil {
		t.Fatal(err)
	}
	if err := clients.KubeClient.CoreV1().Secrets("x").Delete(ctx, "x", metav1.DeleteOptions{}); err != nil {
		t.Errorf("got %v", err)
	}
}

// client-go acts on headers, and logs those of warnings.
func TestHeadersDoNotPass(t *testing.T) {
	for _, code := range []int{http.StatusOK, http.StatusForbidden} {
		_, config := startSpoke(t, answer(code, namespaceJSON, "Warning", `299 - "`+testToken+`"`, "Retry-After", "30", "X-Other", testToken))
		ctx, _ := testContext(t)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := mustConnect(t, config, patient()).sanitized.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if diff := cmp.Diff(http.Header{"Content-Type": {"application/json"}}, resp.Header); diff != "" || resp.StatusCode != code {
			t.Errorf("%d: headers of %d (-want +got):\n%s", code, resp.StatusCode, diff)
		}
	}
}

// Objects of a kind that the guard knows and that was not asked for.
func TestAnswersOfAnotherKind(t *testing.T) {
	for name, body := range map[string]string{
		"another kind": `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"` + testToken + `"},"data":{"a":"` + testToken + `"}}`,
		"a list":       `{"kind":"List","apiVersion":"v1","items":["` + testToken + `"]}`,
		"YAML":         "kind: ConfigMap\napiVersion: v1\nmetadata:\n  name: " + testToken + "\n",
		"options":      `{"kind":"DeleteOptions","apiVersion":"v1","dryRun":["` + testToken + `"]}`,
		"watch event":  `{"kind":"WatchEvent","apiVersion":"v1","type":"` + testToken + `","object":{"a":"` + testToken + `"}}`,
		"duplicate":    `{"kind":"Namespace","apiVersion":"v1","kind":"` + testToken + `","metadata":{"name":"x"}}`,
		"other case":   `{"Kind":"` + testToken + `","kind":"Namespace","apiVersion":"v1","Metadata":"` + testToken + `"}`,
	} {
		_, config := startSpoke(t, answer(http.StatusOK, body))
		ctx, _ := testContext(t)
		clients, err := mustConnect(t, config, patient()).clients()
		if err != nil {
			t.Fatal(err)
		}
		for request, send := range requests(ctx, clients) {
			if err := send(); err != nil {
				expectNoSecret(t, name+", error of "+request, err.Error())
			}
		}
	}
}

func TestGoodAnswersPass(t *testing.T) {
	s, config := startSpoke(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/apis/apps/v1/namespaces/x/deployments/x":
			answer(http.StatusOK, `{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d"}}`)(w, r)
		case "/apis/operator.open-cluster-management.io/v1/klusterlets/x":
			answer(http.StatusOK, `{"kind":"Klusterlet","apiVersion":"operator.open-cluster-management.io/v1","metadata":{"name":"k"}}`)(w, r)
		case "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/x":
			answer(http.StatusOK, `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{"name":"c"}}`)(w, r)
		default:
			answer(http.StatusOK, `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"m","uid":"u"}}`)(w, r)
		}
	})
	ctx, _ := testContext(t)
	clients, err := mustConnect(t, config, patient()).clients()
	if err != nil {
		t.Fatal(err)
	}
	deployment, err := clients.KubeClient.AppsV1().Deployments("x").Get(ctx, "x", metav1.GetOptions{})
	if err != nil || deployment.Name != "d" {
		t.Errorf("Deployment: %v, %v", deployment, err)
	}
	klusterlet, err := clients.OperatorClient.OperatorV1().Klusterlets().Get(ctx, "x", metav1.GetOptions{})
	if err != nil || klusterlet.Name != "k" {
		t.Errorf("Klusterlet: %v, %v", klusterlet, err)
	}
	crd, err := clients.APIExtClient.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, "x", metav1.GetOptions{})
	if err != nil || crd.Name != "c" {
		t.Errorf("CustomResourceDefinition: %v, %v", crd, err)
	}
	object, err := clients.DynamicClient.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).
		Namespace("x").Get(ctx, "x", metav1.GetOptions{})
	if err != nil || object.GetName() != "m" {
		t.Errorf("ConfigMap: %v, %v", object, err)
	}
	for _, request := range s.requests {
		if got := request.Header.Get("Accept"); !strings.HasPrefix(got, "application/json") {
			t.Errorf("Accept of %s is %q", request.URL.Path, got)
		}
	}
}

// TestLargeAnswersAreLimited: clusters that answer with all that they may can't fill the memory.
func TestLargeAnswersAreLimited(t *testing.T) {
	_, config := startSpoke(t, apiServer(map[string]http.HandlerFunc{
		versionPath: answer(http.StatusOK, versionJSON+strings.Repeat(" ", smallAnswer)),
		"/small":    answer(http.StatusOK, versionJSON),
	}))
	ctx, _ := testContext(t)
	conn := mustConnect(t, config, patient())
	// ask returns what gives the answer back.
	ask := func(ctx context.Context, path string) (done func() error, err error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := conn.raw.Do(req) //nolint:bodyclose // done closes it.
		if err != nil {
			return nil, err
		}
		return resp.Body.Close, nil
	}
	finish := func(done func() error) {
		if err := done(); err != nil {
			t.Error(err)
		}
	}
	var held []func() error
	for range maxLargeAnswers {
		done, err := ask(ctx, versionPath)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, done)
	}
	if done, err := ask(ctx, "/small"); err != nil {
		t.Errorf("a small answer has to wait: %v", err)
	} else {
		finish(done)
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if done, err := ask(short, versionPath); err == nil {
		finish(done)
		t.Error("one more large answer is in memory")
	}
	for _, done := range held {
		finish(done)
		finish(done)
	}
	for range 2 * maxLargeAnswers {
		done, err := ask(ctx, versionPath)
		if err != nil {
			t.Fatal(err)
		}
		finish(done)
	}
}
