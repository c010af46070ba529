// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
)

// clusterRecorder is a server in front of a cluster that notes what an import asks for and what it does. It answers for
// the cluster that the credential may not do everything, so that each verb is asked for; what it may the cluster says.
type clusterRecorder struct {
	lock sync.Mutex // guards the fields below, for the time of a look-up or a change
	// asked are the access reviews that were answered.
	asked sets.Set[authorizationv1.ResourceAttributes]
	// read and readLater are the paths that were read before and after the last access review was answered.
	read, readLater sets.Set[string]
	// written are the writes, by what an API server authorizes them by.
	written sets.Set[authorizationv1.ResourceAttributes]
	// early are writes before the last access review was answered.
	early []string
	// attempts is how often it was asked whether the credential may do everything, which an attempt begins with.
	attempts int
}

func (r *clusterRecorder) reset() {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.asked, r.written = sets.New[authorizationv1.ResourceAttributes](), sets.New[authorizationv1.ResourceAttributes]()
	r.read, r.readLater, r.early, r.attempts = sets.New[string](), sets.New[string](), nil, 0
}

// noteReview notes an access review that was answered.
func (r *clusterRecorder) noteReview(what authorizationv1.ResourceAttributes) {
	r.lock.Lock()
	defer r.lock.Unlock()
	r.asked.Insert(what)
	r.read = r.read.Union(r.readLater)
	r.readLater = sets.New[string]()
	for written := range r.written {
		r.early = append(r.early, written.String())
	}
}

// noteRequest notes any other request that came.
func (r *clusterRecorder) noteRequest(req *http.Request, absent bool) {
	r.lock.Lock()
	defer r.lock.Unlock()
	if req.Method == http.MethodGet {
		r.readLater.Insert(req.URL.Path)
		return
	}
	r.written.Insert(writeAttributes(req, absent)...)
}

// writeAttributes are what an API server authorizes a write by (RequestInfoFactory of k8s.io/apiserver). An apply of an
// object that is absent needs to create it by name too (createAuthorizerAttributes, there).
func writeAttributes(req *http.Request, absent bool) []authorizationv1.ResourceAttributes {
	what := authorizationv1.ResourceAttributes{Verb: map[string]string{
		http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
	}[req.Method]}
	parts := strings.Split(strings.Trim(req.URL.Path, "/"), "/")
	if parts[0] == "apis" {
		what.Group, parts = parts[1], parts[1:]
	}
	what.Version, parts = parts[1], parts[2:]
	if parts[0] == "namespaces" && len(parts) > 1 {
		// A namespace is in itself.
		what.Namespace = parts[1]
		if len(parts) > 2 {
			parts = parts[2:]
		}
	}
	what.Resource = parts[0]
	if len(parts) > 1 {
		what.Name = parts[1]
	}
	if len(parts) > 2 {
		what.Subresource = parts[2]
	}
	all := []authorizationv1.ResourceAttributes{what}
	if what.Verb == "patch" && absent {
		what.Verb = "create"
		all = append(all, what)
	}
	return all
}

// record starts the server.
func (r *clusterRecorder) record(spoke *spokeCluster) *fakeServer {
	GinkgoHelper()
	r.reset()
	proxy := inFront(spoke)
	proxy.ModifyResponse = func(resp *http.Response) error {
		if resp.Request.Method == http.MethodPatch && resp.StatusCode == http.StatusCreated {
			r.noteRequest(resp.Request, true)
		}
		return nil
	}
	return newFakeServer(func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path != preflightPath {
			// A dry run writes nothing.
			if req.URL.Query().Get("dryRun") == "" {
				r.noteRequest(req, false)
			}
			proxy.ServeHTTP(w, req)
			return
		}
		body, err := io.ReadAll(req.Body)
		var review authorizationv1.SelfSubjectAccessReview
		if err != nil || json.Unmarshal(body, &review) != nil || review.Spec.ResourceAttributes == nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if review.Spec.ResourceAttributes.Verb == "*" {
			r.lock.Lock()
			r.attempts++
			r.lock.Unlock()
			respond(w, http.StatusCreated, `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":false}}`)
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, req)
		r.noteReview(*review.Spec.ResourceAttributes)
	})
}

