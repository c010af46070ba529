// Copyright Contributors to the Open Cluster Management project

package credential_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/credentialtest"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

// stanza puts an exec stanza, a command and its arguments, into the place of the token of the current context.
func stanza(commandLine ...string) func(file *clientcmdapiv1.Config) {
	return func(file *clientcmdapiv1.Config) {
		file.AuthInfos[0].AuthInfo = clientcmdapiv1.AuthInfo{Exec: &clientcmdapiv1.ExecConfig{Command: commandLine[0], Args: commandLine[1:]}}
	}
}

func stanzaSecret(commandLine ...string) *corev1.Secret {
	return newSecret(map[string][]byte{"kubeconfig": kubeconfig(stanza(commandLine...))})
}

// allNames is a set of all built-in names, and one more.
func allNames(t *testing.T, o credential.SetOptions) *credential.Set {
	t.Helper()
	resolvers := map[string]credential.Resolver{}
	for _, name := range []string{"kubeconfig", "token", "eks", "gke", "aks", "exec", "clusterprofile", "third-party"} {
		resolvers[name] = &credentialtest.Fake{Config: goodConfig()}
	}
	set, err := credential.NewSet(resolvers, o)
	must(err)
	return set
}

func TestRecogniseStanza(t *testing.T) {
	cases := []struct {
		commandLine string
		want        string
	}{
		{"aws eks get-token --cluster-name c --output json", "eks"},
		{"aws --region eu-central-1 eks get-token --cluster-name c --role-arn r", "eks"},
		{"aws-iam-authenticator token -i c -r r", "eks"},
		{"gke-gcloud-auth-plugin", "gke"},
		{"kubelogin get-token --login azurecli --server-id s", "aks"},
		{"kubelogin get-token --login workloadidentity", "aks"},
		{"argocd-k8s-auth aws --cluster-name c", "eks"},
		{"argocd-k8s-auth gcp", "gke"},
		{"argocd-k8s-auth azure", "aks"},

		{"/usr/local/bin/aws eks get-token", "eks"},
		{`C:\Tools\aws.exe eks get-token`, "eks"},
		{`C:/Tools/gke-gcloud-auth-plugin.exe`, "gke"},
		{`..\kubelogin.exe get-token`, "aks"},
		{"./aws", "eks"},

		// Not known: the administrator may have a plugin of that name.
		{"argocd-k8s-auth", "exec"},
		{"argocd-k8s-auth oci", "exec"},
		{"argocd-k8s-auth --x aws", "exec"},
		{"/bin/sh -c aws", "exec"},
		{"aws/", "exec"},
		{"aws.cmd", "exec"},
		{"AWS", "exec"},
		{"xaws", "exec"},
		{"tsh kube credentials", "exec"},
	}
	set := allNames(t, credential.SetOptions{})
	for _, c := range cases {
		words := strings.Split(c.commandLine, " ")
		if got := credential.RecogniseStanza(&restconfig.Exec{Command: words[0], Args: words[1:]}); got != c.want {
			t.Errorf("%s: got %s, want %s", c.commandLine, got, c.want)
		}
		if got := set.NameFor(stanzaSecret(words...)); got != c.want {
			t.Errorf("%s, in a Secret: got %s, want %s", c.commandLine, got, c.want)
		}
	}
}

func TestCommandName(t *testing.T) {
	for command, want := range map[string]string{
		"aws": "aws", "/a/b": "b", `a\b.exe`: "b", `/a\b/c.exe`: "c", "": "", "/": "", "a.exe.exe": "a.exe", ".exe": "",
	} {
		if got := credential.CommandName(&restconfig.Exec{Command: command}); got != want {
			t.Errorf("%q: got %q, want %q", command, got, want)
		}
	}
}

