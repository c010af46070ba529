// Copyright Contributors to the Open Cluster Management project

// Package tokensource keeps short-lived tokens until they are used up: one Source for each credential, in a Cache with a bound.
//
// # Usage
//
//	source := cache.Source(tokensource.Key{…, Endpoint: tokensource.EndpointOf(config.Host, config.CAData)}, mint)
//	if _, err := source.Token(ctx); err != nil { … }  // once, so that an error of the service is not taken for one of the cluster
//	config.WrapTransport = source.Wrap
//
// # What it promises
//
// A token is sent to the host that its Key names and to no other, and is printed by no verb of fmt, no JSON and no log. Of a Secret
// that has changed or is gone no token is handed out or minted any more, also by a transport that was built before. A token
// that the cluster refuses with 401 is replaced once; a cluster that refuses all of them costs one mint in RefusalInterval.
//
// # Trade-offs
//
// Tokens are minted when they are asked for: there is no goroutine and no timer for each, and what nobody uses lapses. Nothing
// is written down, so that a restart mints anew. The order of resource versions is that of numbers, which is how API servers
// that store in etcd make them; a late reader of an old version must not bring its token back.
package tokensource

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"open-cluster-management.io/import-provider/pkg/credential"
)

const (
	// DefaultMaxEntries is for hubs of thousands of clusters. An entry is about a kilobyte and the token, of which the longest
	// that clouds issue have a few.
	DefaultMaxEntries = 10000
	// DefaultMintTimeout is above the longest timeout of a plugin (policy.Plugin). Who waits for a token has a bound of its own.
	DefaultMintTimeout = 6 * time.Minute
	// RefusalInterval is how often, at most, a token is replaced because the cluster refused it.
	RefusalInterval = time.Minute
	// RenewalInterval is how long a token that is still valid is used after it could not be renewed, before that is tried again.
	RenewalInterval = 30 * time.Second
	// FailureInterval is how long requests get the error of the last mint without another one. It is for the many requests of one
	// attempt, and below the time after which the provider makes the next.
	FailureInterval = 3 * time.Second
	// MaxAge is how long a token is used that does not tell its expiry: long enough for the attempts of one import, short enough
	// that an identity which was disabled meanwhile is not used for long.
	MaxAge = 5 * time.Minute

	// patience is how long a token that is valid waits for the one that replaces it: a token service that hangs must not use up the
	// time of a request that could do without.
	patience = 5 * time.Second
	// maxSourcesOfSecret bounds what one Secret takes: it has one source, or two, unless what it refers to changes all the time.
	maxSourcesOfSecret = 8
)

// errDropped is a MintError: the importer looks at the Secret again, which has changed.
var errDropped = credential.MintFailed(errors.New(
	"the import Secret has changed or is gone since its credential was read; its token is not used any more"))

// Token is a short-lived credential: a bearer token, or a client certificate with its key. It does not print itself.
type Token struct {
	// Value is the bearer token.
	Value string
	// Certificate and Key are a client certificate and its key, in PEM form. They must not be changed.
	Certificate, Key []byte
	// Expiry is when it ends; zero if that is not known: then it is used for MaxAge.
	Expiry time.Time
}

const redacted = "tokensource.Token(redacted)"

// String is the same for all tokens.
func (Token) String() string { return redacted }

// Format writes String, whatever the verb.
func (Token) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalJSON gives String.
func (Token) MarshalJSON() ([]byte, error) { return json.Marshal(redacted) } //nolint:wrapcheck // a string always marshals.

// Mint makes a new token. It returns soon after ctx is done, which is not that of the caller: others may wait for the same token.
// Its error is one that a credential.Resolver may return. It must not hold on to a credential: it lives as long as the Source.
type Mint func(ctx context.Context) (Token, error)

// Renew is a Mint that is given the token to replace: one that is valid and was not refused, or the zero Token.
type Renew func(ctx context.Context, current Token) (Token, error)

// Key says what a token is for. Two credentials that differ in any field never share a token.
type Key struct {
	// Resolver is the name of the resolver.
	Resolver string
	// SecretUID and ResourceVersion are those of the import Secret.
	SecretUID       types.UID
	ResourceVersion string
	// Endpoint is the server and a digest of its CA: see EndpointOf. Tokens are sent to no other host; without one to none.
	Endpoint string
	// Parameters are all that the token depends on besides, in a fixed form without a credential.
	Parameters string
}

