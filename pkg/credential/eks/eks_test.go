// Copyright Contributors to the Open Cluster Management project

package eks_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/cloud"
	"open-cluster-management.io/import-provider/pkg/credential/credentialtest"
	"open-cluster-management.io/import-provider/pkg/credential/eks"
	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/pkg/restconfig"
	"open-cluster-management.io/import-provider/test/cloud/aws"
)

func TestResolve(t *testing.T) {
	spoke, own := aws.Identity{RoleARN: spokeRole, SessionName: "ocm-import-cluster1"}, aws.Identity{RoleARN: hubRole, SessionName: "ocm-import"}
	hubOnly := []string{aws.AssumeRoleWithWebIdentity, aws.DescribeCluster}
	chain := []string{aws.AssumeRoleWithWebIdentity, aws.AssumeRole, aws.DescribeCluster}
	cases := map[string]struct {
		secret *corev1.Secret
		env    map[string]string
		want   aws.Identity
		calls  []string
	}{
		"aws":                         {secret: awsSecret(), want: own, calls: hubOnly},
		"aws with a role":             {secret: awsSecret("--role-arn", spokeRole), want: spoke, calls: chain},
		"aws with a role, older form": {secret: awsSecret("--role", spokeRole), want: spoke, calls: chain},
		"by a path": {secret: stanzaSecret(`C:\Program Files\Amazon\AWSCLIV2\aws.exe`, []string{
			"eks", "get-token", "--cluster-name=prod-1", "--region=eu-central-1"}), want: own, calls: hubOnly},
		"aws-iam-authenticator": {secret: stanzaSecret("aws-iam-authenticator", []string{"token", "-i", "prod-1", "-r", spokeRole}), want: spoke, calls: chain},
		"aws-iam-authenticator, long flags": {secret: stanzaSecret("aws-iam-authenticator", []string{
			"token", "--cluster-id", "prod-1", "--role", spokeRole, "--region", region}), want: spoke, calls: chain},
		"argocd-k8s-auth": {secret: stanzaSecret("argocd-k8s-auth", []string{"aws", "--cluster-name", "prod-1", "--role-arn", spokeRole}), want: spoke, calls: chain},
		"variables": {secret: stanzaSecret("aws", []string{"eks", "get-token", "--cluster-name", "prod-1"}, func(f *clientcmdapiv1.Config) {
			f.Clusters[0].Cluster.Server += ":443/"
			f.AuthInfos[0].AuthInfo.Exec.Env = []clientcmdapiv1.ExecEnvVar{
				{Name: "AWS_STS_REGIONAL_ENDPOINTS", Value: "regional"}, {Name: "AWS_DEFAULT_REGION", Value: "us-east-1"}, {Name: "AWS_REGION", Value: region}}
		}), want: own, calls: hubOnly},
		"credential.yaml":           {secret: documentSecret(credential.EKSParameters{Cluster: "prod-1", Region: region}), want: own, calls: hubOnly},
		"credential.yaml, role":     {secret: documentSecret(credential.EKSParameters{Cluster: "prod-1", Region: region, RoleARN: spokeRole}), want: spoke, calls: chain},
		"credential.yaml, both":     {secret: both(), want: own, calls: hubOnly},
		"EKS Pod Identity":          {secret: awsSecret(), env: podIdentity, want: aws.Identity{RoleARN: hubRole, SessionName: "pod-identity"}, calls: []string{aws.PodIdentity, aws.DescribeCluster}},
		"EKS Pod Identity and role": {secret: awsSecret("--role-arn", spokeRole), env: podIdentity, want: spoke, calls: []string{aws.PodIdentity, aws.AssumeRole, aws.DescribeCluster}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			if c.env != nil {
				h.usePodIdentity(t)
			}
			config, err := h.resolve(t.Context(), c.secret)
			if err != nil {
				t.Fatal(err)
			}
			if got := h.identity(t, config); got != c.want {
				t.Errorf("the token is that of %v, want %v", got, c.want)
			}
			if diff := cmp.Diff(c.calls, h.aws.Operations()); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if !strings.HasPrefix(config.Host, server) || !bytes.Equal(config.CAData, ca()) {
				t.Errorf("the config is for %s", config.Host)
			}
			if err := restconfig.Check(config, restconfig.Options{}); err != nil {
				t.Error(err)
			}
		})
	}
}

