// Copyright Contributors to the Open Cluster Management project

package clusterprofile_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	clusterinventoryv1alpha1 "sigs.k8s.io/cluster-inventory-api/apis/v1alpha1"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/clusterprofile"
	"open-cluster-management.io/import-provider/pkg/credential/credentialtest"
	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

const (
	server = "https://production.example.com:6443"
	token  = "s3nt1nel-token"
	canary = "c4nary-of-a-profile"

	extensionArgs = "clusterprofiles.multicluster.x-k8s.io/exec/additional-args"
	extensionEnv  = "clusterprofiles.multicluster.x-k8s.io/exec/additional-envs"
	extensionExec = "client.authentication.k8s.io/exec"
)

// providers is a file as other users of the API have it.
const providers = `{"providers":[
	{"name":"google","execConfig":{"apiVersion":"client.authentication.k8s.io/v1beta1","command":"/opt/gke-gcloud-auth-plugin",
		"args":["--use_application_default_credentials"],"env":[{"name":"USE_GKE_GCLOUD_AUTH_PLUGIN","value":"True"}],"provideClusterInfo":true}},
	{"name":"eks","execConfig":{"apiVersion":"client.authentication.k8s.io/v1beta1","args":null,"command":"aws","env":null,
		"installHint":"install it","interactiveMode":"Never","provideClusterInfo":false}},
	{"name":"own","execConfig":{"apiVersion":"client.authentication.k8s.io/v1","command":"./bin/cp-creds","args":["--managed-serviceaccount=x"]}}
]}`

// stanzas is a resolver of stanzas. It remembers what it was given.
type stanzas struct{ seen []*restconfig.Kubeconfig }

func (s *stanzas) Resolve(context.Context, credential.Request) (*rest.Config, error) {
	return nil, errors.New("a ClusterProfile has a stanza")
}

func (s *stanzas) ResolveStanza(ctx context.Context, _ credential.Request, kubeconfig *restconfig.Kubeconfig) (*rest.Config, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.seen = append(s.seen, kubeconfig)
	config := rest.CopyConfig(kubeconfig.Config)
	config.BearerToken = token
	return config, nil
}

// concurrent is stanzas for the conformance suite, which calls from several goroutines.
type concurrent struct{}

func (concurrent) Resolve(context.Context, credential.Request) (*rest.Config, error) {
	return nil, errors.New("a ClusterProfile has a stanza")
}

func (concurrent) ResolveStanza(ctx context.Context, req credential.Request, kubeconfig *restconfig.Kubeconfig) (*rest.Config, error) {
	return (&stanzas{}).ResolveStanza(ctx, req, kubeconfig)
}

// fixture is a hub with ClusterProfiles.
type fixture struct {
	profiles     map[string]*clusterinventoryv1alpha1.ClusterProfile
	failure      error
	rule         policy.Rule
	proxies      []string
	gke, eks     *stanzas
	execResolver *stanzas
	resolver     credential.Resolver
}

func newFixture(t *testing.T, file string) *fixture {
	t.Helper()
	f := &fixture{
		profiles: map[string]*clusterinventoryv1alpha1.ClusterProfile{"fleet/production": profile("google")},
		rule: policy.Rule{
			Namespaces: []string{"tenant"}, Resolvers: []string{"*"},
			ClusterProfiles: policy.ClusterProfiles{Namespaces: []string{"fleet"}},
		},
		gke: &stanzas{}, eks: &stanzas{}, execResolver: &stanzas{},
	}
	f.resolver = f.build(t, file, map[string]credential.StanzaResolver{
		credential.ResolverGKE: f.gke, credential.ResolverEKS: f.eks, credential.ResolverExec: f.execResolver,
	})
	return f
}

