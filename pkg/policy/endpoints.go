// Copyright Contributors to the Open Cluster Management project

package policy

import (
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// Errors of CheckServer and CheckAddress. Their texts hold no name and no address, and are fit for a condition.
var (
	ErrHostDenied    = errors.New("the policy of the hub does not allow the host of its server; let the administrator of the hub add it to endpoints.allowHosts, or correct the server")
	ErrAddressDenied = errors.New("the policy of the hub does not allow the address of its server; let the administrator of the hub add it to endpoints.allowCIDRs, or correct the server")
	ErrProxiedHost   = errors.New("the policy of the hub does not name the host of its server, which is behind a proxy; let the administrator of the hub add it to endpoints.allowHosts")
)

// CheckServer checks the host of a server, https://host:port, before its name is resolved. proxied says that a proxy will
// resolve it. The error is ErrHostDenied, ErrProxiedHost or, for a host that is an address, ErrAddressDenied.
func (p *Policy) CheckServer(server string, proxied bool) error {
	host := HostOf(server)
	named := len(p.spec.Endpoints.AllowHosts) > 0 && Matches(p.spec.Endpoints.AllowHosts, host)
	switch {
	case host == "", Matches(p.spec.Endpoints.DenyHosts, host), len(p.spec.Endpoints.AllowHosts) > 0 && !named:
		return ErrHostDenied
	case proxied && !named:
		return ErrProxiedHost
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return p.CheckAddress(addr)
	}
	return nil
}

// CheckAddress checks an address that is about to be dialled. The error is ErrAddressDenied. An IPv6 address that leads to an
// IPv4 one is allowed if both are.
func (p *Policy) CheckAddress(addr netip.Addr) error {
	addr = addr.Unmap()
	if !p.allows(addr) {
		return ErrAddressDenied
	}
	if embedded := embeddedAddress(addr); embedded.IsValid() && !p.allows(embedded) {
		return ErrAddressDenied
	}
	return nil
}

func (p *Policy) allows(addr netip.Addr) bool {
	switch {
	case !addr.IsValid(), addr.Zone() != "", contains(p.denyCIDRs, addr):
		return false
	case len(p.allowCIDRs) > 0 && !contains(p.allowCIDRs, addr):
		return false
	}
	for _, special := range specialRanges() {
		if special.Contains(addr) && !slices.ContainsFunc(p.allowCIDRs, func(allowed netip.Prefix) bool {
			return allowed.Contains(addr) && allowed.Bits() >= special.Bits()
		}) {
			return false
		}
	}
	return true
}

func contains(ranges []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(addr) })
}

// specialRanges are the addresses that no managed cluster has, unless the administrator says so. Those of metadata services
// stand for themselves, so that whoever allows a range around one has not allowed it.
func specialRanges() []netip.Prefix {
	return []netip.Prefix{
		// Of the registries of special-purpose addresses, RFC 6890.
		netip.MustParsePrefix("0.0.0.0/8"),          // this network; Linux takes 0.0.0.0 for the machine itself
		netip.MustParsePrefix("127.0.0.0/8"),        // loopback
		netip.MustParsePrefix("169.254.0.0/16"),     // link-local
		netip.MustParsePrefix("224.0.0.0/4"),        // multicast
		netip.MustParsePrefix("255.255.255.255/32"), // broadcast
		netip.MustParsePrefix("::/128"),             // unspecified
		netip.MustParsePrefix("::1/128"),            // loopback
		netip.MustParsePrefix("fe80::/10"),          // link-local
		netip.MustParsePrefix("ff00::/8"),           // multicast
		// IPv6 that may lead to an IPv4 address in ways that embeddedAddress does not follow.
		netip.MustParsePrefix("::/96"),           // IPv4-compatible, RFC 4291
		netip.MustParsePrefix("::ffff:0:0:0/96"), // IPv4-translated, RFC 2765
		netip.MustParsePrefix("64:ff9b:1::/48"),  // NAT64 of a site, whose prefix length is not known, RFC 8215
		netip.MustParsePrefix("2001::/32"),       // Teredo, RFC 4380

		// Metadata services, and what else gives credentials to whoever asks.
		netip.MustParsePrefix("169.254.169.254/32"), // nearly all clouds
		netip.MustParsePrefix("fd00:ec2::254/128"),  // AWS: aws-sdk-go-v2, feature/ec2/imds/api_client.go
		netip.MustParsePrefix("169.254.170.2/32"),   // AWS, tasks: aws-sdk-go-v2, config/resolve_credentials.go, as the next two
		netip.MustParsePrefix("169.254.170.23/32"),  // AWS, pods
		netip.MustParsePrefix("fd00:ec2::23/128"),   // AWS, pods
		netip.MustParsePrefix("fd20:ce::254/128"),   // Google: cloud.google.com/compute/docs/metadata/querying-metadata
		netip.MustParsePrefix("168.63.129.16/32"),   // Azure: learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
		netip.MustParsePrefix("100.100.100.200/32"), // Alibaba: cloud-init, reference of the data source AliYun
		netip.MustParsePrefix("192.0.0.192/32"),     // Oracle's classic compute service
		netip.MustParsePrefix("169.254.42.42/32"),   // Scaleway: cloud-init, data source Scaleway, as the next
		netip.MustParsePrefix("fd00:42::42/128"),    // Scaleway
	}
}

