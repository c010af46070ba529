// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

func TestRequestProblem(t *testing.T) {
	dial := func(err error) error { return &net.OpError{Op: "dial", Err: err, Addr: &net.TCPAddr{Port: 6443}} }
	at := func(s stage, err error) error { return fmt.Errorf("Get: %w", &stageError{stage: s, err: err}) }
	cases := []struct {
		name   string
		err    error
		reason Reason
		detail string
	}{
		{"import timeout", errImportTimeout, ReasonServerFailed, "the cluster's API server does not answer within the bounds: " +
			"the requests of this import took too long together"},
		{"too large", fmt.Errorf("x: %w", errResponseTooLarge), ReasonServerFailed, "the cluster's API server does not answer within the bounds: " +
			"the answer is too large"},
		{"broken", fmt.Errorf("%w: %w", errBodyBroken, io.ErrUnexpectedEOF), ReasonServerFailed,
			"the cluster's API server does not answer within the bounds: the answer broke off"},
		{"no such host", at(stageDial, dial(&net.DNSError{Err: "no such host", Name: sentinel, IsNotFound: true})), ReasonNameNotResolved,
			"the name of the cluster's API server does not resolve"},
		{"DNS timeout", at(stageDial, dial(&net.DNSError{Err: "timeout", Name: sentinel, IsTimeout: true})), ReasonNameNotResolved,
			"the name of the cluster's API server does not resolve"},
		{"other names", at(stageTLS, &tls.CertificateVerificationError{Err: x509.HostnameError{Certificate: &x509.Certificate{}, Host: sentinel}}),
			ReasonTLSNameMismatch, "the serving certificate is for other names than the server of the credential"},
		{"unknown CA", at(stageTLS, &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), ReasonTLSUntrusted,
			"the serving certificate is not signed by the CA of the credential"},
		{"expired", at(stageTLS, &tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired, Detail: "2024"}}),
			ReasonTLSUntrusted, "the serving certificate is expired or not yet valid"},
		{"not for servers", at(stageTLS, x509.CertificateInvalidError{Reason: x509.IncompatibleUsage}), ReasonTLSUntrusted,
			"the serving certificate cannot be verified"},
		{"verification", at(stageTLS, &tls.CertificateVerificationError{Err: errors.New(sentinel)}), ReasonTLSUntrusted,
			"the serving certificate cannot be verified"},
		{"no TLS", at(stageTLS, tls.RecordHeaderError{Msg: sentinel}), ReasonTLSFailed, "the server does not speak TLS"},
		{"alert", at(stageTLS, tls.AlertError(40)), ReasonTLSFailed, "the server refuses the TLS handshake"},
		{"remote alert", at(stageTLS, &net.OpError{Op: "remote error", Err: errors.New("tls: " + sentinel)}), ReasonTLSFailed,
			"the server refuses the TLS handshake"},
		{"refused", at(stageDial, dial(os.NewSyscallError("connect", syscall.ECONNREFUSED))), ReasonUnreachable, "the connection is refused"},
		{"dial timeout", at(stageDial, dial(os.ErrDeadlineExceeded)), ReasonUnreachable, "no connection within the dial timeout"},
		{"deadline without a stage", context.DeadlineExceeded, ReasonUnreachable, "no connection within the dial timeout"},
		{"TLS timeout", at(stageTLS, context.DeadlineExceeded), ReasonUnreachable,
			"the connection is accepted, the TLS handshake does not finish within its timeout"},
		{"answer timeout", at(stageAnswer, context.DeadlineExceeded), ReasonUnreachable,
			"the connection is accepted, no answer comes within the timeout"},
		{"no route to host", at(stageDial, dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH))), ReasonUnreachable,
			"there is no route to the cluster's API server"},
		{"no route to network", at(stageDial, dial(os.NewSyscallError("connect", syscall.ENETUNREACH))), ReasonUnreachable,
			"there is no route to the cluster's API server"},
		{"reset", at(stageAnswer, os.NewSyscallError("read", syscall.ECONNRESET)), ReasonUnreachable, "the connection is closed before the answer"},
		{"closed", at(stageAnswer, io.EOF), ReasonUnreachable, "the connection is closed before the answer"},
		{"anything", errors.New(sentinel), ReasonUnreachable, "the connection is closed before the answer"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := requestProblem(c.err)
			if p.reason != c.reason || p.detail != c.detail {
				t.Errorf("got %s: %s\nwant %s: %s", p.reason, p.detail, c.reason, c.detail)
			}
			if !errors.Is(p, c.err) {
				t.Error("the cause is lost")
			}
			if p.invalid || p.unexpected || p.after != 0 {
				t.Errorf("not tried again by the back-off: %+v", p)
			}
			expectNoSecret(t, "text", p.Error())
		})
	}
}

