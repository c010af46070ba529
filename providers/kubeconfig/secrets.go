// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

const (
	// indexByCluster finds the import Secrets of a managed cluster by its name.
	indexByCluster = "by-managed-cluster"
	// indexMisplaced finds, by namespace, a Secret in the namespace of a cluster that names another cluster.
	indexMisplaced = "misplaced"
)

// secrets is an index of the metadata of import Secrets: those in the import namespaces, and those with the fixed
// name in the namespace of their managed cluster. It never holds data of a Secret.
type secrets struct {
	importNamespaces []string
	// informers has one informer for each import namespace and one, the last, for the fixed name everywhere.
	informers []cache.SharedIndexInformer
}

func newSecrets(client metadata.Interface, importNamespaces []string) (*secrets, error) {
	s := &secrets{importNamespaces: importNamespaces}
	secretResource := corev1.SchemeGroupVersion.WithResource("secrets")
	for _, namespace := range importNamespaces {
		s.informers = append(s.informers, metadatainformer.NewFilteredMetadataInformer(client, secretResource,
			namespace, 0, cache.Indexers{indexByCluster: byAnnotation}, nil).Informer())
	}
	// The API server authorises list and watch with this selector against the resourceNames of a ClusterRole.
	s.informers = append(s.informers, metadatainformer.NewFilteredMetadataInformer(client, secretResource,
		metav1.NamespaceAll, 0, cache.Indexers{indexByCluster: s.byOwnNamespace, indexMisplaced: s.byMisplaced},
		func(options *metav1.ListOptions) {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, SecretName).String()
		}).Informer())
	for _, informer := range s.informers {
		if err := informer.SetTransform(keepOwnMetadata); err != nil {
			return nil, fmt.Errorf("setting up the Secret informer: %w", err)
		}
	}
	return s, nil
}

// keepOwnMetadata drops from a Secret's metadata all that the provider does not use, so that a watched Secret costs
// little memory whatever its owner attached to it.
func keepOwnMetadata(obj any) (any, error) {
	secret, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return obj, nil
	}
	var annotations map[string]string
	for key, value := range secret.Annotations {
		if strings.HasPrefix(key, annotationPrefix) {
			if annotations == nil {
				annotations = map[string]string{}
			}
			annotations[key] = value
		}
	}
	secret.ObjectMeta = metav1.ObjectMeta{
		Namespace:       secret.Namespace,
		Name:            secret.Name,
		UID:             secret.UID,
		ResourceVersion: secret.ResourceVersion,
		Annotations:     annotations,
	}
	return secret, nil
}

func byAnnotation(obj any) ([]string, error) {
	secret, err := meta.Accessor(obj)
	if err != nil {
		return nil, fmt.Errorf("indexing import Secrets: %w", err)
	}
	if name, ok := secret.GetAnnotations()[AnnotationManagedCluster]; ok {
		return []string{name}, nil
	}
	return nil, nil
}

func (s *secrets) byOwnNamespace(obj any) ([]string, error) {
	return s.ownNamespaceKey(obj, true)
}

func (s *secrets) byMisplaced(obj any) ([]string, error) {
	return s.ownNamespaceKey(obj, false)
}

// ownNamespaceKey returns the namespace of an annotated Secret with the fixed name if, by wantPlaced, its annotation
// does or does not name its namespace. Import namespaces have informers and rules of their own.
func (s *secrets) ownNamespaceKey(obj any, wantPlaced bool) ([]string, error) {
	secret, err := meta.Accessor(obj)
	if err != nil {
		return nil, fmt.Errorf("indexing import Secrets: %w", err)
	}
	name, ok := secret.GetAnnotations()[AnnotationManagedCluster]
	if !ok || slices.Contains(s.importNamespaces, secret.GetNamespace()) || (name == secret.GetNamespace()) != wantPlaced {
		return nil, nil
	}
	return []string{secret.GetNamespace()}, nil
}

