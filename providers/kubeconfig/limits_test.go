// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"crypto/x509"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/policy"
)

func TestLimits(t *testing.T) {
	const (
		next = "; set exchange: token-request under the data key credential.yaml to exchange it for a short-lived one, put one that is valid " +
			"for a shorter time into the Secret, or let the administrator of the hub change staticCredentials of the policy"
		cert    = "its client certificate is valid for longer than the policy of the hub allows"
		long    = "its token is valid for longer than the policy of the hub allows"
		unknown = "its token does not tell when it was issued and when it expires, which the policy of the hub asks for"
		never   = "its token never expires, and the policy of the hub does not allow that"
		legacy  = "its token is that of a Secret of type kubernetes.io/service-account-token, which never expires, and the policy of the hub does not allow that"

		none      = ""
		oneDay    = "staticCredentials: {maxLifetime: 24h}"
		noEndless = "staticCredentials: {denyNeverExpiring: true}"
		both      = "staticCredentials: {maxLifetime: 24h, denyNeverExpiring: true}"
	)
	now := testTime()
	token := func(claims string, times ...time.Duration) *rest.Config {
		var seconds []any
		for _, since := range times {
			seconds = append(seconds, now.Add(since).Unix())
		}
		return &rest.Config{BearerToken: testJWT(fmt.Sprintf(claims, seconds...))}
	}
	ca := newAuthority(t)
	certificate := func(begin, end time.Duration) *rest.Config {
		certPEM, keyPEM := ca.issue(t, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = now.Add(begin), now.Add(end) })
		return &rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: certPEM, KeyData: keyPEM}}
	}
	with := func(config *rest.Config, edit func(config *rest.Config)) *rest.Config {
		edit(config)
		return config
	}
	minted := func(config *rest.Config) {
		config.WrapTransport = func(rt http.RoundTripper) http.RoundTripper { return rt }
	}
	const serviceAccount = `{"iss":"https://kubernetes.default.svc","iat":%d,"nbf":%d,"exp":%d}`
	legacyToken := `{"iss":"kubernetes/serviceaccount","sub":"system:serviceaccount:a:b"}`
	cases := []struct {
		name   string
		config *rest.Config
		want   map[string]string // by limits; none is always allowed
	}{
		{"certificate of a day", certificate(-time.Hour, 23*time.Hour), nil},
		{"certificate of a day and a second", certificate(-time.Hour, 23*time.Hour+time.Second), map[string]string{oneDay: cert, both: cert}},
		{"certificate of a year, nearly over", certificate(-364*24*time.Hour, time.Hour), map[string]string{oneDay: cert, both: cert}},
		{"certificate of the future", certificate(48*time.Hour, 49*time.Hour), map[string]string{oneDay: cert, both: cert}},
		{"token of a day", token(serviceAccount, -time.Hour, -time.Hour, 23*time.Hour), nil},
		{"token of a day and a second", token(serviceAccount, -time.Hour, -time.Hour, 23*time.Hour+time.Second), map[string]string{oneDay: long, both: long}},
		{"token that begins later than it was issued", token(serviceAccount, -24*time.Hour, 0, time.Hour), map[string]string{oneDay: long, both: long}},
		{"token that began long ago, issued now", token(`{"iat":%d,"nbf":0,"exp":%d}`, 0, time.Hour), nil},
		{"token that was issued in the future", token(serviceAccount, 1000*time.Hour, 0, 1001*time.Hour), map[string]string{oneDay: long, both: long}},
		{"token with a beginning alone", token(`{"nbf":%d,"exp":%d}`, -time.Hour, 23*time.Hour), nil},
		{"token with a beginning alone, long", token(`{"nbf":%d,"exp":%d}`, -2*time.Hour, 23*time.Hour), map[string]string{oneDay: long, both: long}},
		{"token without a beginning", token(`{"exp":%d}`, time.Hour), map[string]string{oneDay: unknown, both: unknown}},
		{"token without an end", token(`{"iat":%d}`, 0), map[string]string{oneDay: never, noEndless: never, both: never}},
		{"token with an end that is a word", token(`{"iat":%d,"exp":"never"}`, 0), map[string]string{oneDay: never, noEndless: never, both: never}},
		{"token with an end beyond the calendar", token(`{"iat":%d,"exp":1e300}`, 0), map[string]string{oneDay: never, noEndless: never, both: never}},
		{"token of a Secret of a service account", &rest.Config{BearerToken: testJWT(legacyToken)}, map[string]string{oneDay: legacy, noEndless: legacy, both: legacy}},
		{"opaque token", &rest.Config{BearerToken: testToken}, map[string]string{oneDay: unknown, both: unknown}},
		{"certificate of a day and a token without an end", with(certificate(-time.Hour, time.Hour), func(config *rest.Config) { config.BearerToken = testJWT("{}") }),
			map[string]string{oneDay: never, noEndless: never, both: never}},
		{"certificate of a year and a token of an hour", with(certificate(-time.Hour, 8760*time.Hour), func(config *rest.Config) {
			config.BearerToken = token(serviceAccount, 0, 0, time.Hour).BearerToken
		}), map[string]string{oneDay: cert, both: cert}},
		{"minted", with(&rest.Config{}, minted), nil},
		{"minted beside a certificate of a year", with(certificate(-time.Hour, 8760*time.Hour), minted), map[string]string{oneDay: cert, both: cert}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			for _, spec := range []string{none, oneDay, noEndless, both} {
				got := limitsProblem(c.config, testPolicy(t, spec).StaticCredentials(), now)
				switch want := c.want[spec]; {
				case want == "" && got != nil:
					t.Errorf("%s: got %v", spec, got)
				case want != "" && (got == nil || got.reason != ReasonPolicyDenied || got.message() != want+next):
					t.Errorf("%s: got %v\nwant %s", spec, got, want)
				}
				if got != nil {
					expectNoSecret(t, "problem", got.message())
				}
			}
		})
	}
}

// TestLimitsAreKept: nothing is sent with a credential that is outside of them.
func TestLimitsAreKept(t *testing.T) {
	s, config := startSpoke(t, healthy)
	current := testPolicy(t, "endpoints: {allowCIDRs: [127.0.0.0/8]}\nstaticCredentials: {denyNeverExpiring: true}")
	f := newPolicyFixture(t, func() *policy.Policy { return current })
	f.set(partial(DefaultImportNamespace, testSecret, testCluster))
	f.resolver.Config = rest.CopyConfig(config)
	f.resolver.Config.BearerToken = testJWT(`{"iss":"kubernetes/serviceaccount"}`)
	ctx, _ := testContext(t)
	_, err := f.provider.Clients(ctx, managedCluster())
	if err == nil || !strings.Contains(err.Error(), ": PolicyDenied: its token is that of a Secret of type kubernetes.io/service-account-token") {
		t.Errorf("got %v", err)
	}
	expectRetry(t, err, invalidRetry)
	if s.connectionCount() != 0 {
		t.Errorf("%d connections", s.connectionCount())
	}

	current = testPolicy(t, "endpoints: {allowCIDRs: [127.0.0.0/8]}")
	f.provider.PolicyChanged()
	if _, err := f.provider.Clients(ctx, managedCluster()); err != nil || s.connectionCount() != 1 {
		t.Errorf("without limits: %v, %d connections", err, s.connectionCount())
	}
}
