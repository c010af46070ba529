// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/harness"
)

const (
	// The labels of the pods of operator and agent, of which the agent's is its Deployment's name too.
	operatorApp     = "klusterlet"
	agentApp        = "klusterlet-agent"
	klusterletImage = "quay.io/open-cluster-management/registration-operator:v1.2.1"

	// firstLook is how long after the deployment a cluster is looked at for the first time.
	firstLook = 10 * time.Second
	// requestsOfALook are for the Klusterlet, the Deployments of operator and agent, and the pods.
	requestsOfALook = 4
	// unchanged is how long a condition is watched after a look: many times what a change takes.
	unchanged = 300 * time.Millisecond

	hasNotJoined     = "the klusterlet has not joined the hub"
	hasNotAccepted   = "the ManagedCluster does not accept the cluster"
	completedMessage = "the klusterlet has joined and is available"

	completedSeries = "import_provider_completed_clusters"
)

const (
	nextWait   = "wait; see the pods in the namespaces open-cluster-management-agent… of the cluster if it takes more than a few minutes"
	nextImport = `set annotation import.open-cluster-management.io/immediate-import of the ManagedCluster to ""`
	nextDeploy = "; after a change of cluster-import-config or the hub's options, " + nextImport
	nextCSR    = "the newest CertificateSigningRequest of the hub whose label open-cluster-management.io/cluster-name is the name of the cluster"
)

// nextSteps is what the message of a reason ends with.
var nextSteps = map[string]string{
	"ImagePullFailed":   "correct the image, its pull Secret, or the cluster's access to the registry" + nextDeploy,
	"PodsUnschedulable": "see in its events what it lacks, and give the cluster a node that it fits on" + nextDeploy,
	"PodsRefused":       "see condition ReplicaFailure of the Deployment on the cluster: a quota or an admission policy" + nextDeploy,
	"PodsCrashing":      "see the events of the pod on the cluster, and the log of the container" + nextDeploy,
	"KlusterletFailed":  "see the conditions of Klusterlet klusterlet on the cluster" + nextDeploy,
	"KlusterletMissing": nextImport + " to import it again",
	"HubUnreachable":    "make the hub's API server reachable from the cluster, by the URL and the CA that the klusterlet has" + nextDeploy,
	"BootstrapRejected": "check the bootstrap ServiceAccount of the hub and its permissions, or bootstrapHubKubeConfig of " +
		"cluster-import-config; then " + nextImport,
	"CSRNotApproved": "approve " + nextCSR + ": kubectl certificate approve, or clusteradm accept",
	"CSRDenied":      "see condition Denied of " + nextCSR + ", then delete it: the klusterlet asks again",
	"NotAccepted":    "set spec.hubAcceptsClient of the ManagedCluster to true",
	"NotJoined":      nextWait,
	"NotAvailable":   nextWait,
}

// quietReasons are recorded in no event: nothing is known to be wrong.
var quietReasons = []string{"NotJoined", "NotAvailable"}

func incompleteMessage(reason, detail string) string { return detail + "; " + nextSteps[reason] }

func beIncomplete(reason, detail string) gomegatypes.GomegaMatcher {
	return beOurs(kubeconfig.ConditionCompleted, metav1.ConditionFalse, reason, incompleteMessage(reason, detail))
}

func pendingSeries(reason string) string {
	return fmt.Sprintf("import_provider_pending_clusters{reason=%q}", reason)
}

// followedCluster is an imported cluster that has not joined.
type followedCluster struct {
	name   string
	secret *corev1.Secret
	// proxy is in front of the cluster, to count requests.
	proxy *fakeServer
}

func (f *followedCluster) completed() func(ctx context.Context) (*metav1.Condition, error) {
	return ourCondition(f.name, kubeconfig.ConditionCompleted)
}

// clusterState is by what a patch of the ManagedCluster or a request to the cluster is noticed.
type clusterState struct {
	version  string
	requests int32
}

func (f *followedCluster) state(ctx context.Context) clusterState {
	GinkgoHelper()
	return clusterState{getCluster(ctx, f.name).ResourceVersion, f.proxy.requests.Load()}
}

// touch changes the Secret, which makes the component look at the cluster at once.
func (f *followedCluster) touch(ctx context.Context) {
	GinkgoHelper()
	updateSecret(ctx, f.secret, func(secret *corev1.Secret) {
		secret.Labels = map[string]string{"touched": newName("at")}
	})
}

// expect expects all that says why the import is not complete: the condition, events on both objects, the metric.
func (f *followedCluster) expect(ctx context.Context, c *controller, reason, detail string) {
	GinkgoHelper()
	Eventually(f.completed()).WithContext(ctx).Should(beIncomplete(reason, detail))
	Eventually(c.series).WithContext(ctx).WithArguments(pendingSeries(reason)).Should(Equal(1.0))
	if slices.Contains(quietReasons, reason) {
		return
	}
	message := incompleteMessage(reason, detail)
	Eventually(recordedEvents(f.name)).WithContext(ctx).Should(ContainElements(
		secretEvent(f.secret, corev1.EventTypeWarning, reason, message),
		clusterEvent(f.name, corev1.EventTypeWarning, reason, message)))
}

