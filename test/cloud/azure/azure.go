// Copyright Contributors to the Open Cluster Management project

// Package azure is a stand-in for Azure in tests: Microsoft Entra ID, Azure Resource Manager and the metadata service of virtual
// machines, which gives tokens to managed identities. Each checks what it is sent field by field, and records it.
//
//	cloud := azure.New(t)
//	cloud.AddIdentity(azure.Identity{ClientID: …, TenantID: …, Assertion: …})
//	cloud.AddCluster(azure.Cluster{Subscription: …, ResourceGroup: …, Name: …, Server: …, CA: …})
//
// Code under test reaches it in one of two ways: by Client, for which the addresses of all of Azure's clouds lead here; or by
// Authority and ResourceManager, which are addresses of this machine, with CA as what verifies them.
package azure

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"
)

// Services, as Request has them.
const (
	Entra           = "entra"
	ResourceManager = "resource-manager"
	Metadata        = "metadata"
)

// KubernetesServer is the application that tokens for Azure Kubernetes Service are for.
const KubernetesServer = "6dae42f8-4368-4678-94ff-3960e28e3630"

// pageSize is how many clusters a page of Azure Resource Manager has: few, so that there are several.
const pageSize = 2

// metadataAddress is that of the metadata service, which is fixed.
const metadataAddress = "169.254.169.254:80"

func authorities() []string {
	return []string{"login.microsoftonline.com", "login.microsoftonline.us", "login.chinacloudapi.cn"}
}

func managers() []string {
	return []string{"management.azure.com", "management.usgovcloudapi.net", "management.chinacloudapi.cn"}
}

// managerAudiences are what tokens for Azure Resource Manager are for.
func managerAudiences() []string {
	return []string{"https://management.core.windows.net/", "https://management.core.usgovcloudapi.net", "https://management.core.chinacloudapi.cn"}
}

// Identity is an application or a managed identity.
type Identity struct {
	ClientID string
	// TenantID is the tenant in which it gets tokens by its assertion.
	TenantID string
	// Assertion is the token that its federated credential accepts. Without one it is a managed identity.
	Assertion string
	// System makes a managed identity the one of the machine, which is asked for without a client ID.
	System bool
}

// Cluster is a cluster of Azure Kubernetes Service.
type Cluster struct {
	Subscription, ResourceGroup, Name string
	// Server is the address in the kubeconfig for users.
	Server string
	// CA is in PEM form.
	CA []byte
	// FQDN, PrivateFQDN and PortalFQDN are the names in its properties. Default: one, that of the server, with a port that is not 443.
	FQDN, PrivateFQDN, PortalFQDN string
	// ProvisioningState is Succeeded by default, PowerState is Running.
	ProvisioningState, PowerState string
	// WithoutEntra has a client certificate in the kubeconfig.
	WithoutEntra bool
	// Kubeconfig is what users get. Default: one with an exec stanza for kubelogin.
	Kubeconfig []byte
	// Readers are the client IDs of those who may read it. Default: everyone.
	Readers []string
}

// Token is one that was issued.
type Token struct {
	Value, ClientID, TenantID, Audience string
	Expiry                              time.Time
}

// Request is one that was received.
type Request struct {
	// Service is Entra, ResourceManager or Metadata.
	Service string
	Method  string
	// Host is the one that was asked for, with a port that is not 443.
	Host   string
	Path   string
	Query  url.Values
	Form   url.Values
	Header http.Header
}

// Answer is one that replaces the usual.
type Answer struct {
	Status int
	Header map[string]string
	Body   string
}

// Cloud is a running stand-in.
type Cloud struct {
	// Authority and ResourceManager are the addresses of the services, https://127.0.0.1:port.
	Authority, ResourceManager string
	// CA verifies both, in PEM form.
	CA []byte

	addresses map[string]string // listeners by the address that they stand for
	roots     *x509.CertPool

	lock       sync.Mutex // guards what follows
	identities []Identity
	clusters   []Cluster
	tokens     []Token
	requests   []Request
	lifetime   time.Duration
	fault      func(Request) *Answer
}

// New starts a stand-in, which stops with the test.
func New(tb testing.TB) *Cloud {
	tb.Helper()
	c := &Cloud{lifetime: time.Hour, addresses: map[string]string{}, roots: x509.NewCertPool()}
	certificate := newCertificate(tb, append(authorities(), managers()...))
	c.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
	c.roots.AppendCertsFromPEM(c.CA)
	start := func(service string, encrypted bool, handle func(http.ResponseWriter, Request), hosts ...string) string {
		server := httptest.NewUnstartedServer(c.recorded(service, handle))
		if encrypted {
			server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
			server.StartTLS()
		} else {
			server.Start()
		}
		tb.Cleanup(server.Close)
		for _, host := range hosts {
			c.addresses[host] = server.Listener.Addr().String()
		}
		return server.URL
	}
	withPort := func(hosts []string) (addresses []string) {
		for _, host := range hosts {
			addresses = append(addresses, net.JoinHostPort(host, "443"))
		}
		return addresses
	}
	c.Authority = start(Entra, true, c.serveEntra, withPort(authorities())...)
	c.ResourceManager = start(ResourceManager, true, c.serveResourceManager, withPort(managers())...)
	start(Metadata, false, c.serveMetadata, metadataAddress)
	return c
}

