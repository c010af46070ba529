// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	operatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"

	"open-cluster-management.io/import-provider/test/ocmhub"
)

var _ = Describe("The feature gate ClusterImporter", func() {
	// off is how long nothing must be imported: several times what an import takes.
	const off = "1500ms"
	setGate := func(ctx context.Context, on bool) {
		GinkgoHelper()
		Expect(ocmhub.SetClusterImporterGate(ctx, hub.Config(), on)).To(Succeed())
	}
	create := func(ctx context.Context) string {
		GinkgoHelper()
		name := newName("gated")
		createSecret(ctx, kubeconfigSecret(name, spokes[0].Kubeconfig()))
		createCluster(ctx, name)
		return name
	}
	removeClusterManager := func(ctx context.Context) {
		GinkgoHelper()
		client, err := operatorclient.NewForConfig(hub.Config())
		Expect(err).NotTo(HaveOccurred())
		Expect(client.OperatorV1().ClusterManagers().Delete(ctx, ocmhub.ClusterManagerName, metav1.DeleteOptions{})).To(Succeed())
	}

	BeforeEach(func(ctx SpecContext) {
		spokes[0].clean(ctx)
		DeferCleanup(func(ctx SpecContext) { setGate(ctx, true) })
	})

	It("turns the importer on and off while the component runs", func(ctx SpecContext) {
		setGate(ctx, false)
		c := startController(ctx)
		first := create(ctx)
		Consistently(condition(first), off).WithContext(ctx).Should(BeNil())
		Expect(c.log()).NotTo(ContainSubstring("Importer started"))

		setGate(ctx, true)
		expectImported(ctx, first)
		Eventually(c.log).Should(ContainSubstring(
			`"Feature gate ClusterImporter changed" clusterManager="cluster-manager" enabled=true`))
		Expect(c.log()).To(ContainSubstring(`"Importer started" providers=["kubeconfig"] workers=256`))

		setGate(ctx, false)
		Eventually(c.log).Should(And(
			ContainSubstring(`"Feature gate ClusterImporter changed" clusterManager="cluster-manager" enabled=false`),
			ContainSubstring(`"Importer stopped"`)))
		second := create(ctx)
		Consistently(condition(second), off).WithContext(ctx).Should(BeNil())

		By("a second time")
		spokes[0].clean(ctx)
		setGate(ctx, true)
		expectImported(ctx, second)
		spokes[0].expectKlusterlet(ctx, second)
		Expect(c.running()).To(BeTrue())
	})

	It("is off without a ClusterManager, and when it is deleted", func(ctx SpecContext) {
		c := startController(ctx)
		Eventually(c.log).Should(ContainSubstring("Importer started"))
		removeClusterManager(ctx)
		Eventually(c.log).Should(ContainSubstring("Importer stopped"))
		name := create(ctx)
		Consistently(condition(name), off).WithContext(ctx).Should(BeNil())
		setGate(ctx, true)
		expectImported(ctx, name)
	})

	It("can be set on by a flag, without a ClusterManager", func(ctx SpecContext) {
		removeClusterManager(ctx)
		c := startController(ctx, "--feature-gates=ClusterImporter=true")
		name := create(ctx)
		expectImported(ctx, name)
		Expect(c.log()).To(ContainSubstring(`"Feature gate ClusterImporter is set by --feature-gates" enabled=true`))
	})

	It("can be set off by a flag, whatever the ClusterManager says", func(ctx SpecContext) {
		c := startController(ctx, "--feature-gates=ClusterImporter=false")
		name := create(ctx)
		Eventually(c.log).Should(ContainSubstring(`"Feature gate ClusterImporter is set by --feature-gates" enabled=false`))
		Consistently(condition(name), off).WithContext(ctx).Should(BeNil())
		Expect(c.log()).NotTo(ContainSubstring("Importer started"))
		Expect(c.Stop()).To(BeTrue())
		Expect(c.ExitCode()).To(BeZero())
	})

	It("is read from the ClusterManager that a flag names", func(ctx SpecContext) {
		// The name is in the RBAC of manifests/: another one needs another rule, and without it nothing is imported.
		c := startController(ctx, "--cluster-manager-name=another")
		name := create(ctx)
		Consistently(condition(name), off).WithContext(ctx).Should(BeNil())
		Expect(c.log()).NotTo(ContainSubstring("Importer started"))
	})
})
