// Copyright Contributors to the Open Cluster Management project

package credential

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"open-cluster-management.io/import-provider/pkg/policy"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

// SetOptions are the choices of a Set. The zero value is the safe one.
type SetOptions struct {
	// InsecureSkipTLSVerify accepts a result that skips the verification of the server's certificate. Default: false, such
	// a result is a DeniedError. The kubeconfig resolver has an option of its own; both must agree for it to take effect.
	InsecureSkipTLSVerify bool
	// Policy returns what the administrator allows now. Default: all resolvers of the set in all namespaces, and the addresses
	// that policy.Default allows.
	Policy func() *policy.Policy
	// Exchanger serves Document.Exchange. Default: none, such Secrets are a DeniedError.
	Exchanger Exchanger
	// Forget drops what is kept of a Secret that is gone, and may be nil.
	Forget func(secret types.UID)
}

// Exchanger exchanges credentials for short-lived ones. See package exchange.
type Exchanger interface {
	// Exchange returns a config with a short-lived credential, under the contract of Resolver.Resolve. original returns the
	// config with the credential of the Secret; it has been checked.
	Exchange(ctx context.Context, req Request, p TokenRequestParameters, original func(context.Context) (*rest.Config, error)) (*rest.Config, error)
}

// Set is the resolvers that are enabled, by name. It is itself a Resolver, does not change after NewSet, and is safe for
// concurrent use.
type Set struct {
	resolvers map[string]Resolver
	names     []string
	options   SetOptions
}

var _ Resolver = (*Set)(nil)

// NewSet returns a Set of the given resolvers. It returns an error if there is none, if one is nil, or if a name is not a
// DNS label (RFC 1123), which is what an annotation, a flag and a metric label can all hold.
func NewSet(resolvers map[string]Resolver, o SetOptions) (*Set, error) {
	if len(resolvers) == 0 {
		return nil, errors.New("no credential resolver given")
	}
	names := slices.Sorted(maps.Keys(resolvers))
	for _, name := range names {
		if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
			return nil, fmt.Errorf("name of credential resolver %q: %s", name, strings.Join(problems, "; "))
		}
		if isNil(resolvers[name]) {
			return nil, fmt.Errorf("credential resolver %q is nil", name)
		}
	}
	if o.Policy == nil {
		everything := policy.Default().WithRules(policy.Rule{Namespaces: []string{"*"}, Resolvers: []string{"*"}})
		o.Policy = func() *policy.Policy { return everything }
	}
	registerMetrics()
	return &Set{resolvers: maps.Clone(resolvers), names: names, options: o}, nil
}

// isNil also finds a nil pointer or function inside of the interface, which would panic only when the first Secret comes.
func isNil(r Resolver) bool {
	if r == nil {
		return true
	}
	v := reflect.ValueOf(r)
	switch v.Kind() {
	case reflect.Func, reflect.Pointer, reflect.Map:
		return v.IsNil()
	default:
		return false
	}
}

// NameFor returns the name of the resolver for a Secret, or "" if it asks for one that is not in the set.
func (s *Set) NameFor(secret *corev1.Secret) string {
	name := secret.Annotations[AnnotationCredentialResolver]
	if name == "" {
		name = recognise(secret, s.options.Policy().Proxies())
	}
	if _, found := s.resolvers[name]; !found {
		return ""
	}
	return name
}

// Names returns the names of the resolvers, sorted.
func (s *Set) Names() []string { return slices.Clone(s.names) }

// Holds says whether the credential of a Secret is in the Secret itself, so that resolving it asks nobody.
func (s *Set) Holds(secret *corev1.Secret) bool {
	document, err := ReadDocument(secret)
	name := s.NameFor(secret)
	return err == nil && document.Exchange == "" && (name == ResolverKubeconfig || name == ResolverToken)
}

// Forget drops what is kept of a Secret that is gone.
func (s *Set) Forget(secret types.UID) {
	if s.options.Forget != nil {
		s.options.Forget(secret)
	}
}