// expectNoChange expects that a look patches nothing. begin makes the component look.
func (f *followedCluster) expectNoChange(ctx context.Context, begin func(ctx context.Context)) {
	GinkgoHelper()
	before := f.state(ctx)
	begin(ctx)
	Eventually(f.proxy.requests.Load).WithContext(ctx).Should(BeNumerically(">=", before.requests+requestsOfALook))
	Consistently(func(ctx context.Context) string { return f.state(ctx).version }, unchanged).WithContext(ctx).Should(Equal(before.version))
}

// timesRecorded is how often each event about the ManagedClusters and Secrets of a name was recorded.
func timesRecorded(ctx context.Context, name string) (map[event]int, error) {
	list, err := hubKube.EventsV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	times := map[event]int{}
	for i := range list.Items {
		if e := list.Items[i]; e.Regarding.Name == name {
			// The next run of the component makes an object of its own.
			times[eventOf(&e)] += int(max(e.DeprecatedCount, 1))
		}
	}
	return times, nil
}

// createPod creates a pod of a part of the klusterlet, as the controllers of a cluster do of a Deployment, for the time of
// the spec.
func (s *spokeCluster) createPod(ctx context.Context, app string) *corev1.Pod {
	GinkgoHelper()
	deployment, err := s.kube.AppsV1().Deployments(agentNamespace).Get(ctx, klusterletName, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	template := deployment.Spec.Template
	labels := maps.Clone(template.Labels)
	if app != operatorApp {
		labels["app"] = app
	}
	pod, err := s.kube.CoreV1().Pods(agentNamespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: newName(app), Labels: labels},
		Spec:       template.Spec,
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) {
		Expect(s.kube.CoreV1().Pods(agentNamespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})).To(Succeed())
	})
	return pod
}

// reportPod sets the status of a pod, as a kubelet or the scheduler does.
func (s *spokeCluster) reportPod(ctx context.Context, pod *corev1.Pod, status corev1.PodStatus) {
	GinkgoHelper()
	patch, err := json.Marshal(map[string]any{"status": status})
	Expect(err).NotTo(HaveOccurred())
	_, err = s.kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	Expect(err).NotTo(HaveOccurred())
}

func containerReport(phase corev1.PodPhase, container corev1.ContainerStatus) corev1.PodStatus {
	container.Name, container.Image = operatorApp, klusterletImage
	return corev1.PodStatus{Phase: phase, ContainerStatuses: []corev1.ContainerStatus{container}}
}

// waitingReport is of a container that waits. Its message is what no condition may quote.
func waitingReport(reason string) corev1.PodStatus {
	return containerReport(corev1.PodPending, corev1.ContainerStatus{
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: sentinel}},
	})
}

func terminatedState(reason string) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: reason, Message: sentinel}}
}

// runningReport is of a pod that has a node and a container that runs now, and has ended before.
func runningReport() corev1.PodStatus {
	report := containerReport(corev1.PodRunning, corev1.ContainerStatus{
		State:                corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}},
		LastTerminationState: terminatedState("Error"), RestartCount: 3, Ready: true,
	})
	report.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	return report
}

// reportDeployment sets the conditions of a Deployment, as its controller does.
func (s *spokeCluster) reportDeployment(ctx context.Context, name string, conditions ...appsv1.DeploymentCondition) {
	GinkgoHelper()
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	Expect(err).NotTo(HaveOccurred())
	_, err = s.kube.AppsV1().Deployments(agentNamespace).Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	Expect(err).NotTo(HaveOccurred())
}

// reportKlusterlet sets the conditions of the Klusterlet, as the operator does, until the spec ends.
func (s *spokeCluster) reportKlusterlet(ctx context.Context, conditions ...metav1.Condition) (withdraw func(ctx context.Context)) {
	GinkgoHelper()
	set := func(ctx context.Context, conditions []metav1.Condition) {
		GinkgoHelper()
		klusterlet := s.klusterlet(ctx)
		klusterlet.Status.Conditions = conditions
		_, err := s.operator.OperatorV1().Klusterlets().UpdateStatus(ctx, klusterlet, metav1.UpdateOptions{})
		Expect(err).NotTo(HaveOccurred())
	}
	for i := range conditions {
		conditions[i].LastTransitionTime = metav1.Now()
	}
	set(ctx, conditions)
	DeferCleanup(func(ctx SpecContext) { set(ctx, nil) })
	return func(ctx context.Context) { set(ctx, nil) }
}

