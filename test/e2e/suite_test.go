// Copyright Contributors to the Open Cluster Management project

// Package e2e carries clusters from nothing to available, with OCM's real controllers and agents.
package e2e

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	clusterclientset "open-cluster-management.io/api/client/cluster/clientset/versioned"
	operatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/environment"
	"open-cluster-management.io/import-provider/test/harness"
)

const (
	conditionImported = "ManagedClusterImportSucceeded"

	// joinTimeout is many times what a cluster takes on two quiet cores, which is below ten seconds.
	joinTimeout = 2 * time.Minute
	// lookTimeout leaves time for two looks at a cluster, 10 s after the klusterlet was deployed and up to 24 s later.
	lookTimeout = 40 * time.Second
	// eventTimeout is for an event whose condition is there.
	eventTimeout = 10 * time.Second
	interval     = 100 * time.Millisecond
	// quiet is how long nothing must happen where nothing may.
	quiet = 3 * time.Second
)

var (
	env *environment.Environment
	// failed says whether a spec has failed, whose logs are left then.
	failed bool
)

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
	SetDefaultEventuallyTimeout(joinTimeout)
	SetDefaultEventuallyPollingInterval(interval)
	EnforceDefaultTimeoutsWhenUsingContexts()
	RunSpecs(t, "End to end")
}

