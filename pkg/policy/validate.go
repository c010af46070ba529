// Copyright Contributors to the Open Cluster Management project

package policy

import (
	"crypto/x509"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	minPluginTimeout     = time.Second
	maxPluginTimeout     = 5 * time.Minute
	maxPluginOutputBytes = 1 << 20

	// notShown stands for a value that an error does not quote.
	notShown = "…"
)

var (
	// In patterns * stands for any characters.
	namePattern           = form{regexp.MustCompile(`^[a-z0-9*]([a-z0-9*-]*[a-z0-9*])?$`), "must be a name of lower-case letters, digits and hyphens, or a pattern with *"}
	hostPattern           = form{regexp.MustCompile(`^[a-z0-9_*-]([a-z0-9._*-]*[a-z0-9_*-])?$`), "must be a host in lower case without scheme, port or a dot at an end, or a pattern with *"}
	fileName              = form{regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._-]*$`), "must be the name of a file: letters, digits, dots, underscores and hyphens, the first no dot or hyphen"}
	fileNamePattern       = form{regexp.MustCompile(`^[A-Za-z0-9_*][A-Za-z0-9._*-]*$`), "must be the name of a plugin, or a pattern with *"}
	roleARN               = form{regexp.MustCompile(`^arn:[a-z0-9-]+:iam::[0-9]{12}:role/[\w+=,.@/-]+$`), "must be the ARN of a role, or a pattern with * that begins with arn:"}
	roleARNPattern        = form{regexp.MustCompile(`^arn:[\w+=,.@/:*-]+$`), roleARN.text}
	externalID            = form{regexp.MustCompile(`^[\w+=,.@:/-]{2,1000}$`), "must have 2 to 1000 letters, digits and +=,.@:/-, and no braces but {namespace} and {cluster}"}
	serviceAccountPattern = form{regexp.MustCompile(`^[A-Za-z0-9._@:*-]+$`), "must be the email of a service account, or a pattern with *"}
	clientIDPattern       = form{regexp.MustCompile(`^[A-Za-z0-9*-]+$`), "must be a client ID, or a pattern with *"}
	subscriptionID        = form{regexp.MustCompile(`^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$`), "must be the ID of a subscription, a UUID"}
	platform              = form{regexp.MustCompile(`^[a-z0-9]+/[a-z0-9]+$`), "must be a platform such as linux/amd64"}
	digest                = form{regexp.MustCompile(`^[0-9a-fA-F]{64}$`), "must be a SHA-256 in 64 hexadecimal digits"}
	parameterName         = form{regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`), "must begin with a letter, and have letters, digits, underscores and hyphens"}
	variableName          = form{regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`), "must be the name of a variable"}
	domain                = form{regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+$`), "must be a domain in lower case"}

	// loaderVariable is what changes the code that a program runs, or how it checks certificates: with one of these the digest
	// of its file says nothing.
	loaderVariable = regexp.MustCompile(`^(LD_.*|DYLD_.*|GODEBUG)$`)
	placeholder    = regexp.MustCompile(`\{([A-Za-z][A-Za-z0-9_-]*)\}`)
)

// form is how a value must look.
type form struct {
	*regexp.Regexp
	text string
}

// validator collects problems.
type validator struct{ problems field.ErrorList }

func (v *validator) add(problem *field.Error) { v.problems = append(v.problems, problem) }

func (v *validator) invalid(path *field.Path, value any, detail string) {
	v.add(field.Invalid(path, value, detail))
}

func (v *validator) is(path *field.Path, value string, f form) {
	if !f.MatchString(value) {
		v.invalid(path, value, f.text)
	}
}

func (v *validator) each(path *field.Path, values []string, f form) {
	for i, value := range values {
		v.is(path.Index(i), value, f)
	}
}

// some is for a list that is required.
func (v *validator) some(path *field.Path, values []string) {
	if len(values) == 0 {
		v.add(field.Required(path, "must not be empty"))
	}
}

// Placeholder is how a parameter stands in one of Plugin.Args; its group is the name. Other braces stand for themselves.
func Placeholder() *regexp.Regexp { return placeholder }

