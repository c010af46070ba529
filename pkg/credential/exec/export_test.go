// Copyright Contributors to the Open Cluster Management project

package exec

import "open-cluster-management.io/import-provider/pkg/credential"

// BeforeStart sets what a resolver calls between the check of a file and its start.
func BeforeStart(r credential.StanzaResolver, hook func()) {
	r.(*resolver).runner.beforeStart = hook
}
