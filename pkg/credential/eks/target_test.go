// Copyright Contributors to the Open Cluster Management project

package eks_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/test/cloud/aws"
)

// TestRefusedStanzas (threats 4, 24 and 25): what would read a file, go elsewhere, choose an external id or keep a credential is
// refused by its name, and so are values that could leave their place in a host, a path or a header. Nothing is sent, nothing is read.
func TestRefusedStanzas(t *testing.T) {
	const (
		field   = `data key kubeconfig: users[].user.exec.args of entry "u" `
		cluster = "is not valid: the name of the cluster must be letters, digits, - and _, at most 100"
		region  = "is not valid: the region must be one of AWS, such as eu-central-1"
		role    = "is not valid: the role must be the ARN of a role of IAM, arn:aws:iam::ACCOUNT:role/NAME"
	)
	unknown := func(flag, tool string) string {
		return "is not accepted: remove the flag " + flag + " of " + tool + ", which is not known here"
	}
	awsArgs := func(more ...string) []string {
		return append([]string{"eks", "get-token", "--cluster-name", "prod-1"}, more...)
	}
	iamArgs := func(more ...string) []string { return append([]string{"token", "-i", "prod-1"}, more...) }
	cases := map[string]struct {
		command string
		args    []string
		want    string
	}{
		"--profile":         {"aws", awsArgs("--profile", "s3nt1nel"), unknown("--profile", "aws")},
		"--profile first":   {"aws", append([]string{"--profile", "s3nt1nel"}, awsArgs()...), unknown("--profile", "aws")},
		"--endpoint-url":    {"aws", awsArgs("--endpoint-url=https://s3nt1nel"), unknown("--endpoint-url", "aws")},
		"--no-verify-ssl":   {"aws", awsArgs("--no-verify-ssl"), unknown("--no-verify-ssl", "aws")},
		"--ca-bundle":       {"aws", awsArgs("--ca-bundle", "/s3nt1nel"), unknown("--ca-bundle", "aws")},
		"--debug":           {"aws", awsArgs("--debug"), unknown("--debug", "aws")},
		"--no-sign-request": {"aws", awsArgs("--no-sign-request"), unknown("--no-sign-request", "aws")},
		"--query":           {"aws", awsArgs("--query", "s3nt1nel"), unknown("--query", "aws")},
		"--cluster-id":      {"aws", []string{"eks", "get-token", "--cluster-id", "s3nt1nel"}, unknown("--cluster-id", "aws")},
		"--output text":     {"aws", awsArgs("--output", "text"), "is not accepted: the flag --output must be one of json"},
		"another command":   {"aws", []string{"s3", "cp", "s3nt1nel"}, "is not valid: only aws eks get-token with flags is known here"},

		"--cache":                {"aws-iam-authenticator", iamArgs("--cache"), unknown("--cache", "aws-iam-authenticator")},
		"--external-id":          {"aws-iam-authenticator", iamArgs("--external-id", "s3nt1nel"), unknown("--external-id", "aws-iam-authenticator")},
		"-e":                     {"aws-iam-authenticator", iamArgs("-e", "s3nt1nel"), unknown("-e", "aws-iam-authenticator")},
		"--session-name":         {"aws-iam-authenticator", iamArgs("-s", "s3nt1nel"), unknown("-s", "aws-iam-authenticator")},
		"--forward-session-name": {"aws-iam-authenticator", iamArgs("--forward-session-name"), unknown("--forward-session-name", "aws-iam-authenticator")},
		"--config":               {"aws-iam-authenticator", iamArgs("-c", "/s3nt1nel"), unknown("-c", "aws-iam-authenticator")},
		"--token-only":           {"aws-iam-authenticator", iamArgs("--token-only"), unknown("--token-only", "aws-iam-authenticator")},
		"--role-arn":             {"aws-iam-authenticator", iamArgs("--role-arn", "s3nt1nel"), unknown("--role-arn", "aws-iam-authenticator")},
		"server":                 {"aws-iam-authenticator", []string{"server"}, "is not valid: only aws-iam-authenticator token with flags is known here"},
		"argocd --profile":       {"argocd-k8s-auth", []string{"aws", "--cluster-name", "prod-1", "--profile", "s3nt1nel"}, unknown("--profile", "argocd-k8s-auth")},
		"argocd gcp":             {"argocd-k8s-auth", []string{"gcp"}, "is not valid: only argocd-k8s-auth aws with flags is known here"},
		"another tool": {"/bin/sh", []string{"-c", "s3nt1nel"}, "is not valid: the command must be aws, aws-iam-authenticator or argocd-k8s-auth; " +
			"for another, set the annotation import.open-cluster-management.io/credential-resolver to exec"},

		"no cluster":        {"aws", []string{"eks", "get-token"}, "is not valid: the name of the cluster is missing"},
		"cluster, path":     {"aws", []string{"eks", "get-token", "--cluster-name", "../s3nt1nel"}, cluster},
		"cluster, query":    {"aws", []string{"eks", "get-token", "--cluster-name", "s3nt1nel?x=y"}, cluster},
		"cluster, ARN":      {"aws", []string{"eks", "get-token", "--cluster-name", "arn:aws:eks:s3nt1nel"}, cluster},
		"cluster, too long": {"aws", []string{"eks", "get-token", "--cluster-name", strings.Repeat("a", 101)}, cluster},
		"region, host":      {"aws", awsArgs("--region", "s3nt1nel.example.com/"), region},
		"region, fragment":  {"aws", awsArgs("--region", "eu-central-1.evil.example#"), region},
		"region, capitals":  {"aws", awsArgs("--region", "EU-CENTRAL-1"), region},
		"region, global":    {"aws", awsArgs("--region", "aws-global"), region},
		"role, name only":   {"aws", awsArgs("--role-arn", "s3nt1nel"), role},
		"role, user":        {"aws", awsArgs("--role-arn", "arn:aws:iam::222222222222:user/s3nt1nel"), role},
		"role, session":     {"aws", awsArgs("--role-arn", "arn:aws:sts::222222222222:assumed-role/s3nt1nel/x"), role},
		"role, wildcard":    {"aws", awsArgs("--role-arn", "arn:aws:iam::222222222222:role/*"), role},
		"role, no account":  {"aws", awsArgs("--role-arn", "arn:aws:iam:::role/s3nt1nel"), role},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			h.rule.Roles = []string{"*"}
			_, err := h.resolve(t.Context(), stanzaSecret(c.command, c.args))
			// The data key is not named: the stanza may be another source's than the Secret's.
			expect(t, err, invalid, strings.TrimPrefix(field, "data key kubeconfig: ")+c.want)
			if strings.Contains(err.Error(), "s3nt1nel") || len(h.aws.Operations()) > 0 {
				t.Errorf("the error shows a value, or AWS was asked %v", h.aws.Operations())
			}
		})
	}
	for _, variable := range []string{
		"AWS_PROFILE", "AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CA_BUNDLE", "AWS_ENDPOINT_URL", "HTTPS_PROXY", "KUBERNETES_AWS_AUTHENTICATOR_CLUSTER_ID", "DEFAULT_ROLE",
	} {
		t.Run(variable, func(t *testing.T) {
			h := newHub(t)
			_, err := h.resolve(t.Context(), stanzaSecret("aws", awsArgs(), func(f *clientcmdapiv1.Config) {
				f.AuthInfos[0].AuthInfo.Exec.Env = []clientcmdapiv1.ExecEnvVar{{Name: variable, Value: "s3nt1nel"}}
			}))
			expect(t, err, invalid, `users[].user.exec.env of entry "u" is not accepted: remove the variable `+variable+", which is not known here")
		})
	}
}

