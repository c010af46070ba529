// Copyright Contributors to the Open Cluster Management project

package eks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
	clocktesting "k8s.io/utils/clock/testing"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/eks"
	"open-cluster-management.io/import-provider/test/cloud/aws"
)

const (
	noIdentity = "the hub has no workload identity of AWS; let the administrator of the hub give its service account a role, by IAM roles for service accounts or EKS Pod Identity"
	unreadable = "the token file of the workload identity of the hub can't be read; let the administrator of the hub check its service account"
)

// TestIdentity: the workload identity of the hub, and nothing else (threats 25 and 33).
func TestIdentity(t *testing.T) {
	cases := map[string]struct {
		edit func(t *testing.T, h *hub)
		want string
	}{
		"nothing":              {func(_ *testing.T, h *hub) { h.env = nil }, noIdentity},
		"role without a token": {func(_ *testing.T, h *hub) { delete(h.env, "AWS_WEB_IDENTITY_TOKEN_FILE") }, noIdentity},
		"token without a role": {func(_ *testing.T, h *hub) { delete(h.env, "AWS_ROLE_ARN") }, noIdentity},
		"agent without a token": {func(t *testing.T, h *hub) {
			h.usePodIdentity(t)
			delete(h.env, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
		}, noIdentity},
		"token in the environment": {func(t *testing.T, h *hub) {
			h.usePodIdentity(t)
			delete(h.env, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
			h.env["AWS_CONTAINER_AUTHORIZATION_TOKEN"] = agentToken
		}, noIdentity},
		"keys in the environment": {func(_ *testing.T, h *hub) {
			h.env = map[string]string{"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s"}
		}, noIdentity},
		"profile":               {func(_ *testing.T, h *hub) { h.env = map[string]string{"AWS_PROFILE": "p"} }, noIdentity},
		"web identity, no file": {func(_ *testing.T, h *hub) { h.env["AWS_WEB_IDENTITY_TOKEN_FILE"] = "/nonexistent" }, unreadable},
		"EKS Pod Identity, no file": {func(t *testing.T, h *hub) {
			h.usePodIdentity(t)
			h.env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = "/nonexistent"
		}, unreadable},
		"EKS Pod Identity, refused": {func(t *testing.T, h *hub) {
			h.usePodIdentity(t)
			h.env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = write(t, "s3nt1nel")
		}, "EKS Pod Identity was refused with AccessDeniedException; the service account of the hub needs a pod identity association"},
		"EKS Pod Identity, two lines": {func(t *testing.T, h *hub) {
			h.usePodIdentity(t)
			h.env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = write(t, "s3nt1nel\nX: y")
		}, "EKS Pod Identity can't be reached; check the region, and let the administrator of the hub check the way to the service"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			h := newHub(t)
			c.edit(t, h)
			_, err := h.resolve(t.Context(), awsSecret())
			expect(t, err, failed, c.want)
		})
	}
	t.Run("line break at the end of a token", func(t *testing.T) {
		h := newHub(t)
		h.usePodIdentity(t)
		h.env["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"] = write(t, agentToken+"\n")
		h.mustResolve(t, awsSecret())
	})
	t.Run("both", func(t *testing.T) {
		h := newHub(t)
		irsa := h.env
		h.usePodIdentity(t)
		maps.Copy(h.env, irsa)
		h.mustResolve(t, awsSecret())
		if calls := h.aws.Operations(); calls[0] != aws.AssumeRoleWithWebIdentity {
			t.Errorf("requests: %v", calls)
		}
	})
	t.Run("token file that is renewed", func(t *testing.T) {
		h := newHub(t)
		config, err := h.resolve(t.Context(), awsSecret())
		if err != nil {
			t.Fatal(err)
		}
		h.aws.AddRole(aws.Role{ARN: hubRole, WebIdentityToken: "s3nt1nel-next"})
		h.env["AWS_WEB_IDENTITY_TOKEN_FILE"] = write(t, "s3nt1nel-next")
		h.clock.SetTime(h.clock.Now().Add(12 * time.Minute))
		h.identity(t, config)
	})
}

// TestAgentAddress: the token of EKS Pod Identity is sent to the agent only.
func TestAgentAddress(t *testing.T) {
	t.Run("elsewhere", func(t *testing.T) {
		h := newHub(t)
		h.usePodIdentity(t)
		h.env["AWS_CONTAINER_CREDENTIALS_FULL_URI"] = "http://192.0.2.1/v1/credentials"
		_, err := h.resolve(t.Context(), awsSecret())
		expect(t, err, failed, "the address of the agent of EKS Pod Identity in the environment of the hub is none that the agent has")
	})
	t.Run("redirect", func(t *testing.T) {
		h := newHub(t)
		h.usePodIdentity(t)
		elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the token went elsewhere") }))
		defer elsewhere.Close()
		h.aws.Fail(aws.PodIdentity, aws.Failure{Status: http.StatusFound, Location: elsewhere.URL, Body: "{}"})
		_, err := h.resolve(t.Context(), awsSecret())
		expect(t, err, failed, "EKS Pod Identity was refused; the service account of the hub needs a pod identity association")
	})
}

// TestEnvironment (threat 25): the files and variables that the SDK and the CLI know have no effect. The directory has a profile whose
// credential_process would leave a mark.
func TestEnvironment(t *testing.T) {
	h := newHub(t)
	directory := t.TempDir()
	mark := filepath.Join(directory, "mark")
	config := fmt.Sprintf("[default]\ncredential_process = /usr/bin/touch %s\nendpoint_url = https://127.0.0.1:1\nregion = us-east-1\n", mark)
	for _, name := range []string{"config", "credentials"} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE": filepath.Join(directory, "config"), "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(directory, "credentials"), "AWS_PROFILE": "default",
		"AWS_ACCESS_KEY_ID": "AKIAs3nt1nel", "AWS_SECRET_ACCESS_KEY": "s3nt1nel", "AWS_ENDPOINT_URL": "https://127.0.0.1:1", "AWS_ENDPOINT_URL_STS": "https://127.0.0.1:1",
		"AWS_CA_BUNDLE": "/nonexistent", "AWS_USE_FIPS_ENDPOINT": "true", "AWS_USE_DUALSTACK_ENDPOINT": "true", "AWS_REGION": "us-east-1", "AWS_MAX_ATTEMPTS": "9",
	} {
		t.Setenv(name, value)
	}
	h.mustResolve(t, awsSecret("--role-arn", spokeRole))
	// Without an identity of the platform, none of them takes its place.
	h = newHub(t)
	h.env = nil
	h.options.Getenv = func(name string) string {
		if strings.HasPrefix(name, "AWS_ROLE") || strings.HasPrefix(name, "AWS_CONTAINER") || strings.HasPrefix(name, "AWS_WEB") {
			return ""
		}
		return os.Getenv(name)
	}
	_, err := h.resolve(t.Context(), awsSecret())
	expect(t, err, failed, noIdentity)
	if _, err := os.Stat(mark); err == nil {
		t.Error("a program was run")
	}
}

