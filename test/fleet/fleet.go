// Copyright Contributors to the Open Cluster Management project

package fleet

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/test/harness"
)

const (
	// DefaultEstablishedDelay is what kube-apiserver 1.34 takes that does nothing else; beside other work it is up to 100 ms.
	DefaultEstablishedDelay = 15 * time.Millisecond
	// DefaultCreateHold is that of apiextensions-apiserver, the create handler.
	DefaultCreateHold = 2 * time.Second

	// idleTimeout is shorter than an API server's, so that connections which clients forgot don't add up.
	idleTimeout = 90 * time.Second
)

// Options are the same for all clusters of a fleet.
type Options struct {
	// Latency is what Slow clusters add to each answer. Default: nothing.
	Latency Latency
	// EstablishedDelay is from the creation of a CustomResourceDefinition until it is established and its objects are served.
	// Default: DefaultEstablishedDelay.
	EstablishedDelay time.Duration
	// CreateHold is how long a create waits when the CustomResourceDefinition was established less than two seconds ago.
	// Default: DefaultCreateHold; below zero it is off.
	CreateHold time.Duration
	// TokenPrefix begins the token of each cluster. Default: "token".
	TokenPrefix string
	// Observe is called after each answer, by many goroutines. Default: nobody is told.
	Observe func(Request)
}

// Request is one that a cluster answered.
type Request struct {
	// Cluster is the name that the cluster was added by.
	Cluster string
	// Method and Path are those of the request.
	Method, Path string
	// Code is the status code of the answer; 0 when there was none.
	Code int
	// At is when the request came.
	At time.Time
}

// Fleet is a number of simulated clusters. It is safe for concurrent use.
type Fleet struct {
	options     Options
	connections atomic.Int64
	// done is closed when the fleet stops, for handlers that never answer.
	done chan struct{}
	stop sync.Once

	lock     sync.Mutex // guards clusters, for the time of a change
	clusters []*Cluster
}

// New returns a fleet without clusters.
func New(o Options) *Fleet {
	if o.EstablishedDelay == 0 {
		o.EstablishedDelay = DefaultEstablishedDelay
	}
	if o.CreateHold == 0 {
		o.CreateHold = DefaultCreateHold
	}
	if o.TokenPrefix == "" {
		o.TokenPrefix = "token"
	}
	return &Fleet{options: o, done: make(chan struct{})}
}

// Connections is how many connections all clusters have accepted.
func (f *Fleet) Connections() int64 { return f.connections.Load() }

// Stop closes all listeners and connections.
func (f *Fleet) Stop() {
	f.stop.Do(func() { close(f.done) })
	f.lock.Lock()
	defer f.lock.Unlock()
	for _, c := range f.clusters {
		c.close()
	}
	f.clusters = nil
}

// Cluster is a simulated cluster.
type Cluster struct {
	name    string
	fleet   *Fleet
	address string
	ca      []byte
	uid     types.UID
	store   *store
	close   func()

	lock      sync.Mutex // guards what follows, for the time of a change
	behaviour Behaviour
	token     string
}

// Add starts a cluster on a port of its own. It is new: it has the namespaces of a new cluster and nothing else.
func (f *Fleet) Add(ctx context.Context, name string, behaviour Behaviour) (*Cluster, error) {
	certificate, ca, err := newCertificate(name)
	if err != nil {
		return nil, fmt.Errorf("adding cluster %s: %w", name, err)
	}
	if behaviour == WrongCA {
		if _, ca, err = newCertificate(name); err != nil {
			return nil, fmt.Errorf("adding cluster %s: %w", name, err)
		}
	}
	c := &Cluster{
		name: name, fleet: f, behaviour: behaviour, ca: ca, uid: uuid.NewUUID(), token: f.newToken(),
	}
	c.store = newStore(f.options.EstablishedDelay, c.uid)
	if err := c.start(ctx, certificate); err != nil {
		return nil, fmt.Errorf("adding cluster %s: %w", name, err)
	}
	f.lock.Lock()
	defer f.lock.Unlock()
	f.clusters = append(f.clusters, c)
	return c, nil
}

