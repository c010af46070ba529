// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	clusterv1 "open-cluster-management.io/api/cluster/v1"
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
			"the serving certificate is not signed by the CA of the credential or, without one, by a public authority"},
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
			if reasonInfos[p.reason].retry != retryBackoff || p.after != 0 {
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
		}, ReasonTLSUntrusted, "the serving certificate is not signed by the CA of the credential or, without one, by a public authority"},
		// Nothing is verified less for want of a CA.
		{"no CA", func(t *testing.T) *rest.Config {
			_, config := startSpoke(t, healthy)
			config.CAData = nil
			return config
		}, ReasonTLSUntrusted, "the serving certificate is not signed by the CA of the credential or, without one, by a public authority"},
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
				err := preflight(ctx, t, mustConnect(t, c.config(t), patient()))
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

// The preflight tells what a cluster refuses, and asks for nothing more.
func TestPreflightStages(t *testing.T) {
	refused := []struct {
		name   string
		answer http.HandlerFunc
		want   Reason
	}{
		{"unauthorized", answer(http.StatusUnauthorized, sentinel), ReasonUnauthorized},
		{"forbidden", answer(http.StatusForbidden, sentinel), ReasonForbidden},
		{"failing", answer(http.StatusInternalServerError, sentinel), ReasonServerFailed},
		{"HTML", answer(http.StatusOK, "<html>"+sentinel), ReasonNotKubernetes},
		{"other JSON", answer(http.StatusOK, `{"kind":"`+sentinel+`"}`), ReasonNotKubernetes},
	}
	for i, request := range preflightRequests {
		_, path, _ := strings.Cut(request, " ")
		for _, c := range refused {
			t.Run(c.name+" "+path, func(t *testing.T) {
				s, config := startSpoke(t, apiServer(map[string]http.HandlerFunc{path: c.answer}))
				ctx, logs := testContext(t)
				err := preflight(ctx, t, mustConnect(t, config, patient()))
				var p *problem
				if !errors.As(err, &p) || p.reason != c.want {
					t.Fatalf("got %v, want %s", err, c.want)
				}
				if diff := cmp.Diff(preflightRequests[:i+1], s.requested()); diff != "" {
					t.Errorf("requests (-want +got):\n%s", diff)
				}
				expectNoSecret(t, "text", p.Error())
				expectNoSecret(t, "log", logs.String())
			})
		}
	}
	t.Run("good", func(t *testing.T) {
		s, config := startSpoke(t, healthy)
		ctx, _ := testContext(t)
		if err := preflight(ctx, t, mustConnect(t, config, patient())); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(preflightRequests, s.requested()); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
	})
}

