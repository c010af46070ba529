// Copyright Contributors to the Open Cluster Management project

package aks_test

import (
	"bytes"
	"strings"
	"testing"

	"open-cluster-management.io/import-provider/test/cloud/azure"
)

const serverID = azure.KubernetesServer

// What CLIs write works as it is. Modes of a person are served by the hub.
func TestStanzas(t *testing.T) {
	const rule = `{namespaces: ["*"], resolvers: [aks], aks: {hubIdentity: true, clientIDs: [` + teamClient + `], subscriptions: [` + subscription + `]}}`
	path := func(s stanza, command string) stanza {
		s.command = command
		return s
	}
	env := func(s stanza, pairs ...string) stanza {
		s.env = pairs
		return s
	}
	argocd := stanza{command: "argocd-k8s-auth", args: []string{"azure"}}
	for name, c := range map[string]struct {
		stanza stanza
		client string
	}{
		"az":                       {azDefault(), hubClient},
		"az, on Windows":           {path(azDefault(), `C:\Users\me\kubelogin.exe`), hubClient},
		"az, in a home directory":  {path(azDefault(), "/home/me/.azure-kubelogin/kubelogin"), hubClient},
		"no mode":                  {kubelogin("--server-id", serverID, "--client-id", publicClient, "-t", hubTenant, "-e", "AzurePublicCloud"), hubClient},
		"azurecli":                 {kubelogin("--login", "azurecli", "--server-id", serverID), hubClient},
		"azurecli, with all":       {kubelogin("-l", "azurecli", "--server-id", serverID, "-s", "some subscription", "--timeout", "60s", "--cache-dir", "/nowhere"), hubClient},
		"interactive":              {kubelogin("--login", "interactive", "--server-id", serverID, "--client-id", publicClient, "--tenant-id", hubTenant, "--redirect-url", "http://localhost", "--login-hint", "me"), hubClient},
		"azd":                      {kubelogin("--login=azd", "--server-id="+serverID), hubClient},
		"ropc":                     {kubelogin("--login", "ropc", "--server-id", serverID, "--client-id", publicClient, "--tenant-id", hubTenant), hubClient},
		"workload identity":        {kubelogin("--login", "workloadidentity", "--server-id", serverID), hubClient},
		"workload identity, named": {kubelogin("--login", "workloadidentity", "--server-id", serverID, "--client-id", teamClient, "--authority-host", "https://login.microsoftonline.com/"), teamClient},
		"msi":                      {kubelogin("--login", "msi", "--server-id", serverID), hubClient},
		"msi, in capitals":         {kubelogin("--login", "msi", "--server-id", serverID, "--client-id", strings.ToUpper(teamClient)), teamClient},
		"spn":                      {kubelogin("--login", "spn", "--server-id", serverID, "--client-id", teamClient, "--tenant-id", hubTenant, "--environment", "AzurePublicCloud", "--disable-environment-override"), teamClient},
		"variables of kubelogin":   {env(kubelogin("--server-id", serverID), "AAD_LOGIN_METHOD=spn", "AAD_SERVICE_PRINCIPAL_CLIENT_ID="+teamClient), teamClient},
		"argocd":                   {argocd, hubClient},
		"argocd, named":            {env(argocd, "AAD_ENVIRONMENT_NAME=AzurePublicCloud", "AZURE_CLIENT_ID="+teamClient, "AZURE_TENANT_ID="+hubTenant, "AAD_LOGIN_METHOD=workloadidentity", "AZURE_AUTHORITY_HOST=https://login.microsoftonline.com/"), teamClient},
		"argocd, without a mode":   {env(argocd, "AZURE_CLIENT_ID="+teamClient), teamClient},
		"argocd, with its server":  {env(argocd, "AAD_SERVER_APPLICATION_ID="+serverID, "AAD_LOGIN_METHOD=azurecli", "AZURE_CLIENT_ID="+publicClient), hubClient},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.policy = newPolicy(t, rule, "")
			config, err := f.resolve(t, c.stanza.secret(server, f.ca))
			if err != nil {
				t.Fatal(err)
			}
			if tokens := f.kubernetesTokens(); len(tokens) != 1 || tokens[0].ClientID != c.client {
				t.Errorf("tokens %+v, not one for %s", tokens, c.client)
			}
			if config.Host != server || !bytes.Equal(config.CAData, f.ca) || config.ExecProvider != nil || config.BearerToken != "" {
				t.Errorf("unexpected config %v", config)
			}
		})
	}
}