// embeddedAddress returns the IPv4 address that packets to an IPv6 address come to in the end; invalid if there is none.
func embeddedAddress(addr netip.Addr) netip.Addr {
	bytes := addr.As16()
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(addr): // NAT64, RFC 6052
		return netip.AddrFrom4([4]byte(bytes[12:16]))
	case netip.MustParsePrefix("2002::/16").Contains(addr): // 6to4, RFC 3056
		return netip.AddrFrom4([4]byte(bytes[2:6]))
	}
	return netip.Addr{}
}

// IsPinned says whether the administrator named a cluster with this server and this CA.
func (p *Policy) IsPinned(server string, ca []byte) bool {
	return slices.ContainsFunc(p.spec.Endpoints.Pinned, func(pinned Pinned) bool {
		return SameServer(pinned.Server, server) && SameCA([]byte(pinned.CertificateAuthorityData), ca)
	})
}

// SameServer compares two addresses of servers, https://host[:port][/path]: host without regard to case and a dot at its end,
// port with 443 as the default. An address in another form, or with more to it, is the same as none.
func SameServer(a, b string) bool {
	serverA, serverB := canonicalServer(a), canonicalServer(b)
	return serverA != "" && serverA == serverB
}

// canonicalServer returns one text for all ways to write the address of a server, or "" if it is not one.
func canonicalServer(server string) string {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" || u.User != nil || u.Opaque != "" || u.RawQuery != "" || u.ForceQuery || strings.Contains(server, "#") {
		return ""
	}
	host, port := canonicalHost(u), u.Port()
	if host == "" {
		return ""
	}
	if port == "" {
		port = "443"
	}
	return net.JoinHostPort(host, port) + strings.TrimSuffix(u.EscapedPath(), "/")
}

// HostOf returns the host of a server as it is compared with patterns: canonicalHost, or "" if the server is none.
func HostOf(server string) string {
	u, err := url.Parse(server)
	if err != nil {
		return ""
	}
	return canonicalHost(u)
}

// canonicalHost returns the host of a URL in lower case without a dot at its end, and an IPv6 address in the form of RFC 5952.
// It is "" for a host that is no ASCII text: names in other scripts have an ASCII form.
func canonicalHost(u *url.URL) string {
	host := strings.TrimRight(u.Hostname(), ".")
	if strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().String()
	}
	return strings.ToLower(host)
}

// SameCA says whether two bundles in PEM form have the same certificates: those that a TLS client would trust.
func SameCA(a, b []byte) bool {
	poolA, poolB := x509.NewCertPool(), x509.NewCertPool()
	return poolA.AppendCertsFromPEM(a) && poolB.AppendCertsFromPEM(b) && poolA.Equal(poolB)
}
