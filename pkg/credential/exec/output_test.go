// Copyright Contributors to the Open Cluster Management project

//go:build linux

package exec_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/exec"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
)

// prints is the request for a plugin that prints a text.
func (f *fixture) prints(t *testing.T, text string) credential.Request {
	t.Helper()
	f.plugin.Args = []string{"print", text}
	return request(t, "print", text)
}

func TestOutputIsReadStrictly(t *testing.T) {
	f := newFixture(t)
	const (
		form       = "the plugin demo did not print one JSON document with the fields of an ExecCredential"
		version    = "the plugin demo did not print an ExecCredential of version client.authentication.k8s.io/v1"
		noStatus   = "the plugin demo printed an ExecCredential without status"
		credFailed = "the plugin demo printed neither a token nor a client certificate with its key that can be used"
		expired    = "the plugin demo printed a credential that has expired"
	)
	status := func(status string) string {
		return `{"apiVersion":"` + v1 + `","kind":"ExecCredential","status":` + status + `}`
	}
	token := `{"token":"` + sentinel + `"}`
	cert, key := certificate(time.Now().Add(time.Hour))
	_, otherKey := certificate(time.Now().Add(time.Hour))
	oldCert, oldKey := certificate(time.Now().Add(-time.Hour))
	pair := func(cert, key []byte) string {
		data, err := json.Marshal(map[string]string{"clientCertificateData": string(cert), "clientKeyData": string(key)})
		if err != nil {
			t.Fatal(err)
		}
		return status(string(data))
	}
	for _, c := range []struct{ name, output, want string }{
		{"nothing", "", form},
		{"a token alone", sentinel, form},
		{"YAML", "apiVersion: " + v1 + "\nkind: ExecCredential\nstatus: {token: " + sentinel + "}", form},
		{"two documents", status(token) + status(token), form},
		{"text behind", status(token) + sentinel, form},
		{"a list", "[" + status(token) + "]", form},
		{"unknown field", status(`{"token":"` + sentinel + `","` + sentinel + `":1}`), form},
		{"field in another case", status(`{"Token":"` + sentinel + `"}`), form},
		{"field twice", status(`{"token":"a","token":"` + sentinel + `"}`), form},
		{"wrong type", status(`{"token":["` + sentinel + `"]}`), form},
		{"wrong time", status(`{"token":"` + sentinel + `","expirationTimestamp":"tomorrow"}`), form},
		{"null", "null", version},
		{"other kind", strings.Replace(status(token), "ExecCredential", "Secret", 1), version},
		{"no kind", `{"apiVersion":"` + v1 + `","status":` + token + `}`, version},
		{"other version", strings.Replace(status(token), v1, v1beta1, 1), version},
		{"no status", `{"apiVersion":"` + v1 + `","kind":"ExecCredential"}`, noStatus},
		{"empty status", status(`{}`), credFailed},
		{"token with a line break", status(`{"token":"` + sentinel + `\nX-Header: 1"}`), credFailed},
		{"certificate without key", pair(cert, nil), credFailed},
		{"key without certificate", pair(nil, key), credFailed},
		{"key of another certificate", pair(cert, otherKey), credFailed},
		{"token with a bad certificate", status(`{"token":"` + sentinel + `","clientCertificateData":"x","clientKeyData":"y"}`), credFailed},
		{"expired token", status(`{"token":"` + sentinel + `","expirationTimestamp":"2020-01-01T00:00:00Z"}`), expired},
		{"expired certificate", pair(oldCert, oldKey), expired},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := f.Resolve(t.Context(), f.prints(t, c.output))
			expectError(t, err, credential.IsMintFailed, c.want)
		})
	}
}

