// Copyright Contributors to the Open Cluster Management project

package exec

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"open-cluster-management.io/import-provider/pkg/policy"
)

// maxValue is the longest value of a parameter in bytes. It is far above any name or URL, and a hundred of them fit into the space
// that Linux has for arguments.
const maxValue = 4096

// extract returns the values that stand for the parameters in the arguments of a stanza. They are what fill takes, which checks
// them. problem says what is wrong, without a value; it is empty if all is well.
func extract(plugin policy.Plugin, args []string) (values map[string]string, problem string) {
	if len(args) != len(plugin.Args) {
		return nil, fmt.Sprintf("the policy of the hub has %d arguments for the plugin, not %d", len(plugin.Args), len(args))
	}
	values = map[string]string{}
	for i, template := range plugin.Args {
		other, fits := extractOne(template, args[i], values)
		switch {
		case !fits:
			return nil, fmt.Sprintf("argument %d is not what the policy of the hub has there", i+1)
		case other != "":
			return nil, fmt.Sprintf("argument %d has another value for the parameter %s than one before it", i+1, other)
		}
	}
	return values, ""
}

// extractOne adds the values of one argument. other is a parameter that has another value already. Where several stand in one
// argument, a value ends where the text that follows its parameter first occurs.
func extractOne(template, arg string, values map[string]string) (other string, fits bool) {
	places := policy.Placeholder().FindAllStringSubmatchIndex(template, -1)
	if len(places) == 0 {
		return "", arg == template
	}
	rest, fits := strings.CutPrefix(arg, template[:places[0][0]])
	for i, place := range places {
		name := template[place[2]:place[3]]
		var value string
		if i == len(places)-1 {
			var suffix bool
			value, suffix = strings.CutSuffix(rest, template[place[1]:])
			fits = fits && suffix
		} else {
			var between bool
			value, rest, between = strings.Cut(rest, template[place[1]:places[i+1][0]])
			fits = fits && between
		}
		if before, found := values[name]; found && before != value {
			other = name
		}
		values[name] = value
	}
	return other, fits
}

// fill returns the arguments of a plugin with values for its parameters. problem says what is wrong with them, without a value;
// it is empty if all is well.
func fill(plugin policy.Plugin, values map[string]string) (args []string, problem string) {
	var names []string
	for _, template := range plugin.Args {
		for _, place := range policy.Placeholder().FindAllStringSubmatch(template, -1) {
			if !slices.Contains(names, place[1]) {
				names = append(names, place[1])
			}
		}
	}
	for _, name := range names {
		value, found := values[name]
		if !found {
			return nil, "the plugin needs the parameter " + name
		}
		// The policy has it anchored.
		if !regexp.MustCompile(plugin.Parameters[name]).MatchString(value) {
			return nil, "the value of the parameter " + name + " is not one that the policy of the hub allows"
		}
		if len(value) > maxValue || strings.ContainsFunc(value, unicode.IsControl) {
			return nil, fmt.Sprintf("the value of the parameter %s is longer than %d bytes, or has control characters", name, maxValue)
		}
	}
	if len(values) > len(names) {
		if len(names) == 0 {
			return nil, "the plugin takes no parameters"
		}
		return nil, "the plugin takes no parameters but " + strings.Join(names, ", ")
	}
	args = make([]string, len(plugin.Args))
	for i, template := range plugin.Args {
		args[i] = policy.Placeholder().ReplaceAllStringFunc(template, func(place string) string { return values[place[1:len(place)-1]] })
		// An option must come from the policy, and not from a value.
		if strings.HasPrefix(args[i], "-") && !strings.HasPrefix(template, "-") {
			return nil, fmt.Sprintf("argument %d must not begin with a hyphen", i+1)
		}
	}
	return args, ""
}
