// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	clusterclientset "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/ocmhub"
)

const (
	importerRoleName = "open-cluster-management:importer"
	electionRoleName = "open-cluster-management:import-controller:leader-election"
	// nothingHappens is how long the component without a permission is watched: many times what it takes with it.
	nothingHappens = "1500ms"
)

// roleRule is one rule of the component's roles. The namespace of the ClusterRole is empty.
type roleRule struct {
	namespace, role string
	index           int
}

func (r roleRule) String() string {
	if r.namespace == "" {
		return fmt.Sprintf("rule %d of the ClusterRole", r.index)
	}
	return fmt.Sprintf("rule %d of Role %s in %s", r.index, r.role, r.namespace)
}

// setRules changes the rules of a role and returns those it had.
func (r roleRule) setRules(ctx context.Context, change func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	GinkgoHelper()
	if r.namespace == "" {
		role, err := hubKube.RbacV1().ClusterRoles().Get(ctx, r.role, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		before := role.Rules
		role.Rules = change(before)
		_, err = hubKube.RbacV1().ClusterRoles().Update(ctx, role, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
		return before
	}
	role, err := hubKube.RbacV1().Roles(r.namespace).Get(ctx, r.role, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	before := role.Rules
	role.Rules = change(before)
	_, err = hubKube.RbacV1().Roles(r.namespace).Update(ctx, role, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
	return before
}

// remove takes the rule away until the spec ends, and returns when the API server knows.
func (r roleRule) remove(ctx context.Context) {
	GinkgoHelper()
	before := r.setRules(ctx, func(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
		rest := append([]rbacv1.PolicyRule{}, rules[:r.index]...)
		return append(rest, rules[r.index+1:]...)
	})
	DeferCleanup(func(ctx SpecContext) {
		r.setRules(ctx, func([]rbacv1.PolicyRule) []rbacv1.PolicyRule { return before })
		Eventually(r.allows(before[r.index])).WithContext(ctx).Should(BeTrue())
	})
	Eventually(r.allows(before[r.index])).WithContext(ctx).Should(BeFalse())
}

// allows says whether the component may do the first thing that the rule is about.
func (r roleRule) allows(rule rbacv1.PolicyRule) func(ctx context.Context) (bool, error) {
	resource, subresource, _ := strings.Cut(rule.Resources[0], "/")
	attributes := &authorizationv1.ResourceAttributes{
		Namespace: r.namespace, Group: rule.APIGroups[0], Resource: resource, Subresource: subresource, Verb: rule.Verbs[0],
	}
	if len(rule.ResourceNames) > 0 {
		attributes.Name = rule.ResourceNames[0]
	}
	if r.namespace == "" && len(rule.ResourceNames) > 0 && resource == "secrets" {
		// Its own import namespace would allow it otherwise.
		attributes.Namespace = metav1.NamespaceDefault
	}
	return func(ctx context.Context) (bool, error) {
		review, err := hubKube.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               "system:serviceaccount:" + component.Namespace + ":" + component.ServiceAccount,
				ResourceAttributes: attributes,
			},
		}, metav1.CreateOptions{})
		if err != nil {
			return false, err
		}
		return review.Status.Allowed, nil
	}
}

var _ = Describe("RBAC", func() {
	// What becomes of the component without a rule.
	type outcome func(ctx context.Context)

	notReady := func(ctx context.Context) {
		GinkgoHelper()
		c := launch(ctx, component.Options{Args: quick, NotReady: true})
		ready := func(ctx context.Context) int { status, _ := c.get(ctx, "/readyz"); return status }
		Eventually(ready).WithContext(ctx).Should(Equal(http.StatusInternalServerError))
		Consistently(ready, nothingHappens).WithContext(ctx).Should(Equal(http.StatusInternalServerError))
	}
	neverStarts := func(args ...string) outcome {
		return func(ctx context.Context) {
			GinkgoHelper()
			c := launch(ctx, component.Options{Args: args, NotReady: true})
			Consistently(c.log, nothingHappens).ShouldNot(ContainSubstring("Importer started"))
		}
	}
	noCondition := func(ctx context.Context) {
		GinkgoHelper()
		c := startController(ctx)
		Eventually(c.log).Should(ContainSubstring("Importer started"))
		name := newName("rbac")
		createSecret(ctx, kubeconfigSecret(name, nil))
		createCluster(ctx, name)
		Consistently(condition(name), nothingHappens).WithContext(ctx).Should(BeNil())
	}
	renderFails := func(message string) outcome {
		return func(ctx context.Context) {
			GinkgoHelper()
			startController(ctx)
			spokes[0].clean(ctx)
			name := newName("rbac")
			createSecret(ctx, kubeconfigSecret(name, spokes[0].Kubeconfig()))
			createCluster(ctx, name)
			Eventually(condition(name)).WithContext(ctx).Should(And(
				HaveField("Status", metav1.ConditionFalse), HaveField("Reason", reasonRenderFailed),
				HaveField("Message", And(ContainSubstring(message), ContainSubstring("is forbidden")))))
		}
	}
	noEvent := func(ctx context.Context) {
		GinkgoHelper()
		startController(ctx)
		name := newName("rbac")
		createSecret(ctx, kubeconfigSecret(name, nil))
		createCluster(ctx, name)
		Eventually(condition(name)).WithContext(ctx).ShouldNot(BeNil())
		Consistently(recordedEvents(name), nothingHappens).WithContext(ctx).Should(BeEmpty())
	}
	deleteLease := func(ctx context.Context) {
		GinkgoHelper()
		err := hubKube.CoordinationV1().Leases(component.Namespace).Delete(ctx, "import-controller", metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) {
			Expect(err).NotTo(HaveOccurred())
		}
	}
	leaderEvents := func(ctx context.Context) (int, error) {
		list, err := hubKube.CoreV1().Events(component.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return 0, err
		}
		count := 0
		for i := range list.Items {
			if list.Items[i].Reason == "LeaderElection" {
				count++
			}
		}
		return count, nil
	}
	deleteEvents := func(ctx context.Context) {
		GinkgoHelper()
		Expect(hubKube.CoreV1().Events(component.Namespace).
			DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})).To(Succeed())
	}

	outcomes := map[roleRule]outcome{
		{"", importerRoleName, 0}: notReady, // ManagedClusters
		{"", importerRoleName, 1}: noCondition,
		{"", importerRoleName, 2}: notReady, // auto-import-secret
		{"", importerRoleName, 3}: renderFails(`secrets "cluster-import-config"`),
		{"", importerRoleName, 4}: neverStarts(quick...), // the ClusterManager
		{"", importerRoleName, 5}: notReady,              // Clusters of Cluster API
		{"", importerRoleName, 6}: noEvent,
		{"", importerRoleName, 7}: func(ctx context.Context) { // the hub's own kube-system
			startController(ctx)
			spokes[0].clean(ctx)
			name := newName("rbac")
			secret := kubeconfigSecret(name, spokes[0].Kubeconfig())
			createSecret(ctx, secret)
			createCluster(ctx, name)
			Eventually(condition(name)).WithContext(ctx).Should(haveFailed(secret, "HubReadFailed: the hub's namespace kube-system "+
				"cannot be read; see the logs of the import controller, its permissions on the hub, and cluster-import-config"))
		},
		{"", importerRoleName, 8}: func(ctx context.Context) { // CertificateSigningRequests
			c := startController(ctx)
			importNow(ctx, newName("rbac"), spokes[0])
			Eventually(c.log).Should(ContainSubstring("CertificateSigningRequests of a klusterlet cannot be read"))
		},
		{"", importerRoleName, 9}: func(ctx context.Context) { // ClusterProfiles
			startWithProfiles(ctx, "")
			name := newName("rbac")
			secret := profileSecret(name, fleetNamespace, name)
			createSecret(ctx, secret)
			createCluster(ctx, name)
			Eventually(condition(name)).WithContext(ctx).Should(haveFailed(secret, "TokenMintFailed: credential resolver clusterprofile: the import "+
				"controller may not read ClusterProfiles: let the administrator of the hub give it the permissions that manifests/rbac has"))
		},

		{importNamespace, importerRoleName, 0}:          notReady,
		{ocmhub.OperatorNamespace, importerRoleName, 0}: renderFails("failed to get token from sa"),
		{metav1.NamespacePublic, importerRoleName, 0}:   renderFails(`configmaps "cluster-info"`),
		{component.Namespace, importerRoleName, 0}:      renderFails(`secrets "open-cluster-management-image-pull-credentials"`),

		{component.Namespace, electionRoleName, 0}: func(ctx context.Context) {
			deleteLease(ctx)
			neverStarts()(ctx)
		},
		{component.Namespace, electionRoleName, 1}: neverStarts(),
	}

	It("of manifests/ is all that the component needs, with leader election and events", func(ctx SpecContext) {
		deleteLease(ctx)
		deleteEvents(ctx)
		spokes[0].clean(ctx)
		c := launch(ctx, component.Options{})
		importNow(ctx, newName("rbac"), spokes[0])
		Eventually(leaderEvents).WithContext(ctx).Should(BeNumerically(">", 0))
		name := newName("rbac")
		createSecret(ctx, kubeconfigSecret(name, nil))
		createCluster(ctx, name)
		Eventually(recordedEvents(name)).WithContext(ctx).Should(ContainElement(WithTransform(func(e event) string { return e.reason }, Equal("KubeconfigInvalid"))))
		Expect(c.log()).NotTo(ContainSubstring("is forbidden"))
	})

	It("has no rule that the table below does not know", func(ctx SpecContext) {
		var rules []roleRule
		clusterRole, err := hubKube.RbacV1().ClusterRoles().Get(ctx, importerRoleName, metav1.GetOptions{})
		Expect(err).NotTo(HaveOccurred())
		for i := range clusterRole.Rules {
			rules = append(rules, roleRule{"", importerRoleName, i})
		}
		roles, err := hubKube.RbacV1().Roles(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		Expect(err).NotTo(HaveOccurred())
		for i := range roles.Items {
			if role := roles.Items[i]; role.Name == importerRoleName || role.Name == electionRoleName {
				for j := range role.Rules {
					rules = append(rules, roleRule{role.Namespace, role.Name, j})
				}
			}
		}
		Expect(rules).To(ConsistOf(slices.Collect(maps.Keys(outcomes))))
	})

	var entries []TableEntry
	for _, rule := range slices.SortedFunc(maps.Keys(outcomes), func(a, b roleRule) int { return strings.Compare(a.String(), b.String()) }) {
		entries = append(entries, Entry(rule.String(), rule, outcomes[rule]))
	}
	DescribeTable("something fails without", func(ctx SpecContext, rule roleRule, outcome outcome) {
		rule.remove(ctx)
		outcome(ctx)
	}, entries)

	Context("as the ServiceAccount", Ordered, ContinueOnFailure, func() {
		var kube kubernetes.Interface
		var clusters clusterclientset.Interface
		const tenant = "rbac-tenant"

		BeforeAll(func(ctx SpecContext) {
			config := controllerConfig(ctx)
			var err error
			kube, err = kubernetes.NewForConfig(config)
			Expect(err).NotTo(HaveOccurred())
			clusters, err = clusterclientset.NewForConfig(config)
			Expect(err).NotTo(HaveOccurred())
			createSecret(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: kubeconfig.SecretName}})
			createSecret(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "cluster-import-config"}})
			createSecret(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant, Name: "private"}})
			createSecret(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: importNamespace, Name: "rbac-import"}})
			createSecret(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "rbac-system"}})
		})

		get := func(namespace, name string) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := kube.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
				return err
			}
		}
		list := func(namespace, selector string) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := kube.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{FieldSelector: selector})
				return err
			}
		}
		watch := func(namespace, selector string) func(context.Context) error {
			return func(ctx context.Context) error {
				w, err := kube.CoreV1().Secrets(namespace).Watch(ctx, metav1.ListOptions{FieldSelector: selector})
				if err == nil {
					w.Stop()
				}
				return err
			}
		}

		DescribeTable("it may", func(ctx SpecContext, request func(context.Context) error) {
			Expect(request(ctx)).To(Succeed())
		},
			Entry("get an import Secret", get(importNamespace, "rbac-import")),
			Entry("list the import namespace", list(importNamespace, "")),
			Entry("watch the import namespace", watch(importNamespace, "")),
			Entry("get auto-import-secret anywhere", get(tenant, kubeconfig.SecretName)),
			Entry("list auto-import-secret everywhere", list("", "metadata.name="+kubeconfig.SecretName)),
			Entry("watch auto-import-secret everywhere", watch("", "metadata.name="+kubeconfig.SecretName)),
			Entry("get cluster-import-config anywhere", get(tenant, "cluster-import-config")),
		)

		DescribeTable("it may not", func(ctx SpecContext, request func(context.Context) error) {
			err := request(ctx)
			Expect(apierrors.IsForbidden(err)).To(BeTrue(), "%v", err)
		},
			Entry("get another Secret", get(tenant, "private")),
			Entry("get a Secret of kube-system", get(metav1.NamespaceSystem, "rbac-system")),
			Entry("get another Secret of the hub", get(component.Namespace, "signer-secret")),
			Entry("list Secrets everywhere", list("", "")),
			Entry("watch Secrets everywhere", watch("", "")),
			Entry("list a tenant's Secrets", list(tenant, "")),
			Entry("list Secrets of kube-system", list(metav1.NamespaceSystem, "")),
			Entry("list all Secrets but one", list("", "metadata.name!="+kubeconfig.SecretName)),
			Entry("list a Secret of another name", list("", "metadata.name=private")),
			Entry("list cluster-import-config", list("", "metadata.name=cluster-import-config")),
			Entry("change an import Secret", func(ctx context.Context) error {
				_, err := kube.CoreV1().Secrets(importNamespace).Update(ctx,
					&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: importNamespace, Name: "rbac-import"}}, metav1.UpdateOptions{})
				return err
			}),
			Entry("create a Secret", func(ctx context.Context) error {
				_, err := kube.CoreV1().Secrets(importNamespace).Create(ctx,
					&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "rbac-new"}}, metav1.CreateOptions{})
				return err
			}),
			Entry("delete an import Secret", func(ctx context.Context) error {
				return kube.CoreV1().Secrets(importNamespace).Delete(ctx, "rbac-import", metav1.DeleteOptions{})
			}),
			Entry("get a token of another ServiceAccount", func(ctx context.Context) error {
				_, err := kube.CoreV1().ServiceAccounts(component.Namespace).CreateToken(ctx, ocmhub.ControllerServiceAccount,
					&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
				return err
			}),
			Entry("create a ManagedCluster", func(ctx context.Context) error {
				_, err := clusters.ClusterV1().ManagedClusters().Create(ctx,
					&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "rbac-new"}}, metav1.CreateOptions{})
				return err
			}),
			Entry("delete a ManagedCluster", func(ctx context.Context) error {
				return clusters.ClusterV1().ManagedClusters().Delete(ctx, "rbac-new", metav1.DeleteOptions{})
			}),
		)

		DescribeTable("it is told by SelfSubjectAccessReview", func(ctx SpecContext, allowed bool, attributes authorizationv1.ResourceAttributes) {
			review, err := kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &attributes},
			}, metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			Expect(review.Status.Allowed).To(Equal(allowed))
		},
			Entry("get of any Secret", false, authorizationv1.ResourceAttributes{Verb: "get", Resource: "secrets"}),
			Entry("list of all Secrets", false, authorizationv1.ResourceAttributes{Verb: "list", Resource: "secrets"}),
			Entry("anything", false, authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Resource: "*"}),
			Entry("escalate", false, authorizationv1.ResourceAttributes{Verb: "escalate", Group: rbacv1.GroupName, Resource: "clusterroles"}),
			Entry("impersonate", false, authorizationv1.ResourceAttributes{Verb: "impersonate", Resource: "users"}),
			Entry("get of auto-import-secret", true, authorizationv1.ResourceAttributes{
				Verb: "get", Resource: "secrets", Namespace: tenant, Name: kubeconfig.SecretName,
			}),
			Entry("get in the import namespace", true, authorizationv1.ResourceAttributes{
				Verb: "get", Resource: "secrets", Namespace: importNamespace,
			}),
		)
	})
})
