// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

func TestConnectionDefaults(t *testing.T) {
	var o ConnectionOptions
	o.Default()
	want := ConnectionOptions{
		DialTimeout: DefaultDialTimeout, TLSHandshakeTimeout: DefaultTLSHandshakeTimeout,
		ResponseHeaderTimeout: DefaultResponseHeaderTimeout, RequestTimeout: DefaultRequestTimeout,
		ImportTimeout: DefaultImportTimeout, MaxResponseBytes: DefaultMaxResponseBytes, QPS: DefaultQPS, Burst: DefaultBurst,
	}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if err := o.Validate(); err != nil {
		t.Errorf("defaults are refused: %v", err)
	}
	set := ConnectionOptions{
		DialTimeout: 1, TLSHandshakeTimeout: 2, ResponseHeaderTimeout: 3, RequestTimeout: 4, ImportTimeout: 5,
		MaxResponseBytes: 6, QPS: 7, Burst: 8,
	}
	kept := set
	kept.Default()
	if diff := cmp.Diff(set, kept); diff != "" {
		t.Errorf("what is set is kept (-want +got):\n%s", diff)
	}
}

func TestConnectionValidate(t *testing.T) {
	cases := []struct {
		name string
		edit func(*ConnectionOptions)
		want string
	}{
		{"dial", func(o *ConnectionOptions) { o.DialTimeout = -1 }, "dial-timeout: must be above 0 and at most 10m0s, not -1ns"},
		{"tls", func(o *ConnectionOptions) { o.TLSHandshakeTimeout = -1 }, "tls-timeout: must be"},
		{"header", func(o *ConnectionOptions) { o.ResponseHeaderTimeout = -1 }, "header-timeout: must be"},
		{"request", func(o *ConnectionOptions) { o.RequestTimeout = maxTimeout + 1 }, "request-timeout: must be"},
		{"import", func(o *ConnectionOptions) { o.ImportTimeout = maxTimeout + 1 }, "import-timeout: must be"},
		{"size", func(o *ConnectionOptions) { o.MaxResponseBytes = -1 }, "max-response-bytes: must be above 0, not -1"},
		{"qps", func(o *ConnectionOptions) { o.QPS = -1 }, "api-qps: must be above 0, not -1"},
		{"burst", func(o *ConnectionOptions) { o.Burst = -1 }, "api-burst: must be above 0, not -1"},
		{"maximum", func(o *ConnectionOptions) { o.RequestTimeout = maxTimeout }, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var o ConnectionOptions
			o.Default()
			c.edit(&o)
			err := errors.Join(o.Validate()...)
			if c.want == "" {
				if err != nil {
					t.Errorf("got %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	var o ConnectionOptions
	if errs := o.Validate(); len(errs) != 8 {
		t.Errorf("not every field is named: %v", errs)
	}
}

// fullBacklog is a listener on loopback to which no further connection can be made.
func fullBacklog(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(
		syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
		syscall.Listen(fd, 0),
	); err != nil {
		t.Fatal(err)
	}
	address, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	tcp := net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: address.(*syscall.SockaddrInet4).Port}
	dialer := net.Dialer{Timeout: 200 * time.Millisecond}
	for range 8 {
		conn, err := dialer.DialContext(t.Context(), "tcp", tcp.String())
		if err != nil {
			return tcp.String()
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Skip("the backlog of a listener has no bound here")
	return ""
}

// Each case has one short bound. Without it, the context of the test would end the request with another error.
func TestBounds(t *testing.T) {
	const short = 100 * time.Millisecond
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	flood := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	}
	trickle := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = w.Write([]byte(" "))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(short / 10):
			}
		}
	}
	bomb := func(w http.ResponseWriter, _ *http.Request) {
		var compressed bytes.Buffer
		writer := gzip.NewWriter(&compressed)
		_, _ = io.Copy(writer, io.LimitReader(strings.NewReader(strings.Repeat(" ", 8<<20)), 8<<20))
		_ = writer.Close()
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(compressed.Bytes())
	}
	header := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Large", strings.Repeat("x", 2*maxResponseHeaderBytes))
		healthy(w, r)
	}
	breakOff := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, "{")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	serve := func(handler http.HandlerFunc) func(*testing.T) *rest.Config {
		return func(t *testing.T) *rest.Config {
			_, config := startSpoke(t, handler)
			return config
		}
	}
	at := func(address func(t *testing.T) string) func(*testing.T) *rest.Config {
		return func(t *testing.T) *rest.Config {
			return &rest.Config{Host: "https://" + address(t), TLSClientConfig: rest.TLSClientConfig{CAData: newAuthority(t).pem}}
		}
	}
	const bounds = "the cluster's API server does not answer within the bounds: "
	cases := []struct {
		name       string
		config     func(*testing.T) *rest.Config
		edit       func(*ConnectionOptions)
		wantReason Reason
		wantDetail string
	}{
		{
			name:       "dial",
			config:     at(fullBacklog),
			edit:       func(o *ConnectionOptions) { o.DialTimeout = short },
			wantReason: ReasonUnreachable,
			wantDetail: "no connection within the dial timeout",
		},
		{
			name:       "TLS handshake",
			config:     at(func(t *testing.T) string { return tcpListener(t, silent).Addr().String() }),
			edit:       func(o *ConnectionOptions) { o.TLSHandshakeTimeout = short },
			wantReason: ReasonUnreachable,
			wantDetail: "the connection is accepted, the TLS handshake does not finish within its timeout",
		},
		{
			name:       "TLS handshake, by the request's bound",
			config:     at(func(t *testing.T) string { return tcpListener(t, silent).Addr().String() }),
			edit:       func(o *ConnectionOptions) { o.RequestTimeout = short },
			wantReason: ReasonUnreachable,
			wantDetail: "the connection is accepted, the TLS handshake does not finish within its timeout",
		},
		{
			name:       "header",
			config:     serve(hang),
			edit:       func(o *ConnectionOptions) { o.ResponseHeaderTimeout = short },
			wantReason: ReasonUnreachable,
			wantDetail: "the connection is accepted, no answer comes within the timeout",
		},
		{
			name:       "header, by the request's bound",
			config:     serve(hang),
			edit:       func(o *ConnectionOptions) { o.RequestTimeout = short },
			wantReason: ReasonUnreachable,
			wantDetail: "the connection is accepted, no answer comes within the timeout",
		},
		{
			name:       "body that trickles",
			config:     serve(trickle),
			edit:       func(o *ConnectionOptions) { o.RequestTimeout = 3 * short },
			wantReason: ReasonUnreachable,
			wantDetail: "the connection is accepted, no answer comes within the timeout",
		},
		{
			name:       "all requests together, while one hangs",
			config:     serve(trickle),
			edit:       func(o *ConnectionOptions) { o.ImportTimeout = 3 * short },
			wantReason: ReasonServerFailed,
			wantDetail: "the cluster's API server does not answer within the bounds: the requests of this import took too long together",
		},
		{
			name:       "all requests together, before the next",
			config:     serve(healthy),
			edit:       func(o *ConnectionOptions) { o.ImportTimeout = time.Nanosecond },
			wantReason: ReasonServerFailed,
			wantDetail: bounds + "the requests of this import took too long together",
		},
		{
			name:       "size without end",
			config:     serve(flood),
			edit:       func(o *ConnectionOptions) { o.MaxResponseBytes = 1 << 20 },
			wantReason: ReasonServerFailed,
			wantDetail: bounds + "the answer is too large",
		},
		{
			name:       "size, decompressed",
			config:     serve(bomb),
			edit:       func(o *ConnectionOptions) { o.MaxResponseBytes = 1 << 20 },
			wantReason: ReasonServerFailed,
			wantDetail: bounds + "the answer is too large",
		},
		{
			name:       "size of the header",
			config:     serve(header),
			edit:       func(*ConnectionOptions) {},
			wantReason: ReasonUnreachable,
			wantDetail: "the connection is closed before the answer",
		},
		{
			name:       "body that breaks off",
			config:     serve(breakOff),
			edit:       func(*ConnectionOptions) {},
			wantReason: ReasonServerFailed,
			wantDetail: bounds + "the answer broke off",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, logs := testContext(t)
			config := c.config(t)
			err := preflight(ctx, t, mustConnect(t, config, patient(c.edit)))
			var p *problem
			if !errors.As(err, &p) {
				t.Fatalf("got %v", err)
			}
			if p.reason != c.wantReason || p.detail != c.wantDetail {
				t.Errorf("got %s: %s\nwant %s: %s\ncause: %v", p.reason, p.detail, c.wantReason, c.wantDetail, p.cause)
			}
			if reasonInfos[p.reason].retry != retryBackoff || p.after != 0 {
				t.Errorf("a cluster that may come back is not tried again by our back-off: %+v", p)
			}
			expectNoSecret(t, "problem", p.Error())
			expectNoSecret(t, "log", logs.String())
		})
	}
}

