// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"encoding/json"
	"errors"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"
)

const (
	operatorApp     = "klusterlet"
	registrationApp = "klusterlet-registration-agent"
	testImage       = "quay.io/open-cluster-management/registration:v1.2.1"
)

func podOf(app string, edits ...func(*podView)) podView {
	var pod podView
	pod.Metadata.Name = app + "-7d4f9-x1"
	pod.Metadata.Labels.App = app
	pod.Status.Phase = corev1.PodRunning
	for _, edit := range edits {
		edit(&pod)
	}
	return pod
}

func withContainer(edits ...func(*containerView)) func(*podView) {
	return func(pod *podView) {
		container := containerView{Image: testImage}
		for _, edit := range edits {
			edit(&container)
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, container)
	}
}

func waiting(reason string) func(*containerView) {
	return func(c *containerView) {
		c.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: testToken}
	}
}

func terminated(restarts int32) func(*containerView) {
	return func(c *containerView) {
		c.RestartCount, c.State.Terminated = restarts, &corev1.ContainerStateTerminated{Reason: "Error", Message: testToken}
	}
}

func lastOutOfMemory(c *containerView) {
	c.LastState.Terminated = &corev1.ContainerStateTerminated{Reason: oomKilled}
}

func unschedulable(pod *podView) {
	pod.Status.Phase = corev1.PodPending
	pod.Status.Conditions = few[conditionView]{{Type: "PodScheduled", Status: "False", Reason: "Unschedulable", Message: testToken}}
}

// refusedDeployment is a Deployment whose pods are not created.
func refusedDeployment() deploymentView {
	var deployment deploymentView
	deployment.Status.Conditions = few[conditionView]{{Type: "ReplicaFailure", Status: "True", Reason: testToken, Message: testToken}}
	return deployment
}

func klusterletWith(conditions ...conditionView) *klusterletView {
	klusterlet := &klusterletView{}
	klusterlet.Status.Conditions = conditions
	return klusterlet
}

func textOf(p *problem) string {
	if p == nil {
		return ""
	}
	return string(p.reason) + ": " + p.detail
}

