// Copyright Contributors to the Open Cluster Management project

package credentialtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

const testToken = "s3nt1nel-token"

func validSecret() *corev1.Secret {
	return &corev1.Secret{Data: map[string][]byte{
		"server": []byte("https://api.example.com:6443"), "ca.crt": []byte(CA), "token": []byte(testToken),
	}}
}

func invalidSecrets() map[string]*corev1.Secret {
	secret := validSecret()
	delete(secret.Data, "server")
	return map[string]*corev1.Secret{"no server": secret}
}

// good is a resolver without a fault, to which each case adds one.
func good(_ context.Context, req credential.Request) (*rest.Config, error) {
	data := req.Secret.Data
	cfg, err := restconfig.FromToken(string(data["server"]), data["ca.crt"], string(data["token"]))
	return cfg, credential.Invalid(err)
}

// run returns the violations of each clause, by its name.
func run(t *testing.T, resolver credential.Resolver) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	for _, c := range clauses() {
		s := Suite{Resolver: resolver, ValidSecret: validSecret, InvalidSecrets: invalidSecrets()}
		if violations := c.check(t.Context(), s); len(violations) > 0 {
			found[c.name] = violations
		}
	}
	return found
}

func TestSuiteCatches(t *testing.T) {
	var counter atomic.Int64
	shared := &rest.Config{Host: "https://api.example.com", BearerToken: "x", TLSClientConfig: rest.TLSClientConfig{CAData: []byte(CA)}}
	cases := []struct {
		name     string
		clause   string
		resolver credential.ResolverFunc
	}{
		{"insecure result", "result", func(ctx context.Context, req credential.Request) (*rest.Config, error) {
			cfg, err := good(ctx, req)
			if cfg != nil {
				cfg.Insecure, cfg.CAData = true, nil
			}
			return cfg, err
		}},
		{"file path in the result", "result", func(ctx context.Context, req credential.Request) (*rest.Config, error) {
			cfg, err := good(ctx, req)
			if cfg != nil {
				cfg.BearerTokenFile = "/etc/token"
			}
			return cfg, err
		}},
		{"nil and nil", "result", func(context.Context, credential.Request) (*rest.Config, error) { return nil, nil }},
		{"changes the Secret", "input", func(ctx context.Context, req credential.Request) (*rest.Config, error) {
			req.Secret.Labels = map[string]string{"seen": "true"}
			return good(ctx, req)
		}},
		{"shared config", "independence", func(ctx context.Context, req credential.Request) (*rest.Config, error) {
			if _, err := good(ctx, req); err != nil {
				return nil, err
			}
			return shared, nil
		}},
		{"shared CA", "independence", func(ctx context.Context, req credential.Request) (*rest.Config, error) {
			cfg, err := good(ctx, req)
			if cfg != nil {
				cfg.CAData = req.Secret.Data["ca.crt"]
			}
			return cfg, err
		}},
		{"blames the user for a cancelled context", "cancellation", func(ctx context.Context, req credential.Request) (*rest.Config, error) {
			if err := ctx.Err(); err != nil {
				return nil, credential.Invalid(err)
			}
			return good(ctx, req)
		}},
		{"denies a cancelled context", "cancellation", func(ctx context.Context, req credential.Request) (*rest.Config, error) {
			if err := ctx.Err(); err != nil {
				return nil, credential.Denied(err)
			}
			return good(ctx, req)
		}},
		{"plain error", "kind of error", func(ctx context.Context, req credential.Request) (*rest.Config, error) {
			cfg, err := good(ctx, req)
			if err != nil {
				return nil, errors.New("no server")
			}
			return cfg, nil
		}},
		{"accepts anything", "kind of error", func(context.Context, credential.Request) (*rest.Config, error) {
			return rest.CopyConfig(shared), nil
		}},
		{"config and error", "kind of error", func(ctx context.Context, req credential.Request) (*rest.Config, error) {
			cfg, err := good(ctx, req)
			if err != nil {
				return shared, err
			}
			return cfg, nil
		}},
		{"counter in the text", "stable text", func(ctx context.Context, req credential.Request) (*rest.Config, error) {
			cfg, err := good(ctx, req)
			if err != nil {
				return nil, credential.Invalid(fmt.Errorf("attempt %d: %w", counter.Add(1), err))
			}
			return cfg, nil
		}},
		{"order of a map in the text", "stable text", func(ctx context.Context, req credential.Request) (*rest.Config, error) {
			cfg, err := good(ctx, req)
			if err != nil {
				// As the order of a map may be, but not by chance.
				keys := slices.Sorted(maps.Keys(req.Secret.Data))
				if counter.Add(1)%2 == 0 {
					slices.Reverse(keys)
				}
				return nil, credential.Invalid(fmt.Errorf("only %s", keys))
			}
			return cfg, nil
		}},
		{"token in the text of what is denied", "no values", func(ctx context.Context, req credential.Request) (*rest.Config, error) {
			cfg, err := good(ctx, req)
			if err != nil {
				return nil, credential.Denied(fmt.Errorf("token %s", req.Secret.Data["token"]))
			}
			return cfg, nil
		}},
		{"token in the text", "no values", func(ctx context.Context, req credential.Request) (*rest.Config, error) {
			cfg, err := good(ctx, req)
			if err != nil {
				return nil, credential.Invalid(fmt.Errorf("token %s: %w", req.Secret.Data["token"], err))
			}
			return cfg, nil
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			// The shared config loses its CA to the suite, which is what the case is about.
			shared.CAData = []byte(CA)
			violations := run(t, c.resolver)
			if len(violations[c.clause]) == 0 {
				t.Errorf("the clause %q did not catch it; violations: %v", c.clause, violations)
			}
			for _, text := range violations["no values"] {
				if strings.Contains(text, testToken) {
					t.Error("the suite itself shows the value")
				}
			}
		})
	}
}

