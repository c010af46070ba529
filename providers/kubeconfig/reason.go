// Copyright Contributors to the Open Cluster Management project

package kubeconfig

import clusterv1 "open-cluster-management.io/api/cluster/v1"

// Reason says in one stable word why an import cannot go on, or how far it came. It is the reason of the conditions
// ConditionPreflightPassed and ConditionCompleted and of events, and stands in the message of the importer's own
// condition. Reasons are API: see CHANGELOG.md. docs/troubleshooting.md has them in a table.
type Reason string

// Reasons of ConditionPreflightPassed, in the order in which they are found out.
const (
	// ReasonSecretNotFound: the import Secret is gone.
	ReasonSecretNotFound Reason = "SecretNotFound"
	// ReasonSecretAmbiguous: more than one import Secret names the cluster.
	ReasonSecretAmbiguous Reason = "SecretAmbiguous"
	// ReasonSecretMisplaced: a Secret in the namespace of one managed cluster names another.
	ReasonSecretMisplaced Reason = "SecretMisplaced"
	// ReasonHubReadFailed: something on the hub that the import needs cannot be read.
	ReasonHubReadFailed Reason = "HubReadFailed"
	// ReasonKubeconfigInvalid: the kubeconfig, or the data keys in its place, break a rule of the format.
	ReasonKubeconfigInvalid Reason = "KubeconfigInvalid"
	// ReasonFieldForbidden: the kubeconfig has a field that is understood and refused, such as a file or a plugin.
	ReasonFieldForbidden Reason = "FieldForbidden"
	// ReasonCredentialInvalid: the resolver cannot use what the Secret holds, for another reason.
	ReasonCredentialInvalid Reason = "CredentialInvalid"
	// ReasonPolicyDenied: the administrator's policy or options do not allow what the Secret asks for.
	ReasonPolicyDenied Reason = "PolicyDenied"
	// ReasonCredentialPending: the resolver cannot give a credential yet.
	ReasonCredentialPending Reason = "CredentialPending"
	// ReasonTokenMintFailed: a service or a plugin refused or failed to give a credential, or the resolver failed.
	ReasonTokenMintFailed Reason = "TokenMintFailed"
	// ReasonCredentialExpired: the client certificate or the token is expired.
	ReasonCredentialExpired Reason = "CredentialExpired"
	// ReasonCredentialNotYetValid: the client certificate or the token is not valid yet.
	ReasonCredentialNotYetValid Reason = "CredentialNotYetValid"
	// ReasonNameNotResolved: the host of the cluster's API server has no address.
	ReasonNameNotResolved Reason = "NameNotResolved"
	// ReasonUnreachable: no connection, or one that does not answer in time.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonTLSUntrusted: the serving certificate is not signed by the CA of the Secret or, without one, a public one, or not valid now.
	ReasonTLSUntrusted Reason = "TLSUntrusted"
	// ReasonTLSNameMismatch: the serving certificate is for other names.
	ReasonTLSNameMismatch Reason = "TLSNameMismatch"
	// ReasonTLSFailed: the TLS handshake failed for another reason.
	ReasonTLSFailed Reason = "TLSFailed"
	// ReasonServerFailed: the API server answers with an error, or throttles.
	ReasonServerFailed Reason = "ServerFailed"
	// ReasonNotKubernetes: what answers is not a Kubernetes API server.
	ReasonNotKubernetes Reason = "NotKubernetes"
	// ReasonUnauthorized: the API server does not accept the credential.
	ReasonUnauthorized Reason = "Unauthorized"
	// ReasonClusterTooOld: the cluster's Kubernetes is older than MinKubernetesVersion.
	ReasonClusterTooOld Reason = "ClusterTooOld"
	// ReasonForbidden: the credential is accepted and may not do all that an import does.
	ReasonForbidden Reason = "Forbidden"
	// ReasonHubAsSpoke: the cluster is the hub itself, and the ManagedCluster does not say so.
	ReasonHubAsSpoke Reason = "HubAsSpoke"
	// ReasonClusterSwapped: the Secret leads to another cluster than the one that was imported under this name.
	ReasonClusterSwapped Reason = "ClusterSwapped"
	// ReasonDuplicateCluster: the cluster is imported under another name already.
	ReasonDuplicateCluster Reason = "DuplicateCluster"
	// ReasonOwnedByAnotherHub: the cluster has a klusterlet of another hub, or under another name.
	ReasonOwnedByAnotherHub Reason = "OwnedByAnotherHub"
	// ReasonLeftovers: a klusterlet of before is still being removed.
	ReasonLeftovers Reason = "Leftovers"

	// ReasonPreflightPassed: the cluster can be imported with this credential.
	ReasonPreflightPassed Reason = "PreflightPassed"
	// ReasonCredentialExpiring: the cluster can be imported, and the credential is in the last fifth of its life.
	ReasonCredentialExpiring Reason = "CredentialExpiring"
	// ReasonCredentialChanged: the Secret has another credential than the last preflight, which was long after the import.
	ReasonCredentialChanged Reason = "CredentialChanged"
)

