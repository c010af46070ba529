// Copyright Contributors to the Open Cluster Management project

// Package aks is the resolver for clusters of Azure Kubernetes Service: it mints Microsoft Entra ID tokens in process, from the
// hub's own workload identity or managed identity.
//
// # Usage
//
// A Secret holds the kubeconfig that "az aks get-credentials" wrote, converted by kubelogin or not, or names the cluster in a
// credential.Document:
//
//	aks: {subscription: …, resourceGroup: …, cluster: …}
//
// An exec stanza says that the token comes from Entra ID; it does not choose how the hub logs in. Modes in which a person logs
// in (devicecode, interactive, azurecli, azd, ropc) are therefore served by the identity of the hub, and their client ID, which is
// that of a public application, is ignored. In the modes spn, msi and workloadidentity the client ID is the identity to use.
//
// # What it promises
//
// Nothing of a stanza but IDs is used: no file, no secret, no authority. The policy says which identities may be used; a
// Secret that names none gets the hub's only where hubIdentity allows that.
//
// A token for AKS is good at every cluster that lets the identity in. So it is minted only after Azure Resource Manager has said,
// in a subscription that the policy names, that a cluster has this server and this CA, or if the administrator pinned them. Of the
// kubeconfig that Azure Resource Manager sends, only server and CA are read.
//
// # Trade-offs
//
// azidentity finds managed identities by variables of the process such as IDENTITY_ENDPOINT, and logs if AZURE_SDK_GO_LOGGING
// is set: both are the administrator's. It keeps tokens of managed identities in memory for the whole process, one for each identity
// and audience; they are not taken from there.
//
// The tenant of a managed identity cannot be chosen, so that one that a Secret names is not looked at.
package aks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/cloud"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

// serverApplication is what tokens for AKS are issued for: the application "Azure Kubernetes Service AAD Server", which has the same
// ID in all clouds (kubelogin's documentation, "Using kubelogin with AKS").
const serverApplication = "6dae42f8-4368-4678-94ff-3960e28e3630"

// resolver holds no state besides its options.
type resolver struct{ options cloud.Options }

var _ credential.StanzaResolver = (*resolver)(nil)

// New returns the resolver. Besides the errors of the kubeconfig resolver it returns an InvalidError for a stanza with anything
// but what the package describes and for a cluster that does not exist or does not use Entra ID, a DeniedError for what the policy
// does not allow and for a server that is not that of the cluster, a PendingError for a cluster that is being created or is
// stopped, and a MintError if Entra ID or Azure Resource Manager refuses or fails.
func New(o cloud.Options) credential.StanzaResolver {
	o.Default()
	return &resolver{options: o}
}

// Resolve implements credential.Resolver.
func (r *resolver) Resolve(ctx context.Context, req credential.Request) (*rest.Config, error) {
	section := func(d *credential.Document) *credential.AKSParameters { return d.AKS }
	return credential.ResolveForm(ctx, req, r.options.Kubeconfig, section, r.resolveDocument, r.ResolveStanza)
}

// ResolveStanza implements credential.StanzaResolver.
func (r *resolver) ResolveStanza(ctx context.Context, req credential.Request, kubeconfig *restconfig.Kubeconfig) (*rest.Config, error) {
	s, err := readStanza(kubeconfig.Exec)
	if err != nil {
		return nil, err
	}
	current := r.options.Policy()
	rule := current.Rule(req.Secret.Namespace).AKS
	env, err := environmentOf(current.Clouds().Azure, r.options.Getenv)
	if err != nil {
		return nil, err
	}
	if !env.is(s) {
		return nil, errOtherEnvironment
	}
	who, err := r.identify(rule, env, s.clientID, s.tenantID)
	if err != nil {
		return nil, err
	}
	config := kubeconfig.Config
	pinned := current.IsPinned(config.Host, config.CAData) && !config.Insecure && config.ServerName == ""
	if !pinned && len(rule.Subscriptions) == 0 {
		return nil, errNoSubscriptions
	}
	// All that the decision to mint depends on is in the key: a policy that changes does not leave a token behind.
	parameters := fmt.Sprintf("%s pinned=%t subscriptions=%s", who.key(), pinned, strings.Join(rule.Subscriptions, ","))
	manager := r.resourceManager(req, who, env)
	mint := func(ctx context.Context) (tokensource.Token, error) {
		if !pinned {
			endpoint, err := manager.find(ctx, rule.Subscriptions, config.Host)
			if err != nil {
				return tokensource.Token{}, err
			}
			if err := endpoint.Binding(config); err != nil {
				return tokensource.Token{}, err
			}
		}
		return who.token(ctx, serverApplication)
	}
	return cloud.WithTokens(ctx, config, r.options.Tokens.Source(cloud.Key(credential.ResolverAKS, req, config, parameters), mint))
}

