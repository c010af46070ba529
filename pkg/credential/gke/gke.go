// Copyright Contributors to the Open Cluster Management project

// Package gke is the credential resolver for clusters of Google Kubernetes Engine. It serves the kubeconfigs that gcloud writes,
// whose plugin is not run, and Secrets that only name the cluster.
//
// The hub's own identity is the service account that its platform attaches to it, which the metadata server gives tokens of; no
// file is read. A Secret may name another service account, which is then impersonated. Whether it may, the policy says.
//
// A token of Google Cloud works at every cluster, so before one is sent anywhere the Kubernetes Engine API is asked where the
// cluster is. That costs one request for each import attempt, and a token of its own for the API.
//
// The IP endpoints of a cluster are verified with its CA. Its DNS endpoint has a certificate of a public authority, so that what
// leads there has no CA: of that cluster it is since the API reports its name.
package gke

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"

	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/cloud"
	"open-cluster-management.io/import-provider/pkg/credential/stanza"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

const fieldArgs = "users[].user.exec.args"

// Names go into the paths of URLs, so their patterns are strict. A project of an organisation of old has its domain in front.
const (
	projectPattern  = `(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?:)?[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?`
	locationPattern = `[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?`
	clusterPattern  = `[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?`
	accountPattern  = `[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?@(?:[a-z0-9-]{1,63}\.){1,8}gserviceaccount\.com`
)

var (
	projectName  = regexp.MustCompile(`^` + projectPattern + `$`)
	locationName = regexp.MustCompile(`^` + locationPattern + `$`)
	clusterName  = regexp.MustCompile(`^` + clusterPattern + `$`)
	accountEmail = regexp.MustCompile(`^` + accountPattern + `$`)
	// entryName is how gcloud names the entries of a kubeconfig.
	entryName = regexp.MustCompile(`^gke_(` + projectPattern + `)_(` + locationPattern + `)_(` + clusterPattern + `)$`)
)

// errUnknownCluster is for a kubeconfig that does not say whose it is.
var errUnknownCluster = credential.Invalid(errors.New("which cluster the kubeconfig is for is not known: name its cluster entry " +
	"gke_PROJECT_LOCATION_CLUSTER, as gcloud does, or give the plugin --project, --location and --cluster, or put them under gke in " +
	"the data key " + credential.DocumentKey + ", or let the administrator of the hub add the server and its CA to endpoints.pinned"))

type resolver struct {
	options  cloud.Options
	metadata *http.Client
}

var _ credential.StanzaResolver = (*resolver)(nil)

// New returns the resolver. It is safe for concurrent use.
func New(o cloud.Options) credential.StanzaResolver {
	o.Default()
	return &resolver{options: o, metadata: newMetadataClient(o.Getenv)}
}

// target is a cluster, and whom to be there.
type target struct {
	// project, location and cluster are empty if the cluster is not known.
	project, location, cluster string
	// serviceAccount is the email of the one to impersonate; empty for the hub's own.
	serviceAccount string
}

// Resolve implements credential.Resolver: for the parameters under gke in the data key credential.yaml or, without them, for the
// kubeconfig.
func (r *resolver) Resolve(ctx context.Context, req credential.Request) (*rest.Config, error) {
	section := func(d *credential.Document) *credential.GKEParameters { return d.GKE }
	return credential.ResolveForm(ctx, req, r.options.Kubeconfig, section, r.resolveDocument, r.ResolveStanza)
}

// ResolveStanza implements credential.StanzaResolver.
func (r *resolver) ResolveStanza(ctx context.Context, req credential.Request, kubeconfig *restconfig.Kubeconfig) (*rest.Config, error) {
	t, err := readStanza(kubeconfig)
	if err != nil {
		return nil, err
	}
	if err := r.allow(req, t); err != nil {
		return nil, err
	}
	config := rest.CopyConfig(kubeconfig.Config)
	// With a tls-server-name it would be another server with a certificate of that CA.
	if !r.options.Policy().IsPinned(config.Host, config.CAData) || config.ServerName != "" {
		if t.cluster == "" {
			return nil, errUnknownCluster
		}
		endpoint, err := r.endpoint(ctx, req, t, config.Host)
		if err != nil {
			return nil, err
		}
		if err := endpoint.Binding(config); err != nil {
			return nil, err
		}
	}
	return cloud.WithTokens(ctx, config, r.tokens(req, config, t))
}