func TestSizeBoundIsExact(t *testing.T) {
	body := versionJSON + strings.Repeat(" ", 1000)
	_, config := startSpoke(t, apiServer(map[string]http.HandlerFunc{versionPath: answer(http.StatusOK, body)}))
	ctx, _ := testContext(t)
	size := int64(len(body))
	if err := preflight(ctx, t, mustConnect(t, config, patient(func(o *ConnectionOptions) { o.MaxResponseBytes = size }))); err != nil {
		t.Errorf("an answer of the size is refused: %v", err)
	}
	if err := preflight(ctx, t, mustConnect(t, config, patient(func(o *ConnectionOptions) { o.MaxResponseBytes = size - 1 }))); err == nil {
		t.Error("an answer one byte above the size is accepted")
	}
}

func TestCallerGivesUp(t *testing.T) {
	arrived := make(chan struct{})
	s, config := startSpoke(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case arrived <- struct{}{}:
			<-r.Context().Done()
		default:
			healthy(w, r)
		}
	})
	conn := mustConnect(t, config, patient())
	ctx, _ := testContext(t)
	cancelled, cancel := context.WithCancel(ctx)
	go func() {
		<-arrived
		cancel()
	}()
	err := preflight(cancelled, t, conn)
	if _, isProblem := errors.AsType[*problem](err); isProblem || !errors.Is(err, context.Canceled) || s.requestCount() != 1 {
		t.Errorf("got %v after %d requests", err, s.requestCount())
	}
	// That says nothing about the cluster: the requests of another caller are sent.
	if err := preflight(ctx, t, conn); err != nil || s.requestCount() != 1+len(preflightRequests) {
		t.Errorf("after that: %v, %d requests", err, s.requestCount())
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, code := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			target, _ := startSpoke(t, healthy)
			s, config := startSpoke(t, answer(code, "", "Location", target.URL+"/"+sentinel))
			ctx, logs := testContext(t)
			conn := mustConnect(t, config, patient())
			err := preflight(ctx, t, conn)
			if err == nil || !strings.HasPrefix(err.Error(), "NotKubernetes: the server redirects to another place, which is not followed") {
				t.Errorf("preflight: %v", err)
			}
			expectNoSecret(t, "log", logs.String())
			clients, err := conn.clients()
			if err != nil {
				t.Fatal(err)
			}
			_, err = clients.KubeClient.CoreV1().Namespaces().Get(ctx, "x", metav1.GetOptions{})
			if err == nil {
				t.Fatal("a client takes a redirect for an answer")
			}
			expectNoSecret(t, "error", err.Error())
			if target.requestCount() != 0 || target.connectionCount() != 0 {
				t.Errorf("the target of the redirect got %d requests", target.requestCount())
			}
			if s.requestCount() != 2 {
				t.Errorf("the server got %d requests, want 2", s.requestCount())
			}
		})
	}
}

