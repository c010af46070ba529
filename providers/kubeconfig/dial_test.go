// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/policy"
)

// testPolicy reads a policy, as YAML without apiVersion and kind.
func testPolicy(t testing.TB, spec string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse([]byte("apiVersion: " + policy.APIVersion + "\nkind: " + policy.Kind + "\n" + spec))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// resolverOf answers each look-up of a name with the addresses that answer returns.
func resolverOf(answer func() []netip.Addr) *net.Resolver {
	serve := func(conn net.Conn) {
		defer func() { _ = conn.Close() }()
		// A stream of messages, each behind its length (RFC 1035, section 4.2.2).
		length := make([]byte, 2)
		if _, err := io.ReadFull(conn, length); err != nil {
			return
		}
		question := make([]byte, binary.BigEndian.Uint16(length))
		var message dnsmessage.Message
		if _, err := io.ReadFull(conn, question); err != nil || message.Unpack(question) != nil {
			return
		}
		message.Response, message.Additionals = true, nil
		asked := message.Questions[0]
		if asked.Type == dnsmessage.TypeA {
			for _, addr := range answer() {
				message.Answers = append(message.Answers, dnsmessage.Resource{
					Header: dnsmessage.ResourceHeader{Name: asked.Name, Class: dnsmessage.ClassINET},
					Body:   &dnsmessage.AResource{A: addr.As4()},
				})
			}
		}
		packed, err := message.Pack()
		if err != nil {
			return
		}
		_, _ = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...)) //nolint:gosec // it is short.
	}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		go serve(server)
		return client, nil
	}}
}

// always is a look-up that does not change.
func always(addresses ...string) func() []netip.Addr {
	var parsed []netip.Addr
	for _, address := range addresses {
		parsed = append(parsed, netip.MustParseAddr(address))
	}
	return func() []netip.Addr { return parsed }
}

// at is the config with another host and the port as it is.
func at(t testing.TB, config *rest.Config, host string) *rest.Config {
	t.Helper()
	u, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	u.Host = host + ":" + u.Port()
	config.Host = u.String()
	// The certificate is for one address.
	config.ServerName = "127.0.0.1"
	return config
}

// dialPreflight runs the preflight with a policy and a resolver.
func dialPreflight(t testing.TB, config *rest.Config, current *policy.Policy, resolver *net.Resolver) error {
	t.Helper()
	ctx, logs := testContext(t)
	conn, err := connectWith(&dialer{Dialer: net.Dialer{Timeout: giveUp / 4, Resolver: resolver}, policy: current}, config, patient())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.close()
	err = preflight(ctx, t, conn)
	expectNoSecret(t, "log", logs.String())
	return err
}

func expectProblem(t testing.TB, err error, reason Reason, detail string) {
	t.Helper()
	var p *problem
	if !errors.As(err, &p) || p.reason != reason || p.detail != detail {
		t.Errorf("got %v\nwant %s: %s", err, reason, detail)
	}
}

// TestDeniedAddressesAreNotDialled: whatever the address is written as, the server at it sees no connection.
func TestDeniedAddressesAreNotDialled(t *testing.T) {
	s, config := startSpoke(t, healthy)
	local := resolverOf(always("127.0.0.1"))
	const notResolved = "the name of the cluster's API server does not resolve"
	policies := map[string]*policy.Policy{
		"default":    policy.Default(),
		"everything": testPolicy(t, "endpoints: {allowCIDRs: [0.0.0.0/0, '::/0']}"),
		"denied":     testPolicy(t, "endpoints: {allowCIDRs: [0.0.0.0/0, 127.0.0.0/8, 0.0.0.0/8], denyCIDRs: [127.0.0.0/8, 0.0.0.0/8]}"),
	}
	// These lead to the server, without the policy.
	reaching := []string{
		"127.0.0.1", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "rebind.example.com",
		// A resolver of C takes these for addresses, and that of Go for names.
		"0x7f000001", "0x7f.1",
	}
	others := []string{
		"169.254.169.254", "169.254.170.2", "169.254.1.1", "168.63.129.16", "100.100.100.200", "224.0.0.1", "255.255.255.255", "[::1]", "[::]",
		"[fe80::1%25lo]", "[ff02::1%25lo]", "[2001:db8::1%25lo]", "[fd00:ec2::254]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
		"[::ffff:169.254.169.254]",
	}
	// These are not even names.
	numbers := []string{"2130706433", "0177.0.0.1", "127.1"}
	for _, host := range slices.Concat(reaching, others, numbers) {
		t.Run(host, func(t *testing.T) {
			for name, current := range policies {
				err := dialPreflight(t, at(t, config, host), current, local)
				if slices.Contains(numbers, host) {
					expectProblem(t, err, ReasonNameNotResolved, notResolved)
				} else {
					expectProblem(t, err, ReasonPolicyDenied, policy.ErrAddressDenied.Error())
				}
				if s.connectionCount() != 0 {
					t.Fatalf("%s: the server saw a connection", name)
				}
			}
		})
	}
	for _, host := range reaching {
		if err := dialPreflight(t, at(t, config, host), loopbackPolicy(), local); err != nil {
			t.Errorf("%s does not lead to the server: the test has lost its object: %v", host, err)
		}
	}
}

