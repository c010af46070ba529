// Copyright Contributors to the Open Cluster Management project

package aks_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/credentialtest"
	"open-cluster-management.io/import-provider/pkg/restconfig"
	"open-cluster-management.io/import-provider/test/cloud/azure"
)

func aksRule(fields string) string {
	return `{namespaces: ["*"], resolvers: [aks], aks: {subscriptions: [` + subscription + `], ` + fields + `}}`
}

func TestConformance(t *testing.T) {
	f := newFixture(t)
	invalid := map[string]*corev1.Secret{
		"no kubeconfig":      newSecret("other", []byte(secretValue)),
		"no stanza":          newSecret("kubeconfig", []byte("apiVersion: v1\nkind: Config\n")),
		"secret":             inPath(kubelogin("--server-id", serverID, "--client-secret="+secretValue)).secret(server, f.ca),
		"client ID":          kubelogin("--login", "msi", "--server-id="+serverID, "--client-id", teamClient).secret(server, f.ca),
		"other server":       azDefault().secret("https://evil.example.com", f.ca),
		"other CA":           azDefault().secret(server, newCA(t)),
		"other subscription": document("aks: {subscription: %s, resourceGroup: %s, cluster: %s}", subscription2, group, cluster),
		"other cluster":      document("aks: {subscription: %s, resourceGroup: %s, cluster: %s}", subscription, group, "some-other-cluster"),
		"unknown field":      document("aks: {subscription: %s, secretvalue: %s}", subscription, secretValue),
	}
	for name, secret := range map[string]func() *corev1.Secret{
		"kubeconfig": func() *corev1.Secret { return azDefault().secret(server, f.ca) },
		"document":   func() *corev1.Secret { return namedCluster("") },
	} {
		t.Run(name, func(t *testing.T) {
			credentialtest.RunConformance(t, credentialtest.Suite{Resolver: f, ValidSecret: secret, InvalidSecrets: invalid})
		})
	}
}

// inPath keeps the name of the tool, which errors show, from being a value of the file.
func inPath(s stanza) stanza {
	s.command = "/usr/local/bin/" + s.command
	return s
}

// The two forms lead to the same cluster with a token of the same identity. Each request to Entra ID and Azure Resource Manager is
// checked by the stand-in; here are the numbers of them.
func TestForms(t *testing.T) {
	api := newAPIServer(t)
	for name, c := range map[string]struct {
		secret   *corev1.Secret
		requests []string
	}{
		"kubeconfig": {azDefault().secret(api.URL, pemOf(api.Server)), []string{"GET managedClusters", "POST listClusterUserCredential"}},
		"document":   {namedCluster(""), []string{"GET " + cluster, "POST listClusterUserCredential"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.azure.AddCluster(azure.Cluster{Subscription: subscription, ResourceGroup: group, Name: cluster, Server: api.URL, CA: pemOf(api.Server)})
			config, err := f.resolve(t, c.secret)
			if err != nil {
				t.Fatal(err)
			}
			var requests []string
			for _, r := range f.azure.Requests(azure.ResourceManager) {
				requests = append(requests, r.Method+r.Path[strings.LastIndex(r.Path, "/"):])
			}
			if got := strings.ReplaceAll(strings.Join(requests, ","), "/", " "); got != strings.Join(c.requests, ",") {
				t.Errorf("Azure Resource Manager was asked %s, not %s", got, c.requests)
			}
			if seen := api.send(t, config); seen != f.kubernetesTokens()[0].Value {
				t.Error("the cluster got another token than that for it")
			}
			if tokens := f.azure.Tokens(managerPublic); len(tokens) != 1 || slices.Contains(api.seen(), tokens[0].Value) {
				t.Error("not one token for Azure Resource Manager, or the cluster got it")
			}
		})
	}
}

