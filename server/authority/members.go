package authority

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/internal/sharedfile"
	"github.com/stagepost/stagepost/server/identity"
)

// Member is who gets a certificate: a worker, an agent or both.
type Member struct {
	Name     string
	Work     identity.Work     // what it may claim
	Services identity.Services // whose jobs it may run as an agent
}

// Validate returns what is wrong with a member.
func (m *Member) Validate() error {
	if err := identity.ValidateName(m.Name); err != nil {
		return err
	}
	if m.Work == "" && m.Services == "" {
		return errors.New("name the kinds that a worker may claim (--work), or the services whose jobs an agent may " +
			"run (--services)")
	}
	return errors.Join(m.Work.Validate(), m.Services.Validate())
}

// By is who changes the list, and why.
type By struct{ Actor, Note string }

// Enrolment is a token that is valid once.
type Enrolment struct {
	api.MemberEnrolment
	Hash string `json:"hash"` // the SHA-256 of the token
}

// member returns who gets a certificate for the token.
func (e *Enrolment) member() Member {
	return Member{Name: e.Name, Work: identity.Work(e.Work), Services: identity.Services(e.Services)}
}

// Certificate is a certificate that was issued to a member.
type Certificate = api.MemberCertificate

// list is the content of the file of members.
type list struct {
	Enrolments   []Enrolment   `json:"enrolments,omitempty"`
	Certificates []Certificate `json:"certificates,omitempty"`
}

// Errors about members.
var (
	ErrEnrolment = errors.New("the enrolment token is not valid: it was used or revoked, or it has expired " +
		"(stagepost admin ca enrol makes another one)")
	ErrUnknown = errors.New("there is no such member")
)

// EnrolmentPrefix begins every enrolment token.
const EnrolmentPrefix = "ste_"

func parse(text []byte) (l list, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err = d.Decode(&l)
	return l, err
}

// edit changes the file of members. What has expired is removed.
func edit(dir string, now time.Time, change func(*list) error) error {
	check := func(text []byte) error { _, err := parse(text); return err }
	return sharedfile.Edit(filepath.Join(dir, membersName), check, func(text []byte) ([]byte, error) {
		l, err := parse(text)
		if err != nil {
			return nil, err
		}
		if err := change(&l); err != nil {
			return nil, err
		}
		l.Enrolments = slices.DeleteFunc(l.Enrolments, func(e Enrolment) bool { return !now.Before(e.Expires) })
		l.Certificates = slices.DeleteFunc(l.Certificates, func(c Certificate) bool { return !now.Before(c.Expires) })
		text, err = json.MarshalIndent(l, "", "  ")
		return append(text, '\n'), err
	})
}

// Enrol makes an enrolment token for a member in the directory of an authority: a secret, and the pin of the authority
// for the client. The file has its SHA-256 only.
func Enrol(dir string, m Member, by By, now, expires time.Time) (string, error) {
	if err := m.Validate(); err != nil {
		return "", err
	}
	cert, err := ReadCertificate(dir)
	if err != nil {
		return "", err
	}
	text := EnrolmentPrefix + rand.Text() + rand.Text() + "." + Pin(cert)
	return text, edit(dir, now, func(l *list) error {
		if !l.has(m.Name) {
			if err := identity.CheckNewName(m.Name); err != nil {
				return err
			}
		}
		l.Enrolments = append(l.Enrolments, Enrolment{api.MemberEnrolment{Name: m.Name, Work: string(m.Work),
			Services: string(m.Services), Expires: expires.UTC().Truncate(time.Second), By: by.Actor, Note: by.Note},
			hashOf(text)})
		return nil
	})
}

