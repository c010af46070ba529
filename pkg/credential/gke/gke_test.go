// Copyright Contributors to the Open Cluster Management project

package gke_test

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
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
	"open-cluster-management.io/import-provider/pkg/credential/cloud"
	"open-cluster-management.io/import-provider/pkg/credential/credentialtest"
	"open-cluster-management.io/import-provider/pkg/credential/gke"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/pkg/restconfig"
	"open-cluster-management.io/import-provider/test/cloud/gcp"
)

const (
	project  = "team-a-1234"
	location = "europe-west1"
	cluster  = "production"
	entry    = "gke_" + project + "_" + location + "_" + cluster
	resource = "projects/" + project + "/locations/" + location + "/clusters/" + cluster
	account  = "importer@team-a-1234.iam.gserviceaccount.com"

	otherEndpoint = "the server or the CA is not that of the cluster"
	noCA          = "no CA is given"

	dnsEndpoint = "gke-0123456789abcdef-123456789012.europe-west1.gke.goog"
)

// server is an API server of a cluster. It remembers the Authorization headers of its requests.
type server struct {
	*httptest.Server
	lock sync.Mutex // guards seen
	seen []string
}

func startServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		s.lock.Lock()
		defer s.lock.Unlock()
		s.seen = append(s.seen, req.Header.Get("Authorization"))
	}))
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func (s *server) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

func (s *server) address() string { return strings.TrimPrefix(s.URL, "https://") }

func (s *server) headers() []string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return slices.Clone(s.seen)
}

// fixture is a hub on a cloud with one cluster.
type fixture struct {
	*gcp.Cloud
	server   *server
	clock    *clocktesting.FakePassiveClock
	tokens   *tokensource.Cache
	resolver credential.StanzaResolver
	// policy is what the resolver sees; gke is its rule.
	policy policy.ImportPolicy
	getenv func(string) string
}

func newFixture(t *testing.T, rule policy.GKE) *fixture {
	t.Helper()
	f := &fixture{
		Cloud: gcp.Start(), server: startServer(t),
		clock: clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
	t.Cleanup(f.Close)
	f.Now = f.clock.Now
	f.Impersonable = []string{account}
	f.Clusters[resource] = gcp.Cluster{Endpoint: f.server.address(), CA: f.server.ca()}
	f.policy = policy.ImportPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: policy.APIVersion, Kind: policy.Kind},
		Rules:    []policy.Rule{{Namespaces: []string{"tenant"}, Resolvers: []string{credential.ResolverGKE}, GKE: rule}},
		Clouds:   policy.Clouds{GCP: policy.GCP{Container: f.URL(), IAMCredentials: f.URL()}},
	}
	f.getenv = func(name string) string {
		if name == "GCE_METADATA_HOST" {
			return f.MetadataHost()
		}
		return ""
	}
	f.tokens = tokensource.NewCache(tokensource.Options{Clock: f.clock})
	f.resolver = gke.New(cloud.Options{
		Policy: func() *policy.Policy { return parse(t, &f.policy) },
		Tokens: f.tokens, Clock: f.clock,
		// A test may change the transport.
		HTTPClient: &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			return f.Client().Transport.RoundTrip(req)
		})},
		Getenv: func(name string) string { return f.getenv(name) },
	})
	return f
}

func parse(t *testing.T, p *policy.ImportPolicy) *policy.Policy {
	t.Helper()
	data, err := yaml.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := policy.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func hubIdentity() policy.GKE { return policy.GKE{HubIdentity: true} }

// stanza is the exec stanza that gcloud writes.
func stanza(args ...string) map[string]any {
	return map[string]any{
		"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "/opt/google/bin/gke-gcloud-auth-plugin", "args": args,
		"installHint": "Install gke-gcloud-auth-plugin", "provideClusterInfo": true, "interactiveMode": "IfAvailable",
	}
}

// secret is an import Secret with a kubeconfig as gcloud writes it, changed by edit.
func secret(t *testing.T, address string, ca []byte, exec map[string]any, edit func(config map[string]any)) *corev1.Secret {
	t.Helper()
	config := map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": entry,
		"clusters": []any{map[string]any{"name": entry, "cluster": map[string]any{"server": address, "certificate-authority-data": ca}}},
		"users":    []any{map[string]any{"name": entry, "user": map[string]any{"exec": exec}}},
		"contexts": []any{map[string]any{"name": entry, "context": map[string]any{"cluster": entry, "user": entry}}},
	}
	if edit != nil {
		edit(config)
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return newSecret(map[string]string{"kubeconfig": string(data)})
}

func newSecret(data map[string]string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "production", UID: "uid-1", ResourceVersion: "1"}, Data: map[string][]byte{},
	}
	for key, value := range data {
		s.Data[key] = []byte(value)
	}
	return s
}

func document(fields string) *corev1.Secret {
	return newSecret(map[string]string{credential.DocumentKey: "gke: {" + fields + "}"})
}

const fields = "project: " + project + ", location: " + location + ", cluster: " + cluster

// rename gives the cluster entry a name of its own.
func rename(name string) func(map[string]any) {
	return func(config map[string]any) {
		config["clusters"].([]any)[0].(map[string]any)["name"] = name
		config["contexts"].([]any)[0].(map[string]any)["context"].(map[string]any)["cluster"] = name
	}
}

func (f *fixture) kubeconfig(t *testing.T, args ...string) *corev1.Secret {
	t.Helper()
	return secret(t, f.server.URL, f.server.ca(), stanza(args...), nil)
}

