// Copyright Contributors to the Open Cluster Management project

package tokensource_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
)

// cluster answers requests with one code and records what it got.
type cluster struct {
	code int
	err  error

	lock   sync.Mutex // guards got, for the time of one request
	got    []string
	bodies []string
}

func (c *cluster) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
		_ = req.Body.Close()
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	c.got = append(c.got, strings.Join(req.Header.Values("Authorization"), "|"))
	c.bodies = append(c.bodies, string(body))
	if c.err != nil {
		return nil, c.err
	}
	return &http.Response{StatusCode: c.code, Body: io.NopCloser(strings.NewReader("answer")), Request: req}, nil
}

// body tells whether it was closed.
type body struct {
	io.Reader
	closed atomic.Bool
}

func (b *body) Close() error {
	b.closed.Store(true)
	return nil
}

func request(t *testing.T, url string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, &body{Reader: strings.NewReader("sent")})
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// send sends a request and returns its code.
func send(t *testing.T, transport http.RoundTripper, url string) (int, error) {
	t.Helper()
	resp, err := transport.RoundTrip(request(t, url))
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, nil
}

func TestWrap(t *testing.T) {
	spoke := &cluster{code: http.StatusTeapot}
	transport := newSource(newService()).Wrap(spoke)
	req := request(t, server+"/api")
	req.Header.Add("Authorization", "Bearer tenant")
	req.Header.Add("Authorization", "Basic tenant")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if answer, err := io.ReadAll(resp.Body); err != nil || string(answer) != "answer" || resp.StatusCode != http.StatusTeapot {
		t.Errorf("the answer is not passed on: %d %q %v", resp.StatusCode, answer, err)
	}
	if len(spoke.got) != 1 || spoke.got[0] != "Bearer "+sentinel+"-1" || spoke.bodies[0] != "sent" {
		t.Errorf("sent %q with %q", spoke.got, spoke.bodies)
	}
	if got := req.Header.Values("Authorization"); len(got) != 2 || got[0] != "Bearer tenant" {
		t.Errorf("the request of the caller was changed: %q", got)
	}

	spoke.err = errService
	if _, err := send(t, transport, server); !errors.Is(err, errService) {
		t.Errorf("got %v of the next transport", err)
	}
}

func TestTokenGoesToItsServerOnly(t *testing.T) {
	cases := []struct {
		name, endpoint, url string
		sent                bool
	}{
		{"the same", server, server + "/api/v1?watch=true", true},
		{"in another case", "https://API.example.com.:6443", server, true},
		{"the default port", "https://api.example.com", "https://api.example.com:443/x", true},
		{"a path", "https://api.example.com/clusters/a", "https://api.example.com/clusters/a/api", true},
		{"another host", server, "https://evil.example.com:6443/api", false},
		{"a host that begins alike", server, "https://api.example.com.evil.example.com:6443", false},
		{"user-info", server, "https://api.example.com:6443@evil.example.com", false},
		{"another port", server, "https://api.example.com:6444", false},
		{"no port", server, "https://api.example.com", false},
		{"plain http", server, "http://api.example.com:6443", false},
		{"a key for plain http", "http://api.example.com:6443", "http://api.example.com:6443", false},
		{"a key without an endpoint", "", server, false},
		{"a key with a host alone", "api.example.com:6443", server, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			key, service, spoke := keyOf("uid", "1"), newService(), &cluster{code: http.StatusOK}
			key.Endpoint = tokensource.EndpointOf(c.endpoint, []byte("ca"))
			transport := tokensource.NewCache(tokensource.Options{}).Source(key, service.mint).Wrap(spoke)
			req := request(t, c.url)
			resp, err := transport.RoundTrip(req)
			if err == nil {
				defer resp.Body.Close()
			}
			if c.sent {
				if err != nil || len(spoke.got) != 1 {
					t.Errorf("not sent: %v", err)
				}
				return
			}
			if !credential.IsDenied(err) || strings.Contains(err.Error(), "example.com") {
				t.Errorf("got %v", err)
			}
			if len(spoke.got) != 0 {
				t.Errorf("the server got %q", spoke.got)
			}
			expectMints(t, service, 0)
			if sent, ok := req.Body.(*body); !ok || !sent.closed.Load() {
				t.Error("the body is left open")
			}
		})
	}
}

