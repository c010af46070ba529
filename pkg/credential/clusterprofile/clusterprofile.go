// Copyright Contributors to the Open Cluster Management project

// Package clusterprofile is the credential resolver for clusters that a ClusterProfile of the hub describes: where the cluster is,
// and by which access providers it is reached. How a provider works is in a file of the administrator, in the form that
// sigs.k8s.io/cluster-inventory-api has for it, so that other users of ClusterProfiles and this one can share the file.
//
// The command of a provider is not run from here: another resolver serves it, as it would the exec stanza of a kubeconfig, with
// its checks and its part of the policy. Of a profile, which whoever may write its status controls, only the server and the CA
// are used, under the rules of a kubeconfig. Arguments and environment are used if the policy says so. The configuration for the
// plugin, the extension client.authentication.k8s.io/exec, is not passed on.
package clusterprofile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

const (
	// missingRetry is for a profile, or its status, that somebody else has yet to write; nothing here watches it.
	missingRetry = 30 * time.Second

	clusterField  = "clusters[].cluster."
	providerField = "status.accessProviders[].cluster."
	insecureField = providerField + "insecure-skip-tls-verify"
)

var errNoAPI = credential.MintFailed(errors.New("the hub has no ClusterProfile API: let the administrator of the hub install it, such as by " +
	"the feature gate ClusterProfile of the ClusterManager"))

// Options configure the resolver.
type Options struct {
	// Get reads a ClusterProfile of the hub. What it returns is not changed. Without it the hub has no such API.
	Get func(ctx context.Context, namespace, name string) (*clusterinventoryv1alpha1.ClusterProfile, error)
	// Policy returns what the administrator allows now. Required.
	Policy func() *policy.Policy
	// Resolvers serve the commands of the providers, by name. Required.
	Resolvers map[string]credential.StanzaResolver
	// ProviderFile is the path of the file of access providers, in the form of sigs.k8s.io/cluster-inventory-api. It is read once.
	// Without one every ClusterProfile is denied.
	ProviderFile string
}

type resolver struct {
	options   Options
	providers []provider
}

// New returns the resolver. The error says what is wrong with the provider file.
func New(o Options) (credential.Resolver, error) {
	r := &resolver{options: o}
	if o.ProviderFile == "" {
		return r, nil
	}
	var err error
	r.providers, err = readProviders(o.ProviderFile)
	return r, err
}

// Resolve implements credential.Resolver.
func (r *resolver) Resolve(ctx context.Context, req credential.Request) (*rest.Config, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if req.Secret == nil {
		return nil, errors.New("the request has no secret")
	}
	parameters, err := parametersOf(req)
	if err != nil {
		return nil, err
	}
	rule := r.options.Policy().Rule(req.Secret.Namespace)
	if !policy.Matches(rule.ClusterProfiles.Namespaces, parameters.Namespace) {
		return nil, credential.Denied(errors.New("the policy of the hub does not allow ClusterProfiles of the namespace that it names; let the " +
			"administrator of the hub add the namespace to clusterProfiles.namespaces of the rule"))
	}
	if len(r.providers) == 0 {
		return nil, credential.Denied(errors.New("the hub has no access providers for ClusterProfiles; let the administrator of the hub give " +
			"them by --clusterprofile-provider-file"))
	}
	if r.options.Get == nil {
		return nil, errNoAPI
	}
	profile, err := r.options.Get(ctx, parameters.Namespace, parameters.Name)
	if err != nil {
		return nil, readFailed(ctx, err)
	}
	p, cluster, err := choose(r.providers, profile)
	if err != nil {
		return nil, err
	}
	exec, err := p.exec(cluster, rule.ClusterProfiles)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := build(parameters.Name, p.Name, cluster, exec, r.options.Policy().Proxies())
	if err != nil {
		return nil, err
	}
	name := credential.RecogniseStanza(kubeconfig.Exec)
	resolver, found := r.options.Resolvers[name]
	if !found || !policy.Matches(rule.Resolvers, name) {
		return nil, credential.Denied(fmt.Errorf("the credential resolver %s, which serves the access provider %q, is not enabled; let the "+
			"administrator of the hub add it to resolvers of the rule", name, p.Name))
	}
	config, err := resolver.ResolveStanza(ctx, req, kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("access provider %q by credential resolver %s: %w", p.Name, name, err)
	}
	return config, nil
}