func (f *fixture) resolve(ctx context.Context, s *corev1.Secret) (*rest.Config, error) {
	return f.resolver.Resolve(ctx, credential.Request{ClusterName: "production", Secret: s})
}

// visit sends a request with a config and returns whom the cluster takes it for.
func (f *fixture) visit(t *testing.T, config *rest.Config) string {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/version", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	headers := f.server.headers()
	return f.AccountOf(headers[len(headers)-1])
}

type kind func(error) bool

func isPending(err error) bool { _, pending := credential.IsPending(err); return pending }

// expect checks kind and text of an error, and that nothing that is secret is in it.
func expect(t *testing.T, err error, is kind, text string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if !is(err) {
		t.Errorf("the error is of another kind: %T %v", err, err)
	}
	if !strings.Contains(err.Error(), text) {
		t.Errorf("the error is %q, not %q", err, text)
	}
	for _, secret := range []string{gcp.TokenPrefix, gcp.Canary, "127.0.0.1", account} {
		if strings.Contains(fmt.Sprintf("%+v", err), secret) {
			t.Errorf("%s is in the error %v", secret, err)
		}
	}
}

func TestConformance(t *testing.T) {
	f := newFixture(t, policy.GKE{HubIdentity: true, ServiceAccounts: []string{account}})
	other := startServer(t)
	invalid := map[string]*corev1.Secret{
		"no data":               newSecret(nil),
		"other server":          secret(t, other.URL, f.server.ca(), stanza(), nil),
		"other CA":              secret(t, f.server.URL, []byte(credentialtest.CA), stanza(), nil),
		"no CA":                 secret(t, f.server.URL, nil, stanza(), nil),
		"other name":            secret(t, f.server.URL, f.server.ca(), stanza(), rename("renamed-by-somebody")),
		"flag":                  f.kubeconfig(t, "--account=somebody@example.com"),
		"other service account": f.kubeconfig(t, "--impersonate_service_account=somebody@other-project.iam.gserviceaccount.com"),
		"no service account":    f.kubeconfig(t, "--impersonate_service_account=somebody@example.com"),
		"half a cluster":        f.kubeconfig(t, "--cluster=productive-cluster"),
		"unknown cluster":       f.kubeconfig(t, "--project=team-b-1234", "--location=us-central1", "--cluster=productive"),
		"no project":            document("location: europe-west1, cluster: production"),
		"strange project":       document("project: ../../secrets, location: europe-west1, cluster: production"),
		"unknown":               document("project: team-b-1234, location: europe-west1, cluster: production"),
	}
	t.Run("kubeconfig", func(t *testing.T) {
		credentialtest.RunConformance(t, credentialtest.Suite{
			Resolver: f.resolver, ValidSecret: func() *corev1.Secret { return f.kubeconfig(t) }, InvalidSecrets: invalid,
		})
	})
	t.Run("document", func(t *testing.T) {
		credentialtest.RunConformance(t, credentialtest.Suite{
			Resolver: f.resolver, ValidSecret: func() *corev1.Secret { return document(fields + ", serviceAccount: " + account) },
			InvalidSecrets: invalid,
		})
	})
}

func TestAccepted(t *testing.T) {
	f := newFixture(t, policy.GKE{HubIdentity: true, ServiceAccounts: []string{"*@team-a-1234.iam.gserviceaccount.com"}})
	f.Clusters["projects/example.com:legacy/locations/us-central1-c/clusters/old"] = f.Clusters[resource]
	argo := stanza("gcp")
	argo["command"] = "argocd-k8s-auth"
	env := stanza()
	env["env"] = []any{map[string]any{"name": "USE_GKE_GCLOUD_AUTH_PLUGIN", "value": "True"}}
	windows := stanza()
	windows["command"] = `C:\Google\gke-gcloud-auth-plugin.exe`
	atServer := func(exec map[string]any, edit func(map[string]any)) *corev1.Secret {
		return secret(t, f.server.URL, f.server.ca(), exec, edit)
	}
	both := f.kubeconfig(t)
	both.Data[credential.DocumentKey] = []byte("gke: {" + fields + ", serviceAccount: " + account + "}")
	cases := []struct {
		name   string
		secret *corev1.Secret
		as     string
	}{
		{"as gcloud writes it", f.kubeconfig(t), gcp.HubAccount},
		{"as gcloud writes it with application default credentials", f.kubeconfig(t, "--use_application_default_credentials"), gcp.HubAccount},
		{"application default credentials in another form", f.kubeconfig(t, "--use_application_default_credentials=true"), gcp.HubAccount},
		{"on another system", atServer(windows, nil), gcp.HubAccount},
		{"with gcloud's variable", atServer(env, nil), gcp.HubAccount},
		{"a service account", f.kubeconfig(t, "--impersonate_service_account", account), account},
		{"Argo CD", atServer(argo, nil), gcp.HubAccount},
		{"a name of its own and flags", atServer(stanza("--project", project, "--location="+location, "--cluster", cluster), rename("mine")), gcp.HubAccount},
		{"a project with a domain", atServer(stanza(), rename("gke_example.com:legacy_us-central1-c_old")), gcp.HubAccount},
		{"no kubeconfig", document(fields), gcp.HubAccount},
		{"no kubeconfig and a service account", document(fields + ", serviceAccount: " + account), account},
		{"a document beside a kubeconfig", both, account},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			config, err := f.resolve(t.Context(), c.secret)
			if err != nil {
				t.Fatal(err)
			}
			if got := f.visit(t, config); got != c.as {
				t.Errorf("the cluster is visited as %q, not %q", got, c.as)
			}
			if config.BearerToken != "" || config.Host != f.server.URL || !bytes.Equal(config.CAData, f.server.ca()) {
				t.Errorf("the config is %v", config)
			}
		})
	}
}

