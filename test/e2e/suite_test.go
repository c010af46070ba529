// Copyright Contributors to the Open Cluster Management project

// Package e2e carries clusters from nothing to available, with OCM's real controllers and agents.
package e2e

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	clusterclientset "open-cluster-management.io/api/client/cluster/clientset/versioned"
	operatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/environment"
	"open-cluster-management.io/import-provider/test/harness"
)

const (
	conditionImported = "ManagedClusterImportSucceeded"

	// joinTimeout is many times what a cluster takes on two quiet cores, which is below ten seconds.
	joinTimeout = 2 * time.Minute
	// quiet is how long nothing must happen where nothing may.
	quiet = 3 * time.Second
)

var env *environment.Environment

func TestE2E(t *testing.T) {
	RegisterFailHandler(Fail)
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
	if CurrentSpecReport().Failed() || os.Getenv("KEEP") != "" {
		GinkgoWriter.Println("logs are in", env.Dir)
		return
	}
	Expect(os.RemoveAll(env.Dir)).To(Succeed())
})

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
	_, err := h.clusters.ClusterV1().ManagedClusters().Create(ctx, &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
	}, metav1.CreateOptions{})
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

func (h *hub) createImportSecret(ctx SpecContext, cluster string, kubeconfig []byte) {
	GinkgoHelper()
	h.createSecret(ctx, component.ImportNamespace, cluster,
		map[string]string{"import.open-cluster-management.io/managed-cluster": cluster},
		map[string][]byte{"kubeconfig": kubeconfig})
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
		Eventually(h.condition(ctx, cluster, conditionType)).WithContext(ctx).WithTimeout(joinTimeout).
			WithPolling(100*time.Millisecond).Should(HaveField("Status", metav1.ConditionTrue), "%s of %s", conditionType, cluster)
		GinkgoWriter.Printf("%s: %s after %.1f s\n", cluster, conditionType, time.Since(start).Seconds())
	}
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

func tokenKubeconfig(ctx SpecContext, cluster *environment.Cluster) []byte {
	GinkgoHelper()
	token, err := cluster.IssueToken(ctx)
	Expect(err).NotTo(HaveOccurred())
	return harness.TokenKubeconfig(cluster.URL(), cluster.CAData(), token)
}

func certificateKubeconfig(cluster *environment.Cluster) []byte {
	GinkgoHelper()
	cert, key, err := cluster.IssueClientCert("owner", []string{"system:masters"},
		time.Now().Add(-time.Minute), time.Now().Add(time.Hour))
	Expect(err).NotTo(HaveOccurred())
	return harness.CertKubeconfig(cluster.URL(), cluster.CAData(), cert, key)
}
