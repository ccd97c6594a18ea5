package host

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/stagepost/stagepost/cli"
	"github.com/stagepost/stagepost/config"
	"github.com/stagepost/stagepost/internal/secretfile"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/account"
	"github.com/stagepost/stagepost/server/authority"
	"github.com/stagepost/stagepost/server/grants"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/signin"
	"github.com/stagepost/stagepost/server/token"
)

// signInSettings are those of who may use a server.
type signInSettings struct {
	Tokens         string        `name:"tokens" for:"serve" doc:"file of the tokens that may use the API (stagepost admin token new); without tokens, users, oidc.issuer and proxy.user every client that reaches the server may do everything"`
	Users          string        `name:"users" for:"serve" doc:"file of the local users, who sign in with a password (stagepost admin user new); it is made if it is missing; defaults to none"`
	PublicURL      string        `name:"url" for:"serve" doc:"the address of the server as browsers use it, such as https://jobs.example.org; oidc.issuer needs it, and links to pass on begin with it; defaults to that of listen"`
	SessionDir     string        `name:"session.dir" for:"serve" doc:"directory of the sessions of browsers, which several servers may share; defaults to sessions in the shared directory, of one server alone in the data directory"`
	SessionIdle    time.Duration `name:"session.idle" for:"serve" default:"2h" doc:"how long after its last use a session ends"`
	SessionLongest time.Duration `name:"session.longest" for:"serve" default:"24h" doc:"how long after its beginning a session ends"`
	RoleRules      string        `name:"roles" for:"serve" doc:"roles of people whom oidc.issuer or proxy.user authenticates: ROLE=GROUP or ROLE:GROUPS-OF-JOBS=GROUP, each rule ends with a semicolon, and the first that fits counts; the group * is all people"`
	SharedNames    bool          `name:"names.shared" for:"serve" default:"false" doc:"a person whom oidc.issuer or proxy.user names as a local user or the owner of a token is that person, with its jobs: for names of one directory. Such a sign-in is refused otherwise"`
	OIDCIssuer     string        `name:"oidc.issuer" for:"serve" doc:"URL of a provider of OpenID Connect; defaults to none"`
	OIDCClient     string        `name:"oidc.client" for:"serve" doc:"the client id at the provider"`
	OIDCSecret     string        `name:"oidc.secret_file" for:"serve" doc:"file with the client secret at the provider"`
	OIDCTitle      string        `name:"oidc.title" for:"serve" doc:"text of the link to the provider; defaults to its URL"`
	OIDCName       string        `name:"oidc.name" for:"serve" default:"preferred_username" doc:"the claim that names a person in records, which must not be given to another person"`
	OIDCGroups     string        `name:"oidc.groups" for:"serve" default:"groups" doc:"the claim with the groups of a person"`
	ProxyUser      string        `name:"proxy.user" for:"serve" doc:"header field in which a trusted proxy, such as one with Shibboleth, names the user, such as X-Remote-User; the proxy must remove this field, those of proxy.groups and proxy.display, and X-Stagepost-Proxy-Secret from the requests of clients; defaults to none"`
	ProxyDisplay   string        `name:"proxy.display" for:"serve" doc:"header field with the name to show; defaults to none"`
	ProxyGroups    string        `name:"proxy.groups" for:"serve" doc:"header field with the groups of the user, each ends with a semicolon; defaults to none"`
	ProxyFrom      string        `name:"proxy.from" for:"serve" list:"," doc:"addresses or networks (10.0.0.0/8) of trusted proxies, with commas between them; their X-Forwarded-For is believed, too"`
	ProxySecret    string        `name:"proxy.secret_file" for:"serve" doc:"file with the secret that the proxy sends in the header field X-Stagepost-Proxy-Secret"`
	TLSCert        string        `name:"tls.cert" for:"serve" doc:"certificate file of listen: the certificate and its chain (PEM), which is read again when it changes; defaults to none: no TLS"`
	TLSKey         string        `name:"tls.key_file" for:"serve" doc:"file with the key of tls.cert (PEM), which only its owner may read"`
	CADir          string        `name:"ca.dir" for:"serve" doc:"directory of the local certificate authority (stagepost admin ca init), which issues the certificate of listen and those of workers and agents; defaults to none; it excludes tls.cert"`
	CALifetime     time.Duration `name:"ca.lifetime" for:"serve" default:"24h" doc:"how long a certificate of a worker or agent is valid; they renew it after two thirds of this time"`
	RateIdentity   int64         `name:"rate.identity" for:"serve" zero:"unlimited" default:"1000" doc:"requests in a second of one person, worker or token owner, in the long run; unlimited: as many as come"`
	RateAddress    int64         `name:"rate.address" for:"serve" zero:"unlimited" default:"100" doc:"requests in a second from one address without an identity, in the long run; unlimited: as many as come"`
}

