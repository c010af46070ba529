// Copyright Contributors to the Open Cluster Management project

// Package gcp is a stand-in for what a hub on Google Cloud talks to: the metadata server, the Kubernetes Engine API and the IAM
// Service Account Credentials API. It refuses what the real ones refuse, and remembers what it was asked.
package gcp

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// HubAccount is the service account that the metadata server has.
	HubAccount = "hub@hub-project.iam.gserviceaccount.com"
	// TokenPrefix begins every token.
	TokenPrefix = "ya29.s3nt1nel-"
	// Canary is in the body of every refusal. It must not come out anywhere.
	Canary = "c4nary-of-google"

	// HubLifetime and AccountLifetime are how long tokens are valid.
	HubLifetime     = 40 * time.Minute
	AccountLifetime = time.Hour

	scope = "https://www.googleapis.com/auth/cloud-platform"
)

// Service is a service of the cloud.
type Service string

// The services.
const (
	Metadata       Service = "metadata"
	Container      Service = "container"
	IAMCredentials Service = "iamcredentials"
)

// Cluster is a cluster as the Kubernetes Engine API shows it.
type Cluster struct {
	// Status is RUNNING by default.
	Status string
	// Endpoint and the others are addresses, with a port where it isn't 443.
	Endpoint, PrivateEndpoint, PublicEndpoint, ControlPlanePrivate, ControlPlanePublic, DNSEndpoint string
	// DNSOpen is allowExternalTraffic of the DNS endpoint. IPClosed is that the IP endpoints are not enabled; they are reported all the same.
	DNSOpen, IPClosed bool
	// CA is in PEM form.
	CA []byte
	// Viewers are the service accounts that may see it. Default: all.
	Viewers []string
}

// Cloud is the stand-in. Set its fields before the first request.
type Cloud struct {
	// Now is the time. Default: time.Now.
	Now func() time.Time
	// Clusters are the clusters by projects/P/locations/L/clusters/C.
	Clusters map[string]Cluster
	// Impersonable are the service accounts that HubAccount may impersonate.
	Impersonable []string
	// Issue makes the tokens of a service account, such as ones that a real cluster knows. Default: made-up ones, none like another.
	Issue func(account string) string

	metadata, apis *httptest.Server

	lock     sync.Mutex // guards what follows
	tokens   map[string]issued
	requests map[Service][]string
	failing  map[Service]http.HandlerFunc
}

type issued struct {
	account string
	expiry  time.Time
}

// Start starts the servers, on the loopback interface.
func Start() *Cloud {
	c := &Cloud{
		Now: time.Now, Clusters: map[string]Cluster{},
		tokens: map[string]issued{}, requests: map[Service][]string{}, failing: map[Service]http.HandlerFunc{},
	}
	c.metadata = httptest.NewServer(c.serve(Metadata, c.serveMetadata))
	apis := http.NewServeMux()
	apis.Handle("GET /v1/projects/{project}/locations/{location}/clusters/{cluster}", c.serve(Container, c.serveCluster))
	apis.Handle("POST /v1/projects/-/serviceAccounts/{call}", c.serve(IAMCredentials, c.serveToken))
	c.apis = httptest.NewTLSServer(apis)
	return c
}

// Close stops the servers.
func (c *Cloud) Close() {
	c.metadata.Close()
	c.apis.Close()
}

// MetadataHost is the value of GCE_METADATA_HOST.
func (c *Cloud) MetadataHost() string { return strings.TrimPrefix(c.metadata.URL, "http://") }

// URL is the address of both APIs, for clouds.gcp of a policy.
func (c *Cloud) URL() string { return c.apis.URL }

// CA is the CA of URL in PEM form, for SSL_CERT_FILE.
func (c *Cloud) CA() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.apis.Certificate().Raw})
}

// Client is a client that trusts the APIs, and no cluster.
func (c *Cloud) Client() *http.Client { return c.apis.Client() }

// AccountOf is the service account whose valid token an Authorization header has; "" if there is none. A cluster would ask this.
func (c *Cloud) AccountOf(header string) string {
	c.lock.Lock()
	defer c.lock.Unlock()
	token, bearer := strings.CutPrefix(header, "Bearer ")
	if found, known := c.tokens[token]; bearer && known && c.Now().Before(found.expiry) {
		return found.account
	}
	return ""
}

// Requests are the requests to a service so far: method, path and query, and for Container and IAMCredentials after a space the
// service account that asked.
func (c *Cloud) Requests(s Service) []string {
	c.lock.Lock()
	defer c.lock.Unlock()
	return slices.Clone(c.requests[s])
}

// Total is the number of requests to all services so far.
func (c *Cloud) Total() int {
	return len(c.Requests(Metadata)) + len(c.Requests(Container)) + len(c.Requests(IAMCredentials))
}

// Fail makes a service answer with a status, and with 0 as it should again.
func (c *Cloud) Fail(s Service, status int) {
	if status == 0 {
		c.Respond(s, nil)
		return
	}
	c.Respond(s, func(w http.ResponseWriter, _ *http.Request) { refuse(w, status) })
}