var podIdentity = map[string]string{}

// both returns a Secret whose kubeconfig is for another cluster than its credential.yaml, which wins.
func both() *corev1.Secret {
	secret := documentSecret(credential.EKSParameters{Cluster: "prod-1", Region: region})
	secret.Data["kubeconfig"] = stanzaSecret("aws", []string{"eks", "get-token", "--cluster-name", "other"}).Data["kubeconfig"]
	return secret
}

// TestRequests: each parameter of the requests to STS.
func TestRequests(t *testing.T) {
	h := newHub(t)
	h.rule.ExternalID = "{namespace}/{cluster}"
	h.aws.AddRole(aws.Role{ARN: spokeRole, TrustedRole: hubRole, ExternalID: "tenant/cluster1"})
	h.mustResolve(t, awsSecret("--role-arn", spokeRole))
	want := []aws.Request{
		{Operation: aws.AssumeRoleWithWebIdentity, Path: "/", Form: url.Values{
			"Action": {aws.AssumeRoleWithWebIdentity}, "Version": {"2011-06-15"}, "DurationSeconds": {"900"}, "RoleArn": {hubRole},
			"RoleSessionName": {"ocm-import"}, "WebIdentityToken": {webToken}}},
		{Operation: aws.AssumeRole, Path: "/", Region: region, Role: hubRole, Form: url.Values{
			"Action": {aws.AssumeRole}, "Version": {"2011-06-15"}, "DurationSeconds": {"900"}, "RoleArn": {spokeRole},
			"RoleSessionName": {"ocm-import-cluster1"}, "ExternalId": {"tenant/cluster1"}}},
		{Operation: aws.DescribeCluster, Path: "/clusters/prod-1", Region: region, Role: spokeRole},
	}
	if diff := cmp.Diff(want, h.aws.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// TestExternalID (threat 24): the external id comes from the policy and differs for each tenant; without a template none is sent.
func TestExternalID(t *testing.T) {
	for template, want := range map[string]string{"": "", "fixed": "fixed", "{namespace}:{cluster}:{namespace}": "tenant:cluster1:tenant"} {
		h := newHub(t)
		h.rule.ExternalID = template
		h.aws.AddRole(aws.Role{ARN: spokeRole, TrustedRole: hubRole, ExternalID: want})
		h.mustResolve(t, awsSecret("--role-arn", spokeRole))
		if _, sent := h.aws.Requests()[1].Form["ExternalId"]; sent != (want != "") {
			t.Errorf("template %q: an external id is sent: %t", template, sent)
		}
	}
}

func TestSessionName(t *testing.T) {
	h := newHub(t)
	long := strings.Repeat("a", 63)
	config, err := eks.New(h.options).Resolve(t.Context(), credential.Request{ClusterName: long, Secret: awsSecret("--role-arn", spokeRole)})
	if err != nil {
		t.Fatal(err)
	}
	if name := h.identity(t, config).SessionName; len(name) != 64 || !strings.HasPrefix("ocm-import-"+long, name) {
		t.Errorf("got %s", name)
	}
}

// TestPolicy (threats 24 and 33): who may act as whom. Nothing is sent for who may not.
func TestPolicy(t *testing.T) {
	const (
		noRole    = "no role is named, and the policy of the hub does not allow its own: name a role to assume, or let the administrator of the hub set eks.hubIdentity in the rule for the namespace"
		otherRole = "the policy of the hub does not allow the role: name another, or let the administrator of the hub add it to eks.roles in the rule for the namespace"
	)
	cases := map[string]struct {
		edit   func(h *hub)
		secret *corev1.Secret
		want   string
	}{
		"no role, no rule":             {edit: func(h *hub) { h.rule.HubIdentity, h.rule.Roles = false, nil }, secret: awsSecret(), want: noRole},
		"no role, only roles":          {edit: func(h *hub) { h.rule.HubIdentity = false }, secret: awsSecret(), want: noRole},
		"role, no rule":                {edit: func(h *hub) { h.rule.HubIdentity, h.rule.Roles = false, nil }, secret: awsSecret("--role-arn", spokeRole), want: otherRole},
		"role, only hub identity":      {edit: func(h *hub) { h.rule.Roles = nil }, secret: awsSecret("--role-arn", spokeRole), want: otherRole},
		"role of another account":      {secret: awsSecret("--role-arn", "arn:aws:iam::333333333333:role/import/spoke"), want: otherRole},
		"own role by its name":         {secret: awsSecret("--role-arn", hubRole), want: otherRole},
		"other namespace":              {secret: elsewhere(awsSecret()), want: noRole},
		"parameters, no role, no rule": {edit: func(h *hub) { h.rule.HubIdentity = false }, secret: documentSecret(credential.EKSParameters{Cluster: "prod-1", Region: region}), want: noRole},
		"parameters, role of another account": {secret: documentSecret(credential.EKSParameters{
			Cluster: "prod-1", Region: region, RoleARN: "arn:aws:iam::333333333333:role/import/spoke"}), want: otherRole},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			if c.edit != nil {
				c.edit(h)
			}
			_, err := h.resolve(t.Context(), c.secret)
			expect(t, err, denied, c.want)
			if calls := h.aws.Operations(); len(calls) > 0 {
				t.Errorf("AWS was asked %v", calls)
			}
		})
	}
	t.Run("policy that changes while a config is in use", func(t *testing.T) {
		h := newHub(t)
		config, err := h.resolve(t.Context(), awsSecret("--role-arn", spokeRole))
		if err != nil {
			t.Fatal(err)
		}
		h.rule.Roles = nil
		h.clock.SetTime(h.clock.Now().Add(12 * time.Minute))
		h.aws.Reset()
		_, err = credentialtest.SentToken(t.Context(), config)
		expect(t, err, denied, otherRole)
		if calls := h.aws.Operations(); len(calls) > 0 {
			t.Errorf("AWS was asked %v", calls)
		}
	})
}

