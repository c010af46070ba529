// Copyright Contributors to the Open Cluster Management project

package stanza_test

import (
	"reflect"
	"strings"
	"testing"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/stanza"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

// FuzzParse: whatever the arguments (one a line) and the variables (NAME=VALUE, one a line), the result has only what the grammar
// names, or the error is one that a person can fix.
func FuzzParse(f *testing.F) {
	for _, args := range []string{
		"eks\nget-token\n--name\nc", "--region=r\neks\nget-token", "eks\nget-token\n-nc", "--\neks", "--name\n--region", "-", "--output\njson\neks\nget-token", "=", "-=",
	} {
		f.Add(args, "REGION=r\nMODE=legacy")
	}
	f.Fuzz(func(t *testing.T, args, env string) {
		exec := newExec(strings.Split(args, "\n")...)
		for line := range strings.SplitSeq(env, "\n") {
			name, value, _ := strings.Cut(line, "=")
			exec.Env = append(exec.Env, restconfig.ExecEnv{Name: name, Value: value})
		}
		values, err := stanza.Parse(exec, grammar())
		if err != nil {
			if !credential.IsInvalid(err) || values != nil {
				t.Fatalf("got %v, %v", values, err)
			}
			if _, again := stanza.Parse(exec, grammar()); again == nil || again.Error() != err.Error() {
				t.Fatalf("the same input gives %v and %v", err, again)
			}
			if text := err.Error(); strings.ContainsAny(text, "\n\x00\x1b") || len(text) > 300 {
				t.Fatalf("the text is %q", text)
			}
			return
		}
		for name, value := range values {
			switch name {
			case "name", "region", "output", "quiet", "REGION", "MODE":
			default:
				t.Fatalf("%q is no value of the grammar", name)
			}
			if value == "" || value[0] == '-' {
				t.Fatalf("%s is %q", name, value)
			}
		}
		if again, err := stanza.Parse(exec, grammar()); err != nil || !reflect.DeepEqual(values, again) {
			t.Fatalf("the same input gives %v and %v, %v", values, again, err)
		}
	})
}