// Threat 33: no identity falls back to the hub's own, and none that the policy does not name is used.
func TestIdentities(t *testing.T) {
	stanza := func(login string, more ...string) func(*fixture) *corev1.Secret {
		return func(f *fixture) *corev1.Secret {
			return kubelogin(append([]string{"--server-id", serverID, "--login", login}, more...)...).secret(server, f.ca)
		}
	}
	named := func(more string) func(*fixture) *corev1.Secret {
		return func(*fixture) *corev1.Secret { return namedCluster(more) }
	}
	const team = "clientIDs: [" + teamClient + "]"
	for name, c := range map[string]struct {
		rule   string
		secret func(*fixture) *corev1.Secret
		kind   string // of the error
		text   string // of the error
		client string // that gets the token
		tenant string
	}{
		"empty rule, az":                   {"", func(f *fixture) *corev1.Secret { return azDefault().secret(server, f.ca) }, "denied", "aks.hubIdentity", "", ""},
		"empty rule, workload identity":    {"", stanza("workloadidentity"), "denied", "aks.hubIdentity", "", ""},
		"empty rule, client ID of the hub": {"", stanza("msi", "--client-id", hubClient), "denied", "aks.clientIDs", "", ""},
		"empty rule, document":             {"", named(""), "denied", "aks.hubIdentity", "", ""},
		"client IDs, az":                   {team, stanza("azurecli"), "denied", "aks.hubIdentity", "", ""},
		"client IDs, public client":        {team, stanza("devicecode", "--client-id", teamClient), "denied", "aks.hubIdentity", "", ""},
		"client IDs, document without one": {team, named(""), "denied", "aks.hubIdentity", "", ""},
		"hub, other client ID":             {"hubIdentity: true", stanza("spn", "--client-id", teamClient), "denied", "aks.clientIDs", "", ""},
		"hub, other client ID, document":   {"hubIdentity: true", named(", clientID: " + teamClient), "denied", "aks.clientIDs", "", ""},
		"hub":                              {"hubIdentity: true", stanza("msi"), "none", "", hubClient, hubTenant},
		"hub, its tenant":                  {"hubIdentity: true", stanza("azurecli", "-t", strings.ToUpper(hubTenant)), "none", "", hubClient, hubTenant},
		"hub, other tenant":                {"hubIdentity: true", stanza("azurecli", "-t", otherTenant), "denied", "the tenant is not that", "", ""},
		"hub, other tenant, document":      {"hubIdentity: true", named(", tenantID: " + otherTenant), "denied", "the tenant is not that", "", ""},
		"client ID":                        {team, stanza("spn", "--client-id", teamClient), "none", "", teamClient, hubTenant},
		"client ID, document":              {team, named(", clientID: " + teamClient), "none", "", teamClient, hubTenant},
		"client ID by pattern":             {`clientIDs: ["CCCCCCCC-*"]`, stanza("spn", "--client-id", teamClient), "none", "", teamClient, hubTenant},
		"client ID of other tenant":        {"clientIDs: [" + foreignClient + "]", named(", clientID: " + foreignClient + ", tenantID: " + otherTenant), "none", "", foreignClient, otherTenant},
		"client ID, tenant without it":     {team, stanza("spn", "--client-id", teamClient, "-t", otherTenant), "mint failed", "AADSTS700016", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.policy = newPolicy(t, aksRule(c.rule), "")
			_, err := f.resolve(t, c.secret(f))
			expectError(t, err, c.kind, c.text)
			tokens := f.kubernetesTokens()
			switch {
			case c.client == "" && len(tokens) > 0:
				t.Errorf("a token was issued: %+v", tokens)
			case c.kind == "denied" && len(f.azure.Requests()) > 0:
				t.Errorf("Azure was asked: %+v", f.azure.Requests())
			case c.client != "" && (len(tokens) != 1 || tokens[0].ClientID != c.client || tokens[0].TenantID != c.tenant):
				t.Errorf("tokens %+v, not one for %s in %s", tokens, c.client, c.tenant)
			}
		})
	}
}

func TestWorkloadIdentityThatIsIncomplete(t *testing.T) {
	for name, edit := range map[string]func(*fixture){
		"no client ID": func(f *fixture) { delete(f.env, "AZURE_CLIENT_ID") },
		"no tenant":    func(f *fixture) { delete(f.env, "AZURE_TENANT_ID") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			edit(f)
			_, err := f.resolve(t, azDefault().secret(server, f.ca))
			expectError(t, err, "mint failed", "AZURE_CLIENT_ID, AZURE_TENANT_ID")
		})
	}
	t.Run("no token", func(t *testing.T) {
		f := newFixture(t)
		f.env["AZURE_FEDERATED_TOKEN_FILE"] = filepath.Join(t.TempDir(), "missing")
		_, err := f.resolve(t, azDefault().secret(server, f.ca))
		expectError(t, err, "mint failed", "no usable answer from Microsoft Entra ID: it is tried again; if that does not help, check the token file")
	})
}

// Without a federated token the identity is a managed one.
func TestManagedIdentities(t *testing.T) {
	// Not those of the other tests: azidentity's cache is one for the process.
	const system, user = "eeeeeeee-0000-0000-0000-00000000000a", "eeeeeeee-0000-0000-0000-00000000000b"
	for name, c := range map[string]struct {
		clientID   string // in the environment
		rule, more string
		client     string
		text       string
	}{
		"of the machine":        {"", "hubIdentity: true", "", system, ""},
		"of the environment":    {user, "hubIdentity: true", "", user, ""},
		"of the Secret":         {"", "clientIDs: [" + user + "]", ", clientID: " + user, user, ""},
		"tenant has no meaning": {"", "hubIdentity: true", ", tenantID: " + otherTenant, system, ""},
		"not assigned":          {"", "clientIDs: [" + teamClient + "]", ", clientID: " + teamClient, "", "not assigned to the machine"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.azure.AddIdentity(azure.Identity{ClientID: system, System: true})
			f.azure.AddIdentity(azure.Identity{ClientID: user})
			f.env = map[string]string{"AZURE_CLIENT_ID": c.clientID}
			f.policy = newPolicy(t, aksRule(c.rule), "")
			_, err := f.resolve(t, namedCluster(c.more))
			if c.text != "" {
				expectError(t, err, "mint failed", c.text)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tokens := f.kubernetesTokens(); len(tokens) != 1 || tokens[0].ClientID != c.client {
				t.Errorf("tokens %+v, not one for %s", tokens, c.client)
			}
			if requests := f.azure.Requests(azure.Entra); len(requests) > 0 {
				t.Errorf("Entra ID was asked: %+v", requests)
			}
		})
	}
	t.Run("no service", func(t *testing.T) {
		f := newFixture(t)
		f.env = nil
		f.azure.SetFault(func(r azure.Request) *azure.Answer {
			if r.Service == azure.Metadata {
				return &azure.Answer{Status: http.StatusForbidden, Body: secretValue}
			}
			return nil
		})
		_, err := f.resolve(t, namedCluster(""))
		expectError(t, err, "mint failed", "no usable answer from the service for managed identities")
	})
}