func (f *fixture) build(t *testing.T, file string, resolvers map[string]credential.StanzaResolver) credential.Resolver {
	t.Helper()
	path := ""
	if file != "" {
		path = writeFile(t, file)
	}
	resolver, err := clusterprofile.New(clusterprofile.Options{
		Get: f.get, Policy: func() *policy.Policy { return f.policy(t) }, Resolvers: resolvers, ProviderFile: path,
	})
	if err != nil {
		t.Fatal(err)
	}
	return resolver
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "providers.json")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (f *fixture) policy(t *testing.T) *policy.Policy {
	t.Helper()
	data, err := yaml.Marshal(policy.ImportPolicy{
		TypeMeta: metav1.TypeMeta{APIVersion: policy.APIVersion, Kind: policy.Kind}, Rules: []policy.Rule{f.rule},
		Endpoints: policy.Endpoints{Proxies: f.proxies},
	})
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := policy.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func (f *fixture) get(ctx context.Context, namespace, name string) (*clusterinventoryv1alpha1.ClusterProfile, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("client rate limiter: %w", err)
	}
	if f.failure != nil {
		return nil, f.failure
	}
	found, known := f.profiles[namespace+"/"+name]
	if !known {
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: "multicluster.x-k8s.io", Resource: "clusterprofiles"}, name)
	}
	return found, nil
}

func (f *fixture) resolve(t *testing.T) (*rest.Config, error) {
	t.Helper()
	return f.resolver.Resolve(t.Context(), request("fleet", "production"))
}

func request(namespace, name string) credential.Request {
	return credential.Request{ClusterName: "production", Secret: document(fmt.Sprintf("clusterProfile: {namespace: %s, name: %s}", namespace, name))}
}

func document(text string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "production", UID: "uid", ResourceVersion: "1"},
		Data:       map[string][]byte{credential.DocumentKey: []byte(text)},
	}
}

// profile offers some access providers, each at its own path of the server.
func profile(names ...string) *clusterinventoryv1alpha1.ClusterProfile {
	p := &clusterinventoryv1alpha1.ClusterProfile{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "production"}}
	for _, name := range names {
		p.Status.AccessProviders = append(p.Status.AccessProviders, accessProvider(name, server+"/"+name))
	}
	return p
}

func accessProvider(name, address string) clusterinventoryv1alpha1.AccessProvider {
	return clusterinventoryv1alpha1.AccessProvider{
		Name: name, Cluster: clientcmdapiv1.Cluster{Server: address, CertificateAuthorityData: []byte(credentialtest.CA)},
	}
}

func extension(name, raw string) clientcmdapiv1.NamedExtension {
	return clientcmdapiv1.NamedExtension{Name: name, Extension: runtime.RawExtension{Raw: []byte(raw)}}
}

type kind func(error) bool

func isPending(err error) bool {
	after, pending := credential.IsPending(err)
	return pending && after == 30*time.Second
}

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
	if shown := fmt.Sprintf("%+v", err); strings.Contains(shown, canary) || strings.Contains(shown, server) {
		t.Errorf("a value of the profile is in the error %v", err)
	}
}

func TestConformance(t *testing.T) {
	f := newFixture(t, providers)
	f.profiles["fleet/insecure"] = profile("google")
	f.profiles["fleet/insecure"].Status.AccessProviders[0].Cluster.InsecureSkipTLSVerify = true
	f.profiles["fleet/others-have-it"] = profile("another-provider")
	f.rule.Resolvers = []string{credential.ResolverClusterProfile, credential.ResolverGKE}
	credentialtest.RunConformance(t, credentialtest.Suite{
		Resolver:    f.build(t, providers, map[string]credential.StanzaResolver{credential.ResolverGKE: concurrent{}}),
		ValidSecret: func() *corev1.Secret { return request("fleet", "production").Secret },
		InvalidSecrets: map[string]*corev1.Secret{
			"nothing":           document("eks: {cluster: production, region: eu-central-1}"),
			"no name":           document("clusterProfile: {namespace: fleet}"),
			"another namespace": request("kube-system", "production").Secret,
			"insecure":          request("fleet", "insecure").Secret,
			"another provider":  request("fleet", "others-have-it").Secret,
			"strange name":      request("fleet", "../../secrets/production").Secret,
		},
	})
}