// Each address that the API reports may be used, and the first is the one for a Secret without a kubeconfig.
func TestEndpoints(t *testing.T) {
	f := newFixture(t, hubIdentity())
	f.Clusters[resource] = gcp.Cluster{
		CA: []byte(credentialtest.CA), DNSEndpoint: dnsEndpoint, DNSOpen: true,
		Endpoint: "203.0.113.1", ControlPlanePublic: "203.0.113.2", ControlPlanePrivate: "10.0.0.2", PublicEndpoint: "203.0.113.3",
		PrivateEndpoint: "2001:db8::4",
	}
	config, err := f.resolve(t.Context(), document(fields))
	if err != nil || config.Host != "https://203.0.113.1" {
		t.Fatalf("%v %v", config, err)
	}
	for address, accepted := range map[string]bool{
		"https://203.0.113.1": true, "https://203.0.113.2:443": true, "https://10.0.0.2": true, "https://203.0.113.3/": true,
		"https://[2001:db8::4]": true, "https://203.0.113.5": false, "https://203.0.113.1:6443": false, "https://203.0.113.1/path": false,
		// The CA of the cluster is not that of its DNS endpoint.
		"https://" + dnsEndpoint: false,
	} {
		_, err := f.resolve(t.Context(), secret(t, address, []byte(credentialtest.CA), stanza(), nil))
		if accepted != (err == nil) {
			t.Errorf("%s: %v", address, err)
		}
	}
	query, err := url.ParseQuery(strings.SplitN(strings.Fields(f.Requests(gcp.Container)[0])[1], "?", 2)[1])
	if want := "status,endpoint,masterAuth/clusterCaCertificate,privateClusterConfig(privateEndpoint,publicEndpoint)," +
		"controlPlaneEndpointsConfig(dnsEndpointConfig(endpoint,allowExternalTraffic),ipEndpointsConfig(enabled,privateEndpoint,publicEndpoint))"; err != nil ||
		query.Get("fields") != want {
		t.Errorf("asked for %v", query)
	}
}

// The DNS endpoint has a certificate of a public authority, so that what leads there has no CA.
func TestDNSEndpoint(t *testing.T) {
	f := newFixture(t, hubIdentity())
	withIP := gcp.Cluster{Endpoint: f.server.address(), CA: f.server.ca(), DNSEndpoint: dnsEndpoint, DNSOpen: true}
	alone := gcp.Cluster{CA: f.server.ca(), DNSEndpoint: dnsEndpoint, DNSOpen: true}
	// As gcloud writes it.
	byStanza := func() *corev1.Secret { return secret(t, "https://"+dnsEndpoint, nil, stanza(), nil) }
	for name, c := range map[string]struct {
		cluster gcp.Cluster
		secret  *corev1.Secret
		host    string
	}{
		"beside IP endpoints":            {withIP, byStanza(), "https://" + dnsEndpoint},
		"in another form":                {withIP, secret(t, "https://"+strings.ToUpper(dnsEndpoint)+":443/", nil, stanza(), nil), "https://" + strings.ToUpper(dnsEndpoint) + ":443/"},
		"alone":                          {alone, byStanza(), "https://" + dnsEndpoint},
		"alone, by name":                 {alone, document(fields), "https://" + dnsEndpoint},
		"alone, no CA is reported":       {gcp.Cluster{DNSEndpoint: dnsEndpoint, DNSOpen: true}, document(fields), "https://" + dnsEndpoint},
		"alone, as the one endpoint too": {gcp.Cluster{Endpoint: dnsEndpoint, DNSEndpoint: dnsEndpoint, DNSOpen: true}, document(fields), "https://" + dnsEndpoint},
		"IP endpoints that are closed": {gcp.Cluster{
			Endpoint: f.server.address(), ControlPlanePublic: "203.0.113.2", PrivateEndpoint: "10.0.0.2", IPClosed: true,
			CA: f.server.ca(), DNSEndpoint: dnsEndpoint, DNSOpen: true,
		}, document(fields), "https://" + dnsEndpoint},
		"IP endpoints, by name": {withIP, document(fields), f.server.URL},
	} {
		t.Run(name, func(t *testing.T) {
			f.Clusters[resource] = c.cluster
			config, err := f.resolve(t.Context(), c.secret)
			if err != nil {
				t.Fatal(err)
			}
			if config.Host != c.host || (len(config.CAData) > 0) != (c.host == f.server.URL) || config.Insecure || config.CAFile != "" || config.ServerName != "" {
				t.Errorf("the config is %v", config)
			}
			token, err := credentialtest.SentToken(t.Context(), config)
			if err != nil || f.AccountOf("Bearer "+token) != gcp.HubAccount {
				t.Errorf("the token is of %q, %v", f.AccountOf("Bearer "+token), err)
			}
		})
	}
	t.Run("closed", func(t *testing.T) {
		f.Clusters[resource] = gcp.Cluster{Endpoint: f.server.address(), CA: f.server.ca(), DNSEndpoint: dnsEndpoint}
		_, err := f.resolve(t.Context(), byStanza())
		expect(t, err, credential.IsMintFailed, "the DNS endpoint of the cluster takes no traffic from outside")
		if config, err := f.resolve(t.Context(), f.kubeconfig(t)); err != nil || config.Host != f.server.URL {
			t.Errorf("the IP endpoint beside it: %v %v", config, err)
		}
	})
	t.Run("all closed", func(t *testing.T) {
		f.Clusters[resource] = gcp.Cluster{Endpoint: f.server.address(), CA: f.server.ca(), IPClosed: true, DNSEndpoint: dnsEndpoint}
		_, err := f.resolve(t.Context(), document(fields))
		expect(t, err, credential.IsMintFailed, "has neither an IP endpoint nor a DNS endpoint that takes traffic from outside")
	})
}

