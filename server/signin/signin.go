package signin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/account"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/ratelimit"
	"github.com/stagepost/stagepost/server/token"
)

// Options of sign-in. Dir is required; without Users, Tokens and OIDC there is no way to sign in by a page.
type Options struct {
	Dir     string         // of the sessions, which several servers may share; it is made if it is missing
	Users   *account.Users // nil: there are none
	Tokens  *token.Tokens  // nil: there are none
	OIDC    *OIDC          // nil: there is none
	Idle    time.Duration  // a session ends so long after its last use; defaults to 2 h
	Longest time.Duration  // a session ends so long after its beginning; defaults to 24 h
	TLS     bool           // browsers use TLS, though a proxy in front may end it
	// a person whom a provider or a proxy names as a local user or the owner of a token is that person
	SharedNames bool
	Log         *slog.Logger // defaults to slog.Default
	Now         func() time.Time
}

// SignIn lets people sign in. It is the [identity.Source] of their sessions.
type SignIn struct {
	sessions
	o        Options
	taken    *Names           // that a provider must not give; nil: none
	names    *ratelimit.Limit // failures for one name
	from     *ratelimit.Limit // failures from one address
	first    [32]byte         // SHA-256 of the secret of the link for the first admin
	firstEnd time.Time        // when that link ends; zero: there is none
}

// Limits of attempts that fail: so many at once, and then one in a while.
const (
	attempts     = 10
	attemptEvery = 30 * time.Second
	firstFor     = time.Hour // how long the link for the first admin is valid
)

// Open opens the sessions of a directory.
func Open(o Options) (*SignIn, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Idle <= 0 {
		o.Idle = 2 * time.Hour
	}
	if o.Longest <= 0 {
		o.Longest = 24 * time.Hour
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if err := durable.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, err
	}
	s := &SignIn{o: o, names: ratelimit.New(attemptEvery, attempts, o.Now),
		from: ratelimit.New(attemptEvery/5, 3*attempts, o.Now)}
	s.sessions = sessions{dir: o.Dir, idle: o.Idle, longest: o.Longest, now: o.Now, standing: s.standing,
		secure: func(r *http.Request) bool { return o.TLS || r.TLS != nil }, cache: map[identity.Key]*session{}}
	if !o.SharedNames {
		s.taken = newNames(&o)
	}
	if o.OIDC != nil {
		o.OIDC.defaults(o.Now)
	}
	return s, nil
}

func (o *OIDC) defaults(now func() time.Time) {
	o.now = now
	if o.Name == "" {
		o.Name = "preferred_username"
	}
	if o.Groups == "" {
		o.Groups = "groups"
	}
	if o.Title == "" {
		o.Title = "Sign in with " + o.Issuer
	}
}

// Names returns the names that a proxy must not give: for [Proxy].
func (s *SignIn) Names() *Names { return s.taken }

// standing returns who a session is now: the role of a user is that of the file of users, and a session ends with its
// token, its account, or the password that began it. One of a provider ends when an admin gives its name to another.
func (s *SignIn) standing(one *session) (identity.Identity, bool) {
	who := identity.Identity{Name: one.Name, Display: one.Display, Role: one.Role, Groups: one.Groups}
	switch one.How {
	case byPassword:
		if s.o.Users == nil {
			return who, false
		}
		u, ok := s.o.Users.Find(one.Name)
		return u.Identity(), ok && u.Stamp() == one.Secret
	case byToken:
		if s.o.Tokens == nil || one.Token == nil {
			return who, false
		}
		return s.o.Tokens.Standing(*one.Token)
	case byOIDC:
		return who, s.o.OIDC != nil && !errors.Is(s.taken.find(one.Name), errTaken)
	}
	return who, false
}

// Fault is part of [identity.Source].
func (s *SignIn) Fault() error {
	if s.o.Users == nil {
		return nil
	}
	_, err := s.o.Users.All()
	return err
}