func TestDocument(t *testing.T) {
	f := newFixture(t, providers)
	for text, problem := range map[string]string{
		"exchange: token-request":                                           "clusterProfile is missing",
		"clusterProfile: {name: production}":                                "clusterProfile.namespace is missing",
		"clusterProfile: {namespace: fleet}":                                "clusterProfile.name is missing",
		"clusterProfile: {namespace: fleet/x, name: production}":            "clusterProfile.namespace or clusterProfile.name is not valid",
		"clusterProfile: {namespace: fleet, name: production/status}":       "clusterProfile.namespace or clusterProfile.name is not valid",
		"clusterProfile: {namespace: fleet, name: production, args: [--x]}": "data key credential.yaml is not valid",
	} {
		_, err := f.resolver.Resolve(t.Context(), credential.Request{Secret: document(text)})
		expect(t, err, credential.IsInvalid, problem)
	}
}

// Threat 33: who may read which profiles is what the rule says, and nothing without one.
func TestNamespaces(t *testing.T) {
	const text = "the policy of the hub does not allow ClusterProfiles of the namespace that it names"
	f := newFixture(t, providers)
	f.failure = errors.New("asked")
	_, err := f.resolver.Resolve(t.Context(), request("other", "production"))
	expect(t, err, credential.IsDenied, text)
	f.rule.ClusterProfiles.Namespaces = nil
	_, err = f.resolve(t)
	expect(t, err, credential.IsDenied, text)
	f.failure = nil
	f.rule.ClusterProfiles.Namespaces = []string{"fle*"}
	if _, err := f.resolve(t); err != nil {
		t.Error(err)
	}
	elsewhere := request("fleet", "production")
	elsewhere.Secret.Namespace = "elsewhere"
	_, err = f.resolver.Resolve(t.Context(), elsewhere)
	expect(t, err, credential.IsDenied, text)
}

// Who may use this resolver may not use the others by it.
func TestResolvers(t *testing.T) {
	f := newFixture(t, providers)
	f.rule.Resolvers = []string{credential.ResolverClusterProfile, credential.ResolverGKE}
	if _, err := f.resolve(t); err != nil {
		t.Fatal(err)
	}
	for name, problem := range map[string]string{"eks": "the credential resolver eks", "own": "the credential resolver exec"} {
		f.profiles["fleet/production"] = profile(name)
		_, err := f.resolve(t)
		expect(t, err, credential.IsDenied, problem+`, which serves the access provider "`+name+`", is not enabled`)
	}
	if len(f.eks.seen)+len(f.execResolver.seen) > 0 {
		t.Error("a resolver that is not allowed was asked")
	}
	f.rule.Resolvers = []string{"*"}
	for _, name := range []string{"eks", "own"} {
		f.profiles["fleet/production"] = profile(name)
		if _, err := f.resolve(t); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.eks.seen) != 1 || len(f.execResolver.seen) != 1 || f.execResolver.seen[0].Exec.Command != "./bin/cp-creds" {
		t.Error("the resolver is not that of the command")
	}
	t.Run("one that is not there", func(t *testing.T) {
		f.resolver = f.build(t, providers, nil)
		_, err := f.resolve(t)
		expect(t, err, credential.IsDenied, "is not enabled")
	})
}