// has reports whether a member has had an enrolment token or a certificate.
func (l *list) has(name string) bool {
	return slices.ContainsFunc(l.Enrolments, func(e Enrolment) bool { return e.Name == name }) ||
		slices.ContainsFunc(l.Certificates, func(c Certificate) bool { return c.Name == name })
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Revoke revokes the certificates and the enrolment tokens of a member.
func Revoke(dir, name string, by By, now time.Time) (certificates int, err error) {
	return certificates, edit(dir, now, func(l *list) error {
		before := len(l.Enrolments)
		l.Enrolments = slices.DeleteFunc(l.Enrolments, func(e Enrolment) bool { return e.Name == name })
		found := len(l.Enrolments) < before
		for i := range l.Certificates {
			if c := &l.Certificates[i]; c.Name == name && c.Revoked.IsZero() {
				found, c.Revoked = true, now.UTC().Truncate(time.Second)
				c.RevokedBy, c.RevokedWhy = by.Actor, by.Note
				certificates++
			}
		}
		if !found {
			return fmt.Errorf("%w: %s", ErrUnknown, name)
		}
		return nil
	})
}

// MembersFile is the file of the members of a directory.
func MembersFile(dir string) string { return filepath.Join(dir, membersName) }

// ReadMembers reads a file of members, with what has expired.
func ReadMembers(name string) ([]Enrolment, []Certificate, error) {
	text, err := sharedfile.Read(name)
	if err != nil {
		return nil, nil, err
	}
	l, err := parse(text)
	return l.Enrolments, l.Certificates, err
}

// Read lists what is valid at a time in a directory.
func Read(dir string, now time.Time) (api.Members, error) {
	enrolments, certificates, err := ReadMembers(MembersFile(dir))
	if err != nil {
		return api.Members{}, err
	}
	l := list{enrolments, certificates}
	return l.members(now), nil
}

// members lists what has not expired.
func (l *list) members(now time.Time) api.Members {
	all := api.Members{Enrolments: []api.MemberEnrolment{}, Certificates: []api.MemberCertificate{}}
	for i := range l.Enrolments {
		if e := &l.Enrolments[i]; now.Before(e.Expires) {
			all.Enrolments = append(all.Enrolments, e.MemberEnrolment)
		}
	}
	for i := range l.Certificates {
		if c := &l.Certificates[i]; now.Before(c.Expires) {
			all.Certificates = append(all.Certificates, *c)
		}
	}
	return all
}

// exchange issues a certificate for an enrolment token, which is removed in the same edit.
func (a *Authority) exchange(token string, public crypto.PublicKey) (der []byte, c Certificate, err error) {
	now, hash := a.o.Now(), hashOf(token)
	err = edit(a.o.Dir, now, func(l *list) error {
		i := slices.IndexFunc(l.Enrolments, func(e Enrolment) bool { return e.Hash == hash && now.Before(e.Expires) })
		if i < 0 {
			return ErrEnrolment
		}
		m := l.Enrolments[i].member()
		l.Enrolments = slices.Delete(l.Enrolments, i, i+1)
		der, c, err = a.add(l, m, public, now)
		return err
	})
	return der, c, err
}

// renew issues another certificate for the member that has one. The present one stays valid until it expires.
func (a *Authority) renew(present identity.Key, public crypto.PublicKey) (der []byte, c Certificate, err error) {
	now := a.o.Now()
	err = edit(a.o.Dir, now, func(l *list) error {
		of, err := l.valid(present, now)
		if err != nil {
			return err
		}
		der, c, err = a.add(l, memberOf(&of), public, now)
		return err
	})
	return der, c, err
}

// add issues a certificate and enters it.
func (a *Authority) add(l *list, m Member, public crypto.PublicKey, now time.Time) ([]byte, Certificate, error) {
	der, err := a.issue(&x509.Certificate{
		Subject: pkix.Name{CommonName: m.Name}, NotBefore: now.Add(-time.Minute), NotAfter: now.Add(a.o.Lifetime),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, public)
	if err != nil {
		return nil, Certificate{}, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, Certificate{}, err
	}
	key := identity.Key(sha256.Sum256(der))
	c := Certificate{Name: m.Name, Work: string(m.Work), Services: string(m.Services), Fingerprint: key.String(),
		Issued: now.UTC().Truncate(time.Second), Expires: cert.NotAfter}
	l.Certificates = append(l.Certificates, c)
	return der, c, nil
}

// memberOf returns who has a certificate.
func memberOf(c *Certificate) Member {
	return Member{Name: c.Name, Work: identity.Work(c.Work), Services: identity.Services(c.Services)}
}

// Errors of certificates that are refused.
var (
	errNotListed = errors.New("the certificate is not in the list of the authority: enrol again " +
		"(stagepost admin ca enrol)")
	errRevoked = errors.New("the certificate has been revoked: an admin can enrol the machine again " +
		"(stagepost admin ca enrol)")
	errExpired = errors.New("the certificate has expired: enrol again (stagepost admin ca enrol)")
)

// valid returns the certificate of a fingerprint, or why it does not count.
func (l *list) valid(k identity.Key, now time.Time) (Certificate, error) {
	text := k.String()
	i := slices.IndexFunc(l.Certificates, func(c Certificate) bool { return c.Fingerprint == text })
	switch {
	case i < 0:
		return Certificate{}, errNotListed
	case !l.Certificates[i].Revoked.IsZero():
		return Certificate{}, errRevoked
	case !now.Before(l.Certificates[i].Expires):
		return Certificate{}, errExpired
	}
	return l.Certificates[i], nil
}

// publicKey returns the key of a request for a certificate (PKCS #10, PEM), whose sender has the private one. Nothing
// else in it counts.
func publicKey(text string) (crypto.PublicKey, error) {
	block, rest := pem.Decode([]byte(text))
	if block == nil || block.Type != "CERTIFICATE REQUEST" || len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("request must be a certificate request (PKCS #10, PEM)")
	}
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err == nil {
		err = request.CheckSignature()
	}
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	switch request.PublicKey.(type) {
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return request.PublicKey, nil
	}
	return nil, fmt.Errorf("request: a key must be ECDSA or Ed25519, not %s", request.PublicKeyAlgorithm)
}
