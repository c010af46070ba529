// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"open-cluster-management.io/ocm/pkg/registration/hub/importer/providers/capi"

	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/ocmhub"
)

// createCAPICluster creates a Cluster of Cluster API that is provisioned, as its controllers would.
func createCAPICluster(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	createNamespace(ctx, namespace)
	clusters := hubDynamic.Resource(capi.ClusterAPIGVR).Namespace(namespace)
	cluster := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": capi.ClusterAPIGVR.GroupVersion().String(), "kind": "Cluster",
		"metadata": map[string]any{"name": name},
	}}
	created, err := clusters.Create(ctx, cluster, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { deleteCAPICluster(ctx, namespace, name) })
	Expect(unstructured.SetNestedField(created.Object, "Provisioned", "status", "phase")).To(Succeed())
	_, err = clusters.UpdateStatus(ctx, created, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func deleteCAPICluster(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	list, err := hubDynamic.Resource(capi.ClusterAPIGVR).Namespace(namespace).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	for i := range list.Items {
		if list.Items[i].GetName() == name {
			Expect(hubDynamic.Resource(capi.ClusterAPIGVR).Namespace(namespace).Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		}
	}
}

var _ = Describe("Beside Cluster API", Ordered, ContinueOnFailure, func() {
	const clusterNote = "Cluster API's provider imports this cluster; its import Secret is not used"

	BeforeAll(func(ctx SpecContext) {
		Expect(ocmhub.InstallCAPI(ctx, hub.Config())).To(Succeed())
	})
	BeforeEach(func(ctx SpecContext) {
		for _, spoke := range spokes {
			spoke.clean(ctx)
		}
	})

	expectDeclined := func(ctx context.Context, name string) {
		GinkgoHelper()
		Eventually(recordedEvents(name)).WithContext(ctx).Should(ContainElements(
			secretEvent(kubeconfigSecret(name, nil), corev1.EventTypeWarning, "OwnedByClusterAPI",
				"ManagedCluster "+name+" is imported by Cluster API's provider; this Secret is not used"),
			clusterEvent(name, corev1.EventTypeWarning, "OwnedByClusterAPI", clusterNote),
		))
		Consistently(condition(name), "1s").WithContext(ctx).Should(BeNil())
	}

	It("a cluster with a Cluster of its name is declined, and imported when that is gone", func(ctx SpecContext) {
		startController(ctx)
		name := newName("capi")
		createCAPICluster(ctx, name, name)
		createSecret(ctx, kubeconfigSecret(name, spokes[0].Kubeconfig()))
		createCluster(ctx, name)
		expectDeclined(ctx, name)
		deleteCAPICluster(ctx, name, name)
		expectImported(ctx, name)
		spokes[0].expectKlusterlet(ctx, name)
	})

	It("a cluster with Cluster API's annotation is declined", func(ctx SpecContext) {
		startController(ctx)
		name := newName("capi")
		createSecret(ctx, kubeconfigSecret(name, spokes[0].Kubeconfig()))
		createCluster(ctx, name, capi.CAPIAnnotationKey, "somewhere/else")
		expectDeclined(ctx, name)
	})

	It("a Cluster in another namespace is none of the cluster's", func(ctx SpecContext) {
		startController(ctx)
		name := newName("capi")
		createCAPICluster(ctx, newName("elsewhere"), name)
		importNow(ctx, name, spokes[0])
	})

	It("both providers run in one process, and an import Secret wins", func(ctx SpecContext) {
		Expect(component.Install(ctx, hub, controlPlaneBinaries, "capi")).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			// What it grants is more than the component has without Cluster API.
			const name = "open-cluster-management:importer:capi"
			Expect(hubKube.RbacV1().ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
			Expect(hubKube.RbacV1().ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
		})
		c := startController(ctx, "--providers=kubeconfig,capi")
		ours, theirs := newName("capi"), newName("capi")
		createCAPICluster(ctx, ours, ours)
		// The Secret of Cluster API leads to another cluster than ours.
		createSecret(ctx, capiSecret(ours, spokes[2]))
		createSecret(ctx, kubeconfigSecret(ours, spokes[0].Kubeconfig()))
		createCluster(ctx, ours)
		createCAPICluster(ctx, theirs, theirs)
		createSecret(ctx, capiSecret(theirs, spokes[1]))
		createCluster(ctx, theirs)

		expectImported(ctx, ours)
		spokes[0].expectKlusterlet(ctx, ours)
		// Cluster API's provider has none of our conditions.
		Eventually(condition(theirs)).WithContext(ctx).Should(haveSucceeded())
		spokes[1].expectKlusterlet(ctx, theirs)
		klusterlets, err := spokes[2].kube.CoreV1().Secrets(agentNamespace).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(klusterlets.Items).To(BeEmpty(), "the cluster that Cluster API's Secret leads to")
		Expect(c.log()).To(ContainSubstring(`"Importer started" providers=["kubeconfig","capi"]`))
	})
})

// capiSecret is the Secret in which Cluster API keeps the kubeconfig of a Cluster.
func capiSecret(name string, spoke *spokeCluster) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name + "-kubeconfig"},
		Type:       "cluster.x-k8s.io/secret",
		Data:       map[string][]byte{"value": spoke.Kubeconfig()},
	}
}
