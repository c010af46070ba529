// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gstruct"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/retry"

	clusterclientset "open-cluster-management.io/api/client/cluster/clientset/versioned"
	clusterinformers "open-cluster-management.io/api/client/cluster/informers/externalversions"
	operatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/harness"
)

const (
	imported = "ManagedClusterImportSucceeded"

	reasonGetFailed    = "KubeConfigGetFailed"
	reasonNotFound     = "KubeConfigNotFound"
	reasonRenderFailed = "ConfigRendererFailed"
	reasonImportFailed = "ImportFailed"
	reasonSucceed      = "ImportSucceed"

	agentNamespace  = "open-cluster-management-agent"
	klusterletName  = "klusterlet"
	klusterletCRD   = "klusterlets.operator.open-cluster-management.io"
	bootstrapSecret = "bootstrap-hub-kubeconfig"

	importNamespace = kubeconfig.DefaultImportNamespace

	// sentinel stands for every token that a test makes up. It must not come out anywhere.
	sentinel = "sentinel-5f1d7c0a9e"
)

// quick are flags for a component that is started often and whose clusters fail fast. The bounds leave room for a real
// API server on a busy machine.
var quick = []string{
	"--leader-elect=false", "-v=4",
	"--spoke-dial-timeout=4s", "--spoke-tls-timeout=4s", "--spoke-header-timeout=4s", "--spoke-request-timeout=8s",
}

var (
	nameCount      atomic.Int32
	componentCount atomic.Int32
)

// newName returns a name that no other spec uses.
func newName(prefix string) string {
	return fmt.Sprintf("%s-%d", prefix, nameCount.Add(1))
}

// controller is a running import-controller.
type controller struct {
	*component.Process
	logFile string
}

// startController starts the component with flags that come after, and override, those of quick.
func startController(ctx context.Context, args ...string) *controller {
	GinkgoHelper()
	return launch(ctx, component.Options{Args: slices.Concat(quick, args)})
}

// launch starts the component by the given options. It ends with the spec, or the container of a BeforeAll.
func launch(ctx context.Context, o component.Options) *controller {
	GinkgoHelper()
	o.BinDir = workDir
	if o.Kubeconfig == "" {
		o.Kubeconfig = controllerKubeconfig
	}
	o.LogFile = filepath.Join(workDir, fmt.Sprintf("import-controller-%d.log", componentCount.Add(1)))
	process, err := component.Start(ctx, o)
	Expect(err).NotTo(HaveOccurred())
	c := &controller{Process: process, logFile: o.LogFile}
	if slices.Contains(o.Args, "--leader-elect=false") {
		DeferCleanup(c.Kill)
	} else {
		// Killed, it would keep its lease for 15 s.
		DeferCleanup(func() { c.Stop() })
	}
	return c
}

func (c *controller) log() string {
	GinkgoHelper()
	data, err := os.ReadFile(c.logFile)
	Expect(err).NotTo(HaveOccurred())
	return string(data)
}

func (c *controller) running() bool {
	select {
	case <-c.Done():
		return false
	default:
		return true
	}
}

// get returns status and body of a path of the probes or metrics.
func (c *controller) get(ctx context.Context, path string) (int, string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL(path), http.NoBody)
	Expect(err).NotTo(HaveOccurred())
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

// spokeCluster is a real cluster to import.
type spokeCluster struct {
	*harness.ControlPlane
	kube     kubernetes.Interface
	apiext   apiextensionsclient.Interface
	operator operatorclient.Interface
}

func newSpoke(controlPlane *harness.ControlPlane) (*spokeCluster, error) {
	s := &spokeCluster{ControlPlane: controlPlane}
	var err error
	if s.kube, err = kubernetes.NewForConfig(s.Config()); err != nil {
		return s, err
	}
	if s.apiext, err = apiextensionsclient.NewForConfig(s.Config()); err != nil {
		return s, err
	}
	s.operator, err = operatorclient.NewForConfig(s.Config())
	return s, err
}

// uid is how the cluster is known.
func (s *spokeCluster) uid(ctx context.Context) string {
	GinkgoHelper()
	namespace, err := s.kube.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return string(namespace.UID)
}

