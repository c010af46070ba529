// Copyright Contributors to the Open Cluster Management project

package harness

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"open-cluster-management.io/import-provider/test/binaries"
	"open-cluster-management.io/import-provider/test/process"
)

const (
	// startTimeout bounds each wait for a process. On two busy cores with several control planes starting at once it takes
	// well over ten seconds.
	startTimeout   = 2 * time.Minute
	pollEvery      = 50 * time.Millisecond
	requestTimeout = 5 * time.Second
	startAttempts  = 3

	adminUser, adminGroup = "harness-admin", "system:masters"
	issuer                = "https://kubernetes.default.svc.cluster.local"
)

// controllers are those that tests and agents need; all of them would take three times the memory and longer to start.
var controllers = []string{
	"certificatesigningrequest-approving-controller",
	"certificatesigningrequest-signing-controller",
	"clusterrole-aggregation-controller", // without it admin, edit and view are empty
	"deployment-controller",
	"garbage-collector-controller",
	"job-controller",
	"namespace-controller",
	"replicaset-controller",
	"root-ca-certificate-publisher-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
}

// Options say what to start. The zero value starts an etcd and an API server.
type Options struct {
	// Name is for people: it is part of file names and errors. Default "cluster".
	Name string
	// ControllerManager adds a kube-controller-manager with the controllers that tests need. Default: none, and then no
	// namespace gets a default service account or is ever deleted, and nothing acts on a Deployment.
	ControllerManager bool
	// Authenticate is asked whose a bearer token is that the API server does not know itself, as the control planes of clouds
	// do. It returns the user, or "" if the token is nobody's. Default: such tokens are refused.
	Authenticate func(token string) (user string, groups []string)
	// BinDir holds etcd, kube-apiserver and kube-controller-manager. Default: binaries.ControlPlane, which may build them
	// and then reports to standard error.
	BinDir string
	// Dir holds data, keys and the kubeconfig; it must be absent or empty, and Stop removes it. Default: a new temporary one.
	Dir string
	// LogDir receives the processes' logs, <name>-<process>.log, and is left alone by Stop. Default: Dir.
	LogDir string
}

// ControlPlane is a running control plane. Its methods are safe for concurrent use.
type ControlPlane struct {
	name   string
	binDir string
	dir    string
	logDir string
	port   int // of the API server

	servingCA, clientCA *authority
	adminCert, adminKey []byte

	authenticator *authenticator // nil without Options.Authenticate

	mu                sync.Mutex // guards what follows, over a whole start or stop of a process
	etcd              *child
	apiServer         *child
	controllerManager *child
	etcdURL           string
}

// Start starts a control plane and returns when it is ready: /readyz is ok and, with a controller manager, the default
// namespace has got its service account. Several may start at once. ctx bounds the start only; Stop ends what was started.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	if o.Name == "" {
		o.Name = "cluster"
	}
	if o.BinDir == "" {
		dir, err := binaries.ControlPlane(ctx, os.Stderr)
		if err != nil {
			return nil, err
		}
		o.BinDir = dir
	}
	for attempt := 1; ; attempt++ {
		c, err := start(ctx, o)
		if err == nil {
			return c, nil
		}
		clash := c != nil && c.portTaken()
		if c != nil {
			err = errors.Join(err, c.Stop())
		}
		if !clash || attempt == startAttempts || ctx.Err() != nil {
			return nil, fmt.Errorf("start control plane %q: %w", o.Name, err)
		}
	}
}

