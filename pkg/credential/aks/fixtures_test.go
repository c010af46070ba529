// Copyright Contributors to the Open Cluster Management project

package aks_test

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/aks"
	"open-cluster-management.io/import-provider/pkg/credential/cloud"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/test/cloud/azure"
)

const (
	hubTenant     = "aaaaaaaa-0000-0000-0000-00000000000a"
	otherTenant   = "aaaaaaaa-0000-0000-0000-00000000000b"
	hubClient     = "cccccccc-0000-0000-0000-00000000000a"
	teamClient    = "cccccccc-0000-0000-0000-00000000000b"
	foreignClient = "cccccccc-0000-0000-0000-00000000000c"
	publicClient  = "80faf920-1908-4b52-b5ef-a8e7bedfc67a"
	subscription  = "dddddddd-0000-0000-0000-00000000000a"
	subscription2 = "dddddddd-0000-0000-0000-00000000000b"
	group         = "platform_rg"
	cluster       = "prod_1"
	server        = "https://prod-1.hcp.westeurope.azmk8s.io:443"
	assertion     = "5e471e1-assertion-of-the-hub"
	secretValue   = "5e471e1-value-of-the-tenant" // planted where nothing may read it.
	managerPublic = "https://management.core.windows.net/"

	hubOnly = `{namespaces: ["*"], resolvers: [aks], aks: {hubIdentity: true, subscriptions: [` + subscription + `]}}`
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// newCA returns a certificate that is nobody else's.
func newCA(tb testing.TB) []byte {
	tb.Helper()
	return azure.New(tb).CA
}

func pemOf(s *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func newPolicy(tb testing.TB, rule, more string) *policy.Policy {
	tb.Helper()
	p, err := policy.Parse([]byte("apiVersion: " + policy.APIVersion + "\nkind: " + policy.Kind + "\nrules: [" + rule + "]\n" + more))
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// fixture is a resolver with a cloud in which the hub has a workload identity and may read one cluster.
type fixture struct {
	azure  *azure.Cloud
	ca     []byte // of the cluster
	clock  *clocktesting.FakePassiveClock
	tokens *tokensource.Cache
	env    map[string]string
	policy *policy.Policy
	credential.StanzaResolver
}

func newFixture(tb testing.TB) *fixture {
	tb.Helper()
	tokenFile := filepath.Join(tb.TempDir(), "token")
	if err := os.WriteFile(tokenFile, []byte(assertion), 0o600); err != nil {
		tb.Fatal(err)
	}
	f := &fixture{azure: azure.New(tb), ca: newCA(tb), clock: clocktesting.NewFakePassiveClock(time.Now()), policy: newPolicy(tb, hubOnly, "")}
	f.env = map[string]string{
		"AZURE_FEDERATED_TOKEN_FILE": tokenFile, "AZURE_CLIENT_ID": hubClient, "AZURE_TENANT_ID": hubTenant,
		"AZURE_AUTHORITY_HOST": "https://login.microsoftonline.com/",
	}
	for client, tenant := range map[string]string{hubClient: hubTenant, teamClient: hubTenant, foreignClient: otherTenant} {
		f.azure.AddIdentity(azure.Identity{ClientID: client, TenantID: tenant, Assertion: assertion})
	}
	f.azure.AddCluster(f.cluster())
	f.restart()
	return f
}

// restart makes the resolver anew, without tokens.
func (f *fixture) restart() {
	f.tokens = tokensource.NewCache(tokensource.Options{Clock: f.clock})
	f.StanzaResolver = aks.New(cloud.Options{
		Policy: func() *policy.Policy { return f.policy }, Tokens: f.tokens, Clock: f.clock, HTTPClient: f.azure.Client(),
		Getenv:     func(name string) string { return f.env[name] },
		Kubeconfig: credential.KubeconfigOptions{InsecureSkipTLSVerify: true},
	})
}

func (f *fixture) cluster() azure.Cluster {
	return azure.Cluster{Subscription: subscription, ResourceGroup: group, Name: cluster, Server: server, CA: f.ca}
}

func (f *fixture) resolve(tb testing.TB, secret *corev1.Secret) (*rest.Config, error) {
	tb.Helper()
	config, err := f.Resolve(tb.Context(), credential.Request{ClusterName: "cluster1", Secret: secret})
	if (config == nil) == (err == nil) {
		tb.Fatalf("config %v with error %v", config, err)
	}
	return config, err
}

// kubernetesTokens are the tokens for clusters that were issued.
func (f *fixture) kubernetesTokens() []azure.Token { return f.azure.Tokens(azure.KubernetesServer) }

// stanza is an exec stanza; an argument or a variable follows the other.
type stanza struct {
	command string
	args    []string
	env     []string
}

// kubelogin is what az and kubelogin write.
func kubelogin(args ...string) stanza {
	return stanza{command: "kubelogin", args: append([]string{"get-token"}, args...)}
}

// azDefault is the stanza of "az aks get-credentials".
func azDefault() stanza {
	return kubelogin("--environment", "AzurePublicCloud", "--server-id", azure.KubernetesServer, "--client-id", publicClient,
		"--tenant-id", hubTenant, "--login", "devicecode")
}

func (s stanza) secret(server string, ca []byte, edits ...func(cluster map[string]any)) *corev1.Secret {
	env := []any{}
	for _, pair := range s.env {
		name, value, _ := strings.Cut(pair, "=")
		env = append(env, map[string]any{"name": name, "value": value})
	}
	clusterEntry := map[string]any{"server": server, "certificate-authority-data": base64.StdEncoding.EncodeToString(ca)}
	for _, edit := range edits {
		edit(clusterEntry)
	}
	file := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": cluster,
		"clusters": []any{map[string]any{"name": cluster, "cluster": clusterEntry}},
		"contexts": []any{map[string]any{"name": cluster, "context": map[string]any{"cluster": cluster, "user": "clusterUser_" + group + "_" + cluster}}},
		"users": []any{map[string]any{"name": "clusterUser_" + group + "_" + cluster, "user": map[string]any{"exec": map[string]any{
			"apiVersion": "client.authentication.k8s.io/v1beta1", "command": s.command, "args": s.args, "env": env,
		}}}},
	}
	return newSecret("kubeconfig", must(yaml.Marshal(file)))
}

func document(format string, args ...any) *corev1.Secret {
	return newSecret(credential.DocumentKey, fmt.Appendf(nil, format, args...))
}

func namedCluster(more string) *corev1.Secret {
	return document("aks: {subscription: %s, resourceGroup: %s, cluster: %s%s}", subscription, group, cluster, more)
}

func newSecret(key string, value []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "import", UID: types.UID("uid-1"), ResourceVersion: "1"},
		Data:       map[string][]byte{key: value},
	}
}