// validate returns all that is wrong with a policy, in the order of its fields.
func validate(spec *ImportPolicy) field.ErrorList {
	v := &validator{}
	if spec.APIVersion != APIVersion {
		v.invalid(field.NewPath("apiVersion"), spec.APIVersion, "must be "+APIVersion)
	}
	if spec.Kind != Kind {
		v.invalid(field.NewPath("kind"), spec.Kind, "must be "+Kind)
	}
	for i := range spec.Rules {
		v.rule(field.NewPath("rules").Index(i), &spec.Rules[i], spec.Plugins)
	}
	v.endpoints(field.NewPath("endpoints"), &spec.Endpoints)
	if lifetime := spec.StaticCredentials.MaxLifetime.Duration; lifetime < 0 {
		v.invalid(field.NewPath("staticCredentials", "maxLifetime"), lifetime.String(), "must not be negative")
	}
	names := map[string]bool{}
	for i := range spec.Plugins {
		path := field.NewPath("plugins").Index(i)
		if names[spec.Plugins[i].Name] {
			v.add(field.Duplicate(path.Child("name"), spec.Plugins[i].Name))
		}
		names[spec.Plugins[i].Name] = true
		v.plugin(path, &spec.Plugins[i])
	}
	v.clouds(field.NewPath("clouds"), &spec.Clouds)
	return v.problems
}

func (v *validator) rule(path *field.Path, rule *Rule, plugins []Plugin) {
	v.some(path.Child("namespaces"), rule.Namespaces)
	v.each(path.Child("namespaces"), rule.Namespaces, namePattern)
	v.some(path.Child("resolvers"), rule.Resolvers)
	v.each(path.Child("resolvers"), rule.Resolvers, namePattern)
	for i, role := range rule.EKS.Roles {
		expected := roleARN
		if strings.Contains(role, "*") {
			expected = roleARNPattern
		}
		v.is(path.Child("eks", "roles").Index(i), role, expected)
	}
	if id := rule.EKS.ExternalID; id != "" {
		// As long as the shortest names would make it. STS takes 1224, which leaves room for the longest.
		if !externalID.MatchString(strings.NewReplacer("{namespace}", "n", "{cluster}", "c").Replace(id)) {
			v.invalid(path.Child("eks", "externalID"), id, externalID.text)
		}
	}
	v.each(path.Child("gke", "serviceAccounts"), rule.GKE.ServiceAccounts, serviceAccountPattern)
	v.each(path.Child("aks", "clientIDs"), rule.AKS.ClientIDs, clientIDPattern)
	v.each(path.Child("aks", "subscriptions"), rule.AKS.Subscriptions, subscriptionID)
	for i, name := range rule.Plugins {
		at := path.Child("plugins").Index(i)
		v.is(at, name, fileNamePattern)
		if !strings.Contains(name, "*") && !slices.ContainsFunc(plugins, func(p Plugin) bool { return p.Name == name }) {
			v.add(field.NotFound(at, name))
		}
	}
	v.each(path.Child("clusterProfiles", "namespaces"), rule.ClusterProfiles.Namespaces, namePattern)
}

func (v *validator) endpoints(path *field.Path, e *Endpoints) {
	v.hosts(path.Child("allowHosts"), e.AllowHosts)
	v.hosts(path.Child("denyHosts"), e.DenyHosts)
	v.ranges(path.Child("allowCIDRs"), e.AllowCIDRs)
	v.ranges(path.Child("denyCIDRs"), e.DenyCIDRs)
	for i, proxy := range e.Proxies {
		// It may hold a password, which is one of the things that are wrong with it.
		if u, err := url.Parse(proxy); err != nil || u.Scheme != "http" && u.Scheme != "https" || !isOrigin(u) || u.String() != proxy {
			v.invalid(path.Child("proxies").Index(i), notShown, "must be http://host:port or https://host:port, without user, path or query")
		}
	}
	for i, pinned := range e.Pinned {
		at := path.Child("pinned").Index(i)
		if canonicalServer(pinned.Server) == "" {
			v.invalid(at.Child("server"), notShown, "must be https://host:port as in the kubeconfig")
		}
		if !x509.NewCertPool().AppendCertsFromPEM([]byte(pinned.CertificateAuthorityData)) {
			v.invalid(at.Child("certificateAuthorityData"), notShown, "must hold at least one certificate in PEM form")
		}
	}
}

func (v *validator) hosts(path *field.Path, hosts []string) {
	for i, host := range hosts {
		if addr, err := netip.ParseAddr(host); err == nil {
			if canonical := addr.Unmap().WithZone("").String(); canonical != host {
				v.invalid(path.Index(i), host, "must be written as "+canonical)
			}
			continue
		}
		v.is(path.Index(i), host, hostPattern)
	}
}

func (v *validator) ranges(path *field.Path, ranges []string) {
	for i, value := range ranges {
		prefix, err := netip.ParsePrefix(value)
		switch {
		case err != nil:
			v.invalid(path.Index(i), value, "must be a range of addresses such as 10.0.0.0/8")
		case prefix.Addr().Is4In6():
			v.invalid(path.Index(i), value, "must be written as a range of IPv4")
		case prefix.Masked() != prefix:
			v.invalid(path.Index(i), value, "has bits beyond its length: did you mean "+prefix.Masked().String()+"?")
		}
	}
}

