// Copyright Contributors to the Open Cluster Management project

package aks

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"time"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/cloud"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

const (
	// apiVersion is that of Microsoft.ContainerService, which armcontainerservice v6.6.0 has too.
	apiVersion = "2025-02-01"
	// maxPages bounds the list of the clusters of a subscription, which may have 5000 (limits of Azure Kubernetes Service).
	maxPages = 200
	// maxPageBytes bounds one page: a cluster takes about 10 KB.
	maxPageBytes = 8 << 20
	// waitForCreation, waitForStart and waitForQuota are how long to wait for the cluster, and for Azure Resource Manager.
	waitForCreation = 30 * time.Second
	waitForStart    = 5 * time.Minute
	waitForQuota    = time.Minute
)

// Answers of Azure Resource Manager, or what to make of them.
var (
	errUnauthorized = credential.MintFailed(errors.New("the token of the identity is refused by Azure Resource Manager: check the identity and its tenant"))
	errForbidden    = credential.MintFailed(errors.New("the identity may not read the cluster in Azure Resource Manager: " +
		"give it the role Azure Kubernetes Service Cluster User Role on the cluster, its resource group or its subscription"))
	errNotFound = credential.Invalid(errors.New("there is no such cluster in Azure Resource Manager: " +
		"correct the subscription, the resource group and the name, or create it"))
	errBusy     = credential.Pending(errors.New("too many requests for Azure Resource Manager: waiting"), waitForQuota)
	errManager  = credential.MintFailed(errors.New("no usable answer from Azure Resource Manager: it is tried again; if that does not help, check the network of the hub"))
	errNoEntra  = credential.Invalid(errors.New("the cluster does not use Microsoft Entra ID: enable that, or use a kubeconfig that holds a credential"))
	errCreating = credential.Pending(errors.New("the cluster is being created: waiting"), waitForCreation)
	errStopped  = credential.Pending(errors.New("the cluster is stopped: start it"), waitForStart)
	errNowhere  = credential.Denied(errors.New("no cluster in the subscriptions that the policy of the hub names has the server of the kubeconfig: correct it, or let " +
		"the administrator of the hub add the subscription to aks.subscriptions, or the cluster to endpoints.pinned"))
	errNotReadable = credential.MintFailed(errors.New("no cluster that the identity may read has the server of the kubeconfig, and it may not read all " +
		"subscriptions that the policy of the hub names: give it the role Azure Kubernetes Service Cluster User Role there"))
)

// resourceManager asks Azure Resource Manager where clusters are.
type resourceManager struct {
	client  *http.Client
	address string
	tokens  *tokensource.Source
}

// resourceManager returns the client for a Secret and an identity.
func (r *resolver) resourceManager(req credential.Request, who identity, env environment) resourceManager {
	key := tokensource.Key{
		Resolver: credential.ResolverAKS, SecretUID: req.Secret.UID, ResourceVersion: req.Secret.ResourceVersion,
		Endpoint: env.resourceManager, Parameters: who.key() + " audience=" + env.audience,
	}
	mint := func(ctx context.Context) (tokensource.Token, error) { return who.token(ctx, env.audience) }
	return resourceManager{client: r.options.HTTPClient, address: env.resourceManager, tokens: r.options.Tokens.Source(key, mint)}
}

// clusterID names a cluster.
type clusterID struct{ subscription, resourceGroup, name string }

func (c clusterID) path() string {
	return clustersOf("/subscriptions/"+url.PathEscape(c.subscription)+"/resourceGroups/"+url.PathEscape(c.resourceGroup)) +
		"/" + url.PathEscape(c.name)
}

func clustersOf(scope string) string {
	return scope + "/providers/Microsoft.ContainerService/managedClusters"
}

var idForm = regexp.MustCompile(`(?i)^/subscriptions/([^/]+)/resourcegroups/([^/]+)/providers/microsoft\.containerservice/managedclusters/([^/]+)$`)

// managedCluster is the part of a cluster that is read.
type managedCluster struct {
	ID         string `json:"id"`
	Properties struct {
		FQDN              string `json:"fqdn"`
		PrivateFQDN       string `json:"privateFQDN"`
		AzurePortalFQDN   string `json:"azurePortalFQDN"`
		ProvisioningState string `json:"provisioningState"`
		PowerState        struct {
			Code string `json:"code"`
		} `json:"powerState"`
	} `json:"properties"`
}

// servers are the addresses of the API server; all have port 443.
func (c managedCluster) servers() []string {
	var servers []string
	for _, name := range []string{c.Properties.FQDN, c.Properties.PrivateFQDN, c.Properties.AzurePortalFQDN} {
		if name != "" {
			servers = append(servers, "https://"+name)
		}
	}
	return servers
}