// EndpointOf is the Endpoint of a Key: the server, https://host[:port], and a digest of its CA.
func EndpointOf(server string, ca []byte) string {
	digest := sha256.Sum256(ca)
	// A server with a fragment is refused everywhere.
	return server + "#" + hex.EncodeToString(digest[:])
}

// serverOf is the server of an Endpoint.
func serverOf(endpoint string) string {
	server, _, _ := strings.Cut(endpoint, "#")
	return server
}

// Options configure a Cache. The zero value has the defaults.
type Options struct {
	// Clock is the time. Default: that of the machine.
	Clock clock.PassiveClock
	// MaxEntries bounds the number of Secrets that have sources; the one that was used least recently goes. Default: DefaultMaxEntries.
	//
	// A source that went so still works for the import that holds it, and is out of reach of Forget. It takes as many other
	// Secrets, all used in the minute that an import takes at most.
	MaxEntries int
	// MintTimeout bounds one call of a Mint. Default: DefaultMintTimeout.
	MintTimeout time.Duration
}

// Cache holds a Source for each Key. It is safe for concurrent use.
type Cache struct {
	options Options

	lock sync.Mutex // guards the order of look-up and change
	// secrets has the generation of each Secret by its UID.
	secrets *lru.Cache
	// gone are the UIDs of Secrets that were forgotten. Imports that have read one of them may still ask for its source.
	gone *lru.Cache
}

// generation is the sources of one version of a Secret.
type generation struct {
	version string
	// dropped makes its sources refuse.
	dropped atomic.Bool
	// sources are guarded by Cache.lock.
	sources map[Key]*Source
}

// NewCache returns an empty cache.
func NewCache(o Options) *Cache {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.MaxEntries <= 0 {
		o.MaxEntries = DefaultMaxEntries
	}
	if o.MintTimeout <= 0 {
		o.MintTimeout = DefaultMintTimeout
	}
	return &Cache{options: o, secrets: lru.New(o.MaxEntries), gone: lru.New(o.MaxEntries)}
}

// Source returns the source for a key; mint is used if it is new. Sources of the same Secret at an older resource version
// are dropped: they neither mint nor hand out tokens any more. So does the result if the key itself is of an older version
// than one that was asked for before, or of a Secret that was forgotten.
func (c *Cache) Source(key Key, mint Mint) *Source {
	return c.Renewing(key, func(ctx context.Context, _ Token) (Token, error) { return mint(ctx) })
}

// Renewing is Source for tokens that are replaced by the help of the last one.
func (c *Cache) Renewing(key Key, renew Renew) *Source {
	c.lock.Lock()
	defer c.lock.Unlock()
	g := c.generation(key)
	if source, found := g.sources[key]; found {
		return source
	}
	source := newSource(c.options, key, g, renew)
	if !g.dropped.Load() {
		if len(g.sources) == maxSourcesOfSecret {
			// Their holders go on with them, until the Secret changes.
			clear(g.sources)
		}
		g.sources[key] = source
	}
	return source
}

// generation returns the generation of a key, a new one if it is the first of its version.
func (c *Cache) generation(key Key) *generation {
	fresh := &generation{version: key.ResourceVersion, sources: map[Key]*Source{}}
	if _, gone := c.gone.Get(key.SecretUID); gone {
		fresh.dropped.Store(true)
		return fresh
	}
	switch last := c.last(key.SecretUID); {
	case last == nil:
	case last.version == key.ResourceVersion:
		return last
	case isOlder(key.ResourceVersion, last.version):
		fresh.dropped.Store(true)
		return fresh
	default:
		last.dropped.Store(true)
	}
	c.secrets.Add(key.SecretUID, fresh)
	return fresh
}

func (c *Cache) last(secret types.UID) *generation {
	value, _ := c.secrets.Get(secret)
	g, _ := value.(*generation)
	return g
}

// isOlder says whether a resource version is older than another. Of those that are no numbers any other counts as newer.
func isOlder(version, than string) bool {
	for _, text := range []string{version, than} {
		if text == "" || strings.Trim(text, "0123456789") != "" {
			return false
		}
	}
	if len(version) != len(than) {
		return len(version) < len(than)
	}
	return version < than
}

// Forget drops all sources of a Secret that is gone. Their tokens are not sent again.
func (c *Cache) Forget(secret types.UID) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.gone.Add(secret, nil)
	g := c.last(secret)
	if g == nil {
		return
	}
	g.dropped.Store(true)
	for _, source := range g.sources {
		source.wipe()
	}
	c.secrets.Remove(secret)
}

// Len returns the number of Secrets that have sources.
func (c *Cache) Len() int { return c.secrets.Len() }
