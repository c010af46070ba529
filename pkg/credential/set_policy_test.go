// Copyright Contributors to the Open Cluster Management project

package credential_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/credentialtest"
	"open-cluster-management.io/import-provider/pkg/policy"
)

// policyIs reads a policy, as YAML without apiVersion and kind.
func policyIs(spec string) func() *policy.Policy {
	p, err := policy.Parse([]byte("apiVersion: " + policy.APIVersion + "\nkind: " + policy.Kind + "\n" + spec))
	must(err)
	return func() *policy.Policy { return p }
}

func inNamespace(namespace string, secret *corev1.Secret) *corev1.Secret {
	secret.Namespace = namespace
	return secret
}

func TestSetAsksThePolicyForResolvers(t *testing.T) {
	const (
		annotation = credential.AnnotationCredentialResolver
		choose     = ": set the annotation import.open-cluster-management.io/credential-resolver to one of "
		ask        = ", or let the administrator of the hub allow it"
		none       = "no credential resolver is enabled for its namespace; let the administrator of the hub add a rule to the policy"
	)
	rules := policyIs("rules: [{namespaces: [a], resolvers: [kubeconfig]}, {namespaces: [a, 'b-*'], resolvers: [eks, 't*']}, {namespaces: [d], resolvers: [absent]}]")
	cases := []struct {
		name   string
		policy func() *policy.Policy
		secret *corev1.Secret
		want   string
	}{
		{"default policy", policy.Default, kubeconfigSecret(), ""},
		{"default policy, token", policy.Default, kubeconfigSecret(annotation, "token"), ""},
		{"default policy, stanza", policy.Default, stanzaSecret("aws", "eks"),
			"the credential resolver eks, which it needs, is not enabled" + choose + "kubeconfig, token" + ask},
		{"default policy, unknown command", policy.Default, stanzaSecret("/bin/sh", testToken),
			"the credential resolver exec, which it needs, is not enabled" + choose + "kubeconfig, token" + ask},
		{"default policy, third party", policy.Default, kubeconfigSecret(annotation, "third-party"),
			"the credential resolver third-party, which it needs, is not enabled" + choose + "kubeconfig, token" + ask},
		{"unknown", policy.Default, kubeconfigSecret(annotation, testToken),
			"its credential resolver is not enabled" + choose + "kubeconfig, token" + ask},
		{"allowed", rules, inNamespace("a", kubeconfigSecret()), ""},
		{"the first rule decides", rules, inNamespace("a", stanzaSecret("aws", "eks")),
			"the credential resolver eks, which it needs, is not enabled" + choose + "kubeconfig" + ask},
		{"allowed by patterns", rules, inNamespace("b-1", kubeconfigSecret(annotation, "third-party")), ""},
		{"denied by patterns", rules, inNamespace("b-1", kubeconfigSecret()),
			"the credential resolver kubeconfig, which it needs, is not enabled" + choose + "eks, third-party, token" + ask},
		{"no rule", rules, inNamespace("c", kubeconfigSecret()), none},
		{"a rule with what there is not", rules, inNamespace("d", kubeconfigSecret()), none},
		{"no rules", policyIs("rules: []"), kubeconfigSecret(), none},
		{"no policy", nil, inNamespace("c", stanzaSecret("aws", "eks")), ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := allNames(t, credential.SetOptions{Policy: c.policy}).Resolve(t.Context(), credential.Request{Secret: c.secret})
			if c.want != "" {
				expectDenied(t, err, c.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSetDoesNotCallDeniedResolvers: what is denied is not even tried.
func TestSetDoesNotCallDeniedResolvers(t *testing.T) {
	fake := &credentialtest.Fake{Config: goodConfig()}
	set, err := credential.NewSet(map[string]credential.Resolver{"exec": fake}, credential.SetOptions{Policy: policy.Default})
	must(err)
	if _, err := set.Resolve(t.Context(), credential.Request{Secret: stanzaSecret("/bin/sh")}); !credential.IsDenied(err) || len(fake.Calls()) != 0 {
		t.Errorf("got %v after %d calls", err, len(fake.Calls()))
	}
}

func TestSetAsksThePolicyForServers(t *testing.T) {
	const (
		proxy  = "http://proxy.example.com:3128"
		prefix = "credential resolver kubeconfig: "
	)
	serverIs := func(server, proxy string) *corev1.Secret {
		return newSecret(map[string][]byte{"kubeconfig": kubeconfig(func(f *clientcmdapiv1.Config) {
			f.Clusters[0].Cluster.Server, f.Clusters[0].Cluster.ProxyURL = server, proxy
		})})
	}
	cases := []struct {
		name, spec string
		secret     *corev1.Secret
		want       string
	}{
		{"any", "", serverIs(testServer, ""), ""},
		{"loopback", "", serverIs("https://127.0.0.1:6443", ""), prefix + policy.ErrAddressDenied.Error()},
		{"allowed", "endpoints: {allowHosts: ['*.example.com']}", serverIs(testServer, ""), ""},
		{"not allowed", "endpoints: {allowHosts: ['*.example.org']}", serverIs(testServer, ""), prefix + policy.ErrHostDenied.Error()},
		{"denied", "endpoints: {denyHosts: [api.example.com]}", serverIs(testServer, ""), prefix + policy.ErrHostDenied.Error()},
		{"proxy, allowed", "endpoints: {allowHosts: ['*.example.com'], proxies: ['" + proxy + "']}", serverIs(testServer, proxy), ""},
		{"proxy, host not named", "endpoints: {proxies: ['" + proxy + "']}", serverIs(testServer, proxy), prefix + policy.ErrProxiedHost.Error()},
		{"proxy, not allowed", "endpoints: {allowHosts: ['*.example.com']}", serverIs(testServer, proxy), prefix +
			`data key kubeconfig: clusters[].cluster.proxy-url of entry "cl" is not accepted: remove it, or use one that the administrator of the hub accepts`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			current := policyIs(c.spec)
			set, err := credential.NewSet(map[string]credential.Resolver{
				"kubeconfig": credential.NewKubeconfigResolver(credential.KubeconfigOptions{Proxies: func() []string { return current().Proxies() }}),
			}, credential.SetOptions{Policy: current})
			must(err)
			_, err = set.Resolve(t.Context(), credential.Request{Secret: c.secret})
			if c.want != "" {
				expectDenied(t, err, c.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
	t.Run("changes at once", func(t *testing.T) {
		current := policyIs("")
		set := allNames(t, credential.SetOptions{Policy: func() *policy.Policy { return current() }})
		req := credential.Request{Secret: kubeconfigSecret()}
		if _, err := set.Resolve(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		current = policyIs("endpoints: {denyHosts: ['*']}")
		_, err := set.Resolve(t.Context(), req)
		expectDenied(t, err, prefix+policy.ErrHostDenied.Error())
	})
}

// exchangerFunc is a function that is an Exchanger.
type exchangerFunc func(ctx context.Context, req credential.Request, p credential.TokenRequestParameters,
	original func(context.Context) (*rest.Config, error)) (*rest.Config, error)

func (f exchangerFunc) Exchange(ctx context.Context, req credential.Request, p credential.TokenRequestParameters,
	original func(context.Context) (*rest.Config, error),
) (*rest.Config, error) {
	return f(ctx, req, p, original)
}

func TestSetExchanges(t *testing.T) {
	const denied = "data key credential.yaml: exchange is not allowed by the policy of the hub; remove it, or let the administrator of the hub allow it"
	minted := func(ctx context.Context, _ credential.Request, p credential.TokenRequestParameters, original func(context.Context) (*rest.Config, error)) (*rest.Config, error) {
		cfg, err := original(ctx)
		if err != nil {
			return nil, err
		}
		cfg.BearerToken, cfg.WrapTransport = "", func(rt http.RoundTripper) http.RoundTripper { return rt }
		cfg.UserAgent = p.ServiceAccount
		return cfg, nil
	}
	broken := errors.New("broken")
	fails := func(context.Context, credential.Request, credential.TokenRequestParameters, func(context.Context) (*rest.Config, error)) (*rest.Config, error) {
		return nil, credential.MintFailed(broken)
	}
	elsewhere := func(context.Context, credential.Request, credential.TokenRequestParameters, func(context.Context) (*rest.Config, error)) (*rest.Config, error) {
		cfg := goodConfig()
		cfg.Host = "https://127.0.0.1"
		return cfg, nil
	}
	exchange := func(document string) *corev1.Secret {
		secret := kubeconfigSecret()
		secret.Data["credential.yaml"] = []byte(document)
		return secret
	}
	cases := []struct {
		name      string
		spec      string
		exchanger exchangerFunc
		secret    *corev1.Secret
		want      string
		kind      func(error) bool
		account   string
	}{
		{name: "by default", exchanger: minted, secret: exchange("exchange: token-request")},
		{name: "with choices", exchanger: minted, secret: exchange("exchange: token-request\ntokenRequest: {serviceAccount: a/b}"), account: "a/b"},
		{name: "allowed", spec: "rules: [{namespaces: ['*'], resolvers: ['*'], tokenRequest: true}]", exchanger: minted, secret: exchange("exchange: token-request")},
		{name: "denied", spec: "rules: [{namespaces: ['*'], resolvers: ['*'], tokenRequest: false}]", exchanger: minted, secret: exchange("exchange: token-request"),
			want: denied, kind: credential.IsDenied},
		{name: "no exchanger", secret: exchange("exchange: token-request"), want: denied, kind: credential.IsDenied},
		{name: "fails", exchanger: fails, secret: exchange("exchange: token-request"), want: "broken", kind: credential.IsMintFailed},
		{name: "result is checked", exchanger: elsewhere, secret: exchange("exchange: token-request"), want: policy.ErrAddressDenied.Error(), kind: credential.IsDenied},
		{name: "original is checked", spec: "endpoints: {denyHosts: ['*']}", exchanger: minted, secret: exchange("exchange: token-request"),
			want: "credential resolver kubeconfig: " + policy.ErrHostDenied.Error(), kind: credential.IsDenied},
		{name: "original must be allowed", spec: "rules: [{namespaces: ['*'], resolvers: [token]}]", exchanger: minted, secret: exchange("exchange: token-request"),
			want: "the credential resolver kubeconfig, which it needs, is not enabled: set the annotation import.open-cluster-management.io/credential-resolver to one of token, or let the administrator of the hub allow it",
			kind: credential.IsDenied},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			options := credential.SetOptions{Policy: policyIs(c.spec)}
			if c.exchanger != nil {
				options.Exchanger = c.exchanger
			}
			cfg, err := allNames(t, options).Resolve(t.Context(), credential.Request{Secret: c.secret})
			if c.want != "" {
				if err == nil || !c.kind(err) {
					t.Fatalf("got %v", err)
				}
				expectText(t, err, c.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if cfg.BearerToken != "" || cfg.WrapTransport == nil || cfg.UserAgent != c.account {
				t.Errorf("got %v", cfg)
			}
		})
	}
}

func TestSetForgets(t *testing.T) {
	var forgotten []types.UID
	allNames(t, credential.SetOptions{Forget: func(uid types.UID) { forgotten = append(forgotten, uid) }}).Forget("x")
	allNames(t, credential.SetOptions{}).Forget("x")
	if len(forgotten) != 1 || forgotten[0] != "x" {
		t.Errorf("got %q", forgotten)
	}
}

func TestMintError(t *testing.T) {
	cause := errors.New("cause")
	err := credential.MintFailed(cause)
	if err.Error() != "cause" || !errors.Is(err, cause) || !credential.IsMintFailed(err) || credential.IsInvalid(err) || credential.IsDenied(err) {
		t.Errorf("got %v", err)
	}
	if credential.MintFailed(nil) != nil || credential.IsMintFailed(cause) {
		t.Error("nil did not stay nil, or any error is one")
	}
}