// The kinds of failure as servers and the network bring them about.
func TestPreflightFailures(t *testing.T) {
	serve := func(edits ...func(*testing.T, *httptest.Server)) func(*testing.T) *rest.Config {
		return func(t *testing.T) *rest.Config {
			_, config := startSpoke(t, healthy, func(server *httptest.Server) {
				for _, edit := range edits {
					edit(t, server)
				}
			})
			return config
		}
	}
	// certificate replaces the server's certificate by one of a new CA, and the config's CA by that.
	certificate := func(edit func(*x509.Certificate)) func(*testing.T) *rest.Config {
		return func(t *testing.T) *rest.Config {
			ca := newAuthority(t)
			certPEM, keyPEM := ca.issue(t, edit)
			_, config := startSpoke(t, healthy, func(server *httptest.Server) {
				pair, err := tls.X509KeyPair(certPEM, keyPEM)
				if err != nil {
					t.Fatal(err)
				}
				server.TLS.Certificates = []tls.Certificate{pair}
			})
			config.CAData = ca.pem
			return config
		}
	}
	raw := func(serve func(net.Conn)) func(*testing.T) *rest.Config {
		return func(t *testing.T) *rest.Config {
			return &rest.Config{
				Host:            "https://" + tcpListener(t, serve).Addr().String(),
				TLSClientConfig: rest.TLSClientConfig{CAData: newAuthority(t).pem},
			}
		}
	}
	cases := []struct {
		name   string
		config func(*testing.T) *rest.Config
		reason Reason
		detail string
	}{
		{"other CA", func(t *testing.T) *rest.Config {
			_, config := startSpoke(t, healthy)
			config.CAData = newAuthority(t).pem
			return config
		}, ReasonTLSUntrusted, "the serving certificate is not signed by the CA of the credential"},
		{"other name", certificate(func(c *x509.Certificate) {
			c.IPAddresses, c.DNSNames = nil, []string{sentinel + ".example.com"}
		}), ReasonTLSNameMismatch, "the serving certificate is for other names than the server of the credential"},
		{"expired certificate", certificate(func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }),
			ReasonTLSUntrusted, "the serving certificate is expired or not yet valid"},
		{"future certificate", certificate(func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }),
			ReasonTLSUntrusted, "the serving certificate is expired or not yet valid"},
		{"client certificate", certificate(func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth} }),
			ReasonTLSUntrusted, "the serving certificate cannot be verified"},
		{"alert", serve(func(_ *testing.T, server *httptest.Server) {
			server.TLS.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, errors.New("refused") }
		}), ReasonTLSFailed, "the server refuses the TLS handshake"},
		{"plain HTTP", func(t *testing.T) *rest.Config {
			server := httptest.NewServer(healthy)
			t.Cleanup(server.Close)
			return &rest.Config{Host: strings.Replace(server.URL, "http", "https", 1), TLSClientConfig: rest.TLSClientConfig{CAData: newAuthority(t).pem}}
		}, ReasonTLSFailed, "the server does not speak TLS"},
		{"SSH", raw(func(conn net.Conn) {
			_, _ = io.WriteString(conn, "SSH-2.0-"+sentinel+"\r\n")
			silent(conn)
		}), ReasonTLSFailed, "the server does not speak TLS"},
		{"closed at once", raw(func(conn net.Conn) { _ = conn.Close() }), ReasonUnreachable, "the connection is closed before the answer"},
		{"refused", func(t *testing.T) *rest.Config {
			listener := tcpListener(t, silent)
			_ = listener.Close()
			return &rest.Config{Host: "https://" + listener.Addr().String(), TLSClientConfig: rest.TLSClientConfig{CAData: newAuthority(t).pem}}
		}, ReasonUnreachable, "the connection is refused"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var texts []string
			// Another server has another port, as another attempt has.
			for range 2 {
				ctx, logs := testContext(t)
				err := mustConnect(t, c.config(t), patient()).preflight(ctx)
				var p *problem
				if !errors.As(err, &p) {
					t.Fatalf("got %v", err)
				}
				if p.reason != c.reason || p.detail != c.detail {
					t.Errorf("got %s: %s\nwant %s: %s\ncause: %v", p.reason, p.detail, c.reason, c.detail, p.cause)
				}
				expectNoSecret(t, "text", p.Error())
				expectNoSecret(t, "log", logs.String())
				texts = append(texts, p.Error())
			}
			if texts[0] != texts[1] {
				t.Errorf("the same failure has two texts:\n%s\n%s", texts[0], texts[1])
			}
		})
	}
}