// degraded is what the operator says of the two credentials for the hub.
func degraded(reasons, bootstrapMessage, hubMessage string) metav1.Condition {
	return metav1.Condition{
		Type: operatorv1.ConditionHubConnectionDegraded, Status: metav1.ConditionTrue,
		Reason: reasons, Message: bootstrapMessage + "\n" + hubMessage,
	}
}

// hubRequestError is the error of the operator's request to a hub.
func hubRequestError(ctx context.Context, config *rest.Config) string {
	GinkgoHelper()
	client, err := kubernetes.NewForConfig(config)
	Expect(err).NotTo(HaveOccurred())
	_, err = client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, &authorizationv1.SelfSubjectAccessReview{}, metav1.CreateOptions{})
	Expect(err).To(HaveOccurred())
	return err.Error()
}

// createCSR asks the hub for a client certificate, as a klusterlet does, for the time of the spec.
func createCSR(ctx context.Context, labels map[string]string) *certificatesv1.CertificateSigningRequest {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	request, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{
		Organization: []string{"system:open-cluster-management:cluster"}, CommonName: "system:open-cluster-management:cluster:agent",
	}}, key)
	Expect(err).NotTo(HaveOccurred())
	csr, err := hubKube.CertificatesV1().CertificateSigningRequests().Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: newName("csr"), Labels: labels},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: request}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { deleteCSR(ctx, csr) })
	return csr
}

// decideCSR approves or denies a request.
func decideCSR(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, decision certificatesv1.RequestConditionType) {
	GinkgoHelper()
	csr = csr.DeepCopy()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: decision, Status: corev1.ConditionTrue, Reason: "Test", Message: sentinel,
	})
	_, err := hubKube.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func deleteCSR(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) {
	GinkgoHelper()
	err := hubKube.CertificatesV1().CertificateSigningRequests().Delete(ctx, csr.Name, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		Expect(err).NotTo(HaveOccurred())
	}
}

// createAcceptedCluster is createCluster for a cluster that may join.
func createAcceptedCluster(ctx context.Context, name string) {
	GinkgoHelper()
	_, err := hubClusters.ClusterV1().ManagedClusters().Create(ctx, &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
	}, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { deleteCluster(ctx, name) })
}

// reportCluster sets a condition of a ManagedCluster, as its klusterlet and the hub do. It returns the version that it made.
func reportCluster(ctx context.Context, name, conditionType string, status metav1.ConditionStatus) (version string) {
	GinkgoHelper()
	return setClusterConditions(ctx, name, metav1.Condition{Type: conditionType, Status: status, Reason: "Test"})
}