func elsewhere(secret *corev1.Secret) *corev1.Secret {
	secret.Namespace = "elsewhere"
	return secret
}

// TestEndpoint (threats 9 and 10): a token is made only for the server and the CA that EKS reports, or that are pinned.
func TestEndpoint(t *testing.T) {
	const noCA = "no CA is given, and the server is not one of the cluster that has a certificate of a public authority, as the cloud reports it: put the CA of the cluster into certificate-authority-data, or correct the server"
	const other = "the server or the CA is not that of the cluster that the credential is for, as the cloud reports it: correct it, or let the administrator of the hub add it to endpoints.pinned"
	args := []string{"--region", region, "eks", "get-token", "--cluster-name", "prod-1"}
	with := func(edit func(c *clientcmdapiv1.Cluster)) *corev1.Secret {
		return stanzaSecret("aws", args, func(f *clientcmdapiv1.Config) { edit(&f.Clusters[0].Cluster) })
	}
	hostile := httptest.NewTLSServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") }))
	defer hostile.Close()
	for name, secret := range map[string]*corev1.Secret{
		"another server": with(func(c *clientcmdapiv1.Cluster) { c.Server = hostile.URL }),
		"another server of EKS": with(func(c *clientcmdapiv1.Cluster) {
			c.Server = "https://FEDCBA9876543210.gr7.eu-central-1.eks.amazonaws.com"
		}),
		"another port":           with(func(c *clientcmdapiv1.Cluster) { c.Server = server + ":8443" }),
		"another path":           with(func(c *clientcmdapiv1.Cluster) { c.Server = server + "/x" }),
		"another CA":             with(func(c *clientcmdapiv1.Cluster) { c.CertificateAuthorityData = newCA() }),
		"a CA more":              with(func(c *clientcmdapiv1.Cluster) { c.CertificateAuthorityData = append(newCA(), ca()...) }),
		"another TLS name":       with(func(c *clientcmdapiv1.Cluster) { c.TLSServerName = "example.com" }),
		"no CA":                  with(func(c *clientcmdapiv1.Cluster) { c.CertificateAuthorityData = nil }),
		"another server, no CA":  with(func(c *clientcmdapiv1.Cluster) { c.Server, c.CertificateAuthorityData = hostile.URL, nil }),
		"no verification of TLS": with(func(c *clientcmdapiv1.Cluster) { c.InsecureSkipTLSVerify, c.CertificateAuthorityData = true, nil }),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.options.Kubeconfig.InsecureSkipTLSVerify = true
			config, err := h.resolve(t.Context(), secret)
			text := other
			if strings.HasSuffix(name, "no CA") {
				text = noCA
			}
			expect(t, err, denied, text)
			if config != nil {
				t.Error("there is a config")
			}
		})
	}
	pinned := func(h *hub, server string, ca []byte) {
		h.extra = "endpoints: {pinned: [{server: " + server + ", certificateAuthorityData: " + quoted(ca) + "}]}\n"
	}
	t.Run("pinned", func(t *testing.T) {
		h := newHub(t)
		secret := with(func(c *clientcmdapiv1.Cluster) {
			c.Server, c.TLSServerName = "https://private.example.com", "x.gr7.eu-central-1.eks.amazonaws.com"
		})
		pinned(h, "https://private.example.com", ca())
		h.mustResolve(t, secret)
		if calls := h.aws.Operations(); slices.Contains(calls, aws.DescribeCluster) {
			t.Errorf("EKS was asked although the administrator knows the cluster: %v", calls)
		}
	})
	t.Run("pinned, and no CA", func(t *testing.T) {
		h := newHub(t)
		pinned(h, "https://private.example.com", ca())
		_, err := h.resolve(t.Context(), with(func(c *clientcmdapiv1.Cluster) {
			c.Server, c.CertificateAuthorityData = "https://private.example.com", nil
		}))
		expect(t, err, denied, noCA)
	})
	t.Run("pinned with another CA", func(t *testing.T) {
		h := newHub(t)
		pinned(h, "https://private.example.com", newCA())
		_, err := h.resolve(t.Context(), with(func(c *clientcmdapiv1.Cluster) { c.Server = "https://private.example.com" }))
		expect(t, err, denied, other)
	})
	t.Run("cluster that moves", func(t *testing.T) {
		for name, secret := range map[string]*corev1.Secret{"stanza": awsSecret(), "parameters": documentSecret(credential.EKSParameters{Cluster: "prod-1", Region: region})} {
			h := newHub(t)
			config, err := h.resolve(t.Context(), secret)
			if err != nil {
				t.Fatal(err)
			}
			moved := theCluster
			moved.CA = newCA()
			h.aws.AddCluster(moved)
			h.clock.SetTime(h.clock.Now().Add(12 * time.Minute))
			if _, err := credentialtest.SentToken(t.Context(), config); !errors.Is(err, cloud.ErrOtherEndpoint) {
				t.Errorf("%s: got %v", name, err)
			}
		}
	})
	t.Run("same stanza, another server", func(t *testing.T) {
		// The first token is in the cache.
		h := newHub(t)
		h.mustResolve(t, awsSecret())
		_, err := h.resolve(t.Context(), with(func(c *clientcmdapiv1.Cluster) { c.Server = hostile.URL }))
		expect(t, err, denied, other)
	})
}

