// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"crypto/x509"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
)

// testTime is a whole second, which certificates and tokens can hold.
func testTime() time.Time { return time.Date(2027, 1, 31, 0, 0, 0, 0, time.UTC) }

// testJWT is a token with the given claims and no true signature.
func testJWT(claims string) string {
	encode := base64.RawURLEncoding.EncodeToString
	return encode([]byte(`{"alg":"RS256","kid":"`+sentinel+`"}`)) + "." + encode([]byte(claims)) + "." + encode([]byte(sentinel))
}

func TestValidityOfClientCertificate(t *testing.T) {
	ca := newAuthority(t)
	begin, end := testTime().AddDate(-1, 0, 0), testTime()
	certPEM, keyPEM := ca.issue(t, func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = begin.In(time.FixedZone("", 3600)), end
	})
	// What follows the leaf is not what the cluster looks at.
	chain := append(append([]byte{}, certPEM...), ca.pem...)
	_, otherKey := ca.issue(t)
	known := validity{subject: "client certificate", notBefore: begin, notAfter: end}
	misfit := "CredentialInvalid: the client certificate and its key do not fit; put a pair into the Secret"
	cases := []struct {
		name   string
		config rest.Config
		want   validity
		err    string
	}{
		{name: "none"},
		{name: "certificate", config: rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: certPEM, KeyData: keyPEM}}, want: known},
		{name: "chain", config: rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: chain, KeyData: keyPEM}}, want: known},
		{name: "other key", config: rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: certPEM, KeyData: otherKey}}, err: misfit},
		{name: "no key", config: rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: certPEM}}, err: misfit},
		{name: "not PEM", config: rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: []byte(sentinel), KeyData: keyPEM}}, err: misfit},
		{name: "beside an opaque token", config: rest.Config{
			BearerToken: testToken, TLSClientConfig: rest.TLSClientConfig{CertData: certPEM, KeyData: keyPEM}}},
		{name: "beside a token that is expired", config: rest.Config{
			BearerToken: testJWT(`{"exp":1}`), TLSClientConfig: rest.TLSClientConfig{CertData: certPEM, KeyData: keyPEM}}},
		{name: "beside a token source", config: rest.Config{
			WrapTransport:   func(rt http.RoundTripper) http.RoundTripper { return rt },
			TLSClientConfig: rest.TLSClientConfig{CertData: certPEM, KeyData: keyPEM}}},
		{name: "beside a token, other key", config: rest.Config{
			BearerToken: testToken, TLSClientConfig: rest.TLSClientConfig{CertData: certPEM, KeyData: otherKey}}, err: misfit},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := validityOf(&c.config)
			if c.err == "" && err != nil || c.err != "" && (err == nil || err.Error() != c.err) {
				t.Fatalf("got error %v, want %q", err, c.err)
			}
			if got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestValidityOfToken(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }
	deep := strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000)
	tooDeep := strings.Repeat(`[`, 500_000)
	cases := []struct {
		name, token string
		want        validity
	}{
		{"no token", "", validity{}},
		{"opaque", testToken, validity{}},
		{"opaque with dots", "sha256~" + sentinel + ".b.c", validity{}},
		{"service account", testJWT(`{"iss":"https://kubernetes","aud":["a"],"iat":1000,"nbf":1000,"exp":2000}`),
			validity{issued: at(1000), notBefore: at(1000), notAfter: at(2000)}},
		{"service account without end", testJWT(`{"iss":"kubernetes/serviceaccount","sub":"system:serviceaccount:a:b"}`), validity{}},
		{"only a beginning", testJWT(`{"iat":1000,"nbf":1000}`), validity{}},
		{"only an end", testJWT(`{"exp":2000}`), validity{notAfter: at(2000)}},
		{"OIDC", testJWT(`{"aud":"a","iat":1000,"exp":2000}`), validity{issued: at(1000), notAfter: at(2000)}},
		{"fractions", testJWT(`{"iat":1000.9,"nbf":1000.5,"exp":2000.999}`), validity{issued: at(1000), notBefore: at(1000), notAfter: at(2000)}},
		{"exponents", testJWT(`{"exp":2e3}`), validity{notAfter: at(2000)}},
		{"no signature", strings.TrimRight(testJWT(`{"exp":2000}`), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"),
			validity{notAfter: at(2000)}},
		{"epoch", testJWT(`{"exp":0}`), validity{notAfter: at(0)}},
		{"last second", testJWT(`{"exp":253402300799}`), validity{notAfter: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}},

		{"after the last second", testJWT(`{"exp":253402300800}`), validity{}},
		{"negative", testJWT(`{"exp":-1}`), validity{}},
		{"more than an int64", testJWT(`{"exp":1e300}`), validity{}},
		{"more than a float64", testJWT(`{"exp":1e400}`), validity{}},
		{"not a number", testJWT(`{"exp":NaN}`), validity{}},
		{"string", testJWT(`{"exp":"2000"}`), validity{}},
		{"null", testJWT(`{"exp":null}`), validity{}},
		{"list", testJWT(`{"exp":[2000]}`), validity{}},
		{"other case", testJWT(`{"EXP":2000}`), validity{}},
		{"odd beginnings", testJWT(`{"exp":2000,"nbf":"x","iat":-1e99}`), validity{notAfter: at(2000)}},
		{"odd claims that do not matter", testJWT(`{"exp":2000,"aud":{"a":1},"iss":7}`), validity{notAfter: at(2000)}},
		{"twice", testJWT(`{"exp":1,"exp":2000}`), validity{notAfter: at(2000)}},
		{"deep", testJWT(`{"exp":2000,"a":` + deep + `}`), validity{notAfter: at(2000)}},
		{"too deep", testJWT(`{"exp":2000,"a":` + tooDeep + `}`), validity{}},
		{"huge", testJWT(`{"exp":2000,"a":"` + strings.Repeat("a", 700<<10) + `"}`), validity{notAfter: at(2000)}},
		{"huge number", testJWT(`{"exp":` + strings.Repeat("9", 700<<10) + `}`), validity{}},
		{"many dots", strings.Repeat(".", 1<<20), validity{}},
		{"two parts", strings.Join(strings.Split(testJWT(`{"exp":2000}`), ".")[:2], "."), validity{}},
		{"four parts", testJWT(`{"exp":2000}`) + ".a", validity{}},
		{"claims that are a list", testJWT(`[{"exp":2000}]`), validity{}},
		{"claims that are null", testJWT(`null`), validity{}},
		{"more after the claims", testJWT(`{"exp":2000}{}`), validity{}},
		{"claims that are not JSON", testJWT(sentinel), validity{}},
		{"claims that are not base64", "e30.{}.", validity{}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.want != (validity{}) {
				c.want.subject = "token"
			}
			got, err := validityOf(&rest.Config{BearerToken: c.token})
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
}

// FuzzToken states what holds of any token: its times are none or can be written, and no text has more than a date.
func FuzzToken(f *testing.F) {
	for _, claims := range []string{`{"exp":2000}`, `{"exp":2e3,"nbf":1,"iat":1000.5}`, `{"exp":1e400}`, `{"exp":-1}`, `{"exp":"x"}`, `[]`, `{"exp":1,"exp":2}`} {
		f.Add("RS256", claims)
	}
	f.Fuzz(func(t *testing.T, alg, claims string) {
		encode := base64.RawURLEncoding.EncodeToString
		for _, token := range []string{claims, testJWT(claims), encode([]byte(`{"alg":"`+alg+`"}`)) + "." + encode([]byte(claims)) + "." + alg} {
			v, err := validityOf(&rest.Config{BearerToken: token})
			if err != nil {
				t.Fatalf("a token is refused: %v", err)
			}
			if v.notAfter.IsZero() {
				if v != (validity{}) || v.String() != "" || v.problem(testTime()) != nil || !v.warnAt().IsZero() {
					t.Fatalf("something is said of a token without end: %+v", v)
				}
				continue
			}
			date, ok := strings.CutPrefix(v.String(), "its token expires at ")
			if end, err := time.Parse(time.RFC3339, date); !ok || err != nil || !end.Equal(v.notAfter) {
				t.Fatalf("not a date: %q", v)
			}
			if warnAt := v.warnAt(); warnAt.After(v.notAfter) {
				t.Fatalf("warns at %s, after the end %s", warnAt, v.notAfter)
			}
			for _, now := range []time.Time{v.notAfter.Add(tokenLeeway), v.notAfter.Add(tokenLeeway + 1), v.notBefore, {}} {
				if p := v.problem(now); p != nil && p.detail != "the token is expired" && p.detail != "the token is not yet valid" {
					t.Fatalf("another text: %q", p.detail)
				}
			}
		}
	})
}

func TestValidityProblem(t *testing.T) {
	begin, end := testTime().Add(-time.Hour), testTime()
	certificate := validity{subject: subjectCertificate, notBefore: begin, notAfter: end}
	token := validity{subject: subjectToken, issued: begin, notBefore: begin, notAfter: end}
	const (
		expired     = "CredentialExpired: the %s is expired; put a valid credential into the Secret"
		notYetValid = "CredentialNotYetValid: the %s is not yet valid; put a valid credential into the Secret, or compare the clocks"
	)
	cases := []struct {
		name  string
		valid validity
		now   time.Time
		want  string
	}{
		{"unknown", validity{}, end, ""},
		{"certificate, before", certificate, begin.Add(-1), notYetValid},
		{"certificate, at the beginning", certificate, begin, ""},
		{"certificate, at the end", certificate, end, ""},
		{"certificate, after", certificate, end.Add(1), expired},
		{"token, before, outside of the leeway", token, begin.Add(-time.Minute - 1), notYetValid},
		{"token, before, within the leeway", token, begin.Add(-time.Minute), ""},
		{"token, after, within the leeway", token, end.Add(time.Minute), ""},
		{"token, after, outside of the leeway", token, end.Add(time.Minute + 1), expired},
		{"token without beginning", validity{subject: subjectToken, notAfter: end}, begin.AddDate(-100, 0, 0), ""},
		{"token issued later", validity{subject: subjectToken, issued: begin, notAfter: end}, begin.Add(-time.Hour), ""},
		{"certificate that ends before it begins", validity{subject: subjectCertificate, notBefore: end, notAfter: begin}, begin.Add(1), expired},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := ""
			if p := c.valid.problem(c.now); p != nil {
				got = p.Error()
			}
			if diff := cmp.Diff(strings.ReplaceAll(c.want, "%s", c.valid.subject), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidityWarns(t *testing.T) {
	end := testTime()
	cases := []struct {
		name  string
		valid validity
		// left is the time between the warning and the end; 0 is no warning.
		left time.Duration
	}{
		{"unknown", validity{}, 0},
		{"certificate", validity{subject: subjectCertificate, notBefore: end.Add(-100 * time.Hour), notAfter: end}, 20 * time.Hour},
		{"token", validity{subject: subjectToken, issued: end.Add(-time.Hour), notBefore: end.Add(-time.Hour), notAfter: end}, 12 * time.Minute},
		{"token with the time of issue", validity{subject: subjectToken, issued: end.Add(-time.Hour), notAfter: end}, 12 * time.Minute},
		{"token with nbf 0", validity{subject: subjectToken, issued: end.Add(-time.Hour), notBefore: time.Unix(0, 0), notAfter: end}, 12 * time.Minute},
		{"token for later", validity{subject: subjectToken, issued: end.Add(-9 * time.Hour), notBefore: end.Add(-time.Hour), notAfter: end}, 12 * time.Minute},
		{"token without beginning", validity{subject: subjectToken, notAfter: end}, 0},
		{"begins when it ends", validity{subject: subjectToken, notBefore: end, notAfter: end}, 0},
		{"begins after it ends", validity{subject: subjectToken, issued: end.Add(1), notAfter: end}, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.left == 0 {
				if warnAt := c.valid.warnAt(); !warnAt.IsZero() || c.valid.expiresSoon(end) {
					t.Errorf("warns at %s", warnAt)
				}
				return
			}
			warnAt := end.Add(-c.left)
			if got := c.valid.warnAt(); !got.Equal(warnAt) {
				t.Errorf("warns at %s, want %s", got, warnAt)
			}
			if c.valid.expiresSoon(warnAt.Add(-1)) || !c.valid.expiresSoon(warnAt) || !c.valid.expiresSoon(end) {
				t.Error("expiresSoon does not change when the warning is due")
			}
		})
	}
}

func TestValidityString(t *testing.T) {
	cases := []struct {
		name  string
		valid validity
		want  string
	}{
		{"unknown", validity{}, ""},
		{"certificate", validity{subject: subjectCertificate, notAfter: testTime()}, "its client certificate expires at 2027-01-31T00:00:00Z"},
		{"token", validity{subject: subjectToken, notAfter: testTime()}, "its token expires at 2027-01-31T00:00:00Z"},
		{"another time zone, fraction", validity{subject: subjectToken, notAfter: testTime().Add(1).In(time.FixedZone("", 3600))},
			"its token expires at 2027-01-31T00:00:00Z"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := c.valid.String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