// TestRegionOfTheHub: the hub asks STS in its own region, which is the one that it reaches, and EKS in that of the cluster.
func TestRegionOfTheHub(t *testing.T) {
	for want, env := range map[string]map[string]string{
		"eu-west-1": {"AWS_REGION": "eu-west-1", "AWS_DEFAULT_REGION": "eu-west-2"}, "eu-west-2": {"AWS_DEFAULT_REGION": "eu-west-2"},
		region: {"AWS_REGION": "no region"},
	} {
		h := newHub(t)
		maps.Copy(h.env, env)
		h.mustResolve(t, awsSecret("--role-arn", spokeRole))
		if requests := h.aws.Requests(); requests[1].Region != want || requests[2].Region != region {
			t.Errorf("%v: STS is asked in %s, EKS in %s", env, requests[1].Region, requests[2].Region)
		}
	}
}

// TestPublicEndpoints: without clouds.aws in the policy, the services of the region are asked.
func TestPublicEndpoints(t *testing.T) {
	for region, want := range map[string][]string{
		"eu-central-1":  {"sts.eu-central-1.amazonaws.com", "sts.eu-central-1.amazonaws.com", "eks.eu-central-1.amazonaws.com"},
		"cn-north-1":    {"sts.cn-north-1.amazonaws.com.cn", "sts.cn-north-1.amazonaws.com.cn", "eks.cn-north-1.amazonaws.com.cn"},
		"us-gov-west-1": {"sts.us-gov-west-1.amazonaws.com", "sts.us-gov-west-1.amazonaws.com", "eks.us-gov-west-1.amazonaws.com"},
	} {
		h := newHub(t)
		cluster := theCluster
		cluster.Region, cluster.CA = region, ca()
		h.aws.AddCluster(cluster)
		h.noClouds = true
		var hosts []string
		inner := h.aws.Client().Transport
		h.options.HTTPClient = &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) {
			hosts = append(hosts, req.URL.Host)
			// The fake gets what AWS would.
			at := strings.TrimPrefix(h.aws.STS.URL, "https://")
			if strings.HasPrefix(req.URL.Host, "eks.") {
				at = strings.TrimPrefix(h.aws.EKS.URL, "https://")
			}
			req = req.Clone(req.Context())
			req.Host, req.URL.Host = req.URL.Host, at
			return inner.RoundTrip(req)
		})}
		if _, err := h.resolve(t.Context(), documentSecret(credential.EKSParameters{Cluster: "prod-1", Region: region, RoleARN: spokeRole})); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(hosts, want) {
			t.Errorf("asked are %v, want %v", hosts, want)
		}
	}
}