// authenticates reports whether clients must name themselves.
func (s *signInSettings) authenticates() bool {
	return s.Tokens != "" || s.Users != "" || s.OIDCIssuer != "" || s.ProxyUser != "" || s.CADir != ""
}

// browsers reports whether people sign in by the page of the server.
func (s *signInSettings) browsers() bool {
	return s.Tokens != "" || s.Users != "" || s.OIDCIssuer != ""
}

// tls reports whether browsers reach the server by TLS.
func (s *signInSettings) tls() bool {
	return s.TLSCert != "" || s.CADir != "" || strings.HasPrefix(s.PublicURL, "https://")
}

// proxies reads the networks of proxy.from.
func (s *signInSettings) proxies() (all []netip.Prefix, err error) {
	for _, text := range config.List(s.ProxyFrom) {
		n, err := netip.ParsePrefix(text)
		if address, wrong := netip.ParseAddr(text); wrong == nil {
			n, err = netip.PrefixFrom(address, address.BitLen()), nil
		}
		if err != nil {
			return nil, fmt.Errorf("proxy.from: %q is no address and no network", text)
		}
		all = append(all, n)
	}
	return all, nil
}

// oidc makes the provider of the settings; nil if there is none.
func (s *signInSettings) oidc(rules signin.Rules) (*signin.OIDC, error) {
	if s.OIDCIssuer == "" {
		return nil, nil
	}
	o := &signin.OIDC{Issuer: s.OIDCIssuer, Client: s.OIDCClient, Title: s.OIDCTitle, Name: s.OIDCName,
		Groups: s.OIDCGroups, Rules: rules}
	if base, err := url.Parse(s.PublicURL); err == nil && base.Host != "" {
		o.Redirect = base.JoinPath(signin.CallbackPath).String()
	}
	if s.OIDCSecret != "" {
		var err error
		if o.Secret, err = secretfile.ReadMounted(s.OIDCSecret); err != nil {
			return nil, fmt.Errorf("oidc.secret_file: %w", err)
		}
	}
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("oidc (settings oidc.*, url, roles): %w", err)
	}
	return o, nil
}

// proxy makes the source of identities of a trusted proxy; nil if there is none.
func (s *signInSettings) proxy(rules signin.Rules) (*signin.Proxy, error) {
	if s.ProxyUser == "" {
		return nil, nil
	}
	p := &signin.Proxy{User: s.ProxyUser, Display: s.ProxyDisplay, Groups: s.ProxyGroups, Rules: rules}
	var err error
	if p.From, err = s.proxies(); err != nil {
		return nil, err
	}
	if s.ProxySecret != "" {
		if p.Secret, err = secretfile.ReadMounted(s.ProxySecret); err != nil {
			return nil, fmt.Errorf("proxy.secret_file: %w", err)
		}
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("proxy (settings proxy.*, roles): %w", err)
	}
	return p, nil
}

