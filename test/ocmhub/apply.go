// Copyright Contributors to the Open Cluster Management project

package ocmhub

import (
	"context"
	"errors"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/yaml"
)

const (
	// FieldManager owns the fields that this package applies.
	FieldManager = "ocmhub"

	pollInterval = 50 * time.Millisecond
	// settleTimeout bounds the wait for what the API server does by itself: CRDs, discovery, its own namespaces.
	settleTimeout = 60 * time.Second
)

var crdGVR = apiextensionsv1.SchemeGroupVersion.WithResource("customresourcedefinitions")

// Apply applies manifests (YAML or JSON, one object each) in their order, as cluster administrators do with
// kubectl apply --server-side --force-conflicts. Each run of CRDs is established before what follows it.
func Apply(ctx context.Context, config *rest.Config, manifests ...[]byte) error {
	objects := make([]*unstructured.Unstructured, 0, len(manifests))
	for i, m := range manifests {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(m, &o.Object); err != nil {
			// Not the manifest itself: it may be a Secret.
			return fmt.Errorf("parse manifest %d: %w", i, err)
		}
		objects = append(objects, o)
	}
	return applyObjects(ctx, config, objects)
}

type applier struct {
	dynamic dynamic.Interface
	mapper  *restmapper.DeferredDiscoveryRESTMapper
}

func applyObjects(ctx context.Context, config *rest.Config, objects []*unstructured.Unstructured) error {
	config = rest.CopyConfig(config)
	// Dozens of objects at once: client-side throttling would cost seconds.
	config.QPS, config.Burst = 100, 200
	dynamicClient, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return fmt.Errorf("create discovery client: %w", err)
	}
	a := &applier{
		dynamic: dynamicClient,
		mapper:  restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discoveryClient)),
	}
	var pending []string
	for _, o := range objects {
		if isCRD(o) {
			pending = append(pending, o.GetName())
		} else if len(pending) > 0 {
			if err := a.established(ctx, pending); err != nil {
				return err
			}
			pending = nil
		}
		if err := a.apply(ctx, o); err != nil {
			return fmt.Errorf("apply %s %s: %w", o.GetKind(), name(o), err)
		}
	}
	return a.established(ctx, pending)
}

func isCRD(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == schema.GroupKind{Group: crdGVR.Group, Kind: "CustomResourceDefinition"}
}

func name(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetName()
	}
	return o.GetNamespace() + "/" + o.GetName()
}

// apply waits for discovery to know the kind, and for the namespace: the API server makes its own ones only
// after it is ready.
func (a *applier) apply(ctx context.Context, o *unstructured.Unstructured) error {
	var last error
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		gvk := o.GroupVersionKind()
		mapping, err := a.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
		if meta.IsNoMatchError(err) {
			a.mapper.Reset()
			last = err
			return false, nil
		}
		if err != nil {
			return false, err
		}
		var client dynamic.ResourceInterface = a.dynamic.Resource(mapping.Resource)
		if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
			client = a.dynamic.Resource(mapping.Resource).Namespace(o.GetNamespace())
		}
		_, err = client.Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: FieldManager, Force: true})
		if apierrors.IsNotFound(err) {
			last = err
			return false, nil
		}
		return err == nil, err
	})
	if wait.Interrupted(err) && last != nil {
		return last
	}
	return err
}

func (a *applier) established(ctx context.Context, names []string) error {
	for _, n := range names {
		err := poll(ctx, func(ctx context.Context) (bool, error) {
			crd, err := a.dynamic.Resource(crdGVR).Get(ctx, n, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			// The list is null at first, which counts as another type.
			conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
			for _, c := range conditions {
				if m, ok := c.(map[string]any); ok && m["type"] == string(apiextensionsv1.Established) && m["status"] == "True" {
					return true, nil
				}
			}
			return false, nil
		})
		if err != nil {
			return fmt.Errorf("wait for CRD %s: %w", n, err)
		}
	}
	return nil
}

// poll runs f at once and then again until it is done, up to settleTimeout.
func poll(ctx context.Context, f wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextTimeout(ctx, pollInterval, settleTimeout, true, f)
	if wait.Interrupted(err) && ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return err
}