// Threat 10: the token goes to no host but the one that the cloud reports.
func TestOtherEndpoint(t *testing.T) {
	f := newFixture(t, hubIdentity())
	hostile := startServer(t)
	f.Clusters["projects/"+project+"/locations/"+location+"/clusters/other"] = gcp.Cluster{Endpoint: hostile.address(), CA: []byte(credentialtest.CA)}
	set := func(key string, value any) func(map[string]any) {
		return func(config map[string]any) {
			config["clusters"].([]any)[0].(map[string]any)["cluster"].(map[string]any)[key] = value
		}
	}
	f.Clusters[resource] = gcp.Cluster{Endpoint: f.server.address(), CA: f.server.ca(), DNSEndpoint: dnsEndpoint, DNSOpen: true}
	cases := map[string]*corev1.Secret{
		"host":            secret(t, hostile.URL, f.server.ca(), stanza(), nil),
		"host and CA":     secret(t, hostile.URL, []byte(credentialtest.CA), stanza(), nil),
		"CA":              secret(t, f.server.URL, []byte(credentialtest.CA), stanza(), nil),
		"one more CA":     secret(t, f.server.URL, append(f.server.ca(), credentialtest.CA...), stanza(), nil),
		"tls-server-name": secret(t, f.server.URL, f.server.ca(), stanza(), set("tls-server-name", "hostile.example.com")),
		"another cluster": secret(t, f.server.URL, f.server.ca(), stanza("--project="+project, "--location="+location, "--cluster=other"), nil),
		// Whose DNS it is decides who answers for that name: with a CA of the tenant, that one would get the token.
		"DNS endpoint, CA of the tenant":  secret(t, "https://"+dnsEndpoint, hostile.ca(), stanza(), nil),
		"DNS endpoint, CA of the cluster": secret(t, "https://"+dnsEndpoint, f.server.ca(), stanza(), nil),
		"DNS endpoint, tls-server-name":   secret(t, "https://"+dnsEndpoint, nil, stanza(), set("tls-server-name", "hostile.example.com")),
		// Without a CA any server with a certificate of a public authority would do.
		"no CA":                       secret(t, f.server.URL, nil, stanza(), nil),
		"no CA, hostile":              secret(t, hostile.URL, nil, stanza(), nil),
		"no CA, DNS of another":       secret(t, "https://gke-f"+dnsEndpoint[len("gke-0"):], nil, stanza(), nil),
		"no CA, longer name":          secret(t, "https://"+dnsEndpoint+".example.com", nil, stanza(), nil),
		"no CA, name below":           secret(t, "https://x."+dnsEndpoint, nil, stanza(), nil),
		"no CA, another port":         secret(t, "https://"+dnsEndpoint+":8443", nil, stanza(), nil),
		"no CA, path":                 secret(t, "https://"+dnsEndpoint+"/path", nil, stanza(), nil),
		"no CA, DNS of other cluster": secret(t, "https://"+dnsEndpoint, nil, stanza("--project="+project, "--location="+location, "--cluster=other"), nil),
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			config, err := f.resolve(t.Context(), cases[name])
			text := otherEndpoint
			if strings.HasPrefix(name, "no CA") {
				text = noCA
			}
			expect(t, err, credential.IsDenied, text)
			if config != nil {
				t.Error("there is a config")
			}
		})
	}
	t.Run("no verification", func(t *testing.T) {
		insecure := gke.New(cloud.Options{
			Policy: func() *policy.Policy { return parse(t, &f.policy) }, Tokens: f.tokens, Clock: f.clock, HTTPClient: f.Client(), Getenv: f.getenv,
			Kubeconfig: credential.KubeconfigOptions{InsecureSkipTLSVerify: true},
		})
		s := secret(t, f.server.URL, nil, stanza(), set("insecure-skip-tls-verify", true))
		_, err := insecure.Resolve(t.Context(), credential.Request{Secret: s})
		expect(t, err, credential.IsDenied, otherEndpoint)
	})
	if seen := append(hostile.headers(), f.server.headers()...); len(seen) > 0 {
		t.Errorf("%d requests were sent to a cluster", len(seen))
	}
}