func TestKlusterletProblems(t *testing.T) {
	imageOf := func(image string) func(*containerView) { return func(c *containerView) { c.Image = image } }
	degraded := func(reason, message string) klusterletState {
		return klusterletState{klusterlet: klusterletWith(conditionView{
			Type: "HubConnectionDegraded", Status: "True", Reason: reason, Message: message,
		})}
	}
	bootstrapError := func(err string) klusterletState {
		return degraded("BootstrapSecretError,HubKubeConfigSecretMissing", `Failed to create &SelfSubjectAccessReview{} with bootstrap secret "`+
			sentinel+`" "bootstrap-hub-kubeconfig": Post "https://`+sentinel+`:6443/apis": `+err+
			"\nFailed to get hub kubeconfig secret: secrets \"hub-kubeconfig-secret\" not found")
	}
	hubError := func(err string) klusterletState {
		return degraded("BootstrapSecretFunctional,HubKubeConfigError", "Bootstrap secret a/b to apiserver https://"+sentinel+
			" is configured correctly\nFailed to create x with hub config secret: "+err)
	}
	condition := func(conditionType, status, reason string) klusterletState {
		return klusterletState{klusterlet: klusterletWith(conditionView{Type: conditionType, Status: status, Reason: reason, Message: testToken})}
	}
	pods := func(pods ...podView) klusterletState {
		return klusterletState{klusterlet: klusterletWith(), pods: pods}
	}
	container := func(app string, edits ...func(*containerView)) klusterletState {
		return pods(podOf(app, withContainer(edits...)))
	}
	deleted := &metav1.Time{Time: time.Unix(1, 0)}

	const (
		pullOperator = "ImagePullFailed: an image of the klusterlet operator cannot be pulled"
		pullAgent    = "ImagePullFailed: an image of the klusterlet agent cannot be pulled"
		endsAgent    = "PodsCrashing: a container of the klusterlet agent ends again and again"
		noOperator   = "KlusterletMissing: the cluster has no Deployment open-cluster-management-agent/klusterlet any more"
		notAccepted  = "BootstrapRejected: the hub does not accept the klusterlet's bootstrap token"
		noAnswer     = "HubUnreachable: the hub does not answer the cluster"
		noName       = "HubUnreachable: the name of the hub does not resolve on the cluster"
		applyFailed  = "KlusterletFailed: the klusterlet operator cannot apply the agent"
	)
	cases := []struct {
		name  string
		state klusterletState
		want  string // none: nothing is known to be wrong
	}{
		{name: "nothing wrong", state: container(registrationApp)},
		{name: "no Klusterlet", want: "KlusterletMissing: the cluster has no Klusterlet klusterlet any more"},
		{
			name: "Klusterlet being deleted",
			state: klusterletState{klusterlet: func() *klusterletView {
				k := klusterletWith()
				k.Metadata.DeletionTimestamp = deleted
				return k
			}()},
			want: "KlusterletMissing: the Klusterlet klusterlet is being deleted",
		},

		{name: "ErrImagePull", state: container(operatorApp, waiting("ErrImagePull")), want: pullOperator + ": " + testImage},
		{name: "ImagePullBackOff", state: container(registrationApp, waiting("ImagePullBackOff")), want: pullAgent + ": " + testImage},
		{name: "ErrImageNeverPull", state: container("klusterlet-agent", waiting("ErrImageNeverPull")), want: pullAgent + ": " + testImage},
		{name: "RegistryUnavailable", state: container("klusterlet-work-agent", waiting("RegistryUnavailable")), want: pullAgent + ": " + testImage},
		{name: "ImageInspectError", state: container(operatorApp, waiting("ImageInspectError")), want: pullOperator + ": " + testImage},
		{name: "SignatureValidationFailed", state: container(operatorApp, waiting("SignatureValidationFailed")), want: pullOperator + ": " + testImage},
		{name: "InvalidImageName", state: container(operatorApp, waiting("InvalidImageName"), imageOf("Q:"+sentinel+":x")), want: pullOperator},
		{name: "hostile image", state: container(operatorApp, waiting("ErrImagePull"), imageOf(sentinel+"; do this instead")), want: pullOperator},
		{name: "hostile image of lines", state: container(operatorApp, waiting("ErrImagePull"), imageOf(testImage+"\n"+sentinel)), want: pullOperator},
		{
			name: "image in an init container",
			state: pods(podOf(registrationApp, func(pod *podView) {
				pod.Status.InitContainerStatuses = []containerView{{Image: testImage, State: corev1.ContainerState{
					Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull"},
				}}}
			})),
			want: pullAgent + ": " + testImage,
		},
		{name: "starting", state: container(operatorApp, waiting("ContainerCreating"))},
		{name: "unknown wait", state: container(operatorApp, waiting(testToken))},
		{name: "pod of something else", state: container("klusterlet-"+sentinel, waiting("ErrImagePull"))},
		{
			name: "pods that have been given up",
			state: pods(
				podOf(operatorApp, withContainer(waiting("ErrImagePull")), func(pod *podView) { pod.Metadata.DeletionTimestamp = deleted }),
				podOf(operatorApp, withContainer(terminated(9)), func(pod *podView) { pod.Status.Phase = corev1.PodFailed }),
				podOf(operatorApp, withContainer(terminated(9)), func(pod *podView) { pod.Status.Phase = corev1.PodSucceeded }),
			),
		},

		{name: "unschedulable", state: pods(podOf(operatorApp, unschedulable)), want: "PodsUnschedulable: a pod of the klusterlet operator finds no node"},
		{
			name: "gated",
			state: pods(podOf(operatorApp, unschedulable, func(pod *podView) {
				pod.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
			})),
		},
		{
			name:  "operator refused",
			state: klusterletState{klusterlet: klusterletWith(), operator: refusedDeployment(), agent: refusedDeployment()},
			want:  "PodsRefused: the cluster does not let the pods of the klusterlet operator be created",
		},
		{
			name:  "agent refused",
			state: klusterletState{klusterlet: klusterletWith(), agent: refusedDeployment()},
			want:  "PodsRefused: the cluster does not let the pods of the klusterlet agent be created",
		},

		{name: "CrashLoopBackOff", state: container(registrationApp, waiting("CrashLoopBackOff")), want: endsAgent},
		{name: "RunContainerError", state: container(registrationApp, waiting("RunContainerError")), want: endsAgent},
		{name: "ended often", state: container(registrationApp, terminated(3)), want: endsAgent},
		{name: "ended", state: container(registrationApp, terminated(2))},
		{
			name:  "out of memory, waiting",
			state: container(registrationApp, waiting("CrashLoopBackOff"), lastOutOfMemory),
			want:  endsAgent + ": it needs more memory than it may have",
		},
		{
			name: "out of memory, ended",
			state: container(registrationApp, terminated(4), func(c *containerView) {
				c.State.Terminated.Reason = oomKilled
			}),
			want: endsAgent + ": it needs more memory than it may have",
		},
		{name: "out of memory long ago", state: container(registrationApp, terminated(4), lastOutOfMemory), want: endsAgent},
		{
			name:  "CreateContainerConfigError",
			state: container(operatorApp, waiting("CreateContainerConfigError")),
			want:  "PodsCrashing: a container of the klusterlet operator cannot be created",
		},
		{
			name:  "CreateContainerError",
			state: container(registrationApp, waiting("CreateContainerError")),
			want:  "PodsCrashing: a container of the klusterlet agent cannot be created",
		},
		{name: "no operator", state: klusterletState{klusterlet: klusterletWith(), operatorMissing: true}, want: noOperator},

		{name: "not applied", state: condition("Applied", "False", "CRDApplyFailed"), want: applyFailed + ": CRDApplyFailed"},
		{name: "not ready to apply", state: condition("ReadyToApply", "False", "KlusterletPrepareFailed"), want: applyFailed + ": KlusterletPrepareFailed"},
		{name: "not applied, hostile reason", state: condition("Applied", "False", testToken), want: applyFailed},
		{name: "applied", state: condition("Applied", "True", "KlusterletApplied")},
		{name: "applied is unknown", state: condition("Applied", "Unknown", testToken)},

		{name: "hub connection functional", state: condition("HubConnectionDegraded", "False", "HubConnectionFunctional")},
		{name: "hub connection, hostile reason", state: condition("HubConnectionDegraded", "True", testToken)},
		{
			name:  "no bootstrap Secret",
			state: degraded("BootstrapSecretMissing,HubKubeConfigSecretMissing", testToken),
			want:  "BootstrapRejected: the klusterlet operator cannot read the bootstrap Secret",
		},
		{
			name:  "bootstrap token without permission",
			state: degraded("BootstrapSecretUnauthorized,HubKubeConfigSecretMissing", testToken),
			want:  "BootstrapRejected: the bootstrap token may not register a cluster",
		},
		{
			name:  "bootstrap Secret unusable",
			state: degraded("BootstrapSecretError,HubKubeConfigSecretMissing", "Failed to build bootstrap kube client with bootstrap secret: "+testToken),
			want:  "BootstrapRejected: the klusterlet's bootstrap Secret holds no usable kubeconfig",
		},
		{name: "bootstrap token expired", state: bootstrapError("Unauthorized"), want: notAccepted},
		{name: "bootstrap token refused by a proxy", state: bootstrapError("the server has asked for the client to provide credentials"), want: notAccepted},
		{name: "no bootstrap token", state: bootstrapError(`selfsubjectaccessreviews is forbidden: User "system:anonymous" cannot create`), want: notAccepted},
		{
			name:  "hub not trusted",
			state: bootstrapError("tls: failed to verify certificate: x509: certificate signed by unknown authority"),
			want:  "HubUnreachable: the cluster does not trust the hub's certificate",
		},
		{name: "hub not resolved", state: bootstrapError("dial tcp: lookup " + sentinel + " on 10.96.0.10:53: no such host"), want: noName},
		{name: "hub not resolved in time", state: bootstrapError("dial tcp: lookup " + sentinel + ": read udp: i/o timeout"), want: noName},
		{name: "hub refuses", state: bootstrapError("dial tcp 10.0.0.1:6443: connect: connection refused"), want: "HubUnreachable: the hub refuses the connection"},
		{name: "i/o timeout", state: bootstrapError("dial tcp 10.0.0.1:6443: i/o timeout"), want: noAnswer},
		{name: "deadline", state: bootstrapError("context deadline exceeded"), want: noAnswer},
		{name: "no route", state: bootstrapError("dial tcp 10.0.0.1:6443: connect: no route to host"), want: noAnswer},
		{name: "no network", state: bootstrapError("dial tcp 10.0.0.1:6443: connect: network is unreachable"), want: noAnswer},
		{name: "client timeout", state: bootstrapError("net/http: request canceled (Client.Timeout exceeded while awaiting headers)"), want: noAnswer},
		{name: "handshake timeout", state: bootstrapError("net/http: TLS handshake timeout"), want: noAnswer},
		{name: "other error of the hub", state: bootstrapError("EOF"), want: "HubUnreachable: requests of the cluster to the hub fail"},
		{name: "CSR is waited for", state: degraded("BootstrapSecretFunctional,HubKubeConfigSecretMissing", "Unauthorized x509")},
		{name: "kubeconfig is waited for", state: degraded("BootstrapSecretFunctional,HubKubeConfigMissing", "Unauthorized x509")},
		{name: "acceptance is waited for", state: degraded("BootstrapSecretFunctional,HubKubeConfigUnauthorized", "Unauthorized x509")},
		{name: "hub refuses, joined", state: hubError("connection refused"), want: "HubUnreachable: the hub refuses the connection"},
		{
			name:  "client certificate not accepted",
			state: hubError("Unauthorized"),
			want:  "KlusterletFailed: the hub does not accept the certificate in the klusterlet's Secret hub-kubeconfig-secret",
		},
		{
			name:  "hub Secret unusable",
			state: degraded("BootstrapSecretFunctional,HubKubeConfigError", "fine\nFailed to build hub kube client with hub config secret: "+testToken),
			want:  "KlusterletFailed: the klusterlet's Secret hub-kubeconfig-secret holds no usable kubeconfig",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := c.state.problem()
			if got := textOf(p); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if p == nil {
				return
			}
			expectNoSecret(t, "problem", p.Error())
			if again := c.state.problem(); again.Error() != p.Error() {
				t.Errorf("the second look says %s, the first %s", again, p)
			}
		})
	}
}

