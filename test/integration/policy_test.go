// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/component"
)

// setPolicy replaces the policy of a component in one step, as Kubernetes does.
func (c *controller) setPolicy(spec string) {
	GinkgoHelper()
	next := c.PolicyFile + ".next"
	Expect(component.WritePolicy(next, spec)).To(Succeed())
	Expect(os.Rename(next, c.PolicyFile)).To(Succeed())
}

// versionOf is the resource version of a Secret.
func versionOf(ctx context.Context, secret *corev1.Secret) string {
	GinkgoHelper()
	current, err := hubKube.CoreV1().Secrets(secret.Namespace).Get(ctx, secret.Name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return current.ResourceVersion
}

var _ = Describe("The administrator's policy", func() {
	const (
		denied = "PolicyDenied: "
		// applied is how long a change of the file may take: a look every five seconds, and what follows.
		applied = 12 * time.Second
	)
	withPolicy := func(ctx context.Context, spec string) *controller {
		GinkgoHelper()
		spokes[0].clean(ctx)
		return launch(ctx, component.Options{Args: quick, Policy: spec})
	}
	deniedServer := denied + resolverText[2:] + policy.ErrAddressDenied.Error()

	It("denies special addresses by default, and imports without a change of the Secret when it allows them", func(ctx SpecContext) {
		c := withPolicy(ctx, "rules: [{namespaces: ['*'], resolvers: [kubeconfig]}]")
		name := newName("policy")
		secret := kubeconfigSecret(name, spokes[0].Kubeconfig())
		createSecret(ctx, secret)
		createCluster(ctx, name)
		expectPreflightFailed(ctx, c, name, secret, deniedServer, "")
		version := versionOf(ctx, secret)

		By("changing to another that denies it too")
		changes := history.count(name)
		c.setPolicy("rules: [{namespaces: ['*'], resolvers: [kubeconfig, token]}]")
		Eventually(func(ctx context.Context) float64 {
			return c.series(ctx, `import_provider_policy_reloads_total{result="succeeded"}`)
		}, applied).WithContext(ctx).Should(BeEquivalentTo(1))
		Consistently(func() int { return history.count(name) }, "1s").Should(Equal(changes), "nothing new is said")

		By("changing to one that allows it")
		c.setPolicy(component.LoopbackPolicy)
		Eventually(condition(name), applied).WithContext(ctx).Should(haveSucceeded())
		Expect(versionOf(ctx, secret)).To(Equal(version))
		expectNoLeak(ctx, c)
	})

	It("stays in force when the file is not right any more", func(ctx SpecContext) {
		c := withPolicy(ctx, component.LoopbackPolicy)
		upToDate := func(ctx context.Context) float64 { return c.series(ctx, "import_provider_policy_up_to_date") }
		Expect(upToDate(ctx)).To(BeEquivalentTo(1))
		c.setPolicy("rules: [{resolvers: [kubeconfig]}]\nendpoints: {allowCIDRs: [127.0.0.0/8], denyHosts: ['*']}")
		Eventually(upToDate, applied).WithContext(ctx).Should(BeZero())
		Expect(c.series(ctx, `import_provider_policy_reloads_total{result="failed"}`)).To(BeEquivalentTo(1))
		Expect(c.log()).To(ContainSubstring("rules[0].namespaces: Required value: must not be empty"))

		name := newName("policy")
		createSecret(ctx, kubeconfigSecret(name, spokes[0].Kubeconfig()))
		createCluster(ctx, name)
		expectImported(ctx, name)

		By("losing the file")
		Expect(os.Remove(c.PolicyFile)).To(Succeed())
		Eventually(func(ctx context.Context) float64 {
			return c.series(ctx, `import_provider_policy_reloads_total{result="failed"}`)
		}, applied).WithContext(ctx).Should(BeEquivalentTo(2))
		Expect(c.running()).To(BeTrue())
		Expect(strings.Count(c.log(), "New policy cannot be used")).To(Equal(2), "each is logged once")

		By("getting one that is right")
		c.setPolicy("endpoints: {allowCIDRs: [127.0.0.0/8], denyHosts: ['*']}")
		Eventually(upToDate, applied).WithContext(ctx).Should(BeEquivalentTo(1))
		spokes[0].clean(ctx)
		name = newName("policy")
		secret := kubeconfigSecret(name, spokes[0].Kubeconfig())
		createSecret(ctx, secret)
		createCluster(ctx, name)
		expectPreflightFailed(ctx, c, name, secret, denied+resolverText[2:]+policy.ErrHostDenied.Error(), "")
	})

	It("allows resolvers by the namespace of the Secret", func(ctx SpecContext) {
		c := withPolicy(ctx, fmt.Sprintf("rules: [{namespaces: [%s], resolvers: [token]}, {namespaces: ['policy-*'], resolvers: [kubeconfig]}]\n%s",
			importNamespace, component.LoopbackPolicy))
		name := newName("policy")
		secret := kubeconfigSecret(name, spokes[0].Kubeconfig())
		createSecret(ctx, secret)
		createCluster(ctx, name)
		expectPreflightFailed(ctx, c, name, secret, denied+"the credential resolver kubeconfig, which it needs, is not enabled: "+
			"set the annotation import.open-cluster-management.io/credential-resolver to one of token, or let the administrator of the hub allow it", "")
		deleteSecret(ctx, secret)

		secret = kubeconfigSecret(name, spokes[0].Kubeconfig())
		secret.Namespace, secret.Name = name, kubeconfig.SecretName
		createSecret(ctx, secret)
		expectImported(ctx, name)

		By("having no rule")
		spokes[0].clean(ctx)
		other := newName("elsewhere")
		secret = kubeconfigSecret(other, spokes[0].Kubeconfig())
		secret.Namespace, secret.Name = other, kubeconfig.SecretName
		createSecret(ctx, secret)
		createCluster(ctx, other)
		Eventually(condition(other)).WithContext(ctx).Should(haveFailed(secret, denied+"no credential resolver is enabled for its namespace; "+
			"let the administrator of the hub add a rule to the policy"))
	})

	It("limits the lifetime of credentials", func(ctx SpecContext) {
		c := withPolicy(ctx, component.LoopbackPolicy+"\nstaticCredentials: {maxLifetime: 1h}")
		name := newName("policy")
		spokes[0].grant(ctx, name, importerRules()...)
		secret := kubeconfigSecret(name, spokes[0].certKubeconfig(name, time.Now().Add(-time.Minute), time.Now().Add(time.Hour)))
		createSecret(ctx, secret)
		createCluster(ctx, name)
		expectPreflightFailed(ctx, c, name, secret, denied+"its client certificate is valid for longer than the policy of the hub allows; "+
			"set exchange: token-request under the data key credential.yaml to exchange it for a short-lived one, put one that is valid for a shorter "+
			"time into the Secret, or let the administrator of the hub change staticCredentials of the policy", "")
		updateSecret(ctx, secret, setKubeconfig(spokes[0].certKubeconfig(name, time.Now().Add(-time.Minute), time.Now().Add(50*time.Minute))))
		expectImported(ctx, name)
	})

	It("allows hosts", func(ctx SpecContext) {
		c := withPolicy(ctx, "endpoints: {allowCIDRs: [127.0.0.0/8], allowHosts: ['*.example.com']}")
		name := newName("policy")
		secret := kubeconfigSecret(name, spokes[0].Kubeconfig())
		createSecret(ctx, secret)
		createCluster(ctx, name)
		expectPreflightFailed(ctx, c, name, secret, denied+resolverText[2:]+policy.ErrHostDenied.Error(), "")
		c.setPolicy("endpoints: {allowCIDRs: [127.0.0.0/8], allowHosts: ['*.example.com', 127.0.0.1]}")
		Eventually(condition(name), applied).WithContext(ctx).Should(haveSucceeded())
	})
})