// Reasons of ConditionCompleted, in the order in which they are found out.
const (
	// ReasonImagePullFailed: an image of the klusterlet cannot be pulled on the cluster.
	ReasonImagePullFailed Reason = "ImagePullFailed"
	// ReasonPodsUnschedulable: a pod of the klusterlet finds no node.
	ReasonPodsUnschedulable Reason = "PodsUnschedulable"
	// ReasonPodsRefused: the cluster does not let the klusterlet's pods be created.
	ReasonPodsRefused Reason = "PodsRefused"
	// ReasonPodsCrashing: a container of the klusterlet ends again and again.
	ReasonPodsCrashing Reason = "PodsCrashing"
	// ReasonKlusterletFailed: the klusterlet operator cannot apply the agents.
	ReasonKlusterletFailed Reason = "KlusterletFailed"
	// ReasonKlusterletMissing: the klusterlet has been removed from the cluster since.
	ReasonKlusterletMissing Reason = "KlusterletMissing"
	// ReasonHubUnreachable: the klusterlet gets no answer of the hub.
	ReasonHubUnreachable Reason = "HubUnreachable"
	// ReasonBootstrapRejected: the hub does not accept the klusterlet's bootstrap credential.
	ReasonBootstrapRejected Reason = "BootstrapRejected"
	// ReasonCSRNotApproved: the certificate that the klusterlet asks for is not approved.
	ReasonCSRNotApproved Reason = "CSRNotApproved"
	// ReasonCSRDenied: the certificate that the klusterlet asks for is denied.
	ReasonCSRDenied Reason = "CSRDenied"
	// ReasonNotAccepted: the ManagedCluster does not accept the cluster.
	ReasonNotAccepted Reason = "NotAccepted"
	// ReasonNotJoined: the klusterlet has not joined yet, and nothing is known to be wrong.
	ReasonNotJoined Reason = "NotJoined"
	// ReasonNotAvailable: the klusterlet has joined and does not report yet.
	ReasonNotAvailable Reason = "NotAvailable"

	// ReasonCompleted: the klusterlet has joined and become available.
	ReasonCompleted Reason = "Completed"
)

// Reasons of events only.
const (
	// ReasonKlusterletDeployed: the klusterlet is deployed to the cluster.
	ReasonKlusterletDeployed Reason = "KlusterletDeployed"
	// ReasonManagedClusterNotFound: no ManagedCluster has the name yet.
	ReasonManagedClusterNotFound Reason = "ManagedClusterNotFound"
	// ReasonAnnotationInvalid: the value can't be the name of a ManagedCluster.
	ReasonAnnotationInvalid Reason = "AnnotationInvalid"
	// ReasonOwnedByClusterAPI: Cluster API's provider imports the cluster.
	ReasonOwnedByClusterAPI Reason = "OwnedByClusterAPI"
	// ReasonImportPaused: AnnotationDisableAutoImport is present.
	ReasonImportPaused Reason = "ImportPaused"
)

// retry says when an import that failed is tried again without being woken.
type retry int

const (
	// retryBackoff: from firstRetry on, twice as long each time up to lastRetry.
	retryBackoff retry = iota
	// retryOnChange: a person must change the input, which wakes the import; else after invalidRetry.
	retryOnChange
	// retryByImporter: by the importer's own exponential back-off.
	retryByImporter
)

// reasonInfo is what goes with a reason for which an import fails or is not complete.
type reasonInfo struct {
	retry retry
	// next is the next step that a message ends with. Reasons whose errors carry their own have none.
	next string
}

const (
	nextLogs      = "see the logs of the import controller"
	nextGrant     = "grant it the ClusterRole in manifests/managed-cluster"
	nextSpokePods = "see the pods in the namespaces open-cluster-management-agent… of the cluster"
	nextImport    = "set annotation " + AnnotationImmediateImport + ` of the ManagedCluster to ""`
	// nextDeploy follows what may be corrected on the cluster or on the hub: a klusterlet that is deployed is not deployed again
	// by itself.
	nextDeploy = "; after a change of cluster-import-config or the hub's options, " + nextImport
	nextCSR    = "the newest CertificateSigningRequest of the hub whose label " + clusterv1.ClusterNameLabelKey + " is the name of the cluster"
)

