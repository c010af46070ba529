// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/uuid"
)

var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// store has the objects of a cluster. Objects are kept encoded: thousands of clusters have the same large
// CustomResourceDefinitions, and most objects are never read again. Errors are those that an API server would give.
type store struct {
	establishedDelay time.Duration

	lock    sync.Mutex // guards what follows, for the time of one request
	version uint64
	objects map[string][]byte
	// custom are the kinds of established CustomResourceDefinitions, by name of the latter.
	custom map[string]established
}

type established struct {
	at    time.Time
	kinds []kind
}

func newStore(establishedDelay time.Duration, uid types.UID) *store {
	s := &store{establishedDelay: establishedDelay, objects: map[string][]byte{}, custom: map[string]established{}}
	for _, name := range []string{"default", metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
		namespace := map[string]any{"metadata": map[string]any{"name": name}}
		s.complete(builtIn[0], namespace)
		if name == metav1.NamespaceSystem {
			metadataOf(namespace)["uid"] = string(uid)
		}
		s.put(builtIn[0], "", name, namespace)
	}
	return s
}

// kinds are those that are served now.
func (s *store) kinds() []kind {
	s.lock.Lock()
	defer s.lock.Unlock()
	kinds := builtIn
	for _, name := range slices.Sorted(maps.Keys(s.custom)) {
		kinds = slices.Concat(kinds, s.custom[name].kinds)
	}
	return kinds
}

// establishedAt is when the CustomResourceDefinition of a kind was established, in whole seconds as the API has it.
func (s *store) establishedAt(k kind) time.Time {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.custom[k.resource+"."+k.group].at.Truncate(time.Second)
}

func key(k kind, namespace, name string) string {
	return strings.Join([]string{k.group, k.resource, namespace, name}, "/")
}

func (s *store) get(k kind, namespace, name string) ([]byte, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	data, ok := s.objects[key(k, namespace, name)]
	if !ok {
		return nil, apierrors.NewNotFound(k.groupResource(), name)
	}
	return data, nil
}

// list returns the objects that match, in all namespaces if none is given.
func (s *store) list(k kind, namespace string, matches func(labels map[string]string) bool) []runtime.RawExtension {
	s.lock.Lock()
	defer s.lock.Unlock()
	prefix := strings.TrimSuffix(key(k, namespace, ""), "/")
	if k.namespaced && namespace == "" {
		prefix = k.group + "/" + k.resource
	}
	items := []runtime.RawExtension{}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if !strings.HasPrefix(key, prefix+"/") {
			continue
		}
		object := unstructured.Unstructured{Object: s.decode(key)}
		if matches(object.GetLabels()) {
			items = append(items, runtime.RawExtension{Raw: s.objects[key]})
		}
	}
	return items
}

func (s *store) create(k kind, namespace string, object map[string]any, dryRun bool) ([]byte, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	name, _, _ := unstructured.NestedString(object, "metadata", "name")
	if name == "" {
		return nil, apierrors.NewBadRequest("name is required")
	}
	if k.namespaced {
		if _, ok := s.objects[key(builtIn[0], "", namespace)]; !ok {
			return nil, apierrors.NewNotFound(builtIn[0].groupResource(), namespace)
		}
		metadataOf(object)["namespace"] = namespace
	}
	if _, ok := s.objects[key(k, namespace, name)]; ok {
		return nil, apierrors.NewAlreadyExists(k.groupResource(), name)
	}
	s.complete(k, object)
	if dryRun {
		return encode(object), nil
	}
	data := s.put(k, namespace, name, object)
	if k.resource == crdResource {
		time.AfterFunc(s.establishedDelay, func() { s.establish(k, name) })
	}
	return data, nil
}