// The first request asks whether the credential may do everything, and is one that a cluster may not know nothing of.
func TestAccessReview(t *testing.T) {
	cases := []struct {
		name string
		code int
		body string
		want Reason // none: the preflight goes on
	}{
		{name: "allowed", code: reviewCode, body: allowedJSON},
		{"no path", http.StatusNotFound, "404 page not found", ReasonNotKubernetes},
		{"no object", http.StatusNotFound, notFoundJSON, ReasonNotKubernetes},
		{"another kind", reviewCode, namespaceJSON, ReasonNotKubernetes},
		{"a Status", reviewCode, notFoundJSON, ReasonNotKubernetes},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var review authorizationv1.SelfSubjectAccessReview
			_, config := startSpoke(t, apiServer(map[string]http.HandlerFunc{reviewPath: func(w http.ResponseWriter, r *http.Request) {
				if err := json.NewDecoder(r.Body).Decode(&review); err != nil || r.Header.Get("Content-Type") != "application/json" {
					t.Errorf("the request is %q: %v", r.Header.Get("Content-Type"), err)
				}
				answer(c.code, c.body)(w, r)
			}}))
			ctx, _ := testContext(t)
			err := preflight(ctx, t, mustConnect(t, config, patient()))
			var p *problem
			switch {
			case c.want == "" && err != nil, c.want != "" && (!errors.As(err, &p) || p.reason != c.want):
				t.Errorf("got %v, want %s", err, c.want)
			}
			want := authorizationv1.SelfSubjectAccessReview{
				TypeMeta: metav1.TypeMeta{Kind: "SelfSubjectAccessReview", APIVersion: "authorization.k8s.io/v1"},
				Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: "*", Group: "*", Version: "*", Resource: "*",
				}},
			}
			if diff := cmp.Diff(want, review); diff != "" {
				t.Errorf("review (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheckVersion(t *testing.T) {
	const (
		notKubernetes = "NotKubernetes: the server does not answer like a Kubernetes API server; correct the server of the kubeconfig"
		tooOld        = "ClusterTooOld: the cluster has Kubernetes 1.15, an import needs 1.16; upgrade the cluster"
	)
	version := func(version string) http.HandlerFunc {
		return answer(http.StatusOK, `{"major":"9","minor":"9","gitVersion":"`+version+`"}`)
	}
	cases := []struct {
		name   string
		answer http.HandlerFunc
		want   string // none: supported
	}{
		{name: "oldest", answer: version("v1.16.0")},
		{name: "new", answer: version("v1.34.4")},
		{name: "next major", answer: version("v2.0.0")},
		{name: "EKS", answer: version("v1.29.3-eks-a18cd3a")},
		{name: "k3s", answer: version("v1.28.5+k3s1")},
		{name: "GKE", answer: version("v1.30.2-gke.1587003")},
		{name: "pre-release of a newer one", answer: version("v1.35.0-alpha.1")},
		{name: "no semantic version", answer: version("v1.27.3_vendor.01")},
		{name: "two numbers", answer: version("v1.29")},
		{"too old", version("v1.15.12"), tooOld},
		{"too old, of a vendor", version("v1.15.12-gke." + sentinel), tooOld},
		{"too old, major", version("v0.34.0"), "ClusterTooOld: the cluster has Kubernetes 0.34, an import needs 1.16; upgrade the cluster"},
		{"garbage", version(sentinel), notKubernetes},
		{"no version", answer(http.StatusOK, `{"major":"1","minor":"34"}`), notKubernetes},
		{"another type", answer(http.StatusOK, `{"gitVersion":["`+sentinel+`"]}`), notKubernetes},
		{"a Status", answer(http.StatusOK, notFoundJSON), notKubernetes},
		{"HTML", answer(http.StatusOK, "<html>"+sentinel), notKubernetes},
		{"nothing", answer(http.StatusOK, ""), notKubernetes},
		{"not found", answer(http.StatusNotFound, versionJSON), notKubernetes},
		{"no content", answer(http.StatusNoContent, ""), notKubernetes},
		{"unauthorized", answer(http.StatusUnauthorized, versionJSON),
			"Unauthorized: the cluster's API server does not accept the credential; " + reasonInfos[ReasonUnauthorized].next},
		{"forbidden", answer(http.StatusForbidden, versionJSON),
			"Forbidden: the credential may not do all that an import does; " + reasonInfos[ReasonForbidden].next},
		{"error", answer(http.StatusInternalServerError, versionJSON),
			"ServerFailed: the cluster's API server answers with an error; " + reasonInfos[ReasonServerFailed].next},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, config := startSpoke(t, apiServer(map[string]http.HandlerFunc{versionPath: c.answer}))
			ctx, logs := testContext(t)
			got := ""
			if err := preflight(ctx, t, mustConnect(t, config, patient())); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			expectNoSecret(t, "text", got)
			expectNoSecret(t, "log", logs.String())
		})
	}
}

