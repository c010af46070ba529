// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

const (
	reviewsPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

	releaseNamespacePath = "/api/v1/namespaces/open-cluster-management"
	agentNamespacePath   = "/api/v1/namespaces/open-cluster-management-agent"
	clusterRolePath      = "/apis/rbac.authorization.k8s.io/v1/clusterroles/klusterlet"
	bindingPath          = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/klusterlet"
	deploymentPath       = "/apis/apps/v1/namespaces/open-cluster-management/deployments/klusterlet"
	serviceAccountPath   = "/api/v1/namespaces/open-cluster-management/serviceaccounts/klusterlet"
)

// chartYAML is an object of every kind that the klusterlet's chart may have.
const chartYAML = `
{apiVersion: v1, kind: Namespace, metadata: {name: open-cluster-management}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: open-cluster-management-agent, labels: {a: "1"}, annotations: {b: "2"}}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: klusterlet, namespace: open-cluster-management}}
---
{apiVersion: v1, kind: Secret, metadata: {name: bootstrap-hub-kubeconfig, namespace: open-cluster-management-agent}}
---
{apiVersion: v1, kind: Secret, metadata: {name: open-cluster-management-image-pull-credentials, namespace: open-cluster-management-agent}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: klusterlet, namespace: open-cluster-management}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: klusterlets.operator.open-cluster-management.io}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: klusterlet},
 rules: [{apiGroups: [""], resources: [nodes], verbs: [list]}]}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: klusterlet},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: klusterlet}}
---
{apiVersion: operator.open-cluster-management.io/v1, kind: Klusterlet, metadata: {name: klusterlet}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: important}}
`

const rolesYAML = `
{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {name: r, namespace: ns}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {name: b, namespace: ns},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: r}}
`

func manifestsOf(t testing.TB, documents string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(documents, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

// minimalRules are what the role in manifests/managed-cluster allows, and PriorityClasses.
func minimalRules(t testing.TB) []rbacv1.PolicyRule {
	t.Helper()
	data, err := os.ReadFile("../../manifests/managed-cluster/clusterrole.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(data, &role); err != nil {
		t.Fatal(err)
	}
	return append(role.Rules, rbacv1.PolicyRule{
		APIGroups: []string{"scheduling.k8s.io"}, Resources: []string{"priorityclasses"}, Verbs: []string{"get", "create", "update"},
	})
}

// accessSpoke answers as an API server with RBAC. What it refuses it refuses with the credential in the text.
type accessSpoke struct {
	*spoke

	rules []rbacv1.PolicyRule
	// denied are permissions that the rules allow, such as "create deployments.apps".
	denied []string
	// existing are objects by path.
	existing map[string]*unstructured.Unstructured
	// dryRuns are answers to creates of objects that the API server knows, by kind; 403 without one.
	dryRuns map[string]int
	// faults are answers by path.
	faults map[string]http.HandlerFunc

	lock  sync.Mutex // guards asked
	asked []authorizationv1.ResourceAttributes
}

func startAccessSpoke(t testing.TB, edits ...func(*accessSpoke)) (*accessSpoke, *connection) {
	t.Helper()
	s := &accessSpoke{
		rules:    minimalRules(t),
		existing: map[string]*unstructured.Unstructured{},
		dryRuns:  map[string]int{},
		faults:   map[string]http.HandlerFunc{},
	}
	for _, edit := range edits {
		edit(s)
	}
	server, config := startSpoke(t, s.serve)
	s.spoke = server
	return s, mustConnect(t, config, patient())
}

func (s *accessSpoke) allows(what authorizationv1.ResourceAttributes) bool {
	resource := strings.TrimSuffix(what.Resource+"."+what.Group, ".")
	return !slices.Contains(s.denied, what.Verb+" "+resource) && slices.ContainsFunc(s.rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.Verbs, what.Verb) && slices.Contains(rule.APIGroups, what.Group) &&
			slices.Contains(rule.Resources, what.Resource) &&
			(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, what.Name))
	})
}

