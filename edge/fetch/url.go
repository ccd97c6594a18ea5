package fetch

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

const maxURL = 8 << 10

// Check checks the text of a URL as far as is possible without a lookup: scheme, host form and port. It does not
// check the address; the dial does. Callers use it to refuse a submission early. The error is an *Error of kind
// Refused.
func (c *Client) Check(rawURL string) error {
	_, err := c.policy.parse(rawURL)
	return err
}

// Redact returns a URL for records and messages: without user information, and with *** for query values whose key
// suggests a secret. Text that is no URL gives nothing.
func Redact(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return redact(u)
}

// parse returns the URL, or an *Error of kind Refused that quotes no secret of it.
func (p *Policy) parse(raw string) (*url.URL, error) {
	if len(raw) > maxURL {
		return nil, &Error{Kind: Refused, Err: refusal("URL is longer than 8 KiB")}
	}
	if strings.ContainsAny(raw, "\\ \t\r\n") {
		return nil, &Error{Kind: Refused, Err: refusal("URL contains a backslash or white space")}
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, &Error{Kind: Refused, Err: refusal("URL cannot be parsed")}
	}
	if reason := p.refuses(u); reason != "" {
		return nil, &Error{Kind: Refused, URL: redact(u), Err: refusal(reason)}
	}
	return u, nil
}

func (p *Policy) refuses(u *url.URL) string {
	ftp := u.Scheme == "ftp" && p.FTP
	if u.Scheme != "http" && u.Scheme != "https" && !ftp {
		return "scheme is not http or https"
	}
	if u.Opaque != "" || u.Host == "" {
		return "URL has no host"
	}
	if reason := checkHost(u.Hostname(), strings.HasPrefix(u.Host, "[")); reason != "" {
		return reason
	}
	port, err := strconv.ParseUint(portOf(u), 10, 16)
	if err != nil || port == 0 {
		return "port is not a number from 1 to 65535"
	}
	if !p.portAllowed(uint16(port)) && !(ftp && port == 21 && len(p.Ports) == 0) || ftp && port < 1024 && port != 21 {
		return "port " + portOf(u) + " is not allowed"
	}
	return ""
}

// checkHost refuses the spellings that resolvers interpret differently: 0x7f.1, 017700000001, 127.1, "127.0.0.1.",
// zones, mapped addresses, and names outside ASCII (which must be written as punycode).
func checkHost(host string, bracketed bool) string {
	if bracketed {
		a, err := netip.ParseAddr(host)
		switch {
		case err != nil || !a.Is6():
			return "host in brackets is not an IPv6 address"
		case a.Zone() != "":
			return "host has an IPv6 zone"
		case a.Is4In6():
			return "host is an IPv4-mapped IPv6 address"
		}
		return ""
	}
	if len(host) > 253 {
		return "host is longer than 253 bytes"
	}
	if a, err := netip.ParseAddr(host); err == nil && a.Is4() {
		return ""
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	for _, label := range labels {
		if label == "" || len(label) > 63 || strings.Trim(label, hostBytes) != "" {
			return "host is not a valid name"
		}
	}
	if last := labels[len(labels)-1]; isNumber(last) {
		return "host is an unusual spelling of an IPv4 address"
	}
	return ""
}

const hostBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"

// isNumber follows the "ends in a number" rule of the WHATWG URL standard.
func isNumber(label string) bool {
	if strings.Trim(label, "0123456789") == "" {
		return true
	}
	hex, ok := strings.CutPrefix(strings.ToLower(label), "0x")
	return ok && strings.Trim(hex, "0123456789abcdef") == ""
}

func portOf(u *url.URL) string {
	if port := u.Port(); port != "" {
		return port
	}
	switch u.Scheme {
	case "https":
		return "443"
	case "ftp":
		return "21"
	}
	return "80"
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

// redact returns the URL for messages: no user information, and *** for query values whose key suggests a secret
// (signed URLs of object stores).
func redact(u *url.URL) string {
	v := *u
	v.User = nil
	v.Fragment = ""
	v.RawFragment = ""
	if v.RawQuery != "" {
		pairs := strings.Split(v.RawQuery, "&")
		for i, pair := range pairs {
			if key, _, ok := strings.Cut(pair, "="); ok && secretKey(key) {
				pairs[i] = key + "=***"
			}
		}
		v.RawQuery = strings.Join(pairs, "&")
	}
	return v.String()
}

func secretKey(key string) bool {
	key = strings.ToLower(key)
	for _, word := range []string{"sig", "token", "key", "secret", "pass", "pwd", "credential", "auth"} {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}
