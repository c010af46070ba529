// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/environment"
	"open-cluster-management.io/import-provider/test/ocmhub"
)

// The hub is unmodified: its own importer runs too, as it does on a hub whose feature gate is on.
var _ = Describe("import-controller beside an unmodified hub", Ordered, func() {
	var (
		h                  *hub
		cluster1, cluster2 *environment.Cluster
	)

	BeforeAll(func(ctx SpecContext) {
		h = startHub(ctx, "hub-a")
		Expect(h.StartRegistration(ctx, "ClusterImporter=true")).To(Succeed())
		Expect(ocmhub.SetClusterImporterGate(ctx, h.Config(), false)).To(Succeed())
		Expect(h.StartImportController(ctx)).To(Succeed())
		cluster1 = startCluster(ctx, "cluster-a1")
		cluster2 = startCluster(ctx, "cluster-a2")
	})

	It("imports nothing while the feature gate is off", func(ctx SpecContext) {
		h.createImportSecret(ctx, "cluster1", tokenKubeconfig(ctx, cluster1))
		h.createManagedCluster(ctx, "cluster1")
		h.expectUntouched(ctx, "cluster1", cluster1)
	})

	It("imports a cluster whose Secret came first, with a static token, once the gate is on", func(ctx SpecContext) {
		Expect(ocmhub.SetClusterImporterGate(ctx, h.Config(), true)).To(Succeed())
		h.expectJoined(ctx, "cluster1")
		expectKlusterlet(ctx, cluster1, "cluster1")
	})

	It("imports a cluster whose ManagedCluster came first, with a client certificate, after its Secret was corrected",
		func(ctx SpecContext) {
			h.createManagedCluster(ctx, "cluster2")
			h.createImportSecret(ctx, "cluster2", []byte("this is no kubeconfig"))
			Eventually(h.condition(ctx, "cluster2", conditionImported)).WithContext(ctx).WithTimeout(joinTimeout).Should(And(
				HaveField("Status", metav1.ConditionFalse),
				HaveField("Message", ContainSubstring("KubeconfigInvalid"))))

			secrets := h.kube.CoreV1().Secrets(component.ImportNamespace)
			secret, err := secrets.Get(ctx, "cluster2", metav1.GetOptions{})
			Expect(err).NotTo(HaveOccurred())
			secret.Data["kubeconfig"] = certificateKubeconfig(cluster2)
			_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
			Expect(err).NotTo(HaveOccurred())
			h.expectJoined(ctx, "cluster2")
			expectKlusterlet(ctx, cluster2, "cluster2")
		})
})
