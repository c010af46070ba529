// Copyright Contributors to the Open Cluster Management project

package eks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/cloud"
	"open-cluster-management.io/import-provider/pkg/credential/tokensource"
	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

type resolver struct {
	options cloud.Options
	agent   *http.Client
}

var _ credential.StanzaResolver = (*resolver)(nil)

// New returns the resolver. It sends nothing and opens no file before a Secret asks for a token.
//
// Besides those of credential.Resolver, an error is a credential.DeniedError if the policy allows neither the role that a Secret
// names nor, where it names none, that of the hub, and cloud.ErrOtherEndpoint if a kubeconfig leads elsewhere than to its cluster.
func New(o cloud.Options) credential.StanzaResolver {
	o.Default()
	return &resolver{options: o, agent: newAgentClient()}
}

// Resolve implements credential.Resolver.
func (r *resolver) Resolve(ctx context.Context, req credential.Request) (*rest.Config, error) {
	section := func(d *credential.Document) *credential.EKSParameters { return d.EKS }
	return credential.ResolveForm(ctx, req, r.options.Kubeconfig, section, r.resolveParameters, r.ResolveStanza)
}

// ResolveStanza implements credential.StanzaResolver.
func (r *resolver) ResolveStanza(ctx context.Context, req credential.Request, kubeconfig *restconfig.Kubeconfig) (*rest.Config, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t, err := fromStanza(kubeconfig)
	if err != nil {
		return nil, err
	}
	return r.withTokens(ctx, req, t, kubeconfig.Config, func(ctx context.Context) (*session, error) {
		s, err := r.open(ctx, req, t)
		if err != nil || r.options.Policy().IsPinned(kubeconfig.Config.Host, kubeconfig.Config.CAData) {
			return s, err
		}
		endpoint, err := s.describe(ctx, t)
		if err != nil {
			return nil, err
		}
		return s, endpoint.Binding(kubeconfig.Config)
	})
}

// resolveParameters is for a Secret without a kubeconfig: EKS says where the cluster is.
func (r *resolver) resolveParameters(ctx context.Context, req credential.Request, parameters *credential.EKSParameters) (*rest.Config, error) {
	t, err := fromParameters(parameters)
	if err != nil {
		return nil, err
	}
	locate := func(ctx context.Context) (*session, *rest.Config, error) {
		s, err := r.open(ctx, req, t)
		if err != nil {
			return nil, nil, err
		}
		endpoint, err := s.describe(ctx, t)
		if err != nil {
			return nil, nil, err
		}
		config, err := endpoint.Config()
		return s, config, err
	}
	opened, config, err := locate(ctx)
	if err != nil {
		return nil, err
	}
	// The first token uses what was just looked up.
	var unused atomic.Pointer[session]
	unused.Store(opened)
	return r.withTokens(ctx, req, t, config, func(ctx context.Context) (*session, error) {
		if s := unused.Swap(nil); s != nil {
			return s, nil
		}
		s, now, err := locate(ctx)
		if err != nil {
			return nil, err
		}
		return s, cloud.Endpoint{Servers: []string{now.Host}, CA: now.CAData}.Binding(config)
	})
}

// withTokens returns a config with the tokens of a target. ready gives a session with which one may be signed for the server of
// the config.
func (r *resolver) withTokens(
	ctx context.Context, req credential.Request, t target, config *rest.Config, ready func(context.Context) (*session, error),
) (*rest.Config, error) {
	externalID, err := r.allowed(req, t)
	if err != nil {
		return nil, err
	}
	parameters := strings.Join([]string{t.cluster, t.region, t.role, externalID}, "\n")
	source := r.options.Tokens.Source(cloud.Key(credential.ResolverEKS, req, config, parameters),
		func(ctx context.Context) (tokensource.Token, error) {
			s, err := ready(ctx)
			if err != nil {
				return tokensource.Token{}, err
			}
			return s.token(ctx, t)
		})
	return cloud.WithTokens(ctx, config, source)
}

// allowed returns the external id with which the policy lets a Secret use the role of a target; it is empty if none is sent.
// No role and no rule is nobody: the error is a DeniedError.
func (r *resolver) allowed(req credential.Request, t target) (externalID string, err error) {
	rule := r.options.Policy().Rule(req.Secret.Namespace).EKS
	switch {
	case t.role == "" && !rule.HubIdentity:
		return "", credential.Denied(errors.New("no role is named, and the policy of the hub does not allow its own: name a role to assume, " +
			"or let the administrator of the hub set eks.hubIdentity in the rule for the namespace"))
	case t.role == "":
		return "", nil
	case !policy.Matches(rule.Roles, t.role):
		return "", credential.Denied(errors.New("the policy of the hub does not allow the role: name another, " +
			"or let the administrator of the hub add it to eks.roles in the rule for the namespace"))
	}
	return strings.NewReplacer("{namespace}", req.Secret.Namespace, "{cluster}", req.ClusterName).Replace(rule.ExternalID), nil
}

// open gets the credentials of the role of a target, if the policy still allows it.
func (r *resolver) open(ctx context.Context, req credential.Request, t target) (*session, error) {
	externalID, err := r.allowed(req, t)
	if err != nil {
		return nil, err
	}
	s := &session{resolver: r, clouds: r.options.Policy().Clouds().AWS}
	if err := s.becomeHub(ctx, t); err != nil {
		return nil, err
	}
	if t.role == "" {
		return s, nil
	}
	if err := s.assume(ctx, t, sessionName(req.ClusterName), externalID); err != nil {
		return nil, err
	}
	return s, nil
}

// sessionName is whom the logs of AWS and of the cluster show, at most 64 characters of a set that has all those of a name of a
// ManagedCluster: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html.
func sessionName(cluster string) string {
	name := fmt.Sprintf("%s-%s", hubSession, cluster)
	return name[:min(len(name), 64)]
}