// update replaces an object, or its status alone, as change makes it of the stored one.
func (s *store) update(k kind, namespace, name string, dryRun bool, change func(stored map[string]any) (map[string]any, error)) ([]byte, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	id := key(k, namespace, name)
	if _, ok := s.objects[id]; !ok {
		return nil, apierrors.NewNotFound(k.groupResource(), name)
	}
	stored := s.decode(id)
	object, err := change(s.decode(id))
	if err != nil {
		return nil, err
	}
	had, has := metadataOf(stored), metadataOf(object)
	if version, ok := has["resourceVersion"].(string); ok && version != "" && version != had["resourceVersion"] {
		return nil, apierrors.NewConflict(k.groupResource(), name, errModified)
	}
	for _, field := range []string{"name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion"} {
		delete(has, field)
		if value, ok := had[field]; ok {
			has[field] = value
		}
	}
	setDefaults(k, object)
	if reflect.DeepEqual(stored, object) {
		return s.objects[id], nil
	}
	if generation, ok := had["generation"].(int64); ok && !reflect.DeepEqual(stored["spec"], object["spec"]) {
		has["generation"] = generation + 1
	}
	if dryRun {
		return encode(object), nil
	}
	return s.put(k, namespace, name, object), nil
}

// replace is a PUT of an object: its status stays.
func replace(object map[string]any) func(map[string]any) (map[string]any, error) {
	return func(stored map[string]any) (map[string]any, error) {
		delete(object, "status")
		if status, ok := stored["status"]; ok {
			object["status"] = status
		}
		return object, nil
	}
}

// replaceStatus is a PUT of the status.
func replaceStatus(object map[string]any) func(map[string]any) (map[string]any, error) {
	return func(stored map[string]any) (map[string]any, error) {
		stored["status"] = object["status"]
		metadataOf(stored)["resourceVersion"] = metadataOf(object)["resourceVersion"]
		return stored, nil
	}
}

func (s *store) remove(k kind, namespace, name string) error {
	s.lock.Lock()
	defer s.lock.Unlock()
	id := key(k, namespace, name)
	if _, ok := s.objects[id]; !ok {
		return apierrors.NewNotFound(k.groupResource(), name)
	}
	delete(s.objects, id)
	if k.resource == crdResource {
		for _, custom := range s.custom[name].kinds {
			prefix := custom.group + "/" + custom.resource + "/"
			maps.DeleteFunc(s.objects, func(id string, _ []byte) bool { return strings.HasPrefix(id, prefix) })
		}
		delete(s.custom, name)
	}
	if k.resource == namespaceResource {
		maps.DeleteFunc(s.objects, func(id string, _ []byte) bool { return strings.Split(id, "/")[2] == name })
	}
	return nil
}

// establish makes the objects of a CustomResourceDefinition served.
func (s *store) establish(k kind, name string) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if _, ok := s.objects[key(k, "", name)]; !ok {
		return
	}
	now := time.Now()
	crd := s.decode(key(k, "", name))
	names, _, _ := unstructured.NestedMap(crd, "spec", "names")
	var conditions []any
	for _, conditionType := range []apiextensionsv1.CustomResourceDefinitionConditionType{apiextensionsv1.NamesAccepted, apiextensionsv1.Established} {
		reason, message := "NoConflicts", "no conflicts found"
		if conditionType == apiextensionsv1.Established {
			reason, message = "InitialNamesAccepted", "the initial names have been accepted"
		}
		conditions = append(conditions, map[string]any{
			"type": string(conditionType), "status": "True", "reason": reason, "message": message,
			"lastTransitionTime": now.UTC().Format(time.RFC3339),
		})
	}
	status, ok := crd["status"].(map[string]any)
	if !ok {
		status = map[string]any{}
	}
	status["acceptedNames"], status["conditions"] = names, conditions
	crd["status"] = status
	s.put(k, "", name, crd)
	s.custom[name] = established{at: now, kinds: kindsOf(crd)}
}