// resolveDocument is for a cluster that is named.
func (r *resolver) resolveDocument(ctx context.Context, req credential.Request, p *credential.AKSParameters) (*rest.Config, error) {
	if err := checkDocument(p); err != nil {
		return nil, err
	}
	current := r.options.Policy()
	rule := current.Rule(req.Secret.Namespace).AKS
	if !slices.ContainsFunc(rule.Subscriptions, func(s string) bool { return strings.EqualFold(s, p.Subscription) }) {
		return nil, errSubscription
	}
	env, err := environmentOf(current.Clouds().Azure, r.options.Getenv)
	if err != nil {
		return nil, err
	}
	who, err := r.identify(rule, env, p.ClientID, p.TenantID)
	if err != nil {
		return nil, err
	}
	endpoint, err := r.resourceManager(req, who, env).get(ctx, clusterID{p.Subscription, p.ResourceGroup, p.Cluster})
	if err != nil {
		return nil, err
	}
	config, err := endpoint.Config()
	if err != nil {
		return nil, err
	}
	mint := func(ctx context.Context) (tokensource.Token, error) { return who.token(ctx, serverApplication) }
	return cloud.WithTokens(ctx, config, r.options.Tokens.Source(cloud.Key(credential.ResolverAKS, req, config, who.key()), mint))
}

// checkDocument checks the form of what will be part of addresses.
func checkDocument(p *credential.AKSParameters) error {
	for _, field := range []struct {
		name, value string
		required    bool
		valid       func(string) bool
		form        string
	}{
		{"aks.subscription", p.Subscription, true, isUUID, "a UUID"},
		{"aks.resourceGroup", p.ResourceGroup, true, isResourceGroup, "the name of a resource group"},
		{"aks.cluster", p.Cluster, true, isClusterName, "the name of a cluster of Azure Kubernetes Service"},
		{"aks.clientID", p.ClientID, false, isUUID, "a UUID"},
		{"aks.tenantID", p.TenantID, false, isUUID, "a UUID"},
	} {
		switch {
		case field.value == "" && field.required:
			return credential.Missing(field.name)
		case field.value != "" && !field.valid(field.value):
			return credential.Invalid(fmt.Errorf("data key %s: %s must be %s", credential.DocumentKey, field.name, field.form))
		}
	}
	return nil
}

// What the policy does not allow.
var (
	errOtherEnvironment = credential.Denied(errors.New("the cloud or the authority that the exec stanza names is not that of the hub: " +
		"correct it, or let the administrator of the hub set clouds.azure in the policy"))
	errNoSubscriptions = credential.Denied(errors.New("the policy of the hub does not say where clusters of Azure Kubernetes Service are: " +
		"let the administrator of the hub add the subscription to aks.subscriptions, or the cluster to endpoints.pinned"))
	errSubscription = credential.Denied(fmt.Errorf("data key %s: the policy of the hub does not allow aks.subscription: "+
		"correct it, or let the administrator of the hub add it to aks.subscriptions", credential.DocumentKey))
	errClientID = credential.Denied(errors.New("the policy of the hub does not allow the client ID: " +
		"correct it, or let the administrator of the hub add it to aks.clientIDs"))
	errNoClientID = credential.Denied(errors.New("no client ID is named, and the policy of the hub does not allow its own identity: " +
		"name one, or let the administrator of the hub set aks.hubIdentity"))
	errTenantID = credential.Denied(errors.New("the tenant is not that of the identity of the hub: " +
		"correct or remove it, or name a client ID that aks.clientIDs of the policy of the hub allows"))
)

// allowsClientID compares without regard to case: Azure writes UUIDs in either.
func allowsClientID(patterns []string, id string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		return policy.Matches([]string{strings.ToLower(pattern)}, strings.ToLower(id))
	})
}
