// Copyright Contributors to the Open Cluster Management project

package kubeconfig

const (
	annotationPrefix = "import.open-cluster-management.io/"

	// AnnotationManagedCluster on a Secret makes it an import Secret. Its value is the name of the ManagedCluster
	// that the Secret is for. Annotations that choose and configure a resolver are in package credential.
	AnnotationManagedCluster = annotationPrefix + "managed-cluster"

	// AnnotationDisableAutoImport on a ManagedCluster pauses its import while it is present, whatever its value.
	AnnotationDisableAutoImport = annotationPrefix + "disable-auto-import"

	// AnnotationImmediateImport on a ManagedCluster with an empty value asks for one import now, also of a cluster
	// that was imported before. The value becomes ImmediateImportCompleted when it is done.
	AnnotationImmediateImport = annotationPrefix + "immediate-import"

	// AnnotationTakeover on a ManagedCluster lets the import replace a klusterlet that belongs to another hub. Its value
	// is the URL of that hub, as the condition says it, so that it allows nothing else and nothing later.
	AnnotationTakeover = annotationPrefix + "takeover"

	// AnnotationClusterUID on a ManagedCluster is the UID of the namespace kube-system of the cluster that was imported,
	// which is how a cluster is known again. The provider sets it; whoever removes it allows another cluster under the name.
	AnnotationClusterUID = annotationPrefix + "kube-system-uid"

	// LabelLocalCluster with the value "true" on a ManagedCluster says that the cluster is the hub itself.
	LabelLocalCluster = "local-cluster"

	// ImmediateImportCompleted is the value of AnnotationImmediateImport after the import that it asked for.
	ImmediateImportCompleted = "Completed"
)

const (
	// SecretName is the name of the import Secret in the namespace of a managed cluster. It is fixed so that
	// access can be granted to Secrets of this name alone.
	SecretName = "auto-import-secret"

	// DefaultImportNamespace is where import Secrets live unless the administrator names other namespaces.
	DefaultImportNamespace = "open-cluster-management-import"
)
