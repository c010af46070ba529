// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"open-cluster-management.io/ocm/pkg/common/helpers"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

const (
	// firstRetry and lastRetry bound the exponential back-off of a pending import. The first is short, for a
	// cluster that is just coming up; the last is what a cluster that is gone for good costs: one connection
	// in five minutes.
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute

	// minRetry bounds from below, and lastRetry from above, what a resolver or a cluster may ask for.
	minRetry = time.Second

	// invalidRetry is how often input that a person must fix is looked at without a change of its Secret.
	invalidRetry = 15 * time.Minute

	// retryJitter spreads the retries of clusters that failed together.
	retryJitter = 0.2

	// messagePrefix starts every message about an import Secret.
	messagePrefix = "import Secret "
)

// problem is why an import cannot go on: what the condition and the event say.
type problem struct {
	reason Reason
	// detail is a fixed text, the same for every attempt that fails the same way, and holds no value of a Secret.
	detail string
	// after is when to try again, if the resolver or the cluster said so; zero is what the reason's retry says.
	after time.Duration
	// cause is for the log only.
	cause error
}

func (p *problem) Error() string { return string(p.reason) + ": " + p.message() }

// message is the text without the reason: what is wrong, and the next step.
func (p *problem) message() string {
	if next := reasonInfos[p.reason].next; next != "" {
		return p.detail + "; " + next
	}
	return p.detail
}

func (p *problem) Unwrap() error { return p.cause }

// withoutCause is the problem to remember: the cause is for the log, and may hold anything.
func (p *problem) withoutCause() *problem {
	remembered := *p
	remembered.cause = nil
	return &remembered
}

// asked says whether a resolver knows when to come again. That is not a failure that the back-off grows by.
func (p *problem) asked() bool { return p.reason == ReasonCredentialPending && p.after > 0 }

// problemOf returns the problem that an error is, or one for an error that nobody classified.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	return &problem{reason: ReasonTokenMintFailed, detail: "the clients cannot be built; " + nextLogs, cause: err}
}

// credentialProblem classifies what a resolver returned.
func credentialProblem(err error) *problem {
	if failed, ok := errors.AsType[*credential.ClusterError](err); ok {
		return clusterProblem(failed.Err)
	}
	var (
		invalid *credential.InvalidError
		denied  *credential.DeniedError
		pending *credential.PendingError
		failed  *credential.MintError
		field   *restconfig.FieldError
	)
	p := &problem{reason: ReasonTokenMintFailed, detail: "the credential resolver failed; " + nextLogs, cause: err}
	switch {
	case errors.As(err, &denied):
		p.reason, p.detail = ReasonPolicyDenied, err.Error()
	case errors.As(err, &failed):
		p.detail = err.Error()
	case errors.As(err, &pending):
		p.reason, p.detail, p.after = ReasonCredentialPending, err.Error(), pending.After
	case errors.As(err, &invalid) && errors.As(err, &field) && field.Reason == restconfig.ReasonForbidden:
		p.reason, p.detail = ReasonFieldForbidden, err.Error()
	case errors.As(err, &invalid) && errors.As(err, &field):
		p.reason, p.detail = ReasonKubeconfigInvalid, err.Error()
	case errors.As(err, &invalid):
		p.reason, p.detail = ReasonCredentialInvalid, err.Error()
	}
	// The text of an error that a resolver did not classify may hold anything.
	return p
}

// hostError is a problem in the form that the importer understands. The importer copies Error into a condition and
// finds the helpers.RequeueError by errors.As, whose own text would carry the time and change with every attempt.
type hostError struct {
	text    string
	requeue helpers.RequeueError
}

func (e *hostError) Error() string { return e.text }

func (e *hostError) As(target any) bool {
	requeue, ok := target.(*helpers.RequeueError)
	if ok {
		*requeue = e.requeue
	}
	return ok
}

// outcome maps a problem to what Clients returns, the only place that knows how the importer treats errors:
//
//	retry of the reason   Clients returns                   the importer then
//	no problem            clients, nil                      renders and applies the klusterlet
//	no Secret             nil, nil                          waits for an event (see Provider.Clients)
//	retryBackoff          error as helpers.RequeueError     tries again after the back-off, or the time that was asked for
//	retryOnChange         error as helpers.RequeueError     tries again after invalidRetry; changed input wakes it at once
//	retryByImporter       plain error                       tries again by its own exponential back-off
//
// failures counts the attempts that failed in a row, from 1.
func outcome(text string, p *problem, failures int) (retryAfter time.Duration, err error) {
	switch reasonInfos[p.reason].retry {
	case retryByImporter:
		return 0, errors.New(text)
	case retryOnChange:
		retryAfter = invalidRetry
	case retryBackoff:
		// A cluster may ask for patience, not for haste.
		retryAfter = max(backoff(failures), min(p.after, lastRetry))
	}
	if p.asked() {
		retryAfter = min(max(p.after, minRetry), lastRetry)
	}
	retryAfter = wait.Jitter(retryAfter, retryJitter)
	return retryAfter, &hostError{text: text, requeue: helpers.NewRequeueError("import is tried again", retryAfter)}
}

// backoff is the time after so many failures in a row, from 1.
func backoff(failures int) time.Duration {
	return min(firstRetry<<min(failures-1, 10), lastRetry)
}
