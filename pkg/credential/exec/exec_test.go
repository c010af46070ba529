// Copyright Contributors to the Open Cluster Management project

//go:build linux

package exec_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clientauthenticationv1 "k8s.io/client-go/pkg/apis/clientauthentication/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/credentialtest"
	"open-cluster-management.io/import-provider/pkg/credential/exec"
	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

func TestConformance(t *testing.T) {
	f := newFixture(t, "report", "--cluster={cluster}")
	f.plugin.Parameters = map[string]string{"cluster": "[a-z-]+"}
	t.Run("stanza", func(t *testing.T) {
		secret := func(server string, stanza clientcmdapi.ExecConfig) *corev1.Secret {
			return stanzaRequest(t, server, &stanza).Secret
		}
		valid := clientcmdapi.ExecConfig{Command: pluginName, APIVersion: v1, Args: []string{"report", "--cluster=" + "production-one"}}
		invalid := func(change func(*clientcmdapi.ExecConfig)) *corev1.Secret {
			stanza := valid
			change(&stanza)
			return secret(server, stanza)
		}
		credentialtest.RunConformance(t, credentialtest.Suite{
			Resolver:    f,
			ValidSecret: func() *corev1.Secret { return secret(server, valid) },
			InvalidSecrets: map[string]*corev1.Secret{
				"no kubeconfig": secretRequest(nil).Secret,
				"other command": invalid(func(e *clientcmdapi.ExecConfig) { e.Command = "/usr/bin/another-command" }),
				"other version": invalid(func(e *clientcmdapi.ExecConfig) { e.APIVersion = v1beta1 }),
				"other args":    invalid(func(e *clientcmdapi.ExecConfig) { e.Args = []string{"report", "--cluster=" + sentinel} }),
				"more args":     invalid(func(e *clientcmdapi.ExecConfig) { e.Args = append(e.Args, "--kubeconfig="+sentinel) }),
				"env": invalid(func(e *clientcmdapi.ExecConfig) {
					e.Env = []clientcmdapi.ExecEnvVar{{Name: "LD_PRELOAD", Value: "/tmp/" + sentinel}}
				}),
				"other host": secret("https://"+sentinel+".example.net", valid),
			},
		})
	})
	t.Run("document", func(t *testing.T) {
		valid := credential.ExecParameters{
			Plugin: pluginName, Server: server, CertificateAuthorityData: string(testCA()), Parameters: map[string]string{"cluster": "production-one"},
		}
		invalid := func(change func(*credential.ExecParameters)) *corev1.Secret {
			parameters := valid
			change(&parameters)
			return documentRequest(t, parameters).Secret
		}
		credentialtest.RunConformance(t, credentialtest.Suite{
			Resolver:    f,
			ValidSecret: func() *corev1.Secret { return documentRequest(t, valid).Secret },
			InvalidSecrets: map[string]*corev1.Secret{
				"not YAML":     secretRequest(map[string][]byte{credential.DocumentKey: []byte("{")}).Secret,
				"no plugin":    invalid(func(p *credential.ExecParameters) { p.Plugin = "" }),
				"other plugin": invalid(func(p *credential.ExecParameters) { p.Plugin = sentinel }),
				"no server":    invalid(func(p *credential.ExecParameters) { p.Server = "" }),
				"http":         invalid(func(p *credential.ExecParameters) { p.Server = "http://" + sentinel + ".example.com" }),
				"bad CA":       invalid(func(p *credential.ExecParameters) { p.CertificateAuthorityData = sentinel }),
				"no parameter": invalid(func(p *credential.ExecParameters) { p.Parameters = nil }),
				"two parameters": invalid(func(p *credential.ExecParameters) {
					p.Parameters = map[string]string{"cluster": "production-one", "region": sentinel, "zone": sentinel}
				}),
			},
		})
	})
}

