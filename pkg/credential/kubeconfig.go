// Copyright Contributors to the Open Cluster Management project

package credential

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/restconfig"
)

// KubeconfigOptions are the choices of the kubeconfig resolver. The zero value is the safe one.
type KubeconfigOptions struct {
	// InsecureSkipTLSVerify accepts kubeconfigs with insecure-skip-tls-verify. Default: false, they are a DeniedError.
	InsecureSkipTLSVerify bool
	// Proxies returns the values of proxy-url that are accepted. Default: none.
	Proxies func() []string
}

func (o KubeconfigOptions) restconfig() restconfig.Options {
	options := restconfig.Options{InsecureSkipTLSVerify: o.InsecureSkipTLSVerify}
	if o.Proxies != nil {
		options.Proxies = o.Proxies()
	}
	return options
}

// kubeconfigResolver holds no state besides its options.
type kubeconfigResolver struct{ options KubeconfigOptions }

// NewKubeconfigResolver returns the resolver for Secrets that hold a kubeconfig. The data key is the one that
// AnnotationKubeconfigKey names; by default the first that is present of kubeconfig (ACM and Open Cluster Management),
// value (Cluster API, Flux, Fleet), value.yaml (Flux), config (vCluster) and admin.conf (Kamaji). Other keys, such as ACM's
// autoImportRetry, are not read. The context is the one that AnnotationKubeconfigContext names. What a kubeconfig may hold
// is the business of package restconfig.
//
// Every error is an InvalidError or a DeniedError, except that of a context that is done.
func NewKubeconfigResolver(o KubeconfigOptions) Resolver {
	return &kubeconfigResolver{options: o}
}

// kubeconfigKeys are the data keys that are looked for, in this order.
func kubeconfigKeys() []string {
	return []string{"kubeconfig", "value", "value.yaml", "config", "admin.conf"}
}

// Resolve implements Resolver.
func (r *kubeconfigResolver) Resolve(ctx context.Context, req Request) (*rest.Config, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if req.Secret == nil {
		return nil, errors.New("the request has no secret")
	}
	options := r.options.restconfig()
	kubeconfig, err := parseKubeconfig(req.Secret, options)
	if err != nil {
		// A stanza is for another resolver, which was not found for what else is wrong with the file: that is what to mend.
		options.Exec = true
		if _, other := parseKubeconfig(req.Secret, options); other != nil {
			return nil, other
		}
		return nil, err
	}
	return kubeconfig.Config, nil
}

// ParseStanza returns the kubeconfig of a Secret, in the context that is asked for, with its exec stanza; resolvers that serve
// stanzas use it. Errors are those of the kubeconfig resolver, and an InvalidError if there is no stanza.
func ParseStanza(secret *corev1.Secret, o KubeconfigOptions) (*restconfig.Kubeconfig, error) {
	options := o.restconfig()
	options.Exec = true
	kubeconfig, err := parseKubeconfig(secret, options)
	if err != nil {
		return nil, err
	}
	if kubeconfig.Exec == nil {
		return nil, Invalid(fmt.Errorf("the kubeconfig has no exec stanza: add one, or the data key %s", DocumentKey))
	}
	return kubeconfig, nil
}

func parseKubeconfig(secret *corev1.Secret, o restconfig.Options) (*restconfig.Kubeconfig, error) {
	key, err := kubeconfigKey(secret)
	if err != nil {
		return nil, Invalid(err)
	}
	o.Context = secret.Annotations[AnnotationKubeconfigContext]
	kubeconfig, err := restconfig.Parse(secret.Data[key], o)
	if err != nil {
		return nil, refused(fmt.Errorf("data key %s: %w", key, nameAnnotation(err)))
	}
	return kubeconfig, nil
}

// kubeconfigKey finds the data key that holds the kubeconfig.
func kubeconfigKey(secret *corev1.Secret) (string, error) {
	if key := secret.Annotations[AnnotationKubeconfigKey]; key != "" {
		if _, found := secret.Data[key]; !found {
			return "", fmt.Errorf("the annotation %s names a data key that the secret does not have", AnnotationKubeconfigKey)
		}
		return key, nil
	}
	for _, key := range kubeconfigKeys() {
		if _, found := secret.Data[key]; found {
			return key, nil
		}
	}
	_, hasServer := secret.Data[tokenKeyServer]
	_, hasToken := secret.Data[tokenKeyToken]
	if hasServer && hasToken && secret.Annotations[AnnotationCredentialResolver] == "" {
		// ACM's auto-import-secret of type auto-import/kubetoken, which users bring as it is.
		return "", fmt.Errorf("no kubeconfig, but %s and %s: set the annotation %s to %s",
			tokenKeyServer, tokenKeyToken, AnnotationCredentialResolver, ResolverToken)
	}
	return "", fmt.Errorf("no kubeconfig: put it under one of the data keys %s, or name its key with the annotation %s",
		strings.Join(kubeconfigKeys(), ", "), AnnotationKubeconfigKey)
}

// nameAnnotation adds the annotation to the errors that it can solve: package restconfig does not know about Secrets.
func nameAnnotation(err error) error {
	var broken *restconfig.FieldError
	if !errors.As(err, &broken) {
		return err
	}
	named := *broken
	switch {
	case broken.Reason == restconfig.ReasonAmbiguous:
		named.NextStep += ", or set the annotation " + AnnotationKubeconfigContext
	case broken.Reason == restconfig.ReasonNotFound && broken.Field == restconfig.ContextOption:
		named.NextStep = "set the annotation " + AnnotationKubeconfigContext + " to a context of the file"
	default:
		return err
	}
	return &named
}