// complete gives a new object what the server gives it. It needs s.lock.
func (s *store) complete(k kind, object map[string]any) {
	metadata := metadataOf(object)
	metadata["uid"] = string(uuid.NewUUID())
	metadata["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	delete(metadata, "generation")
	if k.generation {
		metadata["generation"] = int64(1)
	}
	setDefaults(k, object)
	switch k.resource {
	case namespaceResource:
		object["status"] = map[string]any{"phase": string(corev1.NamespaceActive)}
	case crdResource:
		var stored []any
		versions, _, _ := unstructured.NestedSlice(object, "spec", "versions")
		for _, version := range versions {
			version, _ := version.(map[string]any)
			if storage, _, _ := unstructured.NestedBool(version, "storage"); storage {
				stored = append(stored, version["name"])
			}
		}
		object["status"] = map[string]any{"conditions": nil, "storedVersions": stored,
			"acceptedNames": map[string]any{"plural": "", "kind": ""}}
	}
}

// setDefaults sets what the next import compares with.
func setDefaults(k kind, object map[string]any) {
	object["apiVersion"], object["kind"] = k.apiVersion(), k.kind
	metadata := metadataOf(object)
	delete(metadata, "managedFields")
	if k.schema != nil {
		defaulting.Default(object, k.schema)
	}
	switch k.resource {
	case crdResource:
		setCRDDefaults(object)
	case namespaceResource:
		labels, ok := metadata["labels"].(map[string]any)
		if !ok {
			labels = map[string]any{}
			metadata["labels"] = labels
		}
		labels[corev1.LabelMetadataName] = metadata["name"]
		object["spec"] = map[string]any{"finalizers": []any{string(corev1.FinalizerKubernetes)}}
	case "secrets":
		if object["type"] == nil || object["type"] == "" {
			object["type"] = string(corev1.SecretTypeOpaque)
		}
		plain, _ := object["stringData"].(map[string]any)
		delete(object, "stringData")
		if len(plain) == 0 {
			return
		}
		data, ok := object["data"].(map[string]any)
		if !ok {
			data = map[string]any{}
			object["data"] = data
		}
		for name, value := range plain {
			text, _ := value.(string)
			data[name] = base64.StdEncoding.EncodeToString([]byte(text))
		}
	}
}

// setCRDDefaults leaves what is no CustomResourceDefinition as it is.
func setCRDDefaults(object map[string]any) {
	var crd apiextensionsv1.CustomResourceDefinition
	if runtime.DefaultUnstructuredConverter.FromUnstructured(object, &crd) != nil {
		return
	}
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&crd)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&crd.Spec)
	var spec map[string]any
	text, err := json.Marshal(crd.Spec)
	if err == nil && utiljson.Unmarshal(text, &spec) == nil {
		object["spec"] = spec
	}
}

// put stores an object under a new version. It needs s.lock.
func (s *store) put(k kind, namespace, name string, object map[string]any) []byte {
	s.version++
	metadataOf(object)["resourceVersion"] = strconv.FormatUint(s.version, 10)
	data := encode(object)
	s.objects[key(k, namespace, name)] = data
	return data
}

// decode needs s.lock.
func (s *store) decode(key string) map[string]any {
	var object map[string]any
	if err := utiljson.Unmarshal(s.objects[key], &object); err != nil {
		panic("fleet: an object of the store is no JSON: " + err.Error())
	}
	return object
}

func encode(object map[string]any) []byte {
	data, err := utiljson.Marshal(object)
	if err != nil {
		panic("fleet: what was JSON is none any more: " + err.Error())
	}
	return data
}

// metadataOf returns the metadata of an object, which gets one if it has none.
func metadataOf(object map[string]any) map[string]any {
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{}
		object["metadata"] = metadata
	}
	return metadata
}

// merge writes the fields of patch over those of object: objects field by field, all else as a whole. null removes a field.
func merge(object, patch map[string]any) {
	for field, value := range patch {
		if value == nil {
			delete(object, field)
			continue
		}
		into, isObject := object[field].(map[string]any)
		from, fromObject := value.(map[string]any)
		if isObject && fromObject {
			merge(into, from)
			continue
		}
		object[field] = value
	}
}
