// Copyright Contributors to the Open Cluster Management project

package kubeconfig

// Reason says in one stable word why an import cannot go on. It starts the message of the condition
// ManagedClusterImportSucceeded and is the reason of the event. Reasons are API: see CHANGELOG.md.
type Reason string

const (
	// ReasonSecretAmbiguous: more than one import Secret names the cluster.
	ReasonSecretAmbiguous Reason = "SecretAmbiguous"
	// ReasonSecretMisplaced: a Secret in the namespace of one managed cluster names another.
	ReasonSecretMisplaced Reason = "SecretMisplaced"
	// ReasonCredentialInvalid: the resolver cannot use what the Secret holds.
	ReasonCredentialInvalid Reason = "CredentialInvalid"
	// ReasonCredentialPending: the resolver cannot give a credential yet.
	ReasonCredentialPending Reason = "CredentialPending"
	// ReasonCredentialFailed: the resolver failed in a way that it does not classify.
	ReasonCredentialFailed Reason = "CredentialFailed"
	// ReasonCredentialExpired: the client certificate is outside its validity.
	ReasonCredentialExpired Reason = "CredentialExpired"
	// ReasonHubReadFailed: the import Secret cannot be read from the hub.
	ReasonHubReadFailed Reason = "HubReadFailed"
	// ReasonNameNotResolved: the host of the cluster's API server has no address.
	ReasonNameNotResolved Reason = "NameNotResolved"
	// ReasonUnreachable: no connection, or one that does not answer in time.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonTLSUntrusted: the serving certificate is not signed by the CA of the Secret, or not valid now.
	ReasonTLSUntrusted Reason = "TLSUntrusted"
	// ReasonTLSNameMismatch: the serving certificate is for other names.
	ReasonTLSNameMismatch Reason = "TLSNameMismatch"
	// ReasonTLSFailed: the TLS handshake failed for another reason.
	ReasonTLSFailed Reason = "TLSFailed"
	// ReasonUnauthorized: the API server does not accept the credential.
	ReasonUnauthorized Reason = "Unauthorized"
	// ReasonForbidden: the credential is accepted and may not import.
	ReasonForbidden Reason = "Forbidden"
	// ReasonServerFailed: the API server answers with an error, or throttles.
	ReasonServerFailed Reason = "ServerFailed"
	// ReasonNotKubernetes: what answers is not a Kubernetes API server.
	ReasonNotKubernetes Reason = "NotKubernetes"
	// ReasonOwnedByAnotherHub: the cluster has a klusterlet of another hub, or under another name.
	ReasonOwnedByAnotherHub Reason = "OwnedByAnotherHub"
	// ReasonLeftovers: a klusterlet of before is still being removed.
	ReasonLeftovers Reason = "Leftovers"

	// ReasonManagedClusterNotFound is the reason of an event only: no ManagedCluster has the name yet.
	ReasonManagedClusterNotFound Reason = "ManagedClusterNotFound"
	// ReasonAnnotationInvalid is the reason of an event only: the value can't be the name of a ManagedCluster.
	ReasonAnnotationInvalid Reason = "AnnotationInvalid"
	// ReasonOwnedByClusterAPI is the reason of an event only: Cluster API's provider imports the cluster.
	ReasonOwnedByClusterAPI Reason = "OwnedByClusterAPI"
	// ReasonImportPaused is the reason of an event only: AnnotationDisableAutoImport is present.
	ReasonImportPaused Reason = "ImportPaused"
)

// nextSteps are the sentences that end a message: what a person does next. Reasons whose errors carry their own
// next step have none here.
var nextSteps = map[Reason]string{
	ReasonSecretAmbiguous:   "keep one of them and delete the others or remove their annotation " + AnnotationManagedCluster,
	ReasonSecretMisplaced:   "set its annotation " + AnnotationManagedCluster + " to the name of its namespace",
	ReasonCredentialExpired: "put a kubeconfig with a valid client certificate into the Secret",
	ReasonHubReadFailed:     "see the logs of the import controller and its permissions on the hub",
	ReasonNameNotResolved:   "correct the server of the kubeconfig, or make its name resolvable from the hub",
	ReasonUnreachable:       "check that the server of the kubeconfig is right and reachable from the hub",
	ReasonTLSUntrusted:      "put the CA that signs the API server's certificate into the Secret",
	ReasonTLSNameMismatch:   "use a server name that the certificate is for, or set tls-server-name in the kubeconfig",
	ReasonTLSFailed:         "check that the server of the kubeconfig is a Kubernetes API server that accepts this client",
	ReasonUnauthorized:      "put a valid credential into the Secret",
	ReasonForbidden:         "grant it the ClusterRole in manifests/managed-cluster; the log of the import controller names the request",
	ReasonServerFailed:      "check the health of the cluster's API server; the import is tried again",
	ReasonNotKubernetes:     "correct the server of the kubeconfig",
	ReasonLeftovers:         "wait, or see what keeps it on the cluster; the import is tried again",
}
