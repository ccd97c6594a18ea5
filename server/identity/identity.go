// Package identity defines who sends a request: a name, a role with its scope, and how the sender was authenticated.
// Packages that authenticate (tokens, sessions of browsers, proxies, certificates) implement [Source]; [Sources] joins
// them. A request has one identity or none.
package identity

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode"
)

// Role is what an identity may do.
type Role string

// The roles. A depositor sees its own jobs, an operator all; a worker takes jobs and reports on them; an auditor reads
// what an operator reads and changes nothing; an admin may do everything. Operators and auditors read no files of
// others, and operators delete no work of others.
const (
	Depositor Role = "depositor"
	Operator  Role = "operator"
	Worker    Role = "worker"
	Auditor   Role = "auditor"
	Admin     Role = "admin"
)

// Roles lists the roles.
func Roles() []Role { return []Role{Depositor, Operator, Worker, Auditor, Admin} }

// RoleOf reads the name of a role. "user" is the name that depositors had in earlier versions.
func RoleOf(name string) (Role, error) {
	if name == "user" {
		return Depositor, nil
	}
	if role := Role(name); slices.Contains(Roles(), role) {
		return role, nil
	}
	return "", fmt.Errorf("the role must be depositor, operator, worker, auditor or admin, not %.40q", name)
}

// Staff reports whether the role acts on the jobs of others.
func (r Role) Staff() bool { return r == Operator || r == Admin }

// Way is how a sender was authenticated.
type Way string

// The ways.
const (
	ByToken       Way = "token"       // an API token
	BySession     Way = "session"     // the session of a browser
	ByProxy       Way = "proxy"       // header fields of a trusted proxy
	ByCertificate Way = "certificate" // a client certificate
)

// Key names a credential, such as the SHA-256 of a token. Requests end when their key is no longer valid, or gives
// another role.
type Key [32]byte

// String returns the key in hexadecimal digits.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Identity is who sends a request.
type Identity struct {
	Name    string // the owner of jobs, the actor in histories, the name of a worker
	Display string // the name that pages show; empty: Name
	Role    Role
	Groups  Groups // of a depositor or operator: the groups (collections) of jobs that it may use
	Work    Work   // of a worker: what it may claim
	// of a worker: the services whose jobs it may run as an agent
	Services Services
	Way      Way
	Key      Key
}

// Shown returns the name that pages show.
func (i *Identity) Shown() string { return cmp.Or(i.Display, i.Name) }

// Same reports whether another identity has the same name, role and scope.
func (i *Identity) Same(other *Identity) bool {
	return i.Name == other.Name && i.Role == other.Role && i.Groups == other.Groups && i.Work == other.Work &&
		i.Services == other.Services
}

// Sees reports whether jobs of an owner and a group exist for the identity.
func (i *Identity) Sees(owner, group string) bool {
	return (i.Role != Depositor || i.Name == owner) && i.Groups.Allow(group)
}

// Owns reports whether the identity may read the files of an owner and delete its work: it is that owner, or an admin.
func (i *Identity) Owns(owner string) bool { return i.Role == Admin || i.Name == owner }

// Serves returns the services whose jobs the identity may run as an agent: a worker those of its scope, another role
// that may act as one all.
func (i *Identity) Serves() Services {
	if i.Role == Worker {
		return i.Services
	}
	return AllServices
}

// Errors of a Source. Errors about the form of a credential are others.
var (
	// ErrNone: the request has no credential of the source.
	ErrNone = errors.New("sign-in is needed")
	// ErrFault: the source cannot answer at the moment.
	ErrFault = errors.New("credentials cannot be checked at the moment: an admin must repair the file that has them " +
		"(GET /healthz warns of it, the server's log has the reason)")
	// ErrInURL: the address has a credential in it.
	ErrInURL = errors.New("a token does not belong into an address, where logs and histories keep it: send it in the " +
		"header Authorization, and revoke this one")
)

// Source authenticates requests by one kind of credentials. It is safe for concurrent use.
type Source interface {
	// Identify returns who sends a request. The error is ErrNone if the request has no credential of this kind; any
	// other error refuses the request.
	Identify(r *http.Request) (Identity, error)

	// Valid reports whether the credential of an identity that this source gave is still valid and gives the same name,
	// role and scope; false for those of other sources.
	Valid(who *Identity) bool

	// Fault returns why the source accepts nothing although it has credentials; nil otherwise.
	Fault() error
}

// Sources joins sources. The first that finds a credential in a request decides: a credential that is refused is never
// replaced by another one, such as a revoked token by the cookie beside it.
type Sources []Source

// Identify is part of [Source].
func (all Sources) Identify(r *http.Request) (Identity, error) {
	var missing error // of the first source
	for _, s := range all {
		who, err := s.Identify(r)
		if !errors.Is(err, ErrNone) {
			return who, err
		}
		missing = cmp.Or(missing, err)
	}
	return Identity{}, cmp.Or(missing, ErrNone)
}

// Valid is part of [Source].
func (all Sources) Valid(who *Identity) bool {
	return slices.ContainsFunc(all, func(s Source) bool { return s.Valid(who) })
}

// Fault is part of [Source].
func (all Sources) Fault() error {
	var faults []error
	for _, s := range all {
		faults = append(faults, s.Fault())
	}
	return errors.Join(faults...)
}

// notInName reports whether a character may not stand in the name of a person, a kind or a group.
func notInName(r rune) bool { return !unicode.IsPrint(r) || r == ' ' || strings.ContainsRune(",:", r) }
