// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
)

const (
	// ConditionPreflightPassed says what the last look at the import Secret and the cluster found, before anything was
	// written to the cluster, and until when the credential is valid.
	ConditionPreflightPassed = "ManagedClusterImportPreflightPassed"
	// ConditionCompleted says whether the deployed klusterlet has joined and become available, and if not, why. It stays
	// True from then on: how the cluster does later is said by OCM's own conditions.
	ConditionCompleted = "ManagedClusterImportCompleted"

	// conditionImported is the condition that the importer writes. The constant of the importer's package is out of
	// reach: that package brings Helm with it.
	conditionImported = "ManagedClusterImportSucceeded"
)

// setCondition sets a condition of this provider on a cluster, for the present generation of its spec.
func setCondition(cluster *clusterv1.ManagedCluster, conditionType string, status metav1.ConditionStatus, reason Reason, message string) {
	meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{
		Type:               conditionType,
		Status:             status,
		Reason:             string(reason),
		Message:            message,
		ObservedGeneration: cluster.Generation,
	})
}

// observe says that the conditions of this provider hold for the present generation of a cluster's spec too: kubectl wait
// does not take one of an older generation, and the spec changes with the taints of a cluster.
func observe(cluster *clusterv1.ManagedCluster) {
	for i := range cluster.Status.Conditions {
		switch condition := &cluster.Status.Conditions[i]; condition.Type {
		case ConditionPreflightPassed, ConditionCompleted:
			condition.ObservedGeneration = cluster.Generation
		}
	}
}