func TestPinned(t *testing.T) {
	f := newFixture(t, hubIdentity())
	unknown := secret(t, f.server.URL, f.server.ca(), stanza(), rename("mine"))
	_, err := f.resolve(t.Context(), unknown)
	expect(t, err, credential.IsInvalid, "which cluster the kubeconfig is for is not known")
	if f.Total() > 0 {
		t.Error("a service was asked")
	}

	f.policy.Endpoints.Pinned = []policy.Pinned{{Server: f.server.URL, CertificateAuthorityData: string(f.server.ca())}}
	config, err := f.resolve(t.Context(), unknown)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.visit(t, config); got != gcp.HubAccount {
		t.Errorf("the cluster is visited as %q", got)
	}
	if asked := f.Requests(gcp.Container); len(asked) > 0 {
		t.Errorf("the API was asked: %v", asked)
	}
	for _, ca := range [][]byte{[]byte(credentialtest.CA), nil} {
		_, err = f.resolve(t.Context(), secret(t, f.server.URL, ca, stanza(), rename("mine")))
		expect(t, err, credential.IsInvalid, "which cluster the kubeconfig is for is not known")
	}
	// With another name, it may be another server with a certificate of the CA.
	_, err = f.resolve(t.Context(), secret(t, f.server.URL, f.server.ca(), stanza(), func(config map[string]any) {
		config["clusters"].([]any)[0].(map[string]any)["cluster"].(map[string]any)["tls-server-name"] = "other.example.com"
	}))
	expect(t, err, credential.IsDenied, otherEndpoint)
	f.policy.Rules[0].GKE.HubIdentity = false
	_, err = f.resolve(t.Context(), unknown)
	expect(t, err, credential.IsDenied, "it names no service account")
}

func TestRefusedStanzas(t *testing.T) {
	f := newFixture(t, policy.GKE{HubIdentity: true, ServiceAccounts: []string{"*"}})
	with := func(key string, value any, args ...string) map[string]any {
		exec := stanza(args...)
		exec[key] = value
		return exec
	}
	variable := func(name string) map[string]any {
		return with("env", []any{map[string]any{"name": name, "value": "/etc/" + gcp.Canary}})
	}
	cases := []struct {
		name string
		exec map[string]any
		text string
	}{
		{"an account of gcloud", stanza("--account=" + gcp.Canary), "remove the flag --account of gke-gcloud-auth-plugin"},
		{"a configuration of gcloud", stanza("--configuration", gcp.Canary), "remove the flag --configuration of gke-gcloud-auth-plugin"},
		{"edge cloud", stanza("--use_edge_cloud"), "remove the flag --use_edge_cloud of gke-gcloud-auth-plugin"},
		{"a file of logs", stanza("--log_file=/tmp/" + gcp.Canary), "remove the flag --log_file of gke-gcloud-auth-plugin"},
		{"a word", stanza(gcp.Canary), "only gke-gcloud-auth-plugin with flags is known here"},
		{"a key file", variable("GOOGLE_APPLICATION_CREDENTIALS"), "remove the variable GOOGLE_APPLICATION_CREDENTIALS"},
		{"a token", variable("CLOUDSDK_AUTH_ACCESS_TOKEN"), "remove the variable CLOUDSDK_AUTH_ACCESS_TOKEN"},
		{"another metadata server", variable("GCE_METADATA_HOST"), "remove the variable GCE_METADATA_HOST"},
		{"no service account", stanza("--impersonate_service_account=" + gcp.Canary), "--impersonate_service_account must be the email"},
		{"an empty service account", stanza("--impersonate_service_account="), "--impersonate_service_account needs a value"},
		{"a service account with a path", stanza("--impersonate_service_account=../" + account), "--impersonate_service_account must be the email"},
		{"a project alone", stanza("--project=" + project), "the flags --project, --location and --cluster name a cluster together"},
		{"a strange cluster", stanza("--project="+project, "--location="+location, "--cluster=../x"), "name a cluster together"},
		{"Argo CD with flags", with("command", "argocd-k8s-auth", "gcp", "--project="+project), "remove the flag --project of argocd-k8s-auth"},
		{"another tool", with("command", "aws", "eks", "get-token"), "only gke-gcloud-auth-plugin and argocd-k8s-auth gcp are known here"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := f.resolve(t.Context(), secret(t, f.server.URL, f.server.ca(), c.exec, nil))
			expect(t, err, credential.IsInvalid, c.text)
		})
	}
	for name, problem := range map[string]string{
		"location: europe-west1, cluster: production":                                   "gke.project is missing",
		"project: team-a-1234, cluster: production":                                     "gke.location is missing",
		"project: team-a-1234, location: europe-west1":                                  "gke.cluster is missing",
		"project: a/b, location: europe-west1, cluster: production":                     "gke.project is not valid",
		"project: team-a-1234, location: 'a?b', cluster: production":                    "gke.location is not valid",
		"project: team-a-1234, location: europe-west1, cluster: 'a b'":                  "gke.cluster is not valid",
		fields + ", serviceAccount: 'a@example.com'":                                    "gke.serviceAccount is not valid",
		fields + ", serviceAccount: 'a@example.com#.iam.gserviceaccount.com'":           "gke.serviceAccount is not valid",
		"project: team-a-1234, location: europe-west1, cluster: production, file: /etc": "data key credential.yaml is not valid",
	} {
		_, err := f.resolve(t.Context(), document(name))
		expect(t, err, credential.IsInvalid, problem)
	}
	if f.Total() > 0 {
		t.Error("a service was asked")
	}
}