// clean removes all that an import leaves, here and on the hub.
func (s *spokeCluster) clean(ctx context.Context) {
	GinkgoHelper()
	clusters, err := hubClusters.ClusterV1().ManagedClusters().List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	uid := s.uid(ctx)
	for i := range clusters.Items {
		if cluster := clusters.Items[i]; cluster.Annotations[kubeconfig.AnnotationClusterUID] == uid {
			deleteCluster(ctx, cluster.Name)
		}
	}
	s.removeKlusterlet(ctx)
}

// removeKlusterlet removes what an import left on the cluster.
func (s *spokeCluster) removeKlusterlet(ctx context.Context) {
	GinkgoHelper()
	for _, err := range []error{
		s.operator.OperatorV1().Klusterlets().DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		s.kube.AppsV1().Deployments(agentNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		s.kube.CoreV1().Secrets(agentNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		s.kube.CoreV1().ServiceAccounts(agentNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}),
		s.kube.RbacV1().ClusterRoles().Delete(ctx, klusterletName, metav1.DeleteOptions{}),
		s.kube.RbacV1().ClusterRoleBindings().Delete(ctx, klusterletName, metav1.DeleteOptions{}),
	} {
		if !apierrors.IsNotFound(err) {
			Expect(err).NotTo(HaveOccurred())
		}
	}
	if _, err := s.kube.CoreV1().Namespaces().Get(ctx, agentNamespace, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		Expect(err).NotTo(HaveOccurred())
		s.removeNamespace(ctx, agentNamespace)
	}
	crds := s.apiext.ApiextensionsV1().CustomResourceDefinitions()
	Eventually(func(ctx context.Context) (int, error) {
		// Again and again: the last request of an import that was given up may come in between.
		if err := crds.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
			return 0, err
		}
		list, err := crds.List(ctx, metav1.ListOptions{})
		return len(list.Items), err
	}).WithContext(ctx).Should(BeZero(), "CRDs are deleted")
}