// Threats 9 and 10: tokens for AKS are not bound to a cluster, so that one is minted only for a server and a CA that belong together.
func TestBinding(t *testing.T) {
	hostile := newAPIServer(t)
	otherCA := newCA(t)
	const other = "https://other-1.hcp.westeurope.azmk8s.io:443"
	const private = "https://prod-1.privatelink.westeurope.azmk8s.io:443"
	const portal = "https://prod-1.portal.hcp.westeurope.azmk8s.io:443"
	pin := func(server string, ca []byte) string {
		return "endpoints: {pinned: [{server: \"" + server + "\", certificateAuthorityData: " + fmt.Sprintf("%q", ca) + "}]}"
	}
	edit := func(key string, value any) func(map[string]any) { return func(c map[string]any) { c[key] = value } }
	for name, c := range map[string]struct {
		secret func(f *fixture) *corev1.Secret
		pin    func(f *fixture) string
		text   string // of the error; empty if there is none
	}{
		"right": {func(f *fixture) *corev1.Secret { return azDefault().secret(server, f.ca) }, nil, ""},
		"right, another form": {func(f *fixture) *corev1.Secret {
			return azDefault().secret("https://PROD-1.hcp.westeurope.azmk8s.io", f.ca)
		}, nil, ""},
		"private name": {func(f *fixture) *corev1.Secret { return azDefault().secret(private, f.ca) }, nil, ""},
		"portal":       {func(f *fixture) *corev1.Secret { return azDefault().secret(portal, f.ca) }, nil, ""},
		"wrong CA":     {func(*fixture) *corev1.Secret { return azDefault().secret(server, otherCA) }, nil, "the server or the CA"},
		"one CA more":  {func(f *fixture) *corev1.Secret { return azDefault().secret(server, slices.Concat(f.ca, otherCA)) }, nil, "the server or the CA"},
		"no CA":        {func(*fixture) *corev1.Secret { return azDefault().secret(server, nil) }, nil, "no CA is given"},
		"wrong host":   {func(f *fixture) *corev1.Secret { return azDefault().secret(hostile.URL, f.ca) }, nil, "no cluster in the subscriptions"},
		"wrong port": {func(f *fixture) *corev1.Secret {
			return azDefault().secret("https://prod-1.hcp.westeurope.azmk8s.io:8443", f.ca)
		}, nil, "no cluster in the subscriptions"},
		"hostile":       {func(*fixture) *corev1.Secret { return azDefault().secret(hostile.URL, pemOf(hostile.Server)) }, nil, "no cluster in the subscriptions"},
		"other cluster": {func(f *fixture) *corev1.Secret { return azDefault().secret(other, f.ca) }, nil, "the server or the CA"},
		"longer name": {func(f *fixture) *corev1.Secret {
			return azDefault().secret("https://prod-1.hcp.westeurope.azmk8s.io.evil.example.com", f.ca)
		}, nil, "no cluster in the subscriptions"},
		"path": {func(f *fixture) *corev1.Secret { return azDefault().secret(server+"/proxy", f.ca) }, nil, "no cluster in the subscriptions"},
		"not verified": {func(*fixture) *corev1.Secret {
			return azDefault().secret(server, nil, edit("insecure-skip-tls-verify", true))
		}, nil, "the server or the CA"},
		"TLS name": {func(f *fixture) *corev1.Secret {
			return azDefault().secret(server, f.ca, edit("tls-server-name", "evil.example.com"))
		}, nil, "the server or the CA"},
		"pinned":         {func(*fixture) *corev1.Secret { return azDefault().secret(hostile.URL, pemOf(hostile.Server)) }, func(*fixture) string { return pin(hostile.URL, pemOf(hostile.Server)) }, ""},
		"pinned, its CA": {func(*fixture) *corev1.Secret { return azDefault().secret(hostile.URL, otherCA) }, func(*fixture) string { return pin(hostile.URL, pemOf(hostile.Server)) }, "no cluster in the subscriptions"},
		"pinned, no CA":  {func(*fixture) *corev1.Secret { return azDefault().secret(hostile.URL, nil) }, func(*fixture) string { return pin(hostile.URL, pemOf(hostile.Server)) }, "no cluster in the subscriptions"},
		"pinned, TLS name": {func(*fixture) *corev1.Secret {
			return azDefault().secret(hostile.URL, pemOf(hostile.Server), edit("tls-server-name", "evil.example.com"))
		}, func(*fixture) string { return pin(hostile.URL, pemOf(hostile.Server)) }, "no cluster in the subscriptions"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			right := f.cluster()
			right.FQDN, right.PrivateFQDN = "prod-1.hcp.westeurope.azmk8s.io", "prod-1.privatelink.westeurope.azmk8s.io"
			right.PortalFQDN = "prod-1.portal.hcp.westeurope.azmk8s.io"
			f.azure.AddCluster(right)
			f.azure.AddCluster(azure.Cluster{Subscription: subscription, ResourceGroup: group, Name: "other-1", Server: other, CA: otherCA})
			if c.pin != nil {
				f.policy = newPolicy(t, hubOnly, c.pin(f))
			}
			_, err := f.resolve(t, c.secret(f))
			if c.text == "" {
				if err != nil || len(f.kubernetesTokens()) != 1 {
					t.Errorf("%d tokens, error %v", len(f.kubernetesTokens()), err)
				}
				if asked := len(f.azure.Requests(azure.ResourceManager)) > 0; asked != (c.pin == nil) {
					t.Errorf("Azure Resource Manager was asked: %t", asked)
				}
				return
			}
			expectError(t, err, "denied", c.text)
			if tokens := f.kubernetesTokens(); len(tokens) > 0 {
				t.Errorf("a token was issued: %+v", tokens)
			}
			if seen := hostile.seen(); len(seen) > 0 {
				t.Errorf("the host got %d requests", len(seen))
			}
		})
	}
}

