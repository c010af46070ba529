// Copyright Contributors to the Open Cluster Management project

package exchange_test

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/import-provider/manifests"
	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/credentialtest"
	"open-cluster-management.io/import-provider/pkg/credential/exchange"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
)

const (
	sentinel = "s3nt1nel"
	original = sentinel + "-original"
	document = "exchange: token-request\n"

	defaultPath = "/api/v1/namespaces/kube-system/serviceaccounts/import-provider/token"

	neededText = "data key credential.yaml: the Secret holds no credential to exchange, and no token of an earlier one is left; put one into it"
	asking     = "asking for a token of the ServiceAccount: "
)

// spoke is an API server with one ServiceAccount. Its fields may be changed between requests.
type spoke struct {
	*httptest.Server
	clock *clocktesting.FakePassiveClock

	lock sync.Mutex // guards all below, for the time of a request or a change
	// accepted are the tokens that the server knows.
	accepted map[string]bool
	// answers are codes by path, in place of what would be answered.
	answers map[string]int
	// shortest bounds what is granted, if it is set.
	shortest time.Duration
	issued   int
	requests []string
	bodies   []string
}

func newSpoke(t *testing.T) *spoke {
	t.Helper()
	s := &spoke{
		clock: clocktesting.NewFakePassiveClock(time.Now()), accepted: map[string]bool{original: true}, answers: map[string]int{},
	}
	s.Server = httptest.NewTLSServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *spoke) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.lock.Lock()
	defer s.lock.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	body, _ := io.ReadAll(r.Body)
	s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI()+" "+token)
	s.bodies = append(s.bodies, string(body))
	code := s.answers[r.URL.Path]
	switch {
	case !s.accepted[token]:
		code = http.StatusUnauthorized
	case code != 0:
	case r.Method == http.MethodPatch:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body)
		return
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/token"):
		s.issue(w, body)
		return
	default:
		code = http.StatusOK
	}
	reason := map[int]metav1.StatusReason{
		401: metav1.StatusReasonUnauthorized, 403: metav1.StatusReasonForbidden, 404: metav1.StatusReasonNotFound,
	}[code]
	status := metav1.StatusFailure
	if code < 300 {
		status = metav1.StatusSuccess
	}
	write(w, code, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: status, Code: int32(code), Reason: reason, Message: "fixed text",
	})
}

func write(w http.ResponseWriter, code int, object any) {
	body, err := json.Marshal(object)
	if err != nil {
		code = http.StatusInternalServerError
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body)
}

func (s *spoke) issue(w http.ResponseWriter, body []byte) {
	var request authenticationv1.TokenRequest
	if err := json.Unmarshal(body, &request); err != nil || request.Spec.ExpirationSeconds == nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	lifetime := time.Duration(*request.Spec.ExpirationSeconds) * time.Second
	if s.shortest > 0 {
		lifetime = s.shortest
	}
	s.issued++
	token := fmt.Sprintf("%s-bound-%d", sentinel, s.issued)
	s.accepted[token] = true
	request.Status = authenticationv1.TokenRequestStatus{Token: token, ExpirationTimestamp: metav1.NewTime(s.clock.Now().Add(lifetime))}
	write(w, http.StatusCreated, request)
}

// edit changes the server between requests.
func (s *spoke) edit(change func()) {
	s.lock.Lock()
	defer s.lock.Unlock()
	change()
}

// taken returns the requests since the last call, as method, URI and token.
func (s *spoke) taken() []string {
	s.lock.Lock()
	defer s.lock.Unlock()
	requests := s.requests
	s.requests, s.bodies = nil, nil
	return requests
}

// expectRequests fails unless these were the requests since the last call.
func (s *spoke) expectRequests(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, s.taken()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func bound(n int) string { return fmt.Sprintf("%s-bound-%d", sentinel, n) }

func tokenRequest(token string) string { return "POST " + defaultPath + " " + token }

func (s *spoke) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// kubeconfig has a token.
func (s *spoke) kubeconfig(t *testing.T, token string) []byte {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: s.URL, CertificateAuthorityData: s.ca()}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// secret has a kubeconfig with the original token, and a document.
func (s *spoke) secret(t *testing.T, edits ...func(*corev1.Secret)) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "import", UID: "uid", ResourceVersion: "1", Annotations: map[string]string{}},
		Data:       map[string][]byte{"kubeconfig": s.kubeconfig(t, original), credential.DocumentKey: []byte(document)},
	}
	for _, edit := range edits {
		edit(secret)
	}
	return secret
}