// removeNamespace removes a namespace, which no controller empties and removes here.
func (s *spokeCluster) removeNamespace(ctx context.Context, name string) {
	GinkgoHelper()
	namespaces := s.kube.CoreV1().Namespaces()
	namespace, err := namespaces.Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(namespaces.Delete(ctx, name, metav1.DeleteOptions{})).To(Succeed())
	namespace.ResourceVersion, namespace.Spec.Finalizers = "", nil
	_, err = namespaces.Finalize(ctx, namespace, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

// expectKlusterlet expects on the cluster all that an import puts there.
func (s *spokeCluster) expectKlusterlet(ctx context.Context, clusterName string) {
	GinkgoHelper()
	crd, err := s.apiext.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, klusterletCRD, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(crd.Status.Conditions).NotTo(BeEmpty())
	klusterlets, err := s.operator.OperatorV1().Klusterlets().List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(klusterlets.Items).To(HaveLen(1))
	Expect(klusterlets.Items[0].Name).To(Equal(klusterletName))
	Expect(klusterlets.Items[0].Spec.ClusterName).To(Equal(clusterName))
	_, err = s.kube.AppsV1().Deployments(agentNamespace).Get(ctx, klusterletName, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	secret, err := s.kube.CoreV1().Secrets(agentNamespace).Get(ctx, bootstrapSecret, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	Expect(secret.Data["kubeconfig"]).To(ContainSubstring(hub.URL()))
	for _, get := range []func() error{
		func() error {
			_, err := s.kube.CoreV1().ServiceAccounts(agentNamespace).Get(ctx, klusterletName, metav1.GetOptions{})
			return err
		},
		func() error {
			_, err := s.kube.RbacV1().ClusterRoles().Get(ctx, klusterletName, metav1.GetOptions{})
			return err
		},
		func() error {
			_, err := s.kube.RbacV1().ClusterRoleBindings().Get(ctx, klusterletName, metav1.GetOptions{})
			return err
		},
	} {
		Expect(get()).To(Succeed())
	}
}

// klusterlet is the Klusterlet of the cluster.
func (s *spokeCluster) klusterlet(ctx context.Context) *operatorv1.Klusterlet {
	GinkgoHelper()
	klusterlet, err := s.operator.OperatorV1().Klusterlets().Get(ctx, klusterletName, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return klusterlet
}

// userKubeconfig is for a user that has no permission but those a test grants it.
func (s *spokeCluster) userKubeconfig(user string) []byte {
	GinkgoHelper()
	return s.certKubeconfig(user, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
}

func (s *spokeCluster) certKubeconfig(user string, notBefore, notAfter time.Time) []byte {
	GinkgoHelper()
	cert, key, err := s.IssueClientCert(user, nil, notBefore, notAfter)
	Expect(err).NotTo(HaveOccurred())
	return harness.CertKubeconfig(s.URL(), s.CAData(), cert, key)
}

// editKubeconfig returns a kubeconfig with a token, changed by edit.
func editKubeconfig(server string, ca []byte, edit func(cluster *clientcmdapi.Cluster, user *clientcmdapi.AuthInfo)) []byte {
	GinkgoHelper()
	config := clientcmdapi.NewConfig()
	cluster := &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	user := &clientcmdapi.AuthInfo{Token: sentinel}
	edit(cluster, user)
	config.Clusters["default"], config.AuthInfos["default"] = cluster, user
	config.Contexts["default"] = &clientcmdapi.Context{Cluster: "default", AuthInfo: "default"}
	config.CurrentContext = "default"
	data, err := clientcmd.Write(*config)
	Expect(err).NotTo(HaveOccurred())
	return data
}

// importSecret is an annotated Secret in the default import namespace.
func importSecret(clusterName string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   importNamespace,
			Name:        clusterName,
			Annotations: map[string]string{kubeconfig.AnnotationManagedCluster: clusterName},
		},
		Data: data,
	}
}

func kubeconfigSecret(clusterName string, data []byte) *corev1.Secret {
	return importSecret(clusterName, map[string][]byte{"kubeconfig": data})
}

// createSecret creates a Secret on the hub, and its namespace when there is none, for the time of the spec.
func createSecret(ctx context.Context, secret *corev1.Secret) {
	GinkgoHelper()
	createNamespace(ctx, secret.Namespace)
	_, err := hubKube.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { deleteSecret(ctx, secret) })
}

// importConfig creates the Secret with the klusterlet values of one cluster.
func importConfig(ctx context.Context, cluster, values string) *corev1.Secret {
	GinkgoHelper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "cluster-import-config"},
		Data:       map[string][]byte{"values.yaml": []byte(values)},
	}
	createSecret(ctx, secret)
	return secret
}

func createNamespace(ctx context.Context, name string) {
	GinkgoHelper()
	_, err := hubKube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		Expect(err).NotTo(HaveOccurred())
	}
}

func deleteSecret(ctx context.Context, secret *corev1.Secret) {
	GinkgoHelper()
	err := hubKube.CoreV1().Secrets(secret.Namespace).Delete(ctx, secret.Name, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		Expect(err).NotTo(HaveOccurred())
	}
}

// updateSecret changes a Secret of the hub.
func updateSecret(ctx context.Context, secret *corev1.Secret, change func(secret *corev1.Secret)) {
	GinkgoHelper()
	current, err := hubKube.CoreV1().Secrets(secret.Namespace).Get(ctx, secret.Name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	change(current)
	_, err = hubKube.CoreV1().Secrets(secret.Namespace).Update(ctx, current, metav1.UpdateOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func setKubeconfig(data []byte) func(*corev1.Secret) {
	return func(secret *corev1.Secret) { secret.Data = map[string][]byte{"kubeconfig": data} }
}

// createCluster creates a ManagedCluster for the time of the spec.
func createCluster(ctx context.Context, name string, annotations ...string) {
	GinkgoHelper()
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}}
	for i := 0; i < len(annotations); i += 2 {
		cluster.Annotations[annotations[i]] = annotations[i+1]
	}
	_, err := hubClusters.ClusterV1().ManagedClusters().Create(ctx, cluster, metav1.CreateOptions{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx SpecContext) { deleteCluster(ctx, name) })
}

func deleteCluster(ctx context.Context, name string) {
	GinkgoHelper()
	err := hubClusters.ClusterV1().ManagedClusters().Delete(ctx, name, metav1.DeleteOptions{})
	if !apierrors.IsNotFound(err) {
		Expect(err).NotTo(HaveOccurred())
	}
}

// annotateCluster sets an annotation of a ManagedCluster, or removes it for the value "null".
func annotateCluster(ctx context.Context, name, key, value string) {
	GinkgoHelper()
	if value != "null" {
		value = `"` + value + `"`
	}
	_, err := hubClusters.ClusterV1().ManagedClusters().Patch(ctx, name, types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, key, value), metav1.PatchOptions{})
	Expect(err).NotTo(HaveOccurred())
}