func TestDecodeObject(t *testing.T) {
	cases := []struct {
		name   string
		code   int
		body   string
		reason Reason // none: the answer is good
		detail string
	}{
		{name: "namespace", code: 200, body: namespaceJSON},
		{name: "no namespace", code: 404, body: notFoundJSON},
		{"HTML", 200, "<html>" + sentinel, ReasonNotKubernetes, "the server does not answer like a Kubernetes API server"},
		{"HTML of a proxy", 404, "<html>" + sentinel, ReasonNotKubernetes, "the server does not answer like a Kubernetes API server"},
		{"other JSON", 200, `{"kind":"` + sentinel + `"}`, ReasonNotKubernetes, "the server does not answer like a Kubernetes API server"},
		{"Status as a success", 200, notFoundJSON, ReasonNotKubernetes, "the server does not answer like a Kubernetes API server"},
		{"namespace not found", 404, namespaceJSON, ReasonNotKubernetes, "the server does not answer like a Kubernetes API server"},
		{"no content", 204, "", ReasonNotKubernetes, "the server does not answer like a Kubernetes API server"},
		{"bad request", 400, notFoundJSON, ReasonNotKubernetes, "the server does not answer like a Kubernetes API server"},
		{"unauthorized", 401, sentinel, ReasonUnauthorized, "the cluster's API server does not accept the credential"},
		{"forbidden", 403, sentinel, ReasonForbidden, "the credential may not do all that an import does"},
		{"throttled", 429, sentinel, ReasonServerFailed, "the cluster's API server throttles"},
		{"redirect", 302, sentinel, ReasonNotKubernetes, "the server redirects to another place, which is not followed"},
		{"error", 500, sentinel, ReasonServerFailed, "the cluster's API server answers with an error"},
		{"unavailable", 503, sentinel, ReasonServerFailed, "the cluster's API server answers with an error"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := decodeObject(&http.Response{StatusCode: c.code, Body: io.NopCloser(strings.NewReader(c.body))},
				"Namespace", &corev1.Namespace{})
			if c.reason == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			var p *problem
			if !errors.As(err, &p) || p.reason != c.reason || p.detail != c.detail || p.invalid || p.unexpected {
				t.Errorf("got %#v, want %s: %s", err, c.reason, c.detail)
			}
		})
	}
}

func TestClientCertificateProblem(t *testing.T) {
	ca := newAuthority(t)
	now := time.Now()
	certPEM, keyPEM := ca.issue(t, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = now.Add(-time.Hour), now.Add(time.Hour) })
	_, otherKey := ca.issue(t)
	good := rest.TLSClientConfig{CertData: certPEM, KeyData: keyPEM}
	cases := []struct {
		name    string
		config  rest.Config
		now     time.Time
		reason  Reason
		detail  string
		invalid bool
	}{
		{name: "none", config: rest.Config{BearerToken: testToken}, now: now},
		{name: "valid", config: rest.Config{TLSClientConfig: good}, now: now},
		{"expired", rest.Config{TLSClientConfig: good}, now.Add(2 * time.Hour), ReasonCredentialExpired, "the client certificate is expired", true},
		// Time alone makes it valid, so nobody has to fix it.
		{"not yet valid", rest.Config{TLSClientConfig: good}, now.Add(-2 * time.Hour), ReasonCredentialExpired,
			"the client certificate is not yet valid", false},
		{name: "expired beside a token", config: rest.Config{TLSClientConfig: good, BearerToken: testToken}, now: now.Add(2 * time.Hour)},
		{"other key", rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: certPEM, KeyData: otherKey}}, now, ReasonCredentialInvalid,
			"the client certificate and its key do not fit", true},
		{"no certificate", rest.Config{TLSClientConfig: rest.TLSClientConfig{CertData: []byte(sentinel), KeyData: keyPEM}}, now,
			ReasonCredentialInvalid, "the client certificate and its key do not fit", true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := clientCertificateProblem(&c.config, c.now)
			if c.reason == "" {
				if p != nil {
					t.Errorf("got %v", p)
				}
				return
			}
			if p == nil || p.reason != c.reason || p.detail != c.detail || p.invalid != c.invalid {
				t.Errorf("got %+v, want %s: %s", p, c.reason, c.detail)
			}
		})
	}
}

func TestExpiredClientCertificateIsNotSent(t *testing.T) {
	s, config := startSpoke(t, healthy)
	config.BearerToken = ""
	config.CertData, config.KeyData = newAuthority(t).issue(t, func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	ctx, _ := testContext(t)
	err := mustConnect(t, config, patient()).preflight(ctx)
	var p *problem
	if !errors.As(err, &p) || p.reason != ReasonCredentialExpired {
		t.Errorf("got %v", err)
	}
	if s.connectionCount() != 0 {
		t.Error("a connection is made")
	}
}