// What the import will write is asked for when it is needed, once.
func TestPreflightAsksForThePlan(t *testing.T) {
	// A credential that may not do everything.
	restricted := apiServer(map[string]http.HandlerFunc{
		reviewPath: answer(reviewCode, `{"kind":"SelfSubjectAccessReview","status":{"allowed":false}}`),
	})
	failing := errors.New("no mapping: " + sentinel)
	run := func(t *testing.T, planErr error, handler http.HandlerFunc) ([]string, *logBuffer, error) {
		t.Helper()
		var planned []string
		f := newFixture(t, func(o *Options) {
			o.Plan = func(_ context.Context, cluster *clusterv1.ManagedCluster) (*Plan, error) {
				planned = append(planned, cluster.Name)
				if planErr != nil {
					return nil, planErr
				}
				return &Plan{}, nil
			}
		})
		_, config := startSpoke(t, handler)
		ctx, logs := testContext(t)
		err := f.provider.preflight(ctx, mustConnect(t, config, patient()), managedCluster())
		return planned, logs, err
	}
	t.Run("planned", func(t *testing.T) {
		planned, _, err := run(t, nil, restricted)
		if err != nil || !slices.Equal(planned, []string{testCluster}) {
			t.Errorf("got %v, planned %v", err, planned)
		}
	})
	t.Run("not for an administrator of a cluster without a klusterlet", func(t *testing.T) {
		planned, _, err := run(t, nil, healthy)
		if err != nil || planned != nil {
			t.Errorf("got %v, planned %v", err, planned)
		}
	})
	t.Run("not for a cluster that does not answer", func(t *testing.T) {
		planned, _, err := run(t, nil, answer(http.StatusInternalServerError, ""))
		if err == nil || planned != nil {
			t.Errorf("got %v, planned %v", err, planned)
		}
	})
	// The importer says so itself, with a reason of its own.
	t.Run("failing", func(t *testing.T) {
		_, logs, err := run(t, failing, restricted)
		if err != nil || !strings.Contains(logs.String(), "Klusterlet cannot be rendered") {
			t.Errorf("got %v, logged %s", err, logs)
		}
		expectNoSecret(t, "log", logs.String())
	})
	t.Run("failing, and the cluster has a klusterlet", func(t *testing.T) {
		_, _, err := run(t, failing, apiServer(map[string]http.HandlerFunc{
			klusterletPath: answer(http.StatusOK, `{"kind":"Klusterlet","spec":{"clusterName":"other"}}`),
		}))
		if want := "HubReadFailed: the hub's own address cannot be read; " + reasonInfos[ReasonHubReadFailed].next; err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	})
	t.Run("the process ends", func(t *testing.T) {
		ctx, logs := testContext(t)
		ctx, cancel := context.WithCancel(ctx)
		f := newFixture(t, func(o *Options) {
			o.Plan = func(ctx context.Context, _ *clusterv1.ManagedCluster) (*Plan, error) {
				cancel()
				return nil, ctx.Err()
			}
		})
		s, config := startSpoke(t, restricted)
		if err := f.provider.preflight(ctx, mustConnect(t, config, patient()), managedCluster()); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if slices.Contains(s.requested(), "GET "+kubeSystemPath) || strings.Contains(logs.String(), "cannot be rendered") {
			t.Errorf("requests: %v, logged: %s", s.requested(), logs)
		}
	})
}

func TestAnswerProblem(t *testing.T) {
	const none = time.Duration(0)
	cases := []struct {
		name       string
		code       int
		retryAfter string
		reason     Reason
		after      time.Duration
	}{
		{"throttled", 429, "7", ReasonServerFailed, 7 * time.Second},
		{"unavailable", 503, "42", ReasonServerFailed, 42 * time.Second},
		{"no time", 503, "", ReasonServerFailed, none},
		{"no time at all", 503, "0", ReasonServerFailed, none},
		{"past", 503, "-5", ReasonServerFailed, none},
		{"a date", 503, "Wed, 21 Oct 2015 07:28:00 GMT", ReasonServerFailed, none},
		{"a fraction", 503, "1.5", ReasonServerFailed, none},
		{"longer than the last retry", 503, "86400", ReasonServerFailed, lastRetry},
		{"longer than a duration can be", 429, "9223372036854775807", ReasonServerFailed, lastRetry},
		{"longer than a number can be", 429, "99999999999999999999", ReasonServerFailed, none},
		// A person must act, whatever the cluster asks for.
		{"unauthorized", 401, "7", ReasonUnauthorized, none},
		{"forbidden", 403, "7", ReasonForbidden, none},
		{"redirect", 302, "7", ReasonNotKubernetes, none},
		{"good", 200, "7", "", none},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := answerProblem(&http.Response{StatusCode: c.code, Header: http.Header{"Retry-After": {c.retryAfter}}})
			if p == nil {
				p = &problem{}
			}
			if p.reason != c.reason || p.after != c.after {
				t.Errorf("got %s after %s, want %s after %s", p.reason, p.after, c.reason, c.after)
			}
		})
	}
}

