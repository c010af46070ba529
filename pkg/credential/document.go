// Copyright Contributors to the Open Cluster Management project

package credential

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// DocumentKey is the data key of a Document.
const DocumentKey = "credential.yaml"

// ExchangeTokenRequest is the one value of Document.Exchange.
const ExchangeTokenRequest = "token-request"

// maxDocument is in bytes: far above what the fields take.
const maxDocument = 64 << 10

// Document is the YAML under DocumentKey: how to get a credential where the Secret holds none, or what to do with the one
// that it holds. At most one of the first five fields may be set; it names the resolver.
type Document struct {
	EKS            *EKSParameters            `json:"eks,omitempty"`
	GKE            *GKEParameters            `json:"gke,omitempty"`
	AKS            *AKSParameters            `json:"aks,omitempty"`
	Exec           *ExecParameters           `json:"exec,omitempty"`
	ClusterProfile *ClusterProfileParameters `json:"clusterProfile,omitempty"`
	// Exchange is ExchangeTokenRequest to exchange the credential for a short-lived one of a ServiceAccount.
	Exchange string `json:"exchange,omitempty"`
	// TokenRequest are the choices of the exchange.
	TokenRequest *TokenRequestParameters `json:"tokenRequest,omitempty"`
}

// EKSParameters name a cluster of Amazon EKS.
type EKSParameters struct {
	// Cluster is its name. Required.
	Cluster string `json:"cluster"`
	// Region is its region, such as eu-central-1. Required.
	Region string `json:"region"`
	// RoleARN is the role to assume. Default: the hub's own, if the policy allows it.
	RoleARN string `json:"roleARN,omitempty"`
}

// GKEParameters name a cluster of Google Kubernetes Engine.
type GKEParameters struct {
	// Project is the ID of its project. Required.
	Project string `json:"project"`
	// Location is its region or zone. Required.
	Location string `json:"location"`
	// Cluster is its name. Required.
	Cluster string `json:"cluster"`
	// ServiceAccount is the email of the one to impersonate. Default: the hub's own, if the policy allows it.
	ServiceAccount string `json:"serviceAccount,omitempty"`
}

// AKSParameters name a cluster of Azure Kubernetes Service.
type AKSParameters struct {
	// Subscription is the ID of its subscription. Required.
	Subscription string `json:"subscription"`
	// ResourceGroup is its resource group. Required.
	ResourceGroup string `json:"resourceGroup"`
	// Cluster is its name. Required.
	Cluster string `json:"cluster"`
	// ClientID is that of the identity to use. Default: the hub's own, if the policy allows it.
	ClientID string `json:"clientID,omitempty"`
	// TenantID is the tenant of the identity. Default: the hub's own.
	TenantID string `json:"tenantID,omitempty"`
}

// ExecParameters name a plugin of the policy, for a Secret without an exec stanza.
type ExecParameters struct {
	// Plugin is the name of the plugin. Required.
	Plugin string `json:"plugin"`
	// Server is the address of the API server, https://host:port. Required.
	Server string `json:"server"`
	// CertificateAuthorityData is the CA of the API server in PEM form. Default: the roots of the hub's system.
	CertificateAuthorityData string `json:"certificateAuthorityData"`
	// Parameters are the values for the arguments of the plugin, by the name of the parameter.
	Parameters map[string]string `json:"parameters,omitempty"`
}

// ClusterProfileParameters name a ClusterProfile on the hub.
type ClusterProfileParameters struct {
	// Namespace is its namespace. Required.
	Namespace string `json:"namespace"`
	// Name is its name. Required.
	Name string `json:"name"`
}

// TokenRequestParameters are the choices of the exchange for a token of a ServiceAccount on the cluster.
type TokenRequestParameters struct {
	// ServiceAccount is namespace/name. Default: kube-system/import-provider, as manifests/managed-cluster has it.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// Create makes the ServiceAccount and gives it what an import needs. Default: false, both must exist.
	Create bool `json:"create,omitempty"`
	// Lifetime is how long each token is valid, from 10m to 24h. Default: 1h.
	Lifetime metav1.Duration `json:"lifetime,omitzero"`
}

// ReadDocument reads the Document of a Secret strictly; it is empty if the Secret has none. The error is fit for a condition.
func ReadDocument(secret *corev1.Secret) (*Document, error) {
	document := &Document{}
	data, found := secret.Data[DocumentKey]
	switch {
	case !found:
		return document, nil
	case len(data) > maxDocument:
		return nil, Invalid(fmt.Errorf("data key %s is too large: the limit is 64 KiB", DocumentKey))
	}
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err == nil {
		var strict []error
		strict, err = kjson.UnmarshalStrict(asJSON, document)
		err = errors.Join(append(strict, err)...)
	}
	if err != nil {
		// The texts of the libraries quote their input.
		return nil, Invalid(fmt.Errorf("data key %s is not valid: it must be YAML with known keys, each once, and values of the right type", DocumentKey))
	}
	count := 0
	for _, set := range []bool{
		document.EKS != nil, document.GKE != nil, document.AKS != nil, document.Exec != nil, document.ClusterProfile != nil,
	} {
		if set {
			count++
		}
	}
	switch {
	case count > 1:
		err = errors.New("set only one of eks, gke, aks, exec, clusterProfile")
	case document.Exchange != "" && document.Exchange != ExchangeTokenRequest:
		err = errors.New("exchange must be " + ExchangeTokenRequest)
	case document.TokenRequest != nil && document.Exchange == "":
		err = errors.New("tokenRequest needs exchange: " + ExchangeTokenRequest)
	case count == 0 && document.Exchange == "":
		err = errors.New("set one of eks, gke, aks, exec, clusterProfile, or exchange")
	}
	if err != nil {
		return nil, Invalid(fmt.Errorf("data key %s is not valid: %w", DocumentKey, err))
	}
	return document, nil
}

// resolver is the name of the resolver that the document is for, or "".
func (d *Document) resolver() string {
	switch {
	case d.EKS != nil:
		return ResolverEKS
	case d.GKE != nil:
		return ResolverGKE
	case d.AKS != nil:
		return ResolverAKS
	case d.Exec != nil:
		return ResolverExec
	case d.ClusterProfile != nil:
		return ResolverClusterProfile
	}
	return ""
}

// Missing is the error for a field of the document that is required.
func Missing(field string) error {
	return Invalid(fmt.Errorf("data key %s: %s is missing", DocumentKey, field))
}
