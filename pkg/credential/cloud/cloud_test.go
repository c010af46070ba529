// Copyright Contributors to the Open Cluster Management project

package cloud_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/cloud"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
)

func newCA(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func TestBinding(t *testing.T) {
	ca, other := newCA(t), newCA(t)
	endpoint := cloud.Endpoint{
		Servers: []string{"https://a.example.com", "https://192.0.2.1:6443"}, CA: ca, PublicServers: []string{"https://c.example.com"},
	}
	public := func(edit func(c *rest.Config)) func(c *rest.Config) {
		return func(c *rest.Config) {
			c.Host, c.CAData = endpoint.PublicServers[0], nil
			edit(c)
		}
	}
	cases := map[string]struct {
		edit func(c *rest.Config)
		good bool
	}{
		"public":                       {public(func(*rest.Config) {}), true},
		"public, in another form":      {public(func(c *rest.Config) { c.Host = "https://C.Example.COM.:443/" }), true},
		"public, no bytes of a CA":     {public(func(c *rest.Config) { c.CAData = []byte{} }), true},
		"public, the CA of the others": {public(func(c *rest.Config) { c.CAData = ca }), false},
		"public, another CA":           {public(func(c *rest.Config) { c.CAData = other }), false},
		"public, a strange CA":         {public(func(c *rest.Config) { c.CAData = []byte("x") }), false},
		"public, another host":         {public(func(c *rest.Config) { c.Host = "https://c.example.com.evil.example.com" }), false},
		"public, a host below":         {public(func(c *rest.Config) { c.Host = "https://x.c.example.com" }), false},
		"public, another port":         {public(func(c *rest.Config) { c.Host += ":6443" }), false},
		"public, another path":         {public(func(c *rest.Config) { c.Host += "/x" }), false},
		"public, no verification":      {public(func(c *rest.Config) { c.Insecure = true }), false},
		"public, another TLS name":     {public(func(c *rest.Config) { c.ServerName = "evil.example.com" }), false},
		"second, no CA":                {public(func(c *rest.Config) { c.Host = endpoint.Servers[1] }), false},
		"first":                        {func(c *rest.Config) { c.Host = "https://a.example.com" }, true},
		"second":                       {func(c *rest.Config) { c.Host = "https://192.0.2.1:6443" }, true},
		"default port":                 {func(c *rest.Config) { c.Host = "https://A.example.com:443/" }, true},
		"another host":                 {func(c *rest.Config) { c.Host = "https://b.example.com" }, false},
		"another port":                 {func(c *rest.Config) { c.Host = "https://a.example.com:6443" }, false},
		"another path":                 {func(c *rest.Config) { c.Host = "https://a.example.com/x" }, false},
		"http":                         {func(c *rest.Config) { c.Host = "http://a.example.com" }, false},
		"nothing":                      {func(c *rest.Config) { c.Host = "" }, false},
		"another CA":                   {func(c *rest.Config) { c.CAData = other }, false},
		"a CA more":                    {func(c *rest.Config) { c.CAData = append(append([]byte{}, ca...), other...) }, false},
		"no CA":                        {func(c *rest.Config) { c.CAData = nil }, false},
		"no verification":              {func(c *rest.Config) { c.Insecure = true }, false},
		"another TLS name":             {func(c *rest.Config) { c.ServerName = "a.example.com" }, false},
	}
	for name, c := range cases {
		config := &rest.Config{Host: endpoint.Servers[0], TLSClientConfig: rest.TLSClientConfig{CAData: ca}}
		c.edit(config)
		if err := endpoint.Binding(config); (err == nil) != c.good || err != nil && !errors.Is(err, cloud.ErrOtherEndpoint) && !errors.Is(err, cloud.ErrNoCA) {
			t.Errorf("%s: %v", name, err)
		} else if errors.Is(err, cloud.ErrNoCA) && (len(config.CAData) > 0 || config.Insecure) {
			t.Errorf("%s: there is a CA, or no need of one: %v", name, err)
		}
	}
	if !credential.IsDenied(cloud.ErrOtherEndpoint) || !credential.IsDenied(cloud.ErrNoCA) {
		t.Error("an error is no DeniedError")
	}
	empty := &rest.Config{Host: "https://a.example.com"}
	if (cloud.Endpoint{Servers: []string{empty.Host}}).Binding(empty) == nil {
		t.Error("no CA is taken for the same CA")
	}
}

func TestConfig(t *testing.T) {
	ca := newCA(t)
	endpoint := cloud.Endpoint{Servers: []string{"https://a.example.com", "https://b.example.com"}, CA: ca}
	config, err := endpoint.Config()
	if err != nil || config.Host != endpoint.Servers[0] || endpoint.Binding(config) != nil {
		t.Fatalf("got %v, %v", config, err)
	}
	clear(config.CAData)
	if !bytes.Equal(endpoint.CA, ca) || bytes.Equal(config.CAData, ca) {
		t.Error("the config shares memory with the endpoint")
	}
	endpoint.PublicServers = []string{"https://c.example.com"}
	if config, err := endpoint.Config(); err != nil || config.Host != endpoint.Servers[0] {
		t.Errorf("a public server is used before another: %v, %v", config, err)
	}
	public := cloud.Endpoint{PublicServers: endpoint.PublicServers}
	if config, err := public.Config(); err != nil || config.Host != public.PublicServers[0] || public.Binding(config) != nil {
		t.Errorf("got %v, %v", config, err)
	}
	for name, endpoint := range map[string]cloud.Endpoint{
		"nothing": {}, "no server": {CA: ca}, "empty server": {Servers: []string{""}, CA: ca}, "no CA": {Servers: []string{"https://a"}},
		"no CA, and a public server": {Servers: []string{"https://a"}, PublicServers: public.PublicServers},
	} {
		if _, err := endpoint.Config(); !credential.IsMintFailed(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWithTokens(t *testing.T) {
	request := credential.Request{Secret: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{UID: "uid", ResourceVersion: "1"}}}
	cache := tokensource.NewCache(tokensource.Options{})
	config := &rest.Config{Host: "https://a.example.com", TLSClientConfig: rest.TLSClientConfig{CAData: newCA(t)}}
	before := string(config.CAData)
	minted := 0
	source := cache.Source(cloud.Key("x", request, config, "p"), func(context.Context) (tokensource.Token, error) {
		minted++
		return tokensource.Token{Value: "token"}, nil
	})
	with, err := cloud.WithTokens(t.Context(), config, source)
	if err != nil || minted != 1 {
		t.Fatalf("%v, %d tokens", err, minted)
	}
	if with == config || config.WrapTransport != nil || with.WrapTransport == nil {
		t.Error("the config was changed")
	}
	clear(with.CAData)
	if string(config.CAData) != before {
		t.Error("the copy shares memory with the config")
	}
	broken := cache.Source(cloud.Key("x", request, config, "q"), func(context.Context) (tokensource.Token, error) {
		return tokensource.Token{}, credential.MintFailed(errors.New("no"))
	})
	if with, err := cloud.WithTokens(t.Context(), config, broken); with != nil || !credential.IsMintFailed(err) {
		t.Errorf("got %v, %v", with, err)
	}
}

// TestKey: tokens of whatever differs are not shared.
func TestKey(t *testing.T) {
	newRequest := func(uid, version string) credential.Request {
		secret := &corev1.Secret{}
		secret.UID, secret.ResourceVersion = "uid", version
		if uid != "" {
			secret.UID = "other"
		}
		return credential.Request{Secret: secret}
	}
	config := func(host string, ca string) *rest.Config {
		return &rest.Config{Host: host, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(ca)}}
	}
	base := cloud.Key("eks", newRequest("", "1"), config("https://a", "ca"), "p")
	if base != cloud.Key("eks", newRequest("", "1"), config("https://a", "ca"), "p") {
		t.Error("the same has two keys")
	}
	for name, key := range map[string]tokensource.Key{
		"resolver": cloud.Key("gke", newRequest("", "1"), config("https://a", "ca"), "p"),
		"secret":   cloud.Key("eks", newRequest("other", "1"), config("https://a", "ca"), "p"),
		"version":  cloud.Key("eks", newRequest("", "2"), config("https://a", "ca"), "p"),
		"server":   cloud.Key("eks", newRequest("", "1"), config("https://b", "ca"), "p"),
		"CA":       cloud.Key("eks", newRequest("", "1"), config("https://a", "cb"), "p"),
		"rest":     cloud.Key("eks", newRequest("", "1"), config("https://a", "ca"), "q"),
	} {
		if key == base {
			t.Errorf("another %s has the same key", name)
		}
	}
}

func TestDefault(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Unix(1, 0))
	o := cloud.Options{Clock: now, Getenv: func(string) string { return "mine" }}
	o.Default()
	if !o.Clock.Now().Equal(now.Now()) || o.Getenv("PATH") != "mine" || o.HTTPClient.Timeout != 15*time.Second {
		t.Error("what is set is not kept, or the client has no time limit")
	}
	t.Setenv("IMPORT_TEST", "set")
	o = cloud.Options{}
	o.Default()
	if o.Getenv("IMPORT_TEST") != "set" || time.Since(o.Clock.Now()) > time.Minute {
		t.Error("the environment or the clock is another")
	}
}

// TestHTTPClient: a client that is given is bounded too, and not changed.
func TestHTTPClient(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.Redirect(w, r, elsewhere.URL, http.StatusFound)
		case "/long":
			_, _ = io.WriteString(w, strings.Repeat("x", cloud.MaxResponseBytes+1))
		default:
			_, _ = io.WriteString(w, strings.Repeat("x", cloud.MaxResponseBytes))
		}
	}))
	defer server.Close()
	given := &http.Client{}
	for name, client := range map[string]*http.Client{"default": nil, "given": given, "given with a transport": server.Client()} {
		o := cloud.Options{HTTPClient: client}
		o.Default()
		get := func(path string) (int, int, error) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := o.HTTPClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			data, err := io.ReadAll(resp.Body)
			return resp.StatusCode, len(data), err
		}
		if status, _, err := get("/redirect"); status != http.StatusFound || err != nil {
			t.Errorf("%s: %d, %v", name, status, err)
		}
		if _, n, err := get("/"); n != cloud.MaxResponseBytes || err != nil {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
		if _, n, err := get("/long"); n > cloud.MaxResponseBytes || err == nil {
			t.Errorf("%s: %d bytes without an error", name, n)
		}
	}
	if given.Transport != nil || given.CheckRedirect != nil {
		t.Error("the client was changed")
	}
}