func getCluster(ctx context.Context, name string) *clusterv1.ManagedCluster {
	GinkgoHelper()
	cluster, err := hubClusters.ClusterV1().ManagedClusters().Get(ctx, name, metav1.GetOptions{})
	Expect(err).NotTo(HaveOccurred())
	return cluster
}

// setClusterConditions sets conditions of a ManagedCluster, as the hub, the klusterlet or an earlier run would. It returns the
// version that it made.
func setClusterConditions(ctx context.Context, name string, conditions ...metav1.Condition) (version string) {
	GinkgoHelper()
	Expect(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		cluster, err := hubClusters.ClusterV1().ManagedClusters().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range conditions {
			meta.SetStatusCondition(&cluster.Status.Conditions, condition)
		}
		if cluster, err = hubClusters.ClusterV1().ManagedClusters().UpdateStatus(ctx, cluster, metav1.UpdateOptions{}); err != nil {
			return err
		}
		version = cluster.ResourceVersion
		return nil
	})).To(Succeed())
	return version
}

// joinCluster says of a cluster what a klusterlet that has joined does.
func joinCluster(ctx context.Context, name string) {
	GinkgoHelper()
	setClusterConditions(ctx, name,
		metav1.Condition{Type: clusterv1.ManagedClusterConditionJoined, Status: metav1.ConditionTrue, Reason: "Test"},
		metav1.Condition{Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue, Reason: "Test"})
	Eventually(ourCondition(name, kubeconfig.ConditionCompleted)).WithContext(ctx).Should(HaveField("Status", metav1.ConditionTrue))
}

// condition is for Eventually: the importer's condition of a ManagedCluster, nil while there is none.
func condition(name string) func(ctx context.Context) (*metav1.Condition, error) {
	return ourCondition(name, imported)
}

// ourCondition is condition for another type.
func ourCondition(name, conditionType string) func(ctx context.Context) (*metav1.Condition, error) {
	return func(ctx context.Context) (*metav1.Condition, error) {
		cluster, err := hubClusters.ClusterV1().ManagedClusters().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return meta.FindStatusCondition(cluster.Status.Conditions, conditionType), nil
	}
}

// beCondition matches a condition of which nothing but the time is left open.
func beCondition(status metav1.ConditionStatus, reason, message string) gomegatypes.GomegaMatcher {
	return gstruct.PointTo(gstruct.MatchAllFields(gstruct.Fields{
		"Type":               Equal(imported),
		"Status":             Equal(status),
		"Reason":             Equal(reason),
		"Message":            Equal(message),
		"ObservedGeneration": BeZero(),
		"LastTransitionTime": Not(BeZero()),
	}))
}

func haveSucceeded() gomegatypes.GomegaMatcher {
	return beCondition(metav1.ConditionTrue, reasonSucceed, "")
}

func haveNoSecret() gomegatypes.GomegaMatcher {
	return beCondition(metav1.ConditionFalse, reasonNotFound, "Secret for kubeconfig is not found.")
}