var reasonInfos = map[Reason]reasonInfo{
	ReasonSecretNotFound:        {retryOnChange, "create a Secret with the annotation " + AnnotationManagedCluster},
	ReasonSecretAmbiguous:       {retryOnChange, "keep one of them and delete the others or remove their annotation " + AnnotationManagedCluster},
	ReasonSecretMisplaced:       {retryOnChange, "set its annotation " + AnnotationManagedCluster + " to the name of its namespace"},
	ReasonHubReadFailed:         {retryByImporter, nextLogs + ", its permissions on the hub, and cluster-import-config"},
	ReasonKubeconfigInvalid:     {retryOnChange, ""},
	ReasonFieldForbidden:        {retryOnChange, ""},
	ReasonCredentialInvalid:     {retryOnChange, ""},
	ReasonPolicyDenied:          {retryOnChange, ""},
	ReasonCredentialPending:     {retryBackoff, ""},
	ReasonTokenMintFailed:       {retryBackoff, ""},
	ReasonCredentialExpired:     {retryOnChange, "put a valid credential into the Secret"},
	ReasonCredentialNotYetValid: {retryBackoff, "put a valid credential into the Secret, or compare the clocks"},
	ReasonNameNotResolved:       {retryBackoff, "correct the server of the kubeconfig, or make its name resolvable from the hub"},
	ReasonUnreachable:           {retryBackoff, "check that the server of the kubeconfig, and its proxy-url if it has one, is right and reachable from the hub"},
	ReasonTLSUntrusted:          {retryBackoff, "put the CA that signs the API server's certificate into the Secret, or renew that certificate if it is not valid now"},
	ReasonTLSNameMismatch:       {retryBackoff, "use a server name that the certificate is for, or set tls-server-name in the kubeconfig"},
	ReasonTLSFailed:             {retryBackoff, "check that the server of the kubeconfig is a Kubernetes API server that accepts this client"},
	ReasonServerFailed:          {retryBackoff, "check the health of the cluster's API server; the import is tried again"},
	ReasonNotKubernetes:         {retryBackoff, "correct the server of the kubeconfig"},
	ReasonUnauthorized:          {retryBackoff, "put a valid credential into the Secret, or give its identity access to the cluster"},
	ReasonForbidden:             {retryBackoff, nextGrant},
	ReasonClusterTooOld:         {retryBackoff, "upgrade the cluster"},
	ReasonHubAsSpoke: {retryBackoff, "correct the Secret, or set label " + LabelLocalCluster +
		"=true of the ManagedCluster to import the hub"},
	ReasonClusterSwapped: {retryBackoff, "correct the Secret, or remove annotation " + AnnotationClusterUID +
		" of the ManagedCluster to import this cluster instead"},
	ReasonDuplicateCluster:  {retryBackoff, "correct the Secret, or delete one of the two ManagedClusters"},
	ReasonOwnedByAnotherHub: {retryBackoff, ""},
	ReasonLeftovers:         {retryBackoff, "wait, or see what keeps it on the cluster; the import is tried again"},

	ReasonImagePullFailed:   {retryBackoff, "correct the image, its pull Secret, or the cluster's access to the registry" + nextDeploy},
	ReasonPodsUnschedulable: {retryBackoff, "see in its events what it lacks, and give the cluster a node that it fits on" + nextDeploy},
	ReasonPodsRefused:       {retryBackoff, "see condition ReplicaFailure of the Deployment on the cluster: a quota or an admission policy" + nextDeploy},
	ReasonPodsCrashing:      {retryBackoff, "see the events of the pod on the cluster, and the log of the container" + nextDeploy},
	ReasonKlusterletFailed:  {retryBackoff, "see the conditions of Klusterlet " + klusterletName + " on the cluster" + nextDeploy},
	ReasonKlusterletMissing: {retryBackoff, nextImport + " to import it again"},
	ReasonHubUnreachable:    {retryBackoff, "make the hub's API server reachable from the cluster, by the URL and the CA that the klusterlet has" + nextDeploy},
	ReasonBootstrapRejected: {retryBackoff, "check the bootstrap ServiceAccount of the hub and its permissions, or bootstrapHubKubeConfig of cluster-import-config; then " + nextImport},
	ReasonCSRNotApproved:    {retryBackoff, "approve " + nextCSR + ": kubectl certificate approve, or clusteradm accept"},
	ReasonCSRDenied:         {retryBackoff, "see condition Denied of " + nextCSR + ", then delete it: the klusterlet asks again"},
	ReasonNotAccepted:       {retryBackoff, "set spec.hubAcceptsClient of the ManagedCluster to true"},
	ReasonNotJoined:         {retryBackoff, "wait; " + nextSpokePods + " if it takes more than a few minutes"},
	ReasonNotAvailable:      {retryBackoff, "wait; " + nextSpokePods + " if it takes more than a few minutes"},
}
