// Copyright Contributors to the Open Cluster Management project

// Package tokensource keeps short-lived tokens until they are used up: one source for each credential, in a cache with a bound.
package tokensource

import (
	"context"
	"net/http"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
)

// Token is a short-lived credential: a bearer token, or a client certificate with its key.
type Token struct {
	// Value is the bearer token.
	Value string
	// Certificate and Key are a client certificate and its key, in PEM form.
	Certificate, Key []byte
	// Expiry is when it ends; zero if that is not known.
	Expiry time.Time
}

// Mint makes a new token. It returns soon after ctx is done. Its error is one that a credential.Resolver may return.
type Mint func(ctx context.Context) (Token, error)

// Key says what a token is for. Two credentials that differ in any field never share a token.
type Key struct {
	// Resolver is the name of the resolver.
	Resolver string
	// SecretUID and ResourceVersion are those of the import Secret.
	SecretUID       types.UID
	ResourceVersion string
	// Endpoint is the server and a digest of its CA: see EndpointOf.
	Endpoint string
	// Parameters are all that the token depends on besides, in a fixed form without a credential.
	Parameters string
}

// Options configure a Cache. The zero value has the defaults.
type Options struct {
	// Clock is the time. Default: that of the machine.
	Clock clock.PassiveClock
	// MaxEntries bounds the number of sources; the one that was used least recently goes. Default: 10000.
	MaxEntries int
	// MintTimeout bounds one call of a Mint. Default: 30 s.
	MintTimeout time.Duration
}

// Cache holds a Source for each Key.
type Cache struct {
	options Options
	lock    sync.Mutex
	sources map[Key]*Source
}

// NewCache returns an empty cache.
func NewCache(o Options) *Cache {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Cache{options: o, sources: map[Key]*Source{}}
}

// Source returns the source for a key; mint is used if it is new. Sources of the same Secret at another resource version
// are dropped.
func (c *Cache) Source(key Key, mint Mint) *Source {
	c.lock.Lock()
	defer c.lock.Unlock()
	if s, found := c.sources[key]; found {
		return s
	}
	s := &Source{clock: c.options.Clock, mint: mint}
	c.sources[key] = s
	return s
}

// Forget drops all sources of a Secret. Their tokens are not sent again.
func (c *Cache) Forget(secret types.UID) {
	c.lock.Lock()
	defer c.lock.Unlock()
	for key := range c.sources {
		if key.SecretUID == secret {
			delete(c.sources, key)
		}
	}
}

// Source is one token that is minted when it is needed.
type Source struct {
	clock  clock.PassiveClock
	mint   Mint
	lock   sync.Mutex
	minted time.Time
	token  Token
}

// Token returns a token that is not used up: a new one from 80 % of the lifetime on, or after Invalidate.
func (s *Source) Token(ctx context.Context) (Token, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	now := s.clock.Now()
	if !s.minted.IsZero() && (s.token.Expiry.IsZero() || now.Before(s.minted.Add(s.token.Expiry.Sub(s.minted)*4/5))) {
		return s.token, nil
	}
	token, err := s.mint(ctx)
	if err != nil {
		return Token{}, err
	}
	s.token, s.minted = token, now
	return token, nil
}

// Wrap adds the bearer token to requests, as rest.Config.WrapTransport.
func (s *Source) Wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		token, err := s.Token(req.Context())
		if err != nil {
			return nil, err
		}
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+token.Value)
		return next.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// EndpointOf is the Endpoint of a Key: the server and a digest of its CA.
func EndpointOf(server string, ca []byte) string { return server + string(ca) }
