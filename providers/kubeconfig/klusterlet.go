// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	operatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"
	operatorclientv1 "open-cluster-management.io/api/client/operator/clientset/versioned/typed/operator/v1"
	operatorv1 "open-cluster-management.io/api/operator/v1"
)

const (
	fieldManager = "ocm-import-provider"

	// crdServedTimeout bounds the wait for the CRD of the Klusterlet to be served, which takes an API server some
	// tens of milliseconds after it stored the CRD.
	crdServedTimeout = 10 * time.Second
)

// crdServedDelay is the time between two looks: short at first, then gentle with an API server that is busy.
func crdServedDelay() wait.DelayFunc {
	return wait.Backoff{Duration: 10 * time.Millisecond, Factor: 1.5, Cap: 250 * time.Millisecond, Steps: math.MaxInt32}.DelayFunc()
}

// operatorClientset is the operator client with a Create of a Klusterlet that does not wait. The API server holds a
// create of a custom resource back for two seconds after the CRD was established, for control planes with several
// servers (apiextensions-apiserver, the create handler); it does not hold back a server-side apply of the same object.
type operatorClientset struct {
	operatorclient.Interface
	apiExtClient apiextensionsclient.Interface
}

func (c *operatorClientset) OperatorV1() operatorclientv1.OperatorV1Interface {
	return &operatorV1Client{OperatorV1Interface: c.Interface.OperatorV1(), apiExtClient: c.apiExtClient}
}

type operatorV1Client struct {
	operatorclientv1.OperatorV1Interface
	apiExtClient apiextensionsclient.Interface
}

func (c *operatorV1Client) Klusterlets() operatorclientv1.KlusterletInterface {
	return &klusterletClient{KlusterletInterface: c.OperatorV1Interface.Klusterlets(), apiExtClient: c.apiExtClient}
}

type klusterletClient struct {
	operatorclientv1.KlusterletInterface
	apiExtClient apiextensionsclient.Interface
}

// Create stores the Klusterlet by server-side apply, once its CRD is served. Fields that another manager has set in
// between with other values are a conflict, as an existing object would be.
func (c *klusterletClient) Create(ctx context.Context, klusterlet *operatorv1.Klusterlet, options metav1.CreateOptions) (*operatorv1.Klusterlet, error) {
	patch, err := applyPatch(klusterlet)
	if err != nil {
		return nil, fmt.Errorf("preparing Klusterlet %s: %w", klusterlet.Name, err)
	}
	var applied *operatorv1.Klusterlet
	crdSeen := false
	waitCtx, cancel := context.WithTimeout(ctx, crdServedTimeout)
	defer cancel()
	err = crdServedDelay().Until(waitCtx, true, true, func(ctx context.Context) (bool, error) {
		var err error
		applied, err = c.Patch(ctx, klusterlet.Name, types.ApplyPatchType, patch, metav1.PatchOptions{
			DryRun:          options.DryRun,
			FieldManager:    fieldManager,
			FieldValidation: options.FieldValidation,
		})
		// Not found is the path: an apply creates the object.
		if !apierrors.IsNotFound(err) {
			return err == nil, err
		}
		if crdSeen {
			return false, nil
		}
		// A CRD that was not stored is not waited for.
		_, err = c.apiExtClient.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, klusterletCRD, metav1.GetOptions{})
		crdSeen = true
		return false, err
	})
	if wait.Interrupted(err) {
		return nil, fmt.Errorf("the cluster does not serve Klusterlets within %s after their CRD was created", crdServedTimeout)
	}
	return applied, err
}

func applyPatch(klusterlet *operatorv1.Klusterlet) ([]byte, error) {
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(klusterlet)
	if err != nil {
		return nil, fmt.Errorf("converting: %w", err)
	}
	object["apiVersion"] = operatorv1.GroupVersion.String()
	object["kind"] = "Klusterlet"
	delete(object, "status")
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "creationTimestamp")
		delete(metadata, "managedFields")
		delete(metadata, "resourceVersion")
	}
	patch, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("marshalling: %w", err)
	}
	return patch, nil
}