var _ = BeforeSuite(func(ctx SpecContext) {
	dir, err := os.MkdirTemp("", "import-e2e-")
	Expect(err).NotTo(HaveOccurred())
	env, err = environment.New(ctx, dir, GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
})

var _ = AfterSuite(func() {
	if env == nil {
		return
	}
	Expect(env.Stop()).To(Succeed())
	if failed || os.Getenv("KEEP") != "" {
		AddReportEntry("logs", env.Dir)
		return
	}
	Expect(os.RemoveAll(env.Dir)).To(Succeed())
})

var _ = ReportAfterEach(func(report SpecReport) { failed = failed || report.Failed() })

// hub is a hub with clients of its administrator.
type hub struct {
	*environment.Hub
	kube     kubernetes.Interface
	dynamic  dynamic.Interface
	clusters clusterclientset.Interface
}

func startHub(ctx SpecContext, name string) *hub {
	GinkgoHelper()
	started, err := env.StartHub(ctx, name)
	Expect(err).NotTo(HaveOccurred())
	h := &hub{Hub: started}
	h.kube, err = kubernetes.NewForConfig(started.Config())
	Expect(err).NotTo(HaveOccurred())
	h.dynamic, err = dynamic.NewForConfig(started.Config())
	Expect(err).NotTo(HaveOccurred())
	h.clusters, err = clusterclientset.NewForConfig(started.Config())
	Expect(err).NotTo(HaveOccurred())
	return h
}

func startCluster(ctx SpecContext, name string) *environment.Cluster {
	GinkgoHelper()
	cluster, err := env.StartCluster(ctx, name)
	Expect(err).NotTo(HaveOccurred())
	return cluster
}

func (h *hub) createManagedCluster(ctx SpecContext, name string) {
	GinkgoHelper()
	h.createCluster(ctx, name, true)
}

func (h *hub) createCluster(ctx SpecContext, name string, accepted bool) {
	GinkgoHelper()
	_, err := h.clusters.ClusterV1().ManagedClusters().Create(ctx, &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: accepted},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func (h *hub) patchCluster(ctx SpecContext, name, patch string) {
	GinkgoHelper()
	_, err := h.clusters.ClusterV1().ManagedClusters().Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func (h *hub) createNamespace(ctx SpecContext, name string) {
	GinkgoHelper()
	_, err := h.kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func (h *hub) createSecret(ctx SpecContext, namespace, name string, annotations map[string]string, data map[string][]byte) {
	GinkgoHelper()
	_, err := h.kube.CoreV1().Secrets(namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations},
		Data:       data,
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// createImportSecret creates the Secret in the import namespace that importSecret names.
func (h *hub) createImportSecret(ctx SpecContext, cluster string, data []byte) {
	GinkgoHelper()
	h.createSecret(ctx, component.ImportNamespace, cluster,
		map[string]string{kubeconfig.AnnotationManagedCluster: cluster}, map[string][]byte{"kubeconfig": data})
}

func importSecret(cluster string) types.NamespacedName {
	return types.NamespacedName{Namespace: component.ImportNamespace, Name: cluster}
}

// setImportConfig makes the klusterlet of one cluster be rendered with values, or with those of the hub alone if there are none.
func (h *hub) setImportConfig(ctx SpecContext, cluster, values string) {
	GinkgoHelper()
	const name = "cluster-import-config"
	err := h.kube.CoreV1().Secrets(cluster).Delete(ctx, name, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	if values != "" {
		h.createSecret(ctx, cluster, name, nil, map[string][]byte{"values.yaml": []byte(values)})
	}
}

// importAgain imports a cluster once more, as a person asks for it, and returns when the klusterlet is deployed.
func (h *hub) importAgain(ctx SpecContext, cluster string) {
	GinkgoHelper()
	h.patchCluster(ctx, cluster, fmt.Sprintf(`{"metadata":{"annotations":{%q:""}}}`, kubeconfig.AnnotationImmediateImport))
	Eventually(func(ctx context.Context) (map[string]string, error) {
		found, err := h.clusters.ClusterV1().ManagedClusters().Get(ctx, cluster, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return found.Annotations, nil
	}).WithContext(ctx).Should(HaveKeyWithValue(kubeconfig.AnnotationImmediateImport, kubeconfig.ImmediateImportCompleted))
}

func (h *hub) condition(ctx SpecContext, cluster, conditionType string) func(Gomega) metav1.Condition {
	return func(g Gomega) metav1.Condition {
		found, err := h.clusters.ClusterV1().ManagedClusters().Get(ctx, cluster, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		condition := meta.FindStatusCondition(found.Status.Conditions, conditionType)
		if condition == nil {
			return metav1.Condition{}
		}
		return *condition
	}
}

// expectJoined waits until the hub says that the cluster was imported, is accepted, has joined and is available.
func (h *hub) expectJoined(ctx SpecContext, cluster string) {
	GinkgoHelper()
	start := time.Now()
	for _, conditionType := range []string{
		conditionImported,
		clusterv1.ManagedClusterConditionHubAccepted,
		clusterv1.ManagedClusterConditionJoined,
		clusterv1.ManagedClusterConditionAvailable,
	} {
		Eventually(h.condition(ctx, cluster, conditionType)).WithContext(ctx).
			Should(HaveField("Status", metav1.ConditionTrue), "%s of %s", conditionType, cluster)
		GinkgoWriter.Printf("%s: %s after %.1f s\n", cluster, conditionType, time.Since(start).Seconds())
	}
}

// expectCompleted waits until the hub says that the import by the Secret is complete, and expects what the import
// recorded: an event of each stage on both objects, and the identity of the cluster.
func (h *hub) expectCompleted(ctx SpecContext, name string, secret types.NamespacedName, cluster *environment.Cluster) {
	GinkgoHelper()
	h.expectJoined(ctx, name)
	const message = "the klusterlet has joined and is available"
	Eventually(h.condition(ctx, name, kubeconfig.ConditionCompleted)).WithContext(ctx).
		Should(beCondition(metav1.ConditionTrue, kubeconfig.ReasonCompleted, message))
	h.expectEvents(ctx, name, secret, corev1.EventTypeNormal, kubeconfig.ReasonKlusterletDeployed, "the klusterlet is deployed to the cluster")
	h.expectEvents(ctx, name, secret, corev1.EventTypeNormal, kubeconfig.ReasonCompleted, message)

	kube, err := kubernetes.NewForConfig(cluster.Config())
	Expect(err).NotTo(HaveOccurred())
	namespace, err := kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	found, err := h.clusters.ClusterV1().ManagedClusters().Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(found.Annotations).To(HaveKeyWithValue(kubeconfig.AnnotationClusterUID, string(namespace.UID)))
}

// expectObserved expects that the conditions of an import are of the present generation: kubectl wait takes no other.
func (h *hub) expectObserved(ctx SpecContext, name string) {
	GinkgoHelper()
	Eventually(func(g Gomega, ctx context.Context) {
		found, err := h.clusters.ClusterV1().ManagedClusters().Get(ctx, name, metav1.GetOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		for _, conditionType := range []string{kubeconfig.ConditionPreflightPassed, kubeconfig.ConditionCompleted} {
			g.Expect(meta.FindStatusCondition(found.Status.Conditions, conditionType)).
				To(HaveField("ObservedGeneration", found.Generation), conditionType)
		}
	}).WithContext(ctx).WithTimeout(eventTimeout).Should(Succeed())
}

// expectPreflightPassed expects that the hub says so, and when the credential expires.
func (h *hub) expectPreflightPassed(ctx SpecContext, name, expiry string) {
	GinkgoHelper()
	Eventually(h.condition(ctx, name, kubeconfig.ConditionPreflightPassed)).WithContext(ctx).
		Should(beCondition(metav1.ConditionTrue, kubeconfig.ReasonPreflightPassed,
			fmt.Sprintf("import Secret %s: the preflight passed; %s", importSecret(name), expiry)))
}

// expectNotCompleted waits until the hub says why a deployed klusterlet has not joined, by its condition and by events.
func (h *hub) expectNotCompleted(ctx SpecContext, name string, timeout time.Duration, reason kubeconfig.Reason, message string) {
	GinkgoHelper()
	start := time.Now()
	Eventually(h.condition(ctx, name, kubeconfig.ConditionCompleted)).WithContext(ctx).WithTimeout(timeout).
		Should(beCondition(metav1.ConditionFalse, reason, message))
	GinkgoWriter.Printf("%s: %s after %.1f s\n", name, reason, time.Since(start).Seconds())
	h.expectEvents(ctx, name, importSecret(name), corev1.EventTypeWarning, reason, message)
}

func beCondition(status metav1.ConditionStatus, reason kubeconfig.Reason, message string) OmegaMatcher {
	return And(HaveField("Status", status), HaveField("Reason", string(reason)), HaveField("Message", message))
}

// event is what a person sees of an event.
type event struct{ kind, namespace, name, eventType, reason, note string }

// expectEvents waits for an event on the ManagedCluster and the same on its import Secret.
func (h *hub) expectEvents(ctx SpecContext, cluster string, secret types.NamespacedName, eventType string, reason kubeconfig.Reason, note string) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) ([]event, error) {
		list, err := h.kube.EventsV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		events := make([]event, len(list.Items))
		for i := range list.Items {
			e := &list.Items[i]
			events[i] = event{e.Regarding.Kind, e.Regarding.Namespace, e.Regarding.Name, e.Type, e.Reason, e.Note}
		}
		return events, nil
	}).WithContext(ctx).WithTimeout(eventTimeout).Should(ContainElements(
		event{"ManagedCluster", "", cluster, eventType, string(reason), note},
		event{"Secret", secret.Namespace, secret.Name, eventType, string(reason), note},
	))
}

// expectUntouched sees for a while that nothing of OCM comes to the cluster and the hub says nothing of it.
func (h *hub) expectUntouched(ctx SpecContext, name string, cluster *environment.Cluster) {
	GinkgoHelper()
	kube, err := kubernetes.NewForConfig(cluster.Config())
	Expect(err).NotTo(HaveOccurred())
	Consistently(func(g Gomega) {
		g.Expect(h.condition(ctx, name, conditionImported)(g)).To(BeZero())
		namespaces, err := kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(namespaces.Items).NotTo(ContainElement(HaveField("Name", HavePrefix("open-cluster-management"))))
		g.Expect(h.condition(ctx, name, kubeconfig.ConditionPreflightPassed)(g)).To(BeZero())
	}).WithContext(ctx).WithTimeout(quiet).WithPolling(250 * time.Millisecond).Should(Succeed())
}

func expectKlusterlet(ctx SpecContext, cluster *environment.Cluster, clusterName string) {
	GinkgoHelper()
	client, err := operatorclient.NewForConfig(cluster.Config())
	Expect(err).NotTo(HaveOccurred())
	klusterlets, err := client.OperatorV1().Klusterlets().List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(klusterlets.Items).To(HaveLen(1))
	Expect(klusterlets.Items[0].Spec.ClusterName).To(Equal(clusterName))
}

// credential is a kubeconfig that a cluster's owner hands out, and what the hub says of its end.
type credential struct {
	kubeconfig []byte
	expiry     string
}

func tokenCredential(ctx SpecContext, cluster *environment.Cluster) credential {
	GinkgoHelper()
	token, err := cluster.IssueToken(ctx)
	Expect(err).NotTo(HaveOccurred())
	var claims jwt.RegisteredClaims
	_, _, err = jwt.NewParser().ParseUnverified(token, &claims)
	Expect(err).NotTo(HaveOccurred())
	Expect(claims.ExpiresAt).NotTo(BeNil())
	return credential{
		kubeconfig: harness.TokenKubeconfig(cluster.URL(), cluster.CAData(), token),
		expiry:     "its token expires at " + claims.ExpiresAt.UTC().Format(time.RFC3339),
	}
}

func certificateCredential(cluster *environment.Cluster) credential {
	GinkgoHelper()
	expiry := time.Now().Add(time.Hour)
	cert, key, err := cluster.IssueClientCert("owner", []string{"system:masters"}, time.Now().Add(-time.Minute), expiry)
	Expect(err).NotTo(HaveOccurred())
	return credential{
		kubeconfig: harness.CertKubeconfig(cluster.URL(), cluster.CAData(), cert, key),
		expiry:     "its client certificate expires at " + expiry.UTC().Format(time.RFC3339),
	}
}