func (s *accessSpoke) serve(w http.ResponseWriter, r *http.Request) {
	if fault := s.faults[r.URL.Path]; fault != nil {
		fault(w, r)
		return
	}
	// Of a collection, or an object in it.
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	what := authorizationv1.ResourceAttributes{}
	if parts[0] == "apis" {
		what.Group, parts = parts[1], parts[3:]
	} else {
		parts = parts[2:]
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		what.Namespace, parts = parts[1], parts[2:]
	}
	what.Resource = parts[0]
	refuse := answer(http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","message":"`+testToken+`"}`)
	switch {
	case r.URL.Path == reviewsPath:
		var review authorizationv1.SelfSubjectAccessReview
		if json.NewDecoder(r.Body).Decode(&review) != nil || review.Kind != "SelfSubjectAccessReview" || review.Spec.ResourceAttributes == nil {
			answer(http.StatusBadRequest, "")(w, r)
			return
		}
		s.lock.Lock()
		s.asked = append(s.asked, *review.Spec.ResourceAttributes)
		s.lock.Unlock()
		review.Status.Allowed = s.allows(*review.Spec.ResourceAttributes)
		review.Status.Reason = testToken
		answerObject(http.StatusCreated, review)(w, r)
	case r.Method == http.MethodPost:
		what.Verb = "create"
		var object unstructured.Unstructured
		body, _ := io.ReadAll(r.Body)
		if object.UnmarshalJSON(body) != nil {
			answer(http.StatusBadRequest, "")(w, r)
			return
		}
		code := s.dryRuns[object.GetKind()]
		if code == 0 || !s.allows(what) {
			refuse(w, r)
			return
		}
		answer(code, "{}", "Retry-After", "7")(w, r)
	default:
		what.Verb, what.Name = "get", parts[1]
		object, exists := s.existing[r.URL.Path]
		switch {
		case !s.allows(what):
			refuse(w, r)
		case exists:
			answerObject(http.StatusOK, object)(w, r)
		case what.Group == "operator.open-cluster-management.io":
			// Its CRD is not there either.
			http.NotFound(w, r)
		default:
			answer(http.StatusNotFound, notFoundJSON)(w, r)
		}
	}
}

// expectReadOnly fails when something was sent that may write.
func (s *accessSpoke) expectReadOnly(t testing.TB) {
	t.Helper()
	s.spoke.lock.Lock()
	defer s.spoke.lock.Unlock()
	for _, r := range s.requests {
		switch {
		case r.Method == http.MethodGet && r.URL.RawQuery == "":
		case r.Method == http.MethodPost && r.URL.Path == reviewsPath:
		case r.Method == http.MethodPost && r.URL.RawQuery == "dryRun=All":
		default:
			t.Errorf("sent %s %s", r.Method, r.URL)
		}
	}
}

// dryRunCount is the number of creates that were no reviews.
func (s *accessSpoke) dryRunCount() int {
	s.spoke.lock.Lock()
	defer s.spoke.lock.Unlock()
	count := 0
	for _, r := range s.requests {
		if r.Method == http.MethodPost && r.URL.Path != reviewsPath {
			count++
		}
	}
	return count
}

func answerObject(code int, object any) http.HandlerFunc {
	body, err := json.Marshal(object)
	if err != nil {
		return answer(http.StatusTeapot, err.Error())
	}
	return answer(code, string(body))
}

func denyAccess(permissions ...string) func(*accessSpoke) {
	return func(s *accessSpoke) { s.denied = append(s.denied, permissions...) }
}

func answerDryRun(kind string, code int) func(*accessSpoke) {
	return func(s *accessSpoke) { s.dryRuns[kind] = code }
}

// alreadyThere puts objects of the chart on the cluster, all of them without paths, as another may have changed them.
func alreadyThere(t testing.TB, edit func(*unstructured.Unstructured), paths ...string) func(*accessSpoke) {
	t.Helper()
	return func(s *accessSpoke) {
		for _, object := range append(manifestsOf(t, chartYAML), manifestsOf(t, rolesYAML)...) {
			path := "/" + objectPath(object)
			if len(paths) > 0 && !slices.Contains(paths, path) {
				continue
			}
			if object.GetKind() == "Secret" {
				object.Object["data"] = map[string]any{"token": testToken}
			}
			if edit != nil {
				edit(object)
			}
			s.existing[path] = object
		}
	}
}

func faultAt(path string, handler http.HandlerFunc) func(*accessSpoke) {
	return func(s *accessSpoke) { s.faults[path] = handler }
}

// accessEdits set a server up.
type accessEdits = []func(*accessSpoke)

func TestAuthorize(t *testing.T) {
	const (
		escalate = "escalate clusterroles.rbac.authorization.k8s.io"
		bind     = "bind clusterroles.rbac.authorization.k8s.io"
	)
	roles := func(s *accessSpoke) {
		s.rules = append(s.rules, rbacv1.PolicyRule{APIGroups: []string{rbacv1.GroupName}, Resources: []string{"roles", "rolebindings"},
			Verbs: []string{"get", "create", "update"}})
	}
	metadata := func(labels, annotations map[string]string) func(*unstructured.Unstructured) {
		return func(object *unstructured.Unstructured) {
			object.SetLabels(labels)
			object.SetAnnotations(annotations)
		}
	}
	type testCase struct {
		name  string
		edits accessEdits
		// lacking is the end of the detail; empty if all is allowed.
		lacking string
		// dryRuns is how many are sent.
		dryRuns int
	}
	cases := []testCase{
		{"everything", nil, "", 0},
		{"everything exists", accessEdits{alreadyThere(t, nil)}, "", 0},

		{"several", accessEdits{denyAccess("create customresourcedefinitions.apiextensions.k8s.io", "get deployments.apps", "create deployments.apps",
			"patch klusterlets.operator.open-cluster-management.io", "create secrets")},
			"create customresourcedefinitions.apiextensions.k8s.io; create, get deployments.apps; " +
				"patch klusterlets.operator.open-cluster-management.io; create secrets", 0},
		{"nothing", accessEdits{func(s *accessSpoke) { s.rules = nil }},
			"create, get clusterrolebindings.rbac.authorization.k8s.io; create, get clusterroles.rbac.authorization.k8s.io; " +
				"create, get customresourcedefinitions.apiextensions.k8s.io; create, get deployments.apps; " +
				"create, get, patch klusterlets.operator.open-cluster-management.io; create, get namespaces; " +
				"create, get priorityclasses.scheduling.k8s.io; create, get secrets; create, get serviceaccounts", 0},
		{"unknown existence needs what an absent object does", accessEdits{alreadyThere(t, nil), denyAccess("get deployments.apps", "update deployments.apps")},
			"get deployments.apps", 0},

		{"other labels and annotations too", accessEdits{alreadyThere(t, metadata(map[string]string{"a": "1", "x": "y"}, map[string]string{"b": "2", "x": "y"}),
			agentNamespacePath)}, "", 0},
		{"namespace without the label", accessEdits{alreadyThere(t, metadata(nil, map[string]string{"b": "2"}), agentNamespacePath)}, "update namespaces", 0},
		{"namespace with another label", accessEdits{alreadyThere(t, metadata(map[string]string{"a": ""}, map[string]string{"b": "2"}), agentNamespacePath)},
			"update namespaces", 0},
		{"namespace without the annotation", accessEdits{alreadyThere(t, metadata(map[string]string{"a": "1"}, nil), agentNamespacePath)}, "update namespaces", 0},
		{"namespace that needs neither", accessEdits{alreadyThere(t, metadata(nil, nil), releaseNamespacePath)}, "", 0},
		{"service account", accessEdits{alreadyThere(t, nil, serviceAccountPath), denyAccess("create deployments.apps")}, "create deployments.apps", 0},
		{"creates of what exists", accessEdits{alreadyThere(t, nil), denyAccess("create secrets", "create namespaces", "create deployments.apps",
			"create klusterlets.operator.open-cluster-management.io", "patch klusterlets.operator.open-cluster-management.io")}, "", 0},

		{"escalate", accessEdits{denyAccess(escalate)}, escalate, 1},
		{"escalate, has it all", accessEdits{denyAccess(escalate), answerDryRun("ClusterRole", 201)}, "", 1},
		{"escalate, exists and has it all", accessEdits{alreadyThere(t, nil, clusterRolePath), denyAccess(escalate), answerDryRun("ClusterRole", 409)}, "", 1},
		{"escalate, exists", accessEdits{alreadyThere(t, nil, clusterRolePath), denyAccess(escalate)}, escalate, 1},
		{"escalate, webhook without dry run", accessEdits{denyAccess(escalate), answerDryRun("ClusterRole", 400)}, "", 1},
		{"escalate, invalid", accessEdits{denyAccess(escalate), answerDryRun("ClusterRole", 422)}, "", 1},
		{"escalate, and create is missing", accessEdits{denyAccess(escalate, "create clusterroles.rbac.authorization.k8s.io")},
			"create clusterroles.rbac.authorization.k8s.io", 0},
		{"escalate, exists and create is missing", accessEdits{alreadyThere(t, nil, clusterRolePath), denyAccess(escalate, "create clusterroles.rbac.authorization.k8s.io")},
			"", 0},

		{"bind", accessEdits{denyAccess(bind)}, bind, 1},
		// Who creates the role by escalating does not have its permissions, and can't bind it.
		{"bind, role is absent", accessEdits{denyAccess(bind), answerDryRun("ClusterRoleBinding", 404)}, bind, 1},
		{"bind, role is absent, has it all", accessEdits{denyAccess(escalate, bind), answerDryRun("ClusterRole", 201),
			answerDryRun("ClusterRoleBinding", 404)}, "", 2},
		{"bind, has it all", accessEdits{denyAccess(bind), answerDryRun("ClusterRoleBinding", 201)}, "", 1},
		{"bind, exists and has it all", accessEdits{alreadyThere(t, nil, bindingPath), denyAccess(bind), answerDryRun("ClusterRoleBinding", 409)}, "", 1},
		{"bind, and create is missing", accessEdits{denyAccess(bind, "create clusterrolebindings.rbac.authorization.k8s.io")},
			"create clusterrolebindings.rbac.authorization.k8s.io", 0},
		{"escalate and bind", accessEdits{denyAccess(escalate, bind)}, "bind, escalate clusterroles.rbac.authorization.k8s.io", 2},
	}
	// Each verb by itself, for objects that are absent, and that exist.
	for verbs, resources := range map[string][]string{
		"get create": {"namespaces", "serviceaccounts", "secrets", "deployments.apps", "customresourcedefinitions.apiextensions.k8s.io",
			"klusterlets.operator.open-cluster-management.io", "clusterroles.rbac.authorization.k8s.io",
			"clusterrolebindings.rbac.authorization.k8s.io", "priorityclasses.scheduling.k8s.io"},
		"patch": {"klusterlets.operator.open-cluster-management.io"},
		"update": {"secrets", "deployments.apps", "customresourcedefinitions.apiextensions.k8s.io",
			"klusterlets.operator.open-cluster-management.io", "clusterroles.rbac.authorization.k8s.io",
			"clusterrolebindings.rbac.authorization.k8s.io", "priorityclasses.scheduling.k8s.io"},
	} {
		for verb := range strings.FieldsSeq(verbs) {
			for _, resource := range resources {
				missing := verb + " " + resource
				c := testCase{name: missing, edits: accessEdits{denyAccess(missing)}, lacking: missing}
				if verb == "update" {
					c.edits = append(c.edits, alreadyThere(t, nil))
				}
				cases = append(cases, c)
			}
		}
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ctx, logs := testContext(t)
			s, conn := startAccessSpoke(t, append(c.edits, roles)...)
			expectLacking(t, conn.authorize(ctx, manifestsOf(t, chartYAML)), c.lacking)
			s.expectReadOnly(t)
			if got := s.dryRunCount(); got != c.dryRuns {
				t.Errorf("%d dry runs, want %d", got, c.dryRuns)
			}
			expectNoSecret(t, "log", logs.String())
			for i, what := range s.asked {
				if slices.Contains(s.asked[:i], what) {
					t.Errorf("asked twice for %+v", what)
				}
			}
		})
	}
	t.Run("roles of a namespace", func(t *testing.T) {
		ctx, _ := testContext(t)
		s, conn := startAccessSpoke(t, roles)
		expectLacking(t, conn.authorize(ctx, manifestsOf(t, rolesYAML)), "bind, escalate roles.rbac.authorization.k8s.io")
		s.expectReadOnly(t)
	})
	t.Run("nothing to do", func(t *testing.T) {
		ctx, _ := testContext(t)
		s, conn := startAccessSpoke(t)
		expectLacking(t, conn.authorize(ctx, nil), "")
		if got := s.requestCount(); got != 0 {
			t.Errorf("%d requests", got)
		}
	})
}