// TestKlusterletProblemOrder takes away what is found, one by one.
func TestKlusterletProblemOrder(t *testing.T) {
	state := klusterletState{
		klusterlet: klusterletWith(
			conditionView{Type: "HubConnectionDegraded", Status: "True", Reason: "BootstrapSecretError,HubKubeConfigSecretMissing", Message: "EOF"},
			conditionView{Type: "Applied", Status: "False"},
			conditionView{Type: "ReadyToApply", Status: "False"},
		),
		operatorMissing: true,
		operator:        refusedDeployment(),
		agent:           refusedDeployment(),
		pods: []podView{
			podOf(registrationApp, withContainer(waiting("CrashLoopBackOff"))),
			podOf(registrationApp, unschedulable),
			podOf(registrationApp, withContainer(waiting("ErrImagePull"))),
			podOf(operatorApp, withContainer(waiting("ErrImagePull"))),
		},
	}
	dropPod := func() { state.pods = state.pods[:len(state.pods)-1] }
	var got []Reason
	for _, mend := range []func(){
		dropPod, dropPod, dropPod,
		func() { state.operator = deploymentView{} },
		func() { state.agent = deploymentView{} },
		dropPod,
		func() { state.operatorMissing = false },
		func() { state.klusterlet.Status.Conditions = state.klusterlet.Status.Conditions[:2] },
		func() { state.klusterlet.Status.Conditions = state.klusterlet.Status.Conditions[:1] },
		func() { state.klusterlet.Status.Conditions = nil },
	} {
		got = append(got, state.problem().reason)
		mend()
	}
	if p := state.problem(); p != nil {
		t.Errorf("all is mended, and it says %s", p)
	}
	want := []Reason{
		ReasonImagePullFailed, ReasonImagePullFailed, ReasonPodsUnschedulable, ReasonPodsRefused, ReasonPodsRefused, ReasonPodsCrashing,
		ReasonKlusterletMissing, ReasonKlusterletFailed, ReasonKlusterletFailed, ReasonHubUnreachable,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestKlusterletProblemIgnoresTheOrderOfPods(t *testing.T) {
	image := func(tag string) func(*containerView) {
		return func(c *containerView) { c.Image = "example.com/x:" + tag }
	}
	state := klusterletState{klusterlet: klusterletWith(), pods: []podView{
		podOf("klusterlet-agent", withContainer(waiting("ErrImagePull"), image("agent"))),
		podOf(operatorApp, withContainer(waiting("ErrImagePull"), image("b")), func(pod *podView) { pod.Metadata.Name = "z2" }),
		podOf(operatorApp, withContainer(waiting("ErrImagePull"), image("a")), func(pod *podView) { pod.Metadata.Name = "z1" }),
	}}
	const want = "ImagePullFailed: an image of the klusterlet operator cannot be pulled: example.com/x:a"
	for range len(state.pods) {
		before := slices.Clone(state.pods)
		if got := textOf(state.problem()); got != want {
			t.Errorf("got %s", got)
		}
		if diff := cmp.Diff(before, state.pods); diff != "" {
			t.Errorf("the input has changed: %s", diff)
		}
		state.pods = append(state.pods[1:], state.pods[0])
	}
}

func TestPrintableImage(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("0a", 32)
	for _, image := range []string{
		testImage, "registration", "registration:v1", "localhost:5000/a/b_c", "10.0.0.1:5000/x@sha256:" + strings.Repeat("f", 64),
		"Registry.example.com/a/b-c--d.e:V1.2_3" + digest,
	} {
		if !printableImage(image) {
			t.Errorf("%q is left out", image)
		}
	}
	for _, image := range []string{
		"", " ", "a b", "a\nb", "a\n", "https://example.com/a", "example.com/A", "a//b", "a/", "/a", "a:", "a@sha256:0", "a@md5:00", "a;b", "a$(b)",
		"a:" + strings.Repeat("t", 129), strings.Repeat("a/", 127) + "aa", "é", "a\x00", "a/<b>",
	} {
		if printableImage(image) {
			t.Errorf("%q is printed", image)
		}
	}
}

func TestDecodedListsAreBounded(t *testing.T) {
	var list podListView
	body := `{"kind":"PodList","items":[` + strings.Repeat("{},", 1<<20) + `{}]}`
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if len(list.Items) != maxItems {
		t.Errorf("got %d items", len(list.Items))
	}
	// The body once, and its copies.
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > uint64(8*len(body)) {
		t.Errorf("an answer of %d bytes takes %d", len(body), allocated)
	}
	for body, want := range map[string]bool{`null`: true, `[]`: true, `{}`: false, `"x"`: false, `1`: false, `[1]`: false} {
		var list few[podView]
		if err := json.Unmarshal([]byte(body), &list); (err == nil) != want || len(list) != 0 {
			t.Errorf("%s: got %v, %v", body, list, err)
		}
	}
}

const (
	diagnosedKlusterlet = "/apis/operator.open-cluster-management.io/v1/klusterlets/klusterlet"
	diagnosedOperator   = "/apis/apps/v1/namespaces/open-cluster-management-agent/deployments/klusterlet"
	diagnosedAgent      = "/apis/apps/v1/namespaces/open-cluster-management-agent/deployments/klusterlet-registration-agent"
	diagnosedPods       = "/api/v1/namespaces/open-cluster-management-agent/pods"
)

// onPaths answers each path in its way, and all others as an API server that has nothing there.
func onPaths(handlers map[string]http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if handler, found := handlers[r.URL.Path]; found {
			handler(w, r)
			return
		}
		answer(http.StatusNotFound, notFoundJSON)(w, r)
	}
}

func jsonAnswer(t *testing.T, object any) http.HandlerFunc {
	t.Helper()
	body, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return answer(http.StatusOK, string(body))
}

// onDeployed are the answers of a cluster with a klusterlet that has all its parts.
func onDeployed(t *testing.T, edits ...func(map[string]http.HandlerFunc)) map[string]http.HandlerFunc {
	t.Helper()
	deployment := appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}}
	handlers := map[string]http.HandlerFunc{
		diagnosedKlusterlet: jsonAnswer(t, klusterletObject()),
		diagnosedOperator:   jsonAnswer(t, deployment),
		diagnosedAgent:      jsonAnswer(t, deployment),
		diagnosedPods:       jsonAnswer(t, podList()),
	}
	for _, edit := range edits {
		edit(handlers)
	}
	return handlers
}