// Whatever is not known is refused by its name, before anything is asked or opened.
func TestStanzasThatAreRefused(t *testing.T) {
	spn := func(more ...string) stanza {
		return kubelogin(append([]string{"--login", "spn", "--server-id", serverID, "--client-id", hubClient}, more...)...)
	}
	env := func(pairs ...string) stanza {
		s := kubelogin("--login", "workloadidentity", "--server-id", serverID)
		s.env = pairs
		return s
	}
	argocd := func(pairs ...string) stanza {
		return stanza{command: "argocd-k8s-auth", args: []string{"azure"}, env: pairs}
	}
	for name, c := range map[string]struct {
		stanza stanza
		text   string
	}{
		"client secret":             {spn("--client-secret", secretValue), "--client-secret"},
		"client secret, inline":     {spn("--client-secret=" + secretValue), "--client-secret"},
		"client certificate":        {spn("--client-certificate", "/etc/shadow"), "--client-certificate"},
		"certificate password":      {spn("--client-certificate-password", secretValue), "--client-certificate-password"},
		"user name":                 {spn("--username", secretValue), "--username"},
		"password":                  {spn("--password", secretValue), "--password"},
		"token file":                {spn("--federated-token-file", "/var/run/secrets/tokens/azure"), "--federated-token-file"},
		"resource ID":               {spn("--identity-resource-id", secretValue), "--identity-resource-id"},
		"variables of Terraform":    {spn("--use-azurerm-env-vars"), "--use-azurerm-env-vars"},
		"legacy":                    {spn("--legacy"), "--legacy"},
		"proof of possession":       {spn("--pop-enabled", "--pop-claims", "u="+secretValue), "--pop-enabled"},
		"no discovery":              {spn("--disable-instance-discovery"), "--disable-instance-discovery"},
		"pipelines":                 {kubelogin("--login", "azurepipelines", "--server-id", serverID), "--login must be one of devicecode"},
		"other audience":            {kubelogin("--login", "msi", "--server-id", "https://graph.microsoft.com"), "--server-id must be one of " + serverID},
		"audience of the manager":   {kubelogin("--login", "msi", "--server-id", managerPublic), "--server-id must be one of " + serverID},
		"audience twice":            {kubelogin("--server-id", serverID, "--server-id", "https://graph.microsoft.com"), "the flag --server-id "},
		"no audience":               {kubelogin("--login", "msi"), "the flag --server-id is missing"},
		"other audience of argocd":  {argocd("AAD_SERVER_APPLICATION_ID=https://graph.microsoft.com"), "AAD_SERVER_APPLICATION_ID must be one of"},
		"token file of argocd":      {argocd("AZURE_FEDERATED_TOKEN_FILE=/etc/shadow"), "variable AZURE_FEDERATED_TOKEN_FILE"},
		"client secret of argocd":   {argocd("AZURE_CLIENT_SECRET=" + secretValue), "variable AZURE_CLIENT_SECRET"},
		"endpoint of identities":    {env("IDENTITY_ENDPOINT=https://evil.example.com"), "variable IDENTITY_ENDPOINT"},
		"directory of az":           {env("AZURE_CONFIG_DIR=/root/.azure"), "variable AZURE_CONFIG_DIR"},
		"password in a variable":    {env("AAD_USER_PRINCIPAL_PASSWORD=" + secretValue), "variable AAD_USER_PRINCIPAL_PASSWORD"},
		"path":                      {env("PATH=/tmp"), "variable PATH"},
		"cloud that is not known":   {spn("--environment", "AzureStackCloud"), "--environment must be one of AzurePublicCloud"},
		"client ID with a path":     {spn("--tenant-id", hubTenant+"/../"+otherTenant), "the tenant ID must be a UUID"},
		"tenant by name":            {spn("--tenant-id", "common"), "the tenant ID must be a UUID"},
		"client ID that is none":    {kubelogin("--login", "spn", "--server-id", serverID, "--client-id", secretValue), "the client ID must be a UUID"},
		"flag in place of a word":   {stanza{command: "kubelogin", args: []string{"--server-id", serverID}}, "only kubelogin get-token"},
		"another word":              {stanza{command: "kubelogin", args: []string{"convert-kubeconfig", "--server-id", serverID}}, "only kubelogin get-token"},
		"word too many":             {kubelogin("--server-id", serverID, "get-token"), "only kubelogin get-token"},
		"value that is missing":     {kubelogin("--server-id", serverID, "--login"), "--login needs a value"},
		"kubelogin of OpenID":       {kubelogin("--oidc-issuer-url=https://issuer.example.com", "--oidc-client-id=x", "--oidc-client-secret="+secretValue), "kubelogin for OpenID Connect, not that of Azure: set the annotation import.open-cluster-management.io/credential-resolver to exec"},
		"argocd for another cloud":  {stanza{command: "argocd-k8s-auth", args: []string{"gcp"}}, "only argocd-k8s-auth azure"},
		"another tool":              {stanza{command: "/bin/sh", args: []string{"-c", secretValue}}, "only kubelogin get-token and argocd-k8s-auth azure"},
		"tool with a similar name":  {stanza{command: "kubelogin-get-token", args: []string{"get-token"}}, "only kubelogin get-token and argocd-k8s-auth azure"},
		"authority after an equals": {env("AZURE_TENANT_ID=x=y"), "the tenant ID must be a UUID"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			_, err := f.resolve(t, c.stanza.secret(server, f.ca))
			expectError(t, err, "invalid", c.text)
			if requests := f.azure.Requests(); len(requests) > 0 {
				t.Errorf("Azure was asked: %+v", requests)
			}
		})
	}
}
