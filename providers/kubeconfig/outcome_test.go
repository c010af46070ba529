// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/exchange"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
)

// exchangeOf exchanges the credential of a config.
func exchangeOf(ctx context.Context, config *rest.Config, o ConnectionOptions, current *policy.Policy, p credential.TokenRequestParameters) error {
	_, err := exchange.New(exchange.Options{
		Tokens:     tokensource.NewCache(tokensource.Options{}),
		HTTPClient: func(config *rest.Config) (*http.Client, error) { return NewHTTPClient(config, o, current) },
	}).Exchange(ctx, credential.Request{Secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "1", ResourceVersion: "1"}}}, p,
		func(context.Context) (*rest.Config, error) { return config, nil })
	return err //nolint:wrapcheck // its kind is what is tested.
}

// TestClusterFailsAnExchangeAsAnImport: who looks up the reason is sent to the same place, with an exchange or without.
func TestClusterFailsAnExchangeAsAnImport(t *testing.T) {
	const short = 100 * time.Millisecond
	serve := func(handler http.HandlerFunc) func(*testing.T) *rest.Config {
		return func(t *testing.T) *rest.Config {
			_, config := startSpoke(t, handler)
			return config
		}
	}
	tcp := func(serve func(net.Conn)) func(*testing.T) *rest.Config {
		return func(t *testing.T) *rest.Config {
			return &rest.Config{
				Host:            "https://" + tcpListener(t, serve).Addr().String(),
				TLSClientConfig: rest.TLSClientConfig{CAData: newAuthority(t).pem},
			}
		}
	}
	edited := func(edit func(t *testing.T, config *rest.Config)) func(*testing.T) *rest.Config {
		return func(t *testing.T) *rest.Config {
			_, config := startSpoke(t, healthy)
			edit(t, config)
			return config
		}
	}
	failing := func(err error) func(*testing.T) *rest.Config {
		return edited(func(_ *testing.T, config *rest.Config) {
			config.WrapTransport = func(http.RoundTripper) http.RoundTripper { return failingTransport{err} }
		})
	}
	cases := []struct {
		name   string
		config func(*testing.T) *rest.Config
		edit   func(*ConnectionOptions)
		policy *policy.Policy
		want   Reason
	}{
		{name: "not accepted", config: serve(answer(401, testToken)), want: ReasonUnauthorized},
		{name: "not accepted by whatever is in front", config: serve(answer(401, "<html>"+testToken)), want: ReasonUnauthorized},
		{name: "failure", config: serve(answer(500, testToken)), want: ReasonServerFailed},
		{name: "unavailable", config: serve(answer(503, hostileStatus(503, metav1.StatusReasonForbidden))), want: ReasonServerFailed},
		{name: "throttled", config: serve(answer(429, testToken)), want: ReasonServerFailed},
		{name: "redirect", config: serve(answer(302, "", "Location", "https://"+sentinel+".example.com/")), want: ReasonNotKubernetes},
		{name: "HTML", config: serve(answer(200, "<html>"+testToken)), want: ReasonNotKubernetes},
		{name: "HTML for a path that is not there", config: serve(answer(404, "<html>"+testToken)), want: ReasonNotKubernetes},
		{name: "JSON for a path that is not there", config: serve(answer(404, `{"kind":"`+testToken+`"}`)), want: ReasonNotKubernetes},
		{
			name: "too large", config: serve(answer(201, testToken+testToken)), want: ReasonServerFailed,
			edit: func(o *ConnectionOptions) { o.MaxResponseBytes = 1 },
		},
		{name: "closed at once", config: tcp(func(conn net.Conn) { _ = conn.Close() }), want: ReasonUnreachable},
		{name: "refused", config: edited(func(t *testing.T, config *rest.Config) {
			listener := tcpListener(t, silent)
			_ = listener.Close()
			config.Host = "https://" + listener.Addr().String()
		}), want: ReasonUnreachable},
		{name: "no handshake", config: tcp(silent), want: ReasonUnreachable, edit: func(o *ConnectionOptions) { o.TLSHandshakeTimeout = short }},
		{
			name: "no answer", config: serve(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), want: ReasonUnreachable,
			edit: func(o *ConnectionOptions) { o.RequestTimeout = short },
		},
		{name: "proxy is down", config: edited(func(t *testing.T, config *rest.Config) {
			proxy := startProxy(t, 0)
			proxy.Close()
			*config = *through(t, config, proxy.URL)
		}), want: ReasonUnreachable},
		{
			name: "no such name", want: ReasonNameNotResolved, edit: func(o *ConnectionOptions) { o.DialTimeout = short },
			config: edited(func(_ *testing.T, config *rest.Config) { config.Host = "https://" + sentinel + ".invalid" }),
		},
		{name: "address is denied", config: serve(healthy), policy: policy.Default(), want: ReasonPolicyDenied},
		{name: "other CA", config: edited(func(t *testing.T, config *rest.Config) { config.CAData = newAuthority(t).pem }), want: ReasonTLSUntrusted},
		{
			name: "other name", want: ReasonTLSNameMismatch,
			config: edited(func(_ *testing.T, config *rest.Config) { config.ServerName = sentinel + ".example.com" }),
		},
		{name: "no TLS", config: tcp(func(conn net.Conn) {
			_, _ = conn.Write([]byte("SSH-2.0-" + sentinel + "\r\n"))
			silent(conn)
		}), want: ReasonTLSFailed},
		{name: "no CA", config: edited(func(_ *testing.T, config *rest.Config) { config.CAData = []byte(sentinel) }), want: ReasonCredentialInvalid},
		// That of a resolver which mints, in the middle of its own request.
		{name: "a credential that is not minted", config: failing(credential.MintFailed(errors.New("refused; ask"))), want: ReasonTokenMintFailed},
		{name: "a credential that is denied", config: failing(credential.Denied(errors.New("denied; ask"))), want: ReasonPolicyDenied},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			config, o, current := c.config(t), patient(), loopbackPolicy()
			if c.edit != nil {
				c.edit(&o)
			}
			if c.policy != nil {
				current = c.policy
			}
			ctx, logs := testContext(t)
			want := func() *problem {
				conn, err := connect(config, o, current)
				if err != nil {
					return &problem{reason: ReasonCredentialInvalid, detail: err.Error()}
				}
				defer conn.close()
				if _, err = conn.mayDoEverything(ctx); err == nil {
					t.Fatal("the connection does not fail")
				}
				return problemOf(err)
			}()
			if want.reason != c.want {
				t.Fatalf("the connection fails for %v, want %s", want, c.want)
			}
			for range 2 {
				err := exchangeOf(ctx, config, o, current, credential.TokenRequestParameters{})
				if err == nil {
					t.Fatal("no error")
				}
				got := credentialProblem(err)
				// A source of tokens keeps the error: nothing that the cluster sent may be in it.
				if _, answered := errors.AsType[*apierrors.StatusError](err); !answered && got.cause != nil && got.reason != ReasonCredentialInvalid {
					t.Errorf("the error holds %T", got.cause)
				}
				if got.Error() != want.Error() {
					t.Errorf("got  %v\nwant %v", got, want)
				}
				// In the middle of an import a token source has it.
				again := requestProblem(&url.Error{Op: "Get", URL: config.Host, Err: &stageError{stage: stageAnswer, err: err}})
				if again.Error() != want.Error() {
					t.Errorf("in an import: got  %v\nwant %v", again, want)
				}
				expectNoSecret(t, "problem", got.Error())
				expectNoSecret(t, "error", err.Error())
			}
			expectNoSecret(t, "log", logs.String())
		})
	}
}

