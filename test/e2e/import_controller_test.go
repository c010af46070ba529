// Copyright Contributors to the Open Cluster Management project

package e2e

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/environment"
	"open-cluster-management.io/import-provider/test/ocmhub"
)

// The hub is unmodified: its own importer runs too, as it does on a hub whose feature gate is on.
var _ = Describe("import-controller beside an unmodified hub", Ordered, func() {
	var (
		h                  *hub
		cluster1, cluster2 *environment.Cluster
		token              credential
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
		token = tokenCredential(ctx, cluster1)
		h.createImportSecret(ctx, "cluster1", token.kubeconfig)
		h.createManagedCluster(ctx, "cluster1")
		h.expectUntouched(ctx, "cluster1", cluster1)
	})

	It("imports a cluster whose Secret came first, with a static token, once the gate is on", func(ctx SpecContext) {
		Expect(ocmhub.SetClusterImporterGate(ctx, h.Config(), true)).To(Succeed())
		h.expectCompleted(ctx, "cluster1", importSecret("cluster1"), cluster1)
		h.expectPreflightPassed(ctx, "cluster1", token.expiry)
		expectKlusterlet(ctx, cluster1, "cluster1")
	})

	It("keeps the conditions of a complete import at the generation of its ManagedCluster", func(ctx SpecContext) {
		h.expectObserved(ctx, "cluster1")
		h.patchCluster(ctx, "cluster1", `{"spec":{"leaseDurationSeconds":61}}`)
		h.expectObserved(ctx, "cluster1")
	})

	It("says what is wrong with the Secret of a cluster whose ManagedCluster came first", func(ctx SpecContext) {
		h.createNamespace(ctx, "cluster2")
		h.setImportConfig(ctx, "cluster2", operatorImage(environment.UnpullableRegistry))
		h.createManagedCluster(ctx, "cluster2")
		h.createImportSecret(ctx, "cluster2", []byte("this is no kubeconfig"))
		Eventually(h.condition(ctx, "cluster2", conditionImported)).WithContext(ctx).Should(And(
			HaveField("Status", metav1.ConditionFalse),
			HaveField("Message", ContainSubstring("KubeconfigInvalid"))))
	})

	It("says which image the cluster cannot pull after the Secret was corrected", func(ctx SpecContext) {
		certificate := certificateCredential(cluster2)
		secrets := h.kube.CoreV1().Secrets(component.ImportNamespace)
		secret, err := secrets.Get(ctx, "cluster2", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		secret.Data["kubeconfig"] = certificate.kubeconfig
		_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		h.expectNotCompleted(ctx, "cluster2", lookTimeout, kubeconfig.ReasonImagePullFailed,
			"an image of the klusterlet operator cannot be pulled: "+environment.UnpullableRegistry+"/operator:1; "+
				"correct the image, its pull Secret, or the cluster's access to the registry; after a change of cluster-import-config or the hub's "+
				"options, set annotation "+kubeconfig.AnnotationImmediateImport+` of the ManagedCluster to ""`)
		h.expectPreflightPassed(ctx, "cluster2", certificate.expiry)
	})

	It("imports it again once the image was corrected too", func(ctx SpecContext) {
		h.setImportConfig(ctx, "cluster2", operatorImage("registry.example.com"))
		h.importAgain(ctx, "cluster2")
		h.expectCompleted(ctx, "cluster2", importSecret("cluster2"), cluster2)
		expectKlusterlet(ctx, cluster2, "cluster2")
	})
})

// operatorImage are values of a klusterlet whose operator has an image of a registry.
func operatorImage(registry string) string {
	return "images: {overrides: {operatorImage: " + registry + "/operator:1}}"
}
