// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import "time"

// stage is a part of an import whose duration is measured.
type importStage string

const (
	// stageSecret reads the import Secret from the hub.
	stageSecret importStage = "secret"
	// stageCredential resolves the credential.
	stageCredential importStage = "credential"
	// stageConnection resolves the name, connects, verifies and authenticates.
	stageConnection importStage = "connection"
	// stagePlan renders what the import will write.
	stagePlan importStage = "plan"
	// stageAuthorization asks for every verb.
	stageAuthorization importStage = "authorization"
	// stageIdentity asks for version and identity of the cluster.
	stageIdentity importStage = "identity"
	// stageOwnership looks for a klusterlet.
	stageOwnership importStage = "ownership"
	// stageApply is from the end of the preflight until the klusterlet is deployed.
	stageApply importStage = "apply"
	// stageJoin is from there until the klusterlet has joined and is available.
	stageJoin importStage = "join"
)

type gauge struct{}

func (gauge) Inc() {}
func (gauge) Dec() {}

var importsInFlight gauge

func observeStage(importStage) (done func())     { return func() {} }
func observeDuration(importStage, time.Duration) {}
func countAttempt(Reason)                        {}
func countCredential(resolver string, _ error)   {}