// beOurs matches a condition of the provider on a ManagedCluster whose spec was never changed.
func beOurs(conditionType string, status metav1.ConditionStatus, reason, message string) gomegatypes.GomegaMatcher {
	return gstruct.PointTo(gstruct.MatchAllFields(gstruct.Fields{
		"Type":               Equal(conditionType),
		"Status":             Equal(status),
		"Reason":             Equal(reason),
		"Message":            Equal(message),
		"ObservedGeneration": BeEquivalentTo(1),
		"LastTransitionTime": Not(BeZero()),
	}))
}

// expectPreflightFailed expects all that says why a cluster cannot be imported: our condition, events on both objects, the
// metric. text is reason, what is wrong and the next step; notice, if there is one, what the event on the Secret may say
// instead.
func expectPreflightFailed(ctx context.Context, c *controller, name string, secret *corev1.Secret, text, notice string) {
	GinkgoHelper()
	Eventually(condition(name)).WithContext(ctx).Should(haveFailed(secret, text))
	reason, message, found := strings.Cut(text, ": ")
	Expect(found).To(BeTrue())
	Expect(ourCondition(name, kubeconfig.ConditionPreflightPassed)(ctx)).To(
		beOurs(kubeconfig.ConditionPreflightPassed, metav1.ConditionFalse, reason, failureNote(secret, message)))
	note := failureNote(secret, text)
	Eventually(recordedEvents(secret.Name)).WithContext(ctx).Should(ContainElement(Or(
		Equal(secretEvent(secret, corev1.EventTypeWarning, reason, note)),
		Equal(secretEvent(secret, corev1.EventTypeWarning, reason, notice)))))
	Eventually(recordedEvents(name)).WithContext(ctx).Should(ContainElement(clusterEvent(name, corev1.EventTypeWarning, reason, note)))
	for _, metric := range []string{"failures_total", "pending_clusters"} {
		Expect(c.series(ctx, fmt.Sprintf("import_provider_%s{reason=%q}", metric, reason))).To(BeNumerically(">", 0), metric)
	}
}

// series is the value of a series of /metrics, or 0 if there is none.
func (c *controller) series(ctx context.Context, name string) float64 {
	GinkgoHelper()
	_, text := c.get(ctx, "/metrics")
	_, rest, found := strings.Cut(text, "\n"+name+" ")
	if !found {
		return 0
	}
	line, _, _ := strings.Cut(rest, "\n")
	value, err := strconv.ParseFloat(line, 64)
	Expect(err).NotTo(HaveOccurred())
	return value
}

// haveFailed matches the condition of an import that ended before the cluster was written to.
func haveFailed(secret *corev1.Secret, text string) gomegatypes.GomegaMatcher {
	return beCondition(metav1.ConditionFalse, reasonGetFailed, "failed to get kubeconfig. See errors:\n"+failureNote(secret, text))
}

func failureNote(secret *corev1.Secret, text string) string {
	return fmt.Sprintf("import Secret %s/%s: %s", secret.Namespace, secret.Name, text)
}

func expectImported(ctx context.Context, name string) {
	GinkgoHelper()
	Eventually(condition(name)).WithContext(ctx).Should(haveSucceeded())
	Eventually(annotation(name, kubeconfig.AnnotationClusterUID)).WithContext(ctx).ShouldNot(BeEmpty())
	Expect(ourCondition(name, kubeconfig.ConditionPreflightPassed)(ctx)).To(HaveField("Status", metav1.ConditionTrue))
}

// importNow imports a cluster by an import Secret with cluster-admin's kubeconfig.
func importNow(ctx context.Context, name string, spoke *spokeCluster) {
	GinkgoHelper()
	spoke.clean(ctx)
	createSecret(ctx, kubeconfigSecret(name, spoke.Kubeconfig()))
	createCluster(ctx, name)
	expectImported(ctx, name)
	spoke.expectKlusterlet(ctx, name)
}

// event is what a person sees of an event.
type event struct {
	kind, namespace, name string
	eventType             string
	reason, note          string
}

// recordedEvents is for Eventually: the events about the ManagedClusters and Secrets of a name.
func recordedEvents(name string) func(ctx context.Context) ([]event, error) {
	return func(ctx context.Context) ([]event, error) {
		list, err := hubKube.EventsV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		var found []event
		for i := range list.Items {
			if e := list.Items[i]; e.Regarding.Name == name {
				found = append(found, eventOf(&e))
			}
		}
		return found, nil
	}
}

