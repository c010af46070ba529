// Copyright Contributors to the Open Cluster Management project

package aws

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Names of operations.
const (
	AssumeRoleWithWebIdentity = "AssumeRoleWithWebIdentity"
	AssumeRole                = "AssumeRole"
	DescribeCluster           = "DescribeCluster"
	// PodIdentity is a request to the agent.
	PodIdentity = "PodIdentity"
)

// SessionLifetime is how long the credentials of the agent are good. Those of STS are good for as long as is asked for.
const SessionLifetime = 6 * time.Hour

// Options configure a Cloud. The zero value has the defaults.
type Options struct {
	// Clock is the time of AWS. Default: that of the machine.
	Clock clock.PassiveClock
	// AgentToken is what the agent wants as Authorization. Default: no request is good.
	AgentToken string
	// AgentRole is the ARN of the role whose credentials the agent gives.
	AgentRole string
}

// Role is a role of IAM.
type Role struct {
	// ARN is its name.
	ARN string
	// WebIdentityToken is the token for which AssumeRoleWithWebIdentity gives the role; none for "".
	WebIdentityToken string
	// TrustedRole is the ARN of the role that may assume this one; none for "".
	TrustedRole string
	// ExternalID must be sent by who assumes the role; "" asks for none.
	ExternalID string
}

// Cluster is a cluster of EKS.
type Cluster struct {
	Name, Region string
	// Endpoint is https://host[:port].
	Endpoint string
	// CA is in PEM form.
	CA []byte
	// Status is that of EKS. Default: ACTIVE.
	Status string
	// Roles are the ARNs of those that may describe it.
	Roles []string
}

// Failure is what an operation does in place of its work.
type Failure struct {
	// Status and Code are the answer.
	Status int
	Code   string
	// RetryAfter is a header. Default: none.
	RetryAfter string
	// Body is sent as it is. Default: an error with Code.
	Body string
	// Location is a header.
	Location string
	// Hang answers nothing until the client leaves.
	Hang bool
	// Times is how often it happens. Default: always.
	Times int
}

// Request is one that was understood, whether or not it was granted.
type Request struct {
	Operation string
	// Form are the parameters of STS.
	Form url.Values
	// Path is that of the request.
	Path string
	// Region is that of the signature.
	Region string
	// Role is the ARN of the one whose credentials signed it.
	Role string
}

// Identity is whose token it is.
type Identity struct{ RoleARN, SessionName string }

// Cloud is the fake. It is safe for concurrent use.
type Cloud struct {
	// STS, EKS and Agent are the services. The first two have TLS, with the same certificate.
	STS, EKS, Agent *httptest.Server

	options Options
	// done ends answers that hang.
	done chan struct{}

	lock     sync.Mutex // guards the rest
	roles    map[string]Role
	clusters map[[2]string]Cluster
	sessions map[string]session
	failures map[string]Failure
	requests []Request
}

// session is what STS gave.
type session struct {
	keyID, secret, token string
	identity             Identity
	expires              time.Time
}

// New starts a fake on the loopback interface. Close ends it.
func New(o Options) *Cloud {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	c := &Cloud{
		options: o, done: make(chan struct{}),
		roles: map[string]Role{}, clusters: map[[2]string]Cluster{}, sessions: map[string]session{}, failures: map[string]Failure{},
	}
	c.STS, c.EKS, c.Agent = newServer(c.serveSTS), newServer(c.serveEKS), newServer(c.serveAgent)
	c.STS.StartTLS()
	c.EKS.StartTLS()
	c.Agent.Start()
	return c
}

func newServer(serve http.HandlerFunc) *httptest.Server {
	server := httptest.NewUnstartedServer(serve)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that leave are what tests are about
	return server
}

// Close ends the fake.
func (c *Cloud) Close() {
	close(c.done)
	for _, server := range []*httptest.Server{c.STS, c.EKS, c.Agent} {
		server.Close()
	}
}

// Client returns a new client that trusts STS and EKS.
func (c *Cloud) Client() *http.Client {
	client := *c.STS.Client() // httptest has one certificate for all servers.
	return &client
}

// AddRole adds or replaces a role.
func (c *Cloud) AddRole(r Role) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.roles[r.ARN] = r
}

// AddCluster adds or replaces a cluster.
func (c *Cloud) AddCluster(cluster Cluster) {
	c.lock.Lock()
	defer c.lock.Unlock()
	cluster.Status = cmp.Or(cluster.Status, "ACTIVE")
	c.clusters[[2]string{cluster.Region, cluster.Name}] = cluster
}

// Fail lets an operation fail.
func (c *Cloud) Fail(operation string, f Failure) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.failures[operation] = f
}

// Requests are those so far, in order.
func (c *Cloud) Requests() []Request {
	c.lock.Lock()
	defer c.lock.Unlock()
	return slices.Clone(c.requests)
}

// Operations are the names of the requests so far, in order.
func (c *Cloud) Operations() []string {
	var names []string
	for _, r := range c.Requests() {
		names = append(names, r.Operation)
	}
	return names
}

