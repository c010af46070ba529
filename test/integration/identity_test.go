// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
)

const (
	nextHubAsSpoke = "HubAsSpoke: the cluster is the hub itself; correct the Secret, or set label local-cluster=true of the " +
		"ManagedCluster to import the hub"
	nextSwapped = "ClusterSwapped: it leads to another cluster than the one that was imported under this name; correct the Secret, " +
		"or remove annotation import.open-cluster-management.io/kube-system-uid of the ManagedCluster to import this cluster instead"
)

func duplicateOf(name string) string {
	return "DuplicateCluster: the cluster is imported as ManagedCluster " + name + " already; " +
		"correct the Secret, or delete one of the two ManagedClusters"
}

// labelCluster sets a label of a ManagedCluster.
func labelCluster(ctx context.Context, name, key, value string) {
	GinkgoHelper()
	cluster := getCluster(ctx, name)
	cluster.Labels = map[string]string{key: value}
	_, err := hubClusters.ClusterV1().ManagedClusters().Update(ctx, cluster, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// expectUntouched expects that nothing of an import is on the cluster.
func (s *spokeCluster) expectUntouched(ctx context.Context) {
	GinkgoHelper()
	crds, err := s.apiext.ApiextensionsV1().CustomResourceDefinitions().List(ctx, metav1.ListOptions{
		FieldSelector: "metadata.name=" + klusterletCRD,
	})
	Expect(err).NotTo(HaveOccurred())
	Expect(crds.Items).To(BeEmpty())
	namespaces, err := s.kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + agentNamespace})
	Expect(err).NotTo(HaveOccurred())
	Expect(namespaces.Items).To(BeEmpty())
}

