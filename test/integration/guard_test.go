// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	operatorv1 "open-cluster-management.io/api/operator/v1"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/harness"
)

const otherHub = "https://other-hub.example.com:6443"

// ownedBy is the text of the condition for a klusterlet of another hub, or under another name.
func ownedBy(server, name string) string {
	return "OwnedByAnotherHub: the cluster has a klusterlet of hub " + server + ", where its name is " + name +
		"; delete that klusterlet, or set annotation " + kubeconfig.AnnotationTakeover + " of the ManagedCluster to " + server + " to replace it"
}

// joinHub makes the klusterlet of a cluster know a hub.
func (s *spokeCluster) joinHub(ctx context.Context, secret, server string, ca []byte) {
	GinkgoHelper()
	secrets := s.kube.CoreV1().Secrets(agentNamespace)
	data := map[string][]byte{"kubeconfig": harness.TokenKubeconfig(server, ca, sentinel)}
	found, err := secrets.Get(ctx, secret, metav1.GetOptions{})
	if err == nil {
		found.Data = data
		_, err = secrets.Update(ctx, found, metav1.UpdateOptions{})
	} else {
		_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: secret}, Data: data}, metav1.CreateOptions{})
	}
	Expect(err).NotTo(HaveOccurred())
}

var _ = Describe("A cluster that is somebody else's", Ordered, ContinueOnFailure, func() {
	var spoke *spokeCluster

	BeforeAll(func(ctx SpecContext) {
		spoke = spokes[0]
		startController(ctx)
	})

	// imported leaves a cluster that this hub imported and forgot.
	imported := func(ctx context.Context) string {
		GinkgoHelper()
		spoke.clean(ctx)
		name := newName("owned")
		secret := kubeconfigSecret(name, spoke.Kubeconfig())
		createSecret(ctx, secret)
		createCluster(ctx, name)
		expectImported(ctx, name)
		deleteSecret(ctx, secret)
		deleteCluster(ctx, name)
		return name
	}

	expectRefused := func(ctx context.Context, name, server, owner string) *corev1.Secret {
		GinkgoHelper()
		before := spoke.klusterlet(ctx)
		secret := kubeconfigSecret(name, spoke.Kubeconfig())
		createSecret(ctx, secret)
		createCluster(ctx, name)
		Eventually(condition(name)).WithContext(ctx).Should(haveFailed(secret, ownedBy(server, owner)))
		Eventually(recordedEvents(name)).WithContext(ctx).Should(ContainElement(
			clusterEvent(name, corev1.EventTypeWarning, "OwnedByAnotherHub", failureNote(secret, ownedBy(server, owner)))))
		after := spoke.klusterlet(ctx)
		Expect(after.ResourceVersion).To(Equal(before.ResourceVersion), "nothing was written")
		return secret
	}

	It("is refused when its klusterlet has joined another hub, until that hub is named", func(ctx SpecContext) {
		name := imported(ctx)
		spoke.joinHub(ctx, "hub-kubeconfig-secret", otherHub, spoke.CAData())
		secret := expectRefused(ctx, name, otherHub, name)

		annotateCluster(ctx, name, kubeconfig.AnnotationTakeover, "https://another-hub.example.com")
		updateSecret(ctx, secret, func(secret *corev1.Secret) { secret.Labels = map[string]string{"try": "again"} })
		Consistently(condition(name), nothingHappens).WithContext(ctx).Should(haveFailed(secret, ownedBy(otherHub, name)))

		annotateCluster(ctx, name, kubeconfig.AnnotationTakeover, otherHub)
		updateSecret(ctx, secret, func(secret *corev1.Secret) { secret.Labels = map[string]string{"try": "once-more"} })
		expectImported(ctx, name)
	})

	It("is refused when its klusterlet shall join another hub", func(ctx SpecContext) {
		name := imported(ctx)
		spoke.joinHub(ctx, bootstrapSecret, otherHub, spoke.CAData())
		expectRefused(ctx, name, otherHub, name)
	})

	It("is refused under a second name, also on the same hub", func(ctx SpecContext) {
		first := imported(ctx)
		expectRefused(ctx, newName("second"), hub.URL(), first)
	})

	It("is imported when its klusterlet knows this hub, by another address too", func(ctx SpecContext) {
		name := imported(ctx)
		spoke.joinHub(ctx, "hub-kubeconfig-secret", "https://hub.example.com", hub.CAData())
		createSecret(ctx, kubeconfigSecret(name, spoke.Kubeconfig()))
		createCluster(ctx, name)
		expectImported(ctx, name)
	})

	It("is imported when its klusterlet knows this hub as cluster-import-config says", func(ctx SpecContext) {
		name := imported(ctx)
		alias := harness.TokenKubeconfig("https://alias.example.com", spoke.CAData(), sentinel)
		values, err := yaml.Marshal(map[string]any{"bootstrapHubKubeConfig": string(alias)})
		Expect(err).NotTo(HaveOccurred())
		importConfig(ctx, name, string(values))
		spoke.joinHub(ctx, bootstrapSecret, "https://alias.example.com", spoke.CAData())
		createSecret(ctx, kubeconfigSecret(name, spoke.Kubeconfig()))
		createCluster(ctx, name)
		expectImported(ctx, name)
	})

	It("puts no text of its own into a condition", func(ctx SpecContext) {
		name := imported(ctx)
		spoke.joinHub(ctx, "hub-kubeconfig-secret", "https://<b>"+sentinel, spoke.CAData())
		expectRefused(ctx, name, "unknown", name)
	})

	It("is waited for while an earlier klusterlet is being removed", func(ctx SpecContext) {
		name := imported(ctx)
		klusterlets := spoke.operator.OperatorV1().Klusterlets()
		klusterlet := spoke.klusterlet(ctx)
		klusterlet.Finalizers = []string{"operator.open-cluster-management.io/klusterlet-cleanup"}
		_, err := klusterlets.Update(ctx, klusterlet, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(klusterlets.Delete(ctx, klusterletName, metav1.DeleteOptions{})).To(Succeed())

		secret := kubeconfigSecret(name, spoke.Kubeconfig())
		createSecret(ctx, secret)
		createCluster(ctx, name)
		const next = "; wait, or see what keeps it on the cluster; the import is tried again"
		Eventually(condition(name)).WithContext(ctx).Should(haveFailed(secret,
			"Leftovers: the klusterlet of an earlier import is being deleted"+next))

		klusterlet = spoke.klusterlet(ctx)
		klusterlet.Finalizers = nil
		_, err = klusterlets.Update(ctx, klusterlet, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		// No controller empties a namespace here, so that one that is deleted stays.
		Expect(spoke.kube.CoreV1().Namespaces().Delete(ctx, agentNamespace, metav1.DeleteOptions{})).To(Succeed())
		updateSecret(ctx, secret, func(secret *corev1.Secret) { secret.Labels = map[string]string{"try": "again"} })
		Eventually(condition(name)).WithContext(ctx).Should(haveFailed(secret,
			"Leftovers: the namespace "+agentNamespace+" of an earlier import is being deleted"+next))

		spoke.clean(ctx)
		updateSecret(ctx, secret, func(secret *corev1.Secret) { secret.Labels = map[string]string{"try": "once-more"} })
		expectImported(ctx, name)
	})

	It("is imported when it has a Klusterlet that knows no hub", func(ctx SpecContext) {
		name := imported(ctx)
		Expect(spoke.kube.CoreV1().Secrets(agentNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
		createSecret(ctx, kubeconfigSecret(name, spoke.Kubeconfig()))
		createCluster(ctx, name)
		expectImported(ctx, name)
		Expect(spoke.klusterlet(ctx).Spec.DeployOption.Mode).NotTo(Equal(operatorv1.InstallModeHosted))
	})
})