// The clusters are imported once and are followed to the end, by one run of the component after the other: of more than 25
// events of one object, client-go drops what a run records.
var _ = Describe("A klusterlet that is deployed", Ordered, ContinueOnFailure, func() {
	var (
		spoke *spokeCluster
		// cluster is accepted from the beginning.
		cluster *followedCluster
		// other is not accepted, and its credential may not list pods.
		other      *followedCluster
		otherSpoke *spokeCluster
	)

	BeforeAll(func(ctx SpecContext) {
		spoke, otherSpoke = spokes[0], spokes[1]
		spoke.clean(ctx)
		otherSpoke.clean(ctx)
		name := newName("progress")
		proxy := asAnotherCluster(spoke, spoke.uid(ctx))
		cluster = &followedCluster{name: name, proxy: proxy, secret: kubeconfigSecret(name, proxy.kubeconfig())}
		createSecret(ctx, cluster.secret)
		createAcceptedCluster(ctx, name)

		name = newName("progress")
		token, _ := otherSpoke.importerToken(ctx, slices.DeleteFunc(importerRules(), func(rule rbacv1.PolicyRule) bool {
			return slices.Contains(rule.Resources, "pods")
		}))
		other = &followedCluster{name: name, secret: tokenSecret(name, otherSpoke, token)}
		createSecret(ctx, other.secret)
		createCluster(ctx, name)
	})

	// obstacle keeps the klusterlet from joining.
	type obstacle struct {
		// cause returns what makes the obstacle look otherwise and be the same, which may be nothing, and what removes it.
		cause          func(ctx context.Context) (same, fix func(ctx context.Context))
		reason, detail string
	}
	// expectObstacle goes through the life of an obstacle.
	expectObstacle := func(ctx context.Context, c *controller, o obstacle) {
		GinkgoHelper()
		same, fix := o.cause(ctx)
		cluster.touch(ctx)
		cluster.expect(ctx, c, o.reason, o.detail)
		cluster.expectNoChange(ctx, func(ctx context.Context) {
			GinkgoHelper()
			if same != nil {
				same(ctx)
			}
			cluster.touch(ctx)
		})
		fix(ctx)
		cluster.touch(ctx)
		cluster.expect(ctx, c, "NotJoined", hasNotJoined)
		Expect(c.series(ctx, pendingSeries(o.reason))).To(BeZero())
	}
	// podObstacle is a pod of a part of the klusterlet, by the reports on it.
	podObstacle := func(app, reason, detail string, reports ...corev1.PodStatus) obstacle {
		return obstacle{reason: reason, detail: detail, cause: func(ctx context.Context) (same, fix func(ctx context.Context)) {
			pod := spoke.createPod(ctx, app)
			spoke.reportPod(ctx, pod, reports[0])
			if len(reports) > 1 {
				same = func(ctx context.Context) { spoke.reportPod(ctx, pod, reports[1]) }
			}
			return same, func(ctx context.Context) { spoke.reportPod(ctx, pod, runningReport()) }
		}}
	}
	// klusterletObstacle is what the operator says of itself or of the hub.
	klusterletObstacle := func(reason, detail string, says func(ctx context.Context) metav1.Condition) obstacle {
		return obstacle{reason: reason, detail: detail, cause: func(ctx context.Context) (same, fix func(ctx context.Context)) {
			return nil, spoke.reportKlusterlet(ctx, says(ctx))
		}}
	}

	// expectCompleted expects all that says that an import is complete.
	expectCompleted := func(ctx context.Context, c *controller, completed int) {
		GinkgoHelper()
		Eventually(cluster.completed()).WithContext(ctx).Should(
			beOurs(kubeconfig.ConditionCompleted, metav1.ConditionTrue, "Completed", completedMessage))
		Eventually(c.series).WithContext(ctx).WithArguments(completedSeries).Should(BeEquivalentTo(completed))
		Eventually(recordedEvents(cluster.name)).WithContext(ctx).Should(ContainElements(
			secretEvent(cluster.secret, corev1.EventTypeNormal, "Completed", completedMessage),
			clusterEvent(cluster.name, corev1.EventTypeNormal, "Completed", completedMessage)))
	}

	Context("on the cluster", func() {
		var c *controller
		BeforeAll(func(ctx SpecContext) {
			c = startController(ctx, "-v=7")
			expectImported(ctx, cluster.name)
			expectImported(ctx, other.name)
		})
		AfterEach(func() { Expect(c.running()).To(BeTrue()) })

		It("is looked at 10 s later, and waited for when nothing is wrong", func(ctx SpecContext) {
			cluster.expect(ctx, c, "NotJoined", hasNotJoined)
			Expect(c.series(ctx, completedSeries)).To(BeZero())
			requests := cluster.proxy.requests.Load()
			cluster.touch(ctx)
			Eventually(cluster.proxy.requests.Load).WithContext(ctx).Should(BeNumerically(">", requests))
			deployed, err := condition(cluster.name)(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(time.Since(deployed.LastTransitionTime.Time)).To(BeNumerically(">=", firstLook))

			By("a request of an addon, and an operator that waits for the certificate")
			cluster.expectNoChange(ctx, func(ctx context.Context) {
				GinkgoHelper()
				createCSR(ctx, map[string]string{
					clusterv1.ClusterNameLabelKey: cluster.name, addonv1alpha1.AddonLabelKey: "addon",
				})
				createCSR(ctx, map[string]string{clusterv1.ClusterNameLabelKey: cluster.name + "-other"})
				spoke.reportKlusterlet(ctx, degraded("BootstrapSecretFunctional,HubKubeConfigSecretMissing",
					"Bootstrap secret is configured correctly", `secrets "hub-kubeconfig-secret" not found`))
				cluster.touch(ctx)
			})
		})

		DescribeTable("does not join:", func(ctx SpecContext, o obstacle) { expectObstacle(ctx, c, o) },
			Entry("the image of the operator, whatever the kubelet says meanwhile", podObstacle(operatorApp, "ImagePullFailed",
				"an image of the klusterlet operator cannot be pulled: "+klusterletImage,
				waitingReport("ErrImagePull"), waitingReport("ImagePullBackOff"))),
			Entry("the image of the agent", podObstacle(agentApp, "ImagePullFailed",
				"an image of the klusterlet agent cannot be pulled: "+klusterletImage, waitingReport("ImagePullBackOff"))),
			Entry("no node", podObstacle(operatorApp, "PodsUnschedulable", "a pod of the klusterlet operator finds no node",
				corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{
					Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: sentinel,
				}}})),
			Entry("a container that ends again and again, whatever the kubelet says meanwhile", podObstacle(agentApp, "PodsCrashing",
				"a container of the klusterlet agent ends again and again",
				waitingReport("CrashLoopBackOff"),
				containerReport(corev1.PodRunning, corev1.ContainerStatus{State: terminatedState("Error"), RestartCount: 3}))),
			Entry("a container that needs more memory", podObstacle(operatorApp, "PodsCrashing",
				"a container of the klusterlet operator ends again and again: it needs more memory than it may have",
				containerReport(corev1.PodRunning, corev1.ContainerStatus{
					State: waitingReport("CrashLoopBackOff").ContainerStatuses[0].State, LastTerminationState: terminatedState("OOMKilled"), RestartCount: 1,
				}))),
			Entry("a container without its configuration", podObstacle(operatorApp, "PodsCrashing",
				"a container of the klusterlet operator cannot be created", waitingReport("CreateContainerConfigError"))),
			Entry("pods of the operator are refused", obstacle{
				reason: "PodsRefused", detail: "the cluster does not let the pods of the klusterlet operator be created",
				cause: func(ctx context.Context) (same, fix func(ctx context.Context)) {
					spoke.reportDeployment(ctx, klusterletName, appsv1.DeploymentCondition{
						Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: sentinel,
					})
					DeferCleanup(func(ctx SpecContext) { spoke.reportDeployment(ctx, klusterletName) })
					return nil, func(ctx context.Context) { spoke.reportDeployment(ctx, klusterletName) }
				},
			}),
			Entry("pods of the agent are refused", obstacle{
				reason: "PodsRefused", detail: "the cluster does not let the pods of the klusterlet agent be created",
				cause: func(ctx context.Context) (same, fix func(ctx context.Context)) {
					deployments := spoke.kube.AppsV1().Deployments(agentNamespace)
					operator, err := deployments.Get(ctx, klusterletName, metav1.GetOptions{})
					Expect(err).NotTo(HaveOccurred())
					_, err = deployments.Create(ctx, &appsv1.Deployment{
						ObjectMeta: metav1.ObjectMeta{Name: agentApp}, Spec: operator.Spec,
					}, metav1.CreateOptions{})
					Expect(err).NotTo(HaveOccurred())
					DeferCleanup(func(ctx SpecContext) {
						Expect(deployments.Delete(ctx, agentApp, metav1.DeleteOptions{})).To(Succeed())
					})
					spoke.reportDeployment(ctx, agentApp, appsv1.DeploymentCondition{
						Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: sentinel,
					})
					return nil, func(ctx context.Context) { spoke.reportDeployment(ctx, agentApp) }
				},
			}),
			Entry("the operator is gone", obstacle{
				reason: "KlusterletMissing", detail: "the cluster has no Deployment open-cluster-management-agent/klusterlet any more",
				cause: func(ctx context.Context) (same, fix func(ctx context.Context)) {
					deployments := spoke.kube.AppsV1().Deployments(agentNamespace)
					deployment, err := deployments.Get(ctx, klusterletName, metav1.GetOptions{})
					Expect(err).NotTo(HaveOccurred())
					Expect(deployments.Delete(ctx, klusterletName, metav1.DeleteOptions{})).To(Succeed())
					restore := func(ctx context.Context) {
						_, err := deployments.Create(ctx, &appsv1.Deployment{
							ObjectMeta: metav1.ObjectMeta{Name: klusterletName, Labels: deployment.Labels}, Spec: deployment.Spec,
						}, metav1.CreateOptions{})
						if !apierrors.IsAlreadyExists(err) {
							Expect(err).NotTo(HaveOccurred())
						}
					}
					DeferCleanup(func(ctx SpecContext) { restore(ctx) })
					return nil, restore
				},
			}),
			Entry("the operator cannot apply the agents", klusterletObstacle("KlusterletFailed",
				"the klusterlet operator cannot apply the agent: "+operatorv1.ReasonKlusterletApplyFailed, func(context.Context) metav1.Condition {
					return metav1.Condition{
						Type: operatorv1.ConditionKlusterletApplied, Status: metav1.ConditionFalse,
						Reason: operatorv1.ReasonKlusterletApplyFailed, Message: sentinel,
					}
				})),
		)

		It("is followed as far as that is possible when the credential may not list pods", func(ctx SpecContext) {
			other.expect(ctx, c, "NotAccepted", hasNotAccepted)
			pod := otherSpoke.createPod(ctx, operatorApp)
			otherSpoke.reportPod(ctx, pod, waitingReport("ImagePullBackOff"))
			otherSpoke.reportKlusterlet(ctx, metav1.Condition{
				Type: operatorv1.ConditionKlusterletApplied, Status: metav1.ConditionFalse,
				Reason: operatorv1.ReasonKlusterletCRDApplyFailed, Message: sentinel,
			})
			other.touch(ctx)
			other.expect(ctx, c, "KlusterletFailed", "the klusterlet operator cannot apply the agent: "+operatorv1.ReasonKlusterletCRDApplyFailed)
		})

		It("tells no token", func(ctx SpecContext) { expectNoLeak(ctx, c) })
	})

	Context("at the hub", func() {
		var c *controller
		BeforeAll(func(ctx SpecContext) { c = startController(ctx, "-v=7") })
		AfterEach(func() { Expect(c.running()).To(BeTrue()) })

		// bootstrapFails is what the operator says when a request with the bootstrap credential fails.
		bootstrapFails := func(config func(ctx context.Context) *rest.Config) func(ctx context.Context) metav1.Condition {
			return func(ctx context.Context) metav1.Condition {
				return degraded("BootstrapSecretError,HubKubeConfigSecretMissing",
					`Failed to create &SelfSubjectAccessReview{} with bootstrap secret "open-cluster-management-agent" "bootstrap-hub-kubeconfig": `+
						hubRequestError(ctx, config(ctx)),
					`Failed to get hub kubeconfig secret "open-cluster-management-agent" "hub-kubeconfig-secret": `+
						`secrets "hub-kubeconfig-secret" not found`)
			}
		}
		// hubRefuses is the configuration for a hub that does not accept the token.
		hubRefuses := func(context.Context) *rest.Config {
			return &rest.Config{Host: hub.URL(), BearerToken: sentinel, TLSClientConfig: rest.TLSClientConfig{CAData: hub.CAData()}}
		}
		insecure := rest.TLSClientConfig{Insecure: true}
		says := func(condition metav1.Condition) func(ctx context.Context) metav1.Condition {
			return func(context.Context) metav1.Condition { return condition }
		}

		DescribeTable("does not join:", func(ctx SpecContext, o obstacle) { expectObstacle(ctx, c, o) },
			Entry("nothing listens", klusterletObstacle("HubUnreachable", "the hub refuses the connection",
				bootstrapFails(func(_ context.Context) *rest.Config {
					return &rest.Config{Host: "https://" + closedPort(), TLSClientConfig: insecure}
				}))),
			Entry("no answer", klusterletObstacle("HubUnreachable", "the hub does not answer the cluster",
				bootstrapFails(func(ctx context.Context) *rest.Config {
					return &rest.Config{Host: "https://" + listenTCP(ctx), TLSClientConfig: insecure, Timeout: 500 * time.Millisecond}
				}))),
			Entry("no such name", klusterletObstacle("HubUnreachable", "the name of the hub does not resolve on the cluster",
				bootstrapFails(func(context.Context) *rest.Config {
					return &rest.Config{Host: "https://hub.invalid:6443", TLSClientConfig: insecure}
				}))),
			Entry("another CA", klusterletObstacle("HubUnreachable", "the cluster does not trust the hub's certificate",
				bootstrapFails(func(context.Context) *rest.Config {
					return &rest.Config{Host: hub.URL(), TLSClientConfig: rest.TLSClientConfig{CAData: spoke.CAData()}}
				}))),
			Entry("a token that is not accepted", klusterletObstacle("BootstrapRejected",
				"the hub does not accept the klusterlet's bootstrap token", bootstrapFails(hubRefuses))),
			Entry("a token that may not register", klusterletObstacle("BootstrapRejected",
				"the bootstrap token may not register a cluster",
				says(degraded("BootstrapSecretUnauthorized,HubKubeConfigSecretMissing", "Operation is not allowed "+sentinel, "")))),
			Entry("no bootstrap Secret", klusterletObstacle("BootstrapRejected",
				"the klusterlet operator cannot read the bootstrap Secret",
				says(degraded("BootstrapSecretMissing,HubKubeConfigSecretMissing", "Failed to get bootstrap secret "+sentinel, "")))),
			Entry("a certificate that is not accepted", klusterletObstacle("KlusterletFailed",
				"the hub does not accept the certificate in the klusterlet's Secret hub-kubeconfig-secret",
				func(ctx context.Context) metav1.Condition {
					return degraded("BootstrapSecretFunctional,HubKubeConfigError", "Bootstrap secret is configured correctly",
						`Failed to create &SelfSubjectAccessReview{} with hub config secret "a"/"b" to apiserver c: `+
							hubRequestError(ctx, hubRefuses(ctx)))
				})),
			Entry("a request that waits, while the operator says what was before it", obstacle{
				reason: "CSRNotApproved", detail: "its request for a client certificate is not approved",
				cause: func(ctx context.Context) (same, fix func(ctx context.Context)) {
					csr := createCSR(ctx, map[string]string{clusterv1.ClusterNameLabelKey: cluster.name})
					withdraw := spoke.reportKlusterlet(ctx, bootstrapFails(func(context.Context) *rest.Config {
						return &rest.Config{Host: "https://" + closedPort(), TLSClientConfig: insecure}
					})(ctx))
					return nil, func(ctx context.Context) {
						withdraw(ctx)
						decideCSR(ctx, csr, certificatesv1.CertificateApproved)
					}
				},
			}),
			Entry("a request that is denied, while the operator says what was before it", obstacle{
				reason: "CSRDenied", detail: "its request for a client certificate is denied",
				cause: func(ctx context.Context) (same, fix func(ctx context.Context)) {
					csr := createCSR(ctx, map[string]string{clusterv1.ClusterNameLabelKey: cluster.name})
					decideCSR(ctx, csr, certificatesv1.CertificateDenied)
					withdraw := spoke.reportKlusterlet(ctx, bootstrapFails(hubRefuses)(ctx))
					return nil, func(ctx context.Context) {
						withdraw(ctx)
						deleteCSR(ctx, csr)
					}
				},
			}),
		)

		It("is waited for when the import Secret is gone, or does not lead to the cluster any more", func(ctx SpecContext) {
			deleteSecret(ctx, cluster.secret)
			cluster.expect(ctx, c, "NotJoined", hasNotJoined+", and the cluster cannot be looked at: SecretNotFound")
			// createSecret would delete it with the spec.
			_, err := hubKube.CoreV1().Secrets(importNamespace).Create(ctx, cluster.secret.DeepCopy(), metav1.CreateOptions{})
			Expect(err).NotTo(HaveOccurred())
			cluster.expect(ctx, c, "NotJoined", hasNotJoined)
			updateSecret(ctx, cluster.secret, setKubeconfig(harness.TokenKubeconfig("https://"+closedPort(), cluster.proxy.ca(), sentinel)))
			cluster.expect(ctx, c, "NotJoined", hasNotJoined+", and the cluster cannot be looked at: Unreachable")
			updateSecret(ctx, cluster.secret, setKubeconfig(cluster.proxy.kubeconfig()))
			cluster.expect(ctx, c, "NotJoined", hasNotJoined)
		})

		It("tells no token", func(ctx SpecContext) { expectNoLeak(ctx, c) })
	})

	It("is followed further by the next run of the component, which says nothing again", func(ctx SpecContext) {
		c := startController(ctx)
		pod := spoke.createPod(ctx, operatorApp)
		const reason, detail = "PodsCrashing", "a container of the klusterlet operator ends again and again"
		spoke.reportPod(ctx, pod, waitingReport("CrashLoopBackOff"))
		cluster.touch(ctx)
		cluster.expect(ctx, c, reason, detail)
		c.Kill()
		cluster.expectNoChange(ctx, func(ctx context.Context) {
			GinkgoHelper()
			c = startController(ctx)
		})
		cluster.expect(ctx, c, reason, detail)
		spoke.reportPod(ctx, pod, runningReport())
		cluster.touch(ctx)
		cluster.expect(ctx, c, "NotJoined", hasNotJoined)
	})

	It("keeps for the next run also that it cannot be looked at", func(ctx SpecContext) {
		c := startController(ctx)
		const detail = hasNotJoined + ", and the cluster cannot be looked at: Unreachable"
		updateSecret(ctx, cluster.secret, setKubeconfig(harness.TokenKubeconfig("https://"+closedPort(), cluster.proxy.ca(), sentinel)))
		DeferCleanup(func(ctx SpecContext) { updateSecret(ctx, cluster.secret, setKubeconfig(cluster.proxy.kubeconfig())) })
		cluster.expect(ctx, c, "NotJoined", detail)
		c.Kill()
		before := cluster.state(ctx)
		startController(ctx)
		Consistently(cluster.state, nothingHappens).WithContext(ctx).Should(Equal(before))
	})

	Context("until the import is complete", func() {
		var c *controller
		BeforeAll(func(ctx SpecContext) { c = startController(ctx, "-v=7") })
		AfterEach(func() { Expect(c.running()).To(BeTrue()) })

		It("may be imported again when the Klusterlet is gone", func(ctx SpecContext) {
			klusterlets := otherSpoke.operator.OperatorV1().Klusterlets()
			setFinalizers := func(finalizers string) {
				GinkgoHelper()
				_, err := klusterlets.Patch(ctx, klusterletName, types.MergePatchType,
					[]byte(`{"metadata":{"finalizers":`+finalizers+`}}`), metav1.PatchOptions{})
				Expect(err).NotTo(HaveOccurred())
			}
			setFinalizers(`["operator.open-cluster-management.io/klusterlet-cleanup"]`)
			Expect(klusterlets.Delete(ctx, klusterletName, metav1.DeleteOptions{})).To(Succeed())
			other.touch(ctx)
			other.expect(ctx, c, "KlusterletMissing", "the Klusterlet klusterlet is being deleted")
			setFinalizers(`[]`)
			other.touch(ctx)
			other.expect(ctx, c, "KlusterletMissing", "the cluster has no Klusterlet klusterlet any more")

			annotateCluster(ctx, other.name, kubeconfig.AnnotationImmediateImport, "")
			Eventually(annotation(other.name, kubeconfig.AnnotationImmediateImport)).WithContext(ctx).
				Should(Equal(kubeconfig.ImmediateImportCompleted))
			other.expect(ctx, c, "NotAccepted", hasNotAccepted)
			Expect(c.series(ctx, pendingSeries("KlusterletMissing"))).To(BeZero())
			otherSpoke.expectKlusterlet(ctx, other.name)
		})

		It("is waited for when it has joined and is not available", func(ctx SpecContext) {
			reportCluster(ctx, cluster.name, clusterv1.ManagedClusterConditionJoined, metav1.ConditionTrue)
			cluster.expect(ctx, c, "NotAvailable", "the klusterlet has joined and is not available")
			Expect(c.series(ctx, completedSeries)).To(BeZero())
		})

		It("completes the import when it is available", func(ctx SpecContext) {
			reportCluster(ctx, cluster.name, clusterv1.ManagedClusterConditionAvailable, metav1.ConditionTrue)
			expectCompleted(ctx, c, 1)
			Expect(c.series(ctx, pendingSeries("NotAvailable"))).To(BeZero())
		})

		It("is left alone afterwards, however the cluster does", func(ctx SpecContext) {
			before := cluster.state(ctx)
			before.version = reportCluster(ctx, cluster.name, clusterv1.ManagedClusterConditionAvailable, metav1.ConditionUnknown)
			cluster.touch(ctx)
			Consistently(cluster.state, nothingHappens).WithContext(ctx).Should(Equal(before))
			expectCompleted(ctx, c, 1)
		})

		It("may join once the ManagedCluster is accepted", func(ctx SpecContext) {
			other.touch(ctx)
			other.expect(ctx, c, "NotAccepted", hasNotAccepted)
			_, err := hubClusters.ClusterV1().ManagedClusters().Patch(ctx, other.name, types.MergePatchType,
				[]byte(`{"spec":{"hubAcceptsClient":true}}`), metav1.PatchOptions{})
			Expect(err).NotTo(HaveOccurred())
			Eventually(other.completed()).WithContext(ctx).Should(And(
				HaveField("Reason", "NotJoined"), HaveField("ObservedGeneration", BeEquivalentTo(2))))
			Eventually(c.series).WithContext(ctx).WithArguments(pendingSeries("NotAccepted")).Should(BeZero())
			Expect(c.series(ctx, pendingSeries("NotJoined"))).To(Equal(1.0))
		})

		It("tells no token", func(ctx SpecContext) { expectNoLeak(ctx, c) })
	})

	Context("in the next run of the component", func() {
		var (
			c      *controller
			before clusterState
		)
		BeforeAll(func(ctx SpecContext) {
			reportCluster(ctx, other.name, clusterv1.ManagedClusterConditionJoined, metav1.ConditionTrue)
			reportCluster(ctx, other.name, clusterv1.ManagedClusterConditionAvailable, metav1.ConditionTrue)
			before = cluster.state(ctx)
			c = startController(ctx, "-v=7")
		})
		AfterEach(func() { Expect(c.running()).To(BeTrue()) })

		It("is complete when it joined while no component ran", func(ctx SpecContext) {
			Eventually(other.completed()).WithContext(ctx).Should(And(
				HaveField("Status", metav1.ConditionTrue), HaveField("Reason", "Completed"), HaveField("ObservedGeneration", BeEquivalentTo(2))))
			Eventually(c.series).WithContext(ctx).WithArguments(completedSeries).Should(Equal(2.0))
		})

		It("is left alone when it was complete", func(ctx SpecContext) {
			cluster.touch(ctx)
			Consistently(cluster.state, nothingHappens).WithContext(ctx).Should(Equal(before))
		})

		It("is complete again after a further import", func(ctx SpecContext) {
			reportCluster(ctx, cluster.name, clusterv1.ManagedClusterConditionAvailable, metav1.ConditionTrue)
			requests := cluster.proxy.requests.Load()
			annotateCluster(ctx, cluster.name, kubeconfig.AnnotationImmediateImport, "")
			Eventually(annotation(cluster.name, kubeconfig.AnnotationImmediateImport)).WithContext(ctx).
				Should(Equal(kubeconfig.ImmediateImportCompleted))
			Expect(cluster.proxy.requests.Load()).To(BeNumerically(">", requests))
			Eventually(timesRecorded).WithContext(ctx).WithArguments(cluster.name).Should(
				HaveKeyWithValue(clusterEvent(cluster.name, corev1.EventTypeNormal, "Completed", completedMessage), 2))
			expectCompleted(ctx, c, 2)
		})

		It("tells no token", func(ctx SpecContext) { expectNoLeak(ctx, c) })
	})

	It("has recorded each event once", func(ctx SpecContext) {
		times, err := timesRecorded(ctx, cluster.name)
		Expect(err).NotTo(HaveOccurred())
		Expect(times).NotTo(BeEmpty())
		for said, count := range times {
			Expect(quietReasons).NotTo(ContainElement(said.reason))
			if _, ofObstacle := nextSteps[said.reason]; ofObstacle {
				Expect(count).To(Equal(1), "%v", said)
			}
		}
	})
})
