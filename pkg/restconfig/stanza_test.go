// Copyright Contributors to the Open Cluster Management project

package restconfig_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"open-cluster-management.io/import-provider/pkg/restconfig"
)

// stanzaIs puts an exec stanza into the place of the token.
func stanzaIs(exec clientcmdapiv1.ExecConfig) edit {
	return user(func(u *clientcmdapiv1.AuthInfo) { *u = clientcmdapiv1.AuthInfo{Exec: &exec} })
}

// fullStanza has a value in every field that a file can have.
func fullStanza() clientcmdapiv1.ExecConfig {
	return clientcmdapiv1.ExecConfig{
		Command: "/opt/homebrew/bin/aws", Args: []string{"eks", "get-token"}, Env: []clientcmdapiv1.ExecEnvVar{{Name: "AWS_PROFILE", Value: "prod"}},
		APIVersion: "client.authentication.k8s.io/v1beta1", InstallHint: "install it", ProvideClusterInfo: true,
		InteractiveMode: clientcmdapiv1.IfAvailableExecInteractiveMode,
	}
}

func TestParseStanza(t *testing.T) {
	withStanza := restconfig.Options{Exec: true}
	wantConfig := &rest.Config{Host: testServer, TLSClientConfig: rest.TLSClientConfig{CAData: caPEM()}}
	cases := map[string]struct {
		exec clientcmdapiv1.ExecConfig
		want restconfig.Exec
	}{
		"command alone": {clientcmdapiv1.ExecConfig{Command: "aws"}, restconfig.Exec{Entry: `"us"`, Command: "aws"}},
		"everything": {fullStanza(), restconfig.Exec{
			Entry: `"us"`, APIVersion: "client.authentication.k8s.io/v1beta1", Command: "/opt/homebrew/bin/aws", Args: []string{"eks", "get-token"},
			Env: []restconfig.ExecEnv{{Name: "AWS_PROFILE", Value: "prod"}}, ProvideClusterInfo: true,
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := restconfig.Parse(edited(stanzaIs(c.exec)), withStanza)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&c.want, got.Exec); diff != "" {
				t.Errorf("stanza (-want +got):\n%s", diff)
			}
			if !reflect.DeepEqual(wantConfig, got.Config) || got.Cluster != "cl" || got.User != "us" {
				t.Errorf("got %v of %s and %s", got.Config, got.Cluster, got.User)
			}
			if err := restconfig.Check(got.Config, restconfig.Options{}); err == nil {
				t.Error("a config without a credential passes Check")
			}
			cfg, err := restconfig.FromKubeconfig(edited(stanzaIs(c.exec)), withStanza)
			expectError(t, cfg, err, `users[].user.exec of entry "us" is not accepted: plugins are not run; use a credential resolver, or use token, or client-certificate-data and client-key-data`)
		})
	}
	t.Run("without one", func(t *testing.T) {
		got, err := restconfig.Parse(encode(validFile()), withStanza)
		if err != nil || got.Exec != nil || got.Config.BearerToken != testToken {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	// A field of ExecConfig that is not dropped is in Exec: the test of the classification says which those are.
	t.Run("no field is lost", func(t *testing.T) {
		dropped := map[string]bool{"InstallHint": true, "InteractiveMode": true}
		for f := range reflect.TypeFor[clientcmdapiv1.ExecConfig]().Fields() {
			if _, found := reflect.TypeFor[restconfig.Exec]().FieldByName(f.Name); found == dropped[f.Name] {
				t.Errorf("%s is in Exec: %t", f.Name, found)
			}
		}
	})
}

func TestStanzaRefused(t *testing.T) {
	const (
		command = `users[].user.exec.command of entry "us" is missing: name the plugin`
		another = `users[].user.exec of entry "us" is not valid: the entry has another credential too; keep one`
	)
	pair := clientPair()
	with := func(set func(u *clientcmdapiv1.AuthInfo)) edit {
		return both(stanzaIs(fullStanza()), user(set))
	}
	cases := map[string]struct {
		edit edit
		want string
	}{
		"empty":           {stanzaIs(clientcmdapiv1.ExecConfig{}), command},
		"without command": {stanzaIs(clientcmdapiv1.ExecConfig{Args: []string{"get-token"}}), command},
		"and a token":     {with(func(u *clientcmdapiv1.AuthInfo) { u.Token = testToken }), another},
		"and a certificate": {with(func(u *clientcmdapiv1.AuthInfo) { u.ClientCertificateData, u.ClientKeyData = pair[0], pair[1] }),
			another},
		"and a key alone": {with(func(u *clientcmdapiv1.AuthInfo) { u.ClientKeyData = pair[1] }), another},
		"and a token file": {with(func(u *clientcmdapiv1.AuthInfo) { u.TokenFile = "/x" }),
			`users[].user.tokenFile of entry "us" is not accepted: file paths are not followed; put the token inline in token`},
		"and an auth provider": {with(func(u *clientcmdapiv1.AuthInfo) { u.AuthProvider = &clientcmdapiv1.AuthProviderConfig{Name: "gcp"} }),
			`users[].user.auth-provider of entry "us" is not accepted: plugins are not run; use a credential resolver, or use token, or client-certificate-data and client-key-data`},
		"and impersonation": {with(func(u *clientcmdapiv1.AuthInfo) { u.Impersonate = "x" }),
			`users[].user.as of entry "us" is not accepted: give the credentials of the identity itself`},
		"with a bad CA": {both(stanzaIs(fullStanza()), cluster(func(c *clientcmdapiv1.Cluster) { c.CertificateAuthorityData = []byte("x") })),
			`clusters[].cluster.certificate-authority-data of entry "cl" is not valid: it must hold at least one certificate in PEM form`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := restconfig.Parse(edited(c.edit), restconfig.Options{Exec: true})
			expectError(t, nil, err, c.want)
			// The same in an entry that the context does not use.
			broken, file := validFile(), validFile()
			c.edit(broken)
			file.Clusters[0].Name, file.AuthInfos[0].Name = "good", "good"
			file.Contexts[0].Context = clientcmdapiv1.Context{Cluster: "good", AuthInfo: "good"}
			file.Clusters, file.AuthInfos = append(file.Clusters, broken.Clusters...), append(file.AuthInfos, broken.AuthInfos...)
			_, err = restconfig.Parse(encode(file), restconfig.Options{Exec: true})
			expectError(t, nil, err, c.want)
		})
	}
	t.Run("in an unused entry", func(t *testing.T) {
		file := validFile()
		file.AuthInfos = append(file.AuthInfos, clientcmdapiv1.NamedAuthInfo{Name: "aws", AuthInfo: clientcmdapiv1.AuthInfo{Exec: &clientcmdapiv1.ExecConfig{Command: "aws"}}})
		got, err := restconfig.Parse(encode(file), restconfig.Options{Exec: true})
		if err != nil || got.Exec != nil || got.Config.BearerToken != testToken {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

func TestParseIsIndependent(t *testing.T) {
	data := edited(stanzaIs(fullStanza()))
	first, err := restconfig.Parse(data, restconfig.Options{Exec: true})
	must(err)
	second, err := restconfig.Parse(data, restconfig.Options{Exec: true})
	must(err)
	clear(data)
	first.Exec.Args[0], first.Exec.Env[0].Value = "changed", "changed"
	clear(first.Config.CAData)
	third, err := restconfig.Parse(edited(stanzaIs(fullStanza())), restconfig.Options{Exec: true})
	must(err)
	if diff := cmp.Diff(third.Exec, second.Exec); diff != "" || !reflect.DeepEqual(third.Config, second.Config) {
		t.Errorf("two results share memory with each other or the input:\n%s", diff)
	}
}

func TestProxies(t *testing.T) {
	proxyIs := func(address string) edit { return cluster(func(c *clientcmdapiv1.Cluster) { c.ProxyURL = address }) }
	options := restconfig.Options{Proxies: []string{testProxy, "https://proxy", "socks5://proxy:1080", "http://%zz", "http://"}}
	server, err := http.NewRequestWithContext(t.Context(), http.MethodGet, testServer, http.NoBody)
	must(err)
	for _, address := range []string{testProxy, "https://proxy"} {
		cfg, err := restconfig.FromKubeconfig(edited(proxyIs(address)), options)
		must(err)
		got, err := cfg.Proxy(server)
		if err != nil || got.String() != address {
			t.Errorf("got %v, %v, want %s", got, err, address)
		}
		if err := restconfig.Check(cfg, options); err != nil {
			t.Errorf("the result does not pass Check: %v", err)
		}
		if err := restconfig.Check(cfg, restconfig.Options{}); err == nil {
			t.Error("passes without the option")
		}
	}
	for _, address := range []string{"http://proxy.example.com", testProxy + "/", "HTTP://proxy.example.com:3128", "http://user@proxy.example.com:3128"} {
		cfg, err := restconfig.FromKubeconfig(edited(proxyIs(address)), options)
		expectError(t, cfg, err, `clusters[].cluster.proxy-url of entry "cl" is not accepted: remove it, or use one that the administrator of the hub accepts`)
	}
	// A value that cannot be used must not mean no proxy.
	for _, address := range []string{"socks5://proxy:1080", "http://%zz", "http://"} {
		cfg, err := restconfig.FromKubeconfig(edited(proxyIs(address)), options)
		expectError(t, cfg, err, `clusters[].cluster.proxy-url of entry "cl" is not valid: write it as http://host:port`)
	}
	cfg, err := restconfig.FromKubeconfig(encode(validFile()), options)
	if err != nil || cfg.Proxy != nil {
		t.Errorf("without proxy-url: %v, %t", err, cfg.Proxy != nil)
	}
}

// FuzzParse states what holds of a file with a stanza, beyond FuzzFromKubeconfig.
func FuzzParse(f *testing.F) {
	f.Add(edited(stanzaIs(fullStanza())))
	f.Add(encode(validFile()))
	asJSON, err := json.Marshal(func() any { file := validFile(); stanzaIs(fullStanza())(file); return file }())
	must(err)
	f.Add(asJSON)
	f.Add([]byte("users: [{name: us, user: {exec: {command: a, env: [{name: b, value: c}]}, token: x}}]"))
	options := restconfig.Options{Exec: true, Proxies: []string{testProxy}}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := restconfig.Parse(data, options)
		if err != nil {
			var broken *restconfig.FieldError
			if !errors.As(err, &broken) || errors.Unwrap(err) != nil || got != nil {
				t.Fatalf("not a bare *FieldError: %T", err)
			}
			return
		}
		if got.Exec == nil {
			if err := restconfig.Check(got.Config, options); err != nil {
				t.Fatalf("the result does not pass Check: %v", err)
			}
			return
		}
		if got.Exec.Command == "" || got.Exec.Entry == "" {
			t.Fatal("a stanza without a command or an entry")
		}
		if got.Config.BearerToken != "" || len(got.Config.CertData) > 0 || len(got.Config.KeyData) > 0 || got.Config.ExecProvider != nil {
			t.Fatal("a credential beside the stanza, or client-go would run it")
		}
		if _, err := restconfig.FromKubeconfig(data, options); err == nil {
			t.Fatal("a stanza passes for a credential")
		}
	})
}
