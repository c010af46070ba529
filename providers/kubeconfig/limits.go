// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"crypto/tls"
	"time"

	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/policy"
)

const (
	// legacyIssuer is that of the tokens in Secrets of type kubernetes.io/service-account-token, which have no expiry
	// (k8s.io/kubernetes/pkg/serviceaccount, LegacyIssuer).
	legacyIssuer = "kubernetes/serviceaccount"

	nextLimits = "; set exchange: " + credential.ExchangeTokenRequest + " under the data key " + credential.DocumentKey +
		" to exchange it for a short-lived one, put one that is valid for a shorter time into the Secret, or let the administrator of " +
		"the hub change staticCredentials of the policy"
)

// limitsProblem returns the problem with a credential that is used as it is, or nil. One that a resolver adds to each request
// (rest.Config.WrapTransport) has been minted for a short time.
func limitsProblem(config *rest.Config, limits policy.StaticCredentials, now time.Time) *problem {
	detail := ""
	switch {
	case len(config.CertData) > 0 && !certificateWithin(config, limits.MaxLifetime.Duration, now):
		detail = "its client certificate is valid for longer than the policy of the hub allows"
	case config.BearerToken != "":
		detail = tokenOutside(config.BearerToken, limits, now)
	}
	if detail == "" {
		return nil
	}
	return &problem{reason: ReasonPolicyDenied, detail: detail + nextLimits}
}

func certificateWithin(config *rest.Config, maxLifetime time.Duration, now time.Time) bool {
	if maxLifetime == 0 {
		return true
	}
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	return err == nil && lifetime(pair.Leaf.NotBefore, pair.Leaf.NotAfter, now) <= maxLifetime
}

// tokenOutside says why a token is not within the limits, or nothing.
func tokenOutside(token string, limits policy.StaticCredentials, now time.Time) string {
	claims := tokenClaims(token)
	var (
		begin = claimedTime(claims["iat"])
		end   = claimedTime(claims["exp"])
	)
	if begin.IsZero() {
		begin = claimedTime(claims["nbf"])
	}
	limited := limits.MaxLifetime.Duration > 0
	switch {
	case claims != nil && end.IsZero() && (limited || limits.DenyNeverExpiring) && claims["iss"] == legacyIssuer:
		return "its token is that of a Secret of type kubernetes.io/service-account-token, which never expires, and the policy of the hub does not allow that"
	case claims != nil && end.IsZero() && (limited || limits.DenyNeverExpiring):
		return "its token never expires, and the policy of the hub does not allow that"
	case limited && (begin.IsZero() || end.IsZero()):
		return "its token does not tell when it was issued and when it expires, which the policy of the hub asks for"
	case limited && lifetime(begin, end, now) > limits.MaxLifetime.Duration:
		return "its token is valid for longer than the policy of the hub allows"
	}
	return ""
}

// lifetime is the time from the beginning to the end, and no less than what is left of it: an API server need not look at
// when a token was issued.
func lifetime(begin, end, now time.Time) time.Duration {
	if now.Before(begin) {
		begin = now
	}
	return end.Sub(begin)
}