func klusterletObject(edits ...func(*operatorv1.Klusterlet)) *operatorv1.Klusterlet {
	klusterlet := &operatorv1.Klusterlet{
		TypeMeta:   metav1.TypeMeta{APIVersion: operatorv1.GroupVersion.String(), Kind: "Klusterlet"},
		ObjectMeta: metav1.ObjectMeta{Name: klusterletName},
	}
	for _, edit := range edits {
		edit(klusterlet)
	}
	return klusterlet
}

func podList(pods ...corev1.Pod) corev1.PodList {
	return corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: pods}
}

// pendingPod is a pod whose container waits.
func pendingPod(name, app, reason string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": app}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			Name: sentinel, Image: testImage,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: testToken}},
		}}},
	}
}

func TestDiagnose(t *testing.T) {
	set := func(path string, handler http.HandlerFunc) func(map[string]http.HandlerFunc) {
		return func(handlers map[string]http.HandlerFunc) { handlers[path] = handler }
	}
	forbidden := answer(http.StatusForbidden, testToken)
	unserved := func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) }
	degraded := jsonAnswer(t, klusterletObject(func(k *operatorv1.Klusterlet) {
		k.Status.Conditions = []metav1.Condition{{
			Type: operatorv1.ConditionHubConnectionDegraded, Status: metav1.ConditionTrue,
			Reason:  "BootstrapSecretError,HubKubeConfigSecretMissing",
			Message: "Post \"https://" + sentinel + "\": dial tcp 10.0.0.1:6443: connect: connection refused\nx",
		}}
	}))
	refusing := jsonAnswer(t, appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		Status: appsv1.DeploymentStatus{Conditions: []appsv1.DeploymentCondition{{
			Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Reason: "FailedCreate", Message: testToken,
		}}},
	})
	pulling := jsonAnswer(t, podList(pendingPod("x", registrationApp, "ErrImagePull")))
	in := func(namespace string, mode operatorv1.InstallMode) http.HandlerFunc {
		return jsonAnswer(t, klusterletObject(func(k *operatorv1.Klusterlet) {
			k.Spec.Namespace, k.Spec.DeployOption.Mode = namespace, mode
		}))
	}

	const (
		refusedHub    = "HubUnreachable: the hub refuses the connection"
		refusedAgent  = "PodsRefused: the cluster does not let the pods of the klusterlet agent be created"
		pullAgent     = "ImagePullFailed: an image of the klusterlet agent cannot be pulled: " + testImage
		noKlusterlet  = "KlusterletMissing: the cluster has no Klusterlet klusterlet any more"
		notKubernetes = "NotKubernetes: the server does not answer like a Kubernetes API server"
	)
	cases := []struct {
		name    string
		cluster http.HandlerFunc
		want    string // none: nothing is known to be wrong
		wantErr string
	}{
		{name: "nothing wrong", cluster: onPaths(onDeployed(t))},
		{name: "no Klusterlet", cluster: onPaths(nil), want: noKlusterlet},
		{name: "CRD unserved", cluster: onPaths(onDeployed(t, set(diagnosedKlusterlet, unserved))), want: noKlusterlet},
		{
			name:    "no operator",
			cluster: onPaths(onDeployed(t, func(handlers map[string]http.HandlerFunc) { delete(handlers, diagnosedOperator) })),
			want:    "KlusterletMissing: the cluster has no Deployment open-cluster-management-agent/klusterlet any more",
		},
		{name: "no agent yet", cluster: onPaths(onDeployed(t, func(handlers map[string]http.HandlerFunc) { delete(handlers, diagnosedAgent) }))},
		{name: "hub connection", cluster: onPaths(onDeployed(t, set(diagnosedKlusterlet, degraded))), want: refusedHub},
		{name: "agent refused", cluster: onPaths(onDeployed(t, set(diagnosedAgent, refusing))), want: refusedAgent},
		{name: "image", cluster: onPaths(onDeployed(t, set(diagnosedPods, pulling))), want: pullAgent},
		{
			name: "in the namespace of the Klusterlet",
			cluster: onPaths(onDeployed(t, set(diagnosedKlusterlet, in("agents", operatorv1.InstallModeDefault)),
				set("/api/v1/namespaces/agents/pods", pulling))),
			want: pullAgent,
		},
		{
			name: "singleton",
			cluster: onPaths(onDeployed(t, set(diagnosedKlusterlet, in("agents", operatorv1.InstallModeSingleton)),
				set("/apis/apps/v1/namespaces/agents/deployments/klusterlet-agent", refusing))),
			want: refusedAgent,
		},
		{
			name:    "no namespace name",
			cluster: onPaths(onDeployed(t, set(diagnosedKlusterlet, in("../"+sentinel, "")), set(diagnosedPods, pulling))),
			want:    pullAgent,
		},
		{
			name:    "pods may not be listed",
			cluster: onPaths(onDeployed(t, set(diagnosedKlusterlet, degraded), set(diagnosedPods, forbidden))),
			want:    refusedHub,
		},
		{
			name: "only the Klusterlet may be read",
			cluster: onPaths(map[string]http.HandlerFunc{
				diagnosedKlusterlet: degraded, diagnosedOperator: forbidden, diagnosedAgent: forbidden, diagnosedPods: forbidden,
			}),
			want: refusedHub,
		},
		{name: "nothing may be read", cluster: forbidden, wantErr: "Forbidden: the credential may not do all that an import does"},
		{name: "credential not accepted", cluster: answer(401, testToken), wantErr: "Unauthorized: the cluster's API server does not accept the credential"},
		{
			name:    "pods fail",
			cluster: onPaths(onDeployed(t, set(diagnosedPods, answer(500, testToken)))),
			wantErr: "ServerFailed: the cluster's API server answers with an error",
		},
		{
			name:    "Deployment fails",
			cluster: onPaths(onDeployed(t, set(diagnosedAgent, answer(503, testToken)))),
			wantErr: "ServerFailed: the cluster's API server answers with an error",
		},
		{name: "pods of another kind", cluster: onPaths(onDeployed(t, set(diagnosedPods, jsonAnswer(t, klusterletObject())))), wantErr: notKubernetes},
		{
			name:    "pods of another shape",
			cluster: onPaths(onDeployed(t, set(diagnosedPods, answer(200, `{"kind":"PodList","items":{"x":"`+testToken+`"}}`)))),
			wantErr: notKubernetes,
		},
		{
			name:    "pod of another shape",
			cluster: onPaths(onDeployed(t, set(diagnosedPods, answer(200, `{"kind":"PodList","items":[{"status":"`+testToken+`"}]}`)))),
			wantErr: notKubernetes,
		},
		{
			name:    "Klusterlet of another shape",
			cluster: onPaths(onDeployed(t, set(diagnosedKlusterlet, answer(200, `{"kind":"Klusterlet","status":{"conditions":["`+testToken+`"]}}`)))),
			wantErr: notKubernetes,
		},
		{
			name:    "time of another shape",
			cluster: onPaths(onDeployed(t, set(diagnosedKlusterlet, answer(200, `{"kind":"Klusterlet","metadata":{"deletionTimestamp":"`+testToken+`"}}`)))),
			wantErr: notKubernetes,
		},
		{name: "Deployment is text", cluster: onPaths(onDeployed(t, set(diagnosedOperator, answer(200, testToken)))), wantErr: notKubernetes},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, config := startSpoke(t, c.cluster)
			ctx, _ := testContext(t)
			conn := mustConnect(t, config, patient())
			for range 2 {
				p, err := conn.diagnose(ctx)
				if got := textOf(p); got != c.want {
					t.Errorf("got  %s\nwant %s", got, c.want)
				}
				var failed *problem
				switch {
				case err == nil && c.wantErr != "", err != nil && (!errors.As(err, &failed) || textOf(failed) != c.wantErr):
					t.Errorf("got error %v, want %s", err, c.wantErr)
				case err != nil:
					expectNoSecret(t, "error", err.Error())
				}
			}
			s.lock.Lock()
			defer s.lock.Unlock()
			for _, r := range s.requests {
				if r.Method != http.MethodGet {
					t.Errorf("it sends %s %s", r.Method, r.URL.Path)
				}
				if strings.Contains(r.URL.Path, sentinel) {
					t.Errorf("it asks for %s", r.URL.Path)
				}
				if query := r.URL.Query(); strings.HasSuffix(r.URL.Path, "/pods") && (query.Get("limit") != "50" || query.Get("labelSelector") !=
					"app in (klusterlet,klusterlet-agent,klusterlet-registration-agent,klusterlet-work-agent)") {
					t.Errorf("it lists pods with %s", r.URL.RawQuery)
				}
			}
		})
	}
}

