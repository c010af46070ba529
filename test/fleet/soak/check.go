// Copyright Contributors to the Open Cluster Management project

package soak

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"open-cluster-management.io/import-provider/providers/kubeconfig"
	"open-cluster-management.io/import-provider/test/component"
	"open-cluster-management.io/import-provider/test/importhub"
)

// counted are kinds of which the component, or what it asks for, could leave some. Events end by themselves.
var counted = []schema.GroupVersionResource{
	{Version: "v1", Resource: "secrets"},
	{Version: "v1", Resource: "configmaps"},
	{Version: "v1", Resource: "serviceaccounts"},
	{Version: "v1", Resource: "namespaces"},
	{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"},
	{Group: "certificates.k8s.io", Version: "v1", Resource: "certificatesigningrequests"},
	{Group: "cluster.open-cluster-management.io", Version: "v1", Resource: "managedclusters"},
}

var klusterlets = schema.GroupVersionResource{Group: "operator.open-cluster-management.io", Version: "v1", Resource: "klusterlets"}

// inventory are the objects of the hub, as "resource namespace/name".
type inventory map[string]bool

func (s *soak) takeInventory(ctx context.Context) (inventory, error) {
	found := inventory{}
	for _, resource := range counted {
		list, err := s.hub.Dynamic.Resource(resource).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", resource.Resource, err)
		}
		for i := range list.Items {
			// The API server writes its own there.
			if namespace := list.Items[i].GetNamespace(); namespace != metav1.NamespaceSystem {
				found[fmt.Sprintf("%s %s/%s", resource.Resource, namespace, list.Items[i].GetName())] = true
			}
		}
	}
	return found, nil
}

// checkHub says what the hub has too much or too little: there are the Secrets and ManagedClusters of the clusters that are there,
// the lease of the leader, and what was there before.
func (s *soak) checkHub(ctx context.Context) error {
	left, err := s.takeInventory(ctx)
	if err != nil {
		return err
	}
	var errs []error
	expected := inventory{fmt.Sprintf("leases %s/import-controller", component.Namespace): true}
	for _, cluster := range s.ledger.present() {
		expected["managedclusters /"+cluster.Name()] = true
		expected[fmt.Sprintf("secrets %s/%s", component.ImportNamespace, cluster.Name())] = true
		stored, err := s.hub.Clusters.Get(ctx, cluster.Name(), metav1.GetOptions{})
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, condition := range []string{importhub.ConditionImported, kubeconfig.ConditionPreflightPassed, kubeconfig.ConditionCompleted} {
			if !meta.IsStatusConditionTrue(stored.Status.Conditions, condition) {
				errs = append(errs, fmt.Errorf("%s of ManagedCluster %s is not True in the end", condition, cluster.Name()))
			}
		}
	}
	for name := range s.before {
		expected[name] = true
	}
	for name := range left {
		if !expected[name] {
			errs = append(errs, fmt.Errorf("the hub has %s in the end", name))
		}
	}
	for name := range expected {
		if !left[name] {
			errs = append(errs, fmt.Errorf("the hub has no %s in the end", name))
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}

// checkClusters says which clusters have not the klusterlet of their name. It asks them, so it comes last.
func (s *soak) checkClusters(ctx context.Context) error {
	var errs []error
	for _, cluster := range s.ledger.present() {
		client, err := dynamic.NewForConfig(cluster.Config())
		if err != nil {
			return err
		}
		klusterlet, err := client.Resource(klusterlets).Get(ctx, "klusterlet", metav1.GetOptions{})
		if err != nil {
			errs = append(errs, fmt.Errorf("cluster %s has no klusterlet in the end: %w", cluster.Name(), err))
			continue
		}
		spec, _ := klusterlet.Object["spec"].(map[string]any)
		if spec["clusterName"] != cluster.Name() {
			errs = append(errs, fmt.Errorf("the klusterlet of cluster %s has the name %v", cluster.Name(), spec["clusterName"]))
		}
	}
	return errors.Join(errs...)
}