func TestRefusedParameters(t *testing.T) {
	const prefix = "data key credential.yaml: eks."
	for want, p := range map[string]credential.EKSParameters{
		prefix + "cluster is missing": {Region: region},
		prefix + "region is missing":  {Cluster: "prod-1"},
		prefix + "cluster is not valid: the name of the cluster must be letters, digits, - and _, at most 100":     {Cluster: "a/s3nt1nel", Region: region},
		prefix + "region is not valid: the region must be one of AWS, such as eu-central-1":                        {Cluster: "prod-1", Region: "s3nt1nel"},
		prefix + "roleARN is not valid: the role must be the ARN of a role of IAM, arn:aws:iam::ACCOUNT:role/NAME": {Cluster: "prod-1", Region: region, RoleARN: "s3nt1nel"},
	} {
		h := newHub(t)
		_, err := h.resolve(t.Context(), documentSecret(p))
		expect(t, err, invalid, want)
	}
	h := newHub(t)
	secret := newSecret(credential.DocumentKey, []byte("eks: {cluster: prod-1, region: eu-central-1, externalID: s3nt1nel}"))
	_, err := h.resolve(t.Context(), secret)
	expect(t, err, invalid, "data key credential.yaml is not valid: it must be YAML with known keys, each once, and values of the right type")
}

