// Copyright Contributors to the Open Cluster Management project

package integration

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/test/harness"
)

// preflightPath is that of the first request that a cluster gets.
const preflightPath = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"

// fakeServer is a TLS server that does what no API server would.
type fakeServer struct {
	server   *httptest.Server
	requests atomic.Int32
	// done is closed when the server stops, for handlers that never answer.
	done chan struct{}
}

// newFakeServer starts a server that ends with the spec, or the container of a BeforeAll.
func newFakeServer(handler http.HandlerFunc) *fakeServer {
	GinkgoHelper()
	return newFakeServerWithCertificate(handler, nil)
}

func newFakeServerWithCertificate(handler http.HandlerFunc, certificate *tls.Certificate) *fakeServer {
	GinkgoHelper()
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if certificate != nil {
		config.Certificates = []tls.Certificate{*certificate}
	}
	return newFakeServerWithTLS(handler, config)
}

func newFakeServerWithTLS(handler http.HandlerFunc, config *tls.Config) *fakeServer {
	GinkgoHelper()
	f := &fakeServer{done: make(chan struct{})}
	f.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.requests.Add(1)
		handler(w, r)
	}))
	f.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	f.server.TLS = config
	f.server.StartTLS()
	DeferCleanup(func() {
		close(f.done)
		f.server.CloseClientConnections()
		f.server.Close()
	})
	return f
}

// plainServer is an HTTP server without TLS.
func plainServer() *httptest.Server {
	GinkgoHelper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, "{}")
	}))
	DeferCleanup(server.Close)
	return server
}

func (f *fakeServer) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
}

func (f *fakeServer) kubeconfig() []byte {
	return harness.TokenKubeconfig(f.server.URL, f.ca(), sentinel)
}

// hang holds a request until the client or the server goes.
func (f *fakeServer) hang(r *http.Request) {
	select {
	case <-r.Context().Done():
	case <-f.done:
	}
}

func respond(w http.ResponseWriter, code int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}

const notFoundStatus = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,"message":"not found"}`

// mayAnything is the answer to the first request for an administrator.
const mayAnything = `{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","status":{"allowed":true}}`

// kubeSystem is the namespace by which a cluster is known.
func kubeSystem(uid string) string {
	return fmt.Sprintf(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":"kube-system","uid":%q}}`, uid)
}

// afterPreflight answers what comes before an import as a fresh API server does to an administrator, and leaves all else
// to next.
func afterPreflight(next http.HandlerFunc) http.HandlerFunc {
	uid := newName("uid")
	return func(w http.ResponseWriter, r *http.Request) {
		switch r.Method + " " + r.URL.Path {
		case "POST " + preflightPath:
			respond(w, http.StatusCreated, mayAnything)
		case "GET /version":
			respond(w, http.StatusOK, `{"major":"1","minor":"34","gitVersion":"v1.34.4"}`)
		case "GET /api/v1/namespaces/kube-system":
			respond(w, http.StatusOK, kubeSystem(uid))
		case "GET /api/v1/namespaces/" + agentNamespace,
			"GET /apis/operator.open-cluster-management.io/v1/klusterlets/" + klusterletName,
			"GET /apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + klusterletCRD:
			respond(w, http.StatusNotFound, notFoundStatus)
		default:
			next(w, r)
		}
	}
}

// answerVersion passes for a cluster of a Kubernetes version.
func answerVersion(version string) http.HandlerFunc {
	later := afterPreflight(answerStatus(http.StatusForbidden))
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/version" {
			respond(w, http.StatusOK, fmt.Sprintf(`{"gitVersion":%q}`, version))
			return
		}
		later(w, r)
	}
}

// inFront is a proxy to a cluster that is asked as its administrator, whoever asks.
func inFront(spoke *spokeCluster) *httputil.ReverseProxy {
	GinkgoHelper()
	transport, err := rest.TransportFor(spoke.Config())
	Expect(err).NotTo(HaveOccurred())
	target, err := url.Parse(spoke.URL())
	Expect(err).NotTo(HaveOccurred())
	return &httputil.ReverseProxy{Transport: transport, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Header.Del("Authorization")
	}}
}

// asAnotherCluster is a server in front of a cluster that passes for another: it has a UID of its own.
func asAnotherCluster(spoke *spokeCluster, uid string) *fakeServer {
	GinkgoHelper()
	proxy := inFront(spoke)
	return newFakeServer(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/namespaces/kube-system" {
			respond(w, http.StatusOK, kubeSystem(uid))
			return
		}
		proxy.ServeHTTP(w, r)
	})
}

// listenTCP accepts connections and never says anything. It returns the address.
func listenTCP(ctx context.Context) string {
	GinkgoHelper()
	return listenTCPFunc(ctx, func() {})
}

// listenTCPFunc is listenTCP that calls accepted at the first connection.
func listenTCPFunc(ctx context.Context, accepted func()) string {
	GinkgoHelper()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	var lock sync.Mutex
	var open []net.Conn
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			lock.Lock()
			if len(open) == 0 {
				accepted()
			}
			open = append(open, conn)
			lock.Unlock()
		}
	}()
	DeferCleanup(func() {
		_ = listener.Close()
		lock.Lock()
		defer lock.Unlock()
		for _, conn := range open {
			_ = conn.Close()
		}
	})
	return listener.Addr().String()
}

// proxyTCP forwards connections to a server and returns its own URL. accepted is called at each connection.
func proxyTCP(ctx context.Context, server string, accepted func()) string {
	GinkgoHelper()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(listener.Close)
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			accepted()
			go forward(client, strings.TrimPrefix(server, "https://"))
		}
	}()
	return "https://" + listener.Addr().String()
}

// forward copies both ways until one side ends.
func forward(client net.Conn, address string) {
	defer func() { _ = client.Close() }()
	server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", address)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	done := make(chan struct{}, 2)
	for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
		go func() {
			_, _ = io.Copy(to, from)
			done <- struct{}{}
		}()
	}
	<-done
}

// closedPort is an address at which nobody listens: the port is taken, so that nobody else on the machine gets it either.
func closedPort() string {
	GinkgoHelper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(syscall.Close(fd)).To(Succeed()) })
	Expect(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})).To(Succeed())
	address, err := syscall.Getsockname(fd)
	Expect(err).NotTo(HaveOccurred())
	bound, ok := address.(*syscall.SockaddrInet4)
	Expect(ok).To(BeTrue())
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(bound.Port))
}

// servingCertificate is self-signed, for the given name or IP address.
func servingCertificate(name string, notBefore, notAfter time.Time) *tls.Certificate {
	GinkgoHelper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	Expect(err).NotTo(HaveOccurred())
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "fake"},
		NotBefore: notBefore, NotAfter: notAfter,
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(name); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{name}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	Expect(err).NotTo(HaveOccurred())
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// gzipBomb is size bytes of JSON white space in about a thousandth of that.
func gzipBomb(size int) []byte {
	GinkgoHelper()
	var bomb bytes.Buffer
	writer := gzip.NewWriter(&bomb)
	chunk := bytes.Repeat([]byte(" "), 1<<20)
	for range size / len(chunk) {
		_, err := writer.Write(chunk)
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(writer.Close()).To(Succeed())
	return bomb.Bytes()
}

// echo is what a hostile server got, for all the ways to send it back.
func echo(r *http.Request) string {
	return fmt.Sprintf("you sent %s", r.Header.Get("Authorization"))
}