func (v *validator) plugin(path *field.Path, p *Plugin) {
	v.is(path.Child("name"), p.Name, fileName)
	if p.File != "" {
		v.is(path.Child("file"), p.File, fileName)
	}
	if len(p.SHA256) == 0 {
		v.add(field.Required(path.Child("sha256"), "must have the digest for each platform of the hub"))
	}
	for _, key := range slices.Sorted(maps.Keys(p.SHA256)) {
		v.is(path.Child("sha256").Key(key), key, platform)
		v.is(path.Child("sha256").Key(key), p.SHA256[key], digest)
	}
	used := map[string]bool{}
	for i, arg := range p.Args {
		at := path.Child("args").Index(i)
		for _, found := range placeholder.FindAllStringSubmatch(arg, -1) {
			used[found[1]] = true
			if _, declared := p.Parameters[found[1]]; !declared {
				v.invalid(at, arg, "has a placeholder that is not one of parameters: {"+found[1]+"}")
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Parameters)) {
		at := path.Child("parameters").Key(name)
		v.is(at, name, parameterName)
		if parameterName.MatchString(name) && !used[name] {
			v.invalid(at, name, "is not used in args")
		}
		// By itself first: a pattern with an odd parenthesis might fit into the one that anchors it.
		if _, err := regexp.Compile(p.Parameters[name]); err != nil {
			v.invalid(at, p.Parameters[name], "must be a regular expression (RE2)")
		} else if _, err := regexp.Compile(anchored(p.Parameters[name])); err != nil {
			v.invalid(at, p.Parameters[name], "is too large a regular expression")
		}
	}
	for i, name := range p.PassEnv {
		v.is(path.Child("passEnv").Index(i), name, variableName)
		if loaderVariable.MatchString(name) {
			v.invalid(path.Child("passEnv").Index(i), name, "is not passed: it would change what the plugin does beyond its digest")
		}
	}
	v.some(path.Child("hosts"), p.Hosts)
	v.hosts(path.Child("hosts"), p.Hosts)
	versions := []string{"", DefaultPluginAPIVersion, "client.authentication.k8s.io/v1beta1"}
	if !slices.Contains(versions, p.APIVersion) {
		v.add(field.NotSupported(path.Child("apiVersion"), p.APIVersion, versions[1:]))
	}
	if timeout := p.Timeout.Duration; timeout != 0 && (timeout < minPluginTimeout || timeout > maxPluginTimeout) {
		v.invalid(path.Child("timeout"), timeout.String(), "must be from 1s to 5m")
	}
	if p.MaxOutputBytes < 0 || p.MaxOutputBytes > maxPluginOutputBytes {
		v.invalid(path.Child("maxOutputBytes"), p.MaxOutputBytes, "must be from 1 to "+strconv.Itoa(maxPluginOutputBytes))
	}
}

func (v *validator) clouds(path *field.Path, clouds *Clouds) {
	for _, service := range []struct {
		path    *field.Path
		address string
	}{
		{path.Child("aws", "sts"), clouds.AWS.STS},
		{path.Child("aws", "eks"), clouds.AWS.EKS},
		{path.Child("gcp", "container"), clouds.GCP.Container},
		{path.Child("gcp", "iamCredentials"), clouds.GCP.IAMCredentials},
		{path.Child("azure", "authority"), clouds.Azure.Authority},
		{path.Child("azure", "resourceManager"), clouds.Azure.ResourceManager},
	} {
		if service.address == "" {
			continue
		}
		if u, err := url.Parse(service.address); err != nil || u.Scheme != "https" || !isOrigin(u) {
			v.invalid(service.path, notShown, "must be https://host or https://host:port, without user, path or query")
		}
	}
	if clouds.GCP.Universe != "" {
		v.is(path.Child("gcp", "universe"), clouds.GCP.Universe, domain)
	}
	environments := []string{"", "AzurePublicCloud", "AzureUSGovernmentCloud", "AzureChinaCloud"}
	if !slices.Contains(environments, clouds.Azure.Environment) {
		v.add(field.NotSupported(path.Child("azure", "environment"), clouds.Azure.Environment, environments[1:]))
	}
}

// isOrigin says that a URL has a host, perhaps a port, and no more.
func isOrigin(u *url.URL) bool {
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return false
		}
	}
	return canonicalHost(u) != "" && !strings.HasSuffix(u.Host, ":") && u.User == nil && u.Opaque == "" && u.Path == "" &&
		u.RawQuery == "" && !u.ForceQuery && u.Fragment == ""
}
