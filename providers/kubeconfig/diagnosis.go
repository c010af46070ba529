// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes"

	addonv1alpha1 "open-cluster-management.io/api/addon/v1alpha1"
	clusterv1 "open-cluster-management.io/api/cluster/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"
)

const (
	// maxItems bounds a list of a managed cluster, on the wire and when it is decoded. A klusterlet has nine pods at most.
	maxItems = 50
	// manyRestarts is when a container that has ended is known to end again.
	manyRestarts = 3

	oomKilled = "OOMKilled"
)

// few is a list that is decoded up to maxItems: an answer of empty objects within its bound would become
// gigabytes otherwise.
type few[T any] []T

func (f *few[T]) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	start, err := decoder.Token()
	if err != nil || start == nil {
		return err
	}
	if start != json.Delim('[') {
		return errors.New("not a list")
	}
	for len(*f) < maxItems && decoder.More() {
		var item T
		if err := decoder.Decode(&item); err != nil {
			return err
		}
		*f = append(*f, item)
	}
	return nil
}

// The views are what a diagnosis needs of the objects of a cluster. All else is not decoded. The decoder matches names
// without regard to case.
type (
	conditionView struct {
		Type, Status, Reason, Message string
	}
	klusterletView struct {
		Metadata struct{ DeletionTimestamp *metav1.Time }
		Spec     struct {
			Namespace    string
			DeployOption struct{ Mode operatorv1.InstallMode }
		}
		Status struct{ Conditions few[conditionView] }
	}
	deploymentView struct {
		Status struct{ Conditions few[conditionView] }
	}
	podView struct {
		Metadata struct {
			Name              string
			DeletionTimestamp *metav1.Time
			Labels            struct{ App string }
		}
		Status struct {
			Phase                                    corev1.PodPhase
			Conditions                               few[conditionView]
			InitContainerStatuses, ContainerStatuses few[containerView]
		}
	}
	containerView struct {
		Image            string
		RestartCount     int32
		State, LastState corev1.ContainerState
	}
	podListView struct {
		Items few[podView]
	}
)

// component is a part of the klusterlet, in the order in which they come up.
type component int

const (
	componentOperator component = iota + 1
	componentAgent
)

func (c component) String() string {
	if c == componentOperator {
		return "the klusterlet operator"
	}
	return "the klusterlet agent"
}

// components are the components by label app of their pods (ocm, manifests/klusterlet/management and the chart).
var components = map[string]component{
	"klusterlet":                    componentOperator,
	"klusterlet-agent":              componentAgent,
	"klusterlet-registration-agent": componentAgent,
	"klusterlet-work-agent":         componentAgent,
}

var podSelector = "app in (" + strings.Join(sets.List(sets.KeySet(components)), ",") + ")"

// klusterletState is what a cluster shows of its klusterlet. What may not be read is as if nothing were wrong with it.
type klusterletState struct {
	// klusterlet is nil if the cluster has none.
	klusterlet      *klusterletView
	operatorMissing bool
	operator, agent deploymentView
	pods            []podView
}

// diagnose looks for what keeps a deployed klusterlet from joining, and returns nil if nothing is known to be wrong. The
// error is that of a cluster that cannot be looked at. A credential that may not look at everything finds less.
// A klusterlet that was deployed just now has not failed yet, even if it says so: the caller waits before the first look.
func (c *connection) diagnose(ctx context.Context) (*problem, error) {
	var (
		state      klusterletState
		klusterlet klusterletView
	)
	found, err := c.read(ctx, "Klusterlet", &klusterlet, true, "apis", operatorv1.GroupVersion.String(), "klusterlets", klusterletName)
	if err != nil {
		return nil, err
	}
	if !found {
		return state.problem(), nil
	}
	state.klusterlet = &klusterlet
	namespace := agentNamespace(klusterlet.Spec.Namespace)
	if state.operatorMissing, err = c.readDeployment(ctx, &state.operator, KlusterletNamespace, klusterletName); err != nil {
		return nil, err
	}
	// The agent that joins. It is the operator that tells when it cannot be created.
	agent := klusterletName + "-registration-agent"
	if klusterlet.Spec.DeployOption.Mode == operatorv1.InstallModeSingleton {
		agent = klusterletName + "-agent"
	}
	if _, err = c.readDeployment(ctx, &state.agent, namespace, agent); err != nil {
		return nil, err
	}
	for _, namespace := range slices.Compact([]string{KlusterletNamespace, namespace}) {
		pods, err := c.listPods(ctx, namespace)
		if err != nil {
			return nil, err
		}
		state.pods = append(state.pods, pods...)
	}
	return state.problem(), nil
}

