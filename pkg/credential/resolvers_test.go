// Copyright Contributors to the Open Cluster Management project

package credential_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/credentialtest"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

func insecure(file *clientcmdapiv1.Config) {
	file.Clusters[0].Cluster.InsecureSkipTLSVerify, file.Clusters[0].Cluster.CertificateAuthorityData = true, nil
}

func noCurrent(file *clientcmdapiv1.Config) { file.CurrentContext = "" }

func expectInvalid(t *testing.T, err error, want string) {
	t.Helper()
	if !credential.IsInvalid(err) || credential.IsDenied(err) {
		t.Fatalf("got %v, want an InvalidError", err)
	}
	expectText(t, err, want)
}

func expectDenied(t *testing.T, err error, want string) {
	t.Helper()
	if !credential.IsDenied(err) || credential.IsInvalid(err) {
		t.Fatalf("got %v, want a DeniedError", err)
	}
	expectText(t, err, want)
}

func expectText(t *testing.T, err error, want string) {
	t.Helper()
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
	if strings.Contains(fmt.Sprintf("%+v %#v", err, err), testToken) {
		t.Error("the error shows the token")
	}
}

func TestKubeconfigResolver(t *testing.T) {
	const (
		none = "no kubeconfig: put it under one of the data keys kubeconfig, value, value.yaml, config, admin.conf, " +
			"or name its key with the annotation import.open-cluster-management.io/kubeconfig-key"
		noKey = "the annotation import.open-cluster-management.io/kubeconfig-key names a data key that the secret does not have"
	)
	good, bad := kubeconfig(), []byte("bad")
	keys := func(keys ...string) map[string][]byte {
		// The first has the kubeconfig, so that any other choice fails.
		data := map[string][]byte{}
		for i, key := range keys {
			data[key] = bad
			if i == 0 {
				data[key] = good
			}
		}
		return data
	}
	cases := map[string]struct {
		secret  *corev1.Secret
		options credential.KubeconfigOptions
		token   string
		want    string
		denied  bool
	}{
		"kubeconfig": {secret: newSecret(keys("kubeconfig", "value", "value.yaml", "config", "admin.conf")), token: testToken + "-one"},
		"value":      {secret: newSecret(keys("value", "value.yaml", "config", "admin.conf")), token: testToken + "-one"},
		"value.yaml": {secret: newSecret(keys("value.yaml", "config", "admin.conf")), token: testToken + "-one"},
		"config":     {secret: newSecret(keys("config", "admin.conf")), token: testToken + "-one"},
		"admin.conf": {secret: newSecret(keys("admin.conf", "unrelated")), token: testToken + "-one"},
		"key by annotation": {secret: newSecret(keys("mine", "kubeconfig"), credential.AnnotationKubeconfigKey, "mine"),
			token: testToken + "-one"},
		"context by annotation": {secret: kubeconfigSecret(credential.AnnotationKubeconfigContext, "two"), token: testToken + "-two"},
		"autoImportRetry is ignored": {secret: newSecret(map[string][]byte{"kubeconfig": good, "autoImportRetry": []byte("5")}),
			token: testToken + "-one"},
		"kubeconfig beside token and server": {secret: newSecret(map[string][]byte{"kubeconfig": good, "token": bad, "server": bad}),
			token: testToken + "-one"},
		"insecure, allowed": {secret: newSecret(map[string][]byte{"kubeconfig": kubeconfig(insecure)}),
			options: credential.KubeconfigOptions{InsecureSkipTLSVerify: true}, token: testToken + "-one"},

		"no data": {secret: newSecret(nil), want: none},
		"key by annotation missing": {secret: kubeconfigSecret(credential.AnnotationKubeconfigKey, "mine"),
			want: noKey},
		"empty": {secret: newSecret(map[string][]byte{"value": nil}),
			want: "data key value: kubeconfig is missing: the file is empty"},
		"ACM token": {secret: tokenSecret(),
			want: "no kubeconfig, but server and token: set the annotation import.open-cluster-management.io/credential-resolver to token"},
		"ACM token, resolver named": {
			secret: func() *corev1.Secret {
				s := tokenSecret()
				s.Annotations = map[string]string{credential.AnnotationCredentialResolver: "kubeconfig"}
				return s
			}(),
			want: none},
		"refused": {secret: newSecret(map[string][]byte{"value": kubeconfig(func(f *clientcmdapiv1.Config) { f.AuthInfos[1].AuthInfo.TokenFile = "/x" })}),
			want: `data key value: users[].user.tokenFile of entry "two" is not accepted: file paths are not followed; put the token inline in token`},
		"insecure": {secret: newSecret(map[string][]byte{"value": kubeconfig(insecure)}), denied: true,
			want: `data key value: clusters[].cluster.insecure-skip-tls-verify of entry "cl" is not accepted: remove it and put the CA in certificate-authority-data, or let the administrator of the hub allow it`},
		"no current context": {secret: newSecret(map[string][]byte{"kubeconfig": kubeconfig(noCurrent)}),
			want: "data key kubeconfig: current-context is ambiguous: the file has several contexts; set it to one of them, or set the annotation import.open-cluster-management.io/kubeconfig-context"},
		"unknown context": {secret: kubeconfigSecret(credential.AnnotationKubeconfigContext, "three"),
			want: "data key kubeconfig: context names an entry that does not exist: set the annotation import.open-cluster-management.io/kubeconfig-context to a context of the file"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cfg, err := credential.NewKubeconfigResolver(c.options).Resolve(t.Context(), credential.Request{ClusterName: "c", Secret: c.secret})
			if c.denied {
				expectDenied(t, err, c.want)
				return
			}
			if c.want != "" {
				expectInvalid(t, err, c.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Host != testServer || cfg.BearerToken != c.token || cfg.Insecure != c.options.InsecureSkipTLSVerify {
				t.Errorf("got %v", cfg)
			}
		})
	}
}

// TestFieldErrorIsReachable: a caller can take the reason, for a metric say.
func TestFieldErrorIsReachable(t *testing.T) {
	secret := newSecret(map[string][]byte{"kubeconfig": kubeconfig(noCurrent)})
	_, err := credential.NewKubeconfigResolver(credential.KubeconfigOptions{}).Resolve(t.Context(), credential.Request{Secret: secret})
	var broken *restconfig.FieldError
	if !errors.As(err, &broken) || broken.Reason != restconfig.ReasonAmbiguous {
		t.Errorf("got %v", err)
	}
}

func TestTokenResolver(t *testing.T) {
	with := func(key, value string) *corev1.Secret {
		s := tokenSecret()
		s.Data[key] = []byte(value)
		return s
	}
	cases := map[string]struct {
		secret *corev1.Secret
		want   string
	}{
		"good": {secret: tokenSecret()},
		"line breaks": {secret: func() *corev1.Secret {
			s := with("token", testToken+"\n")
			s.Data["server"] = []byte(testServer + "\n")
			return s
		}()},
		"autoImportRetry is ignored": {secret: with("autoImportRetry", "5")},
		"no server":                  {secret: tokenSecret("server"), want: "data key server is missing: write it as https://host:port"},
		"no token":                   {secret: tokenSecret("token"), want: "data key token is missing: put the bearer token there"},
		"no CA":                      {secret: tokenSecret("ca.crt")},
		"an empty CA":                {secret: with("ca.crt", "")},
		"CA only a line break":       {secret: with("ca.crt", "\n"), want: "data key ca.crt is not valid: it must hold at least one certificate in PEM form"},
		"no data":                    {secret: newSecret(nil), want: "data key server is missing: write it as https://host:port"},
		"http":                       {secret: with("server", "http://"+testToken), want: "data key server is not accepted: only https is accepted; write it as https://host:port"},
		"CA not PEM":                 {secret: with("ca.crt", testToken), want: "data key ca.crt is not valid: it must hold at least one certificate in PEM form"},
		"token with a line break":    {secret: with("token", testToken+"\nX: y"), want: "data key token is not valid: it must hold no white space, line break or other special character"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			cfg, err := credential.NewTokenResolver().Resolve(t.Context(), credential.Request{ClusterName: "c", Secret: c.secret})
			if c.want != "" {
				expectInvalid(t, err, c.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if cfg.Host != testServer || cfg.BearerToken != testToken || !bytes.Equal(cfg.CAData, c.secret.Data["ca.crt"]) || cfg.Insecure {
				t.Errorf("got %v", cfg)
			}
		})
	}
}

func TestBuiltInsConform(t *testing.T) {
	t.Run("kubeconfig", func(t *testing.T) {
		broken := func(edit func(file *clientcmdapiv1.Config)) *corev1.Secret {
			return newSecret(map[string][]byte{"kubeconfig": kubeconfig(edit)})
		}
		credentialtest.RunConformance(t, credentialtest.Suite{
			Resolver:    credential.NewKubeconfigResolver(credential.KubeconfigOptions{}),
			ValidSecret: func() *corev1.Secret { return kubeconfigSecret() },
			InvalidSecrets: map[string]*corev1.Secret{
				"no data":      newSecret(nil),
				"no key":       newSecret(map[string][]byte{"other": kubeconfig()}),
				"ACM token":    tokenSecret(),
				"wrong key":    kubeconfigSecret(credential.AnnotationKubeconfigKey, "mine"),
				"wrong ctx":    kubeconfigSecret(credential.AnnotationKubeconfigContext, "mine"),
				"not YAML":     newSecret(map[string][]byte{"kubeconfig": []byte(testToken + ": [")}),
				"scalar":       newSecret(map[string][]byte{"kubeconfig": []byte(testToken)}),
				"token file":   broken(func(f *clientcmdapiv1.Config) { f.AuthInfos[0].AuthInfo.TokenFile = "/run/s3nt1nel" }),
				"server":       broken(func(f *clientcmdapiv1.Config) { f.Clusters[0].Cluster.Server = "https://s3nt1nel:password@host" }),
				"as":           broken(func(f *clientcmdapiv1.Config) { f.AuthInfos[0].AuthInfo.ImpersonateGroups = []string{"system:masters"} }),
				"insecure":     broken(insecure),
				"no reference": broken(func(f *clientcmdapiv1.Config) { f.Contexts[0].Context.Cluster = "s3nt1nel-cluster" }),
				"bad token":    broken(func(f *clientcmdapiv1.Config) { f.AuthInfos[0].AuthInfo.Token = "s3nt1nel token" }),
				"exec": broken(func(f *clientcmdapiv1.Config) {
					f.AuthInfos[0].AuthInfo.Exec = &clientcmdapiv1.ExecConfig{Command: "/bin/s3nt1nel", Args: []string{"s3nt1nel-argument"}}
				}),
			},
		})
	})
	t.Run("kubeconfig, insecure", func(t *testing.T) {
		credentialtest.RunConformance(t, credentialtest.Suite{
			Resolver:              credential.NewKubeconfigResolver(credential.KubeconfigOptions{InsecureSkipTLSVerify: true}),
			ValidSecret:           func() *corev1.Secret { return newSecret(map[string][]byte{"kubeconfig": kubeconfig(insecure)}) },
			InvalidSecrets:        map[string]*corev1.Secret{"no data": newSecret(nil)},
			InsecureSkipTLSVerify: true,
		})
	})
	token := credentialtest.Suite{
		Resolver:    credential.NewTokenResolver(),
		ValidSecret: func() *corev1.Secret { return tokenSecret() },
		InvalidSecrets: map[string]*corev1.Secret{
			"no server": tokenSecret("server"), "no token": tokenSecret("token"),
			"bad CA":    newSecret(map[string][]byte{"server": []byte(testServer), "ca.crt": []byte("s3nt1nel"), "token": []byte(testToken)}),
			"bad token": newSecret(map[string][]byte{"server": []byte(testServer), "ca.crt": caPEM(), "token": []byte("s3nt1nel token")}),
			"bad server": newSecret(map[string][]byte{
				"server": []byte("https://s3nt1nel:password@host"), "ca.crt": caPEM(), "token": []byte(testToken)}),
		},
	}
	t.Run("token", func(t *testing.T) { credentialtest.RunConformance(t, token) })
	t.Run("set", func(t *testing.T) {
		set, err := credential.NewSet(map[string]credential.Resolver{credential.ResolverKubeconfig: token.Resolver}, credential.SetOptions{})
		must(err)
		token := token
		token.Resolver = set
		token.InvalidSecrets = maps.Clone(token.InvalidSecrets)
		token.InvalidSecrets["unknown resolver"] = kubeconfigSecret(credential.AnnotationCredentialResolver, testToken)
		credentialtest.RunConformance(t, token)
	})
}

func TestBuiltInsWithoutInput(t *testing.T) {
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, r := range map[string]credential.Resolver{
		"kubeconfig": credential.NewKubeconfigResolver(credential.KubeconfigOptions{}), "token": credential.NewTokenResolver(),
	} {
		if _, err := r.Resolve(cancelled, credential.Request{Secret: newSecret(nil)}); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := r.Resolve(t.Context(), credential.Request{}); err == nil || credential.IsInvalid(err) {
			t.Errorf("%s: got %v, want an unexpected error: no person can fix it", name, err)
		}
	}
}
