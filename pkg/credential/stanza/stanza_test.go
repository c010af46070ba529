// Copyright Contributors to the Open Cluster Management project

package stanza_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/credential/stanza"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

const sentinel = "s3nt1nel"

func grammar() stanza.Grammar {
	return stanza.Grammar{
		Words: []string{"eks", "get-token"},
		Flags: map[string]stanza.Flag{
			"--name": {Value: "name"}, "-n": {Value: "name"},
			"--region": {Value: "region"},
			"--output": {Value: "output", OneOf: []string{"json"}},
			"--quiet":  {Value: "quiet", Switch: true}, "-q": {Value: "quiet", Switch: true},
		},
		Env: map[string][]string{"REGION": nil, "MODE": {"regional", "legacy"}},
	}
}

func newExec(args ...string) *restconfig.Exec {
	return &restconfig.Exec{Entry: `"u"`, Command: "/opt/bin/tool.exe", Args: args}
}

func TestParse(t *testing.T) {
	env := func(pairs ...string) (env []restconfig.ExecEnv) {
		for i := 0; i < len(pairs); i += 2 {
			env = append(env, restconfig.ExecEnv{Name: pairs[i], Value: pairs[i+1]})
		}
		return env
	}
	cases := map[string]struct {
		args []string
		env  []restconfig.ExecEnv
		want stanza.Values
	}{
		"no flags":            {args: []string{"eks", "get-token"}, want: stanza.Values{}},
		"flag after words":    {args: []string{"eks", "get-token", "--name", "c"}, want: stanza.Values{"name": "c"}},
		"flag before words":   {args: []string{"--region", "r", "eks", "get-token", "--name", "c"}, want: stanza.Values{"name": "c", "region": "r"}},
		"flag between words":  {args: []string{"eks", "--name=c", "get-token"}, want: stanza.Values{"name": "c"}},
		"equals sign":         {args: []string{"eks", "get-token", "--name=c"}, want: stanza.Values{"name": "c"}},
		"value with = in it":  {args: []string{"eks", "get-token", "--name=c=d"}, want: stanza.Values{"name": "c=d"}},
		"short":               {args: []string{"eks", "get-token", "-n", "c"}, want: stanza.Values{"name": "c"}},
		"short, equals sign":  {args: []string{"eks", "get-token", "-n=c"}, want: stanza.Values{"name": "c"}},
		"value like a word":   {args: []string{"eks", "--name", "get-token", "get-token"}, want: stanza.Values{"name": "get-token"}},
		"switch":              {args: []string{"eks", "--quiet", "get-token"}, want: stanza.Values{"quiet": "true"}},
		"one of":              {args: []string{"eks", "get-token", "--output", "json"}, want: stanza.Values{"output": "json"}},
		"variables":           {args: []string{"eks", "get-token"}, env: env("REGION", "r", "MODE", "legacy"), want: stanza.Values{"REGION": "r", "MODE": "legacy"}},
		"characters of paths": {args: []string{"eks", "get-token", "--name", "a:b/c d,é"}, want: stanza.Values{"name": "a:b/c d,é"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			exec := newExec(c.args...)
			exec.Env = c.env
			before := slices.Clone(c.args)
			got, err := stanza.Parse(exec, grammar())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			if !slices.Equal(before, exec.Args) {
				t.Error("the arguments were changed")
			}
		})
	}
}