// failingTransport is that of a token source without a token.
type failingTransport struct{ err error }

func (f failingTransport) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// TestExchangeFailsForItself: what a cluster says of a TokenRequest, and of the objects for it, has no meaning for an import.
func TestExchangeFailsForItself(t *testing.T) {
	const (
		asking = "asking for a token of the ServiceAccount: "
		refuse = "; see what refuses it on the cluster, such as an admission policy"
	)
	cases := []struct {
		name   string
		answer http.HandlerFunc
		create bool
		reason Reason
		detail string
	}{
		{"not permitted", answer(403, hostileStatus(403, metav1.StatusReasonUnauthorized)), false, ReasonTokenMintFailed,
			asking + "the credential may not do that; let it create serviceaccounts/token, as manifests/managed-cluster lets the account itself"},
		{"not permitted to create", answer(403, testToken), true, ReasonTokenMintFailed,
			"creating the ClusterRole of the ServiceAccount: the credential may not do that; apply manifests/managed-cluster to the cluster and " +
				"remove tokenRequest.create, or use the credential of an administrator"},
		{"no account", answer(404, hostileStatus(404, metav1.StatusReasonForbidden)), false, ReasonCredentialInvalid,
			"data key credential.yaml: the ServiceAccount does not exist on the cluster; apply manifests/managed-cluster there, " +
				"set tokenRequest.create to true, or correct tokenRequest.serviceAccount"},
		{"refused", answer(422, testToken), false, ReasonTokenMintFailed, asking + "managed cluster: the answer is 422 Unprocessable Entity" + refuse},
		{"in conflict", answer(409, testToken), true, ReasonTokenMintFailed,
			"creating the ClusterRole of the ServiceAccount: managed cluster: the answer is 409 Conflict" + refuse},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, config := startSpoke(t, c.answer)
			ctx, logs := testContext(t)
			p := credentialProblem(exchangeOf(ctx, config, patient(), loopbackPolicy(), credential.TokenRequestParameters{Create: c.create}))
			if p.reason != c.reason || p.detail != c.detail {
				t.Errorf("got  %v\nwant %s: %s", p, c.reason, c.detail)
			}
			expectNoSecret(t, "log", logs.String())
		})
	}
}

// An Exchanger may take more for a failure of the cluster than ours does.
func TestOtherRefusalIsNoKubernetes(t *testing.T) {
	p := credentialProblem(credential.ClusterFailed(apierrors.NewConflict(schema.GroupResource{}, testToken, errors.New(testToken))))
	if want := notKubernetes(); p.Error() != want.Error() {
		t.Errorf("got  %v\nwant %v", p, want)
	}
}

// TestCauseOfAFailedExchangeIsNotLogged: it may quote the cluster.
func TestCauseOfAFailedExchangeIsNotLogged(t *testing.T) {
	f := newFixture(t)
	f.set(partial(DefaultImportNamespace, testSecret, testCluster))
	f.resolver.Respond = func(context.Context, credential.Request) (*rest.Config, error) {
		return nil, credential.ClusterFailed(&url.Error{Op: "Post", URL: "https://127.0.0.1/" + testToken, Err: errors.New(testToken)})
	}
	ctx, logs := testContext(t)
	_, err := f.provider.Clients(ctx, managedCluster())
	if p := problemOf(f.provider.failures.byCluster[testCluster].problem); err == nil || p.reason != ReasonUnreachable {
		t.Errorf("got %v, %v", err, p)
	}
	expectNoSecret(t, "error", err.Error())
	expectNoSecret(t, "log", logs.String())
}