// TestRebinding: a name that resolves to an allowed address when it is looked at, and to another when it is dialled.
func TestRebinding(t *testing.T) {
	s, config := startSpoke(t, healthy)
	current := testPolicy(t, "endpoints: {allowCIDRs: [127.0.0.2/32]}")
	if err := current.CheckAddress(netip.MustParseAddr("127.0.0.2")); err != nil {
		t.Fatal(err)
	}
	for first := range 3 {
		var lookups atomic.Int32
		flips := resolverOf(func() []netip.Addr {
			if int(lookups.Add(1)) <= first {
				return always("127.0.0.2")()
			}
			return always("127.0.0.1")()
		})
		config := at(t, config, "rebind.example.com")
		for range 3 {
			if err := dialPreflight(t, config, current, flips); err == nil {
				t.Error("the preflight passes")
			}
		}
		// In the end it stays at the address that is denied.
		expectProblem(t, dialPreflight(t, config, current, flips), ReasonPolicyDenied, policy.ErrAddressDenied.Error())
		if lookups.Load() != 4 {
			t.Errorf("%d look-ups in four attempts", lookups.Load())
		}
	}
	if s.connectionCount() != 0 {
		t.Errorf("the server saw %d connections", s.connectionCount())
	}
}

// TestHostWithSeveralAddresses: those that are allowed are tried, the others are not, and the text does not depend on their order.
func TestHostWithSeveralAddresses(t *testing.T) {
	s, config := startSpoke(t, healthy)
	config = at(t, config, "several.example.com")
	cases := []struct {
		name, allowed string
		addresses     []string
		reached       bool
	}{
		{"denied before allowed", "127.0.0.1/32", []string{"127.0.0.2", "127.0.0.1"}, true},
		{"allowed before denied", "127.0.0.1/32", []string{"127.0.0.1", "127.0.0.2"}, true},
		// Nobody listens at the one that is allowed.
		{"denied before allowed, which is down", "127.0.0.2/32", []string{"127.0.0.1", "127.0.0.2"}, false},
		{"allowed, which is down, before denied", "127.0.0.2/32", []string{"127.0.0.2", "127.0.0.1"}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			before := s.connectionCount()
			err := dialPreflight(t, config, testPolicy(t, "endpoints: {allowCIDRs: ["+c.allowed+"]}"), resolverOf(always(c.addresses...)))
			if c.reached {
				if err != nil || s.connectionCount() != before+1 {
					t.Errorf("got %v after %d connections", err, s.connectionCount()-before)
				}
				return
			}
			expectProblem(t, err, ReasonPolicyDenied, policy.ErrAddressDenied.Error())
			if s.connectionCount() != before {
				t.Error("the server saw a connection")
			}
		})
	}
}

// tunnelProxy is a proxy that opens tunnels.
type tunnelProxy struct {
	*httptest.Server
	lock        sync.Mutex // guards the fields below
	connections int
	requests    []string
	sent        strings.Builder
}

// startProxy starts a proxy. refusal, if not 0, is how it answers.
func startProxy(t testing.TB, refusal int, edits ...func(*httptest.Server)) *tunnelProxy {
	t.Helper()
	p := &tunnelProxy{}
	var tunnels sync.WaitGroup
	p.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.lock.Lock()
		p.requests = append(p.requests, r.Method+" "+r.RequestURI)
		for name, values := range r.Header {
			_, _ = p.sent.WriteString(name + ": " + strings.Join(values, ",") + "\n")
		}
		p.lock.Unlock()
		if refusal != 0 {
			http.Error(w, sentinel, refusal)
			return
		}
		target, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", r.RequestURI)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		client, buffered, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n")
		tunnels.Go(func() { p.forward(target, buffered.Reader) })
		tunnels.Go(func() {
			_, _ = io.Copy(client, target)
			_ = client.Close()
		})
	}))
	p.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			p.lock.Lock()
			defer p.lock.Unlock()
			p.connections++
		}
	}
	for _, edit := range edits {
		edit(p.Server)
	}
	if p.TLS != nil {
		p.StartTLS()
	} else {
		p.Start()
	}
	t.Cleanup(func() {
		p.CloseClientConnections()
		p.Close()
	})
	return p
}

