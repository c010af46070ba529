// Copyright Contributors to the Open Cluster Management project

package policy

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// APIVersion is the version of the file.
	APIVersion = "config.import.open-cluster-management.io/v1alpha1"
	// Kind is the kind of the file.
	Kind = "ImportPolicy"
)

// ImportPolicy is what the administrator of a hub lets import Secrets ask for. What it does not name is denied.
type ImportPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// Rules say what Secrets may ask for, by their namespace: the first rule that matches decides, and none denies all.
	// Default: one rule, for all namespaces, with the resolvers kubeconfig and token.
	Rules []Rule `json:"rules,omitempty"`
	// Endpoints are the addresses that may be connected to as managed clusters.
	Endpoints Endpoints `json:"endpoints,omitzero"`
	// StaticCredentials limit the tokens and certificates that Secrets hold. They do not apply to one that is exchanged.
	StaticCredentials StaticCredentials `json:"staticCredentials,omitzero"`
	// Plugins are the programs that the resolvers exec and clusterprofile may run.
	Plugins []Plugin `json:"plugins,omitempty"`
	// Clouds are the addresses of cloud services, where they are not the public ones.
	Clouds Clouds `json:"clouds,omitzero"`
}

// Rule is what the import Secrets of some namespaces may ask for.
type Rule struct {
	// Namespaces are names of namespaces, or patterns in which * stands for any characters. Required.
	Namespaces []string `json:"namespaces"`
	// Resolvers are the names of the credential resolvers that may be used. Required.
	Resolvers []string `json:"resolvers"`
	// EKS is whom the resolver eks may act as.
	EKS EKS `json:"eks,omitzero"`
	// GKE is whom the resolver gke may act as.
	GKE GKE `json:"gke,omitzero"`
	// AKS is whom the resolver aks may act as, and where its clusters are.
	AKS AKS `json:"aks,omitzero"`
	// Plugins are names of ImportPolicy.Plugins, or patterns, that may be run.
	Plugins []string `json:"plugins,omitempty"`
	// ClusterProfiles are the ClusterProfiles that the resolver clusterprofile may read.
	ClusterProfiles ClusterProfiles `json:"clusterProfiles,omitzero"`
	// TokenRequest allows the exchange of a credential for a short-lived one of a ServiceAccount. Default: true.
	TokenRequest *bool `json:"tokenRequest,omitempty"`
}

// EKS is whom the resolver eks may act as. With neither field it may act as nobody.
type EKS struct {
	// HubIdentity allows the role of the hub itself, where a Secret names no role. Default: false.
	HubIdentity bool `json:"hubIdentity,omitempty"`
	// Roles are ARNs of roles that may be assumed, or patterns.
	Roles []string `json:"roles,omitempty"`
	// ExternalID is sent when a role is assumed; {namespace} and {cluster} stand for the namespace of the import Secret and
	// the name of the ManagedCluster, so that a role can tell tenants apart. It may have no other braces. Default: none.
	ExternalID string `json:"externalID,omitempty"`
}

// GKE is whom the resolver gke may act as. With neither field it may act as nobody.
type GKE struct {
	// HubIdentity allows the service account of the hub itself, where a Secret names none. Default: false.
	HubIdentity bool `json:"hubIdentity,omitempty"`
	// ServiceAccounts are emails of Google service accounts that may be impersonated, or patterns.
	ServiceAccounts []string `json:"serviceAccounts,omitempty"`
}

// AKS is whom the resolver aks may act as. With neither HubIdentity nor ClientIDs it may act as nobody.
type AKS struct {
	// HubIdentity allows the identity of the hub itself, where a Secret names none. Default: false.
	HubIdentity bool `json:"hubIdentity,omitempty"`
	// ClientIDs are the client IDs of identities that may be used, or patterns.
	ClientIDs []string `json:"clientIDs,omitempty"`
	// Subscriptions are the IDs of subscriptions in which the cluster of a kubeconfig is looked for, and which Secrets may name.
	Subscriptions []string `json:"subscriptions,omitempty"`
}

// ClusterProfiles are the ClusterProfiles that the resolver clusterprofile may read.
type ClusterProfiles struct {
	// Namespaces are names of namespaces of the hub, or patterns. Default: none.
	Namespaces []string `json:"namespaces,omitempty"`
	// AdditionalArgs adds the arguments that a profile names to those of the provider file. Default: false, they are ignored.
	AdditionalArgs bool `json:"additionalArgs,omitempty"`
	// AdditionalEnv does the same for the environment. Default: false.
	AdditionalEnv bool `json:"additionalEnv,omitempty"`
}

