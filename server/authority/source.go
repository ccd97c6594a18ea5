package authority

import (
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"net/http"

	"github.com/stagepost/stagepost/server/identity"
)

// Identify returns the member whose certificate the connection of a request has. It reads the list of members if it has
// changed, so that what is revoked is refused at once.
func (a *Authority) Identify(r *http.Request) (identity.Identity, error) {
	var none identity.Identity
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		return none, identity.ErrNone
	}
	if len(r.TLS.VerifiedChains) == 0 || r.TLS.Version < tls.VersionTLS13 {
		return none, errors.New("the certificate was not verified by TLS 1.3")
	}
	k := identity.Key(sha256.Sum256(r.TLS.PeerCertificates[0].Raw))
	l, err := a.members.Latest()
	if err != nil {
		return none, identity.ErrFault
	}
	c, err := l.valid(k, a.o.Now())
	if err != nil {
		return none, err
	}
	who := identityOf(&c)
	who.Key = k
	return who, nil
}

// identityOf returns who has a certificate.
func identityOf(c *Certificate) identity.Identity {
	return identity.Identity{Name: c.Name, Role: identity.Worker, Work: identity.Work(c.Work),
		Services: identity.Services(c.Services), Way: identity.ByCertificate}
}

// Valid is part of [identity.Source].
func (a *Authority) Valid(who *identity.Identity) bool {
	l, err := a.members.Latest()
	if err != nil {
		return false
	}
	c, err := l.valid(who.Key, a.o.Now())
	now := identityOf(&c)
	return err == nil && now.Same(who)
}

// Fault is part of [identity.Source].
func (a *Authority) Fault() error {
	_, err := a.members.Value()
	return err
}