// proxyHits counts the connections to the proxy that the environment of all tests names.
var proxyHits atomic.Int32

// TestMain sets the proxies of the environment. net/http reads them once in a process, so that no test can.
func TestMain(m *testing.M) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			proxyHits.Add(1)
			_ = conn.Close()
		}
	}()
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		_ = os.Setenv(name, "http://"+listener.Addr().String())
	}
	_ = os.Unsetenv("NO_PROXY")
	_ = os.Unsetenv("no_proxy")
	systemCA, err := trustTestCertificate()
	if err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.Remove(systemCA)
	os.Exit(code)
}

// trustTestCertificate makes the system trust the certificate of servers of package httptest, which crypto/x509 reads once.
func trustTestCertificate() (file string, err error) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	f, err := os.CreateTemp("", "ca-*.pem")
	if err != nil {
		return "", err
	}
	return f.Name(), errors.Join(
		pem.Encode(f, &pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), f.Close(), os.Setenv("SSL_CERT_FILE", f.Name()))
}

func TestProxiesOfTheEnvironmentAreIgnored(t *testing.T) {
	_, config := startSpoke(t, healthy)
	// net/http never uses a proxy for 127.0.0.1; this address leads to the same listener.
	config.Host = strings.Replace(config.Host, "127.0.0.1", "0.0.0.0", 1)
	ctx, _ := testContext(t)
	if err := preflight(ctx, t, mustConnect(t, config, patient())); err != nil {
		t.Errorf("preflight: %v", err)
	}
	if hits := proxyHits.Load(); hits != 0 {
		t.Errorf("the proxy of the environment got %d connections", hits)
	}
}

