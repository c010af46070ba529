// Copyright Contributors to the Open Cluster Management project

package restconfig_test

import (
	"encoding/json"
	"errors"
	"net/url"
	"testing"

	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"open-cluster-management.io/import-provider/pkg/restconfig"
)

// FuzzFromKubeconfig states what holds for everything that is accepted, in words of its own and not by calling Check
// alone, and that everything else gives a *FieldError, the same one each time.
func FuzzFromKubeconfig(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(encode(validFile()))
	asJSON, err := json.Marshal(validFile())
	must(err)
	f.Add(asJSON)
	for _, c := range rows() {
		f.Add(edited(c.edit))
	}
	f.Add(edited(cluster(func(c *clientcmdapiv1.Cluster) { c.CertificateAuthorityData = nil })))
	f.Add([]byte("a: &a [x]\nb: *a\n"))
	f.Add([]byte("? {a: b}\n: - |\n  x\n"))
	f.Add([]byte("%YAML 1.1\n--- !!map {<<: {}}\n...\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		cfg, err := restconfig.FromKubeconfig(data, restconfig.Options{})
		if err != nil {
			var broken *restconfig.FieldError
			if !errors.As(err, &broken) || errors.Unwrap(err) != nil || cfg != nil {
				t.Fatalf("not a bare *FieldError: %T", err)
			}
			_, again := restconfig.FromKubeconfig(data, restconfig.Options{})
			if again == nil || again.Error() != err.Error() {
				t.Fatalf("two texts for one input: %v and %v", err, again)
			}
			return
		}
		if cfg.CAFile != "" || cfg.CertFile != "" || cfg.KeyFile != "" || cfg.BearerTokenFile != "" {
			t.Fatal("a file path")
		}
		if cfg.ExecProvider != nil || cfg.AuthProvider != nil || cfg.AuthConfigPersister != nil || cfg.Proxy != nil || cfg.Dial != nil ||
			cfg.Transport != nil || cfg.WrapTransport != nil {
			t.Fatal("a plugin, a proxy or a transport")
		}
		i := cfg.Impersonate
		if i.UserName != "" || i.UID != "" || len(i.Groups) > 0 || len(i.Extra) > 0 || cfg.Username != "" || cfg.Password != "" {
			t.Fatal("impersonation or basic authentication")
		}
		u, err := url.Parse(cfg.Host)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
			t.Fatal("not a plain https address")
		}
		expectVerification(t, cfg)
		if cfg.BearerToken == "" && len(cfg.CertData) == 0 {
			t.Fatal("no credential")
		}
		if err := restconfig.Check(cfg, restconfig.Options{}); err != nil {
			t.Fatalf("the result does not pass Check: %v", err)
		}
	})
}