func TestReadFailures(t *testing.T) {
	resource := schema.GroupResource{Group: "multicluster.x-k8s.io", Resource: "clusterprofiles"}
	cases := []struct {
		name    string
		failure error
		is      kind
		text    string
	}{
		{"no profile", apierrors.NewNotFound(resource, canary), isPending, "the ClusterProfile that it names does not exist"},
		{"no API", apierrors.NewGenericServerResponse(http.StatusNotFound, "get", resource, canary, "404 page not found", 0, true),
			credential.IsMintFailed, "the hub has no ClusterProfile API"},
		{"no mapping", &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "ClusterProfile"}}, credential.IsMintFailed, "the hub has no ClusterProfile API"},
		{"no permission", apierrors.NewForbidden(resource, canary, errors.New(canary)), credential.IsMintFailed, "the import controller may not read ClusterProfiles"},
		{"no server", errors.New("dial tcp 10.0.0.1:443: " + canary), credential.IsMintFailed, "cannot be read from the hub"},
		{"busy", apierrors.NewTooManyRequests(canary, 7), credential.IsMintFailed, "cannot be read from the hub"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, providers)
			f.failure = c.failure
			_, err := f.resolve(t)
			expect(t, err, c.is, c.text)
		})
	}
	t.Run("no client", func(t *testing.T) {
		f := newFixture(t, providers)
		resolver, err := clusterprofile.New(clusterprofile.Options{
			Policy: func() *policy.Policy { return f.policy(t) }, ProviderFile: writeFile(t, providers),
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = resolver.Resolve(t.Context(), request("fleet", "production"))
		expect(t, err, credential.IsMintFailed, "the hub has no ClusterProfile API")
	})
	t.Run("no status", func(t *testing.T) {
		f := newFixture(t, providers)
		for _, empty := range []*clusterinventoryv1alpha1.ClusterProfile{nil, profile()} {
			f.profiles["fleet/production"] = empty
			_, err := f.resolve(t)
			expect(t, err, isPending, "has no access providers in its status yet")
		}
	})
	t.Run("end of the context", func(t *testing.T) {
		f := newFixture(t, providers)
		ctx, cancel := context.WithCancel(t.Context())
		get := f.get
		resolver, err := clusterprofile.New(clusterprofile.Options{
			Get: func(ctx context.Context, namespace, name string) (*clusterinventoryv1alpha1.ClusterProfile, error) {
				cancel()
				return get(ctx, namespace, name)
			},
			Policy: func() *policy.Policy { return f.policy(t) }, ProviderFile: writeFile(t, providers),
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := resolver.Resolve(ctx, request("fleet", "production")); !errors.Is(err, context.Canceled) || credential.IsMintFailed(err) {
			t.Errorf("the end of the context is reported as %v", err)
		}
	})
}

func TestChoice(t *testing.T) {
	older := profile("unknown")
	older.Status.CredentialProviders = []clusterinventoryv1alpha1.CredentialProvider{accessProvider("google", server+"/older")}
	both := profile("google")
	both.Status.CredentialProviders = older.Status.CredentialProviders
	cases := map[string]struct {
		profile *clusterinventoryv1alpha1.ClusterProfile
		host    string
	}{
		"the first of the file": {profile("own", "eks", "google"), server + "/google"},
		"what the hub knows":    {profile("unknown", "own", "eks"), server + "/eks"},
		"the older field":       {older, server + "/older"},
		"the newer field wins":  {both, server + "/google"},
		"the last of those with a name": {func() *clusterinventoryv1alpha1.ClusterProfile {
			p := profile("google", "google")
			p.Status.AccessProviders[1].Cluster.Server = server + "/second"
			return p
		}(), server + "/second"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, providers)
			f.profiles["fleet/production"] = c.profile
			config, err := f.resolve(t)
			if err != nil || config.Host != c.host {
				t.Errorf("%v %v", config, err)
			}
		})
	}
	f := newFixture(t, providers)
	f.profiles["fleet/production"] = profile("unknown")
	_, err := f.resolve(t)
	expect(t, err, credential.IsDenied, "has no access provider that the hub knows")
	f = newFixture(t, "")
	_, err = f.resolve(t)
	expect(t, err, credential.IsDenied, "by --clusterprofile-provider-file")
}

// The rules for a kubeconfig hold for what a profile says of its cluster.
func TestCluster(t *testing.T) {
	cases := map[string]struct {
		change func(c *clientcmdapiv1.Cluster)
		is     kind
		text   string
	}{
		"no server":    {func(c *clientcmdapiv1.Cluster) { c.Server = "" }, credential.IsInvalid, `status.accessProviders[].cluster.server of entry "google" is missing`},
		"http":         {func(c *clientcmdapiv1.Cluster) { c.Server = "http://" + canary }, credential.IsInvalid, "cluster.server"},
		"user-info":    {func(c *clientcmdapiv1.Cluster) { c.Server = "https://u:" + canary + "@x" }, credential.IsInvalid, "cluster.server"},
		"strange CA":   {func(c *clientcmdapiv1.Cluster) { c.CertificateAuthorityData = []byte(canary) }, credential.IsInvalid, "cluster.certificate-authority-data"},
		"file of a CA": {func(c *clientcmdapiv1.Cluster) { c.CertificateAuthority = "/etc/" + canary }, credential.IsInvalid, "cluster.certificate-authority"},
		"insecure":     {func(c *clientcmdapiv1.Cluster) { c.InsecureSkipTLSVerify = true }, credential.IsInvalid, `cluster.insecure-skip-tls-verify of entry "google" is not accepted: remove it and put the CA`},
		"proxy":        {func(c *clientcmdapiv1.Cluster) { c.ProxyURL = "http://" + canary }, credential.IsDenied, "cluster.proxy-url"},
		"server name":  {func(c *clientcmdapiv1.Cluster) { c.TLSServerName = canary + "/" }, credential.IsInvalid, "cluster.tls-server-name"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, providers)
			c.change(&f.profiles["fleet/production"].Status.AccessProviders[0].Cluster)
			_, err := f.resolve(t)
			expect(t, err, c.is, c.text)
			if len(f.gke.seen) > 0 {
				t.Error("a resolver was asked")
			}
		})
	}
	t.Run("a proxy that is allowed", func(t *testing.T) {
		f := newFixture(t, providers)
		f.proxies = []string{"http://proxy.example.com:3128"}
		f.profiles["fleet/production"].Status.AccessProviders[0].Cluster.ProxyURL = f.proxies[0]
		config, err := f.resolve(t)
		if err != nil || config.Proxy == nil {
			t.Errorf("%v %v", config, err)
		}
	})
	t.Run("no CA", func(t *testing.T) {
		f := newFixture(t, providers)
		f.profiles["fleet/production"].Status.AccessProviders[0].Cluster.CertificateAuthorityData = nil
		config, err := f.resolve(t)
		if err != nil || len(config.CAData) > 0 || config.CAFile != "" || config.Insecure || len(f.gke.seen) != 1 {
			t.Errorf("%v %v", config, err)
		}
	})
	f := newFixture(t, providers)
	f.profiles["fleet/production"].Status.AccessProviders[0].Cluster.TLSServerName = "kubernetes.example.com"
	config, err := f.resolve(t)
	if err != nil || config.ServerName != "kubernetes.example.com" || string(config.CAData) != credentialtest.CA || f.gke.seen[0].Cluster != "production" {
		t.Errorf("%v %v", config, err)
	}
}