func withDocument(text string) func(*corev1.Secret) {
	return func(secret *corev1.Secret) { secret.Data[credential.DocumentKey] = []byte(text) }
}

// changed is a later version of a Secret.
func changed(secret *corev1.Secret, edit func(*corev1.Secret)) *corev1.Secret {
	secret = secret.DeepCopy()
	secret.ResourceVersion += "0"
	edit(secret)
	return secret
}

func removed(keys ...string) func(*corev1.Secret) {
	return func(secret *corev1.Secret) {
		for _, key := range keys {
			delete(secret.Data, key)
		}
	}
}

// hub is the exchange as the hub has it, behind a Set.
type hub struct {
	*credential.Set
	tokens *tokensource.Cache
}

func newHub(t testing.TB, clock *clocktesting.FakePassiveClock) *hub {
	t.Helper()
	loopback, err := policy.Parse([]byte("apiVersion: " + policy.APIVersion + "\nkind: " + policy.Kind +
		"\nendpoints: {allowCIDRs: [127.0.0.0/8]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	tokens := tokensource.NewCache(tokensource.Options{Clock: clock})
	set, err := credential.NewSet(map[string]credential.Resolver{
		credential.ResolverKubeconfig: credential.NewKubeconfigResolver(credential.KubeconfigOptions{}),
		credential.ResolverToken:      credential.NewTokenResolver(),
	}, credential.SetOptions{
		Policy:    func() *policy.Policy { return loopback },
		Exchanger: exchange.New(exchange.Options{Tokens: tokens, HTTPClient: rest.HTTPClientFor, Clock: clock}),
		Forget:    tokens.Forget,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &hub{Set: set, tokens: tokens}
}

func (h *hub) resolve(t *testing.T, secret *corev1.Secret) (*rest.Config, error) {
	t.Helper()
	config, err := h.Resolve(t.Context(), credential.Request{ClusterName: "cluster1", Secret: secret})
	if err != nil && strings.Contains(fmt.Sprintf("%+v", err), sentinel) {
		t.Errorf("a token is in the error: %v", err)
	}
	return config, err
}

func (h *hub) mustResolve(t *testing.T, secret *corev1.Secret) *rest.Config {
	t.Helper()
	config, err := h.resolve(t, secret)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// use sends a request as an import does and returns the code of its answer.
func use(t *testing.T, config *rest.Config) (int, error) {
	t.Helper()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+"/version", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	return resp.StatusCode, nil
}

func TestConformance(t *testing.T) {
	s := newSpoke(t)
	credentialtest.RunConformance(t, credentialtest.Suite{
		Resolver:    newHub(t, s.clock),
		ValidSecret: func() *corev1.Secret { return s.secret(t) },
		InvalidSecrets: map[string]*corev1.Secret{
			"lifetime too short": s.secret(t, withDocument(document+"tokenRequest: {lifetime: 9m59s}")),
			"lifetime too long":  s.secret(t, withDocument(document+"tokenRequest: {lifetime: 24h0m1s}")),
			"negative lifetime":  s.secret(t, withDocument(document+"tokenRequest: {lifetime: -1h0m0s}")),
			"no namespace":       s.secret(t, withDocument(document+"tokenRequest: {serviceAccount: importer-name}")),
			"no name":            s.secret(t, withDocument(document+"tokenRequest: {serviceAccount: importer-namespace/}")),
			"a path":             s.secret(t, withDocument(document+"tokenRequest: {serviceAccount: namespace/../secrets/name}")),
			"a namespace's case": s.secret(t, withDocument(document+"tokenRequest: {serviceAccount: Name-Space/name}")),
			"no credential":      s.secret(t, removed("kubeconfig"), func(secret *corev1.Secret) { secret.UID = "another" }),
			"a broken one": s.secret(t, func(secret *corev1.Secret) {
				secret.Data["kubeconfig"] = []byte("users: " + sentinel)
			}),
		},
	})
	s.taken()
}

func TestExchange(t *testing.T) {
	cases := []struct {
		name, document, path string
		seconds              int64
	}{
		{"by default", "", defaultPath, 3600},
		{
			"another account", "tokenRequest: {serviceAccount: team/import.er, lifetime: 10m}",
			"/api/v1/namespaces/team/serviceaccounts/import.er/token", 600,
		},
		{"a day", "tokenRequest: {lifetime: 24h}", defaultPath, 86400},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newSpoke(t)
			config := newHub(t, s.clock).mustResolve(t, s.secret(t, withDocument(document+c.document)))
			var sent authenticationv1.TokenRequest
			if err := json.Unmarshal([]byte(s.bodies[0]), &sent); err != nil {
				t.Fatal(err)
			}
			want := authenticationv1.TokenRequestSpec{ExpirationSeconds: &c.seconds}
			if diff := cmp.Diff(want, sent.Spec); diff != "" {
				t.Errorf("asked for (-want +got):\n%s", diff)
			}
			s.expectRequests(t, "POST "+c.path+" "+original)
			if config.BearerToken != "" || config.Host != s.URL || !bytes.Equal(config.CAData, s.ca()) {
				t.Errorf("got %v", config)
			}
			if code, err := use(t, config); err != nil || code != http.StatusOK {
				t.Errorf("got %d, %v", code, err)
			}
			s.expectRequests(t, "GET /version "+bound(1))
		})
	}
}

func TestTokenIsKept(t *testing.T) {
	s := newSpoke(t)
	h, secret := newHub(t, s.clock), s.secret(t)
	for range 3 {
		h.mustResolve(t, secret)
	}
	// Of no concern to the credential.
	h.mustResolve(t, changed(secret, func(secret *corev1.Secret) { secret.Labels = map[string]string{"a": "b"} }))
	s.expectRequests(t, tokenRequest(original))
}

// The original may be revoked: its successor renews itself.
func TestTokenRenewsItself(t *testing.T) {
	s := newSpoke(t)
	h, secret := newHub(t, s.clock), s.secret(t)
	h.mustResolve(t, secret)
	s.edit(func() { delete(s.accepted, original) })
	for range 3 {
		s.clock.SetTime(s.clock.Now().Add(50 * time.Minute))
		h.mustResolve(t, secret)
	}
	s.expectRequests(t, tokenRequest(original), tokenRequest(bound(1)), tokenRequest(bound(2)), tokenRequest(bound(3)))

	// In the middle of an import, too.
	config := h.mustResolve(t, secret)
	s.clock.SetTime(s.clock.Now().Add(50 * time.Minute))
	if code, err := use(t, config); err != nil || code != http.StatusOK {
		t.Errorf("got %d, %v", code, err)
	}
	s.expectRequests(t, tokenRequest(bound(4)), "GET /version "+bound(5))
}

func TestOriginalIsUsedAgainAfterALapseOrARefusal(t *testing.T) {
	cases := []struct {
		name string
		ends func(s *spoke)
		want []string
	}{
		{"expired", func(s *spoke) { s.clock.SetTime(s.clock.Now().Add(61 * time.Minute)) }, []string{tokenRequest(original)}},
		{"revoked", func(s *spoke) {
			delete(s.accepted, bound(1))
			s.clock.SetTime(s.clock.Now().Add(50 * time.Minute))
		}, []string{tokenRequest(bound(1)), tokenRequest(original)}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newSpoke(t)
			h, secret := newHub(t, s.clock), s.secret(t)
			h.mustResolve(t, secret)
			s.taken()
			s.edit(func() { c.ends(s) })
			h.mustResolve(t, secret)
			s.expectRequests(t, c.want...)
		})
	}
	t.Run("refused in an import", func(t *testing.T) {
		s := newSpoke(t)
		h, secret := newHub(t, s.clock), s.secret(t)
		config := h.mustResolve(t, secret)
		s.edit(func() { delete(s.accepted, bound(1)) })
		if code, err := use(t, config); err != nil || code != http.StatusUnauthorized {
			t.Errorf("got %d, %v", code, err)
		}
		if _, err := use(t, config); !credential.IsMintFailed(err) || !strings.Contains(err.Error(), "does not accept it any more") {
			t.Errorf("got %v", err)
		}
		h.mustResolve(t, secret)
		s.expectRequests(t, tokenRequest(original), "GET /version "+bound(1), tokenRequest(original))
	})
}

func TestServerMayGrantLess(t *testing.T) {
	s := newSpoke(t)
	s.shortest = 20 * time.Minute
	h, secret := newHub(t, s.clock), s.secret(t)
	h.mustResolve(t, secret)
	s.clock.SetTime(s.clock.Now().Add(16 * time.Minute))
	h.mustResolve(t, secret)
	s.expectRequests(t, tokenRequest(original), tokenRequest(bound(1)))
}

func TestServerThatClaimsToGrantMoreIsNotBelieved(t *testing.T) {
	s := newSpoke(t)
	s.shortest = 1000 * time.Hour
	h, secret := newHub(t, s.clock), s.secret(t)
	h.mustResolve(t, secret)
	s.clock.SetTime(s.clock.Now().Add(time.Hour))
	h.mustResolve(t, secret)
	s.expectRequests(t, tokenRequest(original), tokenRequest(original))
}

func TestOriginalMayBeRemoved(t *testing.T) {
	tokenSecret := func(s *spoke) func(*corev1.Secret) {
		return func(secret *corev1.Secret) {
			secret.Annotations[credential.AnnotationCredentialResolver] = credential.ResolverToken
			delete(secret.Data, "kubeconfig")
			secret.Data["server"], secret.Data["ca.crt"], secret.Data["token"] = []byte(s.URL), s.ca(), []byte(original)
		}
	}
	cases := []struct {
		name    string
		secret  func(t *testing.T, s *spoke) *corev1.Secret
		removed []string
		// again is the error after a restart.
		again string
	}{
		{
			"a kubeconfig", func(t *testing.T, s *spoke) *corev1.Secret { return s.secret(t) }, []string{"kubeconfig"},
			neededText + ": credential resolver kubeconfig: no kubeconfig: ",
		},
		{
			"all of a token", func(t *testing.T, s *spoke) *corev1.Secret { return s.secret(t, tokenSecret(s)) },
			[]string{"server", "ca.crt", "token"}, neededText + ": credential resolver token: data key server is missing: ",
		},
		{
			"a token alone", func(t *testing.T, s *spoke) *corev1.Secret { return s.secret(t, tokenSecret(s)) },
			[]string{"token"}, "credential resolver token: data key token is missing: ",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newSpoke(t)
			h, full := newHub(t, s.clock), c.secret(t, s)
			h.mustResolve(t, full)
			empty := changed(full, removed(c.removed...))
			// The config is the caller's.
			clear(h.mustResolve(t, empty).CAData)
			s.clock.SetTime(s.clock.Now().Add(50 * time.Minute))
			config := h.mustResolve(t, empty)
			if code, err := use(t, config); err != nil || code != http.StatusOK {
				t.Errorf("got %d, %v", code, err)
			}
			s.expectRequests(t, tokenRequest(original), tokenRequest(bound(1)), "GET /version "+bound(2))

			if _, err := newHub(t, s.clock).resolve(t, empty); !credential.IsInvalid(err) || !strings.HasPrefix(err.Error(), c.again) {
				t.Errorf("after a restart: got %v", err)
			}
			s.clock.SetTime(s.clock.Now().Add(61 * time.Minute))
			if _, err := h.resolve(t, empty); !credential.IsInvalid(err) || err.Error() != neededText {
				t.Errorf("after a lapse: got %v", err)
			}
			s.expectRequests(t)
			h.mustResolve(t, changed(empty, func(secret *corev1.Secret) { secret.Data = full.Data }))
			s.expectRequests(t, tokenRequest(original))
		})
	}
}

func TestTokenOfARemovedOriginalIsRevoked(t *testing.T) {
	s := newSpoke(t)
	h, full := newHub(t, s.clock), s.secret(t)
	h.mustResolve(t, full)
	empty := changed(full, removed("kubeconfig"))
	s.edit(func() { delete(s.accepted, bound(1)) })
	if code, err := use(t, h.mustResolve(t, empty)); err != nil || code != http.StatusUnauthorized {
		t.Errorf("got %d, %v", code, err)
	}
	if _, err := h.resolve(t, empty); !credential.IsInvalid(err) || err.Error() != neededText {
		t.Errorf("got %v", err)
	}
}

// Nothing but a removal keeps the token: what is there counts, also when it is broken.
func TestWhatIsReplacedIsNotTakenForRemoved(t *testing.T) {
	other := newSpoke(t)
	cases := map[string]func(t *testing.T, secret *corev1.Secret){
		"broken": func(_ *testing.T, secret *corev1.Secret) { secret.Data["kubeconfig"] = []byte("{}") },
		"empty":  func(_ *testing.T, secret *corev1.Secret) { secret.Data["kubeconfig"] = nil },
		"another account": func(_ *testing.T, secret *corev1.Secret) {
			removed("kubeconfig")(secret)
			withDocument(document + "tokenRequest: {serviceAccount: a/b}")(secret)
		},
		"another key": func(t *testing.T, secret *corev1.Secret) {
			removed("kubeconfig")(secret)
			secret.Data["value"] = other.kubeconfig(t, "not known there")
		},
		"another resolver": func(_ *testing.T, secret *corev1.Secret) {
			removed("kubeconfig")(secret)
			secret.Annotations[credential.AnnotationCredentialResolver] = credential.ResolverToken
		},
	}
	for name, edit := range cases {
		t.Run(name, func(t *testing.T) {
			s := newSpoke(t)
			h, secret := newHub(t, s.clock), s.secret(t)
			h.mustResolve(t, secret)
			s.taken()
			if _, err := h.resolve(t, changed(secret, func(secret *corev1.Secret) { edit(t, secret) })); err == nil {
				t.Error("the old token is used")
			}
			s.expectRequests(t)
		})
	}
}

func TestRotation(t *testing.T) {
	s := newSpoke(t)
	next := sentinel + "-next"
	s.accepted[next] = true
	h, secret := newHub(t, s.clock), s.secret(t)
	old := h.mustResolve(t, secret)
	rotated := changed(secret, func(secret *corev1.Secret) { secret.Data["kubeconfig"] = s.kubeconfig(t, next) })
	config := h.mustResolve(t, rotated)
	s.expectRequests(t, tokenRequest(original), tokenRequest(next))
	if code, err := use(t, config); err != nil || code != http.StatusOK {
		t.Errorf("got %d, %v", code, err)
	}
	s.expectRequests(t, "GET /version "+bound(2))
	if _, err := use(t, old); !credential.IsMintFailed(err) {
		t.Errorf("the import by the old token: got %v", err)
	}
	// Who has read the Secret before.
	if _, err := h.resolve(t, secret); !credential.IsMintFailed(err) {
		t.Errorf("the old Secret: got %v", err)
	}
	s.expectRequests(t)
}

func TestAnotherServerNeverSeesTheToken(t *testing.T) {
	first, second := newSpoke(t), newSpoke(t)
	h, secret := newHub(t, first.clock), first.secret(t)
	h.mustResolve(t, secret)
	moved := h.mustResolve(t, changed(secret, func(secret *corev1.Secret) { secret.Data["kubeconfig"] = second.kubeconfig(t, original) }))
	if _, err := use(t, moved); err != nil {
		t.Error(err)
	}
	// The token of either server is number 1.
	second.expectRequests(t, tokenRequest(original), "GET /version "+bound(1))
	first.expectRequests(t, tokenRequest(original))

	config := h.mustResolve(t, changed(secret, func(secret *corev1.Secret) {
		secret.ResourceVersion = "99999"
		secret.Data["kubeconfig"] = first.kubeconfig(t, original)
	}))
	first.taken()
	redirected := rest.CopyConfig(config)
	redirected.Host = second.URL
	redirected.CAData = second.ca()
	second.taken()
	if _, err := use(t, redirected); !credential.IsDenied(err) {
		t.Errorf("got %v", err)
	}
	second.expectRequests(t)
}

// A ClusterProfile, and a cloud, may say that a cluster is elsewhere now, without a change of the Secret.
func TestServerThatChangesWithoutTheSecret(t *testing.T) {
	first, second := newSpoke(t), newSpoke(t)
	second.issued = 10
	e := exchange.New(exchange.Options{
		Tokens: tokensource.NewCache(tokensource.Options{Clock: first.clock}), HTTPClient: rest.HTTPClientFor, Clock: first.clock,
	})
	secret := first.secret(t)
	for i, s := range []*spoke{first, second, first, second} {
		if i == 2 {
			secret = changed(secret, func(*corev1.Secret) {})
		}
		config, err := e.Exchange(t.Context(), credential.Request{Secret: secret}, credential.TokenRequestParameters{},
			func(context.Context) (*rest.Config, error) {
				return &rest.Config{Host: s.URL, BearerToken: original, TLSClientConfig: rest.TLSClientConfig{CAData: s.ca()}}, nil
			})
		if err != nil {
			t.Fatal(err)
		}
		if code, err := use(t, config); err != nil || code != http.StatusOK {
			t.Errorf("got %d, %v", code, err)
		}
	}
	first.expectRequests(t, tokenRequest(original), "GET /version "+bound(1), tokenRequest(original), "GET /version "+bound(2))
	second.expectRequests(t, tokenRequest(original), "GET /version "+bound(11), tokenRequest(original), "GET /version "+bound(12))
}

func TestForgottenSecret(t *testing.T) {
	s := newSpoke(t)
	h, secret := newHub(t, s.clock), s.secret(t)
	config := h.mustResolve(t, secret)
	h.Forget("uid")
	s.taken()
	if _, err := use(t, config); !credential.IsMintFailed(err) {
		t.Errorf("got %v", err)
	}
	if _, err := h.resolve(t, changed(secret, removed("kubeconfig"))); !credential.IsMintFailed(err) {
		t.Errorf("got %v", err)
	}
	s.expectRequests(t)
}

func TestTwoSecretsShareNothing(t *testing.T) {
	s := newSpoke(t)
	h, secret := newHub(t, s.clock), s.secret(t)
	h.mustResolve(t, secret)
	thief := s.secret(t, removed("kubeconfig"), func(secret *corev1.Secret) { secret.UID = types.UID("thief") })
	if _, err := h.resolve(t, thief); !credential.IsInvalid(err) {
		t.Errorf("got %v", err)
	}
	s.expectRequests(t, tokenRequest(original))
}

func TestFailures(t *testing.T) {
	const create = "tokenRequest: {create: true}"
	role := "/apis/rbac.authorization.k8s.io/v1/clusterroles/open-cluster-management:importer"
	account := "/api/v1/namespaces/kube-system/serviceaccounts/import-provider"
	cases := []struct {
		name, document string
		edit           func(s *spoke)
		is             func(error) bool
		want           string
	}{
		{
			"not permitted", "", func(s *spoke) { s.answers[defaultPath] = http.StatusForbidden }, credential.IsMintFailed,
			asking + "the credential may not do that; let it create serviceaccounts/token, as manifests/managed-cluster lets the account itself",
		},
		{
			"no account", "", func(s *spoke) { s.answers[defaultPath] = http.StatusNotFound }, credential.IsInvalid,
			"data key credential.yaml: the ServiceAccount does not exist on the cluster; apply manifests/managed-cluster there, " +
				"set tokenRequest.create to true, or correct tokenRequest.serviceAccount",
		},
		{"no token", "", func(s *spoke) { s.answers[defaultPath] = http.StatusOK }, credential.IsMintFailed, "what was issued holds no token; it is tried again"},
		{
			"a request that is refused", "", func(s *spoke) { s.answers[defaultPath] = http.StatusUnprocessableEntity }, credential.IsMintFailed,
			asking + "fixed text; see what refuses it on the cluster, such as an admission policy",
		},
		{
			"no permission to create a role", create, func(s *spoke) { s.answers[role] = http.StatusForbidden }, credential.IsMintFailed,
			"creating the ClusterRole of the ServiceAccount: the credential may not do that; apply manifests/managed-cluster to the " +
				"cluster and remove tokenRequest.create, or use the credential of an administrator",
		},
		{
			"a refusal to create an account", create, func(s *spoke) { s.answers[account] = http.StatusConflict }, credential.IsMintFailed,
			"creating the ServiceAccount of the ServiceAccount: fixed text; see what refuses it on the cluster, such as an admission policy",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newSpoke(t)
			s.edit(func() { c.edit(s) })
			h := newHub(t, s.clock)
			for range 2 {
				_, err := h.resolve(t, s.secret(t, withDocument(document+c.document)))
				if !c.is(err) || credential.IsClusterFailed(err) {
					t.Fatalf("got %v", err)
				}
				if err.Error() != c.want {
					t.Errorf("got  %s\nwant %s", err, c.want)
				}
			}
		})
	}
}