func TestCredentialIsSent(t *testing.T) {
	s, config := startSpoke(t, healthy)
	ctx, _ := testContext(t)
	if err := preflight(ctx, t, mustConnect(t, config, patient())); err != nil {
		t.Fatal(err)
	}
	for _, request := range s.requests {
		if got := request.Header.Get("Authorization"); got != "Bearer "+testToken {
			t.Errorf("Authorization of %s is %q", request.URL.Path, got)
		}
		if got := request.Header.Get("User-Agent"); got != userAgent {
			t.Errorf("User-Agent of %s is %q", request.URL.Path, got)
		}
	}
}

func TestPreflightKeepsThePathOfTheServer(t *testing.T) {
	const path = "/k8s/clusters/c-1"
	s, config := startSpoke(t, http.StripPrefix(path, healthy).ServeHTTP)
	config.Host += path
	ctx, _ := testContext(t)
	if err := preflight(ctx, t, mustConnect(t, config, patient())); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, request := range preflightRequests {
		want = append(want, strings.Replace(request, " ", " "+path, 1))
	}
	if diff := cmp.Diff(want, s.requested()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// useAllClients sends one request with each of the importer's clients.
func useAllClients(ctx context.Context, t testing.TB, conn *connection) []error {
	t.Helper()
	clients, err := conn.clients()
	if err != nil {
		t.Fatal(err)
	}
	var errs []error
	add := func(err error) { errs = append(errs, err) }
	_, err = clients.KubeClient.CoreV1().Namespaces().Get(ctx, "x", metav1.GetOptions{})
	add(err)
	_, err = clients.APIExtClient.ApiextensionsV1().CustomResourceDefinitions().Get(ctx, "x", metav1.GetOptions{})
	add(err)
	_, err = clients.OperatorClient.OperatorV1().Klusterlets().Get(ctx, "x", metav1.GetOptions{})
	add(err)
	_, err = clients.DynamicClient.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).
		Namespace("x").Get(ctx, "x", metav1.GetOptions{})
	add(err)
	return errs
}

func TestOneConnectionForAllClients(t *testing.T) {
	for _, http2 := range []bool{true, false} {
		s, config := startSpoke(t, healthy, func(server *httptest.Server) { server.EnableHTTP2 = http2 })
		ctx, _ := testContext(t)
		conn := mustConnect(t, config, patient())
		if err := preflight(ctx, t, conn); err != nil {
			t.Fatal(err)
		}
		for _, err := range useAllClients(ctx, t, conn) {
			if !apierrors.IsNotFound(err) {
				t.Errorf("got %v", err)
			}
		}
		if want := len(preflightRequests) + 4; s.requestCount() != want || s.connectionCount() != 1 {
			t.Errorf("HTTP/2 %t: %d requests by %d connections, want %d by 1", http2, s.requestCount(), s.connectionCount(), want)
		}
	}
}

// The importer's clients wait for nobody; the preflight has the time of the next attempt from it.
func TestRetryAfterDoesNotHoldTheClients(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusInternalServerError} {
		s, config := startSpoke(t, answer(code, "{}", "Retry-After", "30"))
		ctx, _ := testContext(t)
		clients, err := mustConnect(t, config, patient()).clients()
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		_, err = clients.KubeClient.CoreV1().Namespaces().Get(ctx, "x", metav1.GetOptions{})
		if err == nil || errors.Is(err, context.DeadlineExceeded) || time.Since(start) > giveUp/2 {
			t.Errorf("%d: got %v after %s", code, err, time.Since(start))
		}
		if seconds, ok := apierrors.SuggestsClientDelay(err); ok {
			t.Errorf("%d: the error lets the cluster ask for a delay of %d s", code, seconds)
		}
		if s.requestCount() != 1 {
			t.Errorf("%d: sent %d times", code, s.requestCount())
		}
	}
}