// Threat 33: nobody is anybody without the policy.
func TestIdentity(t *testing.T) {
	const (
		own   = "it names no service account, and the policy of the hub does not allow the hub's own"
		other = "the policy of the hub does not allow the service account that it names"
	)
	cases := []struct {
		name           string
		rule           policy.GKE
		serviceAccount string
		text           string
	}{
		{"nothing is allowed", policy.GKE{}, "", own},
		{"nothing is allowed, also not by name", policy.GKE{}, account, other},
		{"the hub's own is for those who name none", hubIdentity(), account, other},
		{"a service account is for those who name it", policy.GKE{ServiceAccounts: []string{"*"}}, "", own},
		{"of another project", policy.GKE{ServiceAccounts: []string{"*@team-b-1234.iam.gserviceaccount.com"}}, account, other},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, c.rule)
			byFlag, byDocument := f.kubeconfig(t), document(fields)
			if c.serviceAccount != "" {
				byFlag, byDocument = f.kubeconfig(t, "--impersonate_service_account="+account), document(fields+", serviceAccount: "+account)
			}
			for _, s := range []*corev1.Secret{byFlag, byDocument} {
				_, err := f.resolve(t.Context(), s)
				expect(t, err, credential.IsDenied, c.text)
			}
			if f.Total() > 0 {
				t.Error("a service was asked")
			}
		})
	}
	t.Run("another namespace", func(t *testing.T) {
		f := newFixture(t, hubIdentity())
		s := f.kubeconfig(t)
		s.Namespace = "elsewhere"
		_, err := f.resolve(t.Context(), s)
		expect(t, err, credential.IsDenied, own)
	})
}

// The one who asks the API is the one who visits the cluster.
func TestImpersonation(t *testing.T) {
	f := newFixture(t, policy.GKE{ServiceAccounts: []string{account}})
	entry := f.Clusters[resource]
	entry.Viewers = []string{account}
	f.Clusters[resource] = entry
	config, err := f.resolve(t.Context(), f.kubeconfig(t, "--impersonate_service_account="+account))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.visit(t, config); got != account {
		t.Errorf("the cluster is visited as %q", got)
	}
	for _, asked := range f.Requests(gcp.IAMCredentials) {
		if asked != "POST /v1/projects/-/serviceAccounts/"+account+":generateAccessToken "+gcp.HubAccount {
			t.Errorf("asked: %s", asked)
		}
	}
	if asked := f.Requests(gcp.Container); len(asked) != 1 || !strings.HasSuffix(asked[0], " "+account) {
		t.Errorf("asked: %v", asked)
	}
}

func TestExpiry(t *testing.T) {
	for _, c := range []struct {
		name     string
		args     []string
		lifetime time.Duration
	}{
		{"of the hub", nil, gcp.HubLifetime},
		{"of a service account", []string{"--impersonate_service_account=" + account}, gcp.AccountLifetime},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, policy.GKE{HubIdentity: true, ServiceAccounts: []string{account}})
			config, err := f.resolve(t.Context(), f.kubeconfig(t, c.args...))
			if err != nil {
				t.Fatal(err)
			}
			visit := func() string {
				if f.visit(t, config) == "" {
					t.Error("the token has expired")
				}
				headers := f.server.headers()
				return headers[len(headers)-1]
			}
			first := visit()
			f.clock.SetTime(f.clock.Now().Add(c.lifetime / 2))
			if visit() != first {
				t.Error("half of the lifetime is not used")
			}
			f.clock.SetTime(f.clock.Now().Add(c.lifetime * 45 / 100))
			if visit() == first {
				t.Error("the token is used to its end")
			}
		})
	}
}

