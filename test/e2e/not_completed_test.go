// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/environment"
	"open-cluster-management.io/import-provider/test/harness"
	"open-cluster-management.io/import-provider/test/ocmhub"
	"open-cluster-management.io/import-provider/test/process"
)

// What keeps one cluster from joining is corrected step by step, as the messages say. The hub approves and accepts
// nothing by itself.
var _ = Describe("an import that does not complete", Ordered, func() {
	const (
		notAccepted = "the ManagedCluster does not accept the cluster; set spec.hubAcceptsClient of the ManagedCluster to true"
		nextImport  = "set annotation " + kubeconfig.AnnotationImmediateImport + ` of the ManagedCluster to ""`

		agentNamespace = "open-cluster-management-agent"
		agentSelector  = "app=klusterlet-agent"
		agentLease     = "klusterlet-agent-lock"
	)
	var (
		h       *hub
		cluster *environment.Cluster
		kube    kubernetes.Interface
	)

	BeforeAll(func(ctx SpecContext) {
		h = startHub(ctx, "hub-c")
		Expect(ocmhub.SetClusterImporterGate(ctx, h.Config(), true)).To(Succeed())
		Expect(h.StartManualRegistration(ctx)).To(Succeed())
		Expect(h.StartImportController(ctx)).To(Succeed())
		cluster = startCluster(ctx, "cluster-c1")
		var err error
		kube, err = kubernetes.NewForConfig(cluster.Config())
		Expect(err).NotTo(HaveOccurred())
	})

	bootstrapBy := func(server, token string) string {
		return fmt.Sprintf("bootstrapHubKubeConfig: %q", harness.TokenKubeconfig(server, h.CAData(), token))
	}
	// correct imports with other values. An agent that has not joined ends when its bootstrap Secret changes, and the next one
	// would wait up to three minutes for the lease that it keeps (ocm, pkg/common/options): the test does not wait.
	correct := func(ctx SpecContext, values string) {
		GinkgoHelper()
		leases, pods := kube.CoordinationV1().Leases(agentNamespace), kube.CoreV1().Pods(agentNamespace)
		Eventually(func(ctx context.Context) (string, error) {
			lease, err := leases.Get(ctx, agentLease, metav1.GetOptions{})
			if err != nil {
				return "", err
			}
			return ptr.Deref(lease.Spec.HolderIdentity, ""), nil
		}).WithContext(ctx).ShouldNot(BeEmpty(), "an agent has the lease")
		h.setImportConfig(ctx, "cluster1", values)
		h.importAgain(ctx, "cluster1")
		var agent string
		Eventually(func(g Gomega, ctx context.Context) {
			list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: agentSelector})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(list.Items).To(HaveLen(1))
			agent = list.Items[0].Name
			g.Expect(list.Items[0].Status.ContainerStatuses).To(ConsistOf(HaveField("RestartCount", BeNumerically(">", 0))))
		}).WithContext(ctx).Should(Succeed(), "the agent has ended")
		Expect(leases.Delete(ctx, agentLease, metav1.DeleteOptions{})).To(Succeed())
		Expect(pods.Delete(ctx, agent, metav1.DeleteOptions{})).To(Succeed())
	}

	It("says at once that the ManagedCluster does not accept the cluster", func(ctx SpecContext) {
		closed, err := process.FreeAddress()
		Expect(err).NotTo(HaveOccurred())
		// A cluster that is not accepted has no namespace yet.
		h.createNamespace(ctx, "cluster1")
		h.setImportConfig(ctx, "cluster1", bootstrapBy("https://"+closed, "a-token"))
		h.createImportSecret(ctx, "cluster1", tokenCredential(ctx, cluster).kubeconfig)
		h.createCluster(ctx, "cluster1", false)
		h.expectNotCompleted(ctx, "cluster1", lookTimeout, kubeconfig.ReasonNotAccepted, notAccepted)
	})

	It("says that the cluster does not reach the hub", func(ctx SpecContext) {
		h.expectNotCompleted(ctx, "cluster1", lookTimeout, kubeconfig.ReasonHubUnreachable,
			"the hub refuses the connection; make the hub's API server reachable from the cluster, by the URL and the CA that the "+
				"klusterlet has; after a change of cluster-import-config or the hub's options, "+nextImport)
	})

	It("says that the hub does not accept the bootstrap token", func(ctx SpecContext) {
		correct(ctx, bootstrapBy(h.URL(), "a-token-of-no-account"))
		h.expectNotCompleted(ctx, "cluster1", lookTimeout, kubeconfig.ReasonBootstrapRejected,
			"the hub does not accept the klusterlet's bootstrap token; check the bootstrap ServiceAccount of the hub and its permissions, "+
				"or bootstrapHubKubeConfig of cluster-import-config; then "+nextImport)
	})

	It("says that the certificate waits for approval", func(ctx SpecContext) {
		correct(ctx, "")
		h.expectNotCompleted(ctx, "cluster1", joinTimeout, kubeconfig.ReasonCSRNotApproved,
			"its request for a client certificate is not approved; approve the newest CertificateSigningRequest of the hub whose label "+
				clusterv1.ClusterNameLabelKey+" is the name of the cluster: kubectl certificate approve, or clusteradm accept")
	})

	It("says that the ManagedCluster does not accept the cluster once the certificate is approved", func(ctx SpecContext) {
		requests := h.kube.CertificatesV1().CertificateSigningRequests()
		list, err := requests.List(ctx, metav1.ListOptions{LabelSelector: clusterv1.ClusterNameLabelKey + "=cluster1"})
		Expect(err).NotTo(HaveOccurred())
		// An agent that was replaced may have left one too.
		Expect(list.Items).NotTo(BeEmpty())
		for i := range list.Items {
			request := &list.Items[i]
			request.Status.Conditions = append(request.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test",
			})
			_, err = requests.UpdateApproval(ctx, request.Name, request, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
		}
		h.expectNotCompleted(ctx, "cluster1", joinTimeout, kubeconfig.ReasonNotAccepted, notAccepted)
	})

	It("completes once the ManagedCluster accepts the cluster", func(ctx SpecContext) {
		h.patchCluster(ctx, "cluster1", `{"spec":{"hubAcceptsClient":true}}`)
		h.expectCompleted(ctx, "cluster1", importSecret("cluster1"), cluster)
		expectKlusterlet(ctx, cluster, "cluster1")
	})
})
