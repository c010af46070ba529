// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/fleet"
)

// requestLog is what a cluster was asked and how it answered.
type requestLog struct {
	lock  sync.Mutex // guards lines, for the time of a change
	lines sets.Set[string]
}

func (l *requestLog) add(method, path string, code int) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.lines.Insert(fmt.Sprintf("%s %s %d", method, path, code))
}

// take returns what was asked since the last time. How often the klusterlet is tried until its kind is served depends on the
// time, and after the first time its CRD is looked at.
func (l *requestLog) take() []string {
	l.lock.Lock()
	defer l.lock.Unlock()
	lines := l.lines
	l.lines = sets.New[string]()
	lines.Delete("PATCH /apis/operator.open-cluster-management.io/v1/klusterlets/"+klusterletName+" 404",
		"GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+klusterletCRD+" 200")
	return sets.List(lines)
}

// importedKinds are the kinds of which a klusterlet consists.
var importedKinds = []schema.GroupVersionKind{
	{Version: "v1", Kind: "Namespace"},
	{Version: "v1", Kind: "Secret"},
	{Version: "v1", Kind: "ServiceAccount"},
	{Group: "apps", Version: "v1", Kind: "Deployment"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRole"},
	{Group: "rbac.authorization.k8s.io", Version: "v1", Kind: "ClusterRoleBinding"},
	{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"},
	{Group: "operator.open-cluster-management.io", Version: "v1", Kind: "Klusterlet"},
}

func objectID(o *unstructured.Unstructured) string {
	return fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
}

// objects returns all objects of a cluster that an import could have made.
func objects(ctx context.Context, client dynamic.Interface) map[string]*unstructured.Unstructured {
	GinkgoHelper()
	found := map[string]*unstructured.Unstructured{}
	for _, kind := range importedKinds {
		resource, _ := meta.UnsafeGuessKindToResource(kind)
		list, err := client.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			// Before the import nobody knows Klusterlets.
			Expect(err).To(MatchError(ContainSubstring("could not find the requested resource")))
			continue
		}
		for i := range list.Items {
			found[objectID(&list.Items[i])] = &list.Items[i]
		}
	}
	return found
}

// alike makes what an import left on one cluster comparable with what it left on another.
func alike(o *unstructured.Unstructured, clusterName string) *unstructured.Unstructured {
	GinkgoHelper()
	o = o.DeepCopy()
	if data, found, _ := unstructured.NestedString(o.Object, "data", "kubeconfig"); found {
		Expect(data).NotTo(BeEmpty())
		// It holds a token for this cluster alone.
		Expect(unstructured.SetNestedField(o.Object, "Z2VuZXJhdGVk", "data", "kubeconfig")).To(Succeed())
	}
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation"} {
		unstructured.RemoveNestedField(o.Object, "metadata", field)
	}
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, condition := range conditions {
		if condition, ok := condition.(map[string]any); ok {
			delete(condition, "lastTransitionTime")
		}
	}
	if len(conditions) > 0 {
		Expect(unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions")).To(Succeed())
	}
	text, err := o.MarshalJSON()
	Expect(err).NotTo(HaveOccurred())
	Expect(o.UnmarshalJSON(bytes.ReplaceAll(text, []byte(clusterName), []byte("the-cluster")))).To(Succeed())
	return o
}

var _ = Describe("A simulated cluster", Ordered, ContinueOnFailure, func() {
	var (
		spoke     *spokeCluster
		simulated *fleet.Fleet
		asked     = map[string]*requestLog{}
	)

	BeforeAll(func(ctx SpecContext) {
		spoke = spokes[0]
		spoke.clean(ctx)
		DeferCleanup(spoke.clean)
		for _, name := range []string{"real", "simulated"} {
			asked[name] = &requestLog{lines: sets.New[string]()}
		}
		simulated = fleet.New(fleet.Options{TokenPrefix: sentinel, Observe: func(r fleet.Request) {
			asked["simulated"].add(r.Method, r.Path, r.Code)
		}})
		DeferCleanup(simulated.Stop)
	})

	It("cannot be told from a real one by an import", func(ctx SpecContext) {
		startController(ctx)
		proxy := inFront(spoke)
		proxy.ModifyResponse = func(resp *http.Response) error {
			asked["real"].add(resp.Request.Method, resp.Request.URL.Path, resp.StatusCode)
			return nil
		}
		inFrontOfReal := newFakeServer(proxy.ServeHTTP)
		names := map[string]string{"real": newName("like-real"), "simulated": newName("like-simulated")}
		cluster, err := simulated.Add(ctx, names["simulated"], fleet.Healthy)
		Expect(err).NotTo(HaveOccurred())

		clients := map[string]dynamic.Interface{}
		before := map[string]map[string]*unstructured.Unstructured{}
		for name, config := range map[string]*rest.Config{"real": spoke.Config(), "simulated": cluster.Config()} {
			clients[name], err = dynamic.NewForConfig(config)
			Expect(err).NotTo(HaveOccurred())
			before[name] = objects(ctx, clients[name])
			asked[name].take()
		}

		By("importing both")
		createSecret(ctx, newFakeSecret(names["real"], inFrontOfReal))
		createSecret(ctx, kubeconfigSecret(names["simulated"], cluster.Kubeconfig()))
		for _, name := range names {
			createCluster(ctx, name)
		}
		for _, name := range names {
			expectImported(ctx, name)
			// Else the cluster would be looked at meanwhile.
			joinCluster(ctx, name)
		}
		requests := asked["real"].take()
		Expect(requests).NotTo(BeEmpty())
		Expect(asked["simulated"].take()).To(Equal(requests))

		By("comparing what was left")
		after := objects(ctx, clients["real"])
		left := map[string]*unstructured.Unstructured{}
		for id, o := range objects(ctx, clients["simulated"]) {
			if before["simulated"][id] == nil {
				left[id] = o
			}
		}
		Expect(left).NotTo(BeEmpty())
		for id, o := range after {
			if before["real"][id] == nil {
				Expect(left).To(HaveKey(id), "only the real cluster has it")
				continue
			}
			delete(after, id)
			Expect(o.GetResourceVersion()).NotTo(BeEmpty())
		}
		for id, o := range left {
			Expect(after).To(HaveKey(id), "only the simulated cluster has it")
			// The real server fills in its defaults, which the simulated one does not know.
			filled := o.DeepCopy()
			filled.SetUID(after[id].GetUID())
			filled.SetResourceVersion(after[id].GetResourceVersion())
			filled.SetManagedFields(nil)
			text, err := json.Marshal(filled.Object)
			Expect(err).NotTo(HaveOccurred())
			Expect(filled.UnmarshalJSON(bytes.ReplaceAll(text, []byte(names["simulated"]), []byte(names["real"])))).To(Succeed())
			resource, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
			var into dynamic.ResourceInterface = clients["real"].Resource(resource)
			if o.GetNamespace() != "" {
				into = clients["real"].Resource(resource).Namespace(o.GetNamespace())
			}
			filled, err = into.Update(ctx, filled, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			Expect(err).NotTo(HaveOccurred(), id)
			Expect(alike(filled, names["real"]).Object).To(Equal(alike(after[id], names["real"]).Object), id)
			// Of the status, an update takes nothing.
			Expect(alike(o, names["simulated"]).Object["status"]).To(Or(BeNil(),
				Equal(alike(after[id], names["real"]).Object["status"])), id)
		}

		By("importing both again")
		asked["real"].take()
		asked["simulated"].take()
		for _, name := range names {
			annotateCluster(ctx, name, kubeconfig.AnnotationImmediateImport, "")
		}
		for _, name := range names {
			Eventually(annotation(name, kubeconfig.AnnotationImmediateImport)).WithContext(ctx).
				Should(Equal(kubeconfig.ImmediateImportCompleted))
		}
		requests = asked["real"].take()
		Expect(requests).NotTo(BeEmpty())
		Expect(asked["simulated"].take()).To(Equal(requests))
	})

	It("answers as a real one does", func(ctx SpecContext) {
		cluster, err := simulated.Add(ctx, newName("like-simulated"), fleet.Healthy)
		Expect(err).NotTo(HaveOccurred())
		const (
			maps   = "/api/v1/namespaces/default/configmaps"
			crds   = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
			things = "/apis/example.com/v1/things"
		)
		DeferCleanup(func(ctx SpecContext) { answers(ctx, spoke.Config(), step{"DELETE", maps + "/a", ""}) })
		steps := []step{
			{"GET", maps + "/a", ""},
			{"PUT", maps + "/a", `{"metadata":{"name":"a"}}`},
			{"POST", maps + "?dryRun=All", `{"metadata":{"name":"a"}}`},
			{"POST", maps, `{"metadata":{"name":"a","labels":{"app":"x"}},"data":{"k":"v"}}`},
			{"POST", maps, `{"metadata":{"name":"a"}}`},
			{"POST", "/api/v1/namespaces/absent/configmaps", `{"metadata":{"name":"a"}}`},
			{"PUT", maps + "/a", `{"metadata":{"name":"a","resourceVersion":"1"}}`},
			{"PUT", maps + "/a", `{"metadata":{"name":"a"},"data":{"k":"w"}}`},
			{"PATCH", maps + "/b?fieldManager=test", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"data":{"k":"v"}}`},
			{"PATCH", maps + "/b?fieldManager=test", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b"},"data":{"k":"w"}}`},
			{"GET", maps + "/b", ""},
			{"DELETE", maps + "/b", ""},
			{"DELETE", maps + "/b", ""},
			{"GET", "/apis/absent.example.com/v1/things/a", ""},
			{"GET", "/api/v1/absent/a", ""},
			{"GET", "/api/v1/namespaces/kube-system", ""},
			{"GET", "/version", ""},
			{"GET", "/api", ""},
			{"GET", "/apis", ""},
			{"GET", "/apis/apps/v1", ""},
			{"GET", "/api/v1/namespaces/default/pods?labelSelector=app+in+(klusterlet)", ""},
			{"POST", preflightPath, `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview",` +
				`"spec":{"resourceAttributes":{"verb":"*","group":"*","resource":"*"}}}`},
			{"GET", things, ""},
		}
		Expect(answers(ctx, cluster.Config(), steps...)).To(Equal(answers(ctx, spoke.Config(), steps...)))

		By("creating an object of a new kind, which is held back")
		newKind := step{"POST", crds, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"things.example.com"},` +
			`"spec":{"group":"example.com","scope":"Cluster","names":{"plural":"things","singular":"thing","kind":"Thing","listKind":"ThingList"},` +
			`"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`}
		served := func(config *rest.Config) func() string {
			return func() string { return answers(ctx, config, step{"GET", things, ""})[0] }
		}
		for _, config := range []*rest.Config{spoke.Config(), cluster.Config()} {
			Expect(answers(ctx, config, newKind)).To(ConsistOf("POST " + crds + " 201 CustomResourceDefinition"))
			Eventually(served(config)).WithContext(ctx).Should(HavePrefix("GET " + things + " 200"))
			started := time.Now()
			Expect(answers(ctx, config, step{"POST", things, `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a"}}`})).
				To(ConsistOf(HavePrefix("POST " + things + " 201")))
			Expect(time.Since(started)).To(BeNumerically("~", fleet.DefaultCreateHold, time.Second))
		}

		By("showing another token")
		for _, config := range []*rest.Config{spoke.Config(), cluster.Config()} {
			config = rest.AnonymousClientConfig(config)
			config.BearerToken = sentinel
			Expect(answers(ctx, config, step{"GET", "/version", ""})).To(Equal([]string{"GET /version 401 Status Unauthorized"}))
		}
	})
})

// step is a request of a test.
type step struct{ method, path, body string }

// answers returns for each request its code, and kind and reason of the answer.
func answers(ctx context.Context, config *rest.Config, steps ...step) []string {
	GinkgoHelper()
	client, err := rest.HTTPClientFor(config)
	Expect(err).NotTo(HaveOccurred())
	defer client.CloseIdleConnections()
	var lines []string
	for _, s := range steps {
		req, err := http.NewRequestWithContext(ctx, s.method, config.Host+s.path, strings.NewReader(s.body))
		Expect(err).NotTo(HaveOccurred())
		req.Header.Set("Content-Type", "application/json")
		if s.method == http.MethodPatch {
			req.Header.Set("Content-Type", "application/apply-patch+yaml")
		}
		resp, err := client.Do(req)
		Expect(err).NotTo(HaveOccurred())
		body, err := io.ReadAll(resp.Body)
		Expect(err).NotTo(HaveOccurred())
		Expect(resp.Body.Close()).To(Succeed())
		var answer struct{ Kind, Reason string }
		if json.Unmarshal(body, &answer) != nil {
			answer.Kind = strings.TrimSpace(string(body))
		}
		lines = append(lines, strings.TrimSpace(strings.Join(slices.Concat(
			[]string{s.method, s.path, fmt.Sprint(resp.StatusCode)}, strings.Fields(answer.Kind+" "+answer.Reason)), " ")))
	}
	return lines
}

var _ = Describe("Imports of many clusters that are asked for at once", func() {
	It("are done once each, whoever else writes to the ManagedClusters", func(ctx SpecContext) {
		const size = 40
		var (
			lock   sync.Mutex // guards writes, for the time of a change
			writes = map[string]int{}
		)
		simulated := fleet.New(fleet.Options{TokenPrefix: sentinel, Observe: func(r fleet.Request) {
			// Each import writes it once.
			if r.Method != http.MethodGet && r.Code < http.StatusMultipleChoices && strings.HasPrefix(r.Path, "/api/v1/namespaces/"+agentNamespace+"/secrets") {
				lock.Lock()
				defer lock.Unlock()
				writes[r.Cluster]++
			}
		}})
		DeferCleanup(simulated.Stop)
		startController(ctx)
		names := make([]string, size)
		for i := range names {
			names[i] = newName("many")
			cluster, err := simulated.Add(ctx, names[i], fleet.Healthy)
			Expect(err).NotTo(HaveOccurred())
			createSecret(ctx, kubeconfigSecret(names[i], cluster.Kubeconfig()))
			createCluster(ctx, names[i])
		}
		// The hub's own controllers are what does that.
		writing, stop := context.WithCancel(ctx)
		var others sync.WaitGroup
		others.Go(func() {
			defer GinkgoRecover()
			for n := 0; writing.Err() == nil; n++ {
				annotateCluster(ctx, names[n%size], "example.com/written", strconv.Itoa(n))
			}
		})
		defer others.Wait()
		defer stop()
		for _, name := range names {
			expectImported(ctx, name)
		}
		var asking sync.WaitGroup
		for _, name := range names {
			asking.Go(func() {
				defer GinkgoRecover()
				annotateCluster(ctx, name, kubeconfig.AnnotationImmediateImport, "")
			})
		}
		asking.Wait()
		for _, name := range names {
			Eventually(annotation(name, kubeconfig.AnnotationImmediateImport)).WithContext(ctx).
				Should(Equal(kubeconfig.ImmediateImportCompleted))
			expectImported(ctx, name)
		}
		lock.Lock()
		defer lock.Unlock()
		for _, name := range names {
			Expect(writes).To(HaveKeyWithValue(name, 2))
		}
	})
})
