// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/exchange"
	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/harness"
)

const exchangeDocument = "exchange: token-request\n"

// accountObjects are what manifests/managed-cluster makes, without what an API server adds.
type accountObjects struct {
	account      string
	clusterRole  []rbacv1.PolicyRule
	clusterRef   rbacv1.RoleRef
	clusterWhom  []rbacv1.Subject
	role         []rbacv1.PolicyRule
	roleRef      rbacv1.RoleRef
	roleWhom     []rbacv1.Subject
	clusterRoles int
}

func (s *spokeCluster) accountObjects(ctx context.Context) accountObjects {
	GinkgoHelper()
	account, err := s.kube.CoreV1().ServiceAccounts(exchange.DefaultNamespace).Get(ctx, exchange.DefaultName, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	clusterRole, err := s.kube.RbacV1().ClusterRoles().Get(ctx, importerRoleName, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	clusterBinding, err := s.kube.RbacV1().ClusterRoleBindings().Get(ctx, importerRoleName, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	role, err := s.kube.RbacV1().Roles(exchange.DefaultNamespace).Get(ctx, importerRoleName, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	binding, err := s.kube.RbacV1().RoleBindings(exchange.DefaultNamespace).Get(ctx, importerRoleName, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	all, err := s.kube.RbacV1().ClusterRoles().List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	return accountObjects{
		account.Name, clusterRole.Rules, clusterBinding.RoleRef, clusterBinding.Subjects, role.Rules, binding.RoleRef, binding.Subjects,
		len(all.Items),
	}
}

func (s *spokeCluster) removeAccount(ctx context.Context) {
	GinkgoHelper()
	for _, err := range []error{
		s.kube.CoreV1().ServiceAccounts(exchange.DefaultNamespace).Delete(ctx, exchange.DefaultName, metav1.DeleteOptions{}),
		s.kube.RbacV1().ClusterRoles().Delete(ctx, importerRoleName, metav1.DeleteOptions{}),
		s.kube.RbacV1().ClusterRoleBindings().Delete(ctx, importerRoleName, metav1.DeleteOptions{}),
		s.kube.RbacV1().Roles(exchange.DefaultNamespace).Delete(ctx, importerRoleName, metav1.DeleteOptions{}),
		s.kube.RbacV1().RoleBindings(exchange.DefaultNamespace).Delete(ctx, importerRoleName, metav1.DeleteOptions{}),
	} {
		if !apierrors.IsNotFound(err) {
			Expect(err).NotTo(HaveOccurred())
		}
	}
}

// mayRequestTokens is all that a credential needs that is exchanged for one of an account which exists.
func mayRequestTokens() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, Verbs: []string{"create"}}
}

func exchangeSecret(clusterName string, config []byte, document string) *corev1.Secret {
	return importSecret(clusterName, map[string][]byte{
		"kubeconfig": config, credential.DocumentKey: []byte(exchangeDocument + document),
	})
}

// importAgain asks for an import on a cluster that has nothing of the last one.
func importAgain(ctx context.Context, name string, spoke *spokeCluster) {
	GinkgoHelper()
	Expect(spoke.operator.OperatorV1().Klusterlets().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
	annotateCluster(ctx, name, kubeconfig.AnnotationImmediateImport, "")
}

var _ = Describe("The exchange of a credential", Ordered, ContinueOnFailure, func() {
	const (
		asking = "TokenMintFailed: asking for a token of the ServiceAccount: "
		// The provider adds this to what services and clusters refuse.
		neededText = "CredentialInvalid: data key credential.yaml: the Secret holds no credential to exchange, " +
			"and no token of an earlier one is left; put one into it"
	)
	var (
		c     *controller
		spoke *spokeCluster
	)

	BeforeAll(func(ctx SpecContext) {
		spoke = spokes[2]
		c = startController(ctx, "-v=7")
	})
	BeforeEach(func(ctx SpecContext) {
		spoke.clean(ctx)
		spoke.removeAccount(ctx)
		DeferCleanup(spoke.removeAccount)
	})
	install := func(ctx context.Context) {
		GinkgoHelper()
		Expect(component.Install(ctx, spoke.ControlPlane, controlPlaneBinaries, "managed-cluster")).To(Succeed())
	}
	create := func(ctx context.Context, name string, secret *corev1.Secret) {
		GinkgoHelper()
		createSecret(ctx, secret)
		createCluster(ctx, name)
	}

	It("imports by a token of the account, which outlives the credential", func(ctx SpecContext) {
		install(ctx)
		name := newName("exchange")
		// The user may ask for tokens and nothing else: all that is on the cluster afterwards was put there by the account.
		revoke := spoke.grant(ctx, name, mayRequestTokens())
		secret := exchangeSecret(name, spoke.userKubeconfig(name), "tokenRequest: {lifetime: 10m}")
		create(ctx, name, secret)
		expectImported(ctx, name)
		spoke.expectKlusterlet(ctx, name)

		By("revoking it on the cluster")
		revoke(ctx)
		importAgain(ctx, name, spoke)
		Eventually(annotation(name, kubeconfig.AnnotationImmediateImport)).WithContext(ctx).Should(Equal(kubeconfig.ImmediateImportCompleted))
		expectImported(ctx, name)
		spoke.expectKlusterlet(ctx, name)

		By("removing it from the Secret")
		updateSecret(ctx, secret, func(secret *corev1.Secret) { delete(secret.Data, "kubeconfig") })
		importAgain(ctx, name, spoke)
		Eventually(annotation(name, kubeconfig.AnnotationImmediateImport)).WithContext(ctx).Should(Equal(kubeconfig.ImmediateImportCompleted))
		expectImported(ctx, name)
		spoke.expectKlusterlet(ctx, name)

		By("replacing it by one that may do nothing")
		updateSecret(ctx, secret, func(secret *corev1.Secret) { secret.Data["kubeconfig"] = spoke.userKubeconfig("nobody") })
		importAgain(ctx, name, spoke)
		Eventually(condition(name)).WithContext(ctx).Should(haveFailed(secret, asking+
			"the credential may not do that; let it create serviceaccounts/token, as manifests/managed-cluster lets the account itself"))
	})

	It("asks for the credential again after a restart", func(ctx SpecContext) {
		install(ctx)
		name := newName("exchange")
		spoke.grant(ctx, name, mayRequestTokens())
		secret := exchangeSecret(name, spoke.userKubeconfig(name), "")
		delete(secret.Data, "kubeconfig")
		create(ctx, name, secret)
		expectPreflightFailed(ctx, c, name, secret, neededText+": credential resolver kubeconfig: no kubeconfig: put it under one of the "+
			"data keys kubeconfig, value, value.yaml, config, admin.conf, or name its key with the annotation "+
			"import.open-cluster-management.io/kubeconfig-key", "")
		updateSecret(ctx, secret, func(secret *corev1.Secret) { secret.Data["kubeconfig"] = spoke.userKubeconfig(name) })
		expectImported(ctx, name)
	})

	It("renews a long-lived token of the account itself", func(ctx SpecContext) {
		install(ctx)
		name := newName("exchange")
		token, err := spoke.ServiceAccountToken(ctx, exchange.DefaultNamespace, exchange.DefaultName, 24*time.Hour)
		Expect(err).NotTo(HaveOccurred())
		create(ctx, name, exchangeSecret(name, harness.TokenKubeconfig(spoke.URL(), spoke.CAData(), token), ""))
		expectImported(ctx, name)
		spoke.expectKlusterlet(ctx, name)
		Expect(c.log()).NotTo(ContainSubstring(token))
	})

	It("creates the account as the manifests do", func(ctx SpecContext) {
		install(ctx)
		want := spoke.accountObjects(ctx)
		spoke.removeAccount(ctx)
		name := newName("exchange")
		create(ctx, name, exchangeSecret(name, spoke.Kubeconfig(), "tokenRequest: {create: true}"))
		expectImported(ctx, name)
		spoke.expectKlusterlet(ctx, name)
		got := spoke.accountObjects(ctx)
		// The klusterlet's own.
		got.clusterRoles--
		Expect(got).To(Equal(want))
	})

	It("creates another account in a namespace of its own", func(ctx SpecContext) {
		name := newName("exchange")
		DeferCleanup(func(ctx SpecContext) {
			spoke.removeNamespace(ctx, name)
			Expect(spoke.kube.RbacV1().ClusterRoleBindings().Delete(ctx, importerRoleName+":"+name+":importer", metav1.DeleteOptions{})).To(Succeed())
		})
		create(ctx, name, exchangeSecret(name, spoke.Kubeconfig(), "tokenRequest: {create: true, serviceAccount: "+name+"/importer}"))
		expectImported(ctx, name)
		spoke.expectKlusterlet(ctx, name)
		binding, err := spoke.kube.RbacV1().RoleBindings(name).Get(ctx, importerRoleName+":importer", metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		Expect(binding.Subjects).To(Equal([]rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: name, Name: "importer"}}))
	})

	DescribeTable("says what is missing", func(ctx SpecContext, installed bool, rules []rbacv1.PolicyRule, config func(user string) []byte, document, text string) {
		if installed {
			install(ctx)
		}
		name := newName("exchange")
		if len(rules) > 0 {
			spoke.grant(ctx, name, rules...)
		}
		secret := exchangeSecret(name, config(name), document)
		create(ctx, name, secret)
		expectPreflightFailed(ctx, c, name, secret, text, "")
		spoke.expectUntouched(ctx)
	},
		Entry("a permission to ask for tokens", true, nil, func(user string) []byte { return spoke.userKubeconfig(user) }, "", asking+
			"the credential may not do that; let it create serviceaccounts/token, as manifests/managed-cluster lets the account itself"),
		Entry("the account", false, []rbacv1.PolicyRule{mayRequestTokens()}, func(user string) []byte { return spoke.userKubeconfig(user) }, "",
			"CredentialInvalid: data key credential.yaml: the ServiceAccount does not exist on the cluster; apply manifests/managed-cluster "+
				"there, set tokenRequest.create to true, or correct tokenRequest.serviceAccount"),
		Entry("a permission to create the account", false, []rbacv1.PolicyRule{mayRequestTokens()},
			func(user string) []byte { return spoke.userKubeconfig(user) }, "tokenRequest: {create: true}",
			"TokenMintFailed: creating the ClusterRole of the ServiceAccount: the credential may not do that; apply manifests/managed-cluster "+
				"to the cluster and remove tokenRequest.create, or use the credential of an administrator"),
		Entry("a credential that is accepted", true, nil,
			func(string) []byte { return harness.TokenKubeconfig(spoke.URL(), spoke.CAData(), sentinel) }, "",
			"Unauthorized: the cluster's API server does not accept the credential; "+nextUnauthorized),
		Entry("a credential that is accepted, to create the account", false, nil,
			func(string) []byte { return harness.TokenKubeconfig(spoke.URL(), spoke.CAData(), sentinel) }, "tokenRequest: {create: true}",
			"Unauthorized: the cluster's API server does not accept the credential; "+nextUnauthorized),
		Entry("a cluster that answers", true, nil,
			func(string) []byte { return harness.TokenKubeconfig("https://127.0.0.1:1", spoke.CAData(), sentinel) }, "",
			"Unreachable: the connection is refused; "+nextUnreachable),
		Entry("a cluster that has a name", true, nil,
			func(string) []byte {
				return harness.TokenKubeconfig("https://cluster.invalid", spoke.CAData(), sentinel)
			}, "",
			"NameNotResolved: the name of the cluster's API server does not resolve; correct the server of the kubeconfig, or make its name "+
				"resolvable from the hub"),
		Entry("the CA of the cluster", true, nil,
			func(string) []byte { return harness.TokenKubeconfig(spoke.URL(), hub.CAData(), sentinel) }, "",
			"TLSUntrusted: the serving certificate is not signed by the CA of the credential or, without one, by a public authority; "+nextTLS),
	)

	It("tells no token", func(ctx SpecContext) {
		expectNoLeak(ctx, c)
		// The beginning of every JWT.
		Expect(c.log()).NotTo(ContainSubstring("eyJ"))
	})

	It("is what the policy may forbid", func(ctx SpecContext) {
		strict := launch(ctx, component.Options{
			Args:   append([]string{"--leader-elect=false"}, quick[1:]...),
			Policy: component.LoopbackPolicy + "\nrules: [{namespaces: ['*'], resolvers: [kubeconfig], tokenRequest: false}]",
		})
		name := newName("exchange")
		secret := exchangeSecret(name, spoke.Kubeconfig(), "")
		c.Kill()
		create(ctx, name, secret)
		expectPreflightFailed(ctx, strict, name, secret, "PolicyDenied: data key credential.yaml: exchange is not allowed by the policy of "+
			"the hub; remove it, or let the administrator of the hub allow it", "")
	})
})
