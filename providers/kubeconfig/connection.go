// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	apiextensionsclient "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	operatorclient "open-cluster-management.io/api/client/operator/clientset/versioned"
	"open-cluster-management.io/ocm/pkg/registration/hub/importer/providers"

	"open-cluster-management.io/import-provider/pkg/policy"
)

const (
	// DefaultDialTimeout bounds name resolution and the TCP connection.
	DefaultDialTimeout = 5 * time.Second
	// DefaultTLSHandshakeTimeout bounds the TLS handshake.
	DefaultTLSHandshakeTimeout = 5 * time.Second
	// DefaultResponseHeaderTimeout bounds the wait for the first byte of an answer.
	DefaultResponseHeaderTimeout = 10 * time.Second
	// DefaultRequestTimeout bounds a whole request, its body included.
	DefaultRequestTimeout = 10 * time.Second
	// DefaultImportTimeout bounds all requests of one attempt: a cluster that answers each request just in time
	// would hold a worker for minutes otherwise. An import makes about 25 requests, and 25 more with a credential that
	// may not do everything.
	DefaultImportTimeout = time.Minute
	// DefaultMaxResponseBytes is twice what an API server can store of one object (etcd's limit is 1.5 MiB).
	DefaultMaxResponseBytes = 3 << 20
	// DefaultQPS and DefaultBurst are above the number of requests of an import, which is thus never held back by
	// its own client.
	DefaultQPS = 100
	// DefaultBurst goes with DefaultQPS.
	DefaultBurst = 200

	maxTimeout = 10 * time.Minute
	// idleConnTimeout closes the connection of an import soon after it: there is no next request.
	idleConnTimeout = 5 * time.Second
	// maxResponseHeaderBytes is ample for an API server, whose header is below 1 KiB.
	maxResponseHeaderBytes = 64 << 10
	userAgent              = "ocm-import-provider"
)

// ConnectionOptions bound what the provider spends on one managed cluster. A zero field takes the default.
type ConnectionOptions struct {
	// DialTimeout is for name resolution and the TCP connection; DefaultDialTimeout.
	DialTimeout time.Duration
	// TLSHandshakeTimeout is for the TLS handshake; DefaultTLSHandshakeTimeout.
	TLSHandshakeTimeout time.Duration
	// ResponseHeaderTimeout is for the first byte of an answer; DefaultResponseHeaderTimeout.
	ResponseHeaderTimeout time.Duration
	// RequestTimeout is for a whole request with its body; DefaultRequestTimeout.
	RequestTimeout time.Duration
	// ImportTimeout is for all requests of one attempt together; DefaultImportTimeout.
	ImportTimeout time.Duration
	// MaxResponseBytes is for the body of one answer, decompressed; DefaultMaxResponseBytes.
	MaxResponseBytes int64
	// QPS is in requests a second to one cluster; DefaultQPS.
	QPS float32
	// Burst is in requests to one cluster; DefaultBurst.
	Burst int
}

