// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kind is a resource that a cluster serves.
type kind struct {
	group, version, resource, kind string
	namespaced                     bool
	// generation says whether the server counts the changes of the spec.
	generation bool
	// custom says whether a CustomResourceDefinition made the kind, and schema has its defaults.
	custom bool
	schema *structuralschema.Structural
}

func (k kind) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.group, Resource: k.resource}
}

func (k kind) apiVersion() string {
	return schema.GroupVersion{Group: k.group, Version: k.version}.String()
}

const (
	crdResource       = "customresourcedefinitions"
	reviewResource    = "selfsubjectaccessreviews"
	namespaceResource = "namespaces"
)

// builtIn are the kinds that a klusterlet consists of and those that are looked at.
var builtIn = []kind{
	{version: "v1", resource: namespaceResource, kind: "Namespace"},
	{version: "v1", resource: "configmaps", kind: "ConfigMap", namespaced: true},
	{version: "v1", resource: "pods", kind: "Pod", namespaced: true},
	{version: "v1", resource: "secrets", kind: "Secret", namespaced: true},
	{version: "v1", resource: "serviceaccounts", kind: "ServiceAccount", namespaced: true},
	{group: "apps", version: "v1", resource: "deployments", kind: "Deployment", namespaced: true, generation: true},
	{group: "authorization.k8s.io", version: "v1", resource: reviewResource, kind: "SelfSubjectAccessReview"},
	{group: "rbac.authorization.k8s.io", version: "v1", resource: "clusterroles", kind: "ClusterRole"},
	{group: "rbac.authorization.k8s.io", version: "v1", resource: "clusterrolebindings", kind: "ClusterRoleBinding"},
	{group: "rbac.authorization.k8s.io", version: "v1", resource: "roles", kind: "Role", namespaced: true},
	{group: "rbac.authorization.k8s.io", version: "v1", resource: "rolebindings", kind: "RoleBinding", namespaced: true},
	{group: "apiextensions.k8s.io", version: "v1", resource: crdResource, kind: "CustomResourceDefinition", generation: true},
}

// kindsOf are the kinds that a CustomResourceDefinition makes.
func kindsOf(crd map[string]any) []kind {
	group, _, _ := unstructured.NestedString(crd, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd, "spec", "names", "plural")
	name, _, _ := unstructured.NestedString(crd, "spec", "names", "kind")
	scope, _, _ := unstructured.NestedString(crd, "spec", "scope")
	versions, _, _ := unstructured.NestedSlice(crd, "spec", "versions")
	var kinds []kind
	for _, version := range versions {
		version, _ := version.(map[string]any)
		if served, _, _ := unstructured.NestedBool(version, "served"); !served {
			continue
		}
		versionName, _, _ := unstructured.NestedString(version, "name")
		kinds = append(kinds, kind{
			group: group, version: versionName, resource: plural, kind: name,
			namespaced: scope == string(apiextensionsv1.NamespaceScoped), generation: true, custom: true, schema: schemaOf(version),
		})
	}
	return kinds
}

// schemas are those that were seen, by the hash of their JSON: the clusters of a fleet have the same ones.
var schemas sync.Map

// schemaOf returns the schema of a version of a CustomResourceDefinition, or nil if it has no usable one.
func schemaOf(version map[string]any) *structuralschema.Structural {
	schema, _, _ := unstructured.NestedMap(version, "schema", "openAPIV3Schema")
	text := encode(schema)
	hash := sha256.Sum256(text)
	if known, ok := schemas.Load(hash); ok {
		structural, _ := known.(*structuralschema.Structural)
		return structural
	}
	var props apiextensionsv1.JSONSchemaProps
	var internal apiextensions.JSONSchemaProps
	if json.Unmarshal(text, &props) != nil ||
		apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(&props, &internal, nil) != nil {
		return nil
	}
	structural, err := structuralschema.NewStructural(&internal)
	if err != nil {
		return nil
	}
	schemas.Store(hash, structural)
	return structural
}

// discover answers a path of the discovery API, or returns nil.
func discover(kinds []kind, path string) any {
	switch parts := strings.Split(strings.Trim(path, "/"), "/"); {
	case len(parts) == 1 && parts[0] == "api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: []string{"v1"}}
	case len(parts) == 1 && parts[0] == "apis":
		return metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: groups(kinds)}
	case len(parts) == 2 && parts[0] == "api":
		return resources(kinds, schema.GroupVersion{Version: parts[1]})
	case len(parts) == 3 && parts[0] == "apis":
		return resources(kinds, schema.GroupVersion{Group: parts[1], Version: parts[2]})
	}
	return nil
}

func groups(kinds []kind) []metav1.APIGroup {
	var all []metav1.APIGroup
	for _, k := range kinds {
		if k.group == "" {
			continue
		}
		version := metav1.GroupVersionForDiscovery{GroupVersion: k.apiVersion(), Version: k.version}
		i := slices.IndexFunc(all, func(group metav1.APIGroup) bool { return group.Name == k.group })
		switch {
		case i < 0:
			all = append(all, metav1.APIGroup{Name: k.group, Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version})
		case !slices.Contains(all[i].Versions, version):
			all[i].Versions = append(all[i].Versions, version)
		}
	}
	return all
}

// resources returns nil for a group and version of which nothing is served.
func resources(kinds []kind, of schema.GroupVersion) any {
	list := metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: of.String(),
	}
	for _, k := range kinds {
		if k.apiVersion() != of.String() {
			continue
		}
		verbs := metav1.Verbs{"create", "delete", "get", "list", "patch", "update"}
		if k.resource == reviewResource {
			verbs = metav1.Verbs{"create"}
		}
		list.APIResources = append(list.APIResources, metav1.APIResource{
			Name: k.resource, SingularName: strings.ToLower(k.kind), Kind: k.kind, Namespaced: k.namespaced, Verbs: verbs,
		})
	}
	if len(list.APIResources) == 0 {
		return nil
	}
	return list
}