// The provider finds what failed in the error, whose own text says nothing of it.
func TestFailuresOfTheCluster(t *testing.T) {
	code := func(code int) func(error) bool {
		return func(err error) bool {
			status, found := errors.AsType[*apierrors.StatusError](err)
			return found && int(status.ErrStatus.Code) == code
		}
	}
	answers := func(path string, code int) func(s *spoke) { return func(s *spoke) { s.answers[path] = code } }
	cases := []struct {
		name, document string
		edit           func(s *spoke)
		is             func(error) bool
	}{
		{"not accepted", "", func(s *spoke) { delete(s.accepted, original) }, code(http.StatusUnauthorized)},
		{"not accepted, to create", "tokenRequest: {create: true}", func(s *spoke) { delete(s.accepted, original) }, code(http.StatusUnauthorized)},
		{"throttled", "", answers(defaultPath, http.StatusTooManyRequests), code(http.StatusTooManyRequests)},
		{"a failure of the server", "", answers(defaultPath, http.StatusInternalServerError), code(http.StatusInternalServerError)},
		{"unavailable", "", answers(defaultPath, http.StatusServiceUnavailable), code(http.StatusServiceUnavailable)},
		{"no answer", "", func(s *spoke) { s.Close() }, func(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newSpoke(t)
			c.edit(s)
			h := newHub(t, s.clock)
			for range 2 {
				_, err := h.resolve(t, s.secret(t, withDocument(document+c.document)))
				if !credential.IsClusterFailed(err) || credential.IsMintFailed(err) || credential.IsInvalid(err) || !c.is(err) {
					t.Fatalf("got %v", err)
				}
				if err.Error() != "the managed cluster gives no short-lived credential" {
					t.Errorf("got %s", err)
				}
			}
		})
	}
}