func quoted(data []byte) string { return `"` + strings.ReplaceAll(string(data), "\n", `\n`) + `"` }

// TestExpiry: a token is kept for 80 % of its 14 minutes, by the clock of the hub.
func TestExpiry(t *testing.T) {
	for name, secret := range map[string]*corev1.Secret{
		"stanza": awsSecret("--role-arn", spokeRole), "parameters": documentSecret(credential.EKSParameters{Cluster: "prod-1", Region: region}),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			config, err := h.resolve(t.Context(), secret)
			if err != nil {
				t.Fatal(err)
			}
			h.aws.Reset()
			first := bearer(t, config)
			h.clock.SetTime(h.clock.Now().Add(10 * time.Minute))
			if bearer(t, config) != first || len(h.aws.Operations()) > 0 {
				t.Error("the token is not kept for 10 minutes")
			}
			h.clock.SetTime(h.clock.Now().Add(75 * time.Second))
			if bearer(t, config) == first {
				t.Error("the token is the same at 80 % of its life")
			}
			h.identity(t, config)
		})
	}
	t.Run("credentials that end before", func(t *testing.T) {
		h := newHub(t)
		h.usePodIdentity(t)
		h.aws.Fail(aws.PodIdentity, aws.Failure{Status: http.StatusOK, Body: `{"AccessKeyId":"k","SecretAccessKey":"s","Token":"t","Expiration":"2031-02-03T04:06:46Z"}`})
		h.extra = "endpoints: {pinned: [{server: " + server + ", certificateAuthorityData: " + quoted(ca()) + "}]}\n"
		config, err := h.resolve(t.Context(), awsSecret())
		if err != nil {
			t.Fatal(err)
		}
		first := bearer(t, config)
		h.clock.SetTime(h.clock.Now().Add(81 * time.Second)) // of 100
		if bearer(t, config) == first {
			t.Error("the token outlives the credentials that it is signed with")
		}
	})
}

