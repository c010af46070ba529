// Copyright Contributors to the Open Cluster Management project

package restconfig

import (
	"reflect"
	"slices"
)

// verdict says what becomes of a field.
type verdict int

const (
	// structure: a list, a name or a reference. It is read to find the other fields, and has no value of its own to copy.
	structure verdict = iota + 1
	// copied: validated, then copied into the rest.Config.
	copied
	// unused: accepted in the input, and dropped.
	unused
	// kept: a setting of a ready rest.Config that Check lets pass.
	kept
	// rejected: a set field is an error.
	rejected
	// insecure: rejected unless Options.InsecureSkipTLSVerify, then copied.
	insecure
	// stanza: rejected unless Options.Exec, then handed on for a resolver to read.
	stanza
	// proxied: rejected unless Options.Proxies has the value.
	proxied
	// nested: part of a stanza that is rejected as a whole.
	nested
)

// field classifies one field of one type.
type field struct {
	// owner and name are the Go type and field, as in clientcmd's types; rest's types carry the prefix "rest.".
	owner, name string
	// path is the key in the file; empty for fields that exist only in memory.
	path string
	// verdict is what becomes of it.
	verdict verdict
	// next is the next step for a person, for rejected and insecure fields.
	next string
}

const (
	nextInline     = "kubectl config view --raw --flatten --minify writes a file with everything inline"
	nextCA         = "file paths are not followed; put the data inline in certificate-authority-data; " + nextInline
	nextCert       = "file paths are not followed; put the data inline in client-certificate-data; " + nextInline
	nextKey        = "file paths are not followed; put the data inline in client-key-data; " + nextInline
	nextTokenFile  = "file paths are not followed; put the token inline in token"
	nextCredential = "use token, or client-certificate-data and client-key-data"
	nextExec       = "plugins are not run; use a credential resolver, or " + nextCredential
	nextAs         = "give the credentials of the identity itself"
	nextProxy      = "remove it, or use one that the administrator of the hub accepts"
	nextInsecure   = "remove it and put the CA in certificate-authority-data, or let the administrator of the hub allow it"
	nextResolver   = "the credential resolver must not set it"
)

