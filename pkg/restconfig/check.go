// Copyright Contributors to the Open Cluster Management project

package restconfig

import (
	"net/http"
	"net/url"
	"slices"

	"k8s.io/client-go/rest"
)

// Check applies the rules of this package to a ready rest.Config, for example one that a credential resolver of a third
// party returned. Of Options, only InsecureSkipTLSVerify and Proxies matter. The error is a *FieldError; cfg is not changed.
//
// Refused are: file paths, exec and auth provider, basic authentication, impersonation, any scheme but https,
// credentials, query or fragment in the address, CA data without a certificate, skipped verification (unless allowed), and no
// credential at all. Without CA data the server is verified with the roots of the system. Transport and Dial are refused
// because they would replace the connection that the importer builds, with its time limits and its check of addresses;
// WrapTransport is accepted since a token source needs it, and counts as a credential. Proxy must give one of Options.Proxies.
func Check(cfg *rest.Config, o Options) error {
	if cfg == nil {
		return &FieldError{Field: "rest.Config", Reason: ReasonMissing, NextStep: "the credential resolver must return one"}
	}
	table := fields()
	for _, part := range []struct {
		owner string
		value any
	}{
		{"rest.Config", *cfg},
		{"rest.ImpersonationConfig", cfg.Impersonate},
		{"rest.TLSClientConfig", cfg.TLSClientConfig},
	} {
		if err := refuse(table, part.owner, part.value, "", o); err != nil {
			return err
		}
	}
	if err := checkEndpoint(endpoint{
		server: cfg.Host, serverName: cfg.ServerName, ca: cfg.CAData, insecure: cfg.Insecure,
	}, endpointNames{
		server: "rest.Config.Host", serverName: "rest.Config.TLSClientConfig.ServerName", ca: "rest.Config.TLSClientConfig.CAData",
	}, ""); err != nil {
		return err
	}
	if err := checkProxy(cfg, o); err != nil {
		return err
	}
	return checkIdentity(identity{
		token: cfg.BearerToken, cert: cfg.CertData, key: cfg.KeyData, source: cfg.WrapTransport != nil,
	}, identityNames{
		token: "rest.Config.BearerToken", cert: "rest.Config.TLSClientConfig.CertData", key: "rest.Config.TLSClientConfig.KeyData",
	}, "")
}

// endpoint is where to connect to, from whichever source; endpointNames is what that source calls the fields.
type endpoint struct {
	server, serverName string
	ca                 []byte
	insecure           bool
}

type endpointNames struct{ server, serverName, ca string }

func checkEndpoint(e endpoint, names endpointNames, entry string) error {
	if p := checkServer(e.server); p != nil {
		return p.at(names.server, entry)
	}
	if p := checkServerName(e.serverName); p != nil {
		return p.at(names.serverName, entry)
	}
	if e.insecure {
		// client-go refuses the combination, with a text of its own, only when the first client is built.
		if len(e.ca) > 0 {
			return (&problem{ReasonInvalid, "a CA and skipped verification exclude each other; remove one"}).at(names.ca, entry)
		}
		return nil
	}
	if p := checkCA(e.ca); p != nil {
		return p.at(names.ca, entry)
	}
	return nil
}

// identity is whom to connect as, from whichever source; identityNames is what that source calls the fields.
type identity struct {
	token     string
	cert, key []byte
	// source: something else adds the credential to each request.
	source bool
}

type identityNames struct{ token, cert, key string }

func checkIdentity(i identity, names identityNames, entry string) error {
	if p := checkToken(i.token); p != nil {
		return p.at(names.token, entry)
	}
	if p, onKey := checkPair(i.cert, i.key); p != nil {
		if onKey {
			return p.at(names.key, entry)
		}
		return p.at(names.cert, entry)
	}
	if i.token == "" && len(i.cert) == 0 && !i.source {
		return (&problem{ReasonMissing, "give a token, or a client certificate with its key"}).at(names.token, entry)
	}
	return nil
}

// checkProxy asks the function of a config, which is all that can be done with one, for the proxy to the server.
func checkProxy(cfg *rest.Config, o Options) error {
	if cfg.Proxy == nil {
		return nil
	}
	denied := &FieldError{Field: "rest.Config.Proxy", Reason: ReasonDenied, NextStep: nextProxy}
	server, err := url.Parse(cfg.Host)
	if err != nil {
		return denied
	}
	proxy, err := cfg.Proxy(&http.Request{Method: http.MethodGet, URL: server})
	if err != nil || proxy != nil && !slices.Contains(o.Proxies, proxy.String()) {
		return denied
	}
	return nil
}