func expectLacking(t testing.TB, err error, lacking string) {
	t.Helper()
	if lacking == "" {
		if err != nil {
			t.Errorf("got %v, want nil", err)
		}
		return
	}
	p, ok := err.(*problem) //nolint:errorlint // as it is returned.
	if !ok {
		t.Fatalf("got %v, want a problem", err)
	}
	if want := "the credential may not " + lacking; p.reason != ReasonForbidden || p.detail != want {
		t.Errorf("got %s: %s\nwant %s", p.reason, p.detail, want)
	}
	expectNoSecret(t, "text", p.Error())
}

// What is asked is what an API server authorizes the importer's requests by.
func TestAuthorizeAsksForWhatTheImporterDoes(t *testing.T) {
	const rbacGroup = rbacv1.GroupName
	review := func(verb, group, version, resource, namespace, name string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{
			Verb: verb, Group: group, Version: version, Resource: resource, Namespace: namespace, Name: name,
		}
	}
	cases := []struct {
		name  string
		edits accessEdits
		want  []authorizationv1.ResourceAttributes
	}{
		{"absent", nil, []authorizationv1.ResourceAttributes{
			review("bind", rbacGroup, "*", "clusterroles", "", "klusterlet"),
			review("create", "", "v1", "namespaces", "", ""),
			review("create", "", "v1", "secrets", "open-cluster-management-agent", ""),
			review("create", "", "v1", "serviceaccounts", "open-cluster-management", ""),
			review("create", "apiextensions.k8s.io", "v1", "customresourcedefinitions", "", ""),
			review("create", "apps", "v1", "deployments", "open-cluster-management", ""),
			review("create", "operator.open-cluster-management.io", "v1", "klusterlets", "", "klusterlet"),
			review("create", rbacGroup, "v1", "clusterrolebindings", "", ""),
			review("create", rbacGroup, "v1", "clusterroles", "", ""),
			review("create", "scheduling.k8s.io", "v1", "priorityclasses", "", ""),
			review("escalate", rbacGroup, "*", "clusterroles", "", ""),
			review("patch", "operator.open-cluster-management.io", "v1", "klusterlets", "", "klusterlet"),
		}},
		{"existing", accessEdits{alreadyThere(t, nil)}, []authorizationv1.ResourceAttributes{
			review("bind", rbacGroup, "*", "clusterroles", "", "klusterlet"),
			review("escalate", rbacGroup, "*", "clusterroles", "", "klusterlet"),
			review("update", "", "v1", "secrets", "open-cluster-management-agent", "bootstrap-hub-kubeconfig"),
			review("update", "", "v1", "secrets", "open-cluster-management-agent", "open-cluster-management-image-pull-credentials"),
			review("update", "apiextensions.k8s.io", "v1", "customresourcedefinitions", "", "klusterlets.operator.open-cluster-management.io"),
			review("update", "apps", "v1", "deployments", "open-cluster-management", "klusterlet"),
			review("update", "operator.open-cluster-management.io", "v1", "klusterlets", "", "klusterlet"),
			review("update", rbacGroup, "v1", "clusterrolebindings", "", "klusterlet"),
			review("update", rbacGroup, "v1", "clusterroles", "", "klusterlet"),
			review("update", "scheduling.k8s.io", "v1", "priorityclasses", "", "important"),
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ctx, _ := testContext(t)
			s, conn := startAccessSpoke(t, c.edits...)
			if err := conn.authorize(ctx, manifestsOf(t, chartYAML)); err != nil {
				t.Error(err)
			}
			slices.SortFunc(s.asked, func(a, b authorizationv1.ResourceAttributes) int { return strings.Compare(a.String(), b.String()) })
			slices.SortFunc(c.want, func(a, b authorizationv1.ResourceAttributes) int { return strings.Compare(a.String(), b.String()) })
			if diff := cmp.Diff(c.want, s.asked); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A dry run is of the manifest as it is.
func TestDryRunIsOfTheManifest(t *testing.T) {
	ctx, _ := testContext(t)
	var got unstructured.Unstructured
	_, conn := startAccessSpoke(t, denyAccess("escalate clusterroles.rbac.authorization.k8s.io"),
		faultAt("/apis/rbac.authorization.k8s.io/v1/clusterroles", func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if err := got.UnmarshalJSON(body); err != nil {
				t.Error(err)
			}
			w.WriteHeader(http.StatusCreated)
		}))
	objects := manifestsOf(t, chartYAML)
	if err := conn.authorize(ctx, objects); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(manifestsOf(t, chartYAML), objects); diff != "" {
		t.Errorf("the manifests were changed: %s", diff)
	}
	i := slices.IndexFunc(objects, func(object *unstructured.Unstructured) bool { return object.GetKind() == "ClusterRole" })
	if diff := cmp.Diff(objects[i].Object, got.Object); diff != "" {
		t.Error(diff)
	}
}

func TestAuthorizeFailures(t *testing.T) {
	html := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, "<html>"+testToken+"</html>")
		}
	}
	escalate, bind := denyAccess("escalate clusterroles.rbac.authorization.k8s.io"), denyAccess("bind clusterroles.rbac.authorization.k8s.io")
	cases := []struct {
		name   string
		edits  []func(*accessSpoke)
		reason Reason
		detail string
	}{
		{"object, 500", accessEdits{faultAt(deploymentPath, html(500))}, ReasonServerFailed, "the cluster's API server answers with an error"},
		{"object, 401", accessEdits{faultAt(deploymentPath, html(401))}, ReasonUnauthorized, "the cluster's API server does not accept the credential"},
		{"object, HTML", accessEdits{faultAt(deploymentPath, html(200))}, ReasonNotKubernetes, "the server does not answer like a Kubernetes API server"},
		{"object, another kind", accessEdits{faultAt(deploymentPath, answer(200, namespaceJSON))},
			ReasonNotKubernetes, "the server does not answer like a Kubernetes API server"},
		{"object, redirect", accessEdits{faultAt(deploymentPath, html(302))},
			ReasonNotKubernetes, "the server redirects to another place, which is not followed"},
		{"object, no answer", accessEdits{faultAt(deploymentPath, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })},
			ReasonUnreachable, "the connection is closed before the answer"},
		{"review, 500", accessEdits{faultAt(reviewsPath, html(500))}, ReasonServerFailed, "the cluster's API server answers with an error"},
		{"review, HTML", accessEdits{faultAt(reviewsPath, html(200))}, ReasonNotKubernetes, "the server does not answer like a Kubernetes API server"},
		{"review, 403", accessEdits{faultAt(reviewsPath, html(403))},
			ReasonForbidden, "the credential may not create selfsubjectaccessreviews.authorization.k8s.io"},
		{"dry run of a role, 500", accessEdits{escalate, answerDryRun("ClusterRole", 500)}, ReasonServerFailed, "the cluster's API server answers with an error"},
		{"dry run of a role, 401", accessEdits{escalate, answerDryRun("ClusterRole", 401)},
			ReasonUnauthorized, "the cluster's API server does not accept the credential"},
		{"dry run of a role, 429", accessEdits{escalate, answerDryRun("ClusterRole", 429)}, ReasonServerFailed, "the cluster's API server throttles"},
		{"dry run of a binding, 503", accessEdits{bind, answerDryRun("ClusterRoleBinding", 503)},
			ReasonServerFailed, "the cluster's API server answers with an error"},
		{"failures come before what is lacking", accessEdits{denyAccess("create secrets"), faultAt(deploymentPath, html(500))},
			ReasonServerFailed, "the cluster's API server answers with an error"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ctx, _ := testContext(t)
			s, conn := startAccessSpoke(t, c.edits...)
			p, ok := conn.authorize(ctx, manifestsOf(t, chartYAML)).(*problem) //nolint:errorlint // as it is returned.
			if !ok || p.reason != c.reason || p.detail != c.detail {
				t.Fatalf("got %+v\nwant %s: %s", p, c.reason, c.detail)
			}
			expectNoSecret(t, "text", p.Error())
			s.expectReadOnly(t)
		})
	}
}

func TestAuthorizeIsTheSameEachTime(t *testing.T) {
	cases := []struct {
		name  string
		edits accessEdits
		want  string
	}{
		{"lacking", accessEdits{denyAccess("create secrets", "get deployments.apps", "create deployments.apps", "create namespaces",
			"bind clusterroles.rbac.authorization.k8s.io", "escalate clusterroles.rbac.authorization.k8s.io")},
			"Forbidden: the credential may not bind, escalate clusterroles.rbac.authorization.k8s.io; create, get deployments.apps; " +
				"create namespaces; create secrets; " + nextGrant},
		{"several failures", accessEdits{faultAt(deploymentPath, answer(500, "")), faultAt(clusterRolePath, answer(401, "")), faultAt(bindingPath, answer(302, ""))},
			"ServerFailed: the cluster's API server answers with an error; " + reasonInfos[ReasonServerFailed].next},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ctx, _ := testContext(t)
			_, conn := startAccessSpoke(t, c.edits...)
			objects := manifestsOf(t, chartYAML)
			for range 20 {
				objects = append(objects[1:], objects[0])
				if err := conn.authorize(ctx, objects); err == nil || err.Error() != c.want {
					t.Fatalf("got %v\nwant %s", err, c.want)
				}
			}
		})
	}
}