// A cluster is found on any page of any subscription that the policy names, and in no other.
func TestSubscriptions(t *testing.T) {
	const both = `{namespaces: ["*"], resolvers: [aks], aks: {hubIdentity: true, subscriptions: [` + subscription + `, ` + subscription2 + `]}}`
	const none = `{namespaces: ["*"], resolvers: [aks], aks: {hubIdentity: true}}`
	resolve := func(t *testing.T, rule, subscription string, edits ...func(*azure.Cluster)) (*fixture, error) {
		f := newFixture(t)
		f.policy = newPolicy(t, rule, "")
		moved := f.cluster()
		moved.Subscription, moved.Name, moved.Server = subscription, "zz-last", "https://last.hcp.westeurope.azmk8s.io:443"
		for _, edit := range edits {
			edit(&moved)
		}
		f.azure.AddCluster(moved)
		for i := range 6 {
			f.azure.AddCluster(azure.Cluster{
				Subscription: subscription, ResourceGroup: group, Name: fmt.Sprintf("c%d", i), Server: fmt.Sprintf("https://c%d.example.com:443", i), CA: f.ca,
			})
		}
		_, err := f.resolve(t, azDefault().secret(moved.Server, f.ca))
		return f, err
	}
	t.Run("last page", func(t *testing.T) {
		f, err := resolve(t, hubOnly, subscription)
		expectError(t, err, "none", "")
		if n := len(f.azure.Requests(azure.ResourceManager)); n != 5 {
			t.Errorf("%d requests, not 4 pages and a kubeconfig", n)
		}
	})
	t.Run("second subscription", func(t *testing.T) {
		_, err := resolve(t, both, subscription2)
		expectError(t, err, "none", "")
	})
	t.Run("subscription that is not named", func(t *testing.T) {
		_, err := resolve(t, hubOnly, subscription2)
		expectError(t, err, "denied", "aks.subscriptions")
	})
	t.Run("no subscription", func(t *testing.T) {
		f, err := resolve(t, none, subscription)
		expectError(t, err, "denied", "does not say where clusters of Azure Kubernetes Service are")
		if len(f.azure.Requests()) > 0 {
			t.Error("Azure was asked")
		}
	})
	t.Run("not readable", func(t *testing.T) {
		_, err := resolve(t, both, subscription2, func(c *azure.Cluster) { c.Readers = []string{teamClient} })
		expectError(t, err, "denied", "no cluster in the subscriptions")
	})
	for name, readable := range map[string]bool{"not readable, then found": true, "none readable": false} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.policy = newPolicy(t, both, "")
			hidden := f.cluster()
			hidden.Readers = []string{teamClient}
			f.azure.AddCluster(hidden)
			wanted := "https://second.example.com:443"
			if readable {
				f.azure.AddCluster(azure.Cluster{Subscription: subscription2, ResourceGroup: group, Name: "second", Server: wanted, CA: f.ca})
			}
			_, err := f.resolve(t, azDefault().secret(wanted, f.ca))
			if readable {
				expectError(t, err, "none", "")
			} else {
				expectError(t, err, "mint failed", "it may not read all subscriptions")
			}
		})
	}
	t.Run("link to another host", func(t *testing.T) {
		hostile := newAPIServer(t)
		f := newFixture(t)
		f.azure.SetFault(func(r azure.Request) *azure.Answer {
			if r.Service == azure.ResourceManager && r.Query.Get("$skiptoken") == "" && r.Method == http.MethodGet {
				return &azure.Answer{Status: http.StatusOK, Body: `{"value":[],"nextLink":"` + hostile.URL + r.Path + `?api-version=2025-02-01&$skiptoken=0"}`}
			}
			return nil
		})
		_, err := f.resolve(t, azDefault().secret(server, f.ca))
		expectError(t, err, "none", "")
		if len(hostile.seen()) > 0 {
			t.Error("the token of Azure Resource Manager went to another host")
		}
	})
	t.Run("pages without end", func(t *testing.T) {
		f := newFixture(t)
		f.azure.SetFault(func(r azure.Request) *azure.Answer {
			if r.Service != azure.ResourceManager {
				return nil
			}
			return &azure.Answer{Status: http.StatusOK, Body: `{"value":[],"nextLink":"https://management.azure.com` + r.Path + `?x=y"}`}
		})
		_, err := f.resolve(t, azDefault().secret(server, f.ca))
		expectError(t, err, "mint failed", "no usable answer from Azure Resource Manager")
	})
}

func TestDocumentsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		fields     string
		kind, text string
	}{
		"no subscription":       {"resourceGroup: g, cluster: c", "invalid", "aks.subscription is missing"},
		"no resource group":     {"subscription: " + subscription + ", cluster: c", "invalid", "aks.resourceGroup is missing"},
		"no cluster":            {"subscription: " + subscription + ", resourceGroup: g", "invalid", "aks.cluster is missing"},
		"subscription by name":  {"subscription: production, resourceGroup: g, cluster: c", "invalid", "aks.subscription must be a UUID"},
		"path in the group":     {"subscription: " + subscription + ", resourceGroup: g/providers/x, cluster: c", "invalid", "aks.resourceGroup must be"},
		"dots in the group":     {"subscription: " + subscription + ", resourceGroup: .., cluster: c", "invalid", "aks.resourceGroup must be"},
		"path in the cluster":   {"subscription: " + subscription + ", resourceGroup: g, cluster: ../c", "invalid", "aks.cluster must be"},
		"query in the cluster":  {"subscription: " + subscription + ", resourceGroup: g, cluster: 'c?x'", "invalid", "aks.cluster must be"},
		"client ID":             {"subscription: " + subscription + ", resourceGroup: g, cluster: c, clientID: " + secretValue, "invalid", "aks.clientID must be a UUID"},
		"tenant":                {"subscription: " + subscription + ", resourceGroup: g, cluster: c, tenantID: common", "invalid", "aks.tenantID must be a UUID"},
		"other subscription":    {"subscription: " + subscription2 + ", resourceGroup: g, cluster: c", "denied", "does not allow aks.subscription"},
		"file for a credential": {"subscription: " + subscription + ", resourceGroup: g, cluster: c, federatedTokenFile: /etc/shadow", "invalid", "credential.yaml is not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			_, err := f.resolve(t, document("aks: {%s}", c.fields))
			expectError(t, err, c.kind, c.text)
			if len(f.azure.Requests()) > 0 {
				t.Error("Azure was asked")
			}
		})
	}
}

