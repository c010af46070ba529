// Copyright Contributors to the Open Cluster Management project

package exec

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/cloud"
	"open-cluster-management.io/import-provider/pkg/credential/stanza"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

const (
	fieldArgs       = "users[].user.exec.args"
	fieldAPIVersion = "users[].user.exec.apiVersion"
	fieldParameters = "exec.parameters"
)

// Options configure the resolver.
type Options struct {
	// Policy returns what the administrator allows now. Required.
	Policy func() *policy.Policy
	// Tokens holds the tokens. Required.
	Tokens *tokensource.Cache
	// Directory holds the plugins. Without one no plugin runs.
	Directory string
	// Kubeconfig are the choices of the kubeconfig resolver.
	Kubeconfig credential.KubeconfigOptions
	// Clock is the time. Default: that of the machine.
	Clock clock.PassiveClock
}

type resolver struct {
	options Options
	runner  runner
}

// New returns the resolver. Besides those of a kubeconfig that is wrong, its errors are a DeniedError for a plugin or a host that the
// policy does not allow and for a plugin that Verify would find fault with, an InvalidError for a stanza that is not what the
// policy has, and a MintError for a plugin that fails.
func New(o Options) credential.StanzaResolver {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &resolver{options: o, runner: runner{directory: o.Directory, slots: make(chan struct{}, maxRuns)}}
}

// Resolve implements credential.Resolver.
func (r *resolver) Resolve(ctx context.Context, req credential.Request) (*rest.Config, error) {
	section := func(d *credential.Document) *credential.ExecParameters { return d.Exec }
	return credential.ResolveForm(ctx, req, r.options.Kubeconfig, section, r.resolveDocument, r.ResolveStanza)
}

// ResolveStanza implements credential.StanzaResolver.
func (r *resolver) ResolveStanza(ctx context.Context, req credential.Request, kubeconfig *restconfig.Kubeconfig) (*rest.Config, error) {
	exec := kubeconfig.Exec
	return r.resolve(ctx, req, kubeconfig.Config, credential.CommandName(exec), func(plugin policy.Plugin) ([]string, error) {
		// The grammar knows no variable: a plugin gets none from a Secret.
		if _, err := stanza.Parse(&restconfig.Exec{Entry: exec.Entry, Command: exec.Command, Env: exec.Env}, stanza.Grammar{}); err != nil {
			return nil, err
		}
		refuse := func(field, next string) error {
			return credential.Invalid(&restconfig.FieldError{Field: field, Entry: exec.Entry, Reason: restconfig.ReasonInvalid, NextStep: next})
		}
		if exec.APIVersion != plugin.APIVersion {
			return nil, refuse(fieldAPIVersion, "it must be "+plugin.APIVersion+", which the plugin prints")
		}
		values, problem := extract(plugin, exec.Args)
		if problem != "" {
			return nil, refuse(fieldArgs, problem)
		}
		args, problem := fill(plugin, values)
		if problem != "" {
			return nil, refuse(fieldArgs, problem)
		}
		return args, nil
	})
}

// resolveDocument is for a Secret without a kubeconfig.
func (r *resolver) resolveDocument(ctx context.Context, req credential.Request, p *credential.ExecParameters) (*rest.Config, error) {
	if p.Plugin == "" {
		return nil, credential.Missing("exec.plugin")
	}
	config := &rest.Config{Host: p.Server, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(p.CertificateAuthorityData)}}
	if err := checkEndpoint(config); err != nil {
		return nil, err
	}
	return r.resolve(ctx, req, config, p.Plugin, func(plugin policy.Plugin) ([]string, error) {
		args, problem := fill(plugin, p.Parameters)
		if problem != "" {
			return nil, credential.Invalid(fmt.Errorf("data key %s: %w", credential.DocumentKey,
				&restconfig.FieldError{Field: fieldParameters, Reason: restconfig.ReasonInvalid, NextStep: problem}))
		}
		return args, nil
	})
}