// TestRegion: the flag, else the variables, else the host of the server.
func TestRegion(t *testing.T) {
	const none = `users[].user.exec.args of entry "u" is not valid: the region is not known; add the flag --region, or the variable AWS_REGION`
	secret := func(server string, env map[string]string, args ...string) *corev1.Secret {
		return stanzaSecret("aws", append([]string{"eks", "get-token", "--cluster-name", "prod-1"}, args...), func(f *clientcmdapiv1.Config) {
			f.Clusters[0].Cluster.Server = server
			for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION"} {
				if env[name] != "" {
					f.AuthInfos[0].AuthInfo.Exec.Env = append(f.AuthInfos[0].AuthInfo.Exec.Env, clientcmdapiv1.ExecEnvVar{Name: name, Value: env[name]})
				}
			}
		})
	}
	const everywhere = "https://X.gr7.us-west-2.eks.amazonaws.com"
	cases := map[string]struct {
		secret *corev1.Secret
		want   string
	}{
		"flag before all":     {secret(everywhere, map[string]string{"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}, "--region", "ap-south-1"), "ap-south-1"},
		"AWS_REGION":          {secret(everywhere, map[string]string{"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}), "eu-west-1"},
		"AWS_DEFAULT_REGION":  {secret(everywhere, map[string]string{"AWS_DEFAULT_REGION": "eu-west-2"}), "eu-west-2"},
		"server":              {secret(everywhere, nil), "us-west-2"},
		"capitals":            {secret("https://X.GR7.US-WEST-2.EKS.AMAZONAWS.COM:443", nil), "us-west-2"},
		"two generations ago": {secret("https://X.yl4.us-west-2.eks.amazonaws.com", nil), "us-west-2"},
		"China":               {secret("https://X.gr7.cn-north-1.eks.amazonaws.com.cn", nil), "cn-north-1"},
		"GovCloud":            {secret("https://X.gr7.us-gov-west-1.eks.amazonaws.com", nil), "us-gov-west-1"},
		"isolated":            {secret("https://X.gr7.us-iso-east-1.eks.c2s.ic.gov", nil), "us-iso-east-1"},
		"sovereign":           {secret("https://X.gr7.eusc-de-east-1.eks.amazonaws.eu", nil), "eusc-de-east-1"},
		"dual stack":          {secret("https://X.gr7.us-west-2.api.aws", nil), "us-west-2"},
		"China, dual stack":   {secret("https://X.gr7.cn-north-1.api.amazonwebservices.com.cn", nil), "cn-north-1"},
		"no region":           {secret("https://example.com", nil), ""},
		"address":             {secret("https://192.0.2.1", nil), ""},
		"another domain":      {secret("https://X.gr7.us-west-2.eks.example.com", nil), ""},
		"another partition":   {secret("https://X.gr7.cn-north-1.eks.amazonaws.com", nil), ""},
		"domain behind it":    {secret("https://X.gr7.us-west-2.eks.amazonaws.com.example.com", nil), ""},
		"another service":     {secret("https://X.us-west-2.elb.amazonaws.com", nil), ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			_, err := h.resolve(t.Context(), c.secret)
			if c.want == "" {
				expect(t, err, invalid, none)
				return
			}
			requests := h.aws.Requests()
			if last := requests[len(requests)-1]; last.Operation != aws.DescribeCluster || last.Region != c.want {
				t.Errorf("EKS is asked in %q, want %q", last.Region, c.want)
			}
		})
	}
}

// TestPartitions: a token is for STS in the domain of the region, and good there.
func TestPartitions(t *testing.T) {
	for _, region := range []string{"eu-central-1", "us-east-1", "cn-north-1", "us-gov-west-1", "us-iso-east-1", "us-isob-east-1", "eusc-de-east-1", "xx-new-7"} {
		h := newHub(t)
		cluster := theCluster
		cluster.Region, cluster.CA = region, ca()
		h.aws.AddCluster(cluster)
		config, err := h.resolve(t.Context(), documentSecret(credential.EKSParameters{Cluster: "prod-1", Region: region}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.aws.Verify(bearer(t, config), cluster); err != nil {
			t.Errorf("%s: %v", region, err)
		}
	}
}