// TestFailures: what each answer of AWS becomes. The text is the same each time.
func TestFailures(t *testing.T) {
	t.Parallel()
	const (
		trust     = "the role of the hub must be allowed to assume the role, and the trust policy of the role must accept that and the external id of the policy of the hub"
		identity  = "let the administrator of the hub check its workload identity"
		unreached = "can't be reached; check the region, and let the administrator of the hub check the way to the service"
		late      = "was not answered in time; let the administrator of the hub check the way to the service"
	)
	cases := map[string]struct {
		operation string
		failure   aws.Failure
		kind      string
		want      string
		after     time.Duration
		calls     int // of the operation
	}{
		"web identity refused":   {aws.AssumeRoleWithWebIdentity, aws.Failure{Status: 403, Code: "AccessDenied"}, failed, "sts:AssumeRoleWithWebIdentity was refused with AccessDenied; the trust policy of the role of the hub must accept the service account of the hub", 0, 1},
		"web identity expired":   {aws.AssumeRoleWithWebIdentity, aws.Failure{Status: 400, Code: "ExpiredTokenException"}, failed, "sts:AssumeRoleWithWebIdentity was refused with ExpiredTokenException; " + identity, 0, 1},
		"web identity not valid": {aws.AssumeRoleWithWebIdentity, aws.Failure{Status: 400, Code: "InvalidIdentityToken"}, failed, "sts:AssumeRoleWithWebIdentity was refused with InvalidIdentityToken; " + identity, 0, 1},
		"role refused":           {aws.AssumeRole, aws.Failure{Status: 403, Code: "AccessDenied"}, failed, "sts:AssumeRole was refused with AccessDenied; " + trust, 0, 1},
		"region not active":      {aws.AssumeRole, aws.Failure{Status: 403, Code: "RegionDisabledException"}, failed, "sts:AssumeRole was refused with RegionDisabledException; activate the region in the AWS account", 0, 1},
		"code that is not known": {aws.AssumeRole, aws.Failure{Status: 400, Code: "S3nt1nelException"}, failed, "sts:AssumeRole was refused; " + trust, 0, 1},
		"throttled":              {aws.AssumeRole, aws.Failure{Status: 400, Code: "Throttling", RetryAfter: "7"}, pending, "AWS limits how often sts:AssumeRole is asked for", 7 * time.Second, 2},
		"throttled, for long":    {aws.DescribeCluster, aws.Failure{Status: 429, Code: "ThrottlingException", RetryAfter: "99999"}, pending, "AWS limits how often eks:DescribeCluster is asked for", 5 * time.Minute, 2},
		"throttled, no time":     {aws.DescribeCluster, aws.Failure{Status: 429, Code: "TooManyRequestsException", RetryAfter: "-1"}, pending, "AWS limits how often eks:DescribeCluster is asked for", 0, 2},
		"throttled once":         {aws.AssumeRole, aws.Failure{Status: 400, Code: "Throttling", Times: 1}, "", "", 0, 2},
		"broken":                 {aws.AssumeRole, aws.Failure{Status: 500, Code: "InternalFailure"}, failed, "sts:AssumeRole failed inside of AWS", 0, 2},
		"broken once":            {aws.DescribeCluster, aws.Failure{Status: 503, Code: "ServiceUnavailable", Times: 1}, "", "", 0, 2},
		"describe refused":       {aws.DescribeCluster, aws.Failure{Status: 403, Code: "AccessDeniedException"}, failed, "eks:DescribeCluster was refused with AccessDeniedException; allow it to the role for the cluster", 0, 1},
		"redirect":               {aws.AssumeRole, aws.Failure{Status: 302, Location: "https://example.com/", Body: "<x/>"}, failed, "sts:AssumeRole was refused; " + trust, 0, 1},
		"redirect of EKS":        {aws.DescribeCluster, aws.Failure{Status: 307, Location: "https://example.com/", Body: "{}"}, failed, "eks:DescribeCluster was refused; allow it to the role for the cluster", 0, 1},
		"no XML":                 {aws.AssumeRole, aws.Failure{Status: 200, Body: "s3nt1nel"}, failed, "sts:AssumeRole was answered with what is not known here", 0, 1},
		"no credentials":         {aws.AssumeRole, aws.Failure{Status: 200, Body: "<AssumeRoleResponse><AssumeRoleResult/></AssumeRoleResponse>"}, failed, "sts:AssumeRole was answered with what is not known here", 0, 1},
		"no JSON":                {aws.DescribeCluster, aws.Failure{Status: 200, Body: "s3nt1nel"}, failed, "eks:DescribeCluster was answered with what is not known here", 0, 1},
		"no cluster":             {aws.DescribeCluster, aws.Failure{Status: 200, Body: "{}"}, failed, "eks:DescribeCluster was answered with what is not known here", 0, 1},
		"no CA":                  {aws.DescribeCluster, aws.Failure{Status: 200, Body: `{"cluster":{"status":"ACTIVE","endpoint":"https://x"}}`}, failed, "eks:DescribeCluster was answered with what is not known here", 0, 1},
		"CA not base64":          {aws.DescribeCluster, aws.Failure{Status: 200, Body: `{"cluster":{"status":"ACTIVE","endpoint":"https://x","certificateAuthority":{"data":"-"}}}`}, failed, "eks:DescribeCluster was answered with what is not known here", 0, 1},
		"answer without an end":  {aws.DescribeCluster, aws.Failure{Status: 200, Body: `{"x":"` + strings.Repeat("x", 2<<20)}, failed, "eks:DescribeCluster was answered with what is not known here", 0, 1},
		"web identity, hangs":    {aws.AssumeRoleWithWebIdentity, aws.Failure{Hang: true}, failed, "sts:AssumeRoleWithWebIdentity " + late, 0, 2},
		"agent broken":           {aws.PodIdentity, aws.Failure{Status: 500, Body: "s3nt1nel"}, failed, "EKS Pod Identity failed inside of AWS", 0, 1},
		"agent answers null":     {aws.PodIdentity, aws.Failure{Status: 200, Body: "null"}, failed, "EKS Pod Identity was answered with what is not known here", 0, 1},
		"agent gives no key":     {aws.PodIdentity, aws.Failure{Status: 200, Body: "{}"}, failed, "EKS Pod Identity was answered with what is not known here", 0, 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			texts := map[string]bool{}
			for range 3 - c.calls { // A second attempt of the SDK waits.
				h := newHub(t)
				if c.operation == aws.PodIdentity {
					h.usePodIdentity(t)
				}
				h.options.HTTPClient.Timeout = 500 * time.Millisecond
				h.aws.Fail(c.operation, c.failure)
				_, err := h.resolve(t.Context(), awsSecret("--role-arn", spokeRole))
				calls := 0
				for _, operation := range h.aws.Operations() {
					if operation == c.operation {
						calls++
					}
				}
				if calls != c.calls {
					t.Errorf("%d requests, want %d", calls, c.calls)
				}
				if c.kind == "" {
					if err != nil {
						t.Errorf("got %v", err)
					}
					return
				}
				expect(t, err, c.kind, c.want)
				if after, _ := credential.IsPending(err); after != c.after {
					t.Errorf("it waits for %s, want %s", after, c.after)
				}
				texts[err.Error()] = true
			}
			if len(texts) != 1 {
				t.Errorf("the same failure has the texts %v", texts)
			}
		})
	}
	t.Run("not there", func(t *testing.T) {
		h := newHub(t)
		h.aws.STS.Close()
		_, err := h.resolve(t.Context(), awsSecret())
		expect(t, err, failed, "sts:AssumeRoleWithWebIdentity "+unreached)
	})
	t.Run("certificate that is not trusted", func(t *testing.T) {
		h := newHub(t)
		h.options.HTTPClient = nil
		_, err := h.resolve(t.Context(), awsSecret())
		expect(t, err, failed, "sts:AssumeRoleWithWebIdentity "+unreached)
	})
	t.Run("context that ends", func(t *testing.T) {
		h := newHub(t)
		h.aws.Fail(aws.AssumeRole, aws.Failure{Hang: true})
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		start := time.Now()
		if _, err := h.resolve(ctx, awsSecret("--role-arn", spokeRole)); !errors.Is(err, context.DeadlineExceeded) || credential.IsMintFailed(err) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("it took %s", took)
		}
	})
	t.Run("external id that the role does not accept", func(t *testing.T) {
		h := newHub(t)
		h.aws.AddRole(aws.Role{ARN: spokeRole, TrustedRole: hubRole, ExternalID: "another"})
		_, err := h.resolve(t.Context(), awsSecret("--role-arn", spokeRole))
		expect(t, err, failed, "sts:AssumeRole was refused with AccessDenied; "+trust)
	})
}

