// Copyright Contributors to the Open Cluster Management project

// Package exchange replaces the credential of an import Secret by a short-lived token of a ServiceAccount on the cluster: the
// given credential is used for one request, the TokenRequest, and all that an import does is done with the token.
//
// # The credential may go
//
// While a token is valid it renews itself, and the original is not used: it may be revoked on the cluster. It may also be deleted
// from the Secret, by removing data keys while credential.yaml stays as it is. Both last as long as the token: nobody renews it while
// the cluster is not looked at, and a restart forgets it. The original is needed again then, and an error says so.
//
// # What is kept
//
// The token is in the tokensource.Cache, which drops it when the Secret is gone. Here are, for each Secret, the endpoint and keyed
// digests of its data, which tell a credential that was removed from one that was replaced. A token is never used for another
// credential or another endpoint than it was made by. The original is held for one call, and for the mint that it started.
package exchange

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
)

const (
	// DefaultNamespace is that of the ServiceAccount in manifests/managed-cluster.
	DefaultNamespace = "kube-system"
	// DefaultName is its name.
	DefaultName = "import-provider"
	// DefaultLifetime is that of a token.
	DefaultLifetime = time.Hour
	// MinLifetime is the shortest that API servers grant.
	MinLifetime = 10 * time.Minute
	// MaxLifetime is what is still short-lived.
	MaxLifetime = 24 * time.Hour

	// resolverName is the Resolver of keys: no resolver has this name, which is no DNS label.
	resolverName = "exchange:" + credential.ExchangeTokenRequest
	// maxSecrets bounds what is known. A Secret that is not known any more is one whose credential is needed again.
	maxSecrets = tokensource.DefaultMaxEntries
)

// Options configure the exchange.
type Options struct {
	// Tokens holds the tokens. Required.
	Tokens *tokensource.Cache
	// HTTPClient returns a client for one managed cluster, with its bounds and its credential. Its error, and the text of a Status that
	// the client gives, are fit for a condition. Required.
	HTTPClient func(config *rest.Config) (*http.Client, error)
	// Clock is the time, the same as that of Tokens. Default: that of the machine.
	Clock clock.PassiveClock
}

type exchanger struct {
	options Options
	// digestKey keeps digests of tokens from being of use elsewhere.
	digestKey []byte

	lock sync.Mutex // guards known, and that the token of a Secret follows its changes; not held while anything is sent
	// known has a *known for each Secret by its UID.
	known *lru.Cache
}

// known is what is known of one Secret.
type known struct {
	// data are digests of what was exchanged.
	data digests
	// config is where to, without a credential.
	config *rest.Config
	source *tokensource.Source
}

// account is whose tokens are asked for.
type account struct {
	namespace, name string
	lifetime        time.Duration
	create          bool
}

// New returns the exchanger.
func New(o Options) credential.Exchanger {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &exchanger{options: o, digestKey: []byte(rand.Text()), known: lru.New(maxSecrets)}
}

// Exchange implements credential.Exchanger. Errors are those of original, an InvalidError for parameters that are not valid, for a
// ServiceAccount that does not exist, and for a credential that is needed again, a MintError for what the credential may not do on the
// cluster, and a ClusterError for one that the cluster does not accept, and for a cluster that cannot be asked.
func (e *exchanger) Exchange(ctx context.Context, req credential.Request, p credential.TokenRequestParameters,
	original func(context.Context) (*rest.Config, error),
) (*rest.Config, error) {
	who, err := accountOf(p)
	if err != nil {
		return nil, err
	}
	data := e.digestsOf(req.Secret)
	config, given, err := e.endpoint(ctx, req.Secret, data, original)
	if err != nil {
		return nil, err
	}
	source := e.source(req.Secret, data, config, who)
	if _, err := source.TokenBy(ctx, e.mintBy(config, given, who, errNeeded)); err != nil {
		return nil, err //nolint:wrapcheck // it is one of this package, or says of itself what it is about.
	}
	config = rest.CopyConfig(config)
	config.CAData = slices.Clone(config.CAData)
	config.WrapTransport = source.Wrap
	return config, nil
}

// accountOf reads the parameters. Errors are InvalidErrors.
func accountOf(p credential.TokenRequestParameters) (account, error) {
	who := account{namespace: DefaultNamespace, name: DefaultName, lifetime: DefaultLifetime, create: p.Create}
	if p.ServiceAccount != "" {
		namespace, name, _ := strings.Cut(p.ServiceAccount, "/")
		if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
			return account{}, invalid("tokenRequest.serviceAccount must be a namespace and a name, with / in between")
		}
		who.namespace, who.name = namespace, name
	}
	if p.Lifetime.Duration != 0 {
		who.lifetime = p.Lifetime.Duration
	}
	if who.lifetime < MinLifetime || who.lifetime > MaxLifetime {
		return account{}, invalid("tokenRequest.lifetime must be from 10m to 24h")
	}
	return who, nil
}

