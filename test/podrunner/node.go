// Copyright Contributors to the Open Cluster Management project

package podrunner

import (
	"context"
	"fmt"
	"runtime"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// The kubelet's defaults for lease and status.
	nodePeriod         = 10 * time.Second
	leaseDuration      = 40 // seconds
	leaseNamespace     = corev1.NamespaceNodeLease
	nodeMemory         = "8Gi"
	nodePods           = "110"
	nodeRetryDelay     = 250 * time.Millisecond
	registrationWindow = 30 * time.Second
)

// nodeLabels are the labels that pods may select by.
func (r *Runner) nodeLabels() map[string]string {
	return map[string]string{
		corev1.LabelHostname:   r.options.NodeName,
		corev1.LabelOSStable:   runtime.GOOS,
		corev1.LabelArchStable: runtime.GOARCH,
	}
}

// registerNode creates the Node, or takes over the one that an earlier runner left.
func (r *Runner) registerNode(ctx context.Context) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.options.NodeName, Labels: r.nodeLabels()}}
	_, err := r.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create node %s: %w", r.options.NodeName, err)
	}
	ctx, cancel := context.WithTimeout(ctx, registrationWindow)
	defer cancel()
	for {
		if err = r.heartbeat(ctx); err == nil {
			return nil
		}
		// The namespace of the leases appears a little after the API server is ready.
		if !sleep(ctx, nodeRetryDelay) {
			return err
		}
	}
}

// heartbeats renews the node's lease and status until ctx ends.
func (r *Runner) heartbeats(ctx context.Context) {
	for sleep(ctx, nodePeriod) {
		if err := r.heartbeat(ctx); err != nil && ctx.Err() == nil {
			r.log.V(1).Info("Node not renewed", "error", err.Error())
		}
	}
}

func (r *Runner) heartbeat(ctx context.Context) error {
	if err := r.renewNode(ctx); err != nil {
		return fmt.Errorf("renew node %s: %w", r.options.NodeName, err)
	}
	if err := r.renewLease(ctx); err != nil {
		return fmt.Errorf("renew lease of node %s: %w", r.options.NodeName, err)
	}
	return nil
}

func (r *Runner) renewNode(ctx context.Context) error {
	nodes := r.client.CoreV1().Nodes()
	node, err := nodes.Get(ctx, r.options.NodeName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	now := metav1.Now()
	ready := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "PodRunnerReady",
		Message: "the pod runner is running", LastHeartbeatTime: now, LastTransitionTime: now,
	}
	for _, c := range node.Status.Conditions {
		if c.Type == ready.Type && c.Status == ready.Status {
			ready.LastTransitionTime = c.LastTransitionTime
		}
	}
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewQuantity(int64(runtime.NumCPU()), resource.DecimalSI),
		corev1.ResourceMemory: resource.MustParse(nodeMemory),
		corev1.ResourcePods:   resource.MustParse(nodePods),
	}
	node.Status.Conditions = []corev1.NodeCondition{ready}
	node.Status.Capacity, node.Status.Allocatable = capacity, capacity.DeepCopy()
	node.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: loopback}, {Type: corev1.NodeHostName, Address: r.options.NodeName},
	}
	node.Status.NodeInfo = corev1.NodeSystemInfo{
		OperatingSystem: runtime.GOOS, Architecture: runtime.GOARCH,
		KubeletVersion: r.version, ContainerRuntimeVersion: "process://" + runtime.Version(),
	}
	_, err = nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

func (r *Runner) renewLease(ctx context.Context) error {
	leases := r.client.CoordinationV1().Leases(leaseNamespace)
	now := metav1.NewMicroTime(time.Now())
	lease, err := leases.Get(ctx, r.options.NodeName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: r.options.NodeName},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: ptr.To(r.options.NodeName), LeaseDurationSeconds: ptr.To[int32](leaseDuration), RenewTime: &now,
			},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = ptr.To(r.options.NodeName), &now
	lease.Spec.LeaseDurationSeconds = ptr.To[int32](leaseDuration)
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}