func TestClusterStatus(t *testing.T) {
	for status, c := range map[string]struct{ kind, want string }{
		"ACTIVE": {}, "UPDATING": {},
		"CREATING": {pending, "the cluster is still being created"},
		"PENDING":  {pending, "the cluster is still being created"},
		"DELETING": {failed, "EKS gives the cluster the status DELETING"},
		"FAILED":   {failed, "EKS gives the cluster the status FAILED"},
		"S3NT1NEL": {failed, "EKS gives the cluster a status that is not known here"},
	} {
		for _, secret := range []*corev1.Secret{awsSecret(), documentSecret(credential.EKSParameters{Cluster: "prod-1", Region: region})} {
			h := newHub(t)
			cluster := theCluster
			cluster.Status, cluster.CA = status, ca()
			h.aws.AddCluster(cluster)
			_, err := h.resolve(t.Context(), secret)
			if c.kind == "" {
				if err != nil {
					t.Errorf("%s: %v", status, err)
				}
				continue
			}
			expect(t, err, c.kind, c.want)
			if after, is := credential.IsPending(err); is && after != 30*time.Second {
				t.Errorf("it waits for %s", after)
			}
		}
	}
	const missing = "EKS has no such cluster: correct its name or its region, or name a role in the AWS account of the cluster"
	_, err := newHub(t).resolve(t.Context(), documentSecret(credential.EKSParameters{Cluster: "other", Region: region}))
	expect(t, err, invalid, missing)
	_, err = newHub(t).resolve(t.Context(), documentSecret(credential.EKSParameters{Cluster: "prod-1", Region: "eu-central-2"}))
	expect(t, err, invalid, missing)
}