// FirstAdmin returns the path of a page at which the first admin makes an account: once, and within an hour. ok is
// false if there is an admin, or no file of users.
func (s *SignIn) FirstAdmin(secret string) (path string, ok bool) {
	if s.o.Users == nil || s.hasAdmin() {
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first, s.firstEnd = sha256.Sum256([]byte(secret)), s.now().Add(firstFor)
	return firstPath + secret, true
}

func (s *SignIn) hasAdmin() bool {
	all, err := s.o.Users.All()
	return err != nil || account.HasAdmin(all) || s.o.Tokens != nil && s.o.Tokens.HasAdmin()
}

// invited reports whether a secret is that of the link for the first admin, and still valid.
func (s *SignIn) invited(secret string) bool {
	sum := sha256.Sum256([]byte(secret))
	s.mu.Lock()
	defer s.mu.Unlock()
	return subtle.ConstantTimeCompare(sum[:], s.first[:]) == 1 && s.now().Before(s.firstEnd)
}

// attempt is an attempt to sign in that was counted.
type attempt struct {
	name, from string
	at         time.Time
}

// attempt counts an attempt to sign in from an address, by a name if it has one before it succeeds.
func (s *SignIn) attempt(name, from string) (one attempt, wait time.Duration, ok bool) {
	one = attempt{strings.ToLower(name), from, s.now()}
	if wait, ok = s.from.Allow(from); ok && name != "" {
		wait, ok = s.names.Allow(one.name)
	}
	return one, wait, ok
}

// spare cancels the count of an attempt that was no failure. Failures before it stay counted.
func (s *SignIn) spare(one attempt) {
	s.from.Return(one.from, one.at)
	if one.name != "" {
		s.names.Return(one.name, one.at)
	}
}

// routes has the handlers.
type routes struct {
	*server.Server
	*SignIn
}

// note enters a sign-in in the audit list: who, and how.
func (s *routes) note(ctx context.Context, event lifecycle.Event, actor, object, why string) error {
	return s.Engine.Operator().Audit(ctx, operator.Entry{Actor: actor, Event: event, Object: object, Note: why})
}

// failed enters a failed attempt. The name may be anything that a user typed.
func (s *routes) failed(r *http.Request, name, how string, why error) error {
	if identity.ValidateName(name) != nil {
		name = "unknown"
	}
	return s.note(r.Context(), "sign-in-failed", name, how, brief(why))
}

// brief is the text of an error, which may quote what a provider sent, for the audit list and the page.
func brief(err error) string {
	const most = 500
	if text := []rune(err.Error()); len(text) > most {
		return string(text[:most]) + "..."
	}
	return err.Error()
}

// enter begins the session of a person and sends the browser on.
func (s *routes) enter(w http.ResponseWriter, r *http.Request, tried attempt, one session, next string) error {
	secret, err := s.open(r, one)
	if err != nil {
		return err
	}
	s.spare(tried)
	return s.entered(w, r, secret, next)
}

// open begins the session of a person, and enters it in the audit list before that.
func (s *routes) open(r *http.Request, one session) (secret string, err error) {
	one.From = s.From(r)
	if err := s.note(r.Context(), "sign-in", one.Name, one.How,
		"role "+identity.WriteScope(one.Role, one.Groups, "")); err != nil {
		return "", err
	}
	return s.begin(r, one)
}

// entered sets the cookie of a session that has begun and sends the browser on.
func (s *routes) entered(w http.ResponseWriter, r *http.Request, secret, next string) error {
	http.SetCookie(w, cookie(s.secure(r), "", secret, s.longest))
	return seeOther(w, local(next))
}

// local returns a path of this server, whatever a link named as the page after the sign-in.
func local(next string) string {
	if !strings.HasPrefix(next, "/") || strings.HasPrefix(next, "//") || strings.ContainsAny(next, "\\\r\n\t") ||
		strings.ContainsFunc(next, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "/"
	}
	return next
}

// keyFrom reads the key of a session.
func keyFrom(text string) (k identity.Key, err error) {
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != len(k) {
		return k, fmt.Errorf("a session is named by 64 hexadecimal digits, not %.80q", text)
	}
	copy(k[:], raw)
	return k, nil
}

var errWrong = errors.New("the name or the password is wrong")