// endpoint returns where the cluster is, without a credential, and the config with the original credential; that is nil if it was
// removed from the Secret and there is a token in its place.
func (e *exchanger) endpoint(ctx context.Context, secret *corev1.Secret, data digests, original func(context.Context) (*rest.Config, error),
) (config, given *rest.Config, err error) {
	if last := e.last(secret); last != nil && data.isPartOf(last.data) {
		return last.config, nil, nil
	}
	given, err = original(ctx)
	switch {
	case credential.IsInvalid(err) && holdsNothing(secret):
		return nil, nil, fmt.Errorf("%w: %w", errNeeded, err)
	case err != nil:
		return nil, nil, err //nolint:wrapcheck // the Set has named the resolver.
	}
	return withoutCredential(given), given, nil
}

// source returns the source for a Secret as it is now. It has the token of before if nothing was changed that the token depends on.
func (e *exchanger) source(secret *corev1.Secret, data digests, config *rest.Config, who account) *tokensource.Source {
	key := tokensource.Key{
		Resolver: resolverName, SecretUID: secret.UID, ResourceVersion: secret.ResourceVersion,
		Endpoint: tokensource.EndpointOf(config.Host, config.CAData), Parameters: fmt.Sprintf("%+v", who),
	}
	e.lock.Lock()
	defer e.lock.Unlock()
	source := e.options.Tokens.Renewing(key, e.mintBy(config, nil, who, errLapsed))
	last := e.last(secret)
	if last != nil && (maps.Equal(data, last.data) || data.isPartOf(last.data)) && sameEndpoint(config, last.config) {
		source.Adopt(last.source)
		// What was removed may come back.
		data = last.data
	}
	e.known.Add(secret.UID, &known{data: data, config: config, source: source})
	return source
}

func (e *exchanger) last(secret *corev1.Secret) *known {
	value, _ := e.known.Get(secret.UID)
	last, _ := value.(*known)
	return last
}

// withoutCredential copies where a config leads to.
func withoutCredential(config *rest.Config) *rest.Config {
	return &rest.Config{
		Host:               config.Host,
		Proxy:              config.Proxy,
		DisableCompression: config.DisableCompression,
		TLSClientConfig: rest.TLSClientConfig{
			Insecure: config.Insecure, ServerName: config.ServerName, CAData: slices.Clone(config.CAData),
		},
	}
}

// sameEndpoint compares what a server is verified by. A proxy and compression do not matter.
func sameEndpoint(a, b *rest.Config) bool {
	return a.Host == b.Host && a.ServerName == b.ServerName && a.Insecure == b.Insecure && slices.Equal(a.CAData, b.CAData)
}

// digests are keyed digests of the data of a Secret, and of the annotations that say how to read it, by their names.
type digests map[string][sha256.Size]byte

func (e *exchanger) digestsOf(secret *corev1.Secret) digests {
	result := digests{}
	add := func(name string, value []byte) {
		digest := hmac.New(sha256.New, e.digestKey)
		_, _ = digest.Write(value)
		result[name] = [sha256.Size]byte(digest.Sum(nil))
	}
	for key, value := range secret.Data {
		add(key, value)
	}
	for _, name := range []string{
		credential.AnnotationCredentialResolver, credential.AnnotationKubeconfigKey, credential.AnnotationKubeconfigContext,
	} {
		if value, found := secret.Annotations[name]; found {
			add(name, []byte(value))
		}
	}
	return result
}

// isPartOf says whether nothing was changed or added, and something removed.
func (d digests) isPartOf(before digests) bool {
	for name, digest := range d {
		if had, found := before[name]; !found || had != digest {
			return false
		}
	}
	return len(d) < len(before)
}

// holdsNothing says whether there is nothing in a Secret but the Document.
func holdsNothing(secret *corev1.Secret) bool {
	_, found := secret.Data[credential.DocumentKey]
	return found && len(secret.Data) == 1
}

var (
	// errNeeded is an InvalidError for a Secret whose credential was removed.
	errNeeded = invalid("the Secret holds no credential to exchange, and no token of an earlier one is left; put one into it")
	// errLapsed is a MintError for requests of an import whose token is no longer accepted. The next attempt begins with an exchange.
	errLapsed = credential.MintFailed(errors.New("the token of the ServiceAccount has expired, or the cluster does not accept it any more; it is exchanged again"))
)

func invalid(text string) error {
	return credential.Invalid(fmt.Errorf("data key %s: %s", credential.DocumentKey, text))
}