// forward copies what a client sends, and keeps it.
func (p *tunnelProxy) forward(target net.Conn, client *bufio.Reader) {
	defer func() { _ = target.Close() }()
	buffer := make([]byte, 4096)
	for {
		n, err := client.Read(buffer)
		p.lock.Lock()
		_, _ = p.sent.Write(buffer[:n])
		p.lock.Unlock()
		if _, writeErr := target.Write(buffer[:n]); err != nil || writeErr != nil {
			return
		}
	}
}

func (p *tunnelProxy) seen() (connections int, requests []string, sent string) {
	p.lock.Lock()
	defer p.lock.Unlock()
	return p.connections, p.requests, p.sent.String()
}

// serverTLS is that of a server with a certificate of a CA.
func serverTLS(t testing.TB, ca *authority) *tls.Config {
	t.Helper()
	certPEM, keyPEM := ca.issue(t)
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
}

// through is the config with a proxy.
func through(t testing.TB, config *rest.Config, proxy string) *rest.Config {
	t.Helper()
	u, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.Proxy = http.ProxyURL(u)
	return config
}

func TestProxy(t *testing.T) {
	s, config := startSpoke(t, healthy)
	// The certificate of package httptest, which TestMain makes the system trust.
	withSystemCA := func(server *httptest.Server) { server.TLS = &tls.Config{MinVersion: tls.VersionTLS12} }
	for name, edits := range map[string][]func(*httptest.Server){"http": nil, "https": {withSystemCA}} {
		t.Run(name, func(t *testing.T) {
			before := s.requestCount()
			proxy := startProxy(t, 0, edits...)
			ctx, _ := testContext(t)
			conn := mustConnect(t, through(t, config, proxy.URL), patient())
			defer conn.close()
			if err := preflight(ctx, t, conn); err != nil {
				t.Fatal(err)
			}
			if got := s.requestCount() - before; got != len(preflightRequests) {
				t.Errorf("%d requests, want %d", got, len(preflightRequests))
			}
			connections, requests, sent := proxy.seen()
			if want := "CONNECT " + strings.TrimPrefix(config.Host, "https://"); connections != 1 || len(requests) != 1 || requests[0] != want {
				t.Errorf("the proxy saw %d connections with %q, want one with %q", connections, requests, want)
			}
			if strings.Contains(sent, sentinel) || strings.Contains(sent, "selfsubjectaccessreviews") || sent == "" {
				t.Error("the proxy reads what is for the cluster, or nothing went through it")
			}
		})
	}
}

func TestProxyFails(t *testing.T) {
	const unreachable = "the proxy of the kubeconfig cannot be reached"
	s, config := startSpoke(t, healthy)
	certificate := newAuthority(t)
	cases := map[string]struct {
		proxy  func(t *testing.T) *tunnelProxy
		policy *policy.Policy
		reason Reason
		detail string
		seen   int // connections
	}{
		"its address is denied": {
			func(t *testing.T) *tunnelProxy { return startProxy(t, 0) }, policy.Default(), ReasonPolicyDenied, errProxyDenied.Error(), 0},
		"its address is denied, https": {
			func(t *testing.T) *tunnelProxy {
				return startProxy(t, 0, func(server *httptest.Server) { server.TLS = &tls.Config{MinVersion: tls.VersionTLS12} })
			}, policy.Default(), ReasonPolicyDenied, errProxyDenied.Error(), 0},
		"it refuses": {
			func(t *testing.T) *tunnelProxy { return startProxy(t, http.StatusForbidden) }, loopbackPolicy(), ReasonUnreachable, errProxyRefuses.Error(), 1},
		"it asks for a password": {
			func(t *testing.T) *tunnelProxy { return startProxy(t, http.StatusProxyAuthRequired) }, loopbackPolicy(), ReasonUnreachable, errProxyRefuses.Error(), 1},
		"it redirects": {
			func(t *testing.T) *tunnelProxy { return startProxy(t, http.StatusFound) }, loopbackPolicy(), ReasonUnreachable, errProxyRefuses.Error(), 1},
		"it is down": {
			func(t *testing.T) *tunnelProxy { p := startProxy(t, 0); p.Close(); return p }, loopbackPolicy(), ReasonUnreachable, unreachable, 0},
		// The CA of the Secret, and the name that it asks for, say nothing about who the proxy is.
		"only the Secret vouches for it": {
			func(t *testing.T) *tunnelProxy {
				return startProxy(t, 0, func(server *httptest.Server) { server.TLS = serverTLS(t, certificate) })
			}, loopbackPolicy(), ReasonUnreachable, unreachable, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			before := s.connectionCount()
			proxy := c.proxy(t)
			config := through(t, config, proxy.URL)
			config.CAData = append(append([]byte{}, config.CAData...), certificate.pem...)
			err := dialPreflight(t, config, c.policy, nil)
			expectProblem(t, err, c.reason, c.detail)
			expectNoSecret(t, "problem", err.Error())
			connections, _, sent := proxy.seen()
			if connections != c.seen || s.connectionCount() != before || strings.Contains(sent, testToken) {
				t.Errorf("%d connections to the proxy, want %d, and %d to the cluster", connections, c.seen, s.connectionCount()-before)
			}
		})
	}
}