// newCertificate returns a certificate that verifies itself, for names and the loopback interface.
func newCertificate(tb testing.TB, names []string) tls.Certificate {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "stand-in for Azure"}, NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, DNSNames: names, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// Client returns a client for which the addresses of Azure's clouds and that of the metadata service lead here. It reaches no
// other machine.
func (c *Cloud) Client() *http.Client {
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if here, known := c.addresses[address]; known {
				address = here
			}
			if host, _, err := net.SplitHostPort(address); err != nil || host != "127.0.0.1" {
				return nil, &net.DNSError{Err: "no such host", Name: address, IsNotFound: true}
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
		TLSClientConfig: &tls.Config{RootCAs: c.roots, MinVersion: tls.VersionTLS12},
	}
	return &http.Client{
		Transport: transport, Timeout: 10 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// AddIdentity adds an identity.
func (c *Cloud) AddIdentity(identity Identity) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.identities = append(c.identities, identity)
}

// AddCluster adds a cluster, or replaces that of the same subscription, resource group and name.
func (c *Cloud) AddCluster(cluster Cluster) {
	if cluster.FQDN == "" && cluster.PrivateFQDN == "" {
		if u, err := url.Parse(cluster.Server); err == nil {
			if cluster.FQDN = u.Host; u.Port() == "443" {
				cluster.FQDN = u.Hostname()
			}
		}
	}
	if cluster.ProvisioningState == "" {
		cluster.ProvisioningState = "Succeeded"
	}
	if cluster.PowerState == "" {
		cluster.PowerState = "Running"
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.clusters = slices.DeleteFunc(c.clusters, func(old Cluster) bool { return old.path() == cluster.path() })
	c.clusters = append(c.clusters, cluster)
}

// SetLifetime sets how long tokens are valid. Default: one hour.
func (c *Cloud) SetLifetime(lifetime time.Duration) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.lifetime = lifetime
}

// SetFault makes requests fail for which fault returns an answer; nil is for none.
func (c *Cloud) SetFault(fault func(Request) *Answer) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.fault = fault
}

// Requests returns the requests to some services, by default to all, in their order.
func (c *Cloud) Requests(services ...string) []Request {
	c.lock.Lock()
	defer c.lock.Unlock()
	return slices.DeleteFunc(slices.Clone(c.requests), func(r Request) bool {
		return len(services) > 0 && !slices.Contains(services, r.Service)
	})
}

// Tokens returns the tokens that were issued for some audiences, by default for all, in their order.
func (c *Cloud) Tokens(audiences ...string) []Token {
	c.lock.Lock()
	defer c.lock.Unlock()
	return slices.DeleteFunc(slices.Clone(c.tokens), func(t Token) bool {
		return len(audiences) > 0 && !slices.Contains(audiences, t.Audience)
	})
}

// recorded records a request, and answers it unless there is a fault for it.
func (c *Cloud) recorded(service string, handle func(http.ResponseWriter, Request)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return
		}
		form, err := url.ParseQuery(string(body))
		if err != nil {
			form = nil
		}
		request := Request{Service: service, Method: r.Method, Host: r.Host, Path: r.URL.Path, Query: r.URL.Query(), Form: form, Header: r.Header.Clone()}
		c.lock.Lock()
		c.requests = append(c.requests, request)
		fault := c.fault
		c.lock.Unlock()
		if fault != nil {
			if answer := fault(request); answer != nil {
				for name, value := range answer.Header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(answer.Status)
				_, _ = io.WriteString(w, answer.Body)
				return
			}
		}
		handle(w, request)
	})
}

// issue makes a token; c.lock must not be held.
func (c *Cloud) issue(identity Identity, audience string) Token {
	random := make([]byte, 16)
	_, _ = rand.Read(random)
	c.lock.Lock()
	defer c.lock.Unlock()
	token := Token{
		Value: "opaque-" + hex.EncodeToString(random), ClientID: identity.ClientID, TenantID: identity.TenantID,
		Audience: audience, Expiry: time.Now().Add(c.lifetime),
	}
	c.tokens = append(c.tokens, token)
	return token
}

// identity finds one that is a managed identity or is not; c.lock must not be held.
func (c *Cloud) identity(matches func(Identity) bool) (Identity, bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	at := slices.IndexFunc(c.identities, matches)
	if at < 0 {
		return Identity{}, false
	}
	return c.identities[at], true
}

func reply(w http.ResponseWriter, status int, body any) {
	var buffer bytes.Buffer
	if err := json.NewEncoder(&buffer).Encode(body); err != nil {
		panic(err) // it holds what this package put there.
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(buffer.Bytes())
}