// checkEndpoint applies the rules of package restconfig to server and CA of a document, under the names that they have there.
func checkEndpoint(config *rest.Config) error {
	// The rules want a credential as well.
	placeholder := *config
	placeholder.BearerToken = "none"
	err := restconfig.Check(&placeholder, restconfig.Options{})
	var broken *restconfig.FieldError
	if !errors.As(err, &broken) {
		return err
	}
	named := *broken
	named.Field = "exec.server"
	if strings.HasSuffix(broken.Field, ".CAData") {
		named.Field = "exec.certificateAuthorityData"
	}
	return credential.Invalid(fmt.Errorf("data key %s: %w", credential.DocumentKey, &named))
}

// resolve is what both sources have in common. arguments returns those that the plugin is run with.
func (r *resolver) resolve(ctx context.Context, req credential.Request, config *rest.Config, name string,
	arguments func(policy.Plugin) ([]string, error),
) (*rest.Config, error) {
	current := r.options.Policy()
	plugin, found := current.Plugin(name)
	if !found || !policy.Matches(current.Rule(req.Secret.Namespace).Plugins, name) {
		// One text for both: a tenant need not know what others may use. The name is not repeated, it may be anything.
		return nil, credential.Denied(errors.New("the policy of the hub does not allow its plugin; correct the command of the exec stanza, " +
			"or let the administrator of the hub add the plugin to plugins and to the rule for its namespace"))
	}
	if config.Insecure {
		return nil, credential.Invalid(errors.New("a plugin gives no credential for a server that is not verified; " +
			"remove insecure-skip-tls-verify and put the CA in certificate-authority-data"))
	}
	if !policy.Matches(plugin.Hosts, policy.HostOf(config.Host)) {
		return nil, credential.Denied(errors.New("the policy of the hub does not allow its plugin for the host of its server; correct the server, " +
			"or let the administrator of the hub add the host to the hosts of the plugin"))
	}
	args, err := arguments(plugin)
	if err != nil {
		return nil, err
	}
	parameters, err := fingerprint(plugin, args)
	if err != nil {
		return nil, err
	}
	// Its own, since the caller may change what it gets. CopyConfig copies no data.
	target := rest.CopyConfig(config)
	target.CAData = bytes.Clone(config.CAData)
	source := r.options.Tokens.Source(cloud.Key(credential.ResolverExec, req, target, parameters), func(ctx context.Context) (tokensource.Token, error) {
		return r.mint(ctx, plugin, args, target)
	})
	// At once, so that an error of the plugin is not taken for one of the cluster.
	token, err := source.Token(ctx)
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	config.CertData, config.KeyData = bytes.Clone(token.Certificate), bytes.Clone(token.Key)
	if token.Value != "" {
		config.WrapTransport = source.Wrap
	}
	return config, nil
}

// fingerprint stands for a plugin as the policy has it, its digest included, and its arguments.
func fingerprint(plugin policy.Plugin, args []string) (string, error) {
	data, err := json.Marshal(struct {
		Plugin policy.Plugin
		Args   []string
	}{plugin, args})
	if err != nil {
		return "", fmt.Errorf("building the key of a token: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// mint runs the plugin.
func (r *resolver) mint(ctx context.Context, plugin policy.Plugin, args []string, config *rest.Config) (tokensource.Token, error) {
	env, err := environment(plugin, config)
	if err != nil {
		return tokensource.Token{}, err
	}
	output, err := r.runner.run(ctx, plugin, args, env)
	var fault *faultError
	switch {
	case errors.As(err, &fault):
		return tokensource.Token{}, credential.Denied(fmt.Errorf("the plugin %s cannot be run: %s; "+
			"let the administrator of the hub run \"import-controller plugins verify\"", plugin.Name, fault.problem))
	case err != nil:
		return tokensource.Token{}, err
	}
	token, err := decode(output, plugin.APIVersion, config, r.options.Clock.Now())
	if err != nil {
		return tokensource.Token{}, credential.MintFailed(fmt.Errorf("the plugin %s %w; see the logs of the import controller", plugin.Name, err))
	}
	return token, nil
}