func TestClientCertificate(t *testing.T) {
	f := newFixture(t)
	cert, key := certificate(time.Now().Add(time.Hour))
	for _, token := range []string{"", sentinel} {
		data, err := json.Marshal(map[string]any{"apiVersion": v1, "kind": "ExecCredential", "status": map[string]string{
			"clientCertificateData": string(cert), "clientKeyData": string(key), "token": token,
		}})
		if err != nil {
			t.Fatal(err)
		}
		req := f.prints(t, string(data))
		config, err := f.Resolve(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		clear(config.CertData)
		clear(config.KeyData)
		if config, err = f.Resolve(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(config.CertData, cert) || !bytes.Equal(config.KeyData, key) || config.BearerToken != "" {
			t.Error("the config does not have the certificate alone")
		}
		if (config.WrapTransport != nil) != (token != "") {
			t.Errorf("token %t: the config has a source of tokens: %t", token != "", config.WrapTransport != nil)
		}
	}
}

func TestV1beta1(t *testing.T) {
	f := newFixture(t)
	f.plugin.APIVersion = v1beta1
	output := `{"apiVersion":"` + v1beta1 + `","kind":"ExecCredential","spec":{},"status":{"token":"` + sentinel + `"}}`
	f.plugin.Args = []string{"print", output}
	config, err := f.Resolve(t.Context(), documentRequest(t, credential.ExecParameters{
		Plugin: pluginName, Server: server, CertificateAuthorityData: string(testCA()),
	}))
	if err != nil {
		t.Fatal(err)
	}
	if bearer(t, config) != sentinel {
		t.Error("another token")
	}
}

// A plugin runs again before its token expires: the earlier of what it says and of the end of the certificate.
func TestExpiry(t *testing.T) {
	now := time.Now()
	cert, key := certificate(now.Add(time.Hour))
	for _, c := range []struct {
		name, timestamp string
		pair            bool
		want            time.Duration
	}{
		{"of the token", now.Add(2 * time.Hour).UTC().Format(time.RFC3339), false, 2 * time.Hour},
		{"of the certificate", "", true, time.Hour},
		{"of the certificate, which is earlier", now.Add(2 * time.Hour).UTC().Format(time.RFC3339), true, time.Hour},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			clock := testingclock.NewFakePassiveClock(now)
			f.StanzaResolver = exec.New(exec.Options{
				Policy: func() *policy.Policy { return f.policy(t) }, Directory: f.dir, Clock: clock,
				Tokens: tokensource.NewCache(tokensource.Options{Clock: clock}),
			})
			runs := f.countRuns(t)
			status := map[string]string{"token": sentinel}
			if c.timestamp != "" {
				status["expirationTimestamp"] = c.timestamp
			}
			if c.pair {
				status["clientCertificateData"], status["clientKeyData"] = string(cert), string(key)
			}
			data, err := json.Marshal(map[string]any{"apiVersion": v1, "kind": "ExecCredential", "status": status})
			if err != nil {
				t.Fatal(err)
			}
			req := f.prints(t, string(data))
			for _, at := range []struct {
				after time.Duration
				runs  int
			}{{0, 1}, {c.want / 2, 1}, {c.want * 9 / 10, 2}} {
				clock.SetTime(now.Add(at.after))
				if _, err := f.Resolve(t.Context(), req); err != nil {
					t.Fatal(err)
				}
				if runs() != at.runs {
					t.Errorf("%d runs after %s, not %d", runs(), at.after, at.runs)
				}
			}
			clock.SetTime(now.Add(c.want + time.Second))
			_, err = f.Resolve(t.Context(), req)
			expectError(t, err, credential.IsMintFailed, "the plugin demo printed a credential that has expired")
		})
	}
}

// A config that a caller changes does not change what the next token is made with.
func TestNextTokenOfAChangedConfig(t *testing.T) {
	now := time.Now()
	f := newFixture(t)
	clock := testingclock.NewFakePassiveClock(now)
	f.StanzaResolver = exec.New(exec.Options{
		Policy: func() *policy.Policy { return f.policy(t) }, Directory: f.dir, Clock: clock,
		Tokens: tokensource.NewCache(tokensource.Options{Clock: clock}),
	})
	runs := f.countRuns(t)
	config, err := f.Resolve(t.Context(), f.prints(t, `{"apiVersion":"`+v1+`","kind":"ExecCredential","status":{"token":"`+sentinel+
		`","expirationTimestamp":"`+now.Add(time.Hour).UTC().Format(time.RFC3339)+`"}}`))
	if err != nil {
		t.Fatal(err)
	}
	clear(config.CAData)
	clock.SetTime(now.Add(59 * time.Minute))
	if bearer(t, config) != sentinel || runs() != 2 {
		t.Errorf("%d runs", runs())
	}
}