// fields is the classification of every field that can reach this package: the types that a file is decoded into
// (clientcmd/api/v1), their in-memory forms (clientcmd/api) and rest.Config. The order is the order of the checks.
// It is a function and not a variable so that nobody can change it.
func fields() []field {
	return []field{
		{"Config", "Kind", "kind", structure, ""},
		{"Config", "APIVersion", "apiVersion", structure, ""},
		{"Config", "Preferences", "preferences", unused, ""},
		{"Config", "Clusters", "clusters", structure, ""},
		{"Config", "AuthInfos", "users", structure, ""},
		{"Config", "Contexts", "contexts", structure, ""},
		{"Config", "CurrentContext", "current-context", structure, ""},
		{"Config", "Extensions", "extensions", unused, ""},

		{"Preferences", "Colors", "preferences.colors", unused, ""},
		{"Preferences", "Extensions", "preferences.extensions", unused, ""},

		{"NamedExtension", "Name", "extensions[].name", unused, ""},
		{"NamedExtension", "Extension", "extensions[].extension", unused, ""},

		{"NamedCluster", "Name", "clusters[].name", structure, ""},
		{"NamedCluster", "Cluster", "clusters[].cluster", structure, ""},
		{"Cluster", "LocationOfOrigin", "", unused, ""},
		{"Cluster", "CertificateAuthority", "clusters[].cluster.certificate-authority", rejected, nextCA},
		{"Cluster", "ProxyURL", "clusters[].cluster.proxy-url", proxied, nextProxy},
		{"Cluster", "InsecureSkipTLSVerify", "clusters[].cluster.insecure-skip-tls-verify", insecure, nextInsecure},
		{"Cluster", "Server", "clusters[].cluster.server", copied, ""},
		{"Cluster", "TLSServerName", "clusters[].cluster.tls-server-name", copied, ""},
		{"Cluster", "CertificateAuthorityData", "clusters[].cluster.certificate-authority-data", copied, ""},
		{"Cluster", "DisableCompression", "clusters[].cluster.disable-compression", copied, ""},
		// Holds, among others, the input of exec plugins; no plugin runs, so it stays unread.
		{"Cluster", "Extensions", "clusters[].cluster.extensions", unused, ""},

		{"NamedAuthInfo", "Name", "users[].name", structure, ""},
		{"NamedAuthInfo", "AuthInfo", "users[].user", structure, ""},
		{"AuthInfo", "LocationOfOrigin", "", unused, ""},
		{"AuthInfo", "ClientCertificate", "users[].user.client-certificate", rejected, nextCert},
		{"AuthInfo", "ClientKey", "users[].user.client-key", rejected, nextKey},
		{"AuthInfo", "TokenFile", "users[].user.tokenFile", rejected, nextTokenFile},
		{"AuthInfo", "Exec", "users[].user.exec", stanza, nextExec},
		{"AuthInfo", "AuthProvider", "users[].user.auth-provider", rejected, nextExec},
		{"AuthInfo", "Username", "users[].user.username", rejected, nextCredential},
		{"AuthInfo", "Password", "users[].user.password", rejected, nextCredential},
		{"AuthInfo", "Impersonate", "users[].user.as", rejected, nextAs},
		{"AuthInfo", "ImpersonateUID", "users[].user.as-uid", rejected, nextAs},
		{"AuthInfo", "ImpersonateGroups", "users[].user.as-groups", rejected, nextAs},
		{"AuthInfo", "ImpersonateUserExtra", "users[].user.as-user-extra", rejected, nextAs},
		{"AuthInfo", "ClientCertificateData", "users[].user.client-certificate-data", copied, ""},
		{"AuthInfo", "ClientKeyData", "users[].user.client-key-data", copied, ""},
		{"AuthInfo", "Token", "users[].user.token", copied, ""},
		{"AuthInfo", "Extensions", "users[].user.extensions", unused, ""},

		{"NamedContext", "Name", "contexts[].name", structure, ""},
		{"NamedContext", "Context", "contexts[].context", structure, ""},
		{"Context", "LocationOfOrigin", "", unused, ""},
		{"Context", "Cluster", "contexts[].context.cluster", structure, ""},
		{"Context", "AuthInfo", "contexts[].context.user", structure, ""},
		{"Context", "Namespace", "contexts[].context.namespace", unused, ""},
		{"Context", "Extensions", "contexts[].context.extensions", unused, ""},

		{"AuthProviderConfig", "Name", "users[].user.auth-provider.name", nested, ""},
		{"AuthProviderConfig", "Config", "users[].user.auth-provider.config", nested, ""},
		{"ExecConfig", "Command", "users[].user.exec.command", stanza, ""},
		{"ExecConfig", "Args", "users[].user.exec.args", stanza, ""},
		{"ExecConfig", "Env", "users[].user.exec.env", stanza, ""},
		{"ExecConfig", "APIVersion", "users[].user.exec.apiVersion", stanza, ""},
		{"ExecConfig", "InstallHint", "users[].user.exec.installHint", unused, ""},
		{"ExecConfig", "ProvideClusterInfo", "users[].user.exec.provideClusterInfo", stanza, ""},
		{"ExecConfig", "InteractiveMode", "users[].user.exec.interactiveMode", unused, ""},
		{"ExecConfig", "Config", "", unused, ""},
		{"ExecConfig", "StdinUnavailable", "", unused, ""},
		{"ExecConfig", "StdinUnavailableMessage", "", unused, ""},
		{"ExecEnvVar", "Name", "users[].user.exec.env[].name", stanza, ""},
		{"ExecEnvVar", "Value", "users[].user.exec.env[].value", stanza, ""},

		{"rest.Config", "Username", "rest.Config.Username", rejected, nextResolver},
		{"rest.Config", "Password", "rest.Config.Password", rejected, nextResolver},
		{"rest.Config", "BearerTokenFile", "rest.Config.BearerTokenFile", rejected, nextResolver},
		{"rest.Config", "AuthProvider", "rest.Config.AuthProvider", rejected, nextResolver},
		{"rest.Config", "AuthConfigPersister", "rest.Config.AuthConfigPersister", rejected, nextResolver},
		{"rest.Config", "ExecProvider", "rest.Config.ExecProvider", rejected, nextResolver},
		// Transport and Dial replace the connection that the importer builds, with its time limits and its check of addresses.
		{"rest.Config", "Transport", "rest.Config.Transport", rejected, nextResolver},
		{"rest.Config", "Dial", "rest.Config.Dial", rejected, nextResolver},
		{"rest.Config", "Proxy", "rest.Config.Proxy", kept, ""},
		{"rest.Config", "Impersonate", "rest.Config.Impersonate", structure, ""},
		{"rest.Config", "TLSClientConfig", "rest.Config.TLSClientConfig", structure, ""},
		{"rest.Config", "Host", "rest.Config.Host", kept, ""},
		{"rest.Config", "BearerToken", "rest.Config.BearerToken", kept, ""},
		// A token source adds its header here, around the importer's own transport.
		{"rest.Config", "WrapTransport", "rest.Config.WrapTransport", kept, ""},
		{"rest.Config", "APIPath", "rest.Config.APIPath", kept, ""},
		{"rest.Config", "ContentConfig", "rest.Config.ContentConfig", kept, ""},
		{"rest.Config", "UserAgent", "rest.Config.UserAgent", kept, ""},
		{"rest.Config", "DisableCompression", "rest.Config.DisableCompression", kept, ""},
		{"rest.Config", "QPS", "rest.Config.QPS", kept, ""},
		{"rest.Config", "Burst", "rest.Config.Burst", kept, ""},
		{"rest.Config", "RateLimiter", "rest.Config.RateLimiter", kept, ""},
		{"rest.Config", "WarningHandler", "rest.Config.WarningHandler", kept, ""},
		{"rest.Config", "WarningHandlerWithContext", "rest.Config.WarningHandlerWithContext", kept, ""},
		{"rest.Config", "Timeout", "rest.Config.Timeout", kept, ""},

		{"rest.ImpersonationConfig", "UserName", "rest.Config.Impersonate.UserName", rejected, nextResolver},
		{"rest.ImpersonationConfig", "UID", "rest.Config.Impersonate.UID", rejected, nextResolver},
		{"rest.ImpersonationConfig", "Groups", "rest.Config.Impersonate.Groups", rejected, nextResolver},
		{"rest.ImpersonationConfig", "Extra", "rest.Config.Impersonate.Extra", rejected, nextResolver},

		{"rest.TLSClientConfig", "CAFile", "rest.Config.TLSClientConfig.CAFile", rejected, nextResolver},
		{"rest.TLSClientConfig", "CertFile", "rest.Config.TLSClientConfig.CertFile", rejected, nextResolver},
		{"rest.TLSClientConfig", "KeyFile", "rest.Config.TLSClientConfig.KeyFile", rejected, nextResolver},
		{"rest.TLSClientConfig", "Insecure", "rest.Config.TLSClientConfig.Insecure", insecure, nextResolver},
		{"rest.TLSClientConfig", "ServerName", "rest.Config.TLSClientConfig.ServerName", kept, ""},
		{"rest.TLSClientConfig", "CAData", "rest.Config.TLSClientConfig.CAData", kept, ""},
		{"rest.TLSClientConfig", "CertData", "rest.Config.TLSClientConfig.CertData", kept, ""},
		{"rest.TLSClientConfig", "KeyData", "rest.Config.TLSClientConfig.KeyData", kept, ""},
		{"rest.TLSClientConfig", "NextProtos", "rest.Config.TLSClientConfig.NextProtos", kept, ""},
	}
}

// refuse returns the first field of value, a struct of the owner's type, that the table does not let pass.
func refuse(table []field, owner string, value any, entry string, o Options) error {
	v := reflect.ValueOf(value)
	for _, f := range table {
		if f.owner != owner {
			continue
		}
		reason := ReasonForbidden
		switch {
		case f.verdict == insecure && !o.InsecureSkipTLSVerify:
			reason = ReasonDenied
		case f.verdict == proxied && !slices.Contains(o.Proxies, v.FieldByName(f.name).String()):
			reason = ReasonDenied
		case f.verdict == stanza && f.owner == "AuthInfo" && !o.Exec:
		case f.verdict != rejected:
			continue
		}
		if isSet(v.FieldByName(f.name)) {
			return &FieldError{Field: f.path, Entry: entry, Reason: reason, NextStep: f.next}
		}
	}
	return nil
}

// isSet tells a value from an absent one. An empty string, list or map is what "omitempty" leaves out, hence absent;
// a stanza that is present but empty ("exec: {}") is a pointer and counts as set.
func isSet(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() > 0
	default:
		return !v.IsZero()
	}
}
