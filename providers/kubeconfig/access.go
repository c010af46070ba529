// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// maxParallelObjects bounds the objects that a cluster is asked about at a time.
	maxParallelObjects = 8
	// maxResourcesNamed bounds a condition's message; the klusterlet's manifests are of nine kinds.
	maxResourcesNamed = 10
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
	if resp.StatusCode == http.StatusForbidden {
		// Every authenticated user may ask. An API server that lets anonymous users in takes no credential for one of them.
		return false, lackingProblem([]permission{{"create", authorizationv1.Resource("selfsubjectaccessreviews").String()}})
	}
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

// permission is a verb that the credential lacks, and the resource in the form of schema.GroupResource.
type permission struct {
	verb, resource string
}

// lackingProblem names the permissions. They are of our own manifests, not of what the cluster answered.
func lackingProblem(lacking []permission) *problem {
	verbs := map[string]sets.Set[string]{}
	for _, p := range lacking {
		if verbs[p.resource] == nil {
			verbs[p.resource] = sets.New[string]()
		}
		verbs[p.resource].Insert(p.verb)
	}
	var named []string
	for i, resource := range slices.Sorted(maps.Keys(verbs)) {
		if i == maxResourcesNamed {
			named = append(named, fmt.Sprintf("and %d more", len(verbs)-i))
			break
		}
		named = append(named, strings.Join(sets.List(verbs[resource]), ", ")+" "+resource)
	}
	return &problem{reason: ReasonForbidden, detail: "the credential may not " + strings.Join(named, "; ")}
}

// authorize returns a problem that names what the credential lacks to put the objects on the cluster. It writes nothing:
// it sends gets, access reviews and creates that are dry runs.
func (c *connection) authorize(ctx context.Context, objects []*unstructured.Unstructured) error {
	// The chart renders in random order.
	objects = slices.SortedFunc(slices.Values(objects), func(a, b *unstructured.Unstructured) int {
		return strings.Compare(objectPath(a), objectPath(b))
	})
	reviews := &reviews{conn: c, asked: map[authorizationv1.ResourceAttributes]func() (bool, error){}}
	lacking := make([][]permission, len(objects))
	errs := make([]error, len(objects))
	var group errgroup.Group
	group.SetLimit(maxParallelObjects)
	for i, object := range objects {
		group.Go(func() error {
			lacking[i], errs[i] = reviews.lacking(ctx, object)
			return errs[i]
		})
	}
	if group.Wait() != nil {
		// Wait has the first in time, which is not the same in every attempt.
		return errs[slices.IndexFunc(errs, func(err error) bool { return err != nil })]
	}
	if all := slices.Concat(lacking...); len(all) > 0 {
		return lackingProblem(all)
	}
	return nil
}

// reviews are the access reviews of one authorization. Several objects of a kind need the same permissions.
type reviews struct {
	conn *connection

	lock  sync.Mutex // guards asked, for the time of a look-up
	asked map[authorizationv1.ResourceAttributes]func() (bool, error)
}

// may is connection.may, asked once.
func (r *reviews) may(ctx context.Context, what authorizationv1.ResourceAttributes) (bool, error) {
	r.lock.Lock()
	ask, ok := r.asked[what]
	if !ok {
		ask = sync.OnceValues(func() (bool, error) { return r.conn.may(ctx, what) })
		r.asked[what] = ask
	}
	r.lock.Unlock()
	return ask()
}

// lacking returns what the credential lacks to put one object on the cluster.
func (r *reviews) lacking(ctx context.Context, object *unstructured.Unstructured) ([]permission, error) {
	resource := resourceOf(object).GroupResource().String()
	var lacking []permission
	// The metadata alone: what a Secret of the cluster holds is nobody's business here.
	existing := &metav1.PartialObjectMetadata{}
	found, err := r.conn.read(ctx, object.GetKind(), existing, true, objectPath(object))
	var p *problem
	switch {
	case errors.As(err, &p) && p.reason == ReasonForbidden:
		lacking = append(lacking, permission{"get", resource})
	case err != nil:
		return nil, err
	}
	if !found {
		existing = nil
	}
	for _, verb := range verbsToApply(object, existing) {
		switch allowed, err := r.may(ctx, attributesOf(verb, object)); {
		case err != nil:
			return nil, err
		case !allowed:
			lacking = append(lacking, permission{verb, resource})
		}
	}
	what := attributesToGrant(object, found)
	if what == nil {
		return lacking, nil
	}
	allowed, err := r.mayGrant(ctx, *what, object)
	if err == nil && !allowed {
		lacking = append(lacking, permission{what.Verb, schema.GroupResource{Group: what.Group, Resource: what.Resource}.String()})
	}
	return lacking, err
}