// Threats 9 and 28: no token is shared between servers, Secrets, versions of a Secret or identities.
func TestTokensAreNotShared(t *testing.T) {
	f := newFixture(t, policy.GKE{HubIdentity: true, ServiceAccounts: []string{account}})
	second := startServer(t)
	f.Clusters["projects/"+project+"/locations/"+location+"/clusters/second"] = gcp.Cluster{Endpoint: second.address(), CA: second.ca()}
	secrets := []*corev1.Secret{
		f.kubeconfig(t),
		secret(t, second.URL, second.ca(), stanza("--project="+project, "--location="+location, "--cluster=second"), nil),
		f.kubeconfig(t, "--impersonate_service_account="+account),
		f.kubeconfig(t),
		f.kubeconfig(t),
	}
	secrets[3].UID = types.UID("uid-2")
	secrets[4].ResourceVersion = "2"
	seen := map[string]int{}
	for i, s := range secrets {
		config, err := f.resolve(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		token, err := credentialtest.SentToken(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		if before, found := seen[token]; found {
			t.Errorf("case %d has the token of case %d", i, before)
		}
		seen[token] = i
	}
	asked := f.Total()
	if _, err := f.resolve(t.Context(), secrets[4]); err != nil {
		t.Fatal(err)
	}
	if got := f.Total() - asked; got != 1 {
		t.Errorf("the same Secret again takes %d requests, not 1 to the API", got)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func TestFailures(t *testing.T) {
	const (
		noMetadata = "the metadata server of Google Cloud gives no token"
		noToken    = "the IAM Service Account Credentials API gives no token"
		noCluster  = "the Kubernetes Engine API does not say where the cluster is"
	)
	write := func(body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }
	}
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, gcp.Canary, code) }
	}
	redirect := func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/elsewhere" {
			fmt.Fprint(w, `{"access_token":"x","expires_in":3600}`)
			return
		}
		http.Redirect(w, req, "/elsewhere", http.StatusFound)
	}
	// Fine, were it not for its size.
	huge := func(body string) http.HandlerFunc { return write(strings.Repeat(" ", cloud.MaxResponseBytes) + body) }
	const known = `"endpoint":"203.0.113.1","masterAuth":{"clusterCaCertificate":"`
	cases := []struct {
		name    string
		service gcp.Service
		respond http.HandlerFunc
		is      kind
		text    string
	}{
		{"no service account", gcp.Metadata, status(http.StatusNotFound), credential.IsMintFailed, "the hub has no service account of Google Cloud"},
		{"metadata refuses", gcp.Metadata, status(http.StatusForbidden), credential.IsMintFailed, noMetadata},
		{"metadata redirects", gcp.Metadata, redirect, credential.IsMintFailed, noMetadata},
		{"metadata is something else", gcp.Metadata, write("<html>" + gcp.Canary), credential.IsMintFailed, noMetadata},
		{"metadata has no token", gcp.Metadata, write(`{"expires_in":3600}`), credential.IsMintFailed, noMetadata},
		{"metadata has no expiry", gcp.Metadata, write(`{"access_token":"` + gcp.Canary + `"}`), credential.IsMintFailed, noMetadata},
		{"metadata is huge", gcp.Metadata, huge(`{"access_token":"x","expires_in":3600}`), credential.IsMintFailed, noMetadata},

		{"may not impersonate", gcp.IAMCredentials, status(http.StatusForbidden), credential.IsMintFailed, "roles/iam.serviceAccountTokenCreator"},
		{"unknown service account", gcp.IAMCredentials, status(http.StatusNotFound), credential.IsInvalid, "correct its email"},
		{"IAM fails", gcp.IAMCredentials, status(http.StatusServiceUnavailable), credential.IsMintFailed, noToken},
		{"IAM wants another token", gcp.IAMCredentials, status(http.StatusUnauthorized), credential.IsMintFailed, noToken},
		{"IAM redirects", gcp.IAMCredentials, redirect, credential.IsMintFailed, noToken},
		{"IAM is something else", gcp.IAMCredentials, write("<html>" + gcp.Canary), credential.IsMintFailed, noToken},
		{"IAM has no expiry", gcp.IAMCredentials, write(`{"accessToken":"` + gcp.Canary + `"}`), credential.IsMintFailed, noToken},
		{"IAM has an old token", gcp.IAMCredentials, write(`{"accessToken":"x","expireTime":"2029-12-31T00:00:00Z"}`), credential.IsMintFailed, noToken},
		{"IAM is huge", gcp.IAMCredentials, huge(`{"accessToken":"x","expireTime":"2030-01-01T01:00:00Z"}`), credential.IsMintFailed, noToken},

		{"may not see", gcp.Container, status(http.StatusForbidden), credential.IsMintFailed, "roles/container.clusterViewer"},
		{"no such cluster", gcp.Container, status(http.StatusNotFound), credential.IsInvalid, "correct its project, location and name"},
		{"no such location", gcp.Container, status(http.StatusBadRequest), credential.IsInvalid, "correct its project, location and name"},
		{"API fails", gcp.Container, status(http.StatusInternalServerError), credential.IsMintFailed, noCluster},
		{"API is busy", gcp.Container, status(http.StatusTooManyRequests), credential.IsMintFailed, noCluster},
		{"API redirects", gcp.Container, redirect, credential.IsMintFailed, noCluster},
		{"API is something else", gcp.Container, write("<html>" + gcp.Canary), credential.IsMintFailed, noCluster},
		{"API is huge", gcp.Container, huge(`{"status":"PROVISIONING"}`), credential.IsMintFailed, noCluster},
		{"being created", gcp.Container, write(`{"status":"PROVISIONING"}`), isPending, "the cluster is being created"},
		{"being deleted", gcp.Container, write(`{"status":"STOPPING"}`), credential.IsMintFailed, "the cluster is being deleted"},
		{"in error", gcp.Container, write(`{"status":"ERROR"}`), credential.IsMintFailed, "the cluster is in a state of error"},
		{"in a new state", gcp.Container, write(`{"status":"` + gcp.Canary + `"}`), credential.IsMintFailed, "the cluster is in a state of error"},
		{"no endpoint", gcp.Container, write(`{"status":"RUNNING","endpoint":"gke.example.com"}`), credential.IsMintFailed, "has neither an IP endpoint"},
		{"no DNS endpoint", gcp.Container, write(`{"status":"RUNNING","controlPlaneEndpointsConfig":{"dnsEndpointConfig":{"allowExternalTraffic":true}}}`),
			credential.IsMintFailed, "has neither an IP endpoint"},
		{"no CA", gcp.Container, write(`{"status":"RUNNING",` + known + `"}}`), credential.IsMintFailed, "reports no CA of the cluster"},
		{"strange CA", gcp.Container, write(`{"status":"RUNNING",` + known + `%%%"}}`), credential.IsMintFailed, "reports no CA of the cluster"},
	}
	f := newFixture(t, policy.GKE{HubIdentity: true, ServiceAccounts: []string{account}})
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f.Respond(c.service, c.respond)
			defer f.Respond(c.service, nil)
			for i, s := range []*corev1.Secret{
				f.kubeconfig(t, "--impersonate_service_account="+account), document(fields + ", serviceAccount: " + account),
			} {
				// No token of a case before.
				s.UID = types.UID(fmt.Sprintf("%s-%d", c.name, i))
				_, err := f.resolve(t.Context(), s)
				expect(t, err, c.is, c.text)
			}
		})
	}
	if after, _ := credential.IsPending(func() error {
		f.Respond(gcp.Container, write(`{"status":"PROVISIONING"}`))
		defer f.Respond(gcp.Container, nil)
		_, err := f.resolve(t.Context(), document(fields))
		return err
	}()); after != 30*time.Second {
		t.Errorf("a cluster that is being created is asked for again after %s", after)
	}
	if seen := f.server.headers(); len(seen) > 0 {
		t.Errorf("%d requests were sent to the cluster", len(seen))
	}
}

