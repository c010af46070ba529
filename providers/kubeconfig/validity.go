// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import (
	"time"

	"k8s.io/client-go/rest"
)

// validity is when a credential is valid. The zero value is one of which that is not known, such as an opaque token.
type validity struct {
	// subject is what expires: "client certificate" or "token".
	subject   string
	notBefore time.Time
	notAfter  time.Time
}

func validityOf(*rest.Config) (validity, error) { return validity{}, nil }

// problem says that the credential is not valid at a time, or nil.
func (v validity) problem(time.Time) *problem { return nil }

// warnAt is when a fifth of the lifetime is left; zero if the credential does not expire.
func (v validity) warnAt() time.Time { return time.Time{} }

func (v validity) expiresSoon(now time.Time) bool {
	return !v.warnAt().IsZero() && !now.Before(v.warnAt())
}

// String says when the credential expires, or nothing if that is not known.
func (v validity) String() string { return "" }
