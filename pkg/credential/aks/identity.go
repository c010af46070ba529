// Copyright Contributors to the Open Cluster Management project

package aks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	azpolicy "github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	azruntime "github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
)

// maxTokenBytes bounds an answer of Entra ID and of the service for managed identities: a token takes a few KB.
const maxTokenBytes = 1 << 20

// identity is whom a token is for, and how the hub proves that it may be that.
type identity struct {
	// clientID is empty for the system-assigned managed identity.
	clientID, tenantID string
	// tokenFile holds the assertion of a workload identity; without it the identity is a managed one.
	tokenFile string
	authority string
	client    *http.Client
}

// identify returns the identity that the policy allows for a client ID and a tenant ID, each of which may be empty.
func (r *resolver) identify(rule policy.AKS, env environment, clientID, tenantID string) (identity, error) {
	named := clientID != ""
	switch {
	case named && !allowsClientID(rule.ClientIDs, clientID):
		return identity{}, errClientID
	case !named && !rule.HubIdentity:
		return identity{}, errNoClientID
	case !named:
		clientID = r.options.Getenv("AZURE_CLIENT_ID")
	}
	who := identity{
		clientID: strings.ToLower(clientID), tokenFile: r.options.Getenv("AZURE_FEDERATED_TOKEN_FILE"),
		authority: env.authority, client: r.options.HTTPClient,
	}
	if who.tokenFile == "" {
		return who, nil
	}
	home := r.options.Getenv("AZURE_TENANT_ID")
	if tenantID == "" || !named {
		if who.clientID == "" || home == "" {
			return identity{}, errNoWorkloadIdentity
		}
		// An application of another tenant is one that the administrator must have named.
		if tenantID != "" && !strings.EqualFold(tenantID, home) {
			return identity{}, errTenantID
		}
		tenantID = home
	}
	who.tenantID = strings.ToLower(tenantID)
	return who, nil
}

// key is the identity in a form for a tokensource.Key.
func (i identity) key() string {
	return fmt.Sprintf("client=%s tenant=%s workload=%t authority=%s", i.clientID, i.tenantID, i.tokenFile != "", i.authority)
}

// token mints a token for a resource. Each call makes a new credential, since a credential has a cache of its own.
func (i identity) token(ctx context.Context, resource string) (tokensource.Token, error) {
	source, err := i.credential()
	if err != nil {
		// The text of the library names variables of the process, not what is wrong with them.
		return tokensource.Token{}, errNoWorkloadIdentity
	}
	options := azpolicy.TokenRequestOptions{Scopes: []string{resource + "/.default"}}
	if i.tokenFile == "" {
		// The library has one cache of such tokens for the whole process, which claims, even none, go past.
		options.Claims = "{}"
	}
	token, err := source.GetToken(ctx, options)
	if err != nil {
		if ctx.Err() != nil {
			return tokensource.Token{}, ctx.Err() // the library's error does not wrap it.
		}
		return tokensource.Token{}, credential.MintFailed(i.explain(err))
	}
	return tokensource.Token{Value: token.Token, Expiry: token.ExpiresOn}, nil
}

func (i identity) credential() (azcore.TokenCredential, error) {
	options := azcore.ClientOptions{
		Cloud:     azcloud.Configuration{ActiveDirectoryAuthorityHost: i.authority},
		Retry:     azpolicy.RetryOptions{MaxRetries: 1, RetryDelay: 500 * time.Millisecond, MaxRetryDelay: 2 * time.Second},
		Transport: transport{i.client},
	}
	if i.tokenFile == "" {
		o := azidentity.ManagedIdentityCredentialOptions{ClientOptions: options}
		if i.clientID != "" {
			o.ID = azidentity.ClientID(i.clientID)
		}
		return azidentity.NewManagedIdentityCredential(&o)
	}
	return azidentity.NewWorkloadIdentityCredential(&azidentity.WorkloadIdentityCredentialOptions{
		ClientOptions: options, ClientID: i.clientID, TenantID: i.tenantID, TokenFilePath: i.tokenFile,
		// The authority is the administrator's word; the public cloud need not be asked whether it is one.
		DisableInstanceDiscovery: true,
	})
}

// transport bounds what the library reads.
type transport struct{ client *http.Client }

// Do implements azcore's policy.Transporter.
func (t transport) Do(req *http.Request) (*http.Response, error) {
	// The library unpacks what it asked to be compressed, without a limit. Package net/http does so below the limit.
	req.Header.Del("Accept-Encoding")
	resp, err := t.client.Do(req) //nolint:gosec // its address is that of the authority, which is the administrator's.
	if err != nil {
		return nil, err
	}
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxTokenBytes)
	return resp, nil
}

// Texts about identities. What Entra ID writes besides its code has IDs of requests, times and names.
var (
	errNoWorkloadIdentity = credential.MintFailed(errors.New("the hub has no identity in Azure: let the administrator of the hub set up its workload identity " +
		"(AZURE_FEDERATED_TOKEN_FILE, AZURE_CLIENT_ID, AZURE_TENANT_ID) or its managed identity"))
	errEntraFailed   = errors.New("no usable answer from Microsoft Entra ID: it is tried again; if that does not help, check the token file of the hub's workload identity, and its network")
	errEntraRefused  = errors.New("refused by Microsoft Entra ID: check the identity in Azure, its tenant and its federated credential")
	errMachineFailed = errors.New("no usable answer from the service for managed identities: it is tried again; if that does not help, check whether the machine of the hub has one")
	errNotAssigned   = errors.New("the managed identity is not assigned to the machine that the hub runs on: assign it, or correct the client ID")
)

// entraTexts are the answers of Entra ID that have one known cause, by their code.
func entraTexts() map[int]string {
	const federated = "no federated credential of the identity is for the hub: add one with the issuer of the hub's cluster, the " +
		"subject of the hub's ServiceAccount and the audience api://AzureADTokenExchange"
	return map[int]string{
		50013:   "the assertion of the hub is not valid: check the OpenID Connect issuer of the hub's cluster",
		53003:   "a policy for conditional access blocks the identity: exempt it, or use another one",
		70021:   federated,
		90002:   "the tenant does not exist in this cloud: correct the tenant ID",
		500011:  "the tenant does not know the application of Azure Kubernetes Service: use the tenant of the cluster",
		700016:  "the identity does not exist in the tenant: correct the client ID or the tenant ID",
		700024:  "the assertion of the hub has expired: check the projected token of the hub's Pod, and its clock",
		700211:  federated,
		700212:  federated,
		700213:  federated,
		7000112: "the identity is disabled: enable it, or use another one",
	}
}

// explain replaces an error of the library by a fixed text.
func (i identity) explain(err error) error {
	var failed *azidentity.AuthenticationFailedError
	if !errors.As(err, &failed) || failed.RawResponse == nil {
		if i.tokenFile == "" {
			return errMachineFailed
		}
		return errEntraFailed
	}
	status := failed.RawResponse.StatusCode
	switch {
	case i.tokenFile == "" && status == http.StatusBadRequest:
		return errNotAssigned
	case i.tokenFile == "":
		return errMachineFailed
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		return errEntraFailed
	}
	var answer struct {
		Codes []int `json:"error_codes"`
	}
	if body, err := azruntime.Payload(failed.RawResponse); err == nil && json.Unmarshal(body, &answer) == nil {
		for _, code := range answer.Codes {
			if text, known := entraTexts()[code]; known {
				return fmt.Errorf("refused by Microsoft Entra ID (AADSTS%d): %s", code, text)
			}
		}
	}
	return errEntraRefused
}