func (r *resolver) resolveDocument(ctx context.Context, req credential.Request, p *credential.GKEParameters) (*rest.Config, error) {
	for _, field := range []struct {
		name, value string
		pattern     *regexp.Regexp
		optional    bool
	}{
		{"gke.project", p.Project, projectName, false},
		{"gke.location", p.Location, locationName, false},
		{"gke.cluster", p.Cluster, clusterName, false},
		{"gke.serviceAccount", p.ServiceAccount, accountEmail, true},
	} {
		switch {
		case field.value == "" && field.optional:
		case field.value == "":
			return nil, credential.Missing(field.name)
		case !field.pattern.MatchString(field.value):
			return nil, credential.Invalid(fmt.Errorf("data key %s: %s is not valid: write it as Google Cloud does", credential.DocumentKey, field.name))
		}
	}
	t := target{project: p.Project, location: p.Location, cluster: p.Cluster, serviceAccount: p.ServiceAccount}
	if err := r.allow(req, t); err != nil {
		return nil, err
	}
	endpoint, err := r.endpoint(ctx, req, t, "")
	if err != nil {
		return nil, err
	}
	config, err := endpoint.Config()
	if err != nil {
		return nil, err
	}
	return cloud.WithTokens(ctx, config, r.tokens(req, config, t))
}

// allow checks the identity. Nothing has been asked of anybody yet.
func (r *resolver) allow(req credential.Request, t target) error {
	rule := r.options.Policy().Rule(req.Secret.Namespace).GKE
	switch {
	case t.serviceAccount != "" && !policy.Matches(rule.ServiceAccounts, t.serviceAccount):
		return credential.Denied(errors.New("the policy of the hub does not allow the service account that it names; name another one, " +
			"or let the administrator of the hub add it to gke.serviceAccounts of the rule"))
	case t.serviceAccount == "" && !rule.HubIdentity:
		return credential.Denied(errors.New("it names no service account, and the policy of the hub does not allow the hub's own; name one as " +
			"gke.serviceAccount in the data key " + credential.DocumentKey + " or with the flag --impersonate_service_account of the plugin, " +
			"or let the administrator of the hub set gke.hubIdentity of the rule"))
	}
	return nil
}

// tokens is the source of the tokens for one server. Each server has its own, also the API.
func (r *resolver) tokens(req credential.Request, config *rest.Config, t target) *tokensource.Source {
	key := cloud.Key(credential.ResolverGKE, req, config, t.serviceAccount)
	return r.options.Tokens.Source(key, func(ctx context.Context) (tokensource.Token, error) {
		token, err := r.hubToken(ctx)
		if err != nil || t.serviceAccount == "" {
			return token, err
		}
		return r.impersonate(ctx, token, t.serviceAccount)
	})
}

// readStanza reads the stanzas of Google's plugin and of Argo CD's. Flags that make the plugin look for the configuration of a
// person, such as --account, are not known.
func readStanza(kubeconfig *restconfig.Kubeconfig) (target, error) {
	exec := kubeconfig.Exec
	grammar := stanza.Grammar{Words: []string{"gcp"}}
	switch {
	case credential.RecogniseStanza(exec) != credential.ResolverGKE:
		return target{}, credential.Invalid(&restconfig.FieldError{
			Field: "users[].user.exec.command", Entry: exec.Entry, Reason: restconfig.ReasonForbidden,
			NextStep: "only gke-gcloud-auth-plugin and argocd-k8s-auth gcp are known here",
		})
	case credential.CommandName(exec) == "gke-gcloud-auth-plugin":
		grammar = stanza.Grammar{
			Flags: map[string]stanza.Flag{
				"--project":                     {Value: "project"},
				"--location":                    {Value: "location"},
				"--cluster":                     {Value: "cluster"},
				"--impersonate_service_account": {Value: "serviceAccount"},
			},
			// It decided what gcloud writes, and the plugin never reads it.
			Env: map[string][]string{"USE_GKE_GCLOUD_AUTH_PLUGIN": {"True", "true"}},
		}
		// The plugin would take the identity of where it runs, as is done here without being asked. gcloud writes the first form.
		changed := *exec
		changed.Args = slices.DeleteFunc(slices.Clone(exec.Args), func(arg string) bool {
			return arg == "--use_application_default_credentials" || arg == "--use_application_default_credentials=true"
		})
		exec = &changed
	}
	values, err := stanza.Parse(exec, grammar)
	if err != nil {
		return target{}, err
	}
	refuse := func(next string) (target, error) {
		return target{}, credential.Invalid(&restconfig.FieldError{
			Field: fieldArgs, Entry: exec.Entry, Reason: restconfig.ReasonInvalid, NextStep: next,
		})
	}
	t := target{
		project: values["project"], location: values["location"], cluster: values["cluster"], serviceAccount: values["serviceAccount"],
	}
	if _, named := values["serviceAccount"]; named && !accountEmail.MatchString(t.serviceAccount) {
		return refuse("the flag --impersonate_service_account must be the email of a service account")
	}
	if t.project != "" || t.location != "" || t.cluster != "" {
		if !projectName.MatchString(t.project) || !locationName.MatchString(t.location) || !clusterName.MatchString(t.cluster) {
			return refuse("the flags --project, --location and --cluster name a cluster together; write all as Google Cloud does, or none")
		}
	} else if parts := entryName.FindStringSubmatch(kubeconfig.Cluster); parts != nil {
		t.project, t.location, t.cluster = parts[1], parts[2], parts[3]
	}
	return t, nil
}