// openIdentities opens the sources of identities: tokens, sessions, and the proxy, in the order in which they decide.
func (r *Server) openIdentities(s *Settings) error {
	if !s.authenticates() {
		return nil
	}
	rules, err := signin.ReadRules(s.RoleRules)
	if err != nil {
		return cli.Usagef("roles: %w", err)
	}
	if s.Tokens != "" {
		if r.tokens, err = token.Open(s.Tokens); err != nil {
			return cli.Usage(err)
		}
		r.tokens.Note(token.NewUses(filepath.Join(r.Shared, token.UsesName)))
		r.identities = append(r.identities, r.tokens)
	}
	if err := r.openAuthority(s); err != nil {
		return err
	}
	oidc, errOIDC := s.oidc(rules)
	proxy, errProxy := s.proxy(rules)
	if err := errors.Join(errOIDC, errProxy); err != nil {
		return cli.Usage(err)
	}
	if s.browsers() {
		if err := r.openSignIn(s, oidc); err != nil {
			return err
		}
	}
	if proxy != nil {
		if r.signIn != nil {
			proxy.Names = r.signIn.Names()
		}
		r.identities = append(r.identities, proxy)
	}
	if s.Tokens != "" || s.Users != "" || s.CADir != "" {
		r.grants = &grants.Files{Tokens: s.Tokens, Users: s.Users, Authority: s.CADir,
			Seen: filepath.Join(r.Shared, grantsName)}
	}
	return nil
}

// openAuthority opens the authority whose certificates workers and agents have.
func (r *Server) openAuthority(s *Settings) (err error) {
	if s.CADir == "" {
		return nil
	}
	if s.TLSCert != "" || s.TLSKey != "" {
		return cli.Usagef("ca.dir: the authority issues the certificate of listen: leave out tls.cert and tls.key_file")
	}
	hosts := s.hosts()
	if host, _, err := net.SplitHostPort(s.Listen); err == nil && net.ParseIP(host) != nil {
		hosts = append(hosts, host)
	}
	if r.authority, err = authority.Open(authority.Options{Dir: s.CADir, Hosts: hosts,
		Lifetime: s.CALifetime}); err != nil {
		return cli.Usagef("ca.dir: %w", err)
	}
	r.identities = append(r.identities, r.authority)
	return nil
}

func (r *Server) openSignIn(s *Settings, oidc *signin.OIDC) (err error) {
	o := signin.Options{Dir: s.SessionDir, Tokens: r.tokens, OIDC: oidc, Idle: s.SessionIdle, Longest: s.SessionLongest,
		TLS: s.tls(), SharedNames: s.SharedNames, Log: r.Log}
	if o.Dir == "" {
		o.Dir = filepath.Join(r.Shared, SessionDir)
	}
	if s.Users != "" {
		if o.Users, err = account.Open(s.Users, time.Now); err != nil {
			return cli.Usage(err)
		}
	}
	if r.signIn, err = signin.Open(o); err != nil {
		return err
	}
	r.identities = append(r.identities, r.signIn)
	return nil
}

// authorityDir is the directory of the authority that docs and examples use in a data directory.
const authorityDir = "ca"

// SessionDir is the directory of sessions in a data directory.
const SessionDir = "sessions"

// FirstAdmin returns the address at which the first admin makes an account, which is for the console alone; "" if there
// is an admin or there are no local users. The address is valid once and for an hour.
func (r *Server) FirstAdmin() string {
	if r.signIn == nil {
		return ""
	}
	path, ok := r.signIn.FirstAdmin(rand.Text() + rand.Text())
	if !ok {
		return ""
	}
	return r.URL + path
}

// identityOptions sets what a server needs to authenticate.
func (r *Server) identityOptions(s *Settings, o *server.Options) error {
	if len(r.identities) == 0 {
		return nil
	}
	var err error
	if o.Proxies, err = s.proxies(); err != nil {
		return cli.Usage(err)
	}
	o.Identities, o.SignIn, o.TLS, o.URL = r.source(), r.signIn != nil, s.tls(), s.PublicURL
	o.RateIdentity, o.RateAddress = s.RateIdentity, s.RateAddress
	return nil
}

// source returns the sources as one.
func (r *Server) source() identity.Source { return r.identities }
