// Copyright Contributors to the Open Cluster Management project

package aks

import (
	"regexp"
	"slices"
	"strings"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/stanza"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

const fieldExec = "users[].user.exec"

// Names of values. Variables have their own.
const (
	valueLogin       = "login"
	valueServerID    = "server-id"
	valueClientID    = "client-id"
	valueTenantID    = "tenant-id"
	valueEnvironment = "environment"
	valueAuthority   = "authority-host"
)

// request is what a stanza asks for.
type request struct {
	// clientID is the identity to use, tenantID its tenant; both may be empty.
	clientID, tenantID string
	// environment and authority are those that the stanza expects; both may be empty.
	environment, authority string
}

// personal are the modes in which a person logs in. Their client ID, if any, is that of the public application
// 80faf920-1908-4b52-b5ef-a8e7bedfc67a, through which that happens.
func personal() []string { return []string{"devicecode", "interactive", "azurecli", "azd", "ropc"} }

func logins() []string { return append(personal(), "workloadidentity", "msi", "spn") }

// variables are those that both tools know and that hold neither a secret nor a file.
func variables() map[string][]string {
	return map[string][]string{
		"AAD_LOGIN_METHOD": logins(),
		"AZURE_CLIENT_ID":  nil, "AAD_SERVICE_PRINCIPAL_CLIENT_ID": nil,
		"AZURE_TENANT_ID":      nil,
		"AZURE_AUTHORITY_HOST": nil,
	}
}

// kubelogin is the grammar of Azure's kubelogin. Flags for secrets, for files of credentials and for tokens of another kind
// (--legacy, --pop-enabled) are left out, so that they are refused.
func kubelogin() stanza.Grammar {
	login := stanza.Flag{Value: valueLogin, OneOf: logins()}
	tenant := stanza.Flag{Value: valueTenantID}
	environment := stanza.Flag{Value: valueEnvironment, OneOf: environmentNames()}
	// These only matter to somebody who logs in, or to a cache on a disk.
	ignored := func(name string) stanza.Flag { return stanza.Flag{Value: "ignored " + name} }
	return stanza.Grammar{
		Words: []string{"get-token"},
		Flags: map[string]stanza.Flag{
			"--login": login, "-l": login,
			"--server-id": {Value: valueServerID, OneOf: []string{serverApplication}},
			"--client-id": {Value: valueClientID},
			"--tenant-id": tenant, "-t": tenant,
			"--environment": environment, "-e": environment,
			"--authority-host": {Value: valueAuthority},
			"--subscription":   ignored("subscription"), "-s": ignored("subscription"),
			"--cache-dir": ignored("cache-dir"), "--token-cache-dir": ignored("cache-dir"),
			"--timeout":                      ignored("timeout"),
			"--login-hint":                   ignored("login-hint"),
			"--redirect-url":                 ignored("redirect-url"),
			"--disable-environment-override": {Value: "ignored environment-override", Switch: true},
		},
		Env: variables(),
	}
}

// argocd is the grammar of argocd-k8s-auth azure.
func argocd() stanza.Grammar {
	g := stanza.Grammar{Words: []string{"azure"}, Env: variables()}
	g.Env["AAD_SERVER_APPLICATION_ID"] = []string{serverApplication}
	g.Env["AAD_ENVIRONMENT_NAME"] = environmentNames()
	return g
}

// readStanza reads a stanza of either tool. The error is an InvalidError.
func readStanza(exec *restconfig.Exec) (request, error) {
	refuse := func(reason restconfig.Reason, next string) (request, error) {
		return request{}, credential.Invalid(&restconfig.FieldError{Field: fieldExec, Entry: exec.Entry, Reason: reason, NextStep: next})
	}
	grammar, login, server := kubelogin(), "devicecode", "" // the tool's own defaults
	switch credential.CommandName(exec) {
	case "kubelogin":
		if slices.ContainsFunc(exec.Args, func(arg string) bool { return strings.HasPrefix(arg, "--oidc-") }) {
			return refuse(restconfig.ReasonForbidden, "this is the kubelogin for OpenID Connect, not that of Azure: set the annotation "+
				credential.AnnotationCredentialResolver+" to "+credential.ResolverExec+", for a plugin that the policy of the hub names")
		}
	case "argocd-k8s-auth":
		grammar, login, server = argocd(), "workloadidentity", serverApplication
	default:
		return refuse(restconfig.ReasonForbidden, "only kubelogin get-token and argocd-k8s-auth azure get tokens for Azure Kubernetes Service")
	}
	values, err := stanza.Parse(exec, grammar)
	if err != nil {
		return request{}, err
	}
	// The tools let variables win over flags.
	first := func(fallback string, names ...string) string {
		for _, name := range names {
			if values[name] != "" {
				return values[name]
			}
		}
		return fallback
	}
	if first(server, "AAD_SERVER_APPLICATION_ID", valueServerID) != serverApplication {
		return refuse(restconfig.ReasonInvalid, "the flag --server-id is missing; it must be "+serverApplication)
	}
	r := request{
		clientID:    first("", "AZURE_CLIENT_ID", "AAD_SERVICE_PRINCIPAL_CLIENT_ID", valueClientID),
		tenantID:    first("", "AZURE_TENANT_ID", valueTenantID),
		environment: first("", "AAD_ENVIRONMENT_NAME", valueEnvironment),
		authority:   first("", "AZURE_AUTHORITY_HOST", valueAuthority),
	}
	if slices.Contains(personal(), first(login, "AAD_LOGIN_METHOD", valueLogin)) {
		r.clientID = ""
	}
	switch {
	case r.clientID != "" && !isUUID(r.clientID):
		return refuse(restconfig.ReasonInvalid, "the client ID must be a UUID")
	case r.tenantID != "" && !isUUID(r.tenantID):
		return refuse(restconfig.ReasonInvalid, "the tenant ID must be a UUID")
	}
	return r, nil
}

// Forms by the naming rules of Azure Resource Manager (resourceGroups, Microsoft.ContainerService/managedClusters).
var (
	uuidForm          = regexp.MustCompile(`^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$`)
	resourceGroupForm = regexp.MustCompile(`^[-\pL\pN_.()]{0,89}[-\pL\pN_()]$`)
	clusterNameForm   = regexp.MustCompile(`^[0-9A-Za-z]([-0-9A-Za-z_]{0,61}[0-9A-Za-z])?$`)
)

func isUUID(s string) bool          { return uuidForm.MatchString(s) }
func isResourceGroup(s string) bool { return resourceGroupForm.MatchString(s) }
func isClusterName(s string) bool   { return clusterNameForm.MatchString(s) }