// TestClockSkew: a hub whose clock is wrong signs at the time of AWS.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		skew        time.Duration // of the hub
		role        bool
		podIdentity bool
	}{
		"ahead":                         {skew: 20 * time.Minute},
		"behind":                        {skew: -20 * time.Minute},
		"ahead, with a role":            {skew: 20 * time.Minute, role: true},
		"behind, EKS Pod Identity":      {skew: -20 * time.Minute, podIdentity: true},
		"ahead, EKS Pod Identity, role": {skew: 20 * time.Minute, podIdentity: true, role: true},
		"a little":                      {skew: 50 * time.Second, role: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHub(t)
			hubTime := clocktesting.NewFakePassiveClock(h.clock.Now().Add(c.skew))
			h.options.Clock, h.options.Tokens = hubTime, newTokens(hubTime)
			if c.podIdentity {
				h.usePodIdentity(t)
			}
			secret := awsSecret()
			if c.role {
				secret = awsSecret("--role-arn", spokeRole)
			}
			h.mustResolve(t, secret)
		})
	}
	t.Run("expiry by the clock of the hub", func(t *testing.T) {
		h := newHub(t)
		hubTime := clocktesting.NewFakePassiveClock(h.clock.Now().Add(20 * time.Minute))
		h.options.Clock, h.options.Tokens = hubTime, newTokens(hubTime)
		config, err := h.resolve(t.Context(), awsSecret())
		if err != nil {
			t.Fatal(err)
		}
		first := bearer(t, config)
		hubTime.SetTime(hubTime.Now().Add(10 * time.Minute))
		h.clock.SetTime(h.clock.Now().Add(10 * time.Minute))
		if bearer(t, config) != first {
			t.Error("the token is not kept for 10 minutes")
		}
	})
}