// kindOf is the kind of an error.
func kindOf(err error) string {
	_, pending := credential.IsPending(err)
	switch {
	case err == nil:
		return "none"
	case credential.IsInvalid(err):
		return "invalid"
	case credential.IsDenied(err):
		return "denied"
	case pending:
		return "pending"
	case credential.IsMintFailed(err):
		return "mint failed"
	}
	return "unexpected"
}

// expectError compares the kind, and looks for a part of the text and for what no text may hold.
func expectError(tb testing.TB, err error, kind, text string) {
	tb.Helper()
	if got := kindOf(err); got != kind {
		tb.Fatalf("the error is %s, not %s: %v", got, kind, err)
	}
	if err == nil {
		return
	}
	if !strings.Contains(err.Error(), text) {
		tb.Errorf("%q is not in %q", text, err)
	}
	expectNoSentinel(tb, fmt.Sprintf("%v %+v", err, err))
}

func expectNoSentinel(tb testing.TB, text string) {
	tb.Helper()
	for _, secret := range []string{
		assertion, secretValue, azure.Sentinel, azure.UserCredential, "opaque-", hubTenant, hubClient, teamClient, subscription, "azmk8s", "Trace ID",
	} {
		if strings.Contains(text, secret) {
			tb.Errorf("%q is in %q", secret, text)
		}
	}
}

// apiServer is a cluster that records the tokens that it is sent.
type apiServer struct {
	*httptest.Server
	lock   sync.Mutex
	tokens []string
}

func newAPIServer(tb testing.TB) *apiServer {
	tb.Helper()
	s := &apiServer{}
	s.Server = httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.lock.Lock()
		defer s.lock.Unlock()
		s.tokens = append(s.tokens, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
	}))
	tb.Cleanup(s.Close)
	return s
}

func (s *apiServer) seen() []string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return slices.Clone(s.tokens)
}

// send sends a request to the server of a config, and returns the token that the API server saw.
func (s *apiServer) send(tb testing.TB, config *rest.Config) string {
	tb.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		tb.Fatal(err)
	}
	req, err := http.NewRequestWithContext(tb.Context(), http.MethodGet, config.Host+"/version", http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		tb.Fatal(err)
	}
	_ = resp.Body.Close()
	seen := s.seen()
	return seen[len(seen)-1]
}
