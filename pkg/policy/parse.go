// Copyright Contributors to the Open Cluster Management project

package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	goyaml "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

const (
	// DefaultPluginTimeout is Plugin.Timeout of a plugin that has none.
	DefaultPluginTimeout = 30 * time.Second
	// DefaultPluginOutputBytes is Plugin.MaxOutputBytes of a plugin that has none.
	DefaultPluginOutputBytes = 64 << 10
	// DefaultPluginAPIVersion is Plugin.APIVersion of a plugin that has none.
	DefaultPluginAPIVersion = "client.authentication.k8s.io/v1"
)

// Parse reads a policy, YAML or JSON, strictly: one document, every key known, by exact case, and there once. The error has all
// that is wrong, a line each, with the path of the field. It quotes the file, but for proxies and CAs.
//
// Defaults are set in the result, and Plugin.Parameters are anchored, so that they match nothing but the whole of a value.
func Parse(data []byte) (*Policy, error) {
	spec, err := decode(data)
	if err != nil {
		return nil, err
	}
	if problems := validate(spec); len(problems) > 0 {
		return nil, joined(problems)
	}
	if spec.Rules == nil {
		spec.Rules = defaultRules()
	}
	for i := range spec.Plugins {
		setDefaults(&spec.Plugins[i])
	}
	return &Policy{
		spec: *spec, allowCIDRs: prefixes(spec.Endpoints.AllowCIDRs), denyCIDRs: prefixes(spec.Endpoints.DenyCIDRs),
	}, nil
}

// decode reads the file into the types of this package.
func decode(data []byte) (*ImportPolicy, error) {
	documents := goyaml.NewDecoder(bytes.NewReader(data))
	if err := documents.Decode(&goyaml.Node{}); errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty")
	} else if err == nil && !errors.Is(documents.Decode(&goyaml.Node{}), io.EOF) {
		// The library below would read the first and leave the others.
		return nil, errors.New("the file must be one YAML document")
	}
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says line and key.
	}
	if problems := checkDurations(asJSON); len(problems) > 0 {
		return nil, joined(problems)
	}
	spec := &ImportPolicy{}
	strict, err := kjson.UnmarshalStrict(asJSON, spec)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says the key and the type that it must have.
	}
	return spec, errors.Join(strict...)
}

// checkDurations looks at what decodes itself: the error of a time.Duration does not say where it is.
func checkDurations(asJSON []byte) field.ErrorList {
	var file struct {
		StaticCredentials struct {
			MaxLifetime json.RawMessage `json:"maxLifetime"`
		} `json:"staticCredentials"`
		Plugins []struct {
			Timeout json.RawMessage `json:"timeout"`
		} `json:"plugins"`
	}
	// Values of other types are found when the file is decoded.
	_ = kjson.UnmarshalCaseSensitivePreserveInts(asJSON, &file)
	var problems field.ErrorList
	check := func(path *field.Path, value json.RawMessage) {
		var text string
		if len(value) == 0 {
			return
		}
		if json.Unmarshal(value, &text) == nil {
			if _, err := time.ParseDuration(text); err == nil {
				return
			}
		}
		problems = append(problems, field.Invalid(path, text, "must be a duration such as 30s or 24h"))
	}
	check(field.NewPath("staticCredentials", "maxLifetime"), file.StaticCredentials.MaxLifetime)
	for i, plugin := range file.Plugins {
		check(field.NewPath("plugins").Index(i).Child("timeout"), plugin.Timeout)
	}
	return problems
}

// joined puts each problem on a line of its own.
func joined(problems field.ErrorList) error {
	var errs []error
	for _, problem := range problems {
		errs = append(errs, problem)
	}
	return errors.Join(errs...)
}

func setDefaults(p *Plugin) {
	if p.File == "" {
		p.File = p.Name
	}
	if p.APIVersion == "" {
		p.APIVersion = DefaultPluginAPIVersion
	}
	if p.Timeout.Duration == 0 {
		p.Timeout.Duration = DefaultPluginTimeout
	}
	if p.MaxOutputBytes == 0 {
		p.MaxOutputBytes = DefaultPluginOutputBytes
	}
	for platform, digest := range p.SHA256 {
		p.SHA256[platform] = strings.ToLower(digest)
	}
	for name, pattern := range p.Parameters {
		p.Parameters[name] = anchored(pattern)
	}
}

// anchored makes a regular expression match nothing but the whole of a text.
func anchored(pattern string) string { return fmt.Sprintf("^(?:%s)$", pattern) }

// prefixes are ranges that have been validated.
func prefixes(values []string) []netip.Prefix {
	var parsed []netip.Prefix
	for _, value := range values {
		parsed = append(parsed, netip.MustParsePrefix(value))
	}
	return slices.Clip(parsed)
}