// forCluster returns the import Secrets of a cluster, in the order of their keys. More than one is ambiguous.
func (s *secrets) forCluster(name string) []*metav1.PartialObjectMetadata {
	return s.lookup(indexByCluster, name)
}

// misplaced returns the Secret in the namespace of a cluster that names another cluster, if there is one.
func (s *secrets) misplaced(clusterName string) []*metav1.PartialObjectMetadata {
	return s.lookup(indexMisplaced, clusterName)
}

func (s *secrets) lookup(index, key string) []*metav1.PartialObjectMetadata {
	found := map[string]*metav1.PartialObjectMetadata{}
	for _, informer := range s.informers {
		if _, ok := informer.GetIndexer().GetIndexers()[index]; !ok {
			continue
		}
		// The index exists, which is the only error there could be.
		objects, _ := informer.GetIndexer().ByIndex(index, key)
		for _, obj := range objects {
			if secret, ok := obj.(*metav1.PartialObjectMetadata); ok {
				found[objectKey(secret)] = secret
			}
		}
	}
	result := make([]*metav1.PartialObjectMetadata, 0, len(found))
	for _, key := range slices.Sorted(maps.Keys(found)) {
		result = append(result, found[key])
	}
	return result
}

// claims says whether a Secret that was read is an import Secret of the cluster, by the same rules as the index: its
// annotation may have changed since.
func (s *secrets) claims(secret *corev1.Secret, clusterName string) bool {
	return secret.Annotations[AnnotationManagedCluster] == clusterName &&
		(slices.Contains(s.importNamespaces, secret.Namespace) ||
			secret.Name == SecretName && secret.Namespace == clusterName)
}

// onChange calls enqueue with the name of each cluster that a change of a Secret may concern.
func (s *secrets) onChange(enqueue func(clusterName string)) error {
	notify := func(obj any) {
		secret, err := eventObject(obj)
		if err != nil {
			return
		}
		if name, ok := secret.GetAnnotations()[AnnotationManagedCluster]; ok {
			enqueue(name)
			if secret.GetName() == SecretName && name != secret.GetNamespace() {
				enqueue(secret.GetNamespace())
			}
		}
	}
	for _, informer := range s.informers {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: notify,
			UpdateFunc: func(oldObj, newObj any) {
				// The old object too: its annotation may have named another cluster.
				notify(oldObj)
				notify(newObj)
			},
			DeleteFunc: notify,
		}); err != nil {
			return fmt.Errorf("watching import Secrets: %w", err)
		}
	}
	return nil
}

// onDelete calls forget with the UID of each Secret that is gone.
func (s *secrets) onDelete(forget func(secret types.UID)) error {
	notify := func(obj any) {
		if secret, err := eventObject(obj); err == nil {
			forget(secret.GetUID())
		}
	}
	for _, informer := range s.informers {
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			UpdateFunc: func(oldObj, newObj any) {
				// Deleted and created again under the same name while the watch was interrupted.
				before, err := eventObject(oldObj)
				after, errAfter := eventObject(newObj)
				if err == nil && errAfter == nil && before.GetUID() != after.GetUID() {
					notify(oldObj)
				}
			},
			DeleteFunc: notify,
		}); err != nil {
			return fmt.Errorf("watching import Secrets: %w", err)
		}
	}
	return nil
}

func (s *secrets) run(ctx context.Context) {
	for _, informer := range s.informers {
		go informer.RunWithContext(ctx)
	}
}

func (s *secrets) hasSynced() bool {
	for _, informer := range s.informers {
		if !informer.HasSynced() {
			return false
		}
	}
	return true
}

// eventObject is the object of an informer's event; of a deletion that was missed, its last known state.
func eventObject(obj any) (metav1.Object, error) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	return meta.Accessor(obj)
}

func objectKey(object metav1.Object) string {
	return object.GetNamespace() + "/" + object.GetName()
}

// stateOf is different for any two states of any two objects.
func stateOf(object metav1.Object) string {
	return string(object.GetUID()) + "@" + object.GetResourceVersion()
}
