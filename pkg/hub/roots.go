// Copyright Contributors to the Open Cluster Management project

package hub

import (
	// The images hold the binaries alone, so that the certificate authorities which the services of the clouds are verified by come
	// with the binary. They count only where the system has none of its own.
	_ "golang.org/x/crypto/x509roots/fallback"
)