// readDeployment says whether a Deployment is missing, which is not known of one that may not be read.
func (c *connection) readDeployment(ctx context.Context, into *deploymentView, namespace, name string) (missing bool, err error) {
	found, err := c.read(ctx, "Deployment", into, false, "apis/apps/v1/namespaces", namespace, "deployments", name)
	if err != nil {
		return false, ignoreForbidden(err)
	}
	return !found, nil
}

func (c *connection) listPods(ctx context.Context, namespace string) ([]podView, error) {
	query := url.Values{"limit": {strconv.Itoa(maxItems)}, "labelSelector": {podSelector}}
	resp, err := c.requestWith(ctx, http.MethodGet, query, nil, "api/v1/namespaces", namespace, "pods")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var list podListView
	if _, err := decodeObject(resp, "PodList", &list); err != nil {
		return nil, ignoreForbidden(err)
	}
	return list.Items, nil
}

func ignoreForbidden(err error) error {
	var p *problem
	if errors.As(err, &p) && p.reason == ReasonForbidden {
		return nil
	}
	return err
}

// problem returns the first thing that is wrong, causes before what follows from them. Its text does not depend on the
// order in which the cluster lists its pods.
func (s klusterletState) problem() *problem {
	if s.klusterlet == nil {
		return &problem{reason: ReasonKlusterletMissing, detail: "the cluster has no Klusterlet " + klusterletName + " any more"}
	}
	if s.klusterlet.Metadata.DeletionTimestamp != nil {
		return &problem{reason: ReasonKlusterletMissing, detail: "the Klusterlet " + klusterletName + " is being deleted"}
	}
	pods := slices.DeleteFunc(slices.Clone(s.pods), func(pod podView) bool { return !pod.counts() })
	slices.SortStableFunc(pods, func(a, b podView) int {
		return cmp.Or(cmp.Compare(a.component(), b.component()), cmp.Compare(a.Metadata.Name, b.Metadata.Name))
	})
	for _, check := range []func(podView) *problem{podView.pullProblem, podView.scheduleProblem} {
		if p := firstProblem(pods, check); p != nil {
			return p
		}
	}
	if p := cmp.Or(s.operator.problem(componentOperator), s.agent.problem(componentAgent)); p != nil {
		return p
	}
	if p := firstProblem(pods, podView.crashProblem); p != nil {
		return p
	}
	if s.operatorMissing {
		// What the Klusterlet says was written before the operator went.
		return &problem{reason: ReasonKlusterletMissing,
			detail: "the cluster has no Deployment " + KlusterletNamespace + "/" + klusterletName + " any more"}
	}
	return cmp.Or(s.klusterlet.applyProblem(), s.klusterlet.hubProblem())
}

func firstProblem[T any](items []T, check func(T) *problem) *problem {
	for _, item := range items {
		if p := check(item); p != nil {
			return p
		}
	}
	return nil
}

// findCondition returns a condition if it has a status.
func findCondition(conditions []conditionView, conditionType string, status metav1.ConditionStatus) *conditionView {
	for i := range conditions {
		if conditions[i].Type == conditionType && conditions[i].Status == string(status) {
			return &conditions[i]
		}
	}
	return nil
}

func (d deploymentView) problem(of component) *problem {
	if findCondition(d.Status.Conditions, string(appsv1.DeploymentReplicaFailure), metav1.ConditionTrue) == nil {
		return nil
	}
	return &problem{reason: ReasonPodsRefused, detail: "the cluster does not let the pods of " + of.String() + " be created"}
}

func (p podView) component() component { return components[p.Metadata.Labels.App] }

// counts says whether a pod is one of the klusterlet and has not been given up: an evicted one has a successor.
func (p podView) counts() bool {
	return p.component() != 0 && p.Metadata.DeletionTimestamp == nil &&
		p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded
}

func (p podView) containers() []containerView {
	return slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses)
}

// pullReasons are those that a kubelet gives for a container that waits for its image (kubernetes, pkg/kubelet/images and
// cri-api, pkg/errors).
var pullReasons = sets.New("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "RegistryUnavailable",
	"ImageInspectError", "SignatureValidationFailed")