// start returns what it started together with an error, for the caller to look at and stop.
func start(ctx context.Context, o Options) (*ControlPlane, error) {
	dir, err := makeDir(o)
	if err != nil {
		return nil, err
	}
	c := &ControlPlane{name: o.Name, binDir: o.BinDir, dir: dir, logDir: o.LogDir}
	if c.logDir == "" {
		c.logDir = dir
	}
	if err := os.MkdirAll(c.logDir, 0o755); err != nil {
		return c, fmt.Errorf("create the log directory: %w", err)
	}
	ports, err := process.FreePorts(3)
	if err != nil {
		return c, err
	}
	c.port = ports[0]
	if err := c.writeCredentials(); err != nil {
		return c, err
	}

	if o.Authenticate != nil {
		if c.authenticator, err = startAuthenticator(c.file("authenticator.kubeconfig"), o.Authenticate); err != nil {
			return c, err
		}
	}

	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.startEtcd(ports[1], ports[2]); err != nil {
		return c, err
	}
	if err := c.startAPIServer(ctx); err != nil {
		return c, err
	}
	if o.ControllerManager {
		if err := c.startControllerManager(ctx); err != nil {
			return c, err
		}
	}
	return c, nil
}

func makeDir(o Options) (string, error) {
	if o.Dir == "" {
		dir, err := os.MkdirTemp("", "controlplane-"+o.Name+"-")
		if err != nil {
			return "", fmt.Errorf("create a directory: %w", err)
		}
		return dir, nil
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("create the directory: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("look into the directory: %w", err)
	}
	if len(entries) > 0 {
		// Stop will remove it.
		return "", fmt.Errorf("directory %s is not empty", dir)
	}
	return dir, nil
}

// file returns the path of a file in the control plane's directory.
func (c *ControlPlane) file(name string) string { return filepath.Join(c.dir, name) }

func (c *ControlPlane) logFile(process string) string {
	return filepath.Join(c.logDir, c.name+"-"+process+".log")
}

// writeCredentials makes all keys and certificates and the kubeconfig. They stay the same when the API server restarts.
func (c *ControlPlane) writeCredentials() error {
	var err error
	if c.servingCA, err = newAuthority(c.name + "-serving-ca"); err != nil {
		return err
	}
	if c.clientCA, err = newAuthority(c.name + "-client-ca"); err != nil {
		return err
	}
	servingCert, servingKey, err := c.servingCA.issueServing()
	if err != nil {
		return err
	}
	_, tokenKey, err := newKey()
	if err != nil {
		return err
	}
	now := time.Now()
	c.adminCert, c.adminKey, err = c.clientCA.issueClient(adminUser, []string{adminGroup}, now.Add(-time.Hour), now.AddDate(1, 0, 0))
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{
		"serving-ca.crt":      c.servingCA.certPEM,
		"client-ca.crt":       c.clientCA.certPEM,
		"client-ca.key":       c.clientCA.keyPEM,
		"serving.crt":         servingCert,
		"serving.key":         servingKey,
		"service-account.key": tokenKey,
		"kubeconfig":          c.Kubeconfig(),
	} {
		if err := os.WriteFile(c.file(name), data, 0o600); err != nil {
			return fmt.Errorf("write credentials: %w", err)
		}
	}
	return nil
}

// startEtcd does not wait: the API server does.
func (c *ControlPlane) startEtcd(clientPort, peerPort int) error {
	c.etcdURL = "http://127.0.0.1:" + strconv.Itoa(clientPort)
	peer := "http://127.0.0.1:" + strconv.Itoa(peerPort)
	var err error
	c.etcd, err = startChild(filepath.Join(c.binDir, binaries.Etcd), c.logFile(binaries.Etcd),
		"--data-dir="+c.file("etcd"),
		"--listen-client-urls="+c.etcdURL,
		"--advertise-client-urls="+c.etcdURL,
		"--listen-peer-urls="+peer,
		"--initial-advertise-peer-urls="+peer,
		"--initial-cluster=default="+peer,
		"--unsafe-no-fsync", // the data does not outlive the machine
		"--log-level=warn",
	)
	return err
}

// startAPIServer needs c.mu. On failure the process may still run.
func (c *ControlPlane) startAPIServer(ctx context.Context) error {
	args := []string{
		"--etcd-servers=" + c.etcdURL,
		"--bind-address=127.0.0.1",
		"--advertise-address=127.0.0.1",
		"--secure-port=" + strconv.Itoa(c.port),
		"--tls-cert-file=" + c.file("serving.crt"),
		"--tls-private-key-file=" + c.file("serving.key"),
		"--client-ca-file=" + c.file("client-ca.crt"),
		"--service-account-issuer=" + issuer,
		"--service-account-key-file=" + c.file("service-account.key"),
		"--service-account-signing-key-file=" + c.file("service-account.key"),
		"--service-cluster-ip-range=10.0.0.0/24",
		"--authorization-mode=Node,RBAC",
		"--allow-privileged=true",
		// On by default from Kubernetes 1.35 on.
		"--feature-gates=ImageVolume=true",
		// An address of 127.0.0.0/8 is not allowed in Endpoints.
		"--endpoint-reconciler-type=none",
		"--cert-dir=" + c.dir,
		"--profiling=false",
	}
	if c.authenticator != nil {
		args = append(args, c.authenticator.flags()...)
	}
	apiServer, err := startChild(filepath.Join(c.binDir, binaries.KubeAPIServer), c.logFile(binaries.KubeAPIServer), args...)
	if err != nil {
		return err
	}
	c.apiServer = apiServer
	return c.waitReady(ctx)
}

func (c *ControlPlane) waitReady(ctx context.Context) error {
	client, err := rest.HTTPClientFor(c.Config())
	if err != nil {
		return fmt.Errorf("client for the readiness check: %w", err)
	}
	defer client.CloseIdleConnections()
	client.Timeout = requestTimeout

	return await(ctx, "the API server is not ready", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL()+"/readyz", nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("/readyz answers %s", resp.Status)
		}
		return nil
	}, c.etcd, c.apiServer)
}

