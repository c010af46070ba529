// Copyright Contributors to the Open Cluster Management project

package exchange

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
)

// fieldManager owns what is created on clusters.
const fieldManager = "import-provider"

// mintBy returns what mints the tokens of an account: by the present token while there is one that the cluster takes, else by the
// given credential. Where that is nil, without is the error.
func (e *exchanger) mintBy(config, given *rest.Config, who account, without error) tokensource.Renew {
	return func(ctx context.Context, current tokensource.Token) (tokensource.Token, error) {
		if current.Value != "" {
			bound := rest.CopyConfig(config)
			bound.BearerToken = current.Value
			client, done, err := e.client(bound)
			if err != nil {
				return tokensource.Token{}, err
			}
			defer done()
			token, err := e.requestToken(ctx, client, who)
			if given == nil || !isRefusal(err) {
				return token, failure(ctx, err, "renewing the token of the ServiceAccount", whoGrants)
			}
		}
		if given == nil {
			return tokensource.Token{}, without
		}
		return e.exchange(ctx, given, who)
	}
}

// exchange asks for a token by the given credential.
func (e *exchanger) exchange(ctx context.Context, given *rest.Config, who account) (tokensource.Token, error) {
	client, done, err := e.client(given)
	if err != nil {
		return tokensource.Token{}, err
	}
	defer done()
	if who.create {
		if err := createAccount(ctx, client, who); err != nil {
			return tokensource.Token{}, err
		}
	}
	token, err := e.requestToken(ctx, client, who)
	if apierrors.IsNotFound(err) {
		return tokensource.Token{}, invalid("the ServiceAccount does not exist on the cluster; apply manifests/managed-cluster there, " +
			"set tokenRequest.create to true, or correct tokenRequest.serviceAccount")
	}
	return token, failure(ctx, err, "asking for a token of the ServiceAccount", whoGrants)
}

// client returns a client of the cluster, and what closes its connections.
func (e *exchanger) client(config *rest.Config) (client *corev1client.CoreV1Client, done func(), err error) {
	httpClient, err := e.options.HTTPClient(config)
	if err != nil {
		return nil, nil, credential.Invalid(err)
	}
	client, err = corev1client.NewForConfigAndClient(&rest.Config{
		Host: config.Host, ContentConfig: rest.ContentConfig{AcceptContentTypes: runtime.ContentTypeJSON, ContentType: runtime.ContentTypeJSON},
	}, httpClient)
	if err != nil {
		return nil, nil, fmt.Errorf("building the client of the cluster: %w", err)
	}
	return client, httpClient.CloseIdleConnections, nil
}

// requestToken creates a TokenRequest. The token is for the API server alone, which is what no audience means.
func (e *exchanger) requestToken(ctx context.Context, client *corev1client.CoreV1Client, who account) (tokensource.Token, error) {
	asked := e.options.Clock.Now()
	answer, err := client.ServiceAccounts(who.namespace).CreateToken(ctx, who.name, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(who.lifetime / time.Second))},
	}, metav1.CreateOptions{})
	if err != nil {
		return tokensource.Token{}, err //nolint:wrapcheck // failure gives it a text.
	}
	// An API server may grant less. One that claims to grant more is not believed.
	expiry := answer.Status.ExpirationTimestamp.Time
	if latest := asked.Add(who.lifetime); expiry.IsZero() || expiry.After(latest) {
		expiry = latest
	}
	return tokensource.Token{Value: answer.Status.Token, Expiry: expiry}, nil
}

// createAccount applies manifests/managed-cluster. It is done at every exchange, and not only if there is no account yet, since a new
// version of the manifests may allow more.
func createAccount(ctx context.Context, client *corev1client.CoreV1Client, who account) error {
	objects, err := objectsFor(who)
	if err != nil {
		return err
	}
	for _, object := range objects {
		data, err := object.MarshalJSON()
		if err != nil {
			return fmt.Errorf("encoding manifests/managed-cluster: %w", err)
		}
		err = client.RESTClient().Patch(types.ApplyPatchType).AbsPath(pathOf(object)).
			Param("fieldManager", fieldManager).Param("force", "true").Body(data).Do(ctx).Error()
		if err != nil {
			return failure(ctx, err, "creating the "+object.GetKind()+" of the ServiceAccount", whoCreates)
		}
	}
	return nil
}

// pathOf is the path of an object on the API server.
func pathOf(object *unstructured.Unstructured) string {
	resource, _ := meta.UnsafeGuessKindToResource(object.GroupVersionKind())
	path := "/apis/" + resource.GroupVersion().String()
	if resource.Group == "" {
		path = "/api/" + resource.Version
	}
	if namespace := object.GetNamespace(); namespace != "" {
		path += "/namespaces/" + namespace
	}
	return path + "/" + resource.Resource + "/" + object.GetName()
}

// Next steps.
const (
	whoGrants  = "let it create serviceaccounts/token, as manifests/managed-cluster lets the account itself"
	whoCreates = "apply manifests/managed-cluster to the cluster and remove tokenRequest.create, or use the credential of an administrator"
	whoRefuses = "see what refuses it on the cluster, such as an admission policy"
)

// isRefusal says whether another credential may have success.
func isRefusal(err error) bool {
	return apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err)
}

// failure is the error for a request that failed; grant is the next step if a permission is lacking. It is a MintError for what the
// cluster does not let the credential do, and a ClusterError for what it would not let it do without an exchange either. nil stays nil.
func failure(ctx context.Context, err error, doing, grant string) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var status *apierrors.StatusError
	switch {
	case apierrors.IsForbidden(err):
		return credential.MintFailed(errors.New(doing + ": the credential may not do that; " + grant))
	case errors.As(err, &status) && isOfRequest(int(status.ErrStatus.Code)):
		// By the contract of Options.HTTPClient.
		return credential.MintFailed(errors.New(doing + ": " + status.ErrStatus.Message + "; " + whoRefuses))
	}
	return credential.ClusterFailed(err)
}

// isOfRequest says whether a status code is about what was asked for, and not about who asks or how the cluster is.
func isOfRequest(code int) bool {
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError &&
		code != http.StatusUnauthorized && code != http.StatusTooManyRequests
}
