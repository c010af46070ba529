// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"crypto/tls"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"k8s.io/client-go/rest"
)

const (
	subjectCertificate = "client certificate"
	subjectToken       = "token"

	// tokenLeeway is how long before its beginning and after its end an API server takes a token: DefaultLeeway of
	// gopkg.in/go-jose/go-jose.v2/jwt, which k8s.io/kubernetes/pkg/serviceaccount/claims.go validates with. For tokens of
	// OIDC it is the same before the beginning (github.com/coreos/go-oidc, verify.go), and nothing after the end.
	tokenLeeway = time.Minute

	// lastSecond is 9999-12-31T23:59:59Z, the last time that RFC 3339 can write, in seconds of Unix.
	lastSecond = 253402300799
)

// validity is when a credential is valid. The zero value is one of which that is not known, such as an opaque token.
type validity struct {
	// subject is what expires: "client certificate" or "token".
	subject string
	// issued is when a token was made. It may be missing, and an API server need not look at it.
	issued    time.Time
	notBefore time.Time
	notAfter  time.Time
}

// validityOf reads when the credential of a config is valid. Claims of a token are not verified: only the cluster can, and
// a wrong one misleads nobody but whoever wrote the Secret.
//
// Where there is a token besides the certificate client-go sends both, and the API server takes either, so that the end of one
// is not the end of the credential. A transport that is wrapped counts as a token.
func validityOf(config *rest.Config) (validity, error) {
	if len(config.CertData) == 0 {
		return tokenValidity(config.BearerToken), nil
	}
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		return validity{}, &problem{reason: ReasonCredentialInvalid, detail: "the client certificate and its key do not fit; put a pair into the Secret"}
	}
	if config.BearerToken != "" || config.WrapTransport != nil {
		return validity{}, nil
	}
	return validity{subject: subjectCertificate, notBefore: pair.Leaf.NotBefore.UTC(), notAfter: pair.Leaf.NotAfter.UTC()}, nil
}

// tokenClaims returns the claims of a JWT (RFC 7519), or nil: not every token is one.
func tokenClaims(token string) jwt.MapClaims {
	claims := jwt.MapClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(token, claims); err != nil {
		return nil
	}
	return claims
}

// tokenValidity reads when a token is valid. Not every one tells, and not every one expires.
func tokenValidity(token string) validity {
	claims := tokenClaims(token)
	notAfter := claimedTime(claims["exp"])
	if notAfter.IsZero() {
		return validity{}
	}
	return validity{
		subject: subjectToken, issued: claimedTime(claims["iat"]), notBefore: claimedTime(claims["nbf"]), notAfter: notAfter,
	}
}

// claimedTime returns the time of a claim without its fraction, as API servers read it; zero if there is none, or none
// that RFC 3339 can write.
func claimedTime(claim any) time.Time {
	// The library's own getters let numbers overflow.
	seconds, ok := claim.(float64)
	if !ok || seconds < 0 || seconds > lastSecond {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0).UTC()
}

// end is the last moment at which the cluster takes the credential; zero if it does not expire.
func (v validity) end() time.Time {
	if v.subject == subjectToken {
		return v.notAfter.Add(tokenLeeway)
	}
	return v.notAfter
}

// problem says that the credential is not valid at a time, or nil.
func (v validity) problem(now time.Time) *problem {
	begin := v.notBefore
	if v.subject == subjectToken {
		begin = begin.Add(-tokenLeeway)
	}
	switch {
	case v.notAfter.IsZero():
		return nil
	case now.After(v.end()):
		return &problem{reason: ReasonCredentialExpired, detail: "the " + v.subject + " is expired"}
	case now.Before(begin):
		return &problem{reason: ReasonCredentialNotYetValid, detail: "the " + v.subject + " is not yet valid"}
	}
	return nil
}

// warnAt is when a fifth of the lifetime is left; zero if the credential does not expire, or does not say since when it
// lives. Of two beginnings the later one counts: some issuers leave nbf at 0.
func (v validity) warnAt() time.Time {
	begin := v.notBefore
	if v.issued.After(begin) {
		begin = v.issued
	}
	if begin.IsZero() || !begin.Before(v.notAfter) {
		return time.Time{}
	}
	return v.notAfter.Add(-v.notAfter.Sub(begin) / 5)
}

func (v validity) expiresSoon(now time.Time) bool {
	return !v.warnAt().IsZero() && !now.Before(v.warnAt())
}

// String says when the credential expires, or nothing if that is not known.
func (v validity) String() string {
	if v.notAfter.IsZero() {
		return ""
	}
	return "its " + v.subject + " expires at " + v.notAfter.UTC().Format(time.RFC3339)
}
