// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync/atomic"
	"syscall"

	"open-cluster-management.io/import-provider/pkg/policy"
)

var (
	errProxyDenied = errors.New("the policy of the hub does not allow the address of the proxy; let the administrator of the hub add it to " +
		"endpoints.allowCIDRs, or correct the proxy-url of the kubeconfig")
	errProxyRefuses = errors.New("the proxy does not connect to the cluster's API server")
)

// dialer dials the addresses that the policy allows, and no other.
type dialer struct {
	net.Dialer
	policy *policy.Policy
	// proxied says that it is a proxy that is dialled.
	proxied bool
}

// dial resolves a name and tries its addresses one after the other. The policy is asked when the socket is there and its
// address fixed, so that no second look-up comes in between. Nothing is sent to an address that is denied.
func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var denied atomic.Bool
	checked := d.Dialer
	checked.ControlContext = func(_ context.Context, _, address string, _ syscall.RawConn) error {
		dialled, err := netip.ParseAddrPort(address)
		if err != nil || d.policy.CheckAddress(dialled.Addr()) != nil {
			denied.Store(true)
			return policy.ErrAddressDenied
		}
		return nil
	}
	conn, err := checked.DialContext(ctx, network, address)
	switch {
	case err != nil && denied.Load() && d.proxied:
		return nil, errProxyDenied
	case err != nil && denied.Load():
		// Also where another address failed in another way: which of them comes first changes with each answer of a DNS server.
		return nil, policy.ErrAddressDenied
	}
	return conn, err //nolint:wrapcheck // net/http and requestProblem know the errors of package net.
}

// useProxy makes a transport send its requests through a proxy, which opens a tunnel (CONNECT): TLS is with the cluster.
func useProxy(transport *http.Transport, proxy func(*http.Request) (*url.URL, error), dialer *dialer, o ConnectionOptions) {
	dialer.proxied = true
	transport.Proxy = proxy
	transport.OnProxyConnectResponse = func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
		if resp.StatusCode != http.StatusOK {
			return errProxyRefuses
		}
		return nil
	}
	// For the connection to a proxy with https, net/http takes the TLS settings that are for the cluster otherwise: the CA and the
	// server name of the Secret would decide who the proxy is, and it would be offered the client certificate.
	transport.DialTLSContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, o.TLSHandshakeTimeout+o.DialTimeout)
		defer cancel()
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, err //nolint:wrapcheck // not reached: net/http adds the port.
		}
		conn, err := dialer.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		secure := tls.Client(conn, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12})
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			return nil, err //nolint:wrapcheck // as above.
		}
		return secure, nil
	}
}

// isProxyFailure tells whether a proxy was not reached: net/http wraps errors of the connection to one.
func isProxyFailure(err error) bool {
	var opErr *net.OpError
	return errors.As(err, &opErr) && opErr.Op == "proxyconnect"
}