// Endpoints are the addresses that may be connected to as managed clusters. Denied wins over allowed.
type Endpoints struct {
	// AllowHosts are hosts of servers in lower case, or patterns: names, or addresses as they stand in the URL. Default: all.
	AllowHosts []string `json:"allowHosts,omitempty"`
	// DenyHosts are hosts of servers, or patterns. A name that is not in the list may lead to the same address: see DenyCIDRs.
	DenyHosts []string `json:"denyHosts,omitempty"`
	// AllowCIDRs are ranges of addresses. Default: all but special ones. Loopback, link-local, multicast, unspecified and
	// metadata addresses are denied unless a range that lies in the special one allows them: 0.0.0.0/0 does not. An IPv6
	// address of NAT64 or 6to4 is allowed if the IPv4 address in it is so too.
	AllowCIDRs []string `json:"allowCIDRs,omitempty"`
	// DenyCIDRs are ranges of addresses, such as those of the hub itself.
	DenyCIDRs []string `json:"denyCIDRs,omitempty"`
	// Proxies are the values of proxy-url that kubeconfigs may have, http://host:port or https://host:port. The address of the
	// proxy is checked as that of a server is. Behind a proxy the address of a server is not known, so that its host must be
	// one of AllowHosts. A proxy with https is verified with the CAs of the hub's system. Default: none.
	Proxies []string `json:"proxies,omitempty"`
	// Pinned are clusters that tokens of clouds may be sent to without asking the cloud whose they are.
	Pinned []Pinned `json:"pinned,omitempty"`
}

// Pinned is one cluster.
type Pinned struct {
	// Server is its address, https://host:port as in the kubeconfig. Required.
	Server string `json:"server"`
	// CertificateAuthorityData is its CA in PEM form. Required.
	CertificateAuthorityData string `json:"certificateAuthorityData"`
}

// StaticCredentials limit the tokens and certificates that Secrets hold.
type StaticCredentials struct {
	// MaxLifetime is the longest time from the issue to the expiry, such as 24h. A token that does not tell its times is denied
	// if this is set. Default: no limit.
	MaxLifetime metav1.Duration `json:"maxLifetime,omitzero"`
	// DenyNeverExpiring denies JWTs without an expiry, such as those in Secrets of type kubernetes.io/service-account-token.
	// Default: false.
	DenyNeverExpiring bool `json:"denyNeverExpiring,omitempty"`
}

// Plugin is a program that prints an ExecCredential.
type Plugin struct {
	// Name is what a kubeconfig has as the base name of the command. Required.
	Name string `json:"name"`
	// File is its file in the plugin directory, a name without a path. Parse sets the default, Name.
	File string `json:"file,omitempty"`
	// SHA256 is the digest of the file in hexadecimal, by platform, such as linux/amd64. Required for the platform of the hub.
	// Parse sets it in lower case.
	SHA256 map[string]string `json:"sha256"`
	// Args are the arguments. A {name} in one stands for a parameter; other braces stand for themselves.
	Args []string `json:"args,omitempty"`
	// Parameters are regular expressions (RE2) that the whole of a parameter must match, by its name. Parse anchors them.
	Parameters map[string]string `json:"parameters,omitempty"`
	// PassEnv are the names of variables that the plugin gets from the environment of the hub's process. It gets no other. LD_*,
	// DYLD_* and GODEBUG are refused: they change what a program does, whatever the digest of its file.
	PassEnv []string `json:"passEnv,omitempty"`
	// Hosts are the host names of servers, or patterns, that the tokens of the plugin may be sent to. Required.
	Hosts []string `json:"hosts"`
	// APIVersion is that of the ExecCredential: client.authentication.k8s.io/v1, the default that Parse sets, or /v1beta1.
	APIVersion string `json:"apiVersion,omitempty"`
	// ProvideClusterInfo tells the plugin the server and the CA. Default: false.
	ProvideClusterInfo bool `json:"provideClusterInfo,omitempty"`
	// Timeout ends the plugin, from 1s to 5m. Parse sets the default, DefaultPluginTimeout.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// MaxOutputBytes ends the plugin when it prints more, up to 1 MiB. Parse sets the default, DefaultPluginOutputBytes.
	MaxOutputBytes int64 `json:"maxOutputBytes,omitempty"`
}

// Clouds are the addresses of cloud services: private endpoints, and clouds that the SDKs do not know. Each is https://host[:port].
type Clouds struct {
	AWS   AWS   `json:"aws,omitzero"`
	GCP   GCP   `json:"gcp,omitzero"`
	Azure Azure `json:"azure,omitzero"`
}

// AWS are the addresses of AWS services.
type AWS struct {
	// STS is that of the Security Token Service. Default: that of the region of the cluster.
	STS string `json:"sts,omitempty"`
	// EKS is that of the Elastic Kubernetes Service. Default: that of the region of the cluster.
	EKS string `json:"eks,omitempty"`
}

// GCP are the addresses of Google Cloud services.
type GCP struct {
	// Container is that of the Kubernetes Engine API. Default: https://container.googleapis.com, or that of the universe.
	Container string `json:"container,omitempty"`
	// IAMCredentials is that of the IAM Service Account Credentials API. Default: https://iamcredentials.googleapis.com, or that
	// of the universe.
	IAMCredentials string `json:"iamCredentials,omitempty"`
	// Universe is the domain of the cloud. Default: googleapis.com.
	Universe string `json:"universe,omitempty"`
}

// Azure are the addresses of Azure services.
type Azure struct {
	// Environment is the cloud: AzurePublicCloud, which is the default, AzureUSGovernmentCloud or AzureChinaCloud.
	Environment string `json:"environment,omitempty"`
	// Authority is that of Microsoft Entra ID. Default: that of the environment.
	Authority string `json:"authority,omitempty"`
	// ResourceManager is that of the Azure Resource Manager. Default: that of the environment.
	ResourceManager string `json:"resourceManager,omitempty"`
}