// verbsToApply are what the importer does with an object after it got it. existing is nil if there is none.
//
//	kind                        absent          exists              source
//	Namespace, ServiceAccount   create          update, see below   ApplyNamespaceImproved, ApplyServiceAccountImproved
//	Klusterlet                  create, patch   update              klusterletClient.Create, importer.ApplyKlusterlet
//	all others                  create          update              Apply… of library-go's resourceapply
//
// An object is updated if it differs, a Deployment always. It is not compared here, so that what the next change of the
// manifests needs is known now. Namespaces and ServiceAccounts are: they are updated for their labels and annotations
// alone, which hardly change, and the role in manifests/managed-cluster does not allow it.
func verbsToApply(required *unstructured.Unstructured, existing *metav1.PartialObjectMetadata) []string {
	kind := required.GetKind()
	switch {
	case existing == nil && kind == "Klusterlet":
		return []string{"create", "patch"}
	case existing == nil:
		return []string{"create"}
	case (kind == "Namespace" || kind == "ServiceAccount") &&
		includes(existing.Labels, required.GetLabels()) && includes(existing.Annotations, required.GetAnnotations()):
		return nil
	}
	return []string{"update"}
}

// includes is what library-go merges by (resourcemerge.MergeMap), but for keys that end in "-", which manifests don't have.
func includes(existing, required map[string]string) bool {
	for key, value := range required {
		if has, ok := existing[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// attributesOf are what an API server authorizes the importer's request by.
func attributesOf(verb string, object *unstructured.Unstructured) authorizationv1.ResourceAttributes {
	resource := resourceOf(object)
	what := authorizationv1.ResourceAttributes{
		Verb: verb, Group: resource.Group, Version: resource.Version, Resource: resource.Resource,
		Namespace: object.GetNamespace(), Name: object.GetName(),
	}
	if verb == "create" && object.GetKind() != "Klusterlet" {
		// The path of a create has no name. That of the Klusterlet is a patch, which has (apiserver, createAuthorizerAttributes).
		what.Name = ""
	}
	if object.GetKind() == "Namespace" {
		// An API server takes a namespace that a path names for one in itself (RequestInfoFactory of k8s.io/apiserver).
		what.Namespace = what.Name
	}
	return what
}

// attributesToGrant are what an API server authorizes by whoever grants more than the own permissions, with a role or a
// binding (RoleEscalationAuthorized and BindingAuthorized of the API server's RBAC). It is nil for all else.
func attributesToGrant(object *unstructured.Unstructured, exists bool) *authorizationv1.ResourceAttributes {
	what := authorizationv1.ResourceAttributes{Group: resourceOf(object).Group, Version: "*", Namespace: object.GetNamespace()}
	switch object.GetKind() {
	case "ClusterRole", "Role":
		what.Verb, what.Resource = "escalate", resourceOf(object).Resource
		if exists {
			// In the path of an update, not of a create.
			what.Name = object.GetName()
		}
	case "ClusterRoleBinding", "RoleBinding":
		what.Verb, what.Resource = "bind", "clusterroles"
		if kind, _, _ := unstructured.NestedString(object.Object, "roleRef", "kind"); kind == "Role" {
			what.Resource = "roles"
		}
		what.Name, _, _ = unstructured.NestedString(object.Object, "roleRef", "name")
	default:
		return nil
	}
	return &what
}

// mayGrant says whether the credential may grant what a role or a binding grants: by the verb for it, or by having it all
// itself, which only the API server can tell. It checks that before it finds that the object exists.
func (r *reviews) mayGrant(ctx context.Context, what authorizationv1.ResourceAttributes, object *unstructured.Unstructured) (bool, error) {
	if allowed, err := r.may(ctx, what); allowed || err != nil {
		return allowed, err
	}
	if allowed, err := r.may(ctx, attributesOf("create", object)); !allowed || err != nil {
		// A dry run would be refused for that. It is lacking already, or an update is what is needed.
		return true, err
	}
	resp, err := r.conn.requestWith(ctx, http.MethodPost, url.Values{"dryRun": {metav1.DryRunAll}}, object, collectionPath(object))
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusForbidden:
		return false, nil
	case resp.StatusCode == http.StatusNotFound && what.Verb == "bind":
		// The role is not there yet. Who can create it without having its permissions can't bind it without having them.
		what.Verb, what.Name = "escalate", ""
		escalates, err := r.may(ctx, what)
		return !escalates, err
	}
	if p := answerProblem(resp); p != nil {
		return false, p
	}
	// Any other refusal says nothing: a webhook has no dry run, and so on.
	return true, nil
}

func resourceOf(object *unstructured.Unstructured) schema.GroupVersionResource {
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	return resource
}

// collectionPath is where an object is created.
func collectionPath(object *unstructured.Unstructured) string {
	resource := resourceOf(object)
	path := "apis/" + resource.GroupVersion().String()
	if resource.Group == "" {
		path = "api/" + resource.Version
	}
	if namespace := object.GetNamespace(); namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + resource.Resource
}

func objectPath(object *unstructured.Unstructured) string {
	return collectionPath(object) + "/" + object.GetName()
}