func TestAuthorizeIsBounded(t *testing.T) {
	ctx, _ := testContext(t)
	var lock sync.Mutex // guards the fields below
	running, most := 0, 0
	release := make(chan struct{})
	_, config := startSpoke(t, func(w http.ResponseWriter, r *http.Request) {
		lock.Lock()
		running++
		most = max(most, running)
		if running == maxParallelObjects && most == maxParallelObjects {
			select {
			case <-release:
			default:
				close(release)
			}
		}
		lock.Unlock()
		<-release
		lock.Lock()
		running--
		lock.Unlock()
		answer(http.StatusForbidden, "")(w, r)
	})
	var objects []*unstructured.Unstructured
	for i := range 3 * maxParallelObjects {
		objects = append(objects, manifestsOf(t, "{apiVersion: v1, kind: Namespace, metadata: {name: n"+strconv.Itoa(i)+"}}")...)
	}
	expectLacking(t, mustConnect(t, config, patient()).authorize(ctx, objects), "create selfsubjectaccessreviews.authorization.k8s.io")
	if most != maxParallelObjects {
		t.Errorf("%d requests at a time, want %d", most, maxParallelObjects)
	}
}

func TestAuthorizeEndsWithItsCaller(t *testing.T) {
	ctx, _ := testContext(t)
	ctx, cancel := context.WithCancel(ctx)
	_, conn := startAccessSpoke(t, faultAt(deploymentPath, func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	if err := conn.authorize(ctx, manifestsOf(t, chartYAML)); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestLackingProblem(t *testing.T) {
	many := func(count int) []permission {
		var result []permission
		for i := range count {
			resource := "r" + strconv.Itoa(100+i)
			result = append(result, permission{"get", resource}, permission{"create", resource}, permission{"get", resource})
		}
		slices.Reverse(result)
		return result
	}
	ten := "create, get r100; create, get r101; create, get r102; create, get r103; create, get r104; " +
		"create, get r105; create, get r106; create, get r107; create, get r108; create, get r109"
	for count, want := range map[int]string{1: "create, get r100", 10: ten, 11: ten + "; and 1 more", 30: ten + "; and 20 more"} {
		expectLacking(t, lackingProblem(many(count)), want)
	}
}

func TestMay(t *testing.T) {
	reviewed := func(code int, allowed string) http.HandlerFunc {
		return answer(code, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":`+allowed+`}}`)
	}
	cases := []struct {
		name    string
		handler http.HandlerFunc
		allowed bool
		detail  string
	}{
		{"allowed", reviewed(201, "true"), true, ""},
		{"denied", reviewed(201, "false"), false, ""},
		{"allowed with the code of a get", reviewed(200, "true"), true, ""},
		{"no answer", reviewed(201, "null"), false, ""},
		{"accepted", reviewed(202, "true"), false, "the server does not answer like a Kubernetes API server"},
		{"another kind", answer(201, namespaceJSON), false, "the server does not answer like a Kubernetes API server"},
		{"not found", answer(404, notFoundJSON), false, "the server does not answer like a Kubernetes API server"},
		{"unauthorized", answer(401, testToken), false, "the cluster's API server does not accept the credential"},
		{"forbidden", answer(403, testToken), false, "the credential may not create selfsubjectaccessreviews.authorization.k8s.io"},
		{"failed", answer(500, testToken), false, "the cluster's API server answers with an error"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			ctx, _ := testContext(t)
			_, config := startSpoke(t, c.handler)
			allowed, err := mustConnect(t, config, patient()).may(ctx, everything)
			var p *problem
			errors.As(err, &p)
			if allowed != c.allowed || (p == nil) != (c.detail == "") || p != nil && p.detail != c.detail {
				t.Errorf("got %t, %v", allowed, err)
			}
		})
	}
}

func TestPathsOfObjects(t *testing.T) {
	var got []string
	for _, object := range append(manifestsOf(t, chartYAML), manifestsOf(t, rolesYAML)...) {
		got = append(got, objectPath(object))
	}
	want := []string{
		"api/v1/namespaces/open-cluster-management",
		"api/v1/namespaces/open-cluster-management-agent",
		"api/v1/namespaces/open-cluster-management/serviceaccounts/klusterlet",
		"api/v1/namespaces/open-cluster-management-agent/secrets/bootstrap-hub-kubeconfig",
		"api/v1/namespaces/open-cluster-management-agent/secrets/open-cluster-management-image-pull-credentials",
		"apis/apps/v1/namespaces/open-cluster-management/deployments/klusterlet",
		"apis/apiextensions.k8s.io/v1/customresourcedefinitions/klusterlets.operator.open-cluster-management.io",
		"apis/rbac.authorization.k8s.io/v1/clusterroles/klusterlet",
		"apis/rbac.authorization.k8s.io/v1/clusterrolebindings/klusterlet",
		"apis/operator.open-cluster-management.io/v1/klusterlets/klusterlet",
		"apis/scheduling.k8s.io/v1/priorityclasses/important",
		"apis/rbac.authorization.k8s.io/v1/namespaces/ns/roles/r",
		"apis/rbac.authorization.k8s.io/v1/namespaces/ns/rolebindings/b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
