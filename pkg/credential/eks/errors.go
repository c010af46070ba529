// Copyright Contributors to the Open Cluster Management project

package eks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	smithyhttp "github.com/aws/smithy-go/transport/http"

	"open-cluster-management.io/import-provider/pkg/credential"
)

// maxRetryAfter is the longest wait that a service may ask for.
const maxRetryAfter = 5 * time.Minute

// operation is a question to a service, as errors name it.
type operation struct {
	name string
	// denied is what to do if it is refused.
	denied string
}

var (
	webIdentity = operation{"sts:AssumeRoleWithWebIdentity", "the trust policy of the role of the hub must accept the service account of the hub"}
	podIdentity = operation{"EKS Pod Identity", "the service account of the hub needs a pod identity association"}
	assumeRole  = operation{"sts:AssumeRole", "the role of the hub must be allowed to assume the role, and the trust policy of the role must accept " +
		"that and the external id of the policy of the hub"}
	describeCluster = operation{"eks:DescribeCluster", "allow it to the role for the cluster"}
)

// codes are those of AWS that are shown, and what to do; "" stands for operation.denied. A text of AWS is never shown: it may have
// values of the Secret, and request ids.
// https://docs.aws.amazon.com/STS/latest/APIReference/CommonErrors.html and those of the operations.
func codes() map[string]string {
	const (
		identity = "let the administrator of the hub check its workload identity"
		clock    = "let the administrator of the hub check its clock and its workload identity"
		region   = "activate the region in the AWS account"
		values   = "check the role and the external id of the policy of the hub"
	)
	return map[string]string{
		"AccessDenied": "", "AccessDeniedException": "", "UnauthorizedException": "",
		"ExpiredToken": identity, "ExpiredTokenException": identity, "InvalidIdentityToken": identity, "IDPRejectedClaim": identity,
		"IDPCommunicationError": identity, "InvalidClientTokenId": identity, "UnrecognizedClientException": identity,
		"SignatureDoesNotMatch": clock, "InvalidSignatureException": clock, "RequestExpired": clock,
		"RegionDisabledException": region, "OptInRequired": region,
		"ValidationError": values,
	}
}

// agentError is an answer of the agent of EKS Pod Identity, in the form of the errors of the SDK.
type agentError struct {
	status int
	code   string
}

func (e *agentError) Error() string       { return e.code }
func (e *agentError) ErrorCode() string   { return e.code }
func (e *agentError) HTTPStatusCode() int { return e.status }

// codeOf returns the code of an error of a service, or "".
func codeOf(err error) string {
	var answer interface{ ErrorCode() string }
	if errors.As(err, &answer) {
		return answer.ErrorCode()
	}
	return ""
}

// failure classifies an error of an operation that was asked for under ctx.
func (o operation) failure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	code := codeOf(err)
	next, shown := codes()[code]
	if next == "" {
		next = o.denied
	}
	switch status := statusOf(err); {
	case code == "ResourceNotFoundException" && o == describeCluster:
		return credential.Invalid(errors.New("EKS has no such cluster: correct its name or its region, or name a role in the AWS account of the cluster"))
	case isThrottle(code) || status == http.StatusTooManyRequests:
		return credential.Pending(fmt.Errorf("AWS limits how often %s is asked for", o.name), retryAfter(err))
	case shown:
		return o.failed("was refused with " + code + "; " + next)
	case status >= http.StatusInternalServerError:
		return o.failed("failed inside of AWS")
	case status >= http.StatusMultipleChoices:
		return o.failed("was refused; " + o.denied)
	case status != 0:
		return o.unreadable()
	case isTimeout(err):
		return o.failed("was not answered in time; let the administrator of the hub check the way to the service")
	}
	return o.failed("can't be reached; check the region, and let the administrator of the hub check the way to the service")
}

func (o operation) failed(how string) error {
	return credential.MintFailed(errors.New(o.name + " " + how))
}

func (o operation) unreadable() error { return o.failed("was answered with what is not known here") }

// statusOf returns the HTTP status of the answer, or 0 if there was none.
func statusOf(err error) int {
	var answer interface{ HTTPStatusCode() int }
	if errors.As(err, &answer) {
		return answer.HTTPStatusCode()
	}
	return 0
}

func isThrottle(code string) bool {
	switch code {
	case "Throttling", "ThrottlingException", "ThrottledException", "TooManyRequestsException", "RequestLimitExceeded":
		return true
	}
	return false
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// retryAfter is how long a service asks to wait, or 0.
func retryAfter(err error) time.Duration {
	var answer *smithyhttp.ResponseError
	if !errors.As(err, &answer) || answer.Response == nil {
		return 0
	}
	seconds, err := strconv.Atoi(answer.Response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxRetryAfter)
}