// Threat 26: what a profile adds to the command is used only if the policy says so, and never for the next profile.
func TestAdditions(t *testing.T) {
	with := func(name string, extensions ...clientcmdapiv1.NamedExtension) *clusterinventoryv1alpha1.ClusterProfile {
		p := profile("google")
		p.Name = name
		p.Status.AccessProviders[0].Cluster.Extensions = slices.Concat(extensions, []clientcmdapiv1.NamedExtension{
			extension(extensionExec, `{"clusterName":"`+canary+`"}`),
		})
		return p
	}
	first := []clientcmdapiv1.NamedExtension{
		extension(extensionArgs, `["--cluster","first"]`), extension(extensionEnv, `{"Z":"first","Y":"first","USE_GKE_GCLOUD_AUTH_PLUGIN":"no"}`),
	}
	second := []clientcmdapiv1.NamedExtension{extension(extensionArgs, `["--cluster","second"]`)}
	const own = "--use_application_default_credentials"
	variable := func(name, value string) restconfig.ExecEnv { return restconfig.ExecEnv{Name: name, Value: value} }
	original := variable("USE_GKE_GCLOUD_AUTH_PLUGIN", "True")
	withPolicies := func(args, env string) string {
		return strings.Replace(providers, `"name":"google",`, `"name":"google","profileSourcedCLIArgsPolicy":"`+args+`","profileSourcedEnvVarsPolicy":"`+env+`",`, 1)
	}
	cases := []struct {
		name   string
		file   string
		policy policy.ClusterProfiles
		args   [3][]string
		env    [3][]restconfig.ExecEnv
	}{
		{
			name: "ignored by default", file: withPolicies("Append", "Replace"),
			args: [3][]string{{own}, {own}, {own}}, env: [3][]restconfig.ExecEnv{{original}, {original}, {original}},
		},
		{
			name: "arguments", file: providers, policy: policy.ClusterProfiles{AdditionalArgs: true},
			args: [3][]string{{own, "--cluster", "first"}, {own, "--cluster", "second"}, {own}},
			env:  [3][]restconfig.ExecEnv{{original}, {original}, {original}},
		},
		{
			name: "environment", file: providers, policy: policy.ClusterProfiles{AdditionalEnv: true},
			args: [3][]string{{own}, {own}, {own}},
			env:  [3][]restconfig.ExecEnv{{original, variable("Y", "first"), variable("Z", "first")}, {original}, {original}},
		},
		{
			name: "environment that replaces", file: withPolicies("", "Replace"), policy: policy.ClusterProfiles{AdditionalEnv: true},
			args: [3][]string{{own}, {own}, {own}},
			env: [3][]restconfig.ExecEnv{
				{variable("USE_GKE_GCLOUD_AUTH_PLUGIN", "no"), variable("Y", "first"), variable("Z", "first")}, {original}, {original},
			},
		},
		{
			name: "ignored by the file", file: withPolicies("Ignore", "Ignore"), policy: policy.ClusterProfiles{AdditionalArgs: true, AdditionalEnv: true},
			args: [3][]string{{own}, {own}, {own}}, env: [3][]restconfig.ExecEnv{{original}, {original}, {original}},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, c.file)
			c.policy.Namespaces = f.rule.ClusterProfiles.Namespaces
			f.rule.ClusterProfiles = c.policy
			names := []string{"first", "second", "third"}
			for i, extensions := range [][]clientcmdapiv1.NamedExtension{first, second, nil} {
				f.profiles["fleet/"+names[i]] = with(names[i], extensions...)
			}
			before := map[string]*clusterinventoryv1alpha1.ClusterProfile{}
			for name, p := range f.profiles {
				before[name] = p.DeepCopy()
			}
			for round := range 2 {
				for i, name := range names {
					config, err := f.resolver.Resolve(t.Context(), request("fleet", name))
					if err != nil {
						t.Fatal(err)
					}
					exec := f.gke.seen[len(f.gke.seen)-1].Exec
					if !reflect.DeepEqual(exec.Args, c.args[i]) || !reflect.DeepEqual(exec.Env, c.env[i]) {
						t.Errorf("round %d, profile %s: the stanza is %v %v", round, name, exec.Args, exec.Env)
					}
					// Whoever changes a result changes nothing else.
					exec.Args[0], exec.Env[0].Value = canary, canary
					clear(config.CAData)
				}
			}
			if !reflect.DeepEqual(before, f.profiles) {
				t.Error("a profile was changed")
			}
		})
	}
	t.Run("of another form", func(t *testing.T) {
		f := newFixture(t, providers)
		f.rule.ClusterProfiles.AdditionalArgs, f.rule.ClusterProfiles.AdditionalEnv = true, true
		for _, bad := range []clientcmdapiv1.NamedExtension{
			extension(extensionArgs, `{"args":["`+canary+`"]}`), extension(extensionArgs, `[1]`), extension(extensionArgs, canary),
			extension(extensionEnv, `["`+canary+`"]`), extension(extensionEnv, `{"A":"`+canary+`","A":"x"}`), extension(extensionEnv, ""),
		} {
			f.profiles["fleet/production"] = with("production", bad)
			_, err := f.resolve(t)
			expect(t, err, credential.IsInvalid, "the extension "+bad.Name+" must be")
		}
	})
}

