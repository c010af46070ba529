// Copyright Contributors to the Open Cluster Management project

package credential

import (
	"context"
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/restconfig"
)

// StanzaResolver is a Resolver that serves exec stanzas, of a kubeconfig or of another source, without running their command.
type StanzaResolver interface {
	Resolver
	// ResolveStanza returns a config for the cluster of kubeconfig, whose Exec is set, under the contract of Resolver.Resolve.
	ResolveStanza(ctx context.Context, req Request, kubeconfig *restconfig.Kubeconfig) (*rest.Config, error)
}

// ResolveForm is Resolve of a resolver that serves stanzas: by named for the section of the Document that is its own or, without
// one, by stanza for the kubeconfig. Errors are theirs, those of ReadDocument and ParseStanza, and that of a context that is done.
func ResolveForm[P any](ctx context.Context, req Request, o KubeconfigOptions, section func(*Document) *P,
	named func(context.Context, Request, *P) (*rest.Config, error),
	stanza func(context.Context, Request, *restconfig.Kubeconfig) (*rest.Config, error),
) (*rest.Config, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if req.Secret == nil {
		return nil, errors.New("the request has no secret")
	}
	document, err := ReadDocument(req.Secret)
	if err != nil {
		return nil, err
	}
	if parameters := section(document); parameters != nil {
		return named(ctx, req, parameters)
	}
	kubeconfig, err := ParseStanza(req.Secret, o)
	if err != nil {
		return nil, err
	}
	return stanza(ctx, req, kubeconfig)
}

// RecogniseStanza returns the name of the resolver that serves a command: by its base name, since the path is that of
// somebody's machine. Commands that are not known are for the resolver exec.
func RecogniseStanza(stanza *restconfig.Exec) string {
	switch CommandName(stanza) {
	case "aws", "aws-iam-authenticator":
		return ResolverEKS
	case "gke-gcloud-auth-plugin":
		return ResolverGKE
	case "kubelogin":
		return ResolverAKS
	case "argocd-k8s-auth":
		if len(stanza.Args) > 0 {
			switch stanza.Args[0] {
			case "aws":
				return ResolverEKS
			case "gcp":
				return ResolverGKE
			case "azure":
				return ResolverAKS
			}
		}
	}
	return ResolverExec
}

// CommandName is the base name of the command of a stanza, without .exe.
func CommandName(stanza *restconfig.Exec) string {
	name := stanza.Command[strings.LastIndexAny(stanza.Command, `/\`)+1:]
	return strings.TrimSuffix(name, ".exe")
}

// recognise returns the name of the resolver that a Secret without AnnotationCredentialResolver is for.
func recognise(secret *corev1.Secret, proxies []string) string {
	// What is wrong with either file the resolver says.
	if document, err := ReadDocument(secret); err == nil {
		if name := document.resolver(); name != "" {
			return name
		}
	}
	if kubeconfig, err := parseKubeconfig(secret, restconfig.Options{InsecureSkipTLSVerify: true, Exec: true, Proxies: proxies}); err == nil && kubeconfig.Exec != nil {
		return RecogniseStanza(kubeconfig.Exec)
	}
	return ResolverKubeconfig
}