func TestSuitePasses(t *testing.T) {
	RunConformance(t, Suite{Resolver: credential.ResolverFunc(good), ValidSecret: validSecret, InvalidSecrets: invalidSecrets()})
}

func TestSuitePassesWhatIsDenied(t *testing.T) {
	resolver := credential.ResolverFunc(func(ctx context.Context, req credential.Request) (*rest.Config, error) {
		cfg, err := good(ctx, req)
		if err != nil {
			return nil, credential.Denied(errors.New("it is not allowed"))
		}
		return cfg, nil
	})
	RunConformance(t, Suite{Resolver: resolver, ValidSecret: validSecret, InvalidSecrets: invalidSecrets()})
}

func TestSuiteIsComplete(t *testing.T) {
	if violations := checkSuite(t.Context(), Suite{Resolver: credential.ResolverFunc(good), ValidSecret: validSecret}); len(violations) == 0 {
		t.Error("a suite without invalid inputs passes")
	}
}

func TestValuesInsideOfAKubeconfig(t *testing.T) {
	values := valuesIn([]byte("current-context: long-name-1\nusers: [{name: long-name-2, user: {token: long-token, x: [deep-value]}}]"))
	text := strings.Join(values[1:], " ")
	for _, want := range []string{"long-token", "deep-value"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s is not found", want)
		}
	}
	if strings.Contains(text, "long-name") {
		t.Error("names count as values")
	}
}

func TestFake(t *testing.T) {
	cfg := &rest.Config{Host: "https://h"}
	fake := &Fake{Config: cfg}
	req := credential.Request{ClusterName: "c"}
	got, err := fake.Resolve(t.Context(), req)
	if err != nil || got == cfg || got.Host != cfg.Host {
		t.Errorf("got %v, %v", got, err)
	}
	fake.Err = errors.New("x")
	if got, err := fake.Resolve(t.Context(), req); got != nil || err == nil {
		t.Errorf("got %v, %v", got, err)
	}
	fake.Respond = good
	if got, err := fake.Resolve(t.Context(), credential.Request{ClusterName: "d", Secret: validSecret()}); got == nil || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
	if calls := fake.Calls(); len(calls) != 3 || calls[0].ClusterName != "c" || calls[2].ClusterName != "d" {
		t.Errorf("recorded %v", calls)
	}
}
