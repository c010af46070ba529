// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/binaries"
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/harness"
)

const secondNamespace = "second-imports"

// importerRules are what a credential must be allowed on the cluster, by manifests/managed-cluster.
func importerRules() []rbacv1.PolicyRule {
	GinkgoHelper()
	root, err := binaries.ModuleRoot()
	Expect(err).NotTo(HaveOccurred())
	manifest, err := os.ReadFile(filepath.Join(root, "manifests", "managed-cluster", "clusterrole.yaml"))
	Expect(err).NotTo(HaveOccurred())
	var role rbacv1.ClusterRole
	Expect(yaml.UnmarshalStrict(manifest, &role)).To(Succeed())
	return role.Rules
}

// without splits a rule into rules for all that it allows but one verb of one resource.
func without(rule rbacv1.PolicyRule, resource, verb string) []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, kept := range rule.Resources {
		one := *rule.DeepCopy()
		one.Resources = []string{kept}
		if kept == resource {
			one.Verbs = slices.DeleteFunc(one.Verbs, func(v string) bool { return v == verb })
		}
		if len(one.Verbs) > 0 {
			rules = append(rules, one)
		}
	}
	return rules
}

// drift changes every object that an import puts on the cluster, so that the next import updates each.
func (s *spokeCluster) drift(ctx context.Context) {
	GinkgoHelper()
	const labels = `{"metadata":{"labels":{"app":"drifted","createdBy":"drifted"},"annotations":{"workload.openshift.io/allowed":"drifted"}}}`
	_, err := s.kube.CoreV1().Namespaces().Patch(ctx, agentNamespace, types.MergePatchType, []byte(labels), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = s.kube.CoreV1().ServiceAccounts(agentNamespace).Patch(ctx, klusterletName, types.MergePatchType,
		[]byte(`{"metadata":{"labels":null},"imagePullSecrets":null}`), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = s.kube.CoreV1().Secrets(agentNamespace).Patch(ctx, bootstrapSecret, types.MergePatchType,
		[]byte(`{"data":{"kubeconfig":""}}`), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = s.kube.AppsV1().Deployments(agentNamespace).Patch(ctx, klusterletName, types.MergePatchType,
		[]byte(`{"spec":{"replicas":7}}`), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = s.kube.RbacV1().ClusterRoles().Patch(ctx, klusterletName, types.MergePatchType, []byte(`{"rules":[]}`), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = s.kube.RbacV1().ClusterRoleBindings().Patch(ctx, klusterletName, types.MergePatchType,
		[]byte(`{"subjects":[]}`), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = s.apiext.ApiextensionsV1().CustomResourceDefinitions().Patch(ctx, klusterletCRD, types.JSONPatchType,
		[]byte(`[{"op":"add","path":"/spec/names/shortNames","value":["drifted"]}]`), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
	_, err = s.operator.OperatorV1().Klusterlets().Patch(ctx, klusterletName, types.MergePatchType,
		[]byte(`{"spec":{"priorityClassName":"drifted"}}`), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// expectNoDrift expects that an import corrected what drift changed.
func (s *spokeCluster) expectNoDrift(ctx context.Context, clusterName string) {
	GinkgoHelper()
	s.expectKlusterlet(ctx, clusterName)
	Expect(s.klusterlet(ctx).Spec.PriorityClassName).To(BeEmpty())
	deployment, err := s.kube.AppsV1().Deployments(agentNamespace).Get(ctx, klusterletName, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(*deployment.Spec.Replicas).To(BeEquivalentTo(1))
	role, err := s.kube.RbacV1().ClusterRoles().Get(ctx, klusterletName, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(role.Rules).NotTo(BeEmpty())
	binding, err := s.kube.RbacV1().ClusterRoleBindings().Get(ctx, klusterletName, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(binding.Subjects).NotTo(BeEmpty())
}

// importerToken makes a ServiceAccount on the cluster that may do what importerRules say, and returns a token of it.
func (s *spokeCluster) importerToken(ctx context.Context, rules []rbacv1.PolicyRule) (token string, revoke func(context.Context)) {
	GinkgoHelper()
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: newName("importer")}}
	_, err := s.kube.CoreV1().ServiceAccounts(account.Namespace).Create(ctx, account, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	revoke = s.grant(ctx, "system:serviceaccount:"+account.Namespace+":"+account.Name, rules...)
	token, err = s.ServiceAccountToken(ctx, account.Namespace, account.Name, time.Hour)
	Expect(err).NotTo(HaveOccurred())
	return token, revoke
}

func tokenSecret(clusterName string, spoke *spokeCluster, token string) *corev1.Secret {
	secret := importSecret(clusterName, map[string][]byte{
		"server": []byte(spoke.URL()), "ca.crt": spoke.CAData(), "token": []byte(token + "\n"),
	})
	secret.Annotations[credential.AnnotationCredentialResolver] = credential.ResolverToken
	return secret
}

// expectNeeded expects an import with the rules, of which one verb is missing, to be refused for that verb, before anything
// is written.
func expectNeeded(ctx context.Context, spoke *spokeCluster, rules []rbacv1.PolicyRule, verb, resource, group string) {
	GinkgoHelper()
	name := newName("reduced")
	token, revoke := spoke.importerToken(ctx, rules)
	secret := tokenSecret(name, spoke, token)
	createSecret(ctx, secret)
	createCluster(ctx, name)
	missing := verb + " " + resource
	if group != "" {
		missing += "." + group
	}
	Eventually(ourCondition(name, kubeconfig.ConditionPreflightPassed)).WithContext(ctx).Should(And(
		HaveField("Status", metav1.ConditionFalse), HaveField("Reason", "Forbidden"),
		HaveField("Message", failureNote(secret, "the credential may not "+missing+"; "+nextGrant))),
		"without %s", missing)
	revoke(ctx)
	deleteSecret(ctx, secret)
	deleteCluster(ctx, name)
}

// killPoints are where in an import the component is killed: after how many milliseconds. The seed makes them the same
// in every run; an import takes a few hundred.
func killPoints() []TableEntry {
	random := rand.New(rand.NewPCG(20, 26)) //nolint:gosec // no secret.
	var entries []TableEntry
	for range 6 {
		after := time.Duration(random.IntN(400)) * time.Millisecond
		entries = append(entries, Entry(after.String(), after))
	}
	return entries
}

var _ = Describe("The life of an import", func() {
	var spoke *spokeCluster

	BeforeEach(func(ctx SpecContext) {
		spoke = spokes[0]
		spoke.clean(ctx)
	})

	Context("in one run of the component", Ordered, ContinueOnFailure, func() {
		var c *controller
		BeforeAll(func(ctx SpecContext) {
			allowImportNamespace(ctx, secondNamespace)
			c = startController(ctx, "--import-namespaces="+importNamespace+","+secondNamespace)
		})
		AfterEach(func() { Expect(c.running()).To(BeTrue()) })

		It("starts with the Secret", func(ctx SpecContext) {
			name := newName("life")
			createSecret(ctx, kubeconfigSecret(name, spoke.Kubeconfig()))
			createCluster(ctx, name)
			expectImported(ctx, name)
			spoke.expectKlusterlet(ctx, name)
		})

		It("starts with the ManagedCluster", func(ctx SpecContext) {
			name := newName("life")
			createCluster(ctx, name)
			Consistently(condition(name), "500ms").WithContext(ctx).Should(BeNil())
			createSecret(ctx, kubeconfigSecret(name, spoke.Kubeconfig()))
			expectImported(ctx, name)
			spoke.expectKlusterlet(ctx, name)
		})

		It("works with a ServiceAccount's token and the documented permissions, also to update", func(ctx SpecContext) {
			name := newName("life")
			token, _ := spoke.importerToken(ctx, importerRules())
			createSecret(ctx, tokenSecret(name, spoke, token))
			createCluster(ctx, name)
			expectImported(ctx, name)
			spoke.expectKlusterlet(ctx, name)

			spoke.drift(ctx)
			annotateCluster(ctx, name, kubeconfig.AnnotationImmediateImport, "")
			Eventually(annotation(name, kubeconfig.AnnotationImmediateImport)).WithContext(ctx).
				Should(Equal(kubeconfig.ImmediateImportCompleted))
			Expect(condition(name)(ctx)).To(haveSucceeded())
			spoke.expectNoDrift(ctx, name)
		})

		It("needs each of the documented permissions", func(ctx SpecContext) {
			rules := importerRules()
			// update of what is there and, of a cluster that was imported, changed.
			for _, verbs := range []struct {
				update bool
				before func()
			}{
				{false, func() { spoke.clean(ctx) }},
				{true, func() { importNow(ctx, newName("life"), spoke); spoke.drift(ctx) }},
			} {
				for i, rule := range rules {
					for _, resource := range rule.Resources {
						for _, verb := range rule.Verbs {
							if (verb == "update") != verbs.update || resource == "pods" {
								continue
							}
							verbs.before()
							expectNeeded(ctx, spoke, slices.Concat(rules[:i], rules[i+1:], without(rule, resource, verb)), verb, resource, rule.APIGroups[0])
						}
					}
				}
			}
		})

		It("works with a client certificate", func(ctx SpecContext) {
			name := newName("life")
			spoke.grant(ctx, "certified", importerRules()...)
			createSecret(ctx, kubeconfigSecret(name, spoke.userKubeconfig("certified")))
			createCluster(ctx, name)
			expectImported(ctx, name)
			spoke.expectKlusterlet(ctx, name)
		})

		It("works with a Secret as Cluster API makes it, in the cluster's own namespace", func(ctx SpecContext) {
			name := newName("life")
			secret := importSecret(name, map[string][]byte{"value": spoke.Kubeconfig()})
			secret.Namespace, secret.Name = name, kubeconfig.SecretName
			secret.Type = "cluster.x-k8s.io/secret"
			createSecret(ctx, secret)
			createCluster(ctx, name)
			expectImported(ctx, name)
			spoke.expectKlusterlet(ctx, name)
		})

		DescribeTable("finds the kubeconfig under", func(ctx SpecContext, key string) {
			name := newName("life")
			createSecret(ctx, importSecret(name, map[string][]byte{key: spoke.Kubeconfig(), "autoImportRetry": []byte("5")}))
			createCluster(ctx, name)
			expectImported(ctx, name)
		}, Entry(nil, "kubeconfig"), Entry(nil, "value"), Entry(nil, "value.yaml"), Entry(nil, "config"), Entry(nil, "admin.conf"))

		It("uses the key and the context that annotations name", func(ctx SpecContext) {
			name := newName("life")
			secret := importSecret(name, map[string][]byte{"kubeconfig": []byte(sentinel), "mine": twoContexts(spoke)})
			secret.Annotations[credential.AnnotationKubeconfigKey] = "mine"
			secret.Annotations[credential.AnnotationKubeconfigContext] = "works"
			createSecret(ctx, secret)
			createCluster(ctx, name)
			expectImported(ctx, name)
			spoke.expectKlusterlet(ctx, name)
		})

		It("tries a corrected Secret within a second", func(ctx SpecContext) {
			name := newName("life")
			server := newFakeServer(answerStatus(http.StatusServiceUnavailable))
			secret := kubeconfigSecret(name, harness.TokenKubeconfig("https://"+closedPort(), spoke.CAData(), sentinel))
			createSecret(ctx, secret)
			createCluster(ctx, name)
			Eventually(condition(name)).WithContext(ctx).Should(haveFailed(secret, "Unreachable: the connection is refused; "+nextUnreachable))
			updateSecret(ctx, secret, setKubeconfig(server.kubeconfig()))
			Eventually(server.requests.Load).WithTimeout(time.Second).Should(BeNumerically(">", 0))
			updateSecret(ctx, secret, setKubeconfig(spoke.Kubeconfig()))
			expectImported(ctx, name)
			spoke.expectKlusterlet(ctx, name)
		})

		It("records an event for a second failure too, also with the same reason", func(ctx SpecContext) {
			name := newName("life")
			secret := kubeconfigSecret(name, nil)
			createSecret(ctx, secret)
			createCluster(ctx, name)
			warning := func(text string) []any {
				note := failureNote(secret, invalidFile+text)
				return []any{
					secretEvent(secret, corev1.EventTypeWarning, "KubeconfigInvalid", note),
					clusterEvent(name, corev1.EventTypeWarning, "KubeconfigInvalid", note),
				}
			}
			Eventually(recordedEvents(name)).WithContext(ctx).Should(
				ContainElements(warning("kubeconfig is missing: the file is empty")...))
			updateSecret(ctx, secret, setKubeconfig([]byte("{}")))
			Eventually(recordedEvents(name)).WithContext(ctx).Should(
				ContainElements(warning("contexts is missing: add a context that names a cluster and a user")...))
		})

		It("says that the Secret is gone when it is deleted after a failure", func(ctx SpecContext) {
			name := newName("life")
			secret := kubeconfigSecret(name, nil)
			createSecret(ctx, secret)
			createCluster(ctx, name)
			Eventually(condition(name)).WithContext(ctx).Should(HaveField("Reason", reasonGetFailed))
			deleteSecret(ctx, secret)
			Eventually(condition(name)).WithContext(ctx).Should(haveNoSecret())
			createSecret(ctx, kubeconfigSecret(name, spoke.Kubeconfig()))
			expectImported(ctx, name)
		})

		It("says that the Secret is gone when it is deleted after a failure to write to the cluster", func(ctx SpecContext) {
			name := newName("life")
			secret := newFakeSecret(name, newFakeServer(afterPreflight(answerStatus(http.StatusForbidden))))
			createSecret(ctx, secret)
			createCluster(ctx, name)
			Eventually(condition(name)).WithContext(ctx).Should(HaveField("Reason", reasonImportFailed))
			deleteSecret(ctx, secret)
			Eventually(condition(name)).WithContext(ctx).WithTimeout(5 * time.Second).Should(haveNoSecret())
		})

		It("imports from a second import namespace", func(ctx SpecContext) {
			name := newName("life")
			secret := kubeconfigSecret(name, spoke.Kubeconfig())
			secret.Namespace = secondNamespace
			createSecret(ctx, secret)
			createCluster(ctx, name)
			expectImported(ctx, name)
		})

		It("pauses while disable-auto-import is there", func(ctx SpecContext) {
			name := newName("life")
			createSecret(ctx, kubeconfigSecret(name, spoke.Kubeconfig()))
			createCluster(ctx, name, kubeconfig.AnnotationDisableAutoImport, "")
			Eventually(recordedEvents(name)).WithContext(ctx).Should(ContainElement(clusterEvent(name, corev1.EventTypeNormal,
				"ImportPaused", "annotation import.open-cluster-management.io/disable-auto-import pauses the import; remove it to go on")))
			Consistently(condition(name), "1s").WithContext(ctx).Should(BeNil())
			annotateCluster(ctx, name, kubeconfig.AnnotationDisableAutoImport, "null")
			expectImported(ctx, name)
			spoke.expectKlusterlet(ctx, name)
		})

		It("imports once more on immediate-import", func(ctx SpecContext) {
			name := newName("life")
			importNow(ctx, name, spoke)
			deployments := spoke.kube.AppsV1().Deployments(agentNamespace)
			Expect(deployments.Delete(ctx, klusterletName, metav1.DeleteOptions{})).To(Succeed())
			annotateCluster(ctx, name, kubeconfig.AnnotationImmediateImport, "")
			Eventually(func(ctx context.Context) (*appsv1.Deployment, error) {
				return deployments.Get(ctx, klusterletName, metav1.GetOptions{})
			}).WithContext(ctx).ShouldNot(BeNil())
			Eventually(annotation(name, kubeconfig.AnnotationImmediateImport)).WithContext(ctx).
				Should(Equal(kubeconfig.ImmediateImportCompleted))
			expectImported(ctx, name)

			By("doing nothing for the value Completed")
			changes := history.count(name)
			Consistently(func() int { return history.count(name) }, "1s").Should(Equal(changes))
		})

		It("tries a failing import at once on immediate-import", func(ctx SpecContext) {
			name := newName("life")
			server := newFakeServer(answerStatus(http.StatusServiceUnavailable))
			createSecret(ctx, newFakeSecret(name, server))
			createCluster(ctx, name)
			Eventually(condition(name)).WithContext(ctx).Should(HaveField("Reason", reasonGetFailed))
			// The back-off is 4 s at least after the first attempt.
			before := server.requests.Load()
			annotateCluster(ctx, name, kubeconfig.AnnotationImmediateImport, "")
			Eventually(server.requests.Load).WithTimeout(2 * time.Second).Should(BeNumerically(">", before))
			Expect(getCluster(ctx, name).Annotations).To(HaveKeyWithValue(kubeconfig.AnnotationImmediateImport, ""))
		})

		// begin starts an import of a cluster whose API server is paused, and returns when it has begun.
		begin := func(ctx context.Context) (name string, secret *corev1.Secret) {
			GinkgoHelper()
			name = newName("life")
			Expect(spoke.PauseAPIServer()).To(Succeed())
			DeferCleanup(spoke.ResumeAPIServer)
			begun := make(chan struct{})
			config := spoke.Config()
			secret = kubeconfigSecret(name, harness.CertKubeconfig(
				proxyTCP(ctx, spoke.URL(), sync.OnceFunc(func() { close(begun) })), config.CAData, config.CertData, config.KeyData))
			createSecret(ctx, secret)
			createCluster(ctx, name)
			Eventually(begun).WithContext(ctx).Should(BeClosed())
			return name, secret
		}

		It("goes on when the ManagedCluster is deleted in the middle and created again", func(ctx SpecContext) {
			name, _ := begin(ctx)
			deleteCluster(ctx, name)
			createCluster(ctx, name)
			Expect(spoke.ResumeAPIServer()).To(Succeed())
			expectImported(ctx, name)
			spoke.expectKlusterlet(ctx, name)
		})

		It("stops when the Secret is deleted in the middle", func(ctx SpecContext) {
			name, secret := begin(ctx)
			deleteSecret(ctx, secret)
			Eventually(condition(name)).WithContext(ctx).Should(haveNoSecret())
			Expect(spoke.ResumeAPIServer()).To(Succeed())
			Consistently(condition(name), "1s").WithContext(ctx).Should(haveNoSecret())
		})

		It("survives an API server of the cluster that dies in the middle", func(ctx SpecContext) {
			name, _ := begin(ctx)
			Expect(spoke.KillAPIServer()).To(Succeed())
			Eventually(condition(name)).WithContext(ctx).Should(HaveField("Status", metav1.ConditionFalse))
			Expect(spoke.StartAPIServer(ctx)).To(Succeed())
			expectImported(ctx, name)
			spoke.expectKlusterlet(ctx, name)
		})
	})

	It("is not ready without the Role of a second import namespace", func(ctx SpecContext) {
		c := launch(ctx, component.Options{
			Args: append([]string{"--import-namespaces=" + importNamespace + ",third-imports"}, quick...), NotReady: true,
		})
		Eventually(func(ctx context.Context) int { status, _ := c.get(ctx, "/readyz"); return status }).WithContext(ctx).
			Should(Equal(http.StatusInternalServerError))
		Expect(c.log()).NotTo(ContainSubstring("Importer started"))
	})

	It("says that the Secret is gone when it was deleted while the component was down", func(ctx SpecContext) {
		name := newName("life")
		secret := kubeconfigSecret(name, nil)
		createSecret(ctx, secret)
		createCluster(ctx, name)
		c := startController(ctx)
		Eventually(condition(name)).WithContext(ctx).Should(HaveField("Reason", reasonGetFailed))
		c.Kill()
		deleteSecret(ctx, secret)
		startController(ctx)
		Eventually(condition(name)).WithContext(ctx).Should(haveNoSecret())
	})

	DescribeTable("is finished by the next run when the component is killed after", func(ctx SpecContext, after time.Duration) {
		name := newName("life")
		c := startController(ctx)
		createSecret(ctx, kubeconfigSecret(name, spoke.Kubeconfig()))
		createCluster(ctx, name)
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		c.Kill()
		startController(ctx)
		expectImported(ctx, name)
		spoke.expectKlusterlet(ctx, name)
		for _, namespace := range []string{agentNamespace, metav1.NamespaceDefault} {
			secrets, err := spoke.kube.CoreV1().Secrets(namespace).List(ctx, metav1.ListOptions{})
			Expect(err).NotTo(HaveOccurred())
			if namespace == agentNamespace {
				Expect(secrets.Items).To(HaveLen(1))
				continue
			}
			Expect(secrets.Items).To(BeEmpty())
		}
	}, killPoints())

	It("goes on after the hub's API server was gone", func(ctx SpecContext) {
		c := launch(ctx, component.Options{Args: []string{"-v=4"}})
		importNow(ctx, newName("life"), spoke)
		Expect(hub.KillAPIServer()).To(Succeed())
		Expect(hub.StartAPIServer(ctx)).To(Succeed())
		name := newName("life")
		spoke.clean(ctx)
		createSecret(ctx, kubeconfigSecret(name, spoke.Kubeconfig()))
		createCluster(ctx, name)
		// A leader that could not renew its lease in time exits, and its Deployment starts it again.
		Eventually(func(ctx context.Context) (*metav1.Condition, error) {
			if !c.running() {
				c = launch(ctx, component.Options{Args: []string{"-v=4"}, NotReady: true})
			}
			return condition(name)(ctx)
		}).WithContext(ctx).WithTimeout(time.Minute).Should(haveSucceeded())
		spoke.expectKlusterlet(ctx, name)
	})

	It("is taken over by the other replica when the leader ends", func(ctx SpecContext) {
		first := launch(ctx, component.Options{Args: []string{"-v=4"}})
		importNow(ctx, newName("life"), spoke)
		second := launch(ctx, component.Options{Args: []string{"-v=4"}})
		Expect(second.log()).NotTo(ContainSubstring("Importer started"))
		stopped := time.Now()
		Expect(first.Stop()).To(BeTrue())
		Expect(first.ExitCode()).To(BeZero())
		spoke.clean(ctx)
		importNow(ctx, newName("life"), spoke)
		// The lease was released: nobody waits for its 15 s.
		Expect(time.Since(stopped)).To(BeNumerically("<", 15*time.Second))
		Expect(second.log()).To(ContainSubstring("Importer started"))
	})
})

func newFakeSecret(name string, server *fakeServer) *corev1.Secret {
	return kubeconfigSecret(name, server.kubeconfig())
}

// annotation is for Eventually: an annotation of a ManagedCluster.
func annotation(name, key string) func(ctx context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		cluster, err := hubClusters.ClusterV1().ManagedClusters().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return cluster.Annotations[key], nil
	}
}

// allowImportNamespace makes a further import namespace as manifests/rbac/import-namespace.yaml says.
func allowImportNamespace(ctx context.Context, namespace string) {
	GinkgoHelper()
	createNamespace(ctx, namespace)
	role, err := hubKube.RbacV1().Roles(importNamespace).Get(ctx, "open-cluster-management:importer", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	binding, err := hubKube.RbacV1().RoleBindings(importNamespace).Get(ctx, "open-cluster-management:import-controller", metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	role.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: role.Name}
	binding.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: binding.Name}
	_, err = hubKube.RbacV1().Roles(namespace).Create(ctx, role, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	_, err = hubKube.RbacV1().RoleBindings(namespace).Create(ctx, binding, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		Expect(err).NotTo(HaveOccurred())
	}
	DeferCleanup(func(ctx SpecContext) {
		Expect(hubKube.RbacV1().Roles(namespace).Delete(ctx, role.Name, metav1.DeleteOptions{})).To(Succeed())
	})
}
