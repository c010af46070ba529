// Copyright Contributors to the Open Cluster Management project

package exchange

import (
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/import-provider/manifests"
)

// objectsFor returns what manifests/managed-cluster has, for another account if that is asked for: with its namespace, which may not
// exist, and with bindings of its own, since those of the manifests may be in use. The permissions are the same.
func objectsFor(who account) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	for document := range strings.SplitSeq(manifests.ManagedCluster(), "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			return nil, fmt.Errorf("reading manifests/managed-cluster: %w", err)
		}
		objects = append(objects, object)
	}
	if who.namespace == DefaultNamespace && who.name == DefaultName {
		return objects, nil
	}
	for _, object := range objects {
		if object.GetNamespace() != "" {
			object.SetNamespace(who.namespace)
		}
		switch object.GetKind() {
		case "ServiceAccount":
			object.SetName(who.name)
		case "Role":
			object.SetName(object.GetName() + ":" + who.name)
			object.Object["rules"] = []any{map[string]any{
				"apiGroups": []any{""}, "resources": []any{"serviceaccounts/token"}, "resourceNames": []any{who.name}, "verbs": []any{"create"},
			}}
		case "RoleBinding":
			object.SetName(object.GetName() + ":" + who.name)
			object.Object["roleRef"] = map[string]any{"apiGroup": rbacv1.GroupName, "kind": "Role", "name": object.GetName()}
			setSubject(object, who)
		case "ClusterRoleBinding":
			object.SetName(object.GetName() + ":" + who.namespace + ":" + who.name)
			setSubject(object, who)
		}
	}
	if who.namespace == DefaultNamespace {
		return objects, nil
	}
	namespace := &unstructured.Unstructured{}
	namespace.SetAPIVersion("v1")
	namespace.SetKind("Namespace")
	namespace.SetName(who.namespace)
	return append([]*unstructured.Unstructured{namespace}, objects...), nil
}

func setSubject(object *unstructured.Unstructured, who account) {
	object.Object["subjects"] = []any{map[string]any{"kind": rbacv1.ServiceAccountKind, "name": who.name, "namespace": who.namespace}}
}
