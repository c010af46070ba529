// Copyright Contributors to the Open Cluster Management project

package credential

import (
	"errors"
	"time"

	"open-cluster-management.io/import-provider/pkg/restconfig"
)

// InvalidError says that a person must fix the input: a missing key, a kubeconfig that is refused.
//
// Resolvers and the Set return it. The provider reports the text in the condition, waits for a change of the Secret, and
// tries again only at long intervals.
//
// Find it with errors.As and a variable of type *InvalidError, or with IsInvalid.
type InvalidError struct {
	// Err says what is wrong and what to do. It must be fit for a condition: deterministic and without values.
	Err error
}

// Invalid wraps err in an InvalidError; nil stays nil.
func Invalid(err error) error {
	if err == nil {
		return nil
	}
	return &InvalidError{Err: err}
}

// Error is the text of the wrapped error.
func (e *InvalidError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *InvalidError) Unwrap() error { return e.Err }

// IsInvalid tells whether err is, or wraps, an InvalidError.
func IsInvalid(err error) bool {
	var invalid *InvalidError
	return errors.As(err, &invalid)
}

// DeniedError says that the input asks for something that the administrator's options do not allow, such as a resolver that
// is not enabled, or a server that is not verified.
//
// Resolvers and the Set return it. The provider treats it like an InvalidError, with a reason of its own.
//
// Find it with errors.As and a variable of type *DeniedError, or with IsDenied.
type DeniedError struct {
	// Err says what is not allowed and what to do. It must be fit for a condition: deterministic and without values.
	Err error
}

// Denied wraps err in a DeniedError; nil stays nil.
func Denied(err error) error {
	if err == nil {
		return nil
	}
	return &DeniedError{Err: err}
}

// Error is the text of the wrapped error.
func (e *DeniedError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *DeniedError) Unwrap() error { return e.Err }

// IsDenied tells whether err is, or wraps, a DeniedError.
func IsDenied(err error) bool {
	var denied *DeniedError
	return errors.As(err, &denied)
}

// PendingError says that the input is fine but something that it needs is not there yet: a cluster that is still being
// created, a token service that asks to wait.
//
// Resolvers return it. The provider reports the text in the condition and tries again after the given time, without
// counting it as a failure.
//
// Find it with errors.As and a variable of type *PendingError, or with IsPending.
type PendingError struct {
	// Err says what is awaited. It must be fit for a condition: deterministic and without values.
	Err error
	// After is the time to wait before the next attempt. Default, for zero or less: the provider's back-off.
	After time.Duration
}

// Pending wraps err in a PendingError; nil stays nil.
func Pending(err error, after time.Duration) error {
	if err == nil {
		return nil
	}
	return &PendingError{Err: err, After: after}
}

// Error is the text of the wrapped error, without the time.
func (e *PendingError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *PendingError) Unwrap() error { return e.Err }

// IsPending tells whether err is, or wraps, a PendingError, and how long to wait; zero stands for the provider's back-off.
func IsPending(err error) (after time.Duration, pending bool) {
	var p *PendingError
	if !errors.As(err, &p) {
		return 0, false
	}
	return max(p.After, 0), true
}

// MintError says that a service or a plugin, asked for a short-lived credential, refused or failed.
//
// Resolvers return it. The provider reports the text in the condition and tries again with its back-off.
//
// Find it with errors.As and a variable of type *MintError, or with IsMintFailed.
type MintError struct {
	// Err says who failed and how, and what to do. It must be fit for a condition: deterministic and without values.
	Err error
	// Cause is for the log of the import controller: it may vary and name addresses, and holds no credential. It may be nil.
	Cause error
}

// MintFailed wraps err in a MintError; nil stays nil.
func MintFailed(err error) error { return MintFailedBecause(nil, err) }

// MintFailedBecause is MintFailed with a Cause, which may be nil.
func MintFailedBecause(cause, err error) error {
	if err == nil {
		return nil
	}
	return &MintError{Err: err, Cause: cause}
}

// Error is the text of the wrapped error.
func (e *MintError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *MintError) Unwrap() error { return e.Err }

// IsMintFailed tells whether err is, or wraps, a MintError.
func IsMintFailed(err error) bool {
	var failed *MintError
	return errors.As(err, &failed)
}

// ClusterError says that the managed cluster itself, asked for a short-lived credential by the given one, did not answer, did not
// accept that, or failed.
//
// An Exchanger returns it. The provider reports what it reports of the same failure without an exchange, and tries again with its
// back-off.
//
// Find it with errors.As and a variable of type *ClusterError, or with IsClusterFailed.
type ClusterError struct {
	// Err is that of the request, as it is: the provider looks in it for what failed. It may name addresses.
	Err error
}

// ClusterFailed wraps err in a ClusterError; nil stays nil.
func ClusterFailed(err error) error {
	if err == nil {
		return nil
	}
	return &ClusterError{Err: err}
}

// Error is the same for all: what is wrapped is not fit for a condition.
func (e *ClusterError) Error() string { return "the managed cluster gives no short-lived credential" }

// Unwrap returns the wrapped error.
func (e *ClusterError) Unwrap() error { return e.Err }

// IsClusterFailed tells whether err is, or wraps, a ClusterError.
func IsClusterFailed(err error) bool {
	var failed *ClusterError
	return errors.As(err, &failed)
}

// refused wraps an error that comes from package restconfig: what an option of the administrator accepts is denied, all else
// is invalid.
func refused(err error) error {
	var broken *restconfig.FieldError
	if errors.As(err, &broken) && broken.Reason == restconfig.ReasonDenied {
		return Denied(err)
	}
	return Invalid(err)
}