// What Azure Resource Manager answers becomes one of a few texts.
func TestAnswersOfResourceManager(t *testing.T) {
	status := func(status int) func(*fixture, *azure.Cluster) {
		return func(f *fixture, _ *azure.Cluster) {
			f.azure.SetFault(func(r azure.Request) *azure.Answer {
				if r.Service != azure.ResourceManager {
					return nil
				}
				return &azure.Answer{
					Status: status, Header: map[string]string{"Location": "https://evil.example.com/" + secretValue, "Retry-After": "7"},
					Body: `{"error":{"code":"Some` + secretValue + `","message":"` + azure.Sentinel + `"}}`,
				}
			})
		}
	}
	body := func(body string) func(*fixture, *azure.Cluster) {
		return func(f *fixture, _ *azure.Cluster) {
			f.azure.SetFault(func(r azure.Request) *azure.Answer {
				if r.Service != azure.ResourceManager {
					return nil
				}
				return &azure.Answer{Status: http.StatusOK, Body: body}
			})
		}
	}
	const unusable = "no usable answer from Azure Resource Manager"
	for name, c := range map[string]struct {
		prepare    func(*fixture, *azure.Cluster) // before that cluster is replaced
		kind, text string
		after      time.Duration
	}{
		"creating":     {func(_ *fixture, c *azure.Cluster) { c.ProvisioningState = "Creating" }, "pending", "the cluster is being created", 30 * time.Second},
		"stopped":      {func(_ *fixture, c *azure.Cluster) { c.PowerState = "Stopped" }, "pending", "the cluster is stopped: start it", 5 * time.Minute},
		"upgrading":    {func(_ *fixture, c *azure.Cluster) { c.ProvisioningState = "Upgrading" }, "none", "", 0},
		"no Entra ID":  {func(_ *fixture, c *azure.Cluster) { c.WithoutEntra = true }, "invalid", "the cluster does not use Microsoft Entra ID", 0},
		"kubeconfig":   {func(_ *fixture, c *azure.Cluster) { c.Kubeconfig = []byte(secretValue) }, "mint failed", unusable, 0},
		"no CA":        {func(_ *fixture, c *azure.Cluster) { c.Kubeconfig = azDefault().secret(server, nil).Data["kubeconfig"] }, "mint failed", unusable, 0},
		"unauthorized": {status(http.StatusUnauthorized), "mint failed", "the token of the identity is refused", 0},
		"forbidden":    {func(_ *fixture, c *azure.Cluster) { c.Readers = []string{teamClient} }, "mint failed", "Azure Kubernetes Service Cluster User Role", 0},
		"missing":      {status(http.StatusNotFound), "invalid", "there is no such cluster", 0},
		"busy":         {status(http.StatusTooManyRequests), "pending", "too many requests for Azure Resource Manager", time.Minute},
		"broken":       {status(http.StatusInternalServerError), "mint failed", unusable, 0},
		"redirect":     {status(http.StatusFound), "mint failed", unusable, 0},
		"conflict":     {status(http.StatusConflict), "mint failed", unusable, 0},
		"no JSON":      {body("<html>" + secretValue), "mint failed", unusable, 0},
		"other JSON":   {body(`{"properties":"` + secretValue + `"}`), "mint failed", unusable, 0},
		"nothing":      {body("{}"), "mint failed", unusable, 0},
		"too much": {func(f *fixture, c *azure.Cluster) {
			body(`{"kubeconfigs":[{"value":"`+base64.StdEncoding.EncodeToString(c.UserKubeconfig())+`"}],"more":"`+strings.Repeat("x", 9<<20)+`"}`)(f, c)
		}, "mint failed", unusable, 0},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			changed := f.cluster()
			c.prepare(f, &changed)
			f.azure.AddCluster(changed)
			_, err := f.resolve(t, namedCluster(""))
			expectError(t, err, c.kind, c.text)
			if after, _ := credential.IsPending(err); after != c.after {
				t.Errorf("it waits for %s, not for %s", after, c.after)
			}
			if c.kind != "none" && len(f.kubernetesTokens()) > 0 {
				t.Error("a token was issued")
			}
		})
	}
}