// Respond makes a handler answer for a service, and nil the service itself again.
func (c *Cloud) Respond(s Service, handler http.HandlerFunc) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.failing[s] = handler
}

// serve records a request and answers it.
func (c *Cloud) serve(s Service, handler http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		entry := req.Method + " " + req.URL.RequestURI()
		if s != Metadata {
			entry += " " + c.AccountOf(req.Header.Get("Authorization"))
		}
		c.lock.Lock()
		c.requests[s] = append(c.requests[s], entry)
		failing := c.failing[s]
		c.lock.Unlock()
		if failing != nil {
			failing(w, req)
			return
		}
		handler(w, req)
	})
}

func (c *Cloud) serveMetadata(w http.ResponseWriter, req *http.Request) {
	switch {
	case req.Header.Get("Metadata-Flavor") != "Google":
		refuse(w, http.StatusForbidden)
	case req.URL.Path != "/computeMetadata/v1/instance/service-accounts/default/token":
		refuse(w, http.StatusNotFound)
	case req.URL.Query().Get("scopes") != scope:
		refuse(w, http.StatusBadRequest)
	default:
		w.Header().Set("Metadata-Flavor", "Google")
		answer(w, map[string]any{
			"access_token": c.issue(HubAccount, HubLifetime), "expires_in": int(HubLifetime.Seconds()), "token_type": "Bearer",
		})
	}
}

func (c *Cloud) serveCluster(w http.ResponseWriter, req *http.Request) {
	account := c.AccountOf(req.Header.Get("Authorization"))
	cluster, found := c.Clusters[strings.TrimPrefix(req.URL.Path, "/v1/")]
	switch {
	case account == "":
		refuse(w, http.StatusUnauthorized)
	case !found:
		refuse(w, http.StatusNotFound)
	case len(cluster.Viewers) > 0 && !slices.Contains(cluster.Viewers, account):
		refuse(w, http.StatusForbidden)
	default:
		if cluster.Status == "" {
			cluster.Status = "RUNNING"
		}
		// Whole, with more than was asked for, also in what is old.
		answer(w, map[string]any{
			"name": req.PathValue("cluster"), "location": req.PathValue("location"), "status": cluster.Status,
			"endpoint": cluster.Endpoint,
			"masterAuth": map[string]any{
				"clusterCaCertificate": base64.StdEncoding.EncodeToString(cluster.CA), "clientKey": Canary,
			},
			"privateClusterConfig": map[string]any{
				"privateEndpoint": cluster.PrivateEndpoint, "publicEndpoint": cluster.PublicEndpoint, "peeringName": Canary,
			},
			"controlPlaneEndpointsConfig": map[string]any{
				"dnsEndpointConfig": map[string]any{"endpoint": cluster.DNSEndpoint, "allowExternalTraffic": cluster.DNSOpen},
				"ipEndpointsConfig": map[string]any{
					"enabled": !cluster.IPClosed, "privateEndpoint": cluster.ControlPlanePrivate, "publicEndpoint": cluster.ControlPlanePublic,
				},
			},
		})
	}
}

func (c *Cloud) serveToken(w http.ResponseWriter, req *http.Request) {
	email, isCall := strings.CutSuffix(req.PathValue("call"), ":generateAccessToken")
	var body struct {
		Scope    []string `json:"scope"`
		Lifetime string   `json:"lifetime"`
	}
	switch {
	case !isCall || json.NewDecoder(req.Body).Decode(&body) != nil:
		refuse(w, http.StatusBadRequest)
	case c.AccountOf(req.Header.Get("Authorization")) == "":
		refuse(w, http.StatusUnauthorized)
	case len(body.Scope) != 1 || body.Scope[0] != scope || body.Lifetime != fmt.Sprintf("%ds", int(AccountLifetime.Seconds())):
		refuse(w, http.StatusBadRequest)
	case c.AccountOf(req.Header.Get("Authorization")) != HubAccount || !slices.Contains(c.Impersonable, email):
		refuse(w, http.StatusForbidden)
	default:
		answer(w, map[string]any{
			"accessToken": c.issue(email, AccountLifetime), "expireTime": c.Now().Add(AccountLifetime).UTC().Format(time.RFC3339),
		})
	}
}

func (c *Cloud) issue(account string, lifetime time.Duration) string {
	c.lock.Lock()
	defer c.lock.Unlock()
	token := fmt.Sprintf("%s%d", TokenPrefix, len(c.tokens)+1)
	if c.Issue != nil {
		token = c.Issue(account)
	}
	c.tokens[token] = issued{account, c.Now().Add(lifetime)}
	return token
}

func answer(w http.ResponseWriter, body any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(body); err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
}

func refuse(w http.ResponseWriter, status int) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"error":{"code":%d,"message":%q}}`, status, Canary) // the status is what counts
}
