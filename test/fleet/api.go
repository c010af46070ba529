// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	apimachineryversion "k8s.io/apimachinery/pkg/version"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const (
	contentTypeJSON = runtime.ContentTypeJSON
	// maxBodyBytes is what an API server takes of one request.
	maxBodyBytes = 3 << 20
	// justEstablished is how long a CustomResourceDefinition holds creates back (apiextensions-apiserver, the create handler).
	justEstablished = 2 * time.Second
)

var servedVersion = apimachineryversion.Info{Major: "1", Minor: "34", GitVersion: "v1.34.4", Platform: "linux/amd64"}

// protobufDecoder decodes what clients send that prefer protobuf.
var protobufDecoder = func() runtime.Decoder {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	return serializer.NewCodecFactory(scheme).UniversalDeserializer()
}()

// target is what the path of a request names.
type target struct {
	kind
	namespace, name, subresource string
}

// serveAPI answers a request whose credential was accepted.
func (c *Cluster) serveAPI(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/version":
		writeJSON(w, http.StatusOK, servedVersion)
		return
	case "/healthz", "/livez", "/readyz":
		_, _ = io.WriteString(w, "ok")
		return
	}
	kinds := c.store.kinds()
	if document := discover(kinds, r.URL.Path); document != nil {
		writeJSON(w, http.StatusOK, document)
		return
	}
	t, ok := findTarget(kinds, r.URL.Path)
	switch {
	case !ok && slices.ContainsFunc(builtIn, func(k kind) bool { return k.group == t.group && k.version == t.version }):
		writeError(w, apierrors.NewGenericServerResponse(http.StatusNotFound, r.Method, t.groupResource(), t.name, "", 0, false))
		return
	case !ok:
		http.Error(w, "404 page not found", http.StatusNotFound)
		return
	}
	code, answer, err := c.serveResource(r, t)
	switch {
	case err != nil:
		writeError(w, err)
	default:
		write(w, code, answer)
	}
}

// findTarget takes a path of the API to pieces, and says whether it is served.
func findTarget(kinds []kind, path string) (target, bool) {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	var t target
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		t.version, parts = parts[1], parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		t.group, t.version, parts = parts[1], parts[2], parts[3:]
	default:
		return target{}, false
	}
	if parts[0] == namespaceResource && len(parts) > 2 && (t.group != "" || !slices.Contains([]string{"status", "finalize"}, parts[2])) {
		t.namespace, parts = parts[1], parts[2:]
	}
	t.resource, parts = parts[0], parts[1:]
	if len(parts) > 0 {
		t.name, parts = parts[0], parts[1:]
	}
	if len(parts) > 0 {
		t.subresource, parts = parts[0], parts[1:]
	}
	i := slices.IndexFunc(kinds, func(k kind) bool {
		return k.group == t.group && k.version == t.version && k.resource == t.resource
	})
	if i < 0 || len(parts) > 0 || kinds[i].namespaced && t.namespace == "" && t.name != "" {
		return t, false
	}
	t.kind = kinds[i]
	return t, true
}

// serveResource returns code and body of the answer, or the error that is the answer.
func (c *Cluster) serveResource(r *http.Request, t target) (int, []byte, error) {
	query := r.URL.Query()
	dryRun := query.Get("dryRun") == metav1.DryRunAll
	switch {
	case r.Method == http.MethodGet && t.name != "":
		data, err := c.store.get(t.kind, t.namespace, t.name)
		return http.StatusOK, data, err
	case r.Method == http.MethodGet && query.Get("watch") == "":
		return c.list(t, query.Get("labelSelector"))
	case r.Method == http.MethodPost && t.name == "":
		object, err := readObject(r)
		if err != nil {
			return 0, nil, err
		}
		if t.resource == reviewResource {
			object["status"] = map[string]any{"allowed": true}
			return http.StatusCreated, encode(object), nil
		}
		c.holdBack(r, t)
		data, err := c.store.create(t.kind, t.namespace, object, dryRun)
		return http.StatusCreated, data, err
	case r.Method == http.MethodPut && t.name != "":
		object, err := readObject(r)
		if err != nil {
			return 0, nil, err
		}
		change := replace(object)
		if t.subresource == "status" {
			change = replaceStatus(object)
		}
		data, err := c.store.update(t.kind, t.namespace, t.name, dryRun, change)
		return http.StatusOK, data, err
	case r.Method == http.MethodPatch && t.name != "":
		return c.patch(r, t, dryRun)
	case r.Method == http.MethodDelete && t.name != "":
		if err := c.store.remove(t.kind, t.namespace, t.name); err != nil {
			return 0, nil, err
		}
		data, err := json.Marshal(metav1.Status{
			TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusSuccess,
		})
		return http.StatusOK, data, err
	}
	return 0, nil, apierrors.NewMethodNotSupported(t.groupResource(), strings.ToLower(r.Method))
}