// Reset forgets the requests and the failures.
func (c *Cloud) Reset() {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.requests, c.failures = nil, map[string]Failure{}
}

// Secrets are the secret keys and session tokens that were given, which must show up nowhere.
func (c *Cloud) Secrets() []string {
	c.lock.Lock()
	defer c.lock.Unlock()
	var secrets []string
	for _, s := range c.sessions {
		secrets = append(secrets, s.secret, s.token)
	}
	return secrets
}

// record notes a request.
func (c *Cloud) record(r Request) {
	c.lock.Lock()
	defer c.lock.Unlock()
	c.requests = append(c.requests, r)
}

// fail answers with the failure of an operation, if it has one.
func (c *Cloud) fail(w http.ResponseWriter, r *http.Request, operation string, answer func(status int, code, message string)) bool {
	c.lock.Lock()
	f, found := c.failures[operation]
	if found && f.Times > 0 {
		if f.Times--; f.Times == 0 {
			delete(c.failures, operation)
		} else {
			c.failures[operation] = f
		}
	}
	c.lock.Unlock()
	if !found {
		return false
	}
	if f.Hang {
		select {
		case <-r.Context().Done():
		case <-c.done:
		}
		return true
	}
	for name, value := range map[string]string{"Retry-After": f.RetryAfter, "Location": f.Location} {
		if value != "" {
			w.Header().Set(name, value)
		}
	}
	if f.Body != "" {
		w.WriteHeader(f.Status)
		fmt.Fprint(w, f.Body)
		return true
	}
	// What AWS says has the values of the request, and an id that is never the same.
	answer(f.Status, f.Code, fmt.Sprintf("request %d of %s with %s", time.Now().UnixNano(), r.RemoteAddr, r.Header.Get("Authorization")))
	return true
}

// authenticate checks the signature of a request and returns whose it is.
func (c *Cloud) authenticate(r *http.Request, body []byte, service string) (s session, region string, err error) {
	signed, err := readHeader(r, body)
	if err != nil {
		return session{}, "", err
	}
	at, err := signed.at()
	if err != nil {
		return session{}, "", err
	}
	now := c.options.Clock.Now()
	if at.Sub(now).Abs() > requestAge {
		return session{}, "", fmt.Errorf("the signature is of another time than %s", now)
	}
	s, err = c.session(signed)
	if err != nil {
		return session{}, "", err
	}
	if signed.service != service {
		return session{}, "", fmt.Errorf("the signature is for %s", signed.service)
	}
	return s, signed.region, signed.verify(s.secret, r.Method, r.URL.EscapedPath(), headersOf(r))
}

func (c *Cloud) session(signed signature) (session, error) {
	c.lock.Lock()
	s, found := c.sessions[signed.keyID]
	c.lock.Unlock()
	if !found || s.token != signed.sessionToken || c.options.Clock.Now().After(s.expires) {
		return session{}, fmt.Errorf("no session has the key %s", signed.keyID)
	}
	return s, nil
}

// begin makes a session.
func (c *Cloud) begin(identity Identity, lifetime time.Duration) session {
	c.lock.Lock()
	defer c.lock.Unlock()
	n := len(c.sessions) + 1
	s := session{
		keyID: fmt.Sprintf("ASIAFAKE%08d", n), secret: fmt.Sprintf("s3nt1nel/secret+key/%020d", n),
		token: fmt.Sprintf("s3nt1nel/session+token==%020d", n), identity: identity, expires: c.options.Clock.Now().Add(lifetime),
	}
	c.sessions[s.keyID] = s
	return s
}

func (c *Cloud) role(arn string) (Role, bool) {
	c.lock.Lock()
	defer c.lock.Unlock()
	r, found := c.roles[arn]
	return r, found
}