// TestRecognition: what decides when a Secret has several signs.
func TestRecognition(t *testing.T) {
	const (
		eksDocument = "eks: {cluster: c, region: r}"
		annotation  = credential.AnnotationCredentialResolver
	)
	withDocument := func(document string, data []byte, annotations ...string) *corev1.Secret {
		return newSecret(map[string][]byte{credential.DocumentKey: []byte(document), "kubeconfig": data}, annotations...)
	}
	broken := func(edit func(file *clientcmdapiv1.Config)) *corev1.Secret {
		return newSecret(map[string][]byte{"kubeconfig": kubeconfig(stanza("aws"), edit)})
	}
	cases := []struct {
		name   string
		secret *corev1.Secret
		want   string
	}{
		{"nothing", newSecret(nil), "kubeconfig"},
		{"a token in the kubeconfig", kubeconfigSecret(), "kubeconfig"},
		{"keys of the token resolver", tokenSecret(), "kubeconfig"},
		{"a stanza in another context", newSecret(map[string][]byte{"kubeconfig": kubeconfig(stanza("aws"))}, credential.AnnotationKubeconfigContext, "two"), "kubeconfig"},
		{"a stanza under another key", newSecret(map[string][]byte{"k": kubeconfig(stanza("aws"))}, credential.AnnotationKubeconfigKey, "k"), "eks"},
		{"a stanza of a server that is not verified", broken(insecure), "eks"},
		{"annotation before stanza", newSecret(map[string][]byte{"kubeconfig": kubeconfig(stanza("aws"))}, annotation, "exec"), "exec"},
		{"annotation before document", withDocument(eksDocument, kubeconfig(), annotation, "third-party"), "third-party"},
		{"unknown annotation", newSecret(map[string][]byte{"kubeconfig": kubeconfig(stanza("aws"))}, annotation, "x"), ""},
		{"document before stanza", withDocument("gke: {project: p, location: l, cluster: c}", kubeconfig(stanza("aws"))), "gke"},
		{"document alone", newSecret(map[string][]byte{credential.DocumentKey: []byte(eksDocument)}), "eks"},
		{"document for AKS", withDocument("aks: {}", kubeconfig()), "aks"},
		{"document for a plugin", withDocument("exec: {}", kubeconfig()), "exec"},
		{"document for a profile", withDocument("clusterProfile: {}", kubeconfig()), "clusterprofile"},
		{"document about the exchange alone", withDocument("exchange: token-request", kubeconfig(stanza("kubelogin"))), "aks"},
		{"document that is not valid", withDocument("eks: [", kubeconfig(stanza("aws"))), "eks"},
		{"kubeconfig that is not valid", broken(func(f *clientcmdapiv1.Config) { f.AuthInfos[1].AuthInfo.TokenFile = "/x" }), "kubeconfig"},
		{"kubeconfig with a proxy that is not allowed", broken(func(f *clientcmdapiv1.Config) { f.Clusters[0].Cluster.ProxyURL = "http://p:1" }), "kubeconfig"},
	}
	set := allNames(t, credential.SetOptions{})
	for _, c := range cases {
		if got := set.NameFor(c.secret); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}

	t.Run("what is wrong besides the stanza is what is said", func(t *testing.T) {
		resolver := credential.NewKubeconfigResolver(credential.KubeconfigOptions{})
		secret := broken(func(f *clientcmdapiv1.Config) { f.AuthInfos[1].AuthInfo.TokenFile = "/x" })
		_, err := resolver.Resolve(t.Context(), credential.Request{Secret: secret})
		expectInvalid(t, err, `data key kubeconfig: users[].user.tokenFile of entry "two" is not accepted: file paths are not followed; put the token inline in token`)
		_, err = resolver.Resolve(t.Context(), credential.Request{Secret: stanzaSecret("aws")})
		expectInvalid(t, err, `data key kubeconfig: users[].user.exec of entry "one" is not accepted: plugins are not run; use a credential resolver, or use token, or client-certificate-data and client-key-data`)
	})
}

func TestParseStanza(t *testing.T) {
	got, err := credential.ParseStanza(stanzaSecret("/opt/aws", "eks", "get-token"), credential.KubeconfigOptions{})
	if err != nil || got.Exec.Command != "/opt/aws" || got.User != "one" || got.Cluster != "cl" || got.Config.Host != testServer {
		t.Errorf("got %+v, %v", got, err)
	}
	_, err = credential.ParseStanza(kubeconfigSecret(), credential.KubeconfigOptions{})
	expectInvalid(t, err, "the kubeconfig has no exec stanza: add one, or the data key credential.yaml")
	_, err = credential.ParseStanza(newSecret(nil), credential.KubeconfigOptions{})
	if !credential.IsInvalid(err) {
		t.Errorf("got %v", err)
	}

	const proxy = "http://proxy.example.com:3128"
	proxied := newSecret(map[string][]byte{"kubeconfig": kubeconfig(stanza("aws"), func(f *clientcmdapiv1.Config) { f.Clusters[0].Cluster.ProxyURL = proxy })})
	_, err = credential.ParseStanza(proxied, credential.KubeconfigOptions{})
	expectDenied(t, err, `data key kubeconfig: clusters[].cluster.proxy-url of entry "cl" is not accepted: remove it, or use one that the administrator of the hub accepts`)
	got, err = credential.ParseStanza(proxied, credential.KubeconfigOptions{Proxies: func() []string { return []string{proxy} }})
	if err != nil || got.Config.Proxy == nil {
		t.Errorf("got %+v, %v", got, err)
	}
}