func (c *ControlPlane) startControllerManager(ctx context.Context) error {
	var err error
	c.controllerManager, err = startChild(filepath.Join(c.binDir, binaries.KubeControllerManager), c.logFile(binaries.KubeControllerManager),
		"--kubeconfig="+c.KubeconfigPath(),
		"--controllers="+strings.Join(controllers, ","),
		"--use-service-account-credentials=true",
		"--service-account-private-key-file="+c.file("service-account.key"),
		"--root-ca-file="+c.file("serving-ca.crt"),
		"--cluster-signing-cert-file="+c.file("client-ca.crt"),
		"--cluster-signing-key-file="+c.file("client-ca.key"),
		"--leader-elect=false",
		"--secure-port=0",
		// The default of 20 a second makes the start of the controllers slow.
		"--kube-api-qps=200",
		"--kube-api-burst=400",
	)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return err
	}
	return await(ctx, "the controller manager is not at work", func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
		return err
	}, c.etcd, c.apiServer, c.controllerManager)
}

// await calls check until it returns nil. It gives up when ctx or startTimeout is over, or one of the processes ends, and
// then reports that, the last result and the end of the log.
func await(ctx context.Context, what string, check func(context.Context) error, needs ...*child) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		for _, p := range needs {
			if p.ended() {
				return fmt.Errorf("%s: %w", what, p.failure())
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: %w (last: %w); %s", what, context.Cause(ctx), err, needs[len(needs)-1].tail())
		}
	}
}

func (c *ControlPlane) portTaken() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (c.etcd != nil && c.etcd.portTaken()) || (c.apiServer != nil && c.apiServer.portTaken())
}

// Config returns a cluster-admin configuration, a fresh copy each time, with a client certificate, 200 queries per second
// and bursts of 400.
func (c *ControlPlane) Config() *rest.Config {
	return &rest.Config{
		Host: c.URL(),
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   c.CAData(),
			CertData: append([]byte(nil), c.adminCert...),
			KeyData:  append([]byte(nil), c.adminKey...),
		},
		QPS:   200,
		Burst: 400,
	}
}