// TestProxyThatIsNotAllowed: neither the proxy nor the cluster sees anything.
func TestProxyThatIsNotAllowed(t *testing.T) {
	s, config := startSpoke(t, healthy)
	proxy := startProxy(t, 0)
	const notAccepted = "rest.Config.Proxy is not accepted: remove it, or use one that the administrator of the hub accepts"
	for _, c := range []struct{ more, want string }{
		{"", notAccepted},
		{", proxies: ['http://proxy.example.com:3128'], allowHosts: [127.0.0.1]", notAccepted},
		{", proxies: ['" + proxy.URL + "']", policy.ErrProxiedHost.Error()},
		{", proxies: ['" + proxy.URL + "'], allowHosts: [a.example.com]", policy.ErrHostDenied.Error()},
		// The last, since it connects.
		{", proxies: ['" + proxy.URL + "'], allowHosts: [127.0.0.1]", ""},
	} {
		current := testPolicy(t, "endpoints: {allowCIDRs: [127.0.0.0/8]"+c.more+"}")
		f := newPolicyFixture(t, func() *policy.Policy { return current })
		f.set(partial(DefaultImportNamespace, testSecret, testCluster))
		f.resolver.Config = through(t, config, proxy.URL)
		ctx, _ := testContext(t)
		_, err := f.provider.Clients(ctx, managedCluster())
		connections, _, _ := proxy.seen()
		if c.want == "" {
			if err != nil || connections == 0 || s.connectionCount() == 0 {
				t.Errorf("allowed: %v, %d connections to the proxy and %d to the cluster", err, connections, s.connectionCount())
			}
			continue
		}
		if err == nil || !strings.HasSuffix(err.Error(), "PolicyDenied: credential resolver kubeconfig: "+c.want) {
			t.Errorf("%s\ngot %v\nwant %s", c.more, err, c.want)
		}
		if connections != 0 || s.connectionCount() != 0 {
			t.Fatalf("%s: a connection is made", c.more)
		}
	}
}

// TestConnectionsEnd: a failed attempt leaves nothing open, before idle connections time out.
func TestConnectionsEnd(t *testing.T) {
	for _, http2 := range []bool{true, false} {
		t.Run("HTTP/2 "+strconv.FormatBool(http2), func(t *testing.T) {
			var open, opened atomic.Int32
			_, config := startSpoke(t, answer(http.StatusUnauthorized, notFoundJSON), func(server *httptest.Server) {
				server.EnableHTTP2 = http2
				before := server.Config.ConnState
				server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
					before(conn, state)
					switch state {
					case http.StateNew:
						open.Add(1)
						opened.Add(1)
					case http.StateClosed, http.StateHijacked:
						open.Add(-1)
					}
				}
			})
			f := newFixture(t)
			f.set(partial(DefaultImportNamespace, testSecret, testCluster))
			f.resolver.Config = config
			ctx, _ := testContext(t)
			const attempts = 10
			for range attempts {
				if _, err := f.provider.Clients(ctx, managedCluster()); err == nil {
					t.Fatal("the preflight passes")
				}
				f.elapseBackOff()
			}
			start := time.Now()
			eventually(t, "all connections are closed", func() bool { return open.Load() == 0 })
			if took := time.Since(start); took > idleConnTimeout/2 {
				t.Errorf("idle connections ended by themselves after %s", took)
			}
			if opened.Load() != attempts {
				t.Errorf("%d connections in %d attempts", opened.Load(), attempts)
			}
		})
	}
}