// TestCache (threat 28): one token for one Secret, and none of an older one.
func TestCache(t *testing.T) {
	h := newHub(t)
	resolver := eks.New(h.options)
	resolve := func(edit func(s *corev1.Secret)) {
		t.Helper()
		secret := awsSecret("--role-arn", spokeRole)
		edit(secret)
		if _, err := resolver.Resolve(t.Context(), credential.Request{ClusterName: "cluster1", Secret: secret}); err != nil {
			t.Fatal(err)
		}
	}
	minted := func() (count int) {
		for _, name := range h.aws.Operations() {
			if name == aws.AssumeRole {
				count++
			}
		}
		return count
	}
	unchanged := func(*corev1.Secret) {}
	resolve(unchanged)
	resolve(unchanged)
	if minted() != 1 {
		t.Errorf("%d tokens for one Secret", minted())
	}
	changed := func(s *corev1.Secret) { s.ResourceVersion = "2" }
	resolve(changed)
	resolve(func(s *corev1.Secret) { s.UID = "other" })
	if minted() != 3 {
		t.Errorf("%d tokens for three Secrets", minted())
	}
	h.rule.ExternalID = "new"
	h.aws.AddRole(aws.Role{ARN: spokeRole, TrustedRole: hubRole, ExternalID: "new"})
	resolve(changed)
	if minted() != 4 {
		t.Error("a token of another external id is used")
	}
	// credential.yaml looks up where the cluster is for each attempt, and keeps the token.
	parameters := documentSecret(credential.EKSParameters{Cluster: "prod-1", Region: region, RoleARN: spokeRole})
	parameters.UID = "parameters"
	h.aws.Reset()
	tokens := map[string]bool{}
	for range 2 {
		config, err := resolver.Resolve(t.Context(), credential.Request{ClusterName: "cluster1", Secret: parameters})
		if err != nil {
			t.Fatal(err)
		}
		tokens[bearer(t, config)] = true
	}
	if calls := len(h.aws.Operations()); len(tokens) != 1 || calls != 6 {
		t.Errorf("%d tokens, %d requests", len(tokens), calls)
	}
}

