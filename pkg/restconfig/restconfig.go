// Copyright Contributors to the Open Cluster Management project

package restconfig

import (
	"bytes"
	"net/http"
	"net/url"
	"slices"

	"k8s.io/client-go/rest"
	clientcmdapiv1 "k8s.io/client-go/tools/clientcmd/api/v1"
)

// MaxSize is the largest kubeconfig in bytes. It is the limit that Kubernetes puts on the data of a Secret
// (corev1.MaxSecretSize), so that no file that fits into one is refused for its size.
const MaxSize = 1 << 20

// ContextOption is the Field of the error for a context that Options asks for and the file does not have.
const ContextOption = "context"

// Options are the choices of the caller. The zero value is the safe one.
type Options struct {
	// Context is the name of the context to use. Default: the file's current-context; if that is empty too and the file
	// has exactly one context, that one.
	Context string
	// InsecureSkipTLSVerify accepts entries with insecure-skip-tls-verify. Default: false, such entries are refused.
	// It does not turn verification off for entries that do not ask for it.
	InsecureSkipTLSVerify bool
	// Exec accepts entries with an exec stanza, which Parse hands on. Default: false, such entries are refused.
	Exec bool
	// Proxies are the values of proxy-url that are accepted, http://host:port or https://host:port. Default: none.
	Proxies []string
}

// Kubeconfig is one context of a kubeconfig.
type Kubeconfig struct {
	// Config is where to connect to and whom as. It has no credential if Exec is set.
	Config *rest.Config
	// Exec is what the file would run for a credential; nil if it holds one.
	Exec *Exec
	// Cluster and User are the names of the entries. Cloud CLIs put the name of the cluster there.
	Cluster, User string
}

// Exec is the exec stanza of a user: untrusted input, which nothing in this package runs or looks up.
type Exec struct {
	// Entry is the user, as errors show it.
	Entry string
	// APIVersion is that of the ExecCredential, such as client.authentication.k8s.io/v1.
	APIVersion string
	// Command is a name or a path.
	Command string
	// Args are the arguments, without the command.
	Args []string
	// Env is what is added to the environment.
	Env []ExecEnv
	// ProvideClusterInfo says that the plugin is told which cluster it is for.
	ProvideClusterInfo bool
}

// ExecEnv is a variable of the environment.
type ExecEnv struct{ Name, Value string }

// FromKubeconfig reads a kubeconfig that holds its credential. See Parse; Options.Exec has no effect.
func FromKubeconfig(data []byte, o Options) (*rest.Config, error) {
	o.Exec = false
	parsed, err := Parse(data, o)
	if err != nil {
		return nil, err
	}
	return parsed.Config, nil
}

