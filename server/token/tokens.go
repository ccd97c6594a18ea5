package token

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"
)

// Errors of Check beside those about the form.
var (
	ErrNone    = errors.New("a token is needed (Authorization: Bearer stp_...)")
	ErrUnknown = errors.New("there is no token")
	ErrFault   = errors.New("the tokens cannot be read at the moment: an admin must repair the file (GET " +
		"/healthz warns of it, the server's log has the reason)")
	ErrExpired = errors.New("the token has expired")
	ErrInURL   = errors.New("a token does not belong into an address, where logs and histories keep it: " +
		"send it in the header Authorization, and revoke this one")
)

// Identity is who has a token.
type Identity struct {
	Owner string
	Role  Role
	Token Hash
	Work  Scope // of a worker
}

// readEvery is the shortest time between two readings of the file.
const readEvery = time.Second

// Tokens are those of a file. It is read again when it changes; while it cannot be read, for whatever reason, no
// token is valid, and [Tokens.Fault] returns why: a token may have been revoked in it. It is safe for concurrent use.
type Tokens struct {
	path string
	now  func() time.Time
	same func(a, b []byte) int // subtle.ConstantTimeCompare; a test counts

	mu     sync.RWMutex // guards the rest
	all    []Entry
	stat   fs.FileInfo // of what was read last, sound or not
	looked time.Time
	fault  error
}

// Open reads a file of tokens.
func Open(path string) (*Tokens, error) {
	t := &Tokens{path: path, now: time.Now, same: subtle.ConstantTimeCompare}
	all, stat, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; make it: stagepost admin token new --owner NAME --role admin %s", err, path)
	}
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	t.all, t.stat, t.looked = all, stat, t.now()
	return t, nil
}

// Fault returns why the file cannot be read; nil if it was.
func (t *Tokens) Fault() error {
	t.refresh()
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.fault
}

// refresh reads the file again if it has changed and was not checked within the last second.
func (t *Tokens) refresh() {
	now := t.now()
	t.mu.RLock()
	fresh := now.Sub(t.looked) < readEvery
	t.mu.RUnlock()
	if fresh {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if now.Sub(t.looked) < readEvery {
		return
	}
	t.looked = now
	stat, err := os.Stat(t.path)
	if err != nil {
		t.all, t.fault, t.stat = nil, err, nil
		return
	}
	if t.stat != nil && os.SameFile(stat, t.stat) && stat.Size() == t.stat.Size() &&
		stat.ModTime().Equal(t.stat.ModTime()) && stat.Mode() == t.stat.Mode() {
		return
	}
	t.all, t.stat, t.fault = readFile(t.path)
}

// Check returns who sends a request. The errors are ErrNone, ErrMalformed, ErrTypo, ErrUnknown, ErrExpired, ErrInURL
// and ErrFault.
func (t *Tokens) Check(r *http.Request) (Identity, error) {
	if InURL(r.URL) {
		return Identity{}, ErrInURL
	}
	sent := r.Header.Values("Authorization")
	if len(sent) == 0 {
		return Identity{}, ErrNone
	}
	scheme, text, _ := strings.Cut(sent[0], " ")
	if len(sent) > 1 || !strings.EqualFold(scheme, "Bearer") {
		return Identity{}, ErrMalformed
	}
	secret, err := Parse(strings.Trim(text, " "))
	if err != nil {
		return Identity{}, err
	}
	if t.Fault() != nil {
		return Identity{}, ErrFault
	}
	e, ok := t.find(secret.Hash())
	if !ok {
		return Identity{}, ErrUnknown
	}
	if !e.valid(t.now()) {
		return Identity{}, ErrExpired
	}
	return Identity{e.Owner, e.Role, e.Hash, e.Work}, nil
}

// Valid lists the hashes of the tokens that are accepted now.
func (t *Tokens) Valid() []Hash {
	t.refresh()
	t.mu.RLock()
	defer t.mu.RUnlock()
	now := t.now()
	var all []Hash
	for i := range t.all {
		if e := &t.all[i]; e.valid(now) {
			all = append(all, e.Hash)
		}
	}
	return all
}

func (e *Entry) valid(now time.Time) bool { return e.Expires.IsZero() || now.Before(e.Expires) }

// find compares a hash with every entry, in a time that does not depend on which one it is or how much of it fits.
func (t *Tokens) find(h Hash) (Entry, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	found := -1
	for i := range t.all {
		found = subtle.ConstantTimeSelect(t.same(t.all[i].Hash[:], h[:]), i, found)
	}
	if found < 0 {
		return Entry{}, false
	}
	return t.all[found], true
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