// TestDiagnoseQuotesNothing has a text of the cluster in every field that no check compares.
func TestDiagnoseQuotesNothing(t *testing.T) {
	hostile := func(set func(map[string]any)) func(any) http.HandlerFunc {
		return func(o any) http.HandlerFunc {
			fields, err := kuberuntime.DefaultUnstructuredConverter.ToUnstructured(o)
			if err != nil {
				t.Fatal(err)
			}
			set(fields)
			return jsonAnswer(t, fields)
		}
	}
	status := metav1.ConditionFalse
	klusterlet := hostile(func(map[string]any) {})(klusterletObject(func(k *operatorv1.Klusterlet) {
		k.Name, k.Spec.Namespace, k.Spec.ClusterName = testToken, testToken+"/", testToken
		k.Labels, k.Annotations = map[string]string{testToken: testToken}, map[string]string{testToken: testToken}
		k.Spec.DeployOption.Mode = testToken
		k.Status.Conditions = []metav1.Condition{
			{Type: "Applied", Status: status, Reason: testToken, Message: testToken},
			{Type: "HubConnectionDegraded", Status: metav1.ConditionTrue, Reason: "BootstrapSecretError," + testToken, Message: testToken},
		}
	}))
	pod := func(state corev1.ContainerState, conditions ...corev1.PodCondition) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: testToken, Namespace: testToken, Labels: map[string]string{"app": operatorApp, testToken: testToken}},
			Spec:       corev1.PodSpec{NodeName: testToken, Containers: []corev1.Container{{Name: testToken, Image: testToken}}},
			Status: corev1.PodStatus{
				Message: testToken, Reason: testToken, Conditions: conditions,
				ContainerStatuses: []corev1.ContainerStatus{{
					Name: testToken, Image: testToken + " ", ImageID: testToken, RestartCount: 9, State: state,
					LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: testToken, Message: testToken}},
				}},
			},
		}
	}
	cases := map[Reason]corev1.Pod{
		ReasonImagePullFailed: pod(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: testToken}}),
		ReasonPodsUnschedulable: pod(corev1.ContainerState{}, corev1.PodCondition{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: testToken,
		}),
		ReasonPodsCrashing:     pod(corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: testToken, Message: testToken}}),
		ReasonKlusterletFailed: pod(corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: testToken, Message: testToken}}),
	}
	for reason, pod := range cases {
		t.Run(string(reason), func(t *testing.T) {
			_, config := startSpoke(t, onPaths(onDeployed(t, func(handlers map[string]http.HandlerFunc) {
				handlers[diagnosedKlusterlet], handlers[diagnosedPods] = klusterlet, jsonAnswer(t, podList(pod))
			})))
			ctx, logs := testContext(t)
			p, err := mustConnect(t, config, patient()).diagnose(ctx)
			if err != nil || p == nil || p.reason != reason {
				t.Fatalf("got %v, %v", p, err)
			}
			expectNoSecret(t, "problem", p.Error())
			expectNoSecret(t, "log", logs.String())
		})
	}
}

