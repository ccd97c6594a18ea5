package token

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/internal/sharedfile"
	"github.com/stagepost/stagepost/server/identity"
)

// Errors of Identify beside those about the form.
var (
	ErrNone    = fmt.Errorf("%w: send a token (Authorization: Bearer stp_...)", identity.ErrNone)
	ErrUnknown = errors.New("there is no token")
	ErrExpired = errors.New("the token has expired")
)

// Tokens are those of a file. It is read again when it changes; while it cannot be read, for whatever reason, no
// token is valid, and [Tokens.Fault] returns why: a token may have been revoked in it. It is safe for concurrent use.
type Tokens struct {
	uses *Uses // nil: they are not noted
	file *sharedfile.Watched[[]Entry]
	now  func() time.Time
	same func(a, b []byte) int // subtle.ConstantTimeCompare; a test counts
}

// Open reads a file of tokens.
func Open(path string) (*Tokens, error) {
	t := &Tokens{now: time.Now, same: subtle.ConstantTimeCompare}
	var err error
	t.file, err = sharedfile.Watch(path, func() time.Time { return t.now() }, parseFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; make it: stagepost admin token new --owner NAME --role admin %s", err, path)
	}
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	return t, nil
}

// Note notes the last uses of the tokens. Call it before the first request.
func (t *Tokens) Note(u *Uses) { t.uses = u }

// FlushUses writes the last uses that were noted.
func (t *Tokens) FlushUses() error {
	if t.uses == nil {
		return nil
	}
	return t.uses.Flush(t.All())
}

// List lists the tokens of the file, and when each was used last, by the first 16 digits of its hash.
func (t *Tokens) List() (entries []Entry, used map[string]time.Time, err error) {
	if entries, err = t.file.Value(); err != nil || t.uses == nil {
		return entries, nil, err
	}
	used, err = t.uses.All()
	return entries, used, err
}

// Revoke removes the token with a hash from the file, which others may change at the same time; see [Revoke]. It is
// refused at once, and by other servers within a second.
func (t *Tokens) Revoke(k identity.Key, by string) (Entry, error) {
	e, err := Revoke(t.file.Name(), k.String(), t.now(), by)
	if err == nil {
		_, err = t.file.Latest()
	}
	return e, err
}

// Name returns the name of the file.
func (t *Tokens) Name() string { return t.file.Name() }

// Fault returns why the file cannot be read; nil if it was.
func (t *Tokens) Fault() error {
	_, err := t.file.Value()
	return err
}

// Identify returns who sends a request. The errors are ErrNone, ErrMalformed, ErrTypo, ErrUnknown, ErrExpired,
// identity.ErrInURL and identity.ErrFault.
func (t *Tokens) Identify(r *http.Request) (identity.Identity, error) {
	var none identity.Identity
	if InURL(r.URL) {
		return none, identity.ErrInURL
	}
	sent := r.Header.Values("Authorization")
	if len(sent) == 0 {
		return none, ErrNone
	}
	scheme, text, _ := strings.Cut(sent[0], " ")
	if len(sent) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return none, ErrMalformed
	}
	return t.Find(strings.Trim(text, " "))
}

// Find returns who has a token. Its errors are those of Identify about the token itself.
func (t *Tokens) Find(text string) (identity.Identity, error) {
	var none identity.Identity
	secret, err := Parse(text)
	if err != nil {
		return none, err
	}
	all, err := t.file.Value()
	if err != nil {
		return none, identity.ErrFault
	}
	e, ok := t.find(all, secret.Hash())
	if !ok {
		return none, ErrUnknown
	}
	if !e.valid(t.now()) {
		return none, ErrExpired
	}
	if t.uses != nil {
		t.uses.note(e.Hash, t.now())
	}
	return e.identity(), nil
}

// HasAdmin reports whether the token of an admin is accepted now.
func (t *Tokens) HasAdmin() bool {
	entries, _ := t.file.Value()
	now := t.now()
	return slices.ContainsFunc(entries, func(e Entry) bool { return e.Role == identity.Admin && e.valid(now) })
}

// HasOwner reports whether a token in the file, also one that has expired, is that of an owner.
func (t *Tokens) HasOwner(name string) (bool, error) {
	entries, err := t.file.Value()
	return slices.ContainsFunc(entries, func(e Entry) bool { return e.Owner == name }), err
}

// Standing returns who has a token that is accepted now, with the role that the file gives it now.
func (t *Tokens) Standing(k identity.Key) (identity.Identity, bool) {
	all, _ := t.file.Value()
	e, ok := t.find(all, k)
	return e.identity(), ok && e.valid(t.now()) &&
		e.Role != identity.Worker
}

// Valid is part of [identity.Source].
func (t *Tokens) Valid(who *identity.Identity) bool {
	all, _ := t.file.Value()
	e, ok := t.find(all, who.Key)
	now := e.identity()
	return ok && e.valid(t.now()) && now.Same(who)
}

// identity returns who has the token.
func (e *Entry) identity() identity.Identity {
	return identity.Identity{Name: e.Owner, Role: e.Role, Groups: e.Groups, Work: e.Work,
		Services: e.Work.Services(), Way: identity.ByToken, Key: e.Hash}
}

// All lists the hashes of the tokens that are accepted now.
func (t *Tokens) All() []identity.Key {
	entries, _ := t.file.Value()
	now := t.now()
	var all []identity.Key
	for i := range entries {
		if e := &entries[i]; e.valid(now) {
			all = append(all, e.Hash)
		}
	}
	return all
}

func (e *Entry) valid(now time.Time) bool { return e.Expires.IsZero() || now.Before(e.Expires) }

// find compares a hash with every entry, in a time that does not depend on which one it is or how much of it fits.
func (t *Tokens) find(all []Entry, k identity.Key) (Entry, bool) {
	found := -1
	for i := range all {
		found = subtle.ConstantTimeSelect(t.same(all[i].Hash[:], k[:]), i, found)
	}
	if found < 0 {
		return Entry{}, false
	}
	return all[found], true
}

// InURL reports whether an address has a token in it.
func InURL(u *url.URL) bool {
	if strings.Contains(u.Path, Prefix) && hasToken(u.Path) {
		return true
	}
	query, _ := url.ParseQuery(u.RawQuery) // what cannot be read is refused by who reads it
	for name, values := range query {
		if name == "access_token" || hasToken(name) {
			return true
		}
		for _, v := range values {
			if hasToken(v) {
				return true
			}
		}
	}
	return false
}

// hasToken reports whether a text has something of the form of a token in it, mistyped or not.
func hasToken(text string) bool {
	for {
		_, rest, ok := strings.Cut(text, Prefix)
		if !ok {
			return false
		}
		if len(rest) >= textLength && strings.Trim(rest[:textLength], base64Letters) == "" {
			return true
		}
		text = rest
	}
}

const base64Letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
