// Copyright Contributors to the Open Cluster Management project

// Package stanza reads the exec stanzas that cloud CLIs write into kubeconfigs. Nothing is run: a grammar for each tool says
// which words, flags and variables it knows, and all else is an error that names it.
package stanza

import (
	"slices"
	"strings"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

const (
	fieldArgs = "users[].user.exec.args"
	fieldEnv  = "users[].user.exec.env"
	// maxName is the longest name of a flag that an error shows, in bytes.
	maxName = 40
)

// Grammar is what a tool's stanza may hold.
type Grammar struct {
	// Words are the arguments that are no flags, in their order, such as eks get-token.
	Words []string
	// Flags are the flags that are known, by their names with hyphens. Several may be for one value, such as -i and --cluster-id.
	Flags map[string]Flag
	// Env are the variables that are known, and the values that they may have; no list means any value.
	Env map[string][]string
}

// Flag is what a flag is for.
type Flag struct {
	// Value is the name of the value in Values.
	Value string
	// Switch is a flag without a value, which becomes "true".
	Switch bool
	// OneOf are the values that the flag may have. Default: any.
	OneOf []string
}

// Values are the values of flags by Flag.Value, and of variables by their names.
type Values map[string]string

// Parse reads a stanza. The error is an InvalidError that names the flag, the word or the variable, never a value.
func Parse(exec *restconfig.Exec, g Grammar) (Values, error) {
	refuse := func(field string, reason restconfig.Reason, next string) error {
		return credential.Invalid(&restconfig.FieldError{Field: field, Entry: exec.Entry, Reason: reason, NextStep: next})
	}
	tool := credential.CommandName(exec)
	values := Values{}
	words := g.Words
	args := slices.Clone(exec.Args)
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if !strings.HasPrefix(arg, "-") {
			if len(words) == 0 || words[0] != arg {
				return nil, refuse(fieldArgs, restconfig.ReasonUnknown, usage(tool, g))
			}
			words = words[1:]
			continue
		}
		name, value, inline := strings.Cut(arg, "=")
		flag, known := g.Flags[name]
		if !known {
			return nil, refuse(fieldArgs, restconfig.ReasonForbidden, "remove the "+shown("flag", name)+" of "+tool+", which is not known here")
		}
		switch {
		case flag.Switch && inline:
			return nil, refuse(fieldArgs, restconfig.ReasonInvalid, "the flag "+name+" takes no value")
		case flag.Switch:
			value = "true"
		case !inline && len(args) == 0:
			return nil, refuse(fieldArgs, restconfig.ReasonInvalid, "the flag "+name+" needs a value")
		case !inline:
			value, args = args[0], args[1:]
		}
		if _, twice := values[flag.Value]; twice {
			return nil, refuse(fieldArgs, restconfig.ReasonDuplicate, "the flag "+name+" stands twice; keep one of them")
		}
		if len(flag.OneOf) > 0 && !slices.Contains(flag.OneOf, value) {
			return nil, refuse(fieldArgs, restconfig.ReasonForbidden, "the flag "+name+" must be one of "+strings.Join(flag.OneOf, ", "))
		}
		values[flag.Value] = value
	}
	if len(words) > 0 {
		return nil, refuse(fieldArgs, restconfig.ReasonInvalid, usage(tool, g))
	}
	for _, env := range exec.Env {
		allowed, known := g.Env[env.Name]
		if !known {
			return nil, refuse(fieldEnv, restconfig.ReasonForbidden, "remove the "+shown("variable", env.Name)+", which is not known here")
		}
		if _, twice := values[env.Name]; twice {
			return nil, refuse(fieldEnv, restconfig.ReasonDuplicate, "the variable "+env.Name+" stands twice; keep one of them")
		}
		if len(allowed) > 0 && !slices.Contains(allowed, env.Value) {
			return nil, refuse(fieldEnv, restconfig.ReasonForbidden, "the variable "+env.Name+" must be one of "+strings.Join(allowed, ", "))
		}
		values[env.Name] = env.Value
	}
	return values, nil
}

func usage(tool string, g Grammar) string {
	return "only " + strings.Join(append([]string{tool}, g.Words...), " ") + " with flags is known here"
}

// shown names a flag or a variable, if what stands there looks like the name of one.
func shown(what, name string) string {
	if len(name) > maxName || strings.ContainsFunc(name, func(c rune) bool {
		return c != '-' && c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	}) {
		return what
	}
	return what + " " + name
}