func eventOf(e *eventsv1.Event) event {
	return event{
		kind: e.Regarding.Kind, namespace: e.Regarding.Namespace, name: e.Regarding.Name,
		eventType: e.Type, reason: e.Reason, note: e.Note,
	}
}

func secretEvent(secret *corev1.Secret, eventType, reason, note string) event {
	return event{"Secret", secret.Namespace, secret.Name, eventType, reason, note}
}

func clusterEvent(name, eventType, reason, note string) event {
	return event{"ManagedCluster", "", name, eventType, reason, note}
}

// expectNoLeak expects the sentinel, and more secrets, in nothing that a person or a machine can see: log, arguments, metrics,
// events, ManagedClusters.
func expectNoLeak(ctx context.Context, c *controller, secrets ...string) {
	GinkgoHelper()
	status, metrics := c.get(ctx, "/metrics")
	Expect(status).To(Equal(http.StatusOK))
	arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", c.PID()))
	Expect(err).NotTo(HaveOccurred())
	events, err := hubKube.EventsV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	clusters, err := hubClusters.ClusterV1().ManagedClusters().List(ctx, metav1.ListOptions{})
	Expect(err).NotTo(HaveOccurred())
	for place, text := range map[string]string{
		"log":             c.log(),
		"metrics":         metrics,
		"arguments":       string(arguments),
		"events":          fmt.Sprint(events.Items),
		"ManagedClusters": fmt.Sprint(clusters.Items),
	} {
		for _, secret := range append(secrets, sentinel) {
			if at := strings.Index(text, secret); at >= 0 {
				Fail(fmt.Sprintf("a secret is in the %s: …%s…", place, text[max(0, at-300):min(len(text), at+100)]))
			}
		}
	}
}

// clusterHistory counts the changes of ManagedClusters.
type clusterHistory struct {
	lock    sync.Mutex // guards changes, for the time of a look-up or a change
	changes map[string]int
}

func watchClusters(ctx context.Context, client clusterclientset.Interface) (*clusterHistory, error) {
	h := &clusterHistory{changes: map[string]int{}}
	factory := clusterinformers.NewSharedInformerFactory(client, 0)
	informer := factory.Cluster().V1().ManagedClusters().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		UpdateFunc: func(oldObj, newObj any) {
			before, ok := oldObj.(*clusterv1.ManagedCluster)
			after, isCluster := newObj.(*clusterv1.ManagedCluster)
			if ok && isCluster && before.ResourceVersion != after.ResourceVersion {
				h.lock.Lock()
				defer h.lock.Unlock()
				h.changes[after.Name]++
			}
		},
	}); err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return h, nil
}

func (h *clusterHistory) snapshot() map[string]int {
	h.lock.Lock()
	defer h.lock.Unlock()
	return maps.Clone(h.changes)
}

func (h *clusterHistory) count(name string) int { return h.snapshot()[name] }

// failureCase is an import that cannot succeed.
type failureCase struct {
	name string
	// secret makes the import Secret of the cluster, and what goes with it. The framework creates the Secret.
	secret func(ctx context.Context, cluster string) *corev1.Secret
	// text is what the provider says: reason, what is wrong, the next step. {secret} stands for the Secret's key.
	text string
	// notice is what an event says about a Secret that no import is tried with; it may take the place of text.
	notice string
	// importFailed is the text of an import that failed after the first request, instead of text.
	importFailed string
	// fix corrects the input. By default the Secret gets a kubeconfig that works.
	fix func(ctx context.Context, secret *corev1.Secret)
}