// While the token lives a cluster that fails now costs nothing.
func TestTokenIsUsedWhileTheClusterFails(t *testing.T) {
	for name, code := range map[string]int{"failure": http.StatusInternalServerError, "not permitted": http.StatusForbidden} {
		t.Run(name, func(t *testing.T) {
			s := newSpoke(t)
			h, secret := newHub(t, s.clock), s.secret(t)
			h.mustResolve(t, secret)
			s.edit(func() { s.answers[defaultPath] = code })
			s.clock.SetTime(s.clock.Now().Add(50 * time.Minute))
			if code, err := use(t, h.mustResolve(t, secret)); err != nil || code != http.StatusOK {
				t.Errorf("got %d, %v", code, err)
			}
		})
	}
}

func TestClientThatCannotBeBuilt(t *testing.T) {
	s := newSpoke(t)
	want := errors.New("the TLS settings cannot be used")
	e := exchange.New(exchange.Options{
		Tokens:     tokensource.NewCache(tokensource.Options{Clock: s.clock}),
		HTTPClient: func(*rest.Config) (*http.Client, error) { return nil, want },
	})
	_, err := e.Exchange(t.Context(), credential.Request{Secret: s.secret(t)}, credential.TokenRequestParameters{},
		func(context.Context) (*rest.Config, error) { return &rest.Config{Host: s.URL}, nil })
	if !credential.IsInvalid(err) || err.Error() != want.Error() {
		t.Errorf("got %v", err)
	}
}