func TestDecodeObject(t *testing.T) {
	const notKubernetes = "the server does not answer like a Kubernetes API server"
	cases := []struct {
		name   string
		code   int
		body   string
		found  bool
		reason Reason // none: the answer is good
		detail string
	}{
		{name: "namespace", code: 200, body: namespaceJSON, found: true},
		{name: "no namespace", code: 404, body: notFoundJSON},
		{name: "HTML", code: 200, body: "<html>" + sentinel, reason: ReasonNotKubernetes, detail: notKubernetes},
		{name: "HTML of a proxy", code: 404, body: "<html>" + sentinel, reason: ReasonNotKubernetes, detail: notKubernetes},
		{name: "other JSON", code: 200, body: `{"kind":"` + sentinel + `"}`, reason: ReasonNotKubernetes, detail: notKubernetes},
		{name: "another type", code: 200, body: `{"kind":"Namespace","metadata":"` + sentinel + `"}`, reason: ReasonNotKubernetes, detail: notKubernetes},
		{name: "Status as a success", code: 200, body: notFoundJSON, reason: ReasonNotKubernetes, detail: notKubernetes},
		{name: "namespace not found", code: 404, body: namespaceJSON, reason: ReasonNotKubernetes, detail: notKubernetes},
		{name: "no content", code: 204, reason: ReasonNotKubernetes, detail: notKubernetes},
		{name: "bad request", code: 400, body: notFoundJSON, reason: ReasonNotKubernetes, detail: notKubernetes},
		{name: "unauthorized", code: 401, body: sentinel, reason: ReasonUnauthorized, detail: "the cluster's API server does not accept the credential"},
		{name: "forbidden", code: 403, body: sentinel, reason: ReasonForbidden, detail: "the credential may not do all that an import does"},
		{name: "throttled", code: 429, body: sentinel, reason: ReasonServerFailed, detail: "the cluster's API server throttles"},
		{name: "redirect", code: 302, body: sentinel, reason: ReasonNotKubernetes, detail: "the server redirects to another place, which is not followed"},
		{name: "error", code: 500, body: sentinel, reason: ReasonServerFailed, detail: "the cluster's API server answers with an error"},
		{name: "unavailable", code: 503, body: sentinel, reason: ReasonServerFailed, detail: "the cluster's API server answers with an error"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			found, err := decodeObject(&http.Response{StatusCode: c.code, Body: io.NopCloser(strings.NewReader(c.body))},
				"Namespace", &corev1.Namespace{})
			if found != c.found {
				t.Errorf("found is %t", found)
			}
			if c.reason == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			var p *problem
			if !errors.As(err, &p) || p.reason != c.reason || p.detail != c.detail {
				t.Errorf("got %#v, want %s: %s", err, c.reason, c.detail)
			}
		})
	}
}

// An API server answers 201 to a request that creates something, as an access review does.
func TestDecodeObjectThatIsCreated(t *testing.T) {
	var review authorizationv1.SelfSubjectAccessReview
	found, err := decodeObject(&http.Response{StatusCode: http.StatusCreated, Body: io.NopCloser(strings.NewReader(allowedJSON))},
		"SelfSubjectAccessReview", &review)
	if !found || err != nil || !review.Status.Allowed {
		t.Errorf("got %t, %v, %+v", found, err, review.Status)
	}
}
