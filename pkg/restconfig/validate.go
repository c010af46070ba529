// Copyright Contributors to the Open Cluster Management project

package restconfig

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

const (
	// maxHost is the longest host name in bytes (RFC 1035, section 2.3.4, without the trailing dot).
	maxHost = 253
	// maxKey is the largest client key in bytes. An RSA key of 16384 bits takes 12.7 KB as PEM. The limit matters because
	// parsing an RSA key costs more than quadratic time in its length.
	maxKey = 16 << 10

	nextServer = "write it as https://host:port"
	nextPair   = "client-certificate-data and client-key-data must be PEM and belong together"
)

// checkServer accepts https://host[:port][/path] and nothing else: no other scheme, no credentials, no query.
func checkServer(server string) *problem {
	if server == "" {
		return &problem{ReasonMissing, nextServer}
	}
	// The error of url.Parse quotes its input.
	u, err := url.Parse(server)
	if err != nil {
		return &problem{ReasonInvalid, nextServer}
	}
	switch {
	case u.Scheme != "https":
		return &problem{ReasonForbidden, "only https is accepted; " + nextServer}
	case u.User != nil:
		return &problem{ReasonForbidden, "remove the user name and password from the address"}
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(server, "#"):
		return &problem{ReasonForbidden, "remove the query and the fragment from the address"}
	case u.Opaque != "" || u.Host == "" || strings.HasSuffix(u.Host, ":") || !validHost(u.Hostname()):
		return &problem{ReasonInvalid, nextServer}
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return &problem{ReasonInvalid, nextServer}
		}
	}
	return nil
}

func checkServerName(name string) *problem {
	if name != "" && !validHost(name) {
		return &problem{ReasonInvalid, "write a host name or an IP address"}
	}
	return nil
}

// validHost accepts IP addresses without a zone and names of letters, digits, dots, hyphens and underscores. Names in
// other scripts have an ASCII form (punycode) that passes. Other ways to write an IPv4 address (2130706433, 0x7f.1, 0177.0.0.1)
// do not: some resolvers and proxies understand them, and no name ends in a number (RFC 3696, section 2).
func validHost(host string) bool {
	if host == "" || len(host) > maxHost {
		return false
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Zone() == ""
	}
	for _, c := range []byte(host) {
		if !isWord(c) {
			return false
		}
	}
	host = strings.TrimRight(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last != "" && !isNumber(last)
}

// isNumber tells whether a label is a number as C writes it: decimal, octal or hexadecimal.
func isNumber(label string) bool {
	digits, hexadecimal := strings.CutPrefix(strings.ToLower(label), "0x")
	if !hexadecimal {
		return strings.Trim(label, "0123456789") == ""
	}
	return strings.Trim(digits, "0123456789abcdef") == ""
}

// checkProxyURL wants what an http.Transport sends requests through, so that none goes round it.
func checkProxyURL(proxy string) *problem {
	if proxy == "" {
		return nil
	}
	if u, err := url.Parse(proxy); err != nil || u.Scheme != "http" && u.Scheme != "https" || !validHost(u.Hostname()) {
		return &problem{ReasonInvalid, "write it as http://host:port"}
	}
	return nil
}

// isWord tells whether c is one of [A-Za-z0-9._-].
func isWord(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		return true
	}
	return false
}

// checkCA wants at least one certificate that parses: what client-go builds its pool of roots from. Without a CA it takes the roots
// of the system, as kubectl does; one that is there and holds nothing must not count as none.
func checkCA(ca []byte) *problem {
	if len(ca) > 0 && !x509.NewCertPool().AppendCertsFromPEM(ca) {
		return &problem{ReasonInvalid, "it must hold at least one certificate in PEM form"}
	}
	return nil
}

// checkPair wants both halves of a client certificate, or neither. onKey tells that the problem is the key's.
func checkPair(cert, key []byte) (p *problem, onKey bool) {
	switch {
	case len(cert) == 0 && len(key) == 0:
		return nil, false
	case len(cert) == 0:
		return &problem{ReasonMissing, nextPair}, false
	case len(key) == 0:
		return &problem{ReasonMissing, nextPair}, true
	case len(key) > maxKey:
		return &problem{ReasonTooLarge, "the limit is 16 KiB"}, true
	}
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		return &problem{ReasonInvalid, nextPair}, false
	}
	return nil, false
}

// trimLine removes one line break at the end: what an editor or "echo" leaves behind.
func trimLine(token string) string {
	return strings.TrimSuffix(strings.TrimSuffix(token, "\n"), "\r")
}

// checkToken wants visible ASCII: the token becomes part of an HTTP header, where a line break would start another one.
func checkToken(token string) *problem {
	for _, c := range []byte(token) {
		if c <= ' ' || c > '~' {
			return &problem{ReasonInvalid, "it must hold no white space, line break or other special character"}
		}
	}
	return nil
}
