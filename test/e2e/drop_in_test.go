// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"open-cluster-management.io/ocm/pkg/registration/hub/importer/providers/capi"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/environment"
	"open-cluster-management.io/import-provider/test/ocmhub"
)

// One process is the registration controller and the importer, as on a hub whose ClusterManager names our image.
var _ = Describe("the drop-in for the registration controller", Ordered, func() {
	var (
		h                  *hub
		cluster1, cluster2 *environment.Cluster
		controller         *ocmhub.Process
	)

	BeforeAll(func(ctx SpecContext) {
		h = startHub(ctx, "hub-b")
		Expect(ocmhub.InstallCAPI(ctx, h.Config())).To(Succeed())
		var err error
		controller, err = h.StartDropIn(ctx)
		Expect(err).NotTo(HaveOccurred())
		cluster1 = startCluster(ctx, "cluster-b1")
		cluster2 = startCluster(ctx, "cluster-b2")
	})

	It("imports nothing while the feature gate is off", func(ctx SpecContext) {
		h.createManagedCluster(ctx, "cluster1")
		Eventually(func(g Gomega) {
			_, err := h.kube.CoreV1().Namespaces().Get(ctx, "cluster1", metav1.GetOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}).WithContext(ctx).Should(Succeed(), "the registration controller makes the namespace")
		h.createSecret(ctx, "cluster1", kubeconfig.SecretName, map[string]string{kubeconfig.AnnotationManagedCluster: "cluster1"},
			map[string][]byte{"value": tokenCredential(ctx, cluster1).kubeconfig})
		h.expectUntouched(ctx, "cluster1", cluster1)
	})

	It("imports a cluster by the Secret in its own namespace once the gate is on", func(ctx SpecContext) {
		// The hub's operator starts the controller again when the gate changes.
		Expect(controller.Stop()).To(Succeed())
		var err error
		controller, err = h.StartDropIn(ctx, "ClusterImporter=true")
		Expect(err).NotTo(HaveOccurred())
		h.expectCompleted(ctx, "cluster1", types.NamespacedName{Namespace: "cluster1", Name: kubeconfig.SecretName}, cluster1)
		expectKlusterlet(ctx, cluster1, "cluster1")
	})

	It("imports a cluster of Cluster API in the same importer", func(ctx SpecContext) {
		h.createNamespace(ctx, "cluster2")
		h.createSecret(ctx, "cluster2", "cluster2-kubeconfig", nil,
			map[string][]byte{"value": certificateCredential(cluster2).kubeconfig})
		clusters := h.dynamic.Resource(capi.ClusterAPIGVR).Namespace("cluster2")
		capiCluster, err := clusters.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": capi.ClusterAPIGVR.GroupVersion().String(),
			"kind":       "Cluster",
			"metadata":   map[string]any{"name": "cluster2", "namespace": "cluster2"},
		}}, metav1.CreateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(unstructured.SetNestedField(capiCluster.Object, "Provisioned", "status", "phase")).To(Succeed())
		_, err = clusters.UpdateStatus(ctx, capiCluster, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		h.createManagedCluster(ctx, "cluster2")
		h.expectJoined(ctx, "cluster2")
		expectKlusterlet(ctx, cluster2, "cluster2")
		Expect(h.condition(ctx, "cluster2", kubeconfig.ConditionCompleted)(Default)).To(BeZero(), "that is of the other provider")
	})
})