func TestErrorsOfTheOriginalStay(t *testing.T) {
	e := exchange.New(exchange.Options{Tokens: tokensource.NewCache(tokensource.Options{})})
	for _, want := range []error{
		errors.New("a bug"), context.Canceled, credential.Denied(errors.New("denied")), credential.Pending(errors.New("pending"), time.Second),
		credential.MintFailed(errors.New("failed")), credential.Invalid(errors.New("invalid")),
	} {
		secret := &corev1.Secret{Data: map[string][]byte{"kubeconfig": nil, credential.DocumentKey: nil}}
		_, err := e.Exchange(t.Context(), credential.Request{Secret: secret}, credential.TokenRequestParameters{},
			func(context.Context) (*rest.Config, error) { return nil, want })
		if !errors.Is(err, want) || err.Error() != want.Error() {
			t.Errorf("got %v, want %v", err, want)
		}
	}
}

func TestCreate(t *testing.T) {
	s := newSpoke(t)
	h, secret := newHub(t, s.clock), s.secret(t, withDocument(document+"tokenRequest: {create: true}"))
	h.mustResolve(t, secret)
	want := manifestsOf(t)
	bodies := s.bodies[:len(s.bodies)-1]
	if len(bodies) != len(want) {
		t.Fatalf("%d objects, want %d", len(bodies), len(want))
	}
	for i, body := range bodies {
		var got any
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[i], got); diff != "" {
			t.Errorf("object %d (-want +got):\n%s", i, diff)
		}
	}
	const rbac = "PATCH /apis/rbac.authorization.k8s.io/v1/"
	const apply = "?fieldManager=import-provider&force=true " + original
	s.expectRequests(t,
		rbac+"clusterroles/open-cluster-management:importer"+apply,
		"PATCH /api/v1/namespaces/kube-system/serviceaccounts/import-provider"+apply,
		rbac+"clusterrolebindings/open-cluster-management:importer"+apply,
		rbac+"namespaces/kube-system/roles/open-cluster-management:importer"+apply,
		rbac+"namespaces/kube-system/rolebindings/open-cluster-management:importer"+apply,
		tokenRequest(original))

	// The account itself creates nothing.
	s.clock.SetTime(s.clock.Now().Add(50 * time.Minute))
	h.mustResolve(t, secret)
	s.expectRequests(t, tokenRequest(bound(1)))
}

