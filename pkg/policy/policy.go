// Copyright Contributors to the Open Cluster Management project

package policy

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
)

// Policy is an ImportPolicy that is valid. It does not change, and is safe for concurrent use; what its methods return is the
// caller's.
type Policy struct {
	spec                  ImportPolicy
	allowCIDRs, denyCIDRs []netip.Prefix
}

// Default is the policy of a hub whose administrator gave none.
func Default() *Policy {
	return &Policy{spec: ImportPolicy{Rules: defaultRules()}}
}

// defaultRules are those of a policy without any.
func defaultRules() []Rule {
	return []Rule{{Namespaces: []string{"*"}, Resolvers: []string{"kubeconfig", "token"}}}
}

// WithRules returns the policy with other rules.
func (p *Policy) WithRules(rules ...Rule) *Policy {
	changed := *p
	changed.spec.Rules = nil
	for _, rule := range rules {
		changed.spec.Rules = append(changed.spec.Rules, rule.clone())
	}
	return &changed
}

// Rule returns the rule for a namespace. Without one that matches it is empty, which allows nothing.
func (p *Policy) Rule(namespace string) Rule {
	for _, rule := range p.spec.Rules {
		if Matches(rule.Namespaces, namespace) {
			return rule.clone()
		}
	}
	return Rule{}
}

// Plugin returns the plugin of a name.
func (p *Policy) Plugin(name string) (Plugin, bool) {
	for _, plugin := range p.spec.Plugins {
		if plugin.Name == name {
			return plugin.clone(), true
		}
	}
	return Plugin{}, false
}

// Plugins returns all plugins, in the order of the file.
func (p *Policy) Plugins() []Plugin {
	var plugins []Plugin
	for _, plugin := range p.spec.Plugins {
		plugins = append(plugins, plugin.clone())
	}
	return plugins
}

// Clouds returns the addresses of cloud services.
func (p *Policy) Clouds() Clouds { return p.spec.Clouds }

// StaticCredentials returns the limits of tokens and certificates that Secrets hold.
func (p *Policy) StaticCredentials() StaticCredentials { return p.spec.StaticCredentials }

// Proxies returns the values of proxy-url that kubeconfigs may have.
func (p *Policy) Proxies() []string { return slices.Clone(p.spec.Endpoints.Proxies) }

func (r Rule) clone() Rule {
	for _, list := range []*[]string{
		&r.Namespaces, &r.Resolvers, &r.EKS.Roles, &r.GKE.ServiceAccounts, &r.AKS.ClientIDs, &r.AKS.Subscriptions, &r.Plugins,
		&r.ClusterProfiles.Namespaces,
	} {
		*list = slices.Clone(*list)
	}
	if r.TokenRequest != nil {
		r.TokenRequest = ptr.To(*r.TokenRequest)
	}
	return r
}

func (p Plugin) clone() Plugin {
	p.SHA256, p.Parameters = maps.Clone(p.SHA256), maps.Clone(p.Parameters)
	p.Args, p.PassEnv, p.Hosts = slices.Clone(p.Args), slices.Clone(p.PassEnv), slices.Clone(p.Hosts)
	return p
}

// Matches says whether a value is one of the patterns, in which * stands for any characters.
func Matches(patterns []string, value string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool { return matches(pattern, value) })
}

func matches(pattern, value string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == value
	}
	first, last := parts[0], parts[len(parts)-1]
	if len(value) < len(first)+len(last) || !strings.HasPrefix(value, first) || !strings.HasSuffix(value, last) {
		return false
	}
	value = value[len(first) : len(value)-len(last)]
	for _, part := range parts[1 : len(parts)-1] {
		at := strings.Index(value, part)
		if at < 0 {
			return false
		}
		value = value[at+len(part):]
	}
	return true
}