// A service that is away, or never answers, ends as a failure of the service and not of the caller.
func TestAway(t *testing.T) {
	f := newFixture(t, hubIdentity())
	f.Close()
	_, err := f.resolve(t.Context(), f.kubeconfig(t))
	expect(t, err, credential.IsMintFailed, "the metadata server of Google Cloud gives no token")
}

func TestContext(t *testing.T) {
	for _, service := range []gcp.Service{gcp.Metadata, gcp.IAMCredentials, gcp.Container} {
		t.Run(string(service), func(t *testing.T) {
			f := newFixture(t, policy.GKE{ServiceAccounts: []string{account}})
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			t.Cleanup(func() { close(done) })
			f.Respond(service, func(http.ResponseWriter, *http.Request) {
				cancel()
				<-done
			})
			_, err := f.resolve(ctx, document(fields+", serviceAccount: "+account))
			if err == nil || ctx.Err() == nil || credential.IsInvalid(err) || credential.IsDenied(err) || credential.IsMintFailed(err) {
				t.Errorf("the end of the context is reported as %v", err)
			}
		})
	}
}

// Threat 25: what Google's libraries would read from files and the environment is neither opened nor dialled.
func TestNoAmbientCredentials(t *testing.T) {
	f := newFixture(t, hubIdentity())
	hostile := startServer(t)
	file := filepath.Join(t.TempDir(), "application_default_credentials.json")
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"type":"external_account","audience":"//iam.googleapis.com/x","token_url":"%[1]s/token",
		"subject_token_type":"urn:ietf:params:oauth:token-type:jwt","credential_source":{"url":"%[1]s/subject"}}`, hostile.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	variables := map[string]string{
		"GOOGLE_APPLICATION_CREDENTIALS": file, "CLOUDSDK_CONFIG": filepath.Dir(file), "GOOGLE_API_USE_CLIENT_CERTIFICATE": "true",
		"GOOGLE_CLOUD_UNIVERSE_DOMAIN": "hostile.example.com", "HTTP_PROXY": hostile.URL,
	}
	for name, value := range variables {
		t.Setenv(name, value)
	}
	t.Setenv("GCE_METADATA_HOST", hostile.address()) // only Options.Getenv counts
	before := f.getenv
	f.getenv = func(name string) string {
		if name != "GCE_METADATA_HOST" {
			t.Errorf("the variable %s is read", name)
		}
		return before(name)
	}
	config, err := f.resolve(t.Context(), f.kubeconfig(t))
	if err != nil {
		t.Fatal(err)
	}
	if got := f.visit(t, config); got != gcp.HubAccount {
		t.Errorf("the cluster is visited as %q", got)
	}
	if seen := hostile.headers(); len(seen) > 0 {
		t.Errorf("%d requests to where a file says", len(seen))
	}
}

// Without addresses in the policy, the services are those of the universe.
func TestServices(t *testing.T) {
	for universe, hosts := range map[string][]string{
		"":                 {"container.googleapis.com", "iamcredentials.googleapis.com"},
		"apis-example.com": {"container.apis-example.com", "iamcredentials.apis-example.com"},
	} {
		f := newFixture(t, policy.GKE{ServiceAccounts: []string{account}})
		f.policy.Clouds.GCP = policy.GCP{Universe: universe}
		asked := map[string]bool{}
		next := f.Client().Transport
		f.Client().Transport = roundTripper(func(req *http.Request) (*http.Response, error) {
			asked[req.URL.Scheme+"://"+req.URL.Host] = true
			req = req.Clone(req.Context())
			req.URL.Host = strings.TrimPrefix(f.URL(), "https://")
			return next.RoundTrip(req)
		})
		if _, err := f.resolve(t.Context(), f.kubeconfig(t, "--impersonate_service_account="+account)); err != nil {
			t.Fatal(err)
		}
		if !asked["https://"+hosts[0]] || !asked["https://"+hosts[1]] || len(asked) != 2 {
			t.Errorf("universe %q: asked %v", universe, asked)
		}
	}
}

// A config for a kubeconfig shares nothing with it.
func TestResolveStanzaCopies(t *testing.T) {
	f := newFixture(t, hubIdentity())
	kubeconfig := &restconfig.Kubeconfig{
		Cluster: entry,
		Config:  &rest.Config{Host: f.server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: f.server.ca()}},
		Exec:    &restconfig.Exec{Command: "gke-gcloud-auth-plugin", Args: []string{"--use_application_default_credentials", "--project=" + project, "--location=" + location, "--cluster=" + cluster}},
	}
	args := slices.Clone(kubeconfig.Exec.Args)
	for range 3 {
		if _, err := f.resolver.ResolveStanza(t.Context(), credential.Request{Secret: f.kubeconfig(t)}, kubeconfig); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(args, kubeconfig.Exec.Args) || kubeconfig.Config.WrapTransport != nil {
		t.Error("the kubeconfig was changed")
	}
}