func TestOwnClientsDoNotThrottle(t *testing.T) {
	const requests = 60
	_, config := startSpoke(t, healthy)
	ctx, _ := testContext(t)
	clients, err := mustConnect(t, config, patient()).clients()
	if err != nil {
		t.Fatal(err)
	}
	for name, client := range map[string]rest.Interface{
		"Kubernetes":     clients.KubeClient.CoreV1().RESTClient(),
		"API extensions": clients.APIExtClient.ApiextensionsV1().RESTClient(),
		"operator":       clients.OperatorClient.OperatorV1().RESTClient(),
	} {
		for i := range requests {
			if limiter := client.GetRateLimiter(); limiter != nil && !limiter.TryAccept() {
				t.Fatalf("%s client holds back request %d", name, i+1)
			}
		}
	}
	// The dynamic client does not show its limiter. client-go's default, 5 a second after 10, takes 10 s.
	ctx, cancel := context.WithTimeout(ctx, 8*time.Second)
	defer cancel()
	configMaps := clients.DynamicClient.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"})
	for i := range requests {
		if _, err := configMaps.Namespace("x").Get(ctx, "x", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Fatalf("request %d: %v", i+1, err)
		}
	}
}

func TestAfterAFailureNoRequestIsSent(t *testing.T) {
	var connections atomic.Int32
	listener := tcpListener(t, func(conn net.Conn) {
		connections.Add(1)
		_ = conn.Close()
	})
	config := &rest.Config{Host: "https://" + listener.Addr().String(), TLSClientConfig: rest.TLSClientConfig{CAData: newAuthority(t).pem}}
	ctx, _ := testContext(t)
	conn := mustConnect(t, config, patient())
	first := useAllClients(ctx, t, conn)
	made := connections.Load()
	if made == 0 {
		t.Fatal("the first request made no connection")
	}
	second := useAllClients(ctx, t, conn)
	if connections.Load() != made || made > 1 {
		t.Errorf("%d connections after the first, %d in all", connections.Load()-1, connections.Load())
	}
	for _, err := range append(first, second...) {
		if !apierrors.IsServiceUnavailable(err) || err.Error() != first[0].Error() {
			t.Errorf("got %v, want %v", err, first[0])
		}
	}
	if err := preflight(ctx, t, conn); err == nil {
		t.Error("the preflight sends a request after a failure")
	}
}

func TestConnectDoesNotChangeItsInput(t *testing.T) {
	_, config := startSpoke(t, healthy)
	before := rest.CopyConfig(config)
	mustConnect(t, config, patient())
	if diff := cmp.Diff(before.String(), config.String()); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

func TestConnectQuotesNothing(t *testing.T) {
	certPEM, _ := newAuthority(t).issue(t)
	for name, config := range map[string]*rest.Config{
		"key": {Host: "https://127.0.0.1", TLSClientConfig: rest.TLSClientConfig{CertData: certPEM, KeyData: []byte(sentinel)}},
		"CA":  {Host: "https://127.0.0.1", TLSClientConfig: rest.TLSClientConfig{CAData: []byte(sentinel)}},
		"two credentials": {
			Host: "https://127.0.0.1", BearerToken: testToken, Username: sentinel, Password: sentinel,
		},
	} {
		_, err := connect(config, patient(), loopbackPolicy())
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		expectNoSecret(t, name, err.Error())
	}
}
