// Copyright Contributors to the Open Cluster Management project

package credential_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"open-cluster-management.io/import-provider/pkg/credential"
)

func TestReadDocument(t *testing.T) {
	cases := map[string]struct {
		data string
		want credential.Document
	}{
		"EKS": {"eks: {cluster: c, region: eu-central-1, roleARN: r}",
			credential.Document{EKS: &credential.EKSParameters{Cluster: "c", Region: "eu-central-1", RoleARN: "r"}}},
		"GKE": {"gke: {project: p, location: l, cluster: c, serviceAccount: s}",
			credential.Document{GKE: &credential.GKEParameters{Project: "p", Location: "l", Cluster: "c", ServiceAccount: "s"}}},
		"AKS": {"aks: {subscription: s, resourceGroup: g, cluster: c, clientID: i, tenantID: t}",
			credential.Document{AKS: &credential.AKSParameters{Subscription: "s", ResourceGroup: "g", Cluster: "c", ClientID: "i", TenantID: "t"}}},
		"plugin": {"exec: {plugin: p, server: s, certificateAuthorityData: d, parameters: {a: b}}",
			credential.Document{Exec: &credential.ExecParameters{Plugin: "p", Server: "s", CertificateAuthorityData: "d", Parameters: map[string]string{"a": "b"}}}},
		"profile": {"clusterProfile: {namespace: ns, name: x}", credential.Document{ClusterProfile: &credential.ClusterProfileParameters{Namespace: "ns", Name: "x"}}},
		"exchange": {"exchange: token-request\ntokenRequest: {serviceAccount: a/b, create: true, lifetime: 2h}", credential.Document{
			Exchange: "token-request", TokenRequest: &credential.TokenRequestParameters{
				ServiceAccount: "a/b", Create: true, Lifetime: metav1.Duration{Duration: 2 * time.Hour}}}},
		"exchange alone": {"exchange: token-request", credential.Document{Exchange: "token-request"}},
		"both":           {"eks: {}\nexchange: token-request", credential.Document{EKS: &credential.EKSParameters{}, Exchange: "token-request"}},
		"JSON":           {`{"exchange":"token-request"}`, credential.Document{Exchange: "token-request"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := credential.ReadDocument(newSecret(map[string][]byte{"credential.yaml": []byte(c.data)}))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&c.want, got); diff != "" {
				t.Errorf("document (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		got, err := credential.ReadDocument(kubeconfigSecret())
		if diff := cmp.Diff(&credential.Document{}, got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

func TestReadDocumentRefuses(t *testing.T) {
	const (
		form    = "data key credential.yaml is not valid: it must be YAML with known keys, each once, and values of the right type"
		oneOf   = "data key credential.yaml is not valid: set only one of eks, gke, aks, exec, clusterProfile"
		nothing = "data key credential.yaml is not valid: set one of eks, gke, aks, exec, clusterProfile, or exchange"
	)
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += strings.ReplaceAll(string(c)+": &"+string(c)+" [*P,*P,*P,*P,*P,*P,*P,*P,*P]\n", "P", string(c-1))
	}
	cases := map[string]struct{ data, want string }{
		"not YAML":            {"eks: [" + testToken, form},
		"a word":              {testToken, form},
		"a list":              {"[" + testToken + "]", form},
		"unknown key":         {"eks: {}\n" + testToken + ": x", form},
		"unknown key, deep":   {"eks: {" + testToken + ": x}", form},
		"key in another case": {"EKS: {}", form},
		"deep, another case":  {"eks: {Cluster: c}", form},
		"key twice":           {"eks: {cluster: a, cluster: b}", form},
		"key twice, JSON":     {`{"exchange":"token-request","exchange":"x"}`, form},
		"type":                {"eks: {cluster: [" + testToken + "]}", form},
		"number":              {"eks: {cluster: 12345678}", form},
		"duration":            {"exchange: token-request\ntokenRequest: {lifetime: " + testToken + "}", form},
		"alias bomb":          {bomb, form},
		"too large":           {"# " + strings.Repeat("x", 64<<10), "data key credential.yaml is too large: the limit is 64 KiB"},
		"two resolvers":       {"eks: {}\ngke: {}", oneOf},
		"five resolvers":      {"eks: {}\ngke: {}\naks: {}\nexec: {}\nclusterProfile: {}", oneOf},
		"exchange":            {"exchange: " + testToken, "data key credential.yaml is not valid: exchange must be token-request"},
		"choices without exchange": {"eks: {}\ntokenRequest: {create: true}",
			"data key credential.yaml is not valid: tokenRequest needs exchange: token-request"},
		"empty":     {"", nothing},
		"empty map": {"{}", nothing},
		"null":      {"eks: null", nothing},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			document, err := credential.ReadDocument(newSecret(map[string][]byte{"credential.yaml": []byte(c.data)}))
			if document != nil {
				t.Error("a document is returned")
			}
			expectInvalid(t, err, c.want)
			// The set says it, whichever resolver the Secret is for.
			secret := kubeconfigSecret()
			secret.Data["credential.yaml"] = []byte(c.data)
			_, err = allNames(t, credential.SetOptions{}).Resolve(t.Context(), credential.Request{Secret: secret})
			expectInvalid(t, err, c.want)
		})
	}
}

func TestMissing(t *testing.T) {
	expectInvalid(t, credential.Missing("eks.cluster"), "data key credential.yaml: eks.cluster is missing")
}