func manifestsOf(t *testing.T) []any {
	t.Helper()
	var objects []any
	for document := range strings.SplitSeq(manifests.ManagedCluster(), "\n---\n") {
		var object any
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		objects = append(objects, object)
	}
	return objects
}

func TestCreateOfAnotherAccount(t *testing.T) {
	s := newSpoke(t)
	newHub(t, s.clock).mustResolve(t, s.secret(t, withDocument(document+"tokenRequest: {create: true, serviceAccount: team/importer}")))
	bodies := strings.Join(s.bodies, "\n")
	if strings.Contains(bodies, exchange.DefaultNamespace) || strings.Contains(bodies, exchange.DefaultName) {
		t.Errorf("the account of the manifests is in %s", bodies)
	}
	var got []string
	for _, body := range s.bodies {
		var object struct {
			Kind     string
			Metadata metav1.ObjectMeta
			RoleRef  struct{ Kind, Name string }
			Subjects []struct{ Kind, Namespace, Name string }
			Rules    []struct{ ResourceNames []string }
		}
		if err := json.Unmarshal([]byte(body), &object); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s/%s %v%v", object.Kind, object.Metadata.Namespace, object.Metadata.Name, object.RoleRef, object.Subjects))
		if object.Kind == "Role" && !slices.Equal(object.Rules[0].ResourceNames, []string{"importer"}) {
			t.Errorf("the role is for %q", object.Rules[0].ResourceNames)
		}
	}
	want := []string{
		"Namespace /team { }[]",
		"ClusterRole /open-cluster-management:importer { }[]",
		"ServiceAccount team/importer { }[]",
		"ClusterRoleBinding /open-cluster-management:importer:team:importer {ClusterRole open-cluster-management:importer}[{ServiceAccount team importer}]",
		"Role team/open-cluster-management:importer:importer { }[]",
		"RoleBinding team/open-cluster-management:importer:importer {Role open-cluster-management:importer:importer}[{ServiceAccount team importer}]",
		"TokenRequest / { }[]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}

	// No Namespace is applied that is not the account's own.
	newHub(t, s.clock).mustResolve(t, s.secret(t, withDocument(document+"tokenRequest: {create: true, serviceAccount: kube-system/importer}")))
	if strings.Contains(strings.Join(s.taken(), "\n"), "/namespaces/kube-system?") {
		t.Error("kube-system is applied")
	}
}

// The Secret can be collected while the token and its source live on.
func TestOriginalIsNotKept(t *testing.T) {
	s := newSpoke(t)
	e := exchange.New(exchange.Options{
		Tokens: tokensource.NewCache(tokensource.Options{Clock: s.clock}), HTTPClient: rest.HTTPClientFor, Clock: s.clock,
	})
	var collected atomic.Bool
	config := func() *rest.Config {
		secret := s.secret(t)
		given := &rest.Config{Host: s.URL, BearerToken: original, TLSClientConfig: rest.TLSClientConfig{CAData: s.ca()}}
		runtime.AddCleanup(given, func(flag *atomic.Bool) { flag.Store(true) }, &collected)
		config, err := e.Exchange(t.Context(), credential.Request{Secret: secret}, credential.TokenRequestParameters{},
			func(context.Context) (*rest.Config, error) { return given, nil })
		if err != nil {
			t.Fatal(err)
		}
		return config
	}()
	for deadline := time.Now().Add(5 * time.Second); !collected.Load(); runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatal("the config with the original credential is still referred to")
		}
	}
	runtime.KeepAlive(config)
	runtime.KeepAlive(e)
}

func TestParallelResolvesExchangeOnce(t *testing.T) {
	s := newSpoke(t)
	h, secret := newHub(t, s.clock), s.secret(t)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := h.resolve(t, secret); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	s.expectRequests(t, tokenRequest(original))
}

func TestTheAccountOfTheManifests(t *testing.T) {
	for _, want := range []string{
		"kind: ServiceAccount\nmetadata:\n  name: " + exchange.DefaultName + "\n  namespace: " + exchange.DefaultNamespace + "\n",
		"resources: [serviceaccounts/token]\n  resourceNames: [" + exchange.DefaultName + "]\n",
	} {
		if !strings.Contains(manifests.ManagedCluster(), want) {
			t.Errorf("manifests/managed-cluster does not have %q", want)
		}
	}
}
