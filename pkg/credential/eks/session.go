// Copyright Contributors to the Open Cluster Management project

package eks

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/cloud"
	"open-cluster-management.io/import-provider/pkg/policy"
)

const (
	// hubSession is the session name of the hub's own role, and begins those of others.
	hubSession = "ocm-import"
	// callTimeout bounds one question to a service with its second attempt: three of them fit into the time that package
	// tokensource gives for a token.
	callTimeout = 10 * time.Second
	maxAttempts = 2
	maxBackoff  = time.Second
	// sessionSeconds is the shortest session that STS gives, and longer than a token lives:
	// https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html.
	sessionSeconds = 900
	// maxSkew is how far the clock of AWS may be from ours before its time is used. The Date of an answer has whole seconds.
	maxSkew = time.Minute
	// pendingInterval is how long to wait for a cluster that is being created, which takes about ten minutes.
	pendingInterval = 30 * time.Second
)

// session is the credentials of one role, for one token. Its calls do not overlap.
type session struct {
	resolver    *resolver
	clouds      policy.AWS
	credentials aws.Credentials
	// skew is how far the clock of AWS is ahead of ours.
	skew time.Duration
	// signedWith is the skew at the last signature.
	signedWith time.Duration
}

// now is the time of AWS.
func (s *session) now() time.Time { return s.resolver.options.Clock.Now().Add(s.skew) }

// Do sends a request of the SDK, and learns the time of AWS from the answer.
func (s *session) Do(req *http.Request) (*http.Response, error) {
	resp, err := s.resolver.options.HTTPClient.Do(req) //nolint:gosec // the region, which has the form of one, is all that a Secret has in the host.
	if err != nil {
		return nil, err
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		s.skew = 0
		if skew := date.Sub(s.resolver.options.Clock.Now()); skew.Abs() > maxSkew {
			s.skew = skew
		}
	}
	return resp, nil
}

// SignHTTP signs a request of the SDK at the time of AWS, where the SDK would take that of the machine.
func (s *session) SignHTTP(
	ctx context.Context, c aws.Credentials, r *http.Request, payloadHash, service, region string, _ time.Time, options ...func(*v4.SignerOptions),
) error {
	s.signedWith = s.skew
	return v4.NewSigner().SignHTTP(ctx, c, r, payloadHash, service, region, s.now(), options...)
}

// retryer allows a second attempt, also for a request whose signature was refused before the time of AWS was known.
func (s *session) retryer() aws.Retryer {
	skewed := retry.IsErrorRetryableFunc(func(err error) aws.Ternary {
		if s.skew != s.signedWith && slices.Contains([]string{"SignatureDoesNotMatch", "InvalidSignatureException"}, codeOf(err)) {
			return aws.TrueTernary
		}
		return aws.UnknownTernary
	})
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff = maxAttempts, maxBackoff
		o.Retryables = append([]retry.IsErrorRetryable{skewed}, o.Retryables...)
	})
}

// call asks a service within callTimeout. The error is classified.
func call[T any](ctx context.Context, o operation, ask func(ctx context.Context) (T, error)) (T, error) {
	limited, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := ask(limited)
	if err != nil {
		var none T
		return none, o.failure(ctx, err)
	}
	return answer, nil
}

// becomeHub takes the workload identity of the hub.
func (s *session) becomeHub(ctx context.Context, t target) error {
	getenv := s.resolver.options.Getenv
	if role, file := getenv("AWS_ROLE_ARN"), getenv("AWS_WEB_IDENTITY_TOKEN_FILE"); role != "" && file != "" {
		return s.becomeWebIdentity(ctx, t, role, file)
	}
	if address, file := getenv("AWS_CONTAINER_CREDENTIALS_FULL_URI"), getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); address != "" && file != "" {
		return s.becomePodIdentity(ctx, address, file)
	}
	return credential.MintFailed(errors.New("the hub has no workload identity of AWS; let the administrator of the hub give its service account " +
		"a role, by IAM roles for service accounts or EKS Pod Identity"))
}

func (s *session) becomeWebIdentity(ctx context.Context, t target, role, file string) error {
	token, err := os.ReadFile(file) //nolint:gosec // the path comes from the platform of the hub.
	if err != nil {
		return unreadable()
	}
	answer, err := call(ctx, webIdentity, func(ctx context.Context) (*sts.AssumeRoleWithWebIdentityOutput, error) {
		return s.sts(t).AssumeRoleWithWebIdentity(ctx, &sts.AssumeRoleWithWebIdentityInput{
			RoleArn: aws.String(role), RoleSessionName: aws.String(hubSession), WebIdentityToken: aws.String(string(token)),
			DurationSeconds: aws.Int32(sessionSeconds),
		})
	})
	if err != nil {
		return err
	}
	return s.take(webIdentity, answer.Credentials)
}

func (s *session) becomePodIdentity(ctx context.Context, address, file string) error {
	if !isAgent(address) {
		return credential.MintFailed(errors.New("the address of the agent of EKS Pod Identity in the environment of the hub is none that the agent has"))
	}
	token, err := os.ReadFile(file) //nolint:gosec // the path comes from the platform of the hub.
	if err != nil {
		return unreadable()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return fmt.Errorf("building the request to EKS Pod Identity: %w", err)
	}
	req.Header.Set("Authorization", strings.TrimSpace(string(token)))
	resp, err := s.resolver.agent.Do(req)
	if err != nil {
		return podIdentity.failure(ctx, err)
	}
	defer resp.Body.Close()
	var answer struct{ AccessKeyId, SecretAccessKey, Token, Expiration, Code string } //nolint:revive // the names in JSON.
	err = json.NewDecoder(resp.Body).Decode(&answer)
	if resp.StatusCode != http.StatusOK {
		return podIdentity.failure(ctx, &agentError{status: resp.StatusCode, code: answer.Code})
	}
	expires, errTime := time.Parse(time.RFC3339, answer.Expiration)
	if err != nil || errTime != nil {
		return podIdentity.unreadable()
	}
	return s.take(podIdentity, &ststypes.Credentials{
		AccessKeyId: &answer.AccessKeyId, SecretAccessKey: &answer.SecretAccessKey, SessionToken: &answer.Token, Expiration: &expires,
	})
}

