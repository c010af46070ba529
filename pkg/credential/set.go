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
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"open-cluster-management.io/import-provider/pkg/restconfig"
)

// SetOptions are the choices of a Set. The zero value is the safe one.
type SetOptions struct {
	// InsecureSkipTLSVerify accepts a result that skips the verification of the server's certificate. Default: false, such
	// a result is a DeniedError. The kubeconfig resolver has an option of its own; both must agree for it to take effect.
	InsecureSkipTLSVerify bool
}

// Set is the resolvers that are enabled, by name. It is itself a Resolver, does not change after NewSet, and is safe for
// concurrent use.
type Set struct {
	resolvers map[string]Resolver
	names     []string
	check     restconfig.Options
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
	return &Set{
		resolvers: maps.Clone(resolvers),
		names:     names,
		check:     restconfig.Options{InsecureSkipTLSVerify: o.InsecureSkipTLSVerify},
	}, nil
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
		name = ResolverKubeconfig
	}
	if _, found := s.resolvers[name]; !found {
		return ""
	}
	return name
}

// Names returns the names of the resolvers, sorted.
func (s *Set) Names() []string { return slices.Clone(s.names) }

// Resolve runs the resolver that the Secret's annotation names, the kubeconfig resolver by default, on a deep copy of the
// Secret, and checks the result with restconfig.Check. It never returns nil and nil.
//
// An unknown name is a DeniedError. A result that breaks the rules is one too if SetOptions would allow it, and an InvalidError
// otherwise. Errors of the resolver keep their kind. A panic of the resolver becomes an unexpected error without the panic's
// value, which may hold a credential; the stack is logged.
func (s *Set) Resolve(ctx context.Context, req Request) (*rest.Config, error) {
	if req.Secret == nil {
		return nil, errors.New("the request has no secret")
	}
	name := s.NameFor(req.Secret)
	resolver, found := s.resolvers[name]
	if !found {
		// The name is not repeated: an annotation may hold anything, and the person sees it right there.
		return nil, Denied(fmt.Errorf("its credential resolver is not enabled: set the annotation %s to one of %s",
			AnnotationCredentialResolver, strings.Join(s.names, ", ")))
	}
	req.Secret = req.Secret.DeepCopy()
	cfg, err := call(ctx, name, resolver, req)
	if err != nil {
		return nil, fmt.Errorf("credential resolver %s: %w", name, err)
	}
	if cfg == nil {
		return nil, fmt.Errorf("credential resolver %s: returned neither a config nor an error", name)
	}
	// The copy keeps a resolver that hands out the same struct twice from seeing what the caller sets on it.
	cfg = rest.CopyConfig(cfg)
	if err := restconfig.Check(cfg, s.check); err != nil {
		return nil, refused(fmt.Errorf("credential resolver %s: %w", name, err))
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
