// Copyright Contributors to the Open Cluster Management project

package importhub

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	clusterv1 "open-cluster-management.io/api/cluster/v1"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/harness"
)

const (
	// ConditionImported is what every importer says of a ManagedCluster.
	ConditionImported = "ManagedClusterImportSucceeded"

	// warmUpLimit is far above what an importer takes to begin.
	warmUpLimit = 3 * time.Minute
)

var capiClusters = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta1", Resource: "clusters"}

// WarmUp waits until the importer has tried a cluster that refuses connections: no program tells when its importer is at work.
func (h *Hub) WarmUp(ctx context.Context) error {
	const name = "warm-up"
	// Nothing listens on the discard port.
	if err := h.CreateCredential(ctx, name, harness.TokenKubeconfig("https://127.0.0.1:9", h.CAData(), "token")); err != nil {
		return err
	}
	if err := h.CreateCluster(ctx, name); err != nil {
		return err
	}
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, warmUpLimit, true, func(ctx context.Context) (bool, error) {
		tried, err := h.Clusters.Get(ctx, name, metav1.GetOptions{})
		return err == nil && meta.FindStatusCondition(tried.Status.Conditions, ConditionImported) != nil, err
	}); err != nil {
		return fmt.Errorf("the importer of hub %s does not try: %w", h.options.ControlPlane.Name, err)
	}
	return h.Clusters.Delete(ctx, name, metav1.DeleteOptions{})
}

// CreateCluster creates the ManagedCluster, accepted as in manifests/samples.
func (h *Hub) CreateCluster(ctx context.Context, name string) error {
	_, err := h.Clusters.Create(ctx, &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
	}, metav1.CreateOptions{})
	return err
}

// CreateCredential creates what leads the importer to a cluster, all but the ManagedCluster: the import Secret or, for upstream's,
// Cluster API's Cluster and its Secret.
func (h *Hub) CreateCredential(ctx context.Context, name string, config []byte) error {
	secret := ImportSecret(name, config)
	if h.Upstream {
		if err := h.createCAPICluster(ctx, name); err != nil {
			return err
		}
		secret = &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: name + "-kubeconfig"},
			Data:       map[string][]byte{"value": config},
		}
	}
	_, err := h.Kube.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{})
	return err
}

// ImportSecret is the Secret by which the import-controller imports a cluster; config is its kubeconfig.
func ImportSecret(name string, config []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: component.ImportNamespace, Name: name,
			Annotations: map[string]string{kubeconfig.AnnotationManagedCluster: name},
		},
		Data: map[string][]byte{"kubeconfig": config},
	}
}

// createCAPICluster creates a Cluster that is provisioned, in a namespace of its name.
func (h *Hub) createCAPICluster(ctx context.Context, name string) error {
	_, err := h.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	clusters := h.Dynamic.Resource(capiClusters).Namespace(name)
	cluster, err := clusters.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": capiClusters.GroupVersion().String(), "kind": "Cluster",
		"metadata": map[string]any{"name": name},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	cluster.Object["status"] = map[string]any{"phase": "Provisioned"}
	_, err = clusters.UpdateStatus(ctx, cluster, metav1.UpdateOptions{})
	return err
}
