// Copyright Contributors to the Open Cluster Management project

package credentialtest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

const (
	// clusterName is the cluster that the suite asks for.
	clusterName = "conformance"
	// prompt is how soon a call with a cancelled context must return. It leaves room for a busy machine.
	prompt = 5 * time.Second
	// minValue is the shortest value that is looked for in errors, in bytes: shorter ones occur in texts by chance.
	minValue = 8
	// parallel is the number of simultaneous calls.
	parallel = 8
)

// Suite is a resolver and the inputs to try it with.
type Suite struct {
	// Resolver is the resolver under test. Required.
	Resolver credential.Resolver
	// ValidSecret returns a new Secret that the resolver accepts. Required.
	ValidSecret func() *corev1.Secret
	// InvalidSecrets are Secrets that a person would have to fix, or that ask for what the resolver's options do not allow,
	// by the name of the case. At least one is required.
	InvalidSecrets map[string]*corev1.Secret
	// InsecureSkipTLSVerify accepts results that skip verification, as credential.SetOptions has it. Default: false.
	InsecureSkipTLSVerify bool
}

// RunConformance checks that a resolver keeps the contract of credential.Resolver, in one subtest per clause:
//
//   - the result passes restconfig.Check;
//   - the input is not changed;
//   - two calls give configs that share no memory with each other or with the input;
//   - a cancelled context ends the call within 5 s, and is not reported as the user's fault;
//   - an invalid input gives an InvalidError or a DeniedError, and no config;
//   - the text of an error is the same each time;
//   - no text of an error has a value of the Secret of 8 bytes or more. For values that are YAML or JSON, also the strings in
//     them are looked for, except names (under the keys name, cluster, user, context, namespace, current-context, kind, apiVersion);
//   - simultaneous calls work (run with -race).
func RunConformance(t *testing.T, s Suite) {
	t.Helper()
	for _, c := range clauses() {
		t.Run(c.name, func(t *testing.T) {
			for _, violation := range c.check(t.Context(), s) {
				t.Error(violation)
			}
		})
	}
}

// clause is one sentence of the contract. check returns the violations, so that the suite itself can be tested.
type clause struct {
	name  string
	check func(ctx context.Context, s Suite) []string
}

func clauses() []clause {
	return []clause{
		{"suite", checkSuite},
		{"result", checkResult},
		{"input", checkInput},
		{"independence", checkIndependence},
		{"cancellation", checkCancellation},
		{"kind of error", checkKind},
		{"stable text", checkStable},
		{"no values", checkValues},
		{"concurrency", checkConcurrency},
	}
}

func (s Suite) request(secret *corev1.Secret) credential.Request {
	return credential.Request{ClusterName: clusterName, Secret: secret}
}

// invalid calls visit for every invalid Secret, by the order of the names, with a copy.
func (s Suite) invalid(visit func(name string, secret *corev1.Secret)) {
	for _, name := range slices.Sorted(maps.Keys(s.InvalidSecrets)) {
		visit(name, s.InvalidSecrets[name].DeepCopy())
	}
}

func checkSuite(_ context.Context, s Suite) []string {
	if s.Resolver == nil || s.ValidSecret == nil || len(s.InvalidSecrets) == 0 {
		return []string{"the suite needs a Resolver, a ValidSecret and at least one of InvalidSecrets"}
	}
	return nil
}

// acceptable is what every answer to a valid input must be.
func (s Suite) acceptable(cfg *rest.Config, err error) string {
	switch {
	case err != nil:
		return fmt.Sprintf("the valid Secret is refused: %v", err)
	case cfg == nil:
		return "the valid Secret gives neither a config nor an error"
	}
	if err := restconfig.Check(cfg, restconfig.Options{InsecureSkipTLSVerify: s.InsecureSkipTLSVerify}); err != nil {
		return fmt.Sprintf("the result is not acceptable: %v", err)
	}
	return ""
}

func checkResult(ctx context.Context, s Suite) []string {
	if problem := s.acceptable(s.Resolver.Resolve(ctx, s.request(s.ValidSecret()))); problem != "" {
		return []string{problem}
	}
	return nil
}

func checkInput(ctx context.Context, s Suite) (violations []string) {
	unchanged := func(name string, secret *corev1.Secret) {
		before := secret.DeepCopy()
		_, _ = s.Resolver.Resolve(ctx, s.request(secret)) // the other clauses look at the answer
		if !reflect.DeepEqual(before, secret) {
			violations = append(violations, name+": the Secret was changed")
		}
	}
	unchanged("valid Secret", s.ValidSecret())
	s.invalid(unchanged)
	return violations
}

