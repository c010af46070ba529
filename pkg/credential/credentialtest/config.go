// Copyright Contributors to the Open Cluster Management project

package credentialtest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"k8s.io/client-go/rest"
)

// CA is a self-signed certificate in PEM form that nothing verifies against, for inputs that need one.
const CA = `-----BEGIN CERTIFICATE-----
MIIBITCByaADAgECAgEBMAoGCCqGSM49BAMCMAAwIBcNNzAwMTAxMDAwMDAwWhgP
MjA5OTAxMDEwMDAwMDBaMAAwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAQtH3sL
ltD1DUx6HinCgeb4IyUQTcGAnxXNAdBOChvzuVhHbXWW+lPk4tgfm5KXgKEqo2Md
5NH8Tam8DKXS6dKjozIwMDAPBgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBS4lak/
MNuiZ+JY+2BUADtlYOOJrjAKBggqhkjOPQQDAgNHADBEAiA0oC/AoMYHGFYzkXH7
OSfMgoJt5ChKSVfWHIV6ZxMalQIgGrsK+1u3JyHHEDUrQEM/UtF+Zi1NnWlYIvSp
K+kgL4M=
-----END CERTIFICATE-----
`

// SentToken returns the bearer token that a request with a config carries, to a config whose tokens come from WrapTransport.
// Nothing is sent. The error is that of the transport, or says that there is no token.
func SentToken(ctx context.Context, config *rest.Config) (string, error) {
	if config.WrapTransport == nil {
		return "", errors.New("the config has no WrapTransport")
	}
	var header string
	transport := config.WrapTransport(roundTripper(func(req *http.Request) (*http.Response, error) {
		header = req.Header.Get("Authorization")
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: req}, nil
	}))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, config.Host, http.NoBody)
	if err != nil {
		return "", fmt.Errorf("making a request: %w", err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	token, found := strings.CutPrefix(header, "Bearer ")
	if !found {
		return "", errors.New("the request carries no bearer token")
	}
	return token, nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }
