// Copyright Contributors to the Open Cluster Management project

package policy_test

import (
	"bytes"
	"encoding/pem"
	"errors"
	"net/netip"
	"testing"

	"open-cluster-management.io/import-provider/pkg/policy"
)

func TestCheckAddress(t *testing.T) {
	special := []string{
		"127.0.0.1", "127.255.255.255", "::1", "0.0.0.0", "0.1.2.3", "::", "169.254.0.1", "169.254.169.254", "169.254.170.2", "169.254.170.23",
		"169.254.42.42", "fe80::1", "febf::1", "224.0.0.1", "239.255.255.255", "ff02::1", "255.255.255.255", "fd00:ec2::254", "fd00:ec2::23",
		"fd20:ce::254", "fd00:42::42", "168.63.129.16", "100.100.100.200", "192.0.0.192",
		// IPv6 around an IPv4 address: mapped, compatible, translated, NAT64, 6to4, Teredo.
		"::ffff:127.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "::7f00:1", "::10.0.0.1", "::ffff:0:127.0.0.1",
		"64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::a9fe:a9fe", "2002:7f00:1::1", "2002:a9fe:a9fe::", "2001:0:1::1",
		// A zone says which interface a packet leaves by.
		"fe80::1%eth0", "2001:db8::1%eth0",
	}
	ordinary := []string{
		"10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1", "8.8.8.8", "240.0.0.1", "fd00::1", "2001:db8::1", "2600::1", "::ffff:10.0.0.1",
		"64:ff9b::10.0.0.1", "2002:a00:1::1", "1.0.0.0", "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "223.255.255.255",
	}
	all := "endpoints: {allowCIDRs: [0.0.0.0/0, '::/0']}"
	cases := []struct {
		name, spec    string
		allow, refuse []string
	}{
		{"default", "", ordinary, special},
		{"everything", all, ordinary, special},
		{"loopback", "endpoints: {allowCIDRs: [0.0.0.0/0, 127.0.0.0/8, '::1/128']}",
			[]string{"127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1", "10.0.0.1"}, []string{"169.254.1.1", "0.0.0.0", "::", "2001:db8::1"}},
		{"part of loopback", "endpoints: {allowCIDRs: [127.0.0.1/32]}", []string{"127.0.0.1"}, []string{"127.0.0.2", "10.0.0.1", "::1"}},
		{"around loopback", "endpoints: {allowCIDRs: [126.0.0.0/7]}", []string{"126.0.0.1"}, []string{"127.0.0.1"}},
		{"link-local", "endpoints: {allowCIDRs: [169.254.0.0/16, 'fe80::/10']}",
			[]string{"169.254.1.1", "fe80::1"}, []string{"169.254.169.254", "169.254.170.23", "169.254.42.42", "fe80::1%eth0"}},
		{"metadata", "endpoints: {allowCIDRs: [169.254.0.0/16, 169.254.169.254/32]}", []string{"169.254.169.254"}, []string{"169.254.170.2"}},
		{"metadata alone", "endpoints: {allowCIDRs: [169.254.169.254/32]}", []string{"169.254.169.254"}, []string{"169.254.1.1"}},
		{"exclusive", "endpoints: {allowCIDRs: [10.1.0.0/16, '2001:db8::/32']}",
			[]string{"10.1.2.3", "::ffff:10.1.2.3", "2001:db8::1"}, []string{"10.2.0.1", "8.8.8.8", "2600::1", "::ffff:10.2.0.1", "64:ff9b::10.1.2.3"}},
		{"denied wins", "endpoints: {allowCIDRs: [10.0.0.0/8, 127.0.0.0/8], denyCIDRs: [10.1.0.0/16, 127.0.0.1/32]}",
			[]string{"10.2.0.1", "127.0.0.2"}, []string{"10.1.0.1", "::ffff:10.1.0.1", "127.0.0.1"}},
		{"denied without allowed", "endpoints: {denyCIDRs: [10.0.0.0/8, 'fd00::/8']}",
			[]string{"11.0.0.1", "2600::1"}, []string{"10.0.0.1", "fd00::1", "::ffff:10.0.0.1", "64:ff9b::10.0.0.1", "2002:a00:1::1"}},
		{"NAT64", "endpoints: {allowCIDRs: ['64:ff9b::/96', 10.1.0.0/16]}", []string{"64:ff9b::10.1.0.1"}, []string{"64:ff9b::10.2.0.1"}},
		{"NAT64 of a site", "endpoints: {allowCIDRs: ['64:ff9b:1::/48']}", []string{"64:ff9b:1::a9fe:a9fe"}, nil},
		{"6to4 denied", "endpoints: {denyCIDRs: ['2002::/16']}", []string{"10.0.0.1"}, []string{"2002:a00:1::1"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := parse(t, c.spec)
			for _, address := range c.allow {
				if err := p.CheckAddress(netip.MustParseAddr(address)); err != nil {
					t.Errorf("%s is denied", address)
				}
			}
			for _, address := range c.refuse {
				if err := p.CheckAddress(netip.MustParseAddr(address)); !errors.Is(err, policy.ErrAddressDenied) {
					t.Errorf("%s: got %v", address, err)
				}
			}
		})
	}
	if err := policy.Default().CheckAddress(netip.Addr{}); !errors.Is(err, policy.ErrAddressDenied) {
		t.Errorf("no address: got %v", err)
	}
}

func TestCheckServer(t *testing.T) {
	const some = "endpoints: {allowHosts: ['*.example.com', 10.0.0.1, '2001:db8::1'], denyHosts: [evil.example.com, '*.evil.example.com']}"
	cases := []struct {
		name, spec, server string
		proxied            bool
		want               error
	}{
		{"default", "", "https://api.anywhere:6443", false, nil},
		{"default, address", "", "https://10.0.0.1:6443", false, nil},
		{"default, special address", "", "https://127.0.0.1:6443", false, policy.ErrAddressDenied},
		{"default, metadata", "", "https://169.254.169.254", false, policy.ErrAddressDenied},
		{"default, IPv6 loopback", "", "https://[::1]:6443", false, policy.ErrAddressDenied},
		{"default, mapped", "", "https://[::ffff:127.0.0.1]:6443", false, policy.ErrAddressDenied},
		{"default, zone", "", "https://[fe80::1%25eth0]", false, policy.ErrAddressDenied},
		{"default, proxied", "", "https://api.anywhere:6443", true, policy.ErrProxiedHost},
		{"default, proxied address", "", "https://10.0.0.1:6443", true, policy.ErrProxiedHost},
		{"not a URL", "", "https://a b", false, policy.ErrHostDenied},
		{"no host", "", "https://:6443", false, policy.ErrHostDenied},
		{"not ASCII", "", "https://höst", false, policy.ErrHostDenied},

		{"allowed", some, "https://api.example.com:6443", false, nil},
		{"allowed, upper case", some, "https://API.Example.COM", false, nil},
		{"allowed, dot at the end", some, "https://api.example.com.:6443", false, nil},
		{"allowed, proxied", some, "https://api.example.com", true, nil},
		{"allowed address", some, "https://10.0.0.1:6443", false, nil},
		{"allowed address, mapped", some, "https://[::ffff:10.0.0.1]", false, nil},
		{"allowed IPv6, another form", some, "https://[2001:DB8:0::1]", false, nil},
		{"not allowed", some, "https://example.com", false, policy.ErrHostDenied},
		{"not allowed, prefix", some, "https://api.example.com.attacker.net", false, policy.ErrHostDenied},
		{"not allowed, user", some, "https://api.example.com@attacker.net", false, policy.ErrHostDenied},
		{"not allowed address", some, "https://10.0.0.2", false, policy.ErrHostDenied},
		{"not allowed, proxied", some, "https://attacker.net", true, policy.ErrHostDenied},
		{"denied", some, "https://evil.example.com", false, policy.ErrHostDenied},
		{"denied, upper case", some, "https://EVIL.example.com", false, policy.ErrHostDenied},
		{"denied, dots at the end", some, "https://evil.example.com..", false, policy.ErrHostDenied},
		{"denied pattern", some, "https://a.evil.example.com", false, policy.ErrHostDenied},
		{"denied, proxied", some, "https://evil.example.com", true, policy.ErrHostDenied},
		{"only denied", "endpoints: {denyHosts: [a]}", "https://b", false, nil},
		{"only denied, proxied", "endpoints: {denyHosts: [a]}", "https://b", true, policy.ErrProxiedHost},
		{"address that its range denies", "endpoints: {allowHosts: ['*'], denyCIDRs: [10.0.0.0/8]}", "https://10.0.0.1", false, policy.ErrAddressDenied},
		{"proxied address that its range denies", "endpoints: {allowHosts: ['*'], denyCIDRs: [10.0.0.0/8]}", "https://10.0.0.1", true, policy.ErrAddressDenied},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if err := parse(t, c.spec).CheckServer(c.server, c.proxied); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func TestSameServer(t *testing.T) {
	cases := []struct {
		a, b string
		want bool
	}{
		{"https://a", "https://a", true},
		{"https://a", "https://a:443", true},
		{"https://a:443", "https://A.", true},
		{"https://a/", "https://a", true},
		{"https://a/b/", "https://a/b", true},
		{"https://10.0.0.1:6443", "https://10.0.0.1:6443", true},
		{"https://[2001:db8::1]", "https://[2001:DB8:0:0::1]:443", true},
		{"https://xn--hst-sna", "https://XN--HST-SNA", true},

		{"https://a", "https://b", false},
		{"https://a", "https://a:6443", false},
		{"https://a", "https://a.b", false},
		{"https://a", "http://a", false},
		{"http://a", "http://a", false},
		{"https://a", "a", false},
		{"a", "a", false},
		{"", "", false},
		{"https://", "https://", false},
		{"https://:443", "https://", false},
		{"https://a", "https://a/b", false},
		{"https://a/b", "https://a/B", false},
		{"https://a/b/c", "https://a/b%2Fc", false},
		{"https://u@a", "https://u@a", false},
		{"https://a", "https://a@b", false},
		{"https://a", "https://b@a", false},
		{"https://a?b", "https://a?b", false},
		{"https://a", "https://a?", false},
		{"https://a", "https://a#", false},
		{"https://höst", "https://höst", false},
		{"https://a", "https://a%00", false},
		{"https://[fe80::1%25eth0]", "https://[fe80::1%25eth1]", false},
		{"https://a", "https:a", false},
		{"https:a", "https:a", false},
	}
	for _, c := range cases {
		if got := policy.SameServer(c.a, c.b); got != c.want {
			t.Errorf("%q and %q: %t", c.a, c.b, got)
		}
		if policy.SameServer(c.b, c.a) != c.want {
			t.Errorf("%q and %q: not symmetric", c.b, c.a)
		}
	}
}

func TestSameCA(t *testing.T) {
	one, two := newCA(t), newCA(t)
	block, _ := pem.Decode(one)
	notACertificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
	otherType := pem.EncodeToMemory(&pem.Block{Type: "TRUSTED CERTIFICATE", Bytes: block.Bytes})
	withHeader := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes, Headers: map[string]string{"a": "b"}})
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, []byte("\n")) }
	cases := []struct {
		name string
		a, b []byte
		want bool
	}{
		{"same", one, one, true},
		{"order", join(one, two), join(two, one), true},
		{"twice", join(one, one), one, true},
		{"comments", join([]byte("a comment"), one), one, true},
		{"what no client trusts", join(one, notACertificate, otherType), one, true},

		{"other", one, two, false},
		{"one more", join(one, two), one, false},
		{"one less", one, join(one, two), false},
		{"none and none", nil, nil, false},
		{"none", one, nil, false},
		{"empty", one, []byte("\n"), false},
		{"no certificates", notACertificate, notACertificate, false},
		{"another type", otherType, one, false},
		{"another type, twice", otherType, otherType, false},
		{"with a header, which no client trusts", withHeader, one, false},
		{"not PEM", []byte("x"), []byte("x"), false},
		{"DER", block.Bytes, one, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if policy.SameCA(c.a, c.b) != c.want || policy.SameCA(c.b, c.a) != c.want {
				t.Errorf("want %t", c.want)
			}
		})
	}
}

func TestIsPinned(t *testing.T) {
	one, two := newCA(t), newCA(t)
	p := parse(t, "endpoints:\n  pinned:\n  - server: https://a:6443\n    certificateAuthorityData: "+inYAML(one, "      ")+
		"  - server: https://b\n    certificateAuthorityData: "+inYAML(two, "      "))
	cases := []struct {
		server string
		ca     []byte
		want   bool
	}{
		{"https://a:6443", one, true},
		{"https://A.:6443/", one, true},
		{"https://b:443", two, true},
		{"https://a", one, false},
		{"https://a:6443", two, false},
		{"https://b", one, false},
		{"https://a:6443", nil, false},
		{"https://a:6443", append(bytes.Clone(one), two...), false},
	}
	for _, c := range cases {
		if got := p.IsPinned(c.server, c.ca); got != c.want {
			t.Errorf("%s: got %t", c.server, got)
		}
	}
	if policy.Default().IsPinned("https://a", one) {
		t.Error("pinned by nobody")
	}
}