func (c *Cluster) list(t target, selector string) (int, []byte, error) {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return 0, nil, apierrors.NewBadRequest(err.Error())
	}
	items := c.store.list(t.kind, t.namespace, func(set map[string]string) bool { return parsed.Matches(labels.Set(set)) })
	list := metav1.List{
		TypeMeta: metav1.TypeMeta{Kind: t.kind.kind + "List", APIVersion: t.apiVersion()}, Items: items,
	}
	data, err := json.Marshal(list)
	return http.StatusOK, data, err
}

// holdBack waits as an API server does before it creates an object of a kind that is new.
func (c *Cluster) holdBack(r *http.Request, t target) {
	if !t.custom || c.fleet.options.CreateHold < 0 || time.Since(c.store.establishedAt(t.kind)) >= justEstablished {
		return
	}
	select {
	case <-time.After(c.fleet.options.CreateHold):
	case <-r.Context().Done():
	}
}

// patch merges; an apply creates what is absent.
func (c *Cluster) patch(r *http.Request, t target, dryRun bool) (int, []byte, error) {
	contentType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	apply := contentType == string(types.ApplyYAMLPatchType)
	if !apply && contentType != string(types.MergePatchType) {
		return 0, nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
			Message: "patches of this type are not simulated",
		}}
	}
	patch, err := readObject(r)
	if err != nil {
		return 0, nil, err
	}
	data, err := c.store.update(t.kind, t.namespace, t.name, dryRun, func(stored map[string]any) (map[string]any, error) {
		if t.subresource == "status" {
			patch = map[string]any{"status": patch["status"]}
		}
		merge(stored, patch)
		return stored, nil
	})
	if apply && t.subresource == "" && apierrors.IsNotFound(err) {
		metadataOf(patch)["name"] = t.name
		data, err = c.store.create(t.kind, t.namespace, patch, dryRun)
		return http.StatusCreated, data, err
	}
	return http.StatusOK, data, err
}

// readObject reads the body of a request, in whatever form it came.
func readObject(r *http.Request) (map[string]any, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBodyBytes+1))
	if err != nil || len(body) > maxBodyBytes {
		return nil, apierrors.NewRequestEntityTooLargeError("the body is too large or broke off")
	}
	contentType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	switch contentType {
	case runtime.ContentTypeProtobuf:
		typed, _, err := protobufDecoder.Decode(body, nil, nil)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		if body, err = json.Marshal(typed); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	case runtime.ContentTypeYAML, string(types.ApplyYAMLPatchType):
		if body, err = yaml.YAMLToJSON(body); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
	}
	object := map[string]any{}
	if err := utiljson.Unmarshal(body, &object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	return object, nil
}

func write(w http.ResponseWriter, code int, body []byte) {
	w.Header().Set("Content-Type", contentTypeJSON)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

func writeJSON(w http.ResponseWriter, code int, document any) {
	body, err := json.Marshal(document)
	if err != nil {
		panic("fleet: an answer can't be encoded: " + err.Error())
	}
	write(w, code, body)
}

// writeError answers with the Status of an error.
func writeError(w http.ResponseWriter, err error) {
	var failed *apierrors.StatusError
	if !errors.As(err, &failed) {
		failed = apierrors.NewInternalError(err)
	}
	status := failed.Status()
	status.Kind, status.APIVersion = "Status", "v1"
	writeJSON(w, int(status.Code), status)
}