var _ = Describe("The identity of a cluster", Ordered, ContinueOnFailure, func() {
	var c *controller

	BeforeAll(func(ctx SpecContext) { c = startController(ctx) })
	BeforeEach(func(ctx SpecContext) {
		for _, spoke := range spokes {
			spoke.clean(ctx)
		}
	})
	create := func(ctx context.Context, name string, config []byte) *corev1.Secret {
		GinkgoHelper()
		secret := kubeconfigSecret(name, config)
		createSecret(ctx, secret)
		createCluster(ctx, name)
		return secret
	}

	It("is recorded on its ManagedCluster", func(ctx SpecContext) {
		name := newName("identity")
		importNow(ctx, name, spokes[0])
		Expect(getCluster(ctx, name).Annotations).To(HaveKeyWithValue(kubeconfig.AnnotationClusterUID, spokes[0].uid(ctx)))
	})

	It("refuses the hub itself, unless the ManagedCluster is labelled so", func(ctx SpecContext) {
		itself, err := newSpoke(hub)
		Expect(err).NotTo(HaveOccurred())
		name := newName("hub")
		secret := create(ctx, name, hub.Kubeconfig())
		expectPreflightFailed(ctx, c, name, secret, nextHubAsSpoke, "")
		itself.expectUntouched(ctx)

		labelCluster(ctx, name, kubeconfig.LabelLocalCluster, "false")
		Consistently(ourCondition(name, kubeconfig.ConditionPreflightPassed), nothingHappens).WithContext(ctx).
			Should(HaveField("Reason", "HubAsSpoke"))
		DeferCleanup(func(ctx SpecContext) {
			// Not clean, which deletes all CRDs.
			for _, err := range []error{
				itself.apiext.ApiextensionsV1().CustomResourceDefinitions().Delete(ctx, klusterletCRD, metav1.DeleteOptions{}),
				itself.kube.RbacV1().ClusterRoleBindings().Delete(ctx, klusterletName, metav1.DeleteOptions{}),
				itself.kube.RbacV1().ClusterRoles().Delete(ctx, klusterletName, metav1.DeleteOptions{}),
				itself.kube.CoreV1().Namespaces().Delete(ctx, agentNamespace, metav1.DeleteOptions{}),
			} {
				Expect(err).NotTo(HaveOccurred())
			}
		})
		// Within the back-off: the label wakes the import.
		labelCluster(ctx, name, kubeconfig.LabelLocalCluster, "true")
		expectImported(ctx, name)
		itself.expectKlusterlet(ctx, name)
	})

	It("refuses a Secret that leads to another cluster than before, until its record is removed", func(ctx SpecContext) {
		name := newName("swapped")
		importNow(ctx, name, spokes[0])
		updateSecret(ctx, kubeconfigSecret(name, nil), setKubeconfig(spokes[1].Kubeconfig()))
		annotateCluster(ctx, name, kubeconfig.AnnotationImmediateImport, "")
		expectPreflightFailed(ctx, c, name, kubeconfigSecret(name, nil), nextSwapped, "")
		spokes[1].expectUntouched(ctx)

		annotateCluster(ctx, name, kubeconfig.AnnotationClusterUID, "null")
		expectImported(ctx, name)
		spokes[1].expectKlusterlet(ctx, name)
		Eventually(annotation(name, kubeconfig.AnnotationClusterUID)).WithContext(ctx).Should(Equal(spokes[1].uid(ctx)))
	})

	It("goes on with the same cluster by a rotated credential", func(ctx SpecContext) {
		name := newName("rotated")
		importNow(ctx, name, spokes[0])
		spokes[0].grant(ctx, name, importerRules()...)
		updateSecret(ctx, kubeconfigSecret(name, nil), setKubeconfig(spokes[0].userKubeconfig(name)))
		annotateCluster(ctx, name, kubeconfig.AnnotationImmediateImport, "")
		Eventually(annotation(name, kubeconfig.AnnotationImmediateImport)).WithContext(ctx).Should(Equal(kubeconfig.ImmediateImportCompleted))
		expectImported(ctx, name)
	})

	It("refuses a cluster that is imported under another name, until that is gone", func(ctx SpecContext) {
		first, second := newName("first"), newName("second")
		importNow(ctx, first, spokes[0])
		before := spokes[0].klusterlet(ctx)
		secret := create(ctx, second, spokes[0].Kubeconfig())
		expectPreflightFailed(ctx, c, second, secret, duplicateOf(first), "")
		Expect(spokes[0].klusterlet(ctx).ResourceVersion).To(Equal(before.ResourceVersion), "nothing was written")

		// The deletion of a joined cluster would remove its klusterlet first, too.
		spokes[0].removeKlusterlet(ctx)
		deleteCluster(ctx, first)
		expectImported(ctx, second)
		spokes[0].expectKlusterlet(ctx, second)
	})

	It("lets one of two names win that come at the same time", func(ctx SpecContext) {
		names := []string{newName("twin"), newName("twin")}
		for _, name := range names {
			createSecret(ctx, kubeconfigSecret(name, spokes[0].Kubeconfig()))
		}
		for _, name := range names {
			createCluster(ctx, name)
		}
		for _, name := range names {
			Eventually(condition(name)).WithContext(ctx).ShouldNot(BeNil())
		}
		winner, loser := names[0], names[1]
		if spokes[0].klusterlet(ctx).Spec.ClusterName == loser {
			winner, loser = loser, winner
		}
		expectImported(ctx, winner)
		Eventually(condition(loser)).WithContext(ctx).Should(haveFailed(kubeconfigSecret(loser, nil), duplicateOf(winner)))
		Expect(spokes[0].klusterlet(ctx).Spec.ClusterName).To(Equal(winner))
	})

	It("is not asked for of a cluster that is too old", func(ctx SpecContext) {
		name := newName("old")
		server := newFakeServer(answerVersion("v1.15.12-vendor.3"))
		secret := create(ctx, name, server.kubeconfig())
		expectPreflightFailed(ctx, c, name, secret,
			"ClusterTooOld: the cluster has Kubernetes 1.15, an import needs 1.16; upgrade the cluster", "")
		updateSecret(ctx, secret, setKubeconfig(spokes[0].Kubeconfig()))
		expectImported(ctx, name)
	})
})