// TestTokenForm: what is in a token.
func TestTokenForm(t *testing.T) {
	h := newHub(t)
	config, err := h.resolve(t.Context(), awsSecret())
	if err != nil {
		t.Fatal(err)
	}
	encoded, _ := strings.CutPrefix(bearer(t, config), "k8s-aws-v1.")
	address, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(string(address))
	if err != nil {
		t.Fatal(err)
	}
	// Not the STS of the policy: EKS accepts its own only.
	if u.Host != "sts.eu-central-1.amazonaws.com" || u.Path != "/" {
		t.Errorf("the token is for %s%s", u.Host, u.Path)
	}
	for name, want := range map[string]string{
		"X-Amz-Date": "20310203T040506Z", "X-Amz-Expires": "60", "X-Amz-SignedHeaders": "host;x-k8s-aws-id", "Action": "GetCallerIdentity",
	} {
		if got := u.Query().Get(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.rule.HubIdentity = false
	edited := func(edit func(e *clientcmdapiv1.ExecConfig)) *corev1.Secret {
		return stanzaSecret("aws", []string{"eks", "get-token", "--cluster-name=s3nt1nel-name", "--role-arn=" + spokeRole}, func(f *clientcmdapiv1.Config) {
			edit(f.AuthInfos[0].AuthInfo.Exec)
		})
	}
	invalidSecrets := map[string]*corev1.Secret{
		"no data": newSecret("other", nil),
		"no stanza": stanzaSecret("aws", nil, func(f *clientcmdapiv1.Config) {
			f.AuthInfos[0].AuthInfo.Exec, f.AuthInfos[0].AuthInfo.Token = nil, "s3nt1nel-token"
		}),
		"other command": edited(func(e *clientcmdapiv1.ExecConfig) { e.Command = "/bin/s3nt1nel-command" }),
		"profile":       edited(func(e *clientcmdapiv1.ExecConfig) { e.Args = append(e.Args, "--profile=s3nt1nel-profile") }),
		"AWS_PROFILE": edited(func(e *clientcmdapiv1.ExecConfig) {
			e.Env = []clientcmdapiv1.ExecEnvVar{{Name: "AWS_PROFILE", Value: "s3nt1nel-profile"}}
		}),
		"region":     edited(func(e *clientcmdapiv1.ExecConfig) { e.Args = append(e.Args, "--region=s3nt1nel-region") }),
		"role":       edited(func(e *clientcmdapiv1.ExecConfig) { e.Args[3] = "--role-arn=s3nt1nel-role" }),
		"no role":    edited(func(e *clientcmdapiv1.ExecConfig) { e.Args = e.Args[:3] }),
		"no cluster": edited(func(e *clientcmdapiv1.ExecConfig) { e.Args = e.Args[:2] }),
		"not found":  edited(func(*clientcmdapiv1.ExecConfig) {}),
		"other server": stanzaSecret("aws", []string{"eks", "get-token", "--cluster-name=prod-1", "--role-arn=" + spokeRole}, func(f *clientcmdapiv1.Config) {
			f.Clusters[0].Cluster.Server = "https://s3nt1nel.eu-central-1.eks.amazonaws.com"
		}),
		"document":           newSecret(credential.DocumentKey, []byte("eks: {cluster: s3nt1nel-name, zone: s3nt1nel-zone}")),
		"document, region":   documentSecret(credential.EKSParameters{Cluster: "prod-1", Region: "s3nt1nel-region"}),
		"document, role":     documentSecret(credential.EKSParameters{Cluster: "prod-1", Region: region, RoleARN: "s3nt1nel-role"}),
		"document, not here": documentSecret(credential.EKSParameters{Cluster: "s3nt1nel-name", Region: region, RoleARN: spokeRole}),
	}
	for name, valid := range map[string]func() *corev1.Secret{
		"stanza": func() *corev1.Secret { return awsSecret("--role-arn", spokeRole) },
		"parameters": func() *corev1.Secret {
			return documentSecret(credential.EKSParameters{Cluster: "prod-1", Region: region, RoleARN: spokeRole})
		},
	} {
		t.Run(name, func(t *testing.T) {
			credentialtest.RunConformance(t, credentialtest.Suite{Resolver: eks.New(h.options), ValidSecret: valid, InvalidSecrets: invalidSecrets})
		})
	}
}

// TestWithoutInput: what no person can fix.
func TestWithoutInput(t *testing.T) {
	h := newHub(t)
	if _, err := eks.New(h.options).Resolve(t.Context(), credential.Request{}); err == nil || credential.IsInvalid(err) {
		t.Errorf("got %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := h.resolve(cancelled, awsSecret()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestSharedMemory: who changes the CA of a result does not change what later tokens are bound to.
func TestSharedMemory(t *testing.T) {
	h := newHub(t)
	config, err := h.resolve(t.Context(), awsSecret())
	if err != nil {
		t.Fatal(err)
	}
	clear(config.CAData)
	h.clock.SetTime(h.clock.Now().Add(12 * time.Minute))
	h.identity(t, config)
}

func BenchmarkResolve(b *testing.B) {
	h := newHub(b)
	secret := awsSecret("--role-arn", spokeRole)
	for b.Loop() {
		h.options.Tokens = newTokens(h.clock)
		if _, err := h.resolve(b.Context(), secret); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkResolveCached: another attempt for the same Secret.
func BenchmarkResolveCached(b *testing.B) {
	h := newHub(b)
	resolver := eks.New(h.options)
	secret := awsSecret("--role-arn", spokeRole)
	for b.Loop() {
		if _, err := resolver.Resolve(b.Context(), credential.Request{ClusterName: "cluster1", Secret: secret}); err != nil {
			b.Fatal(err)
		}
	}
}

// TestSample: the Secrets of manifests/samples/eks.yaml work with the policy that it describes.
func TestSample(t *testing.T) {
	const (
		sampleServer = "https://0123456789ABCDEF0123456789ABCDEF.gr7.eu-central-1.eks.amazonaws.com"
		sampleRole   = "arn:aws:iam::222222222222:role/ocm-import-"
	)
	data, err := os.ReadFile("../../../manifests/samples/eks.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(data), "cmVwbGFjZSBtZQ==", base64.StdEncoding.EncodeToString(ca()))
	h := newHub(t)
	h.namespace = "open-cluster-management-import"
	h.rule = policy.EKS{Roles: []string{sampleRole + "*"}, ExternalID: "{namespace}/{cluster}"}
	names := []string{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		secret := &corev1.Secret{}
		if err := yaml.UnmarshalStrict([]byte(document), secret); err != nil {
			t.Fatal(err)
		}
		names = append(names, secret.Name)
		h.aws.AddRole(aws.Role{ARN: sampleRole + secret.Name, TrustedRole: hubRole, ExternalID: secret.Namespace + "/" + secret.Name})
		cluster := aws.Cluster{Name: secret.Name, Region: region, Endpoint: sampleServer, CA: ca(), Roles: []string{sampleRole + secret.Name}}
		h.aws.AddCluster(cluster)
		secret.Data = map[string][]byte{}
		for key, value := range secret.StringData {
			secret.Data[key] = []byte(value)
		}
		config, err := eks.New(h.options).Resolve(t.Context(), credential.Request{ClusterName: secret.Name, Secret: secret})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.aws.Verify(bearer(t, config), cluster); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(names, []string{"cluster1", "cluster2"}) {
		t.Errorf("the sample has %v", names)
	}
}