// What Entra ID answers becomes one of a few texts, with its code if that is one of a few.
func TestAnswersOfEntra(t *testing.T) {
	refusal := func(code int) *azure.Answer {
		answer := azure.Refusal(code)
		return &answer
	}
	large := `{"token_type":"Bearer","expires_in":3600,"access_token":"opaque-x","more":"` + strings.Repeat("x", 2<<20) + `"}`
	for name, c := range map[string]struct {
		answer *azure.Answer
		text   string
	}{
		"no application":         {refusal(700016), "refused by Microsoft Entra ID (AADSTS700016): the identity does not exist"},
		"no federated":           {refusal(70021), "(AADSTS70021): no federated credential"},
		"no subject":             {refusal(700213), "(AADSTS700213): no federated credential"},
		"no issuer":              {refusal(700211), "(AADSTS700211): no federated credential"},
		"no audience":            {refusal(700212), "(AADSTS700212): no federated credential"},
		"expired":                {refusal(700024), "(AADSTS700024): the assertion of the hub has expired"},
		"signature":              {refusal(50013), "(AADSTS50013): the assertion of the hub is not valid"},
		"tenant":                 {refusal(90002), "(AADSTS90002): the tenant does not exist"},
		"server application":     {refusal(500011), "(AADSTS500011): the tenant does not know"},
		"conditional access":     {refusal(53003), "(AADSTS53003): a policy for conditional access"},
		"disabled":               {refusal(7000112), "(AADSTS7000112): the identity is disabled"},
		"code that is not known": {refusal(123456), "refused by Microsoft Entra ID: check the identity"},
		"code that is none":      {&azure.Answer{Status: http.StatusBadRequest, Body: `{"error_codes":["` + secretValue + `"]}`}, "refused by Microsoft Entra ID: check the identity"},
		"no JSON":                {&azure.Answer{Status: http.StatusForbidden, Body: "<html>" + secretValue}, "refused by Microsoft Entra ID: check the identity"},
		"busy":                   {&azure.Answer{Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "30"}}, "no usable answer from Microsoft Entra ID"},
		"broken":                 {&azure.Answer{Status: http.StatusBadGateway, Body: secretValue}, "no usable answer from Microsoft Entra ID"},
		"no token":               {&azure.Answer{Status: http.StatusOK, Body: `{"token_type":"` + secretValue + `"}`}, "no usable answer from Microsoft Entra ID"},
		"too much":               {&azure.Answer{Status: http.StatusOK, Body: large}, "no usable answer from Microsoft Entra ID"},
		"too much, compressed":   {&azure.Answer{Status: http.StatusOK, Header: map[string]string{"Content-Encoding": "gzip"}, Body: compressed(t, large)}, "no usable answer from Microsoft Entra ID"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.azure.SetFault(func(r azure.Request) *azure.Answer {
				if r.Service == azure.Entra && r.Method == http.MethodPost {
					return c.answer
				}
				return nil
			})
			_, first := f.resolve(t, azDefault().secret(server, f.ca))
			expectError(t, first, "mint failed", c.text)
			if _, again := f.resolve(t, azDefault().secret(server, f.ca)); again == nil || again.Error() != first.Error() {
				t.Errorf("the text is %v, then %v", first, again)
			}
		})
	}
	t.Run("no discovery document", func(t *testing.T) {
		f := newFixture(t)
		f.azure.SetFault(func(r azure.Request) *azure.Answer {
			if r.Service == azure.Entra {
				return &azure.Answer{Status: http.StatusOK, Body: "<html>" + secretValue}
			}
			return nil
		})
		_, err := f.resolve(t, azDefault().secret(server, f.ca))
		expectError(t, err, "mint failed", "no usable answer from Microsoft Entra ID")
	})
	t.Run("retried once", func(t *testing.T) {
		f := newFixture(t)
		failures := 0
		f.azure.SetFault(func(r azure.Request) *azure.Answer {
			if r.Service == azure.Entra && failures == 0 {
				failures++
				return &azure.Answer{Status: http.StatusServiceUnavailable}
			}
			return nil
		})
		_, err := f.resolve(t, azDefault().secret(server, f.ca))
		expectError(t, err, "none", "")
	})
}