func TestProviderFile(t *testing.T) {
	cases := map[string]struct{ content, problem string }{
		"not JSON":        {"providers: []", "invalid character"},
		"no providers":    {"{}", "providers is missing"},
		"no list":         {`{"providers":[]}`, "providers is missing"},
		"unknown key":     {`{"providers":[{"name":"x","execConfig":{"command":"x","comand":"y"}}]}`, `unknown field "providers[0].execConfig.comand"`},
		"other case":      {`{"providers":[{"Name":"x","execConfig":{"command":"x"}}]}`, `unknown field "providers[0].Name"`},
		"duplicate key":   {`{"providers":[{"name":"x","name":"y","execConfig":{"command":"x"}}]}`, `duplicate field "providers[0].name"`},
		"wrong type":      {`{"providers":[{"name":"x","execConfig":{"command":"x","args":"y"}}]}`, "args"},
		"no name":         {`{"providers":[{"execConfig":{"command":"x"}}]}`, "providers[0].name is missing"},
		"name twice":      {`{"providers":[{"name":"x","execConfig":{"command":"x"}},{"name":"x","execConfig":{"command":"x"}}]}`, "providers[1].name stands twice"},
		"no execConfig":   {`{"providers":[{"name":"x"}]}`, "providers[0].execConfig is missing"},
		"no command":      {`{"providers":[{"name":"x","execConfig":{"args":[]}}]}`, "providers[0].execConfig.command is missing"},
		"policy of args":  {`{"providers":[{"name":"x","execConfig":{"command":"x"},"profileSourcedCLIArgsPolicy":"Replace"}]}`, "providers[0].profileSourcedCLIArgsPolicy must be Ignore or Append"},
		"policy of env":   {`{"providers":[{"name":"x","execConfig":{"command":"x"},"profileSourcedEnvVarsPolicy":"Append"}]}`, "providers[0].profileSourcedEnvVarsPolicy must be one of Ignore, AppendIfNotExists, Replace"},
		"all is reported": {`{"providers":[{"execConfig":{"command":"x"}},{"name":"x"}]}`, "providers[1].execConfig is missing"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, c.content)
			_, err := clusterprofile.New(clusterprofile.Options{ProviderFile: path})
			if err == nil || !strings.Contains(err.Error(), c.problem) || !strings.Contains(err.Error(), path) {
				t.Errorf("%v", err)
			}
		})
	}
	if _, err := clusterprofile.New(clusterprofile.Options{ProviderFile: filepath.Join(t.TempDir(), "none.json")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// An error of the other resolver keeps its kind.
func TestErrorsKeepTheirKind(t *testing.T) {
	f := newFixture(t, providers)
	for _, cause := range []error{
		credential.Invalid(errors.New("wrong")), credential.Denied(errors.New("wrong")), credential.MintFailed(errors.New("wrong")),
		credential.Pending(errors.New("wrong"), time.Minute), context.Canceled,
	} {
		resolver := f.build(t, providers, map[string]credential.StanzaResolver{credential.ResolverGKE: failing{cause}})
		_, err := resolver.Resolve(t.Context(), request("fleet", "production"))
		if !errors.Is(err, cause) || !strings.HasPrefix(err.Error(), `access provider "google" by credential resolver gke: `) {
			t.Errorf("%v", err)
		}
	}
}

type failing struct{ err error }

func (f failing) Resolve(context.Context, credential.Request) (*rest.Config, error) {
	return nil, f.err
}

func (f failing) ResolveStanza(context.Context, credential.Request, *restconfig.Kubeconfig) (*rest.Config, error) {
	return nil, f.err
}