// find looks in subscriptions for the cluster that has a server.
func (m resourceManager) find(ctx context.Context, subscriptions []string, server string) (cloud.Endpoint, error) {
	unreadable := false
	for _, subscription := range subscriptions {
		found, err := m.findIn(ctx, subscription, server)
		switch {
		case errors.Is(err, errForbidden), errors.Is(err, errNotFound):
			unreadable = true // the cluster may be in another one.
		case err != nil:
			return cloud.Endpoint{}, err
		case found != nil:
			id := idForm.FindStringSubmatch(found.ID)
			if id == nil {
				return cloud.Endpoint{}, errManager
			}
			return m.endpoint(ctx, clusterID{id[1], id[2], id[3]}, *found)
		}
	}
	if unreadable {
		return cloud.Endpoint{}, errNotReadable
	}
	return cloud.Endpoint{}, errNowhere
}

// findIn looks in one subscription. Without a cluster that has the server the result is nil.
func (m resourceManager) findIn(ctx context.Context, subscription, server string) (*managedCluster, error) {
	target := clustersOf("/subscriptions/"+url.PathEscape(subscription)) + "?api-version=" + apiVersion
	for range maxPages {
		var page struct {
			Value    []managedCluster `json:"value"`
			NextLink string           `json:"nextLink"`
		}
		if err := m.do(ctx, http.MethodGet, target, &page); err != nil {
			return nil, err
		}
		for _, c := range page.Value {
			if slices.ContainsFunc(c.servers(), func(s string) bool { return policy.SameServer(s, server) }) {
				return &c, nil
			}
		}
		if page.NextLink == "" {
			return nil, nil
		}
		next, err := url.Parse(page.NextLink)
		if err != nil {
			return nil, errManager
		}
		target = next.RequestURI() // of the same host, whatever the link says: the token goes nowhere else.
	}
	return nil, errManager
}

// get returns where a cluster is.
func (m resourceManager) get(ctx context.Context, id clusterID) (cloud.Endpoint, error) {
	var c managedCluster
	if err := m.do(ctx, http.MethodGet, id.path()+"?api-version="+apiVersion, &c); err != nil {
		return cloud.Endpoint{}, err
	}
	return m.endpoint(ctx, id, c)
}

// endpoint adds the CA, which only the kubeconfig for users has. A credential in that is not looked at.
func (m resourceManager) endpoint(ctx context.Context, id clusterID, c managedCluster) (cloud.Endpoint, error) {
	switch {
	case c.Properties.ProvisioningState == "Creating":
		return cloud.Endpoint{}, errCreating
	case c.Properties.PowerState.Code == "Stopped":
		return cloud.Endpoint{}, errStopped
	}
	var answer struct {
		Kubeconfigs []struct {
			Value []byte `json:"value"`
		} `json:"kubeconfigs"`
	}
	if err := m.do(ctx, http.MethodPost, id.path()+"/listClusterUserCredential?api-version="+apiVersion+"&format=exec", &answer); err != nil {
		return cloud.Endpoint{}, err
	}
	if len(answer.Kubeconfigs) == 0 {
		return cloud.Endpoint{}, errManager
	}
	kubeconfig, err := restconfig.Parse(answer.Kubeconfigs[0].Value, restconfig.Options{Exec: true})
	// Clusters of AKS have CAs of their own, always.
	if err != nil || len(kubeconfig.Config.CAData) == 0 {
		return cloud.Endpoint{}, errManager
	}
	if kubeconfig.Exec == nil {
		return cloud.Endpoint{}, errNoEntra
	}
	return cloud.Endpoint{Servers: append([]string{kubeconfig.Config.Host}, c.servers()...), CA: kubeconfig.Config.CAData}, nil
}

// do sends a request and decodes the answer.
func (m resourceManager) do(ctx context.Context, method, target string, answer any) error {
	token, err := m.tokens.Token(ctx)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, m.address+target, http.NoBody)
	if err != nil {
		return errManager
	}
	req.Header.Set("Authorization", "Bearer "+token.Value)
	req.Header.Set("Accept", "application/json")
	resp, err := m.client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return errManager
	}
	defer resp.Body.Close()
	switch resp.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized:
		return errUnauthorized
	case http.StatusForbidden:
		return errForbidden
	case http.StatusNotFound:
		return errNotFound
	case http.StatusTooManyRequests:
		return errBusy
	default:
		return errManager
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxPageBytes)).Decode(answer); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return errManager
	}
	return nil
}