// Parse reads a kubeconfig, YAML or JSON, and returns one of its contexts. It does no I/O.
//
// Every entry of the file must keep the rules, also one that the chosen context does not use. The result holds the
// server, the TLS server name, the CA, the client certificate and key, the token (without a line break at its end), the
// choice about compression, and what Options accept besides; it shares no memory with data. Without a CA the server is verified
// with the roots of the system, as kubectl does; only what Options.InsecureSkipTLSVerify says turns verification off.
//
// The error is a *FieldError for the first rule that is broken, in a fixed order: the form of the file, then clusters,
// users and contexts in the order of the file, then the choice of the context.
func Parse(data []byte, o Options) (*Kubeconfig, error) {
	file, err := decode(data)
	if err != nil {
		return nil, err
	}
	if file.Kind != "" && file.Kind != "Config" {
		return nil, &FieldError{Field: "kind", Reason: ReasonInvalid, NextStep: "it must be Config"}
	}
	if file.APIVersion != "" && file.APIVersion != "v1" {
		return nil, &FieldError{Field: "apiVersion", Reason: ReasonInvalid, NextStep: "it must be v1"}
	}

	table := fields()
	clusters := map[string]*clientcmdapiv1.Cluster{}
	for i := range file.Clusters {
		c := &file.Clusters[i]
		if err := register(clusters, "clusters[].name", c.Name, i, &c.Cluster); err != nil {
			return nil, err
		}
		if err := checkCluster(table, &c.Cluster, entryName(c.Name, i), o); err != nil {
			return nil, err
		}
	}
	users := map[string]*clientcmdapiv1.AuthInfo{}
	for i := range file.AuthInfos {
		u := &file.AuthInfos[i]
		if err := register(users, "users[].name", u.Name, i, &u.AuthInfo); err != nil {
			return nil, err
		}
		if err := checkUser(table, &u.AuthInfo, entryName(u.Name, i), o); err != nil {
			return nil, err
		}
	}
	contexts := map[string]*clientcmdapiv1.Context{}
	for i := range file.Contexts {
		c := &file.Contexts[i]
		if err := register(contexts, "contexts[].name", c.Name, i, &c.Context); err != nil {
			return nil, err
		}
		if err := refer(clusters, "contexts[].context.cluster", c.Context.Cluster, entryName(c.Name, i)); err != nil {
			return nil, err
		}
		if err := refer(users, "contexts[].context.user", c.Context.AuthInfo, entryName(c.Name, i)); err != nil {
			return nil, err
		}
	}

	chosen, err := choose(file, contexts, o.Context)
	if err != nil {
		return nil, err
	}
	position := slices.IndexFunc(file.AuthInfos, func(u clientcmdapiv1.NamedAuthInfo) bool { return u.Name == chosen.AuthInfo })
	return &Kubeconfig{
		Config:  build(clusters[chosen.Cluster], users[chosen.AuthInfo]),
		Exec:    buildExec(users[chosen.AuthInfo].Exec, entryName(chosen.AuthInfo, position)),
		Cluster: chosen.Cluster,
		User:    chosen.AuthInfo,
	}, nil
}

// FromToken returns a new rest.Config for a server address (https://host:port), a bundle of CA certificates (PEM) and a
// bearer token, under the rules of FromKubeconfig. Without a CA the server is verified with the roots of the system. One line
// break at the end of server and token is dropped. It does no I/O. The error is a *FieldError whose Field is "server", "ca.crt"
// or "token"; the last two are the keys of a service account's Secret.
func FromToken(server string, ca []byte, token string) (*rest.Config, error) {
	server, token = trimLine(server), trimLine(token)
	err := checkEndpoint(endpoint{server: server, ca: ca}, endpointNames{server: "server", ca: "ca.crt"}, "")
	if err != nil {
		return nil, err
	}
	if token == "" {
		return nil, &FieldError{Field: "token", Reason: ReasonMissing, NextStep: "put the bearer token there"}
	}
	if err := checkIdentity(identity{token: token}, identityNames{token: "token"}, ""); err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            server,
		BearerToken:     token,
		TLSClientConfig: rest.TLSClientConfig{CAData: bytes.Clone(ca)},
	}, nil
}

// register adds an entry under its name, which must be there and must be new.
func register[T any](entries map[string]*T, field, name string, i int, entry *T) error {
	if name == "" {
		return &FieldError{Field: field, Entry: entryName(name, i), Reason: ReasonMissing, NextStep: "give the entry a name"}
	}
	if _, found := entries[name]; found {
		return &FieldError{Field: field, Entry: entryName(name, i), Reason: ReasonDuplicate, NextStep: "keep one of the entries"}
	}
	entries[name] = entry
	return nil
}

// refer checks a reference from a context to another entry.
func refer[T any](entries map[string]*T, field, name, entry string) error {
	if name == "" {
		return &FieldError{Field: field, Entry: entry, Reason: ReasonMissing, NextStep: "name an entry of the file"}
	}
	if _, found := entries[name]; !found {
		return &FieldError{Field: field, Entry: entry, Reason: ReasonNotFound, NextStep: "name an entry of the file"}
	}
	return nil
}