// Default sets each zero field to its default.
func (o *ConnectionOptions) Default() {
	setDefault(&o.DialTimeout, DefaultDialTimeout)
	setDefault(&o.TLSHandshakeTimeout, DefaultTLSHandshakeTimeout)
	setDefault(&o.ResponseHeaderTimeout, DefaultResponseHeaderTimeout)
	setDefault(&o.RequestTimeout, DefaultRequestTimeout)
	setDefault(&o.ImportTimeout, DefaultImportTimeout)
	setDefault(&o.MaxResponseBytes, DefaultMaxResponseBytes)
	setDefault(&o.QPS, DefaultQPS)
	setDefault(&o.Burst, DefaultBurst)
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// Validate returns an error for every field out of range, each beginning with the field's name as in a flag, such as
// dial-timeout. A timeout must be above zero and at most 10 minutes, all else above zero.
func (o ConnectionOptions) Validate() []error {
	var errs []error
	for _, timeout := range []struct {
		name  string
		value time.Duration
	}{
		{"dial-timeout", o.DialTimeout},
		{"tls-timeout", o.TLSHandshakeTimeout},
		{"header-timeout", o.ResponseHeaderTimeout},
		{"request-timeout", o.RequestTimeout},
		{"import-timeout", o.ImportTimeout},
	} {
		if timeout.value <= 0 || timeout.value > maxTimeout {
			errs = append(errs, fmt.Errorf("%s: must be above 0 and at most %s, not %s", timeout.name, maxTimeout, timeout.value))
		}
	}
	if o.MaxResponseBytes <= 0 {
		errs = append(errs, fmt.Errorf("max-response-bytes: must be above 0, not %d", o.MaxResponseBytes))
	}
	if o.QPS <= 0 {
		errs = append(errs, fmt.Errorf("api-qps: must be above 0, not %g", o.QPS))
	}
	if o.Burst <= 0 {
		errs = append(errs, fmt.Errorf("api-burst: must be above 0, not %d", o.Burst))
	}
	return errs
}

// connection is what one attempt has to one managed cluster: one transport, shared by all clients.
type connection struct {
	config *rest.Config
	// raw sends a request within the bounds and reports failures as they are.
	raw *http.Client
	// sanitized does the same for the importer's clients, which copy errors into a condition.
	sanitized *http.Client
	// reporting sanitizes answers and reports failures as problems.
	reporting *http.Client
}

// connect builds the connection without sending anything. The transport is made here, not by client-go: client-go's
// has no bound on the wait for an answer, takes proxies from the environment, and stays in a cache that never evicts.
//
// The policy is asked about each address that is dialled, after the name was resolved.
func connect(config *rest.Config, o ConnectionOptions, current *policy.Policy) (*connection, error) {
	return connectWith(&dialer{Dialer: net.Dialer{Timeout: o.DialTimeout, KeepAlive: 30 * time.Second}, policy: current}, config, o)
}

func connectWith(dialer *dialer, config *rest.Config, o ConnectionOptions) (*connection, error) {
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		// The text may quote what it could not parse.
		return nil, errors.New("the TLS settings of the credential cannot be used; put a CA, a client certificate and a key that can be into the Secret")
	}
	base := &http.Transport{
		DialContext:            dialer.dial,
		TLSClientConfig:        tlsConfig,
		TLSHandshakeTimeout:    o.TLSHandshakeTimeout,
		ResponseHeaderTimeout:  o.ResponseHeaderTimeout,
		MaxResponseHeaderBytes: maxResponseHeaderBytes,
		IdleConnTimeout:        idleConnTimeout,
		ForceAttemptHTTP2:      true,
		DisableCompression:     config.DisableCompression,
	}
	if config.Proxy != nil {
		useProxy(base, config.Proxy, dialer, o)
	}
	config = rest.CopyConfig(config)
	config.UserAgent = userAgent
	config.QPS, config.Burst = o.QPS, o.Burst
	// One form for all four clients, which the sanitizing transport writes too.
	config.AcceptContentTypes, config.ContentType = runtime.ContentTypeJSON, runtime.ContentTypeJSON
	transport, err := rest.HTTPWrappersForConfig(config, base)
	if err != nil {
		return nil, errors.New("the credential cannot be used; put one into the Secret that can be")
	}
	bounded := &boundedTransport{
		next:      transport,
		closeIdle: base.CloseIdleConnections,
		deadline:  time.Now().Add(o.ImportTimeout),
		timeout:   o.RequestTimeout,
		maxBytes:  o.MaxResponseBytes,
	}
	// A redirect would take the credential to another host.
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &connection{
		config:    config,
		raw:       &http.Client{Transport: bounded, CheckRedirect: noRedirect},
		sanitized: &http.Client{Transport: &sanitizingTransport{next: bounded}, CheckRedirect: noRedirect},
		reporting: &http.Client{Transport: &reportingTransport{next: bounded}, CheckRedirect: noRedirect},
	}, nil
}

// close closes what is open. Requests after it open it again; without it, that ends after idleConnTimeout.
func (c *connection) close() { c.raw.CloseIdleConnections() }

// NewHTTPClient returns a client for one managed cluster with the bounds, the checks and the credential that an import has,
// for what is done before one. The bound on all requests together begins now. CloseIdleConnections of the client ends it.
// A Status that the client gives has a text that is fit for a condition. Its other errors are for a credential.ClusterError.
func NewHTTPClient(config *rest.Config, o ConnectionOptions, current *policy.Policy) (*http.Client, error) {
	o.Default()
	conn, err := connect(config, o, current)
	if err != nil {
		return nil, err
	}
	return conn.reporting, nil
}

// clients returns the importer's four clients, all on the sanitizing transport.
func (c *connection) clients() (*providers.Clients, error) {
	kubeClient, err := kubernetes.NewForConfigAndClient(c.config, c.sanitized)
	if err != nil {
		return nil, fmt.Errorf("building the Kubernetes client: %w", err)
	}
	apiExtClient, err := apiextensionsclient.NewForConfigAndClient(c.config, c.sanitized)
	if err != nil {
		return nil, fmt.Errorf("building the API extensions client: %w", err)
	}
	operatorClient, err := operatorclient.NewForConfigAndClient(c.config, c.sanitized)
	if err != nil {
		return nil, fmt.Errorf("building the operator client: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfigAndClient(c.config, c.sanitized)
	if err != nil {
		return nil, fmt.Errorf("building the dynamic client: %w", err)
	}
	return &providers.Clients{
		KubeClient:     kubeClient,
		APIExtClient:   apiExtClient,
		OperatorClient: &operatorClientset{Interface: operatorClient, apiExtClient: apiExtClient},
		DynamicClient:  dynamicClient,
	}, nil
}
