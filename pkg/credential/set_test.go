// Copyright Contributors to the Open Cluster Management project

package credential_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/metrics/legacyregistry"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/credentialtest"
)

func goodConfig() *rest.Config {
	return &rest.Config{Host: testServer, BearerToken: testToken, TLSClientConfig: rest.TLSClientConfig{CAData: caPEM()}}
}

func TestNewSet(t *testing.T) {
	fake := &credentialtest.Fake{}
	const label = "a lowercase RFC 1123 label must consist of"
	cases := map[string]struct {
		resolvers map[string]credential.Resolver
		want      string
	}{
		"good":         {map[string]credential.Resolver{"a": fake, "my-cloud": fake}, ""},
		"nil map":      {nil, "no credential resolver given"},
		"empty map":    {map[string]credential.Resolver{}, "no credential resolver given"},
		"empty name":   {map[string]credential.Resolver{"": fake}, `name of credential resolver "": ` + label},
		"upper case":   {map[string]credential.Resolver{"A": fake}, `name of credential resolver "A": ` + label},
		"dot":          {map[string]credential.Resolver{"a.b": fake}, `name of credential resolver "a.b": must not contain dots`},
		"64 letters":   {map[string]credential.Resolver{strings.Repeat("a", 64): fake}, "must be no more than 63 characters"},
		"nil":          {map[string]credential.Resolver{"a": nil}, `credential resolver "a" is nil`},
		"nil function": {map[string]credential.Resolver{"a": credential.ResolverFunc(nil)}, `credential resolver "a" is nil`},
		"nil pointer":  {map[string]credential.Resolver{"a": (*credentialtest.Fake)(nil)}, `credential resolver "a" is nil`},
		"two mistakes": {map[string]credential.Resolver{"b": nil, "a": nil, "c": nil}, `credential resolver "a" is nil`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			set, err := credential.NewSet(c.resolvers, credential.SetOptions{})
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want == "" && !slices.Equal(set.Names(), []string{"a", "my-cloud"}):
				t.Errorf("names are %v", set.Names())
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestSetResolve(t *testing.T) {
	const annotation = "import.open-cluster-management.io/credential-resolver"
	set := func(r credential.Resolver, o credential.SetOptions) *credential.Set {
		s, err := credential.NewSet(map[string]credential.Resolver{"kubeconfig": &credentialtest.Fake{Config: goodConfig()}, "other": r}, o)
		must(err)
		return s
	}
	insecureConfig := goodConfig()
	insecureConfig.Insecure, insecureConfig.CAData = true, nil
	pending := credential.Pending(errors.New("cluster is being created"), time.Minute)
	unexpected := errors.New("broken")

	cases := map[string]struct {
		fake    *credentialtest.Fake
		name    string
		options credential.SetOptions
		want    string // of the error
		invalid bool
		denied  bool
		is      error
	}{
		"default":           {name: ""},
		"by name":           {name: "other", fake: &credentialtest.Fake{Config: goodConfig()}},
		"insecure, allowed": {name: "other", fake: &credentialtest.Fake{Config: insecureConfig}, options: credential.SetOptions{InsecureSkipTLSVerify: true}},
		"unknown": {name: testToken, denied: true,
			want: "its credential resolver is not enabled: set the annotation " + annotation + " to one of kubeconfig, other, or let the administrator of the hub allow it"},
		"insecure": {name: "other", fake: &credentialtest.Fake{Config: insecureConfig}, denied: true,
			want: "credential resolver other: rest.Config.TLSClientConfig.Insecure is not accepted: the credential resolver must not set it"},
		"nil and nil": {name: "other",
			want: "credential resolver other: returned neither a config nor an error"},
		"invalid": {name: "other", fake: &credentialtest.Fake{Err: credential.Invalid(unexpected)}, invalid: true, is: unexpected,
			want: "credential resolver other: broken"},
		"not acceptable": {name: "other", fake: &credentialtest.Fake{Config: &rest.Config{}}, invalid: true,
			want: "credential resolver other: rest.Config.Host is missing: write it as https://host:port"},
		"denied": {name: "other", fake: &credentialtest.Fake{Err: credential.Denied(unexpected)}, denied: true, is: unexpected,
			want: "credential resolver other: broken"},
		"pending": {name: "other", fake: &credentialtest.Fake{Err: pending}, is: pending,
			want: "credential resolver other: cluster is being created"},
		"unexpected": {name: "other", fake: &credentialtest.Fake{Err: unexpected}, is: unexpected,
			want: "credential resolver other: broken"},
		"config and error": {name: "other", is: unexpected,
			fake: &credentialtest.Fake{Respond: func(context.Context, credential.Request) (*rest.Config, error) { return goodConfig(), unexpected }},
			want: "credential resolver other: broken"},
		"panic": {name: "other",
			fake: &credentialtest.Fake{Respond: func(context.Context, credential.Request) (*rest.Config, error) { panic(testToken) }},
			want: "credential resolver other: panicked; the log of the import controller has the stack"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			secret := kubeconfigSecret(annotation, c.name)
			var log bytes.Buffer
			ctx := klog.NewContext(t.Context(), textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(&log))))
			cfg, err := set(cmp.Or(c.fake, &credentialtest.Fake{}), c.options).Resolve(ctx, credential.Request{ClusterName: "c", Secret: secret})
			if (cfg == nil) == (err == nil) {
				t.Fatalf("got %v and %v", cfg, err)
			}
			if strings.Contains(log.String(), testToken) || strings.Contains(fmt.Sprintf("%+v", err), testToken) {
				t.Error("a value is in the error or the log")
			}
			if name == "panic" && !strings.Contains(log.String(), "Credential resolver panicked") {
				t.Error("the panic is not logged")
			}
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			if err == nil || err.Error() != c.want {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if credential.IsInvalid(err) != c.invalid {
				t.Errorf("IsInvalid is %t", credential.IsInvalid(err))
			}
			if credential.IsDenied(err) != c.denied {
				t.Errorf("IsDenied is %t", credential.IsDenied(err))
			}
			if c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v is lost", c.is)
			}
		})
	}

	t.Run("no secret", func(t *testing.T) {
		if _, err := set(&credentialtest.Fake{}, credential.SetOptions{}).Resolve(t.Context(), credential.Request{}); err == nil {
			t.Error("got no error")
		}
	})
}