// TestDiagnoseReadsLastTermination has the wire's name of a field that Go calls otherwise.
func TestDiagnoseReadsLastTermination(t *testing.T) {
	pod := pendingPod("x", registrationApp, "CrashLoopBackOff")
	pod.Status.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: oomKilled}
	_, config := startSpoke(t, onPaths(onDeployed(t, func(handlers map[string]http.HandlerFunc) {
		handlers[diagnosedPods] = jsonAnswer(t, podList(pod))
	})))
	ctx, _ := testContext(t)
	p, err := mustConnect(t, config, patient()).diagnose(ctx)
	if err != nil || textOf(p) != "PodsCrashing: a container of the klusterlet agent ends again and again: it needs more memory than it may have" {
		t.Errorf("got %v, %v", p, err)
	}
}

// A request on the hub that is newer than the deployment proves that the agent reached the hub, whatever the operator found before.
func TestRequestOnTheHubIsNewsOfTheKlusterlet(t *testing.T) {
	deployed := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	says := func(reasons, message string) http.HandlerFunc {
		return jsonAnswer(t, klusterletObject(func(k *operatorv1.Klusterlet) {
			k.Status.Conditions = []metav1.Condition{{
				Type: operatorv1.ConditionHubConnectionDegraded, Status: metav1.ConditionTrue, Reason: reasons, Message: message + "\nx",
				// The clock of the cluster is fast, or slow.
				LastTransitionTime: metav1.NewTime(deployed.Add(24 * time.Hour)),
			}}
		}))
	}
	unreachable := says("BootstrapSecretError,HubKubeConfigSecretMissing", "dial tcp 10.0.0.1:6443: connect: connection refused")
	rejected := says("BootstrapSecretUnauthorized,HubKubeConfigSecretMissing", "x")
	uncertified := says("BootstrapSecretFunctional,HubKubeConfigError", "x")
	well := says("BootstrapSecretFunctional,HubKubeConfigSecretMissing", "x")
	const (
		isUnreachable = "HubUnreachable: the hub refuses the connection"
		isRejected    = "BootstrapRejected: the bootstrap token may not register a cluster"
		isNotApproved = "CSRNotApproved: its request for a client certificate is not approved"
		isDenied      = "CSRDenied: its request for a client certificate is denied"
		isNotJoined   = "NotJoined: the klusterlet has not joined the hub"
		isUncertified = "HubUnreachable: requests of the cluster to the hub fail"
	)
	type requests []struct {
		after    time.Duration
		decision certificatesv1.RequestConditionType
	}
	const approved, denied = certificatesv1.CertificateApproved, certificatesv1.CertificateDenied
	cases := []struct {
		name       string
		klusterlet http.HandlerFunc
		requests   requests
		unaccepted bool
		want       string
	}{
		{name: "none", klusterlet: unreachable, want: isUnreachable},
		{name: "of before", klusterlet: unreachable, requests: requests{{-time.Second, ""}}, want: isUnreachable},
		{name: "of before, denied", klusterlet: unreachable, requests: requests{{-time.Hour, denied}}, want: isUnreachable},
		{name: "in the second of the deployment", klusterlet: unreachable, requests: requests{{0, ""}}, want: isNotApproved},
		{name: "pending", klusterlet: unreachable, requests: requests{{time.Minute, ""}}, want: isNotApproved},
		{name: "denied", klusterlet: unreachable, requests: requests{{time.Minute, denied}}, want: isDenied},
		{name: "approved", klusterlet: unreachable, requests: requests{{time.Minute, approved}}, want: isUnreachable},
		{name: "approved, not accepted", klusterlet: unreachable, requests: requests{{time.Minute, approved}}, unaccepted: true, want: isNotJoined},
		{name: "approved before, not accepted", klusterlet: unreachable, requests: requests{{-time.Minute, approved}}, unaccepted: true, want: isUnreachable},
		{name: "pending, not accepted", klusterlet: unreachable, requests: requests{{time.Minute, ""}}, unaccepted: true, want: isNotApproved},
		{name: "the newest counts", klusterlet: unreachable, requests: requests{{-time.Hour, denied}, {time.Minute, ""}}, want: isNotApproved},
		{name: "rejected", klusterlet: rejected, want: isRejected},
		{name: "rejected, of before", klusterlet: rejected, requests: requests{{-time.Second, ""}}, want: isRejected},
		{name: "rejected, pending", klusterlet: rejected, requests: requests{{time.Minute, ""}}, want: isNotApproved},
		{name: "certified", klusterlet: uncertified, requests: requests{{time.Minute, approved}}, want: isUncertified},
		{name: "nothing is wrong, of before", klusterlet: well, requests: requests{{-time.Hour, ""}}, want: isNotApproved},
		{name: "nothing is wrong", klusterlet: well, want: isNotJoined},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, config := startSpoke(t, onPaths(onDeployed(t, func(handlers map[string]http.HandlerFunc) {
				handlers[diagnosedKlusterlet] = c.klusterlet
			})))
			f := newFixture(t)
			f.resolver.Config = config
			f.set(partial(DefaultImportNamespace, testSecret, testCluster))
			for i, request := range c.requests {
				csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{
					Name: strconv.Itoa(i), CreationTimestamp: metav1.NewTime(deployed.Add(request.after)),
					Labels: map[string]string{clusterv1.ClusterNameLabelKey: testCluster},
				}}
				if request.decision != "" {
					csr.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: request.decision, Status: corev1.ConditionTrue}}
				}
				if err := f.kube.Tracker().Add(csr); err != nil {
					t.Fatal(err)
				}
			}
			cluster := managedCluster(withCondition(metav1.ConditionTrue, "x", ""), annotated(AnnotationClusterUID, clusterUID))
			cluster.Spec.HubAcceptsClient = !c.unaccepted
			cluster.Status.Conditions[0].LastTransitionTime = metav1.NewTime(deployed)
			ctx, _ := testContext(t)
			diagnoses := &diagnosisController{provider: f.provider, progress: f.provider.progress}
			if got := textOf(diagnoses.look(ctx, cluster, newAttempt(cluster, f.provider.candidates(testCluster)))); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestCSRProblem(t *testing.T) {
	request := func(name string, age int64, edits ...func(*certificatesv1.CertificateSigningRequest)) *certificatesv1.CertificateSigningRequest {
		csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.Unix(1000-age, 0),
			Labels: map[string]string{clusterv1.ClusterNameLabelKey: testCluster},
		}}
		for _, edit := range edits {
			edit(csr)
		}
		return csr
	}
	is := func(condition certificatesv1.RequestConditionType) func(*certificatesv1.CertificateSigningRequest) {
		return func(csr *certificatesv1.CertificateSigningRequest) {
			csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
				Type: condition, Status: corev1.ConditionTrue, Reason: testToken, Message: testToken,
			})
		}
	}
	labelled := func(key, value string) func(*certificatesv1.CertificateSigningRequest) {
		return func(csr *certificatesv1.CertificateSigningRequest) { csr.Labels[key] = value }
	}
	approved, denied := is(certificatesv1.CertificateApproved), is(certificatesv1.CertificateDenied)
	const (
		notApproved = "CSRNotApproved: its request for a client certificate is not approved"
		isDenied    = "CSRDenied: its request for a client certificate is denied"
	)
	cases := []struct {
		name     string
		requests []kuberuntime.Object
		want     string
	}{
		{name: "none"},
		{name: "pending", requests: []kuberuntime.Object{request(sentinel, 1)}, want: notApproved},
		{name: "approved", requests: []kuberuntime.Object{request("a", 1, approved)}},
		{name: "denied", requests: []kuberuntime.Object{request("a", 1, denied)}, want: isDenied},
		{name: "failed", requests: []kuberuntime.Object{request("a", 1, is(certificatesv1.CertificateFailed))}, want: notApproved},
		{name: "denied, then pending", requests: []kuberuntime.Object{request("a", 2, denied), request("b", 1)}, want: notApproved},
		{name: "pending, then approved", requests: []kuberuntime.Object{request("b", 2), request("a", 1, approved)}},
		{name: "approved, then denied", requests: []kuberuntime.Object{request("b", 2, approved), request("a", 1, denied)}, want: isDenied},
		{name: "at the same time", requests: []kuberuntime.Object{request("a", 1, approved), request("b", 1)}, want: notApproved},
		{name: "another cluster's", requests: []kuberuntime.Object{request("a", 1, labelled(clusterv1.ClusterNameLabelKey, "cluster2"))}},
		{
			name: "of an addon",
			requests: []kuberuntime.Object{
				request("a", 2, approved), request("addon", 1, labelled("open-cluster-management.io/addon-name", "x")),
			},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			newest, err := newestCSR(t.Context(), kubefake.NewClientset(c.requests...), testCluster)
			if err != nil {
				t.Fatal(err)
			}
			if got := textOf(csrProblem(newest)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}

	t.Run("not readable", func(t *testing.T) {
		failure := errors.New("no")
		client := kubefake.NewClientset()
		client.PrependReactor("list", "certificatesigningrequests", func(clienttesting.Action) (bool, kuberuntime.Object, error) {
			return true, nil, failure
		})
		if p, err := newestCSR(t.Context(), client, testCluster); p != nil || !errors.Is(err, failure) {
			t.Errorf("got %v, %v", p, err)
		}
	})
}