func (p podView) pullProblem() *problem {
	for _, container := range p.containers() {
		if waiting := container.State.Waiting; waiting != nil && pullReasons.Has(waiting.Reason) {
			detail := "an image of " + p.component().String() + " cannot be pulled"
			if printableImage(container.Image) {
				detail += ": " + container.Image
			}
			return &problem{reason: ReasonImagePullFailed, detail: detail}
		}
	}
	return nil
}

// imagePattern is what of an image's reference may reach a condition: it was read from the cluster. It follows the grammar
// of github.com/distribution/reference.
var imagePattern = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9.-]*(:[0-9]{1,5})?(/[a-z0-9]+(([._]|__|-+)[a-z0-9]+)*)*` +
	`(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?(@sha256:[a-f0-9]{64})?$`)

func printableImage(image string) bool { return len(image) <= 255 && imagePattern.MatchString(image) }

func (p podView) scheduleProblem() *problem {
	scheduled := findCondition(p.Status.Conditions, string(corev1.PodScheduled), metav1.ConditionFalse)
	if scheduled == nil || scheduled.Reason != corev1.PodReasonUnschedulable {
		return nil
	}
	return &problem{reason: ReasonPodsUnschedulable, detail: "a pod of " + p.component().String() + " finds no node"}
}

// crashProblem gives one text for all states that a container that fails goes through.
func (p podView) crashProblem() *problem {
	for _, container := range p.containers() {
		reason := ""
		if container.State.Waiting != nil {
			reason = container.State.Waiting.Reason
		}
		detail := "a container of " + p.component().String()
		switch {
		case reason == "CreateContainerConfigError", reason == "CreateContainerError":
			detail += " cannot be created"
		case reason == "CrashLoopBackOff", reason == "RunContainerError",
			container.State.Terminated != nil && container.RestartCount >= manyRestarts:
			detail += " ends again and again"
			if container.outOfMemory() {
				detail += ": it needs more memory than it may have"
			}
		default:
			continue
		}
		return &problem{reason: ReasonPodsCrashing, detail: detail}
	}
	return nil
}

func (c containerView) outOfMemory() bool {
	for _, state := range []corev1.ContainerState{c.State, c.LastState} {
		if state.Terminated != nil {
			return state.Terminated.Reason == oomKilled
		}
	}
	return false
}

// applyReasons are those that the operator gives for what it cannot apply.
var applyReasons = sets.New(
	operatorv1.ReasonKlusterletApplyFailed,
	operatorv1.ReasonKlusterletCRDApplyFailed,
	operatorv1.ReasonManagedClusterResourceApplyFailed,
	operatorv1.ReasonManagementClusterResourceApplyFailed,
	operatorv1.ReasonKlusterletPrepareFailed,
)

func (k *klusterletView) applyProblem() *problem {
	failed := cmp.Or(
		findCondition(k.Status.Conditions, operatorv1.ConditionReadyToApply, metav1.ConditionFalse),
		findCondition(k.Status.Conditions, operatorv1.ConditionKlusterletApplied, metav1.ConditionFalse),
	)
	if failed == nil {
		return nil
	}
	detail := componentOperator.String() + " cannot apply the agent"
	if applyReasons.Has(failed.Reason) {
		detail += ": " + failed.Reason
	}
	return &problem{reason: ReasonKlusterletFailed, detail: detail}
}

// hubProblem reads what the operator found when it asked the hub with the klusterlet's two credentials. It joins the two
// reasons by a comma and the two messages by a new line (ocm, klusterlet_ssar_controller.go). A credential of the hub
// that is not there yet or not allowed yet is no problem on the cluster: the request for it, or the ManagedCluster, waits
// on the hub.
func (k *klusterletView) hubProblem() *problem {
	degraded := findCondition(k.Status.Conditions, operatorv1.ConditionHubConnectionDegraded, metav1.ConditionTrue)
	if degraded == nil {
		return nil
	}
	bootstrapReason, hubReason, _ := strings.Cut(degraded.Reason, ",")
	bootstrapMessage, hubMessage, _ := strings.Cut(degraded.Message, "\n")
	switch bootstrapReason {
	case "BootstrapSecretMissing":
		// An import writes it again, which is the next step of this reason.
		return &problem{reason: ReasonBootstrapRejected, detail: componentOperator.String() + " cannot read the bootstrap Secret"}
	case "BootstrapSecretUnauthorized":
		return &problem{reason: ReasonBootstrapRejected, detail: "the bootstrap token may not register a cluster"}
	case "BootstrapSecretError":
		if strings.HasPrefix(bootstrapMessage, "Failed to build ") {
			return &problem{reason: ReasonBootstrapRejected, detail: "the klusterlet's bootstrap Secret holds no usable kubeconfig"}
		}
		return hubErrorProblem(bootstrapMessage,
			&problem{reason: ReasonBootstrapRejected, detail: "the hub does not accept the klusterlet's bootstrap token"})
	case "BootstrapSecretFunctional":
		if hubReason != operatorv1.ReasonHubKubeConfigError {
			return nil
		}
		if strings.HasPrefix(hubMessage, "Failed to build ") {
			return &problem{reason: ReasonKlusterletFailed, detail: "the klusterlet's Secret " + hubSecrets[0] + " holds no usable kubeconfig"}
		}
		return hubErrorProblem(hubMessage,
			&problem{reason: ReasonKlusterletFailed, detail: "the hub does not accept the certificate in the klusterlet's Secret " + hubSecrets[0]})
	}
	return nil
}

// hubErrors classify an error of client-go by parts of its text, the first that matches. Those without a detail are of a
// hub that answers and refuses the credential. An error of name resolution may be a timeout too.
var hubErrors = []struct {
	detail string
	parts  []string
}{
	{"", []string{"Unauthorized", "asked for the client to provide credentials", " is forbidden: "}},
	{"the cluster does not trust the hub's certificate", []string{"x509"}},
	{"the name of the hub does not resolve on the cluster", []string{"no such host", "dial tcp: lookup "}},
	{"the hub refuses the connection", []string{"connection refused"}},
	{"the hub does not answer the cluster", []string{"i/o timeout", "context deadline exceeded", "no route to host",
		"network is unreachable", "Client.Timeout", "TLS handshake timeout"}},
}

// hubErrorProblem classifies the error of a request to the hub without quoting it.
func hubErrorProblem(message string, refused *problem) *problem {
	for _, known := range hubErrors {
		if !slices.ContainsFunc(known.parts, func(part string) bool { return strings.Contains(message, part) }) {
			continue
		}
		if known.detail == "" {
			return refused
		}
		return &problem{reason: ReasonHubUnreachable, detail: known.detail}
	}
	return &problem{reason: ReasonHubUnreachable, detail: "requests of the cluster to the hub fail"}
}

// mayBeOver says whether a problem is one that the klusterlet operator found with the hub, and looks at again only every five minutes
// (ocm, klusterlet_ssar_controller.go): the agent may have reached the hub since.
func (p *problem) mayBeOver() bool {
	return p.reason == ReasonHubUnreachable || p.reason == ReasonBootstrapRejected
}

// newestCSR returns the newest request of a klusterlet for its client certificate, or nil if there is none. Addons of the cluster have
// requests with the same label.
func newestCSR(ctx context.Context, kubeClient kubernetes.Interface, clusterName string) (*certificatesv1.CertificateSigningRequest, error) {
	requests, err := kubeClient.CertificatesV1().CertificateSigningRequests().List(ctx, metav1.ListOptions{
		LabelSelector: clusterv1.ClusterNameLabelKey + "=" + clusterName + ",!" + addonv1alpha1.AddonLabelKey,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the CertificateSigningRequests of cluster %s: %w", clusterName, err)
	}
	if len(requests.Items) == 0 {
		return nil, nil
	}
	newest := slices.MaxFunc(requests.Items, func(a, b certificatesv1.CertificateSigningRequest) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return &newest, nil
}

// csrProblem says whether a request, or nil, waits on the hub. The text leaves its name out: the klusterlet makes a new one from time
// to time.
func csrProblem(request *certificatesv1.CertificateSigningRequest) *problem {
	if request == nil {
		return nil
	}
	approved := false
	for _, condition := range request.Status.Conditions {
		switch condition.Type {
		case certificatesv1.CertificateDenied:
			return &problem{reason: ReasonCSRDenied, detail: "its request for a client certificate is denied"}
		case certificatesv1.CertificateApproved:
			approved = true
		}
	}
	if !approved {
		return &problem{reason: ReasonCSRNotApproved, detail: "its request for a client certificate is not approved"}
	}
	return nil
}