// TestNothingIsShown (threat 31): no credential in an error or a log, at any verbosity.
func TestNothingIsShown(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	logger := textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log), textlogger.Verbosity(10)))
	ctx := klog.NewContext(t.Context(), logger)
	var secrets []string
	for _, failure := range []aws.Failure{{}, {Status: 403, Code: "AccessDenied"}, {Status: 400, Code: "ValidationError"}, {Status: 500, Code: "InternalFailure"}, {Status: 200, Body: "s3nt1nel"}} {
		for _, operation := range []string{aws.AssumeRoleWithWebIdentity, aws.AssumeRole, aws.DescribeCluster, aws.PodIdentity} {
			h := newHub(t)
			if operation == aws.PodIdentity {
				h.usePodIdentity(t)
			}
			if failure.Status != 0 {
				failure.Times = 2
				h.aws.Fail(operation, failure)
			}
			config, err := eks.New(h.options).Resolve(ctx, credential.Request{ClusterName: "cluster1", Secret: awsSecret("--role-arn", spokeRole)})
			if err == nil {
				secrets = append(secrets, bearer(t, config))
				logger.Info("Resolved", "config", config)
			} else {
				logger.Error(err, "Failed", "detail", fmt.Sprintf("%+v %#v", err, err))
			}
			secrets = append(secrets, h.aws.Secrets()...)
		}
	}
	if !strings.Contains(log.String(), "Resolved") || !strings.Contains(log.String(), "Failed") {
		t.Fatal("the test logs nothing")
	}
	for _, secret := range append(secrets, webToken, agentToken, "s3nt1nel", "ASIAFAKE", "k8s-aws-v1") {
		if strings.Contains(log.String(), secret) {
			t.Fatal("the log shows a credential")
		}
	}
}