// unreadable does not say why: the text of the error has the path.
func unreadable() error {
	return credential.MintFailed(errors.New("the token file of the workload identity of the hub can't be read; let the administrator of the hub check its service account"))
}

func newAgentClient() *http.Client {
	return cloud.Bounded(&http.Client{Timeout: callTimeout, Transport: agentTransport()})
}

// agentTransport has no proxy: the agent is on the same node, and a proxy would get the token.
func agentTransport() *http.Transport {
	return &http.Transport{DialContext: (&net.Dialer{Timeout: callTimeout}).DialContext, IdleConnTimeout: callTimeout}
}

// isAgent says whether the agent of EKS Pod Identity may have an address: its link-local one, or a loopback one.
// https://docs.aws.amazon.com/eks/latest/userguide/pod-id-how-it-works.html
func isAgent(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || u.User != nil {
		return false
	}
	addr, err := netip.ParseAddr(u.Hostname())
	return err == nil && (addr.IsLoopback() ||
		addr == netip.MustParseAddr("169.254.170.23") || addr == netip.MustParseAddr("fd00:ec2::23"))
}

// assume takes a role with the credentials of the one before.
func (s *session) assume(ctx context.Context, t target, name, externalID string) error {
	input := &sts.AssumeRoleInput{
		RoleArn: aws.String(t.role), RoleSessionName: aws.String(name), DurationSeconds: aws.Int32(sessionSeconds),
	}
	if externalID != "" {
		input.ExternalId = aws.String(externalID)
	}
	answer, err := call(ctx, assumeRole, func(ctx context.Context) (*sts.AssumeRoleOutput, error) {
		return s.sts(t).AssumeRole(ctx, input)
	})
	if err != nil {
		return err
	}
	return s.take(assumeRole, answer.Credentials)
}

// take makes the session that of the credentials which a service gave.
func (s *session) take(o operation, given *ststypes.Credentials) error {
	if given == nil || given.Expiration == nil {
		return o.unreadable()
	}
	s.credentials = aws.Credentials{
		AccessKeyID: aws.ToString(given.AccessKeyId), SecretAccessKey: aws.ToString(given.SecretAccessKey),
		SessionToken: aws.ToString(given.SessionToken), CanExpire: true, Expires: *given.Expiration,
	}
	if !s.credentials.HasKeys() || s.credentials.SessionToken == "" {
		return o.unreadable()
	}
	return nil
}

// describe asks EKS where a cluster is. The error is a PendingError while it is being created.
func (s *session) describe(ctx context.Context, t target) (cloud.Endpoint, error) {
	client := awseks.New(awseks.Options{
		Region: t.region, BaseEndpoint: baseEndpoint(s.clouds.EKS), Credentials: s.provider(), HTTPClient: s, HTTPSignerV4: s, Retryer: s.retryer(),
	})
	answer, err := call(ctx, describeCluster, func(ctx context.Context) (*awseks.DescribeClusterOutput, error) {
		return client.DescribeCluster(ctx, &awseks.DescribeClusterInput{Name: aws.String(t.cluster)})
	})
	if err != nil {
		return cloud.Endpoint{}, err
	}
	if answer.Cluster == nil {
		return cloud.Endpoint{}, describeCluster.unreadable()
	}
	switch status := answer.Cluster.Status; status {
	case ekstypes.ClusterStatusActive, ekstypes.ClusterStatusUpdating:
	case ekstypes.ClusterStatusCreating, ekstypes.ClusterStatusPending:
		return cloud.Endpoint{}, credential.Pending(errors.New("the cluster is still being created"), pendingInterval)
	case ekstypes.ClusterStatusDeleting, ekstypes.ClusterStatusFailed:
		return cloud.Endpoint{}, credential.MintFailed(fmt.Errorf("EKS gives the cluster the status %s", status))
	default:
		return cloud.Endpoint{}, credential.MintFailed(errors.New("EKS gives the cluster a status that is not known here"))
	}
	if answer.Cluster.Endpoint == nil || answer.Cluster.CertificateAuthority == nil {
		return cloud.Endpoint{}, describeCluster.unreadable()
	}
	ca, err := base64.StdEncoding.DecodeString(aws.ToString(answer.Cluster.CertificateAuthority.Data))
	if err != nil {
		return cloud.Endpoint{}, describeCluster.unreadable()
	}
	return cloud.Endpoint{Servers: []string{*answer.Cluster.Endpoint}, CA: ca}, nil
}

// sts is a client of STS in the region of the hub, or else of the cluster.
func (s *session) sts(t target) *sts.Client {
	region := t.region
	for _, name := range []string{"AWS_DEFAULT_REGION", "AWS_REGION"} {
		if value := s.resolver.options.Getenv(name); regionForm.MatchString(value) {
			region = value
		}
	}
	return sts.New(sts.Options{
		Region: region, BaseEndpoint: baseEndpoint(s.clouds.STS), Credentials: s.provider(), HTTPClient: s, HTTPSignerV4: s, Retryer: s.retryer(),
	})
}

func (s *session) provider() aws.CredentialsProvider {
	return credentials.StaticCredentialsProvider{Value: s.credentials}
}

func baseEndpoint(address string) *string {
	if address == "" {
		return nil
	}
	return aws.String(address)
}
