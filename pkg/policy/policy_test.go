// Copyright Contributors to the Open Cluster Management project

package policy_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/import-provider/pkg/policy"
)

func TestMatches(t *testing.T) {
	cases := []struct {
		pattern, value string
		want           bool
	}{
		{"a", "a", true},
		{"*", "", true},
		{"*", "anything", true},
		{"a*", "a", true},
		{"a*c", "abc", true},
		{"a*c", "ac", true},
		{"*b*", "abc", true},
		{"a*b*c", "a-b-b-c", true},
		{"**", "a", true},
		{"*.example.com", "a.b.example.com", true},

		{"a", "A", false},
		{"a", "ab", false},
		{"", "a", false},
		{"a", "", false},
		{"a*a", "a", false},
		{"ab*bc", "abc", false},
		{"*b*b*", "abc", false},
		{"*.example.com", "example.com", false},
		{"*.example.com", "a.example.com.net", false},
		{"a.c", "abc", false},
		{"[a-z]", "a", false},
		{"a?", "ab", false},
	}
	for _, c := range cases {
		if got := policy.Matches([]string{"other", c.pattern}, c.value); got != c.want {
			t.Errorf("%q, %q: got %t", c.pattern, c.value, got)
		}
	}
	if policy.Matches(nil, "") {
		t.Error("no pattern matches")
	}
}

func TestRule(t *testing.T) {
	p := parse(t, "rules: [{namespaces: [a], resolvers: [x]}, {namespaces: [a, 'b-*'], resolvers: [w]}]")
	for namespace, want := range map[string][]string{"a": {"x"}, "b-1": {"w"}, "c": nil, "": nil} {
		if diff := cmp.Diff(want, p.Rule(namespace).Resolvers); diff != "" {
			t.Errorf("%q (-want +got):\n%s", namespace, diff)
		}
	}
	changed := p.WithRules(policy.Rule{Namespaces: []string{"*"}, Resolvers: []string{"z"}})
	if got := changed.Rule("a").Resolvers[0]; got != "z" || p.Rule("a").Resolvers[0] != "x" {
		t.Errorf("with other rules: %s", got)
	}
}

// spoil changes everything that can be reached from a value.
func spoil(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			spoil(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			spoil(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			v.SetMapIndex(key, reflect.ValueOf("spoiled"))
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			spoil(field)
		}
	case reflect.String:
		v.SetString("spoiled")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	}
}

func inJSON(t *testing.T, v any) string {
	t.Helper()
	data, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestPolicyDoesNotChange: what is handed out and what was handed in is not the policy's. The sample has a value in each field.
func TestPolicyDoesNotChange(t *testing.T) {
	handedIn := []policy.Rule{sample(t).Rule("payments-a")}
	p := sample(t).WithRules(handedIn...)
	views := map[string]func() any{
		"Rule":              func() any { rule := p.Rule("payments-a"); return &rule },
		"Plugin":            func() any { plugin, _ := p.Plugin(p.Plugins()[0].Name); return &plugin },
		"Plugins":           func() any { plugins := p.Plugins(); return &plugins },
		"Proxies":           func() any { proxies := p.Proxies(); return &proxies },
		"Clouds":            func() any { clouds := p.Clouds(); return &clouds },
		"StaticCredentials": func() any { static := p.StaticCredentials(); return &static },
	}
	for method := range reflect.TypeOf(p).Methods() {
		name := method.Name
		switch name {
		case "CheckAddress", "CheckServer", "IsPinned", "WithRules":
			continue // these hand out no part of it
		}
		view := views[name]
		if view == nil {
			t.Errorf("nobody looks at what %s hands out", name)
			continue
		}
		// In JSON, which shares nothing.
		before, changed := inJSON(t, view()), view()
		spoil(reflect.ValueOf(changed))
		if before == inJSON(t, changed) {
			t.Errorf("%s: the sample has nothing of it: the test has lost its object", name)
		}
		if diff := cmp.Diff(before, inJSON(t, view())); diff != "" {
			t.Errorf("the policy is changed by what %s handed out (-before +after):\n%s", name, diff)
		}
	}
	before := inJSON(t, p.Rule("payments-a"))
	spoil(reflect.ValueOf(&handedIn))
	if diff := cmp.Diff(before, inJSON(t, p.Rule("payments-a"))); diff != "" {
		t.Errorf("the policy is changed by what was handed in (-before +after):\n%s", diff)
	}
}

// TestSampleIsComplete: the sample, and with it the test above, has a value in each field.
func TestSampleIsComplete(t *testing.T) {
	p := sample(t)
	var check func(v reflect.Value, path string)
	check = func(v reflect.Value, path string) {
		if v.Kind() == reflect.Struct {
			for i := range v.NumField() {
				check(v.Field(i), path+"."+v.Type().Field(i).Name)
			}
			return
		}
		if v.IsZero() {
			t.Errorf("%s is not set", path)
		}
	}
	check(reflect.ValueOf(p.Rule("payments-a")), "rule")
	check(reflect.ValueOf(p.Plugins()[0]), "plugin")
	check(reflect.ValueOf(p.Clouds()), "clouds")
	check(reflect.ValueOf(p.StaticCredentials()), "staticCredentials")
}