func checkIndependence(ctx context.Context, s Suite) (violations []string) {
	secret := s.ValidSecret()
	before := secret.DeepCopy()
	first, err := s.Resolver.Resolve(ctx, s.request(secret))
	if problem := s.acceptable(first, err); problem != "" {
		return []string{problem}
	}
	second, err := s.Resolver.Resolve(ctx, s.request(secret))
	if problem := s.acceptable(second, err); problem != "" {
		return []string{problem}
	}
	if first == second {
		return []string{"two calls return the same config"}
	}
	kept := *second
	kept.CAData, kept.CertData, kept.KeyData = bytes.Clone(second.CAData), bytes.Clone(second.CertData), bytes.Clone(second.KeyData)
	kept.NextProtos = slices.Clone(second.NextProtos)
	for _, data := range [][]byte{first.CAData, first.CertData, first.KeyData} {
		clear(data)
	}
	clear(first.NextProtos)
	if !bytes.Equal(kept.CAData, second.CAData) || !bytes.Equal(kept.CertData, second.CertData) ||
		!bytes.Equal(kept.KeyData, second.KeyData) || !slices.Equal(kept.NextProtos, second.NextProtos) {
		violations = append(violations, "the configs of two calls share memory")
	}
	if !reflect.DeepEqual(before, secret) {
		violations = append(violations, "the config shares memory with the Secret")
	}
	return violations
}

func checkCancellation(ctx context.Context, s Suite) []string {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	done := make(chan error, 1)
	go func() {
		_, err := s.Resolver.Resolve(ctx, s.request(s.ValidSecret()))
		done <- err
	}()
	select {
	case err := <-done:
		// A result is fine too: a resolver may not need to wait for anything.
		if credential.IsInvalid(err) || credential.IsDenied(err) {
			return []string{fmt.Sprintf("a cancelled context is reported as an invalid input: %v", err)}
		}
		return nil
	case <-time.After(prompt):
		return []string{fmt.Sprintf("a call with a cancelled context has not returned after %s", prompt)}
	}
}

func checkKind(ctx context.Context, s Suite) (violations []string) {
	s.invalid(func(name string, secret *corev1.Secret) {
		cfg, err := s.Resolver.Resolve(ctx, s.request(secret))
		switch {
		case err == nil:
			violations = append(violations, name+": no error")
		case !credential.IsInvalid(err) && !credential.IsDenied(err):
			violations = append(violations, fmt.Sprintf("%s: the error is neither an InvalidError nor a DeniedError: %v", name, err))
		}
		if cfg != nil && err != nil {
			violations = append(violations, name+": a config together with an error")
		}
	})
	return violations
}

func checkStable(ctx context.Context, s Suite) (violations []string) {
	s.invalid(func(name string, secret *corev1.Secret) {
		texts := map[string]bool{}
		// More than twice: the order of a map of two keys is the same by chance half of the time.
		for range 20 {
			if _, err := s.Resolver.Resolve(ctx, s.request(secret.DeepCopy())); err != nil {
				texts[err.Error()] = true
			}
		}
		if len(texts) > 1 {
			violations = append(violations, fmt.Sprintf("%s: the same failure has %d texts", name, len(texts)))
		}
	})
	return violations
}

func checkValues(ctx context.Context, s Suite) (violations []string) {
	s.invalid(func(name string, secret *corev1.Secret) {
		_, err := s.Resolver.Resolve(ctx, s.request(secret.DeepCopy()))
		if err == nil {
			return // another clause's business
		}
		// Both forms: a structured log prints an error in detail.
		text := err.Error() + fmt.Sprintf("%+v", err)
		for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
			for _, value := range valuesIn(secret.Data[key]) {
				if strings.Contains(text, value) {
					// The text is not shown: it goes to the log of the tests.
					violations = append(violations, fmt.Sprintf("%s: the error shows a value of the data key %s", name, key))
					break
				}
			}
		}
	})
	return violations
}

// valuesIn returns the strings that must not be shown: the value itself and, for YAML and JSON, the strings in it.
func valuesIn(data []byte) []string {
	var found []string
	add := func(value string) {
		if value = strings.TrimSpace(value); len(value) >= minValue {
			found = append(found, value)
		}
	}
	add(string(data))
	var tree any
	if yaml.Unmarshal(data, &tree) != nil {
		return found
	}
	var visit func(node any)
	visit = func(node any) {
		switch n := node.(type) {
		case string:
			add(n)
		case []any:
			for _, item := range n {
				visit(item)
			}
		case map[string]any:
			for key, item := range n {
				switch _, text := item.(string); {
				case text && slices.Contains([]string{"name", "cluster", "user", "context", "namespace", "current-context", "kind", "apiVersion"}, key):
				default:
					visit(item)
				}
			}
		}
	}
	visit(tree)
	return found
}

func checkConcurrency(ctx context.Context, s Suite) (violations []string) {
	var (
		lock sync.Mutex // guards violations
		wg   sync.WaitGroup
	)
	secret := s.ValidSecret()
	for range parallel {
		wg.Go(func() {
			// One Secret for all: a resolver that only reads it is safe.
			if problem := s.acceptable(s.Resolver.Resolve(ctx, s.request(secret))); problem != "" {
				lock.Lock()
				defer lock.Unlock()
				violations = append(violations, problem)
			}
		})
	}
	wg.Wait()
	return violations
}