func TestPluginGets(t *testing.T) {
	t.Setenv("PASSED", "yes")
	t.Setenv("NOT_PASSED", sentinel)
	f := newFixture(t, "report", "{kind}/{name}", "--again={name}")
	f.plugin.Parameters = map[string]string{"kind": "[a-z]+", "name": "[a-z]+(-[0-9])?"}
	f.plugin.PassEnv = []string{"PASSED", "NOT_SET", "KUBERNETES_EXEC_INFO"}
	t.Setenv("KUBERNETES_EXEC_INFO", sentinel)
	args := []string{"report", "eks/one-1", "--again=one-1"}
	requests := map[string]credential.Request{
		"stanza": request(t, args...),
		"document": documentRequest(t, credential.ExecParameters{
			Plugin: pluginName, Server: server, CertificateAuthorityData: string(testCA()), Parameters: map[string]string{"kind": "eks", "name": "one-1"},
		}),
	}
	for name, req := range requests {
		for _, clusterInfo := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, cluster info %t", name, clusterInfo), func(t *testing.T) {
				f.plugin.ProvideClusterInfo = clusterInfo
				got := f.report(t, req)
				if want := append([]string{pluginName}, args...); !slices.Equal(got.Args, want) {
					t.Errorf("arguments %q, not %q", got.Args, want)
				}
				if got.Dir != "/" || got.Stdin != "" || got.PGID != got.PID {
					t.Errorf("directory, standard input or process group: %+v", got)
				}
				if len(got.Env) != 2 || got.Env[0] != "PASSED=yes" {
					t.Fatalf("environment: %q", got.Env)
				}
				info, _ := strings.CutPrefix(got.Env[1], "KUBERNETES_EXEC_INFO=")
				var exec clientauthenticationv1.ExecCredential
				if err := json.Unmarshal([]byte(info), &exec); err != nil {
					t.Fatal(err)
				}
				if exec.APIVersion != v1 || exec.Kind != "ExecCredential" || exec.Spec.Interactive {
					t.Errorf("request: %+v", exec)
				}
				var want *clientauthenticationv1.Cluster
				if clusterInfo {
					want = &clientauthenticationv1.Cluster{Server: server, CertificateAuthorityData: testCA()}
				}
				if diff := cmp.Diff(want, exec.Spec.Cluster); diff != "" {
					t.Errorf("cluster (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// A stanza names a plugin by the base name of its command. What the command itself leads to does not matter: nothing there is
// opened, and nothing else runs.
func TestCommandIsNeverRun(t *testing.T) {
	marker := filepath.Join(t.TempDir(), "marker")
	trap := filepath.Join(t.TempDir(), pluginName)
	writeFile(t, trap, []byte("#!/bin/sh\ntouch "+marker+"\n"), 0o755)
	f := newFixture(t, "report")
	for _, command := range []string{trap, `C:\tools\` + pluginName + ".exe", "../" + pluginName} {
		if got := f.report(t, stanzaRequest(t, server, &clientcmdapi.ExecConfig{Command: command, APIVersion: v1, Args: []string{"report"}})); got.Args[0] != pluginName {
			t.Errorf("command %s: ran %q", command, got.Args)
		}
	}
	for _, stanza := range []clientcmdapi.ExecConfig{
		{Command: "/bin/sh", Args: []string{"-c", "touch " + marker}},
		{Command: "sh", Args: []string{"-c", "touch " + marker}},
		{Command: "touch", Args: []string{marker}},
		{Command: pluginName + "/", Args: []string{"report"}},
		{Command: "DEMO", Args: []string{"report"}},
	} {
		stanza.APIVersion = v1
		_, err := f.Resolve(t.Context(), stanzaRequest(t, server, &stanza))
		expectError(t, err, credential.IsDenied, "the policy of the hub does not allow its plugin; correct the command")
	}
	if _, err := os.Stat(marker); !os.IsNotExist(err) {
		t.Error("the command was run")
	}
}

func TestRuleMustListThePlugin(t *testing.T) {
	for _, c := range []struct {
		name string
		rule policy.Rule
	}{
		{"no plugins", policy.Rule{Namespaces: []string{"*"}, Resolvers: []string{"exec"}}},
		{"another plugin", policy.Rule{Namespaces: []string{"*"}, Resolvers: []string{"exec"}, Plugins: []string{"other*"}}},
		{"another namespace", policy.Rule{Namespaces: []string{"other"}, Resolvers: []string{"exec"}, Plugins: []string{"*"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t, "report")
			f.rule = c.rule
			_, err := f.Resolve(t.Context(), request(t, "report"))
			expectError(t, err, credential.IsDenied, "add the plugin to plugins and to the rule for its namespace")
		})
	}
}

func TestArguments(t *testing.T) {
	f := newFixture(t, "report", "--cluster={cluster}", "{region}", "-o", "json", "{cluster}.{region}:443")
	f.plugin.Parameters = map[string]string{"cluster": "[a-z-]+|any.*", "region": "[a-z0-9-]*|(?s).*any.*"}
	good := []string{"report", "--cluster=one", "eu-1", "-o", "json", "one.eu-1:443"}
	runs := f.countRuns(t)
	if got := f.report(t, request(t, good...)); !slices.Equal(got.Args[1:], good) {
		t.Fatalf("ran %q", got.Args)
	}
	const form, parameter = "is not what the policy of the hub has there", " is not one that the policy of the hub allows"
	cases := []struct {
		name string
		edit func(args []string) []string
		want string
	}{
		{"one more", func(args []string) []string { return append(args, "--kubeconfig="+sentinel) }, "has 6 arguments for the plugin, not 7"},
		{"one less", func(args []string) []string { return args[1:] }, "has 6 arguments for the plugin, not 5"},
		{"none", func([]string) []string { return nil }, "has 6 arguments for the plugin, not 0"},
		{"other option", func(args []string) []string { args[1] = "--kubeconfig=" + sentinel; return args }, "argument 2 " + form},
		{"other value of an option", func(args []string) []string { args[4] = sentinel; return args }, "argument 5 " + form},
		{"short option", func(args []string) []string { args[3] = "-o" + sentinel; return args }, "argument 4 " + form},
		{"reordered", func(args []string) []string { args[0], args[1] = args[1], args[0]; return args }, "argument 1 " + form},
		{"template itself", func(args []string) []string { args[1] = "--cluster={cluster}"; return args }, "argument 6 has another value for the parameter cluster"},
		{"option in place of a value", func(args []string) []string { args[2], args[5] = "--"+"o", "one.--"+"o:443"; return args }, "argument 3 must not begin with a hyphen"},
		{"value outside of the expression", func(args []string) []string { args[1], args[5] = "--cluster=ONE", "ONE.eu-1:443"; return args }, "cluster" + parameter},
		{"value with more behind", func(args []string) []string { args[1], args[5] = "--cluster=one/x", "one/x.eu-1:443"; return args }, "cluster" + parameter},
		{"value with a line behind", func(args []string) []string { args[1], args[5] = "--cluster=one\n", "one\n.eu-1:443"; return args }, "cluster" + parameter},
		{"empty value", func(args []string) []string { args[1], args[5] = "--cluster=", ".eu-1:443"; return args }, "cluster" + parameter},
		{"two values", func(args []string) []string { args[5] = "two.eu-1:443"; return args }, "argument 6 has another value for the parameter cluster"},
		{"no suffix", func(args []string) []string { args[5] = "one.eu-1"; return args }, "argument 6 " + form},
		{"no separator", func(args []string) []string { args[5] = "one:443"; return args }, "argument 6 " + form},
		{"control character", func(args []string) []string { args[2], args[5] = "any\x01", "one.any\x01:443"; return args }, "region is longer than 4096 bytes, or has control characters"},
		{"too long", func(args []string) []string {
			long := "any" + strings.Repeat("x", 4096)
			args[2], args[5] = long, "one."+long+":443"
			return args
		}, "region is longer than 4096 bytes, or has control characters"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			req := request(t, c.edit(slices.Clone(good))...)
			_, err := f.Resolve(t.Context(), req)
			expectError(t, err, credential.IsInvalid, `users[].user.exec.args of entry "u" is not valid: `, c.want)
		})
	}
	if runs() != 1 {
		t.Errorf("the plugin was run %d times", runs())
	}
	f.plugin.Args = []string{"{region}/{rest}"}
	f.plugin.Parameters["rest"] = ".*"
	_, err := f.Resolve(t.Context(), request(t, "one"))
	expectError(t, err, credential.IsInvalid, "argument 1 "+form)
}

func TestArgumentsFromAnotherSource(t *testing.T) {
	f := newFixture(t, "report", "{x}")
	f.plugin.Parameters = map[string]string{"x": "(?s).*"}
	// YAML has no NUL, but a stanza may have another source.
	exec := &restconfig.Exec{Command: pluginName, APIVersion: v1, Args: []string{"report", "one\x00two"}}
	_, err := f.ResolveStanza(t.Context(), request(t), kubeconfigWith(t, exec))
	expectError(t, err, credential.IsInvalid, "has control characters")
}

// kubeconfigWith is a kubeconfig with another stanza.
func kubeconfigWith(t *testing.T, exec *restconfig.Exec) *restconfig.Kubeconfig {
	t.Helper()
	kubeconfig, err := restconfig.Parse(request(t).Secret.Data["kubeconfig"], restconfig.Options{Exec: true})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig.Exec = exec
	return kubeconfig
}

func TestParameters(t *testing.T) {
	f := newFixture(t, "report", "{cluster}")
	f.plugin.Parameters = map[string]string{"cluster": ".*"}
	for _, c := range []struct {
		name       string
		parameters map[string]string
		want       string
	}{
		{"none", nil, "the plugin needs the parameter cluster"},
		{"unknown", map[string]string{"cluster": "x", sentinel: sentinel}, "the plugin takes no parameters but cluster"},
		{"option", map[string]string{"cluster": "--kubeconfig=" + sentinel}, "argument 2 must not begin with a hyphen"},
		{"NUL", map[string]string{"cluster": "x\x00" + sentinel}, "the value of the parameter cluster is longer than 4096 bytes, or has control characters"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := f.Resolve(t.Context(), documentRequest(t, credential.ExecParameters{
				Plugin: pluginName, Server: server, CertificateAuthorityData: string(testCA()), Parameters: c.parameters,
			}))
			expectError(t, err, credential.IsInvalid, "data key credential.yaml: exec.parameters is not valid: "+c.want)
		})
	}
	f.plugin.Args = []string{"report"}
	_, err := f.Resolve(t.Context(), documentRequest(t, credential.ExecParameters{
		Plugin: pluginName, Server: server, CertificateAuthorityData: string(testCA()), Parameters: map[string]string{"x": "y"},
	}))
	expectError(t, err, credential.IsInvalid, "exec.parameters is not valid: the plugin takes no parameters")
}

func TestDocumentEndpoint(t *testing.T) {
	f := newFixture(t, "report")
	for _, c := range []struct{ server, ca, want string }{
		{"", string(testCA()), "data key credential.yaml: exec.server is missing"},
		{"https://" + sentinel + "@api.example.com", string(testCA()), "data key credential.yaml: exec.server is not accepted"},
		{server, "\n", "data key credential.yaml: exec.certificateAuthorityData is not valid"},
		{server, sentinel, "data key credential.yaml: exec.certificateAuthorityData is not valid"},
	} {
		_, err := f.Resolve(t.Context(), documentRequest(t, credential.ExecParameters{Plugin: pluginName, Server: c.server, CertificateAuthorityData: c.ca}))
		expectError(t, err, credential.IsInvalid, c.want)
	}
	_, err := f.Resolve(t.Context(), documentRequest(t, credential.ExecParameters{}))
	expectError(t, err, credential.IsInvalid, "data key credential.yaml: exec.plugin is missing")
}

// Without a CA the config has none and the plugin is told of none; the hosts of the plugin are what they are.
func TestNoCA(t *testing.T) {
	f := newFixture(t, "report")
	f.plugin.ProvideClusterInfo = true
	withoutCA := kubeconfigWith(t, &restconfig.Exec{Command: pluginName, APIVersion: v1, Args: []string{"report"}})
	withoutCA.Config.CAData = nil
	byStanza, err := f.ResolveStanza(t.Context(), request(t), withoutCA)
	if err != nil {
		t.Fatal(err)
	}
	named := documentRequest(t, credential.ExecParameters{Plugin: pluginName, Server: server})
	byDocument, err := f.Resolve(t.Context(), named)
	if err != nil {
		t.Fatal(err)
	}
	for _, config := range []*rest.Config{byStanza, byDocument} {
		if len(config.CAData) > 0 || config.CAFile != "" || config.Insecure || config.Host != server || bearer(t, config) == "" {
			t.Errorf("the config is %v", config)
		}
	}
	if told := strings.Join(f.report(t, named).Env, " "); !strings.Contains(told, server) || strings.Contains(told, "authority") || strings.Contains(told, "insecure") {
		t.Errorf("the plugin is told %s", told)
	}
	withoutCA.Config.Host = "https://attacker.net"
	_, err = f.ResolveStanza(t.Context(), request(t), withoutCA)
	expectError(t, err, credential.IsDenied, "the policy of the hub does not allow its plugin for the host of its server")
}

// The variables of a stanza would reach the loader of programs (LD_PRELOAD), or the plugin.
func TestEnvironmentOfTheStanza(t *testing.T) {
	f := newFixture(t, "report")
	runs := f.countRuns(t)
	for _, env := range [][]clientcmdapi.ExecEnvVar{
		{{Name: "PATH", Value: "/tmp/" + sentinel}},
		{{Name: "LD_PRELOAD", Value: ""}},
		{{Name: "PLUGIN_RUNS", Value: sentinel}},
	} {
		_, err := f.Resolve(t.Context(), stanzaRequest(t, server, &clientcmdapi.ExecConfig{Command: pluginName, APIVersion: v1, Args: []string{"report"}, Env: env}))
		expectError(t, err, credential.IsInvalid, `users[].user.exec.env of entry "u" is not accepted: remove the variable `+env[0].Name)
	}
	if runs() != 0 {
		t.Error("the plugin was run")
	}
	f.report(t, stanzaRequest(t, server, &clientcmdapi.ExecConfig{Command: pluginName, APIVersion: v1, Args: []string{"report"}, Env: []clientcmdapi.ExecEnvVar{}}))
}

func TestAPIVersion(t *testing.T) {
	f := newFixture(t, "report")
	const v1alpha1 = "client.authentication.k8s.io/v1alpha1"
	for _, c := range []struct{ plugin, stanza, want string }{
		{"", v1beta1, v1}, {v1, v1beta1, v1}, {v1beta1, v1, v1beta1}, {"", v1alpha1, v1}, {v1beta1, v1alpha1, v1beta1}, {"", "", v1},
	} {
		f.plugin.APIVersion = c.plugin
		_, err := f.Resolve(t.Context(), stanzaRequest(t, server, &clientcmdapi.ExecConfig{Command: pluginName, APIVersion: c.stanza, Args: []string{"report"}}))
		expectError(t, err, credential.IsInvalid, `users[].user.exec.apiVersion of entry "u" is not valid: it must be `+c.want+", which")
	}
}

// A token goes to the hosts that the administrator names, and to no server that is not verified.
func TestHosts(t *testing.T) {
	f := newFixture(t, "report")
	runs := f.countRuns(t)
	for _, server := range []string{
		"https://example.com", "https://api.example.com.attacker.net", "https://attacker.net/api.example.com", "https://10.0.0.1:6443",
	} {
		_, err := f.Resolve(t.Context(), stanzaRequest(t, server, &clientcmdapi.ExecConfig{Command: pluginName, APIVersion: v1, Args: []string{"report"}}))
		expectError(t, err, credential.IsDenied, "the policy of the hub does not allow its plugin for the host of its server")
	}
	f.plugin.Hosts = []string{"other.example.com"}
	_, err := f.Resolve(t.Context(), request(t, "report"))
	expectError(t, err, credential.IsDenied, "for the host of its server")
	if runs() != 0 {
		t.Error("the plugin was run")
	}
	f.plugin.Hosts = []string{"api.example.com"}
	f.report(t, stanzaRequest(t, "https://API.example.com.:6443", &clientcmdapi.ExecConfig{Command: pluginName, APIVersion: v1, Args: []string{"report"}}))

	kubeconfig := kubeconfigWith(t, &restconfig.Exec{Command: pluginName, APIVersion: v1, Args: []string{"report"}})
	kubeconfig.Config.Insecure, kubeconfig.Config.CAData = true, nil
	_, err = f.ResolveStanza(t.Context(), request(t), kubeconfig)
	expectError(t, err, credential.IsInvalid, "for a server that is not verified")
}

// One Secret gets one token as long as nothing changes that the token depends on: the server, the arguments, the policy, the Secret.
func TestTokensAreKept(t *testing.T) {
	f := newFixture(t, "report", "{x}")
	f.plugin.Parameters = map[string]string{"x": ".*"}
	runs := f.countRuns(t)
	req := request(t, "report", "1")
	resolve := func(want int) {
		t.Helper()
		f.report(t, req)
		if runs() != want {
			t.Errorf("%d runs, not %d", runs(), want)
		}
	}
	resolve(1)
	resolve(1)
	first := req.Secret.Data["kubeconfig"]
	for i, change := range []func(){
		func() {
			req.Secret.Data["kubeconfig"] = []byte(strings.Replace(string(first), "api.example.com", "b.example.com", 1))
		},
		func() { req.Secret.Data["kubeconfig"] = []byte(strings.Replace(string(first), `"1"`, `"2"`, 1)) },
		func() { f.plugin.ProvideClusterInfo = true },
		func() { f.plugin.PassEnv = append(f.plugin.PassEnv, "X") },
		func() { req.Secret.ResourceVersion = "2" },
		func() { req.Secret.UID = "another" },
	} {
		change()
		resolve(i + 2)
	}
}

func TestWithoutADirectory(t *testing.T) {
	f := newFixture(t, "report")
	resolver := exec.New(exec.Options{Policy: func() *policy.Policy { return f.policy(t) }, Tokens: f.tokens})
	_, err := resolver.Resolve(t.Context(), request(t, "report"))
	expectError(t, err, credential.IsDenied, "the plugin demo cannot be run: there is no plugin directory")
}

func TestResolveWithoutASecret(t *testing.T) {
	if _, err := newFixture(t).Resolve(t.Context(), credential.Request{}); err == nil {
		t.Error("no error")
	}
}
