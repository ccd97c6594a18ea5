package signin

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/server/identity"
)

// ProxySecretHeader has the secret that a trusted proxy shares with the server.
const ProxySecretHeader = "X-Stagepost-Proxy-Secret"

// Proxy authenticates people by header fields of a trusted proxy, such as a web server with Shibboleth. The proxy must
// remove these fields from the requests of its clients.
type Proxy struct {
	User, Display, Groups string         // names of header fields; Groups has semicolons between groups
	From                  []netip.Prefix // addresses of proxies
	Secret                string         // what [ProxySecretHeader] has; empty: From decides alone
	Rules                 Rules
	Names                 *Names // that the proxy must not give; nil: none
}

// Validate returns what is missing.
func (p *Proxy) Validate() error {
	switch {
	case p.User == "":
		return errors.New("the header field with the user's name is missing")
	case len(p.From) == 0 && p.Secret == "":
		return errors.New("name the addresses of the proxy, or a secret that it shares with the server: each client " +
			"could send the header fields")
	case len(p.Rules) == 0:
		return errors.New("no rule gives a role: depositor=* admits all people whom the proxy names")
	}
	return nil
}

// proxyMark begins the keys of identities of a proxy, which have no credential that could be revoked.
var proxyMark = []byte("stagepost-proxy:")

// unset is what Apache sends for a variable that is not set: RequestHeader set X-Remote-User %{REMOTE_USER}s.
const unset = "(null)"

// splitGroups splits at semicolons. Shibboleth writes one that a value has with a backslash before it.
func splitGroups(text string) (groups []string) {
	one := ""
	for i := 0; i <= len(text); i++ {
		switch {
		case i == len(text) || text[i] == ';':
			groups, one = append(groups, strings.TrimSpace(one)), ""
		case text[i] == '\\' && i+1 < len(text) && text[i+1] == ';':
			one += ";"
			i++
		default:
			one += text[i : i+1]
		}
	}
	return groups
}

// Identify is part of [identity.Source]. The fields of clients that are no trusted proxy are ignored.
func (p *Proxy) Identify(r *http.Request) (identity.Identity, error) {
	sent := r.Header.Values(p.User)
	if len(sent) == 0 || sent[0] == "" || sent[0] == unset || !p.trusts(r) {
		return identity.Identity{}, identity.ErrNone
	}
	if len(sent) > 1 {
		return identity.Identity{}, errors.New("the proxy names several users")
	}
	who := identity.Identity{Name: sent[0], Way: identity.ByProxy}
	if err := identity.CheckNewName(who.Name); err != nil {
		return identity.Identity{}, err
	}
	if p.Display != "" {
		if display := strings.TrimSpace(r.Header.Get(p.Display)); display != unset &&
			identity.ValidateDisplay(display) == nil {
			who.Display = display
		}
	}
	var groups []string
	if p.Groups != "" {
		for _, value := range r.Header.Values(p.Groups) {
			groups = append(groups, splitGroups(value)...)
		}
	}
	if !p.Rules.apply(&who, groups) {
		return identity.Identity{}, errors.New("none of your groups has a role here: ask an admin")
	}
	if err := p.Names.check(who.Name, "proxy"); err != nil {
		return identity.Identity{}, err
	}
	sum := sha256.Sum256([]byte(who.Name))
	copy(who.Key[copy(who.Key[:], proxyMark):], sum[:])
	return who, nil
}

// trusts reports whether a request comes from a trusted proxy.
func (p *Proxy) trusts(r *http.Request) bool {
	if len(p.From) > 0 {
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		address := peer.Addr().Unmap().WithZone("")
		if err != nil || !slices.ContainsFunc(p.From, func(n netip.Prefix) bool { return n.Contains(address) }) {
			return false
		}
	}
	if p.Secret == "" {
		return true
	}
	sent := r.Header.Values(ProxySecretHeader)
	return len(sent) == 1 && subtle.ConstantTimeCompare([]byte(sent[0]), []byte(p.Secret)) == 1
}

// Valid is part of [identity.Source]. The role of a person is known at its next request only.
func (p *Proxy) Valid(who *identity.Identity) bool { return bytes.HasPrefix(who.Key[:], proxyMark) }

// Fault is part of [identity.Source].
func (p *Proxy) Fault() error { return nil }