// expectAsked expects that an import asked for all that it did, before it did it. It returns what it asked for, without
// the verbs to grant permissions, and what it wrote.
func (r *clusterRecorder) expectAsked() (asked, written sets.Set[authorizationv1.ResourceAttributes]) {
	GinkgoHelper()
	r.lock.Lock()
	defer r.lock.Unlock()
	asked, written = sets.New[authorizationv1.ResourceAttributes](), r.written.Clone()
	for what := range r.asked {
		if what.Verb != "escalate" && what.Verb != "bind" {
			asked.Insert(what)
		}
	}
	Expect(r.early).To(BeEmpty(), "written before the last question was answered")
	Expect(written).NotTo(BeEmpty())
	Expect(lines(written.Difference(asked))).To(BeEmpty(), "written and not asked for")

	// To read is asked for by reading.
	after := slices.DeleteFunc(sets.List(r.readLater.Difference(r.read)), func(path string) bool {
		// Which cluster it is, and whose klusterlet it has: who may not read these fails before the import begins.
		return path == "/api/v1/namespaces/kube-system" || strings.HasSuffix(path, "/secrets/hub-kubeconfig-secret")
	})
	Expect(after).To(BeEmpty(), "read by the import alone")
	return asked, written
}

// lines are for people.
func lines(all sets.Set[authorizationv1.ResourceAttributes]) []string {
	var texts []string
	for what := range all {
		texts = append(texts, what.Verb+" "+what.Resource+"."+what.Group+"/"+what.Version+" "+what.Namespace+"/"+what.Name+" "+what.Subresource)
	}
	slices.Sort(texts)
	return texts
}

// resourcesOf are the resources, each once.
func resourcesOf(all sets.Set[authorizationv1.ResourceAttributes]) []string {
	resources := map[string]bool{}
	for what := range all {
		resources[what.Resource] = true
	}
	return slices.Sorted(maps.Keys(resources))
}

var _ = Describe("The authorization check", Ordered, ContinueOnFailure, func() {
	var (
		recorder clusterRecorder
		spoke    *spokeCluster
	)
	// create starts to import the cluster through the recorder.
	create := func(ctx context.Context, name string) {
		GinkgoHelper()
		createSecret(ctx, newFakeSecret(name, recorder.record(spoke)))
		createCluster(ctx, name)
		expectImported(ctx, name)
	}
	// again imports it once more and returns what was written.
	again := func(ctx context.Context, name string) sets.Set[authorizationv1.ResourceAttributes] {
		GinkgoHelper()
		recorder.reset()
		annotateCluster(ctx, name, kubeconfig.AnnotationImmediateImport, "")
		Eventually(annotation(name, kubeconfig.AnnotationImmediateImport)).WithContext(ctx).
			Should(Equal(kubeconfig.ImmediateImportCompleted))
		Consistently(func() int {
			recorder.lock.Lock()
			defer recorder.lock.Unlock()
			return recorder.attempts
		}, nothingHappens).Should(Equal(1), "one request, one import")
		_, written := recorder.expectAsked()
		for what := range written {
			Expect(what.Verb).To(Equal("update"), "%v", what)
		}
		return written
	}

	BeforeAll(func(ctx SpecContext) {
		spoke = spokes[0]
		DeferCleanup(spoke.clean)
		startController(ctx)
	})

	BeforeEach(func(ctx SpecContext) { spoke.clean(ctx) })

	It("asks for what an import does, and on a fresh cluster for nothing else", func(ctx SpecContext) {
		name := newName("planned")
		create(ctx, name)
		asked, written := recorder.expectAsked()
		Expect(resourcesOf(written)).To(Equal([]string{"clusterrolebindings", "clusterroles", "customresourcedefinitions", "deployments",
			"klusterlets", "namespaces", "secrets", "serviceaccounts"}))
		Expect(lines(asked.Difference(written))).To(BeEmpty(), "asked for and not used")

		By("importing over objects that somebody has changed")
		// Else the cluster would be looked at meanwhile, and what a look reads noted.
		joinCluster(ctx, name)
		spoke.drift(ctx)
		written = again(ctx, name)
		spoke.expectNoDrift(ctx, name)
		// Namespace and ServiceAccount have no labels and no annotations to correct.
		Expect(resourcesOf(written)).To(Equal([]string{"clusterrolebindings", "clusterroles", "customresourcedefinitions", "deployments",
			"klusterlets", "secrets"}))
	})

	It("asks for what an import does to a namespace of the agent's own", func(ctx SpecContext) {
		name := newName("planned")
		// The CRD takes no name without this prefix.
		namespace := "open-cluster-management-" + name
		importConfig(ctx, name, "klusterlet:\n  namespace: "+namespace)
		create(ctx, name)
		DeferCleanup(func(ctx SpecContext) { spoke.removeNamespace(ctx, namespace) })
		recorder.expectAsked()

		joinCluster(ctx, name)
		_, err := spoke.kube.CoreV1().Namespaces().Patch(ctx, namespace, types.MergePatchType,
			[]byte(`{"metadata":{"annotations":{"workload.openshift.io/allowed":"drifted"}}}`), metav1.PatchOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(resourcesOf(again(ctx, name))).To(ContainElement("namespaces"))
	})
})