func TestNameFor(t *testing.T) {
	const annotation = credential.AnnotationCredentialResolver
	fake := &credentialtest.Fake{}
	set := func(names ...string) *credential.Set {
		resolvers := map[string]credential.Resolver{}
		for _, name := range names {
			resolvers[name] = fake
		}
		s, err := credential.NewSet(resolvers, credential.SetOptions{})
		must(err)
		return s
	}
	cases := []struct {
		name   string
		set    *credential.Set
		secret *corev1.Secret
		want   string
	}{
		{"no annotation", set("kubeconfig", "other"), newSecret(nil), "kubeconfig"},
		{"empty annotation", set("kubeconfig", "other"), newSecret(nil, annotation, ""), "kubeconfig"},
		{"by name", set("kubeconfig", "other"), newSecret(nil, annotation, "other"), "other"},
		{"unknown", set("kubeconfig", "other"), newSecret(nil, annotation, testToken), ""},
		{"no default", set("other"), newSecret(nil), ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := c.set.NameFor(c.secret); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestSetProtectsInputs: neither the Secret, nor a config that a resolver keeps, nor the map of resolvers is shared.
func TestSetProtectsInputs(t *testing.T) {
	kept := goodConfig()
	fake := &credentialtest.Fake{Respond: func(_ context.Context, req credential.Request) (*rest.Config, error) {
		req.Secret.Annotations["changed"] = "true"
		clear(req.Secret.Data["kubeconfig"])
		return kept, nil
	}}
	resolvers := map[string]credential.Resolver{"kubeconfig": fake}
	set, err := credential.NewSet(resolvers, credential.SetOptions{})
	must(err)
	delete(resolvers, "kubeconfig")

	secret := kubeconfigSecret("a", "b")
	before := secret.DeepCopy()
	cfg, err := set.Resolve(t.Context(), credential.Request{ClusterName: "c", Secret: secret})
	if err != nil {
		t.Fatal(err)
	}
	if secret.Annotations["changed"] != "" || !bytes.Equal(before.Data["kubeconfig"], secret.Data["kubeconfig"]) {
		t.Error("the Secret was changed")
	}
	cfg.Timeout = time.Second
	if kept.Timeout != 0 {
		t.Error("the resolver's own config was changed")
	}
	if calls := fake.Calls(); len(calls) != 1 || calls[0].ClusterName != "c" {
		t.Errorf("calls: %v", calls)
	}
}

func TestErrorKinds(t *testing.T) {
	if credential.Invalid(nil) != nil || credential.Denied(nil) != nil || credential.Pending(nil, time.Second) != nil {
		t.Error("nil did not stay nil")
	}
	cause := errors.New("cause")
	var invalid *credential.InvalidError
	if err := fmt.Errorf("layer: %w", credential.Invalid(cause)); !errors.As(err, &invalid) || invalid.Error() != "cause" ||
		!errors.Is(err, cause) || !credential.IsInvalid(err) || credential.IsDenied(err) {
		t.Error("an InvalidError is not found")
	}
	var denied *credential.DeniedError
	if err := fmt.Errorf("layer: %w", credential.Denied(cause)); !errors.As(err, &denied) || denied.Error() != "cause" ||
		!errors.Is(err, cause) || !credential.IsDenied(err) || credential.IsInvalid(err) {
		t.Error("a DeniedError is not found")
	}
	var pending *credential.PendingError
	err := fmt.Errorf("layer: %w", credential.Pending(cause, time.Second))
	if !errors.As(err, &pending) || pending.Error() != "cause" || !errors.Is(err, cause) || credential.IsInvalid(err) || credential.IsDenied(err) {
		t.Error("a PendingError is not found")
	}
	for _, c := range []struct {
		err     error
		after   time.Duration
		pending bool
	}{
		{err, time.Second, true},
		{credential.Pending(cause, -1), 0, true},
		{credential.Invalid(cause), 0, false},
		{credential.Denied(cause), 0, false},
		{nil, 0, false},
	} {
		if after, pending := credential.IsPending(c.err); after != c.after || pending != c.pending {
			t.Errorf("%v: got %s, %t", c.err, after, pending)
		}
	}
}

func TestSetCounts(t *testing.T) {
	const annotation = credential.AnnotationCredentialResolver
	set, err := credential.NewSet(map[string]credential.Resolver{
		"counted-good":   &credentialtest.Fake{Respond: func(context.Context, credential.Request) (*rest.Config, error) { return goodConfig(), nil }},
		"counted-broken": &credentialtest.Fake{Respond: func(context.Context, credential.Request) (*rest.Config, error) { return nil, errors.New("no") }},
	}, credential.SetOptions{})
	must(err)
	cases := []struct{ name, resolver, want string }{
		{"a credential", "counted-good", `{resolver="counted-good",result="succeeded"} 1`},
		{"none", "counted-broken", `{resolver="counted-broken",result="failed"} 1`},
		{"a resolver that is not there", testToken, `{resolver="none",result="failed"} `},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, _ = set.Resolve(t.Context(), credential.Request{Secret: kubeconfigSecret(annotation, c.resolver)})
			var served httptest.ResponseRecorder
			served.Body = &bytes.Buffer{}
			legacyregistry.Handler().ServeHTTP(&served, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
			if got := served.Body.String(); !strings.Contains(got, "import_provider_credentials_total"+c.want) || strings.Contains(got, testToken) {
				t.Errorf("want %s in\n%s", c.want, got)
			}
		})
	}
}
