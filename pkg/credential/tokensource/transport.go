// Copyright Contributors to the Open Cluster Management project

package tokensource

import (
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"

	"open-cluster-management.io/import-provider/pkg/credential"
)

// errOtherServer is a DeniedError: nothing that goes through here is meant for another server.
var errOtherServer = credential.Denied(errors.New("a request goes to another server than its token is for; it is not sent"))

// Wrap adds the bearer token to requests, in place of any Authorization that they have, as rest.Config.WrapTransport.
//
// A request that does not go to the server of Key.Endpoint by https is not sent; the error is a DeniedError. A request that
// is answered with 401 is not sent again: the answer is passed on, and the next request has a new token, at most once in
// RefusalInterval. An error of a mint is that of all requests in the next FailureInterval; requests that follow are few, since the
// provider ends an attempt with its first error.
func (s *Source) Wrap(next http.RoundTripper) http.RoundTripper {
	return &transport{source: s, next: next}
}

type transport struct {
	source *Source
	next   http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	var sent *held
	err := errOtherServer
	if req.URL.Scheme == "https" && t.source.host != "" && hostPort(req.URL) == t.source.host {
		sent, err = t.source.get(req.Context(), t.source.renew, FailureInterval)
	}
	if err != nil {
		if req.Body != nil {
			// A RoundTripper closes it in any case.
			_ = req.Body.Close()
		}
		return nil, err
	}
	req = req.Clone(req.Context())
	req.Header.Del("Authorization")
	if token := sent.token(); token.Value != "" {
		req.Header.Set("Authorization", "Bearer "+token.Value)
	}
	resp, err := t.next.RoundTrip(req)
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		t.source.refused(sent)
	}
	return resp, err //nolint:wrapcheck // a RoundTripper is transparent.
}

// hostOf returns host:port of a server, or "" if that is none that a token may be sent to.
func hostOf(server string) string {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.Hostname() == "" {
		return ""
	}
	return hostPort(u)
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), port)
}