func checkCluster(table []field, c *clientcmdapiv1.Cluster, entry string, o Options) error {
	if err := refuse(table, "Cluster", *c, entry, o); err != nil {
		return err
	}
	if p := checkProxyURL(c.ProxyURL); p != nil {
		return p.at("clusters[].cluster.proxy-url", entry)
	}
	return checkEndpoint(endpoint{
		server: c.Server, serverName: c.TLSServerName, ca: c.CertificateAuthorityData, insecure: c.InsecureSkipTLSVerify,
	}, endpointNames{
		server:     "clusters[].cluster.server",
		serverName: "clusters[].cluster.tls-server-name",
		ca:         "clusters[].cluster.certificate-authority-data",
	}, entry)
}

func checkUser(table []field, u *clientcmdapiv1.AuthInfo, entry string, o Options) error {
	if err := refuse(table, "AuthInfo", *u, entry, o); err != nil {
		return err
	}
	if u.Exec != nil {
		if u.Exec.Command == "" {
			return &FieldError{Field: "users[].user.exec.command", Entry: entry, Reason: ReasonMissing, NextStep: "name the plugin"}
		}
		if u.Token != "" || len(u.ClientCertificateData) > 0 || len(u.ClientKeyData) > 0 {
			return &FieldError{Field: "users[].user.exec", Entry: entry, Reason: ReasonInvalid, NextStep: "the entry has another credential too; keep one"}
		}
	}
	return checkIdentity(identity{
		token: trimLine(u.Token), cert: u.ClientCertificateData, key: u.ClientKeyData, source: u.Exec != nil,
	}, identityNames{
		token: "users[].user.token",
		cert:  "users[].user.client-certificate-data",
		key:   "users[].user.client-key-data",
	}, entry)
}

// choose finds the context: the caller's, the file's, or the only one.
func choose(file *clientcmdapiv1.Config, contexts map[string]*clientcmdapiv1.Context, name string) (*clientcmdapiv1.Context, error) {
	switch {
	case len(file.Contexts) == 0:
		return nil, &FieldError{Field: "contexts", Reason: ReasonMissing, NextStep: "add a context that names a cluster and a user"}
	case name != "":
		if c, found := contexts[name]; found {
			return c, nil
		}
		return nil, &FieldError{Field: ContextOption, Reason: ReasonNotFound, NextStep: "ask for a context of the file"}
	case file.CurrentContext != "":
		if c, found := contexts[file.CurrentContext]; found {
			return c, nil
		}
		return nil, &FieldError{Field: "current-context", Reason: ReasonNotFound, NextStep: "name a context of the file"}
	case len(file.Contexts) == 1:
		return &file.Contexts[0].Context, nil
	}
	return nil, &FieldError{Field: "current-context", Reason: ReasonAmbiguous, NextStep: "the file has several contexts; set it to one of them"}
}

// build copies by allow-list: these are the fields that the table calls copied, and only these.
func build(c *clientcmdapiv1.Cluster, u *clientcmdapiv1.AuthInfo) *rest.Config {
	return &rest.Config{
		Proxy:              proxy(c.ProxyURL),
		Host:               c.Server,
		BearerToken:        trimLine(u.Token),
		DisableCompression: c.DisableCompression,
		TLSClientConfig: rest.TLSClientConfig{
			Insecure:   c.InsecureSkipTLSVerify,
			ServerName: c.TLSServerName,
			CAData:     c.CertificateAuthorityData,
			CertData:   u.ClientCertificateData,
			KeyData:    u.ClientKeyData,
		},
	}
}

// buildExec copies what Exec names.
func buildExec(e *clientcmdapiv1.ExecConfig, entry string) *Exec {
	if e == nil {
		return nil
	}
	exec := &Exec{
		Entry: entry, APIVersion: e.APIVersion, Command: e.Command, Args: slices.Clone(e.Args),
		ProvideClusterInfo: e.ProvideClusterInfo,
	}
	for _, env := range e.Env {
		exec.Env = append(exec.Env, ExecEnv{Name: env.Name, Value: env.Value})
	}
	return exec
}

// proxy is for a value that checkProxyURL has passed.
func proxy(address string) func(*http.Request) (*url.URL, error) {
	if address == "" {
		return nil
	}
	u, err := url.Parse(address)
	return func(*http.Request) (*url.URL, error) { return u, err }
}