func compressed(tb testing.TB, text string) string {
	tb.Helper()
	var buffer bytes.Buffer
	w := gzip.NewWriter(&buffer)
	if _, err := w.Write([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return buffer.String()
}

// A token is used until most of its time is over, then there is a new one, and the binding is checked anew.
func TestExpiry(t *testing.T) {
	api := newAPIServer(t)
	f := newFixture(t)
	f.azure.SetLifetime(30 * time.Minute)
	c := azure.Cluster{Subscription: subscription, ResourceGroup: group, Name: cluster, Server: api.URL, CA: pemOf(api.Server)}
	f.azure.AddCluster(c)
	secret := azDefault().secret(api.URL, pemOf(api.Server))
	config, err := f.resolve(t, secret)
	if err != nil {
		t.Fatal(err)
	}
	first := api.send(t, config)
	f.clock.SetTime(f.clock.Now().Add(15 * time.Minute))
	if _, err := f.resolve(t, secret); err != nil {
		t.Fatal(err)
	}
	if again := api.send(t, config); again != first || len(f.kubernetesTokens()) != 1 {
		t.Error("a new token, although there was one")
	}
	f.azure.SetLifetime(time.Hour) // the time of the stand-in stays where it is.
	f.clock.SetTime(f.clock.Now().Add(12 * time.Minute))
	if second := api.send(t, config); second == first || second != f.kubernetesTokens()[1].Value {
		t.Error("no new token near the end of the first")
	}
	c.CA = newCA(t)
	f.azure.AddCluster(c)
	f.azure.SetLifetime(4 * time.Hour)
	f.clock.SetTime(f.clock.Now().Add(2 * time.Hour))
	if _, err := f.resolve(t, secret); !credential.IsDenied(err) {
		t.Errorf("the CA is another one now, but the error is %v", err)
	}
}

// Threat 28: a token is for one Secret, one version of it, one endpoint and one policy.
func TestTokensAreNotShared(t *testing.T) {
	const both = `{namespaces: ["*"], resolvers: [aks], aks: {hubIdentity: true, subscriptions: [` + subscription + `, ` + subscription2 + `]}}`
	f := newFixture(t)
	f.azure.AddCluster(azure.Cluster{Subscription: subscription, ResourceGroup: group, Name: "other", Server: "https://other.example.com:443", CA: f.ca})
	secret := azDefault().secret(server, f.ca)
	resolve := func(secret *corev1.Secret, want int) {
		t.Helper()
		if _, err := f.resolve(t, secret); err != nil {
			t.Fatal(err)
		}
		if got := len(f.kubernetesTokens()); got != want {
			t.Errorf("%d tokens, not %d", got, want)
		}
	}
	resolve(secret, 1)
	resolve(secret, 1)
	rotated := secret.DeepCopy()
	rotated.ResourceVersion = "2"
	resolve(rotated, 2)
	other := secret.DeepCopy()
	other.UID = types.UID("uid-2")
	resolve(other, 3)
	elsewhere := azDefault().secret("https://other.example.com:443", f.ca)
	elsewhere.ResourceVersion = "2"
	resolve(elsewhere, 4)
	f.policy = newPolicy(t, both, "")
	resolve(rotated, 5)
	f.policy = newPolicy(t, aksRule("clientIDs: ["+teamClient+"]"), "")
	team := namedCluster(", clientID: " + teamClient)
	team.ResourceVersion = "2"
	resolve(team, 6)
	// One for each version of each Secret, and one more for another identity.
	if tokens := f.azure.Tokens(managerPublic); len(tokens) != 4 || tokens[3].ClientID != teamClient {
		t.Errorf("tokens for Azure Resource Manager %+v, not three and one for another identity", tokens)
	}
}

func TestEnvironments(t *testing.T) {
	const government = "https://management.core.usgovcloudapi.net"
	const china = "https://management.core.chinacloudapi.cn"
	public := []string{"login.microsoftonline.com", "management.azure.com"}
	us := []string{"login.microsoftonline.us", "management.usgovcloudapi.net"}
	cn := []string{"login.chinacloudapi.cn", "management.chinacloudapi.cn"}
	named := func(*fixture) *corev1.Secret { return namedCluster("") }
	in := func(args ...string) func(*fixture) *corev1.Secret {
		return func(f *fixture) *corev1.Secret {
			return kubelogin(append([]string{"--server-id", serverID}, args...)...).secret(server, f.ca)
		}
	}
	for name, c := range map[string]struct {
		policy    func(*fixture) string // of clouds.azure
		authority string                // in the environment
		secret    func(*fixture) *corev1.Secret
		audience  string // of the token for Azure Resource Manager; empty for a DeniedError
		hosts     []string
	}{
		"default":                   {nil, "", named, managerPublic, public},
		"government by policy":      {func(*fixture) string { return "environment: AzureUSGovernmentCloud" }, "", named, government, us},
		"policy before environment": {func(*fixture) string { return "environment: AzureUSGovernmentCloud" }, "https://login.microsoftonline.com/", named, government, us},
		"government by webhook":     {nil, "https://login.microsoftonline.us/", named, government, us},
		"china":                     {func(*fixture) string { return "environment: AzureChinaCloud" }, "", in("-e", "AzureChinaCloud"), china, cn},
		"addresses": {func(f *fixture) string {
			return "authority: " + f.azure.Authority + ", resourceManager: " + f.azure.ResourceManager
		}, "https://unused.example.com", named, managerPublic, nil},
		"stanza of another cloud": {nil, "", in("-e", "AzureChinaCloud"), "", nil},
		"stanza of this cloud":    {nil, "", in("-e", "AzurePublicCloud", "--authority-host", "https://login.microsoftonline.com"), managerPublic, public},
		"hostile authority":       {nil, "", in("--authority-host", "https://evil.example.com/"), "", nil},
		"authority of another":    {nil, "", in("--authority-host", "https://login.microsoftonline.us/"), "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.env["AZURE_AUTHORITY_HOST"] = c.authority
			if c.policy != nil {
				f.policy = newPolicy(t, hubOnly, "clouds: {azure: {"+c.policy(f)+"}}")
			}
			_, err := f.resolve(t, c.secret(f))
			if c.audience == "" {
				expectError(t, err, "denied", "clouds.azure")
				if len(f.azure.Requests()) > 0 {
					t.Error("Azure was asked")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(f.azure.Tokens(c.audience)) != 1 || len(f.azure.Tokens()) != 2 {
				t.Errorf("tokens %+v, not one for %s and one for the cluster", f.azure.Tokens(), c.audience)
			}
			if c.hosts == nil {
				c.hosts = []string{strings.TrimPrefix(f.azure.Authority, "https://"), strings.TrimPrefix(f.azure.ResourceManager, "https://")}
			}
			for _, r := range f.azure.Requests() {
				if !slices.Contains(c.hosts, r.Host) {
					t.Errorf("%s was asked, and is not one of %s", r.Host, c.hosts)
				}
				if strings.Contains(r.Path, "discovery/instance") {
					t.Error("the public cloud was asked about the authority")
				}
			}
		})
	}
}

func TestContext(t *testing.T) {
	for name, secret := range map[string]func(*fixture) *corev1.Secret{
		"kubeconfig": func(f *fixture) *corev1.Secret { return azDefault().secret(server, f.ca) },
		"document":   func(*fixture) *corev1.Secret { return namedCluster("") },
	} {
		for _, service := range []string{azure.Entra, azure.ResourceManager} {
			t.Run(name+", "+service, func(t *testing.T) {
				f := newFixture(t)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				release := make(chan struct{})
				t.Cleanup(func() { close(release) })
				f.azure.SetFault(func(r azure.Request) *azure.Answer {
					if r.Service == service {
						cancel()
						<-release
					}
					return nil
				})
				_, err := f.Resolve(ctx, credential.Request{Secret: secret(f)})
				if !errors.Is(err, context.Canceled) || kindOf(err) != "unexpected" {
					t.Errorf("the error is %s: %v", kindOf(err), err)
				}
			})
		}
	}
}

// Nothing of what passes through is in a log, at any verbosity.
func TestNoLeaks(t *testing.T) {
	var log bytes.Buffer
	state := klog.CaptureState()
	t.Cleanup(state.Restore)
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"v": "10", "logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	klog.SetOutput(&log)
	f := newFixture(t)
	api := newAPIServer(t)
	f.azure.AddCluster(azure.Cluster{Subscription: subscription, ResourceGroup: group, Name: "api", Server: api.URL, CA: pemOf(api.Server)})
	config, err := f.resolve(t, azDefault().secret(api.URL, pemOf(api.Server)))
	if err != nil {
		t.Fatal(err)
	}
	api.send(t, config)
	if text := fmt.Sprintf("%v %+v %#v", config, config, config.String()); strings.Contains(text, api.seen()[0]) {
		t.Error("the token is in the text of the config")
	}
	refused := map[string]*corev1.Secret{
		"secret":  kubelogin("--client-secret", secretValue).secret(server, f.ca),
		"binding": azDefault().secret(server, newCA(t)),
		"form":    document("aks: {subscription: %s}", secretValue),
		"client":  namedCluster(", clientID: " + teamClient),
	}
	for name, secret := range refused {
		t.Run(name, func(t *testing.T) {
			_, err := f.resolve(t, secret)
			expectNoSentinel(t, err.Error())
		})
	}
	f.azure.SetFault(func(azure.Request) *azure.Answer {
		answer := azure.Refusal(700213)
		return &answer
	})
	f.restart()
	_, err = f.resolve(t, azDefault().secret(server, f.ca))
	expectError(t, err, "mint failed", "AADSTS700213")
	klog.Flush()
	expectNoSentinel(t, log.String())
}

// A cluster that is no longer pinned is looked for again, although there is a token.
func TestNoLongerPinned(t *testing.T) {
	f := newFixture(t)
	const elsewhere = "https://elsewhere.example.com"
	secret := azDefault().secret(elsewhere, f.ca)
	f.policy = newPolicy(t, hubOnly, "endpoints: {pinned: [{server: \""+elsewhere+"\", certificateAuthorityData: "+fmt.Sprintf("%q", f.ca)+"}]}")
	_, err := f.resolve(t, secret)
	expectError(t, err, "none", "")
	f.policy = newPolicy(t, hubOnly, "")
	_, err = f.resolve(t, secret)
	expectError(t, err, "denied", "no cluster in the subscriptions")
}

// A stanza may come from elsewhere than a Secret, with a config that a kubeconfig cannot have.
func TestPinnedButNotVerified(t *testing.T) {
	f := newFixture(t)
	f.policy = newPolicy(t, hubOnly, "endpoints: {pinned: [{server: \""+server+"\", certificateAuthorityData: "+fmt.Sprintf("%q", f.ca)+"}]}")
	_, err := f.ResolveStanza(t.Context(), credential.Request{Secret: newSecret("", nil)}, &restconfig.Kubeconfig{
		Config: &rest.Config{Host: server, TLSClientConfig: rest.TLSClientConfig{CAData: f.ca, Insecure: true}},
		Exec:   &restconfig.Exec{Command: "kubelogin", Args: azDefault().args},
	})
	expectError(t, err, "denied", "the server or the CA")
}

func TestRequestWithoutSecret(t *testing.T) {
	if _, err := newFixture(t).Resolve(t.Context(), credential.Request{}); kindOf(err) != "unexpected" {
		t.Errorf("unexpected error %v", err)
	}
}

// A page with hundreds of clusters is read to its end.
func TestLargePage(t *testing.T) {
	f := newFixture(t)
	f.azure.SetFault(func(r azure.Request) *azure.Answer {
		if r.Service != azure.ResourceManager || r.Method != http.MethodGet {
			return nil
		}
		return &azure.Answer{Status: http.StatusOK, Body: `{"more":"` + strings.Repeat("x", 5<<20) + `","value":[{"id":"` + f.cluster().ID() +
			`","properties":{"fqdn":"prod-1.hcp.westeurope.azmk8s.io"}}]}`}
	})
	_, err := f.resolve(t, azDefault().secret(server, f.ca))
	expectError(t, err, "none", "")
}

// The kubeconfig of Azure Resource Manager is read with the rules for all kubeconfigs, since it is copied from.
func TestKubeconfigOfResourceManager(t *testing.T) {
	f := newFixture(t)
	hostile := f.cluster()
	hostile.Kubeconfig = []byte(strings.ReplaceAll(string(f.cluster().UserKubeconfig()), "certificate-authority-data: "+base64.StdEncoding.EncodeToString(f.ca), "certificate-authority: /etc/shadow"))
	f.azure.AddCluster(hostile)
	_, err := f.resolve(t, namedCluster(""))
	expectError(t, err, "mint failed", "no usable answer from Azure Resource Manager")
}

// BenchmarkMint measures what one token for one cluster costs, with all that precedes it, against servers of this process.
func BenchmarkMint(b *testing.B) {
	f := newFixture(b)
	secrets := map[string]*corev1.Secret{"kubeconfig": azDefault().secret(server, f.ca), "document": namedCluster("")}
	version := 1
	for _, form := range []string{"kubeconfig", "document"} {
		secret := secrets[form]
		secret.UID = types.UID(form)
		b.Run(form+"/new", func(b *testing.B) {
			for b.Loop() {
				version++
				secret.ResourceVersion = strconv.Itoa(version)
				if _, err := f.resolve(b, secret); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(form+"/kept", func(b *testing.B) {
			for b.Loop() {
				if _, err := f.resolve(b, secret); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
