// Copyright Contributors to the Open Cluster Management project

//go:build linux

package exec_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"os"
	osexec "os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/credentialtest"
	"open-cluster-management.io/import-provider/pkg/credential/exec"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
)

const (
	v1      = "client.authentication.k8s.io/v1"
	v1beta1 = "client.authentication.k8s.io/v1beta1"

	server     = "https://api.example.com:6443"
	namespace  = "tenant"
	pluginName = "demo"
	// sentinel stands for a credential that must not come out.
	sentinel = "s3nt1nel-0c7f5e"
)

// platform is the one that the tests run on.
const platform = runtime.GOOS + "/" + runtime.GOARCH

// buildPlugin builds test/plugin once for all tests, and returns its path.
var buildPlugin = sync.OnceValues(func() (string, error) {
	path := filepath.Join(buildDir, "plugin")
	output, err := osexec.Command("go", "build", "-ldflags=-s -w", "-o", path,
		"open-cluster-management.io/import-provider/test/plugin").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, output)
	}
	return path, nil
})

var buildDir string

func TestMain(m *testing.M) {
	code := 1
	func() {
		var err error
		if buildDir, err = os.MkdirTemp("", "exec-test-"); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		defer func() { _ = os.RemoveAll(buildDir) }()
		code = m.Run()
	}()
	os.Exit(code)
}

// pluginDirectory is a directory with the test plugin, as a volume would be: nothing in it can be written.
func pluginDirectory(t testing.TB) (dir, digest string) {
	t.Helper()
	path, err := buildPlugin()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	writeFile(t, filepath.Join(dir, pluginName), data, 0o555)
	readOnly(t, dir)
	return dir, digestOf(data)
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func writeFile(t testing.TB, path string, data []byte, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	chmod(t, path, mode)
}

// readOnly is for the time of the test.
func readOnly(t testing.TB, dir string) {
	t.Helper()
	chmod(t, dir, 0o555)
	t.Cleanup(func() { chmod(t, dir, 0o755) })
}

func chmod(t testing.TB, path string, mode os.FileMode) {
	t.Helper()
	if err := os.Chmod(path, mode); err != nil {
		t.Error(err)
	}
}

// fixture is a resolver and what it works with. Fields may be changed between calls.
type fixture struct {
	credential.StanzaResolver
	dir    string
	plugin policy.Plugin
	rule   policy.Rule
	tokens *tokensource.Cache
}

// newFixture has one plugin, for all hosts of example.com, with the given template.
func newFixture(t testing.TB, args ...string) *fixture {
	t.Helper()
	dir, digest := pluginDirectory(t)
	f := &fixture{
		dir: dir,
		plugin: policy.Plugin{
			Name: pluginName, SHA256: map[string]string{platform: digest}, Args: args, Hosts: []string{"*.example.com"},
		},
		rule:   policy.Rule{Namespaces: []string{namespace}, Resolvers: []string{"exec"}, Plugins: []string{"de*"}},
		tokens: tokensource.NewCache(tokensource.Options{}),
	}
	f.StanzaResolver = exec.New(exec.Options{
		Policy: func() *policy.Policy { return f.policy(t) }, Tokens: f.tokens, Directory: dir,
	})
	return f
}

func (f *fixture) policy(t testing.TB) *policy.Policy {
	t.Helper()
	plugin := f.plugin
	plugin.Parameters = maps.Clone(plugin.Parameters)
	// Tests change the arguments, and a policy wants every parameter to be used.
	maps.DeleteFunc(plugin.Parameters, func(name, _ string) bool { return !strings.Contains(strings.Join(plugin.Args, " "), "{"+name+"}") })
	return parsePolicy(t, policy.ImportPolicy{Rules: []policy.Rule{f.rule}, Plugins: []policy.Plugin{plugin}})
}

func parsePolicy(t testing.TB, spec policy.ImportPolicy) *policy.Policy {
	t.Helper()
	spec.APIVersion, spec.Kind = policy.APIVersion, policy.Kind
	data, err := yaml.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// request is for an import Secret with a kubeconfig whose stanza is for the plugin, with the given arguments. Each has a UID of
// its own.
func request(t testing.TB, args ...string) credential.Request {
	t.Helper()
	return stanzaRequest(t, server, &clientcmdapi.ExecConfig{Command: pluginName, APIVersion: v1, Args: args})
}

func stanzaRequest(t testing.TB, server string, stanza *clientcmdapi.ExecConfig) credential.Request {
	t.Helper()
	if stanza.InteractiveMode == "" {
		stanza.InteractiveMode = clientcmdapi.NeverExecInteractiveMode
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: testCA()}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Exec: stanza}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	data, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	return secretRequest(map[string][]byte{"kubeconfig": data})
}

// documentRequest is for an import Secret without a kubeconfig.
func documentRequest(t testing.TB, p credential.ExecParameters) credential.Request {
	t.Helper()
	data, err := yaml.Marshal(credential.Document{Exec: &p})
	if err != nil {
		t.Fatal(err)
	}
	return secretRequest(map[string][]byte{credential.DocumentKey: data})
}

func secretRequest(data map[string][]byte) credential.Request {
	return credential.Request{ClusterName: "cluster1", Secret: &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "s", UID: types.UID(rand.Text()), ResourceVersion: "1"},
		Data:       data,
	}}
}

// bearer is the token that a request by a config carries.
func bearer(t testing.TB, config *rest.Config) string {
	t.Helper()
	token, err := credentialtest.SentToken(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

// report is what the mode report of the test plugin tells.
type report struct {
	Args, Env []string
	Dir       string
	Stdin     string
	PID, PGID int
}

func (f *fixture) report(t testing.TB, req credential.Request) report {
	t.Helper()
	config, err := f.Resolve(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	data, err := base64.RawURLEncoding.DecodeString(bearer(t, config))
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// countRuns passes the plugin the file in which it counts its runs.
func (f *fixture) countRuns(t testing.TB) (runs func() int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runs")
	t.Setenv("PLUGIN_RUNS", path)
	f.plugin.PassEnv = append(f.plugin.PassEnv, "PLUGIN_RUNS")
	return func() int {
		data, err := os.ReadFile(path)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Count(string(data), "\n")
	}
}

// testCA is a certificate that nothing verifies against.
var testCA = sync.OnceValue(func() []byte {
	cert, _ := certificate(time.Now().Add(time.Hour))
	return cert
})

// certificate is a self-signed certificate with its key.
func certificate(notAfter time.Time) (cert, key []byte) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: notAfter.Add(-24 * time.Hour), NotAfter: notAfter,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		panic(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
}

// expectError expects an error of a kind whose text has all the given parts and no credential.
func expectError(t testing.TB, err error, kind func(error) bool, parts ...string) {
	t.Helper()
	if err == nil || !kind(err) {
		t.Fatalf("an error of the wrong kind: %v", err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in: %v", part, err)
		}
	}
	if strings.Contains(fmt.Sprintf("%+v", err), sentinel) {
		t.Error("the error shows a credential")
	}
}
