// Copyright Contributors to the Open Cluster Management project

package policy

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// Policy is an ImportPolicy that is valid. It does not change, and is safe for concurrent use.
type Policy struct {
	spec                  ImportPolicy
	allowCIDRs, denyCIDRs []netip.Prefix
}

// Default is the policy of a hub whose administrator gave none.
func Default() *Policy {
	return &Policy{spec: ImportPolicy{Rules: []Rule{{Namespaces: []string{"*"}, Resolvers: []string{"kubeconfig", "token"}}}}}
}

// WithRules returns the policy with other rules.
func (p *Policy) WithRules(rules ...Rule) *Policy {
	changed := *p
	changed.spec.Rules = rules
	return &changed
}

// Parse reads a policy strictly. The error has all that is wrong, each with the path of the field.
func Parse(data []byte) (*Policy, error) {
	p := Default()
	spec := ImportPolicy{}
	if err := yaml.UnmarshalStrict(data, &spec); err != nil {
		return nil, fmt.Errorf("reading the policy: %w", err)
	}
	if spec.APIVersion != APIVersion || spec.Kind != Kind {
		return nil, fmt.Errorf("apiVersion and kind: must be %s and %s", APIVersion, Kind)
	}
	if spec.Rules == nil {
		spec.Rules = p.spec.Rules
	}
	p.spec = spec
	var err error
	if p.allowCIDRs, err = prefixes(spec.Endpoints.AllowCIDRs); err != nil {
		return nil, fmt.Errorf("endpoints.allowCIDRs: %w", err)
	}
	if p.denyCIDRs, err = prefixes(spec.Endpoints.DenyCIDRs); err != nil {
		return nil, fmt.Errorf("endpoints.denyCIDRs: %w", err)
	}
	return p, nil
}

func prefixes(values []string) ([]netip.Prefix, error) {
	var parsed []netip.Prefix
	for _, value := range values {
		prefix, err := netip.ParsePrefix(value)
		if err != nil {
			return nil, fmt.Errorf("%q is not a range of addresses", value)
		}
		parsed = append(parsed, prefix.Masked())
	}
	return parsed, nil
}

// Rule returns the rule for a namespace. Without one that matches it is empty, which allows nothing.
func (p *Policy) Rule(namespace string) Rule {
	for _, rule := range p.spec.Rules {
		if Matches(rule.Namespaces, namespace) {
			return rule
		}
	}
	return Rule{}
}

// Resolvers returns the names of the resolvers that some rule allows, sorted.
func (p *Policy) Resolvers() []string {
	var names []string
	for _, rule := range p.spec.Rules {
		names = append(names, rule.Resolvers...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Plugin returns the plugin of a name.
func (p *Policy) Plugin(name string) (Plugin, bool) {
	for _, plugin := range p.spec.Plugins {
		if plugin.Name == name {
			return plugin, true
		}
	}
	return Plugin{}, false
}

// Plugins returns all plugins, in the order of the file.
func (p *Policy) Plugins() []Plugin { return slices.Clone(p.spec.Plugins) }

// Clouds returns the addresses of cloud services.
func (p *Policy) Clouds() Clouds { return p.spec.Clouds }

// StaticCredentials returns the limits of tokens and certificates that Secrets hold.
func (p *Policy) StaticCredentials() StaticCredentials { return p.spec.StaticCredentials }

// Proxies returns the values of proxy-url that kubeconfigs may have.
func (p *Policy) Proxies() []string { return slices.Clone(p.spec.Endpoints.Proxies) }

// Errors of CheckServer and CheckAddress. Their texts hold no name and no address, and are fit for a condition.
var (
	ErrHostDenied    = errors.New("the policy of the hub does not allow the host of its server; let the administrator of the hub add it to endpoints.allowHosts, or correct the server")
	ErrAddressDenied = errors.New("the policy of the hub does not allow the address of its server; let the administrator of the hub add it to endpoints.allowCIDRs, or correct the server")
	ErrProxiedHost   = errors.New("the policy of the hub does not name the host of its server, which is behind a proxy; let the administrator of the hub add it to endpoints.allowHosts")
)

// CheckServer checks the host of a server, https://host:port, before its name is resolved. proxied says that a proxy will
// resolve it. The error is ErrHostDenied, ErrProxiedHost or, for a host that is an address, ErrAddressDenied.
func (p *Policy) CheckServer(server string, proxied bool) error {
	host := hostOf(server)
	named := len(p.spec.Endpoints.AllowHosts) > 0 && Matches(p.spec.Endpoints.AllowHosts, host)
	switch {
	case Matches(p.spec.Endpoints.DenyHosts, host), len(p.spec.Endpoints.AllowHosts) > 0 && !named:
		return ErrHostDenied
	case proxied && !named:
		return ErrProxiedHost
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return p.CheckAddress(addr)
	}
	return nil
}

// CheckAddress checks an address that is about to be dialled. The error is ErrAddressDenied.
func (p *Policy) CheckAddress(addr netip.Addr) error {
	addr = addr.Unmap()
	if contains(p.denyCIDRs, addr) {
		return ErrAddressDenied
	}
	if len(p.allowCIDRs) > 0 && !contains(p.allowCIDRs, addr) {
		return ErrAddressDenied
	}
	for _, special := range specialRanges() {
		if special.Contains(addr) && !slices.ContainsFunc(p.allowCIDRs, func(allowed netip.Prefix) bool {
			return allowed.Contains(addr) && allowed.Bits() >= special.Bits() && special.Contains(allowed.Addr())
		}) {
			return ErrAddressDenied
		}
	}
	return nil
}

func contains(ranges []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(addr) })
}

// specialRanges are the addresses that no managed cluster has, unless the administrator says so.
func specialRanges() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"),
		netip.MustParsePrefix("169.254.0.0/16"), netip.MustParsePrefix("fe80::/10"),
	}
}

// IsPinned says whether the administrator named a cluster with this server and this CA.
func (p *Policy) IsPinned(server string, ca []byte) bool {
	for _, pinned := range p.spec.Endpoints.Pinned {
		if SameServer(pinned.Server, server) && SameCA([]byte(pinned.CertificateAuthorityData), ca) {
			return true
		}
	}
	return false
}

// SameServer compares two addresses of servers: host without regard to case, port with 443 as the default. The path must be equal.
func SameServer(a, b string) bool {
	ua, errA := url.Parse(a)
	ub, errB := url.Parse(b)
	if errA != nil || errB != nil || ua.Scheme != "https" || ub.Scheme != "https" {
		return false
	}
	return hostPort(ua) == hostPort(ub) && strings.TrimSuffix(ua.Path, "/") == strings.TrimSuffix(ub.Path, "/")
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), port)
}

// SameCA says whether two bundles in PEM form have the same certificates.
func SameCA(a, b []byte) bool {
	ca, cb := certificates(a), certificates(b)
	return len(ca) > 0 && slices.Equal(ca, cb)
}

func certificates(data []byte) []string {
	var found []string
	for {
		var block *pem.Block
		if block, data = pem.Decode(data); block == nil {
			slices.Sort(found)
			return slices.Compact(found)
		}
		if _, err := x509.ParseCertificate(block.Bytes); err == nil {
			found = append(found, string(block.Bytes))
		}
	}
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

// hostOf returns the host of a server in lower case, without a trailing dot.
func hostOf(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}