// Kubeconfig returns a cluster-admin kubeconfig with all data inline.
func (c *ControlPlane) Kubeconfig() []byte {
	return CertKubeconfig(c.URL(), c.CAData(), c.adminCert, c.adminKey)
}

// KubeconfigPath returns the path of a file (mode 0600) with what Kubeconfig returns. Stop removes it.
func (c *ControlPlane) KubeconfigPath() string { return c.file("kubeconfig") }

// URL returns the API server's address, https://127.0.0.1:port. It stays the same when the API server restarts.
func (c *ControlPlane) URL() string { return "https://127.0.0.1:" + strconv.Itoa(c.port) }

// CAData returns the PEM of the authority that signed the API server's serving certificate.
func (c *ControlPlane) CAData() []byte { return append([]byte(nil), c.servingCA.certPEM...) }

// IssueClientCert returns a client certificate and its key, both PEM, for a user that the API server knows by certificate.
// The times may lie in the past or future, for tests of expired and not yet valid certificates.
func (c *ControlPlane) IssueClientCert(user string, groups []string, notBefore, notAfter time.Time) (certPEM, keyPEM []byte, err error) {
	return c.clientCA.issueClient(user, groups, notBefore, notAfter)
}

// ServiceAccountToken requests a token for a service account, which has to exist. The API server refuses an expiry below 10
// minutes.
func (c *ControlPlane) ServiceAccountToken(ctx context.Context, namespace, name string, expiry time.Duration) (string, error) {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return "", fmt.Errorf("client for control plane %q: %w", c.name, err)
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(expiry.Seconds()))}}
	request, err = client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name, request, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("request a token for service account %s/%s of control plane %q: %w", namespace, name, c.name, err)
	}
	return request.Status.Token, nil
}

// KillAPIServer kills the API server and returns when it is gone, so that connections to its port are refused. etcd stays.
// Killing an ended one is no error. The controller manager stays too and finds a new API server by itself, within 30 s.
func (c *ControlPlane) KillAPIServer() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apiServer == nil {
		return fmt.Errorf("control plane %q is stopped", c.name)
	}
	c.apiServer.Kill()
	return nil
}

// StartAPIServer starts the API server again after KillAPIServer, with the same port, data and certificates, and waits for
// /readyz. ctx bounds the wait only. After an error there is no API server, and it may be tried again.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.apiServer == nil:
		return fmt.Errorf("control plane %q is stopped", c.name)
	case !c.apiServer.ended():
		return fmt.Errorf("the API server of control plane %q is running", c.name)
	}
	if err := c.startAPIServer(ctx); err != nil {
		// One that is not ready goes, so that the caller may try again.
		c.apiServer.Kill()
		return fmt.Errorf("start the API server of control plane %q: %w", c.name, err)
	}
	return nil
}

// PauseAPIServer halts the API server (SIGSTOP): its port still accepts connections, and nothing is ever answered.
func (c *ControlPlane) PauseAPIServer() error { return c.signalAPIServer(syscall.SIGSTOP) }

// ResumeAPIServer ends a pause (SIGCONT).
func (c *ControlPlane) ResumeAPIServer() error { return c.signalAPIServer(syscall.SIGCONT) }

func (c *ControlPlane) signalAPIServer(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.apiServer == nil {
		return fmt.Errorf("control plane %q is stopped", c.name)
	}
	return c.apiServer.signal(sig)
}

// Stop ends all processes, clients before servers, and removes Dir. Calling it again does nothing.
func (c *ControlPlane) Stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range []*child{c.controllerManager, c.apiServer, c.etcd} {
		if p != nil {
			// Killed, not asked: the data is thrown away, and an API server that is asked waits for open requests.
			p.Kill()
		}
	}
	c.controllerManager, c.apiServer, c.etcd = nil, nil, nil
	c.authenticator.stop()
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("stop control plane %q: %w", c.name, err)
	}
	return nil
}