// Remove ends a cluster: its port is closed.
func (f *Fleet) Remove(c *Cluster) {
	c.close()
	f.lock.Lock()
	defer f.lock.Unlock()
	f.clusters = slices.DeleteFunc(f.clusters, func(other *Cluster) bool { return other == c })
}

// newToken returns a token that has no dashes but that after the prefix, which is found again by a search.
func (f *Fleet) newToken() string { return f.options.TokenPrefix + "-" + rand.Text() }

// SetBehaviour changes how the cluster answers from the next request on. It takes behaviours that are answers to a request, for
// a cluster that was added with such a one: neither side may be HangsAfterAccept, Refuses or WrongCA.
func (c *Cluster) SetBehaviour(behaviour Behaviour) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.behaviour = behaviour
}

// Rotate gives the cluster a new token; the old one is not accepted any more.
func (c *Cluster) Rotate() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.token = c.fleet.newToken()
}

// now returns how the cluster answers and the token that it accepts.
func (c *Cluster) now() (Behaviour, string) {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.behaviour, c.token
}

// Name is the name that the cluster was added by.
func (c *Cluster) Name() string { return c.name }

// URL is the address of its API server.
func (c *Cluster) URL() string { return "https://" + c.address }

// CAData is the CA, PEM, that a kubeconfig of the cluster has.
func (c *Cluster) CAData() []byte { return c.ca }

// UID is that of its namespace kube-system, by which a cluster is known.
func (c *Cluster) UID() types.UID { return c.uid }

// Kubeconfig has the cluster's token, which may do everything.
func (c *Cluster) Kubeconfig() []byte {
	_, token := c.now()
	return harness.TokenKubeconfig(c.URL(), c.ca, token)
}

// Config is for clients of the tests; it has the cluster's token.
func (c *Cluster) Config() *rest.Config {
	_, token := c.now()
	return &rest.Config{Host: c.URL(), BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: c.ca}, QPS: -1}
}

// start sets address and close.
func (c *Cluster) start(ctx context.Context, certificate tls.Certificate) error {
	if c.behaviour == Refuses {
		var err error
		c.address, c.close, err = reservePort()
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	listener = &countingListener{Listener: listener, connections: &c.fleet.connections}
	c.address = listener.Addr().String()
	if c.behaviour == HangsAfterAccept {
		c.close = hang(listener)
		return nil
	}
	server := &http.Server{
		Handler: c,
		TLSConfig: &tls.Config{
			Certificates: []tls.Certificate{certificate},
			MinVersion:   tls.VersionTLS12,
			// A client connects once; tickets would be made for nobody.
			SessionTicketsDisabled: true,
		},
		ReadHeaderTimeout: idleTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	if c.behaviour == Resets {
		// A connection of HTTP/2 can't be taken over.
		server.Protocols = &http.Protocols{}
		server.Protocols.SetHTTP1(true)
	}
	go func() {
		if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
			// A cluster that is gone fails the test that needs it.
			_ = listener.Close()
		}
	}()
	c.close = func() { _ = server.Close() }
	return nil
}

// ServeHTTP answers as the API server of the cluster.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	started := time.Now()
	recorder := &codeRecorder{ResponseWriter: w}
	if c.fleet.options.Observe != nil {
		defer func() {
			c.fleet.options.Observe(Request{Cluster: c.name, Method: r.Method, Path: r.URL.Path, Code: recorder.code, At: started})
		}()
	}
	behaviour, accepted := c.now()
	if c.misbehave(behaviour, recorder, r) {
		return
	}
	if behaviour == Slow {
		select {
		case <-time.After(c.fleet.options.Latency.sample()):
		case <-r.Context().Done():
			return
		}
	}
	if token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); token != accepted {
		writeError(recorder, apierrors.NewUnauthorized("Unauthorized"))
		return
	}
	c.serveAPI(recorder, r)
}

// codeRecorder knows the code of an answer.
type codeRecorder struct {
	http.ResponseWriter
	code int
}

func (w *codeRecorder) WriteHeader(code int) {
	w.code = code
	w.ResponseWriter.WriteHeader(code)
}

func (w *codeRecorder) Write(data []byte) (int, error) {
	if w.code == 0 {
		w.code = http.StatusOK
	}
	return w.ResponseWriter.Write(data)
}

// Unwrap is for http.ResponseController.
func (w *codeRecorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
