// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"open-cluster-management.io/ocm/pkg/common/helpers"

	"open-cluster-management.io/import-provider/pkg/credential"
)

const (
	// firstRetry and lastRetry bound the exponential back-off of a pending import. The first is short, for a
	// cluster that is just coming up; the last is what a cluster that is gone for good costs: one connection
	// in five minutes.
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute

	// minRetry bounds from below what a resolver may ask for.
	minRetry = time.Second

	// invalidRetry is how often input that a person must fix is looked at without a change of its Secret.
	invalidRetry = 15 * time.Minute

	// retryJitter spreads the retries of clusters that failed together.
	retryJitter = 0.2

	// messagePrefix starts every message of this provider, and answerPrefix every text that its clients give for an
	// answer, which is how it knows its own condition again after a restart.
	messagePrefix = "import Secret "
	answerPrefix  = "managed cluster: "
)

// problem is why an import cannot go on: what the condition and the event say.
type problem struct {
	reason Reason
	// detail is a fixed text, the same for every attempt that fails the same way, and holds no value of a Secret.
	detail string
	// invalid is true when only a change by a person helps.
	invalid bool
	// after is when to try again; zero is the provider's back-off.
	after time.Duration
	// unexpected problems are retried by the importer's own exponential back-off.
	unexpected bool
	// cause is for the log only.
	cause error
}

func (p *problem) Error() string {
	text := fmt.Sprintf("%s: %s", p.reason, p.detail)
	if next, ok := nextSteps[p.reason]; ok {
		text += "; " + next
	}
	return text
}

func (p *problem) Unwrap() error { return p.cause }

// credentialProblem classifies what a resolver returned.
func credentialProblem(err error) *problem {
	var invalid *credential.InvalidError
	var pending *credential.PendingError
	switch {
	case errors.As(err, &invalid):
		return &problem{reason: ReasonCredentialInvalid, detail: err.Error(), invalid: true, cause: err}
	case errors.As(err, &pending):
		return &problem{reason: ReasonCredentialPending, detail: err.Error(), after: pending.After, cause: err}
	default:
		// The text of an error that a resolver did not classify may hold anything.
		return &problem{reason: ReasonCredentialFailed, unexpected: true, cause: err,
			detail: "the credential resolver failed; see the logs of the import controller"}
	}
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
//	problem      Clients returns                   the importer then
//	none         clients, nil                      renders and applies the klusterlet
//	no Secret    nil, nil                          waits for an event (not a problem: see Provider.Clients)
//	pending      error as helpers.RequeueError     tries again after the back-off, or the time the resolver asked for
//	invalid      error as helpers.RequeueError     tries again after invalidRetry; a changed Secret wakes it at once
//	unexpected   plain error                       tries again by its own exponential back-off
//
// failures counts the attempts that failed in a row, from 1.
func outcome(text string, p *problem, failures int) (retry time.Duration, err error) {
	if p.unexpected {
		return 0, errors.New(text)
	}
	switch {
	case p.invalid:
		retry = invalidRetry
	case p.after > 0:
		retry = max(p.after, minRetry)
	default:
		retry = min(firstRetry<<min(failures-1, 10), lastRetry)
	}
	retry = wait.Jitter(retry, retryJitter)
	return retry, &hostError{text: text, requeue: helpers.NewRequeueError("import is tried again", retry)}
}