// describeFailures runs all cases at once in one component: they fail as they say, they change their ManagedCluster at
// most twice while they fail, they tell no token, and each imports when it is corrected.
func describeFailures(title string, args []string, cases ...failureCase) {
	Describe(title, Ordered, ContinueOnFailure, func() {
		const (
			// watched is above the first back-off of the provider, 5 s and up to a fifth more: a retry is in it.
			watched    = 7 * time.Second
			maxChanges = 2
		)
		var c *controller
		var created time.Time
		clusters := make([]string, len(cases))
		secrets := make([]*corev1.Secret, len(cases))

		BeforeAll(func(ctx SpecContext) {
			spokes[0].clean(ctx)
			c = startController(ctx, append([]string{"-v=7"}, args...)...)
			for i := range cases {
				clusters[i] = newName("failing")
				secrets[i] = cases[i].secret(ctx, clusters[i])
				createSecret(ctx, secrets[i])
				createCluster(ctx, clusters[i])
			}
			created = time.Now()
		})

		var entries []TableEntry
		for i := range cases {
			entries = append(entries, Entry(cases[i].name, i))
		}
		fill := func(i int, text string) string {
			return strings.NewReplacer("{secret}", secrets[i].Namespace+"/"+secrets[i].Name, "{cluster}", clusters[i]).Replace(text)
		}
		text := func(i int) string { return fill(i, cases[i].text) }

		DescribeTable("says why", func(ctx SpecContext, i int) {
			if cases[i].importFailed != "" {
				Eventually(condition(clusters[i])).WithContext(ctx).Should(beCondition(metav1.ConditionFalse, reasonImportFailed,
					"failed to import the klusterlet. See errors:\nmanaged cluster: "+cases[i].importFailed))
				return
			}
			expectPreflightFailed(ctx, c, clusters[i], secrets[i], text(i), fill(i, cases[i].notice))
		}, entries)

		It("neither crashes nor patches again and again", func() {
			tooMany := func() map[string]int {
				counts := map[string]int{}
				for i := range cases {
					if n := history.count(clusters[i]); n > maxChanges {
						counts[cases[i].name] = n
					}
				}
				return counts
			}
			Consistently(tooMany, max(watched-time.Since(created), time.Second)).Should(BeEmpty())
			Expect(c.running()).To(BeTrue())
		})

		It("tells no token", func(ctx SpecContext) { expectNoLeak(ctx, c) })

		DescribeTable("imports when corrected", func(ctx SpecContext, i int) {
			spokes[0].clean(ctx)
			fix := cases[i].fix
			if fix == nil {
				fix = replaceKubeconfig
			}
			fix(ctx, secrets[i])
			expectImported(ctx, clusters[i])
			spokes[0].expectKlusterlet(ctx, clusters[i])
		}, entries)

		It("has told no token at the end", func(ctx SpecContext) { expectNoLeak(ctx, c) })
	})
}

// replaceKubeconfig puts a kubeconfig that works into a Secret and removes all annotations but the cluster's name.
func replaceKubeconfig(ctx context.Context, secret *corev1.Secret) {
	GinkgoHelper()
	updateSecret(ctx, secret, func(secret *corev1.Secret) {
		secret.Annotations = map[string]string{
			kubeconfig.AnnotationManagedCluster: secret.Annotations[kubeconfig.AnnotationManagedCluster],
		}
		secret.Data = map[string][]byte{"kubeconfig": spokes[0].Kubeconfig()}
	})
}

// withKubeconfig is a case's Secret that holds what build returns.
func withKubeconfig(build func(ctx context.Context) []byte) func(context.Context, string) *corev1.Secret {
	return func(ctx context.Context, cluster string) *corev1.Secret { return kubeconfigSecret(cluster, build(ctx)) }
}

// withServer is a case's Secret for a server of the test.
func withServer(start func() *fakeServer) func(context.Context, string) *corev1.Secret {
	return withKubeconfig(func(context.Context) []byte { return start().kubeconfig() })
}

// controllerConfig is what the component has of the hub: a token of its ServiceAccount.
func controllerConfig(ctx context.Context) *rest.Config {
	GinkgoHelper()
	token, err := hub.ServiceAccountToken(ctx, component.Namespace, component.ServiceAccount, time.Hour)
	Expect(err).NotTo(HaveOccurred())
	return &rest.Config{Host: hub.URL(), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: hub.CAData()}}
}