// client-go's own support of plugins runs the plugin once more for each 401.
func TestServerThatAnswers401ForEver(t *testing.T) {
	const requests = 50
	synctest.Test(t, func(t *testing.T) {
		service, spoke := newService(), &cluster{code: http.StatusUnauthorized}
		transport := newSource(service).Wrap(spoke)
		for range requests {
			if code, err := send(t, transport, server); err != nil || code != http.StatusUnauthorized {
				t.Fatalf("got %d %v", code, err)
			}
		}
		expectMints(t, service, 2)
		if len(spoke.got) != requests {
			t.Errorf("%d requests were sent, want %d: none twice", len(spoke.got), requests)
		}
		if first, second := spoke.got[0], spoke.got[1]; first == second {
			t.Error("the request after the first 401 has the same token")
		}
		time.Sleep(tokensource.RefusalInterval)
		for range requests {
			_, _ = send(t, transport, server)
		}
		expectMints(t, service, 3)
	})
	synctest.Test(t, func(t *testing.T) {
		service, spoke := newService(), &cluster{code: http.StatusUnauthorized}
		transport := newSource(service).Wrap(spoke)
		var all sync.WaitGroup
		for range requests {
			all.Go(func() { _, _ = send(t, transport, server) })
		}
		all.Wait()
		if got := service.mints.Load(); got > 2 {
			t.Errorf("%d mints for %d requests at a time", got, requests)
		}
	})
}

// Answers to an old token that come late say nothing about the new one.
func TestLate401OfAnOldToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service := newService()
		release := make(chan struct{})
		held := roundTripper(func(req *http.Request) (*http.Response, error) {
			<-release
			return &http.Response{StatusCode: http.StatusUnauthorized, Body: http.NoBody, Request: req}, nil
		})
		source := newSource(service)
		var late sync.WaitGroup
		late.Go(func() { _, _ = send(t, source.Wrap(held), server) })
		synctest.Wait()
		_, _ = send(t, source.Wrap(&cluster{code: http.StatusUnauthorized}), server)
		second := mustToken(t, source)
		time.Sleep(tokensource.RefusalInterval)
		close(release)
		late.Wait()
		if mustToken(t, source) != second {
			t.Error("the new token is replaced")
		}
		expectMints(t, service, 2)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// The requests of one attempt do not ask a dead service again and again.
func TestRequestsRememberAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		service, spoke := newService(), &cluster{code: http.StatusOK}
		service.err = errService
		transport := newSource(service).Wrap(spoke)
		for range 50 {
			if _, err := send(t, transport, server); !errors.Is(err, errService) {
				t.Fatalf("got %v", err)
			}
		}
		expectMints(t, service, 1)
		if len(spoke.got) != 0 {
			t.Error("a request was sent without a token")
		}
		service.err = nil
		time.Sleep(tokensource.FailureInterval)
		if _, err := send(t, transport, server); err != nil {
			t.Error(err)
		}
	})
}

func TestTransportOfADroppedSource(t *testing.T) {
	cache, service, spoke := tokensource.NewCache(tokensource.Options{}), newService(), &cluster{code: http.StatusOK}
	transport := cache.Source(keyOf("uid", "1"), service.mint).Wrap(spoke)
	if _, err := send(t, transport, server); err != nil {
		t.Fatal(err)
	}
	cache.Source(keyOf("uid", "2"), service.mint)
	if _, err := send(t, transport, server); !credential.IsMintFailed(err) {
		t.Errorf("got %v", err)
	}
	if len(spoke.got) != 1 {
		t.Error("the old token was sent again")
	}
}

// A certificate is in the TLS settings, not in a header.
func TestWrapOfACertificate(t *testing.T) {
	spoke := &cluster{code: http.StatusOK}
	source := tokensource.NewCache(tokensource.Options{}).Source(keyOf("uid", "1"),
		func(context.Context) (tokensource.Token, error) {
			return tokensource.Token{Certificate: []byte("PEM")}, nil
		})
	if _, err := send(t, source.Wrap(spoke), server); err != nil || spoke.got[0] != "" {
		t.Errorf("sent %q, %v", spoke.got, err)
	}
}