// Resolve runs the resolver that the Secret's annotation names, by default the one that the Secret is recognised to be for,
// on a deep copy of the Secret, and checks the result with restconfig.Check and the policy. It never returns nil and nil.
//
// A resolver that is not known, or that the policy does not allow in the namespace of the Secret, is a DeniedError. A result that breaks
// the rules is one too if an option or the policy would allow it, and an InvalidError otherwise. Errors of the resolver keep
// their kind. A panic of the resolver becomes an unexpected error without the panic's value, which may hold a credential; the
// stack is logged. The result is counted by the name of the resolver, in import_provider_credentials_total.
func (s *Set) Resolve(ctx context.Context, req Request) (*rest.Config, error) {
	if req.Secret == nil {
		return nil, errors.New("the request has no secret")
	}
	req.Secret = req.Secret.DeepCopy()
	name := s.NameFor(req.Secret)
	cfg, err := s.resolveNamed(ctx, name, req)
	countCredential(name, err)
	return cfg, err
}

// resolveNamed is Resolve for the name of the resolver, "" if no such resolver is known.
func (s *Set) resolveNamed(ctx context.Context, name string, req Request) (*rest.Config, error) {
	document, err := ReadDocument(req.Secret)
	if err != nil {
		return nil, err
	}
	resolver, found := s.resolvers[name]
	rule := s.options.Policy().Rule(req.Secret.Namespace)
	if !found || !policy.Matches(rule.Resolvers, name) {
		// The name is not repeated: an annotation may hold anything, and the person sees it right there.
		return nil, Denied(s.notEnabled(name, rule))
	}
	original := func(ctx context.Context) (*rest.Config, error) { return s.resolve(ctx, name, resolver, req) }
	if document.Exchange == "" {
		return original(ctx)
	}
	if s.options.Exchanger == nil || rule.TokenRequest != nil && !*rule.TokenRequest {
		return nil, Denied(fmt.Errorf("data key %s: exchange is not allowed by the policy of the hub; remove it, or let the administrator of the hub allow it", DocumentKey))
	}
	var parameters TokenRequestParameters
	if document.TokenRequest != nil {
		parameters = *document.TokenRequest
	}
	return s.checked(s.options.Exchanger.Exchange(ctx, req, parameters, original))
}

// notEnabled is the text for a resolver that a Secret may not use. name is "" if no such resolver is known.
func (s *Set) notEnabled(name string, rule policy.Rule) error {
	allowed := slices.DeleteFunc(slices.Clone(s.names), func(name string) bool { return !policy.Matches(rule.Resolvers, name) })
	if len(allowed) == 0 {
		return errors.New("no credential resolver is enabled for its namespace; let the administrator of the hub add a rule to the policy")
	}
	which := "its credential resolver"
	if name != "" {
		which = "the credential resolver " + name + ", which it needs,"
	}
	return fmt.Errorf("%s is not enabled: set the annotation %s to one of %s, or let the administrator of the hub allow it",
		which, AnnotationCredentialResolver, strings.Join(allowed, ", "))
}

// resolve runs one resolver and checks its result.
func (s *Set) resolve(ctx context.Context, name string, resolver Resolver, req Request) (*rest.Config, error) {
	cfg, err := call(ctx, name, resolver, req)
	if err != nil {
		return nil, fmt.Errorf("credential resolver %s: %w", name, err)
	}
	if cfg == nil {
		return nil, fmt.Errorf("credential resolver %s: returned neither a config nor an error", name)
	}
	if cfg, err = s.checked(cfg, nil); err != nil {
		return nil, fmt.Errorf("credential resolver %s: %w", name, err)
	}
	return cfg, nil
}

// checked returns a copy of a config that keeps the rules. The copy keeps a resolver that hands out the same struct twice
// from seeing what the caller sets on it.
func (s *Set) checked(cfg *rest.Config, err error) (*rest.Config, error) {
	if err != nil {
		return nil, err
	}
	current := s.options.Policy()
	cfg = rest.CopyConfig(cfg)
	if err := restconfig.Check(cfg, restconfig.Options{
		InsecureSkipTLSVerify: s.options.InsecureSkipTLSVerify, Proxies: current.Proxies(),
	}); err != nil {
		return nil, refused(err)
	}
	if err := current.CheckServer(cfg.Host, cfg.Proxy != nil); err != nil {
		return nil, Denied(err)
	}
	return cfg, nil
}

// call runs one resolver and turns its panic into an error.
func call(ctx context.Context, name string, resolver Resolver, req Request) (cfg *rest.Config, err error) {
	defer func() {
		if recover() != nil {
			// debug.Stack has addresses, not the value.
			klog.FromContext(ctx).Error(nil, "Credential resolver panicked", "resolver", name,
				"cluster", req.ClusterName, "stack", string(debug.Stack()))
			cfg, err = nil, errors.New("panicked; the log of the import controller has the stack")
		}
	}()
	return resolver.Resolve(ctx, req)
}