// TestInjections: what is not in the grammar is an error that names it and shows no value.
func TestInjections(t *testing.T) {
	const (
		usage = `users[].user.exec.args of entry "u" is not valid: only tool eks get-token with flags is known here`
		args  = `users[].user.exec.args of entry "u" `
		env   = `users[].user.exec.env of entry "u" `
	)
	words := func(more ...string) []string { return append([]string{"eks", "get-token"}, more...) }
	long := "--" + strings.Repeat("a", 39)
	cases := map[string]struct {
		args []string
		env  restconfig.ExecEnv
		want string
	}{
		"nothing":                   {want: usage},
		"word missing":              {args: []string{"eks"}, want: usage},
		"words in another order":    {args: []string{"get-token", "eks"}, want: usage},
		"another word":              {args: []string{"s3", sentinel}, want: usage},
		"one word too many":         {args: words(sentinel), want: usage},
		"word twice":                {args: words("get-token"), want: usage},
		"empty word":                {args: words(""), want: usage},
		"word in capitals":          {args: []string{"EKS", "get-token"}, want: usage},
		"value without a flag":      {args: words("--name", "c", sentinel), want: usage},
		"value of a switch":         {args: words("--quiet=" + sentinel), want: args + "is not valid: the flag --quiet takes no value"},
		"argument after a switch":   {args: words("--quiet", sentinel), want: usage},
		"unknown flag":              {args: words("--profile", sentinel), want: args + "is not accepted: remove the flag --profile of tool, which is not known here"},
		"unknown flag, equals sign": {args: words("--endpoint-url=" + sentinel), want: args + "is not accepted: remove the flag --endpoint-url of tool, which is not known here"},
		"unknown flag first":        {args: append([]string{"--debug"}, words()...), want: args + "is not accepted: remove the flag --debug of tool, which is not known here"},
		"unknown short flag":        {args: words("-e", sentinel), want: args + "is not accepted: remove the flag -e of tool, which is not known here"},
		"help":                      {args: words("--help"), want: args + "is not accepted: remove the flag --help of tool, which is not known here"},
		"abbreviation":              {args: words("--nam", sentinel), want: args + "is not accepted: remove the flag --nam of tool, which is not known here"},
		"flag in capitals":          {args: words("--NAME", sentinel), want: args + "is not accepted: remove the flag --NAME of tool, which is not known here"},
		"end of flags":              {args: append([]string{"--"}, words()...), want: args + "is not accepted: remove the flag -- of tool, which is not known here"},
		"one hyphen":                {args: words("-"), want: args + "is not accepted: remove the flag - of tool, which is not known here"},
		"three hyphens":             {args: words("---name", sentinel), want: args + "is not accepted: remove the flag ---name of tool, which is not known here"},
		"value behind short flag":   {args: words("-n" + sentinel), want: args + "is not valid: write the value of the flag -n as an argument of its own"},
		"short flags in one":        {args: words("-qn", sentinel), want: args + "is not valid: write the value of the flag -q as an argument of its own"},
		"unknown short flags":       {args: words("-x" + sentinel), want: args + "is not accepted: remove the flag -x of tool, which is not known here"},
		"long name":                 {args: words(long), want: args + "is not accepted: remove the flag of tool, which is not known here"},
		"name of other characters":  {args: words("--\x1b[2J" + sentinel), want: args + "is not accepted: remove the flag of tool, which is not known here"},
		"name with a line break":    {args: words("--name\n", sentinel), want: args + "is not accepted: remove the flag of tool, which is not known here"},
		"letter of two bytes":       {args: words("-é" + sentinel), want: args + "is not accepted: remove the flag of tool, which is not known here"},
		"no value":                  {args: words("--name"), want: args + "is not valid: the flag --name needs a value"},
		"empty value":               {args: words("--name", ""), want: args + "is not valid: the flag --name needs a value"},
		"empty inline value":        {args: words("--name="), want: args + "is not valid: the flag --name needs a value"},
		"flag as a value":           {args: words("--name", "--region", sentinel), want: args + "is not valid: the value of the flag --name must not begin with a hyphen"},
		"inline flag as a value":    {args: words("--name=--" + sentinel), want: args + "is not valid: the value of the flag --name must not begin with a hyphen"},
		"line break in a value":     {args: words("--name", sentinel+"\n"), want: args + "is not valid: the value of the flag --name must have printable characters only"},
		"NUL in a value":            {args: words("--name=" + sentinel + "\x00"), want: args + "is not valid: the value of the flag --name must have printable characters only"},
		"reversed text in a value":  {args: words("--name", "\u202e"+sentinel), want: args + "is not valid: the value of the flag --name must have printable characters only"},
		"value that is not UTF-8":   {args: words("--name", "\xff"+sentinel), want: args + "is not valid: the value of the flag --name must have printable characters only"},
		"flag twice":                {args: words("--name", "c", "--name", sentinel), want: args + "occurs twice: the flag --name is set already; keep one of them"},
		"flag twice, by two names":  {args: words("--name", "c", "-n", sentinel), want: args + "occurs twice: the flag -n is set already; keep one of them"},
		"switch twice":              {args: words("-q", "--quiet"), want: args + "occurs twice: the flag --quiet is set already; keep one of them"},
		"not one of":                {args: words("--output", sentinel), want: args + "is not accepted: the flag --output must be one of json"},

		"unknown variable":          {args: words(), env: restconfig.ExecEnv{Name: "AWS_PROFILE", Value: sentinel}, want: env + "is not accepted: remove the variable AWS_PROFILE, which is not known here"},
		"LD_PRELOAD":                {args: words(), env: restconfig.ExecEnv{Name: "LD_PRELOAD", Value: sentinel}, want: env + "is not accepted: remove the variable LD_PRELOAD, which is not known here"},
		"variable, other case":      {args: words(), env: restconfig.ExecEnv{Name: "region", Value: sentinel}, want: env + "is not accepted: remove the variable region, which is not known here"},
		"long variable":             {args: words(), env: restconfig.ExecEnv{Name: long}, want: env + "is not accepted: remove the variable, which is not known here"},
		"variable without a name":   {args: words(), env: restconfig.ExecEnv{Value: sentinel}, want: env + "is not accepted: remove the variable , which is not known here"},
		"variable, not one of":      {args: words(), env: restconfig.ExecEnv{Name: "MODE", Value: sentinel}, want: env + "is not accepted: the variable MODE must be one of regional, legacy"},
		"variable without a value":  {args: words(), env: restconfig.ExecEnv{Name: "REGION"}, want: env + "is not valid: the variable REGION needs a value"},
		"line break in a variable":  {args: words(), env: restconfig.ExecEnv{Name: "REGION", Value: sentinel + "\r\n"}, want: env + "is not valid: the value of the variable REGION must have printable characters only"},
		"hyphen before a variable":  {args: words(), env: restconfig.ExecEnv{Name: "REGION", Value: "-" + sentinel}, want: env + "is not valid: the value of the variable REGION must not begin with a hyphen"},
		"name with an equals sign":  {args: words(), env: restconfig.ExecEnv{Name: "REGION=x"}, want: env + "is not accepted: remove the variable, which is not known here"},
		"arguments before the rest": {args: words("--bad"), env: restconfig.ExecEnv{Name: "BAD"}, want: args + "is not accepted: remove the flag --bad of tool, which is not known here"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			exec := newExec(c.args...)
			if c.env != (restconfig.ExecEnv{}) {
				exec.Env = []restconfig.ExecEnv{c.env}
			}
			values, err := stanza.Parse(exec, grammar())
			if values != nil || !credential.IsInvalid(err) {
				t.Fatalf("got %v, %v, want an InvalidError", values, err)
			}
			if diff := cmp.Diff(c.want, err.Error()); diff != "" {
				t.Errorf("text (-want +got):\n%s", diff)
			}
			if strings.Contains(fmt.Sprintf("%+v", err), sentinel) {
				t.Error("the error shows a value")
			}
		})
	}
	t.Run("variable twice", func(t *testing.T) {
		exec := newExec(words()...)
		exec.Env = []restconfig.ExecEnv{{Name: "REGION", Value: "a"}, {Name: "REGION", Value: "b"}}
		_, err := stanza.Parse(exec, grammar())
		if want := env + "occurs twice: the variable REGION is set already; keep one of them"; err == nil || err.Error() != want {
			t.Errorf("got %v", err)
		}
	})
}

func TestRefuse(t *testing.T) {
	err := stanza.Refuse(newExec(), "do this")
	if want := `users[].user.exec.args of entry "u" is not valid: do this`; !credential.IsInvalid(err) || err.Error() != want {
		t.Errorf("got %v", err)
	}
}