// serveSTS is the query API: https://docs.aws.amazon.com/STS/latest/APIReference/welcome.html
func (c *Cloud) serveSTS(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", c.options.Clock.Now().UTC().Format(http.TimeFormat))
	w.Header().Set("Content-Type", "text/xml")
	refuse := func(status int, code, message string) {
		type fault struct{ Type, Code, Message string }
		w.WriteHeader(status)
		_ = xml.NewEncoder(w).Encode(struct {
			XMLName   xml.Name `xml:"ErrorResponse"`
			Error     fault
			RequestID string `xml:"RequestId"`
		}{Error: fault{"Sender", code, message}, RequestID: message})
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	form, err := url.ParseQuery(string(body))
	if err != nil || r.Method != http.MethodPost || r.URL.Path != "/" || form.Get("Version") != "2011-06-15" {
		refuse(http.StatusBadRequest, "InvalidAction", "no such request")
		return
	}
	operation := form.Get("Action")
	request := Request{Operation: operation, Form: form, Path: r.URL.Path}
	var caller session
	if operation == AssumeRole {
		if caller, request.Region, err = c.authenticate(r, body, "sts"); err != nil {
			c.record(request)
			refuse(http.StatusForbidden, "SignatureDoesNotMatch", err.Error())
			return
		}
		request.Role = caller.identity.RoleARN
	}
	c.record(request)
	if c.fail(w, r, operation, refuse) {
		return
	}
	role, found := c.role(form.Get("RoleArn"))
	switch {
	case operation == AssumeRoleWithWebIdentity && (r.Header.Get("Authorization") != "" || form.Get("WebIdentityToken") == ""):
		refuse(http.StatusBadRequest, "InvalidIdentityToken", "no web identity")
		return
	case operation == AssumeRoleWithWebIdentity && found && form.Get("WebIdentityToken") == role.WebIdentityToken:
	case operation == AssumeRole && found && role.TrustedRole == caller.identity.RoleARN && role.TrustedRole != "" && role.ExternalID == form.Get("ExternalId"):
	default:
		refuse(http.StatusForbidden, "AccessDenied", "not authorized to perform "+operation+" on "+form.Get("RoleArn"))
		return
	}
	seconds, err := strconv.Atoi(form.Get("DurationSeconds"))
	if name := form.Get("RoleSessionName"); err != nil || seconds < 900 || seconds > 43200 || len(name) < 2 || len(name) > 64 {
		refuse(http.StatusBadRequest, "ValidationError", "DurationSeconds or RoleSessionName")
		return
	}
	s := c.begin(Identity{role.ARN, form.Get("RoleSessionName")}, time.Duration(seconds)*time.Second)
	type given struct{ AccessKeyId, SecretAccessKey, SessionToken, Expiration string } //nolint:revive // the names in XML.
	type result struct{ Credentials given }
	answer := struct {
		XMLName xml.Name
		Result  struct {
			XMLName xml.Name
			result
		}
	}{XMLName: xml.Name{Local: operation + "Response"}}
	answer.Result.XMLName.Local = operation + "Result"
	answer.Result.Credentials = given{s.keyID, s.secret, s.token, s.expires.UTC().Format(time.RFC3339)}
	_ = xml.NewEncoder(w).Encode(answer)
}

// serveEKS is https://docs.aws.amazon.com/eks/latest/APIReference/API_DescribeCluster.html
func (c *Cloud) serveEKS(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Date", c.options.Clock.Now().UTC().Format(http.TimeFormat))
	w.Header().Set("Content-Type", "application/json")
	refuse := func(status int, code, message string) {
		w.Header().Set("X-Amzn-ErrorType", code)
		writeJSON(w, status, map[string]string{"message": message})
	}
	name, found := strings.CutPrefix(r.URL.Path, "/clusters/")
	if r.Method != http.MethodGet || !found || strings.Contains(name, "/") {
		refuse(http.StatusBadRequest, "InvalidRequestException", "no such request")
		return
	}
	caller, region, err := c.authenticate(r, nil, "eks")
	c.record(Request{Operation: DescribeCluster, Path: r.URL.Path, Region: region, Role: caller.identity.RoleARN})
	if err != nil {
		refuse(http.StatusForbidden, "InvalidSignatureException", err.Error())
		return
	}
	if c.fail(w, r, DescribeCluster, refuse) {
		return
	}
	c.lock.Lock()
	cluster, found := c.clusters[[2]string{region, name}]
	c.lock.Unlock()
	switch {
	case !found:
		refuse(http.StatusNotFound, "ResourceNotFoundException", "No cluster found for name: "+name)
	case !slices.Contains(cluster.Roles, caller.identity.RoleARN):
		refuse(http.StatusForbidden, "AccessDeniedException", "not authorized to perform eks:DescribeCluster on "+name)
	default:
		described := map[string]any{"name": cluster.Name, "status": cluster.Status}
		if cluster.Endpoint != "" {
			described["endpoint"] = cluster.Endpoint
			described["certificateAuthority"] = map[string]string{"data": base64.StdEncoding.EncodeToString(cluster.CA)}
		}
		writeJSON(w, http.StatusOK, map[string]any{"cluster": described})
	}
}

// writeJSON answers with a JSON object. An error is that of a client that left.
func writeJSON(w http.ResponseWriter, status int, object any) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(object) //nolint:errchkjson // maps of strings.
}

// serveAgent is https://docs.aws.amazon.com/sdkref/latest/guide/feature-container-credentials.html
func (c *Cloud) serveAgent(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	refuse := func(status int, code, message string) {
		writeJSON(w, status, map[string]string{"code": code, "message": message})
	}
	c.record(Request{Operation: PodIdentity, Path: r.URL.Path})
	if c.fail(w, r, PodIdentity, refuse) {
		return
	}
	if token := c.options.AgentToken; token == "" || r.Header.Get("Authorization") != token || r.URL.Path != "/v1/credentials" {
		refuse(http.StatusForbidden, "AccessDeniedException", "no association for "+r.Header.Get("Authorization"))
		return
	}
	s := c.begin(Identity{c.options.AgentRole, "pod-identity"}, SessionLifetime)
	writeJSON(w, http.StatusOK, map[string]string{
		"AccessKeyId": s.keyID, "SecretAccessKey": s.secret, "Token": s.token, "Expiration": s.expires.UTC().Format(time.RFC3339),
	})
}