func parametersOf(req credential.Request) (*credential.ClusterProfileParameters, error) {
	document, err := credential.ReadDocument(req.Secret)
	switch {
	case err != nil:
		return nil, err //nolint:wrapcheck // it names the data key.
	case document.ClusterProfile == nil:
		return nil, credential.Missing("clusterProfile")
	case document.ClusterProfile.Namespace == "":
		return nil, credential.Missing("clusterProfile.namespace")
	case document.ClusterProfile.Name == "":
		return nil, credential.Missing("clusterProfile.name")
	}
	// They become part of a URL.
	if len(validation.IsDNS1123Label(document.ClusterProfile.Namespace)) > 0 || len(validation.IsDNS1123Subdomain(document.ClusterProfile.Name)) > 0 {
		return nil, credential.Invalid(fmt.Errorf("data key %s: clusterProfile.namespace or clusterProfile.name is not valid: write them as the hub "+
			"has them", credential.DocumentKey))
	}
	return document.ClusterProfile, nil
}

// readFailed is the error for a profile that was not read. The text of the API server is left out: it may have a time in it.
func readFailed(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	// For a name that does not exist the server tells the kind of the object; for an API that does not exist it has none.
	case meta.IsNoMatchError(err), apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return errNoAPI
	case apierrors.IsNotFound(err):
		return credential.Pending(errors.New("the ClusterProfile that it names does not exist: wait for it, or correct namespace and name"), missingRetry)
	case apierrors.IsForbidden(err):
		return credential.MintFailed(errors.New("the import controller may not read ClusterProfiles: let the administrator of the hub give it the " +
			"permissions that manifests/rbac has"))
	default:
		return credential.MintFailed(errors.New("the ClusterProfile that it names cannot be read from the hub: it is tried again"))
	}
}

// choose returns the first provider of the file that the profile offers, and the cluster that it leads to.
func choose(providers []provider, profile *clusterinventoryv1alpha1.ClusterProfile) (provider, *clientcmdapiv1.Cluster, error) {
	if profile == nil || len(profile.Status.AccessProviders)+len(profile.Status.CredentialProviders) == 0 {
		return provider{}, nil, credential.Pending(errors.New("the ClusterProfile that it names has no access providers in its status yet"), missingRetry)
	}
	// The older field comes first and each replaces those before of its name, as in upstream's library.
	offered := map[string]*clientcmdapiv1.Cluster{}
	for _, list := range [][]clusterinventoryv1alpha1.AccessProvider{profile.Status.CredentialProviders, profile.Status.AccessProviders} {
		for i := range list {
			offered[list[i].Name] = &list[i].Cluster
		}
	}
	for _, p := range providers {
		if cluster, found := offered[p.Name]; found {
			return p, cluster, nil
		}
	}
	return provider{}, nil, credential.Denied(errors.New("the ClusterProfile that it names has no access provider that the hub knows; let the " +
		"administrator of the hub add one of its access providers to the file of --clusterprofile-provider-file"))
}

// build makes a kubeconfig of cluster and command, so that one set of rules is applied to both sources, and reads it. The result
// shares no memory with either.
func build(profile, name string, cluster *clientcmdapiv1.Cluster, exec clientcmdapiv1.ExecConfig, proxies []string) (*restconfig.Kubeconfig, error) {
	copied := *cluster
	copied.Extensions = nil
	data, err := json.Marshal(clientcmdapiv1.Config{
		Clusters:  []clientcmdapiv1.NamedCluster{{Name: profile, Cluster: copied}},
		AuthInfos: []clientcmdapiv1.NamedAuthInfo{{Name: name, AuthInfo: clientcmdapiv1.AuthInfo{Exec: &exec}}},
		Contexts:  []clientcmdapiv1.NamedContext{{Name: profile, Context: clientcmdapiv1.Context{Cluster: profile, AuthInfo: name}}},
	})
	if err != nil {
		return nil, errors.New("writing a kubeconfig failed")
	}
	kubeconfig, err := restconfig.Parse(data, restconfig.Options{Exec: true, Proxies: proxies})
	var broken *restconfig.FieldError
	switch {
	case err == nil:
		return kubeconfig, nil
	case !errors.As(err, &broken):
		return nil, errors.New("reading a kubeconfig failed")
	}
	// As the one sees it who reads the profile.
	named := *broken
	if field, ofCluster := strings.CutPrefix(named.Field, clusterField); ofCluster {
		named.Field, named.Entry = providerField+field, fmt.Sprintf("%q", name)
	}
	if named.Field == insecureField {
		// No option of the administrator accepts it here.
		named.Reason, named.NextStep = restconfig.ReasonForbidden, "remove it and put the CA in certificate-authority-data"
	}
	err = fmt.Errorf("the ClusterProfile that it names: %w", &named)
	if named.Reason == restconfig.ReasonDenied {
		return nil, credential.Denied(err)
	}
	return nil, credential.Invalid(err)
}
