// Copyright Contributors to the Open Cluster Management project

package aks

import (
	"errors"
	"strings"

	azcloud "github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"

	"open-cluster-management.io/import-provider/pkg/policy"
)

// environment is one of Azure's clouds.
type environment struct {
	// name is that of the policy and of kubelogin.
	name string
	// authority is the address of Entra ID.
	authority string
	// resourceManager is the address of Azure Resource Manager, https://host[:port]; audience is what tokens for it are for.
	resourceManager, audience string
}

// environments are those that azcore knows; the addresses of Azure Resource Manager are those of its package arm/runtime, which
// brings more than these.
func environments() []environment {
	return []environment{
		{
			"AzurePublicCloud", azcloud.AzurePublic.ActiveDirectoryAuthorityHost,
			"https://management.azure.com", "https://management.core.windows.net/",
		},
		{
			"AzureUSGovernmentCloud", azcloud.AzureGovernment.ActiveDirectoryAuthorityHost,
			"https://management.usgovcloudapi.net", "https://management.core.usgovcloudapi.net",
		},
		{
			"AzureChinaCloud", azcloud.AzureChina.ActiveDirectoryAuthorityHost,
			"https://management.chinacloudapi.cn", "https://management.core.chinacloudapi.cn",
		},
	}
}

func environmentNames() []string {
	var names []string
	for _, e := range environments() {
		names = append(names, e.name)
	}
	return names
}

// environmentOf returns the cloud of the hub: that of the policy; else that of the authority which the webhook for workload identity
// tells the hub's process; else the public one.
func environmentOf(p policy.Azure, getenv func(string) string) (environment, error) {
	authority := p.Authority
	if authority == "" && p.Environment == "" {
		authority = getenv("AZURE_AUTHORITY_HOST")
	}
	found := environments()[0]
	for _, e := range environments() {
		if e.name == p.Environment || p.Environment == "" && sameAddress(e.authority, authority) {
			found = e
		}
	}
	if p.Environment != "" && found.name != p.Environment {
		return environment{}, errors.New("clouds.azure.environment of the policy of the hub is not one of " + strings.Join(environmentNames(), ", "))
	}
	if authority != "" {
		found.authority = authority
	}
	if p.ResourceManager != "" {
		found.resourceManager = p.ResourceManager
	}
	return found, nil
}

// is says whether a stanza expects this cloud. A stanza never chooses where the hub's assertion is sent.
func (e environment) is(s request) bool {
	return (s.environment == "" || s.environment == e.name) && (s.authority == "" || sameAddress(s.authority, e.authority))
}

func sameAddress(a, b string) bool {
	return strings.EqualFold(strings.TrimRight(a, "/"), strings.TrimRight(b, "/"))
}
