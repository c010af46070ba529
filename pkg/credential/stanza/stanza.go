// Copyright Contributors to the Open Cluster Management project

// Package stanza reads the exec stanzas that cloud CLIs write into kubeconfigs. Nothing is run: a grammar for each tool says
// which words, flags and variables it knows, and all else is an error that names it.
package stanza

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"open-cluster-management.io/import-provider/pkg/credential"
	"open-cluster-management.io/import-provider/pkg/restconfig"
)

const (
	fieldArgs = "users[].user.exec.args"
	fieldEnv  = "users[].user.exec.env"
	// maxName is the longest name of a flag or a variable that an error shows, in bytes.
	maxName = 40
)

// Grammar is what a tool's stanza may hold.
type Grammar struct {
	// Words are the arguments that are no flags, in their order, such as eks get-token. Flags may stand before, between and after them.
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

// Values are the values of flags by Flag.Value, and of variables by their names. None is empty.
type Values map[string]string

// Parse reads a stanza, which it does not change. A flag is written in full, as "--flag value", "--flag=value", "-f value" or
// "-f=value"; no abbreviation, no short flags in one argument, no "--". A value is not empty, does not begin with a hyphen, and
// has printable characters only: one that does is more likely a trick, or a flag whose value was forgotten.
//
// The error is an InvalidError that names the flag or the variable, never a value. The first problem is reported, in the order of
// the arguments and then the variables.
func Parse(exec *restconfig.Exec, g Grammar) (Values, error) {
	p := parser{exec: exec, grammar: g, values: Values{}}
	if err := p.args(); err != nil {
		return nil, err
	}
	if err := p.env(); err != nil {
		return nil, err
	}
	return p.values, nil
}

// Refuse is the InvalidError for a stanza whose values are of no use; next tells a person what to do, without a value.
func Refuse(exec *restconfig.Exec, next string) error {
	return refuse(exec, fieldArgs, restconfig.ReasonInvalid, next)
}

func refuse(exec *restconfig.Exec, field string, reason restconfig.Reason, next string) error {
	return credential.Invalid(&restconfig.FieldError{Field: field, Entry: exec.Entry, Reason: reason, NextStep: next})
}

type parser struct {
	exec    *restconfig.Exec
	grammar Grammar
	values  Values
}

func (p *parser) args() error {
	words, args := p.grammar.Words, p.exec.Args
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		if !strings.HasPrefix(arg, "-") {
			if len(words) == 0 || words[0] != arg {
				return p.usage()
			}
			words = words[1:]
			continue
		}
		name, value, inline := strings.Cut(arg, "=")
		flag, known := p.grammar.Flags[name]
		switch {
		case !known:
			return p.unknown(name)
		case flag.Switch && inline:
			return refuse(p.exec, fieldArgs, restconfig.ReasonInvalid, "the flag "+name+" takes no value")
		case flag.Switch:
			value = "true"
		case !inline && len(args) > 0:
			value, args = args[0], args[1:]
		}
		if err := p.set(fieldArgs, "the flag "+name, flag.Value, value, flag.OneOf); err != nil {
			return err
		}
	}
	if len(words) > 0 {
		return p.usage()
	}
	return nil
}

func (p *parser) env() error {
	for _, env := range p.exec.Env {
		allowed, known := p.grammar.Env[env.Name]
		if !known {
			return refuse(p.exec, fieldEnv, restconfig.ReasonForbidden, "remove the "+shown("variable", env.Name)+", which is not known here")
		}
		if err := p.set(fieldEnv, "the variable "+env.Name, env.Name, env.Value, allowed); err != nil {
			return err
		}
	}
	return nil
}

// set keeps a value. what is the flag or the variable, both of the grammar.
func (p *parser) set(field, what, name, value string, oneOf []string) error {
	_, twice := p.values[name]
	switch {
	case twice:
		return refuse(p.exec, field, restconfig.ReasonDuplicate, what+" is set already; keep one of them")
	case value == "":
		return refuse(p.exec, field, restconfig.ReasonInvalid, what+" needs a value")
	case len(oneOf) > 0 && !slices.Contains(oneOf, value):
		return refuse(p.exec, field, restconfig.ReasonForbidden, what+" must be one of "+strings.Join(oneOf, ", "))
	case strings.HasPrefix(value, "-"):
		return refuse(p.exec, field, restconfig.ReasonInvalid, "the value of "+what+" must not begin with a hyphen")
	case !utf8.ValidString(value) || strings.ContainsFunc(value, func(c rune) bool { return !unicode.IsPrint(c) }):
		return refuse(p.exec, field, restconfig.ReasonInvalid, "the value of "+what+" must have printable characters only")
	}
	p.values[name] = value
	return nil
}

// unknown is the error for an argument that begins with a hyphen and is no flag of the grammar.
func (p *parser) unknown(name string) error {
	tool := credential.CommandName(p.exec)
	if len(name) > 2 && name[1] != '-' {
		// The value of a short flag, or more of them, may stand right behind it.
		if _, known := p.grammar.Flags[name[:2]]; known {
			return refuse(p.exec, fieldArgs, restconfig.ReasonInvalid, "write the value of the flag "+name[:2]+" as an argument of its own")
		}
		name = name[:2]
	}
	return refuse(p.exec, fieldArgs, restconfig.ReasonForbidden, "remove the "+shown("flag", name)+" of "+tool+", which is not known here")
}

func (p *parser) usage() error {
	words := append([]string{credential.CommandName(p.exec)}, p.grammar.Words...)
	return refuse(p.exec, fieldArgs, restconfig.ReasonInvalid, "only "+strings.Join(words, " ")+" with flags is known here")
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
