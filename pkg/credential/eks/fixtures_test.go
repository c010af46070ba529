// Copyright Contributors to the Open Cluster Management project

package eks_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/cloud"
	"open-cluster-management.io/import-provider/pkg/credential/credentialtest"
	"open-cluster-management.io/import-provider/pkg/credential/eks"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/test/cloud/aws"
)

const (
	hubRole    = "arn:aws:iam::111111111111:role/hub"
	spokeRole  = "arn:aws:iam::222222222222:role/import/spoke"
	region     = "eu-central-1"
	server     = "https://0123456789ABCDEF.gr7.eu-central-1.eks.amazonaws.com"
	webToken   = "s3nt1nel-web-identity-token"
	agentToken = "s3nt1nel-agent-token"
)

// newCA returns a new certificate; nothing verifies against it.
func newCA() []byte {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

var ca = sync.OnceValue(newCA)

var theCluster = aws.Cluster{Name: "prod-1", Region: region, Endpoint: server, Roles: []string{hubRole, spokeRole}}

// hub is a hub with a workload identity, a policy, and a fake of AWS.
type hub struct {
	aws       *aws.Cloud
	clock     *clocktesting.FakePassiveClock
	env       map[string]string
	rule      policy.EKS // for namespace
	namespace string
	extra     string // more of the policy, at the top level
	// noClouds leaves the addresses of the fake out of the policy.
	noClouds bool
	options  cloud.Options
}

// newHub returns one with the role hubRole by IRSA, whose policy allows hubRole and spokeRole.
func newHub(t testing.TB) *hub {
	t.Helper()
	// Far from the time of the machine, so that a use of that shows.
	clock := clocktesting.NewFakePassiveClock(time.Date(2031, 2, 3, 4, 5, 6, 0, time.UTC))
	h := &hub{
		clock: clock, aws: aws.New(aws.Options{Clock: clock, AgentToken: agentToken, AgentRole: hubRole}),
		namespace: "tenant",
		rule:      policy.EKS{HubIdentity: true, Roles: []string{"arn:aws:iam::222222222222:role/import/*"}},
	}
	t.Cleanup(h.aws.Close)
	h.aws.AddRole(aws.Role{ARN: hubRole, WebIdentityToken: webToken})
	h.aws.AddRole(aws.Role{ARN: spokeRole, TrustedRole: hubRole})
	cluster := theCluster
	cluster.CA = ca()
	h.aws.AddCluster(cluster)
	h.env = map[string]string{"AWS_ROLE_ARN": hubRole, "AWS_WEB_IDENTITY_TOKEN_FILE": write(t, webToken)}
	h.options = cloud.Options{
		Policy: h.policy, Tokens: newTokens(clock), Clock: clock,
		HTTPClient: h.aws.Client(), Getenv: func(name string) string { return h.env[name] },
	}
	return h
}

// usePodIdentity gives the hub the same role by EKS Pod Identity.
func (h *hub) usePodIdentity(t testing.TB) {
	t.Helper()
	h.env = map[string]string{
		"AWS_CONTAINER_CREDENTIALS_FULL_URI":     h.aws.Agent.URL + "/v1/credentials",
		"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": write(t, agentToken),
	}
}

func (h *hub) policy() *policy.Policy {
	text := fmt.Sprintf("apiVersion: %s\nkind: %s\n%s", policy.APIVersion, policy.Kind, h.extra)
	if !h.noClouds {
		text += fmt.Sprintf("clouds: {aws: {sts: %q, eks: %q}}\n", h.aws.STS.URL, h.aws.EKS.URL)
	}
	p, err := policy.Parse([]byte(text))
	if err != nil {
		panic(err)
	}
	return p.WithRules(policy.Rule{Namespaces: []string{h.namespace}, Resolvers: []string{"eks"}, EKS: h.rule})
}

func (h *hub) resolve(ctx context.Context, secret *corev1.Secret) (*rest.Config, error) {
	return eks.New(h.options).Resolve(ctx, credential.Request{ClusterName: "cluster1", Secret: secret})
}

// mustResolve resolves a Secret and checks that a request then carries a token that theCluster accepts.
func (h *hub) mustResolve(t testing.TB, secret *corev1.Secret) {
	t.Helper()
	config, err := h.resolve(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	h.identity(t, config)
}

func newTokens(clock *clocktesting.FakePassiveClock) *tokensource.Cache {
	return tokensource.NewCache(tokensource.Options{Clock: clock})
}

func (h *hub) identity(t testing.TB, config *rest.Config) aws.Identity {
	t.Helper()
	identity, err := h.aws.Verify(bearer(t, config), theCluster)
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

// bearer returns the token that a request with a config carries.
func bearer(t testing.TB, config *rest.Config) string {
	t.Helper()
	token, err := credentialtest.SentToken(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func write(t testing.TB, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// stanzaSecret returns a Secret with the kubeconfig of theCluster and a stanza.
func stanzaSecret(command string, args []string, edits ...func(file *clientcmdapiv1.Config)) *corev1.Secret {
	file := &clientcmdapiv1.Config{
		APIVersion: "v1", Kind: "Config", CurrentContext: "c",
		Clusters: []clientcmdapiv1.NamedCluster{{Name: "c", Cluster: clientcmdapiv1.Cluster{Server: server, CertificateAuthorityData: ca()}}},
		AuthInfos: []clientcmdapiv1.NamedAuthInfo{{Name: "u", AuthInfo: clientcmdapiv1.AuthInfo{Exec: &clientcmdapiv1.ExecConfig{
			APIVersion: "client.authentication.k8s.io/v1beta1", Command: command, Args: args,
		}}}},
		Contexts: []clientcmdapiv1.NamedContext{{Name: "c", Context: clientcmdapiv1.Context{Cluster: "c", AuthInfo: "u"}}},
	}
	for _, edit := range edits {
		edit(file)
	}
	data, err := yaml.Marshal(file)
	if err != nil {
		panic(err)
	}
	return newSecret("kubeconfig", data)
}

// awsSecret returns what "aws eks update-kubeconfig" makes, with more arguments.
func awsSecret(args ...string) *corev1.Secret {
	return stanzaSecret("aws", append([]string{"--region", region, "eks", "get-token", "--cluster-name", theCluster.Name, "--output", "json"}, args...))
}

// documentSecret returns a Secret with credential.yaml.
func documentSecret(p credential.EKSParameters) *corev1.Secret {
	data, err := yaml.Marshal(credential.Document{EKS: &p})
	if err != nil {
		panic(err)
	}
	return newSecret(credential.DocumentKey, data)
}

func newSecret(key string, data []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "import", UID: types.UID("uid"), ResourceVersion: "1"},
		Data:       map[string][]byte{key: data},
	}
}

// Kinds of errors, as expect names them.
const (
	invalid = "invalid"
	denied  = "denied"
	pending = "pending"
	failed  = "failed"
)

// expect checks the kind and the text of an error.
func expect(t *testing.T, err error, kind, text string) {
	t.Helper()
	if err == nil {
		t.Fatalf("got no error, want %s", text)
	}
	_, isPending := credential.IsPending(err)
	for name, is := range map[string]bool{
		invalid: credential.IsInvalid(err), denied: credential.IsDenied(err), pending: isPending, failed: credential.IsMintFailed(err),
		"of the context": errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded),
	} {
		if is != (name == kind) {
			t.Errorf("%v: that it is %s is %t", err, name, is)
		}
	}
	if err.Error() != text {
		t.Errorf("got  %s\nwant %s", err, text)
	}
}
