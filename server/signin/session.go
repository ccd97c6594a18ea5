package signin

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
)

// Ways to begin a session.
const (
	byPassword = "password"
	byToken    = "token"
	byOIDC     = "oidc"
)

// session is what a file in the directory of sessions has. The name of the file is the SHA-256 of the cookie, its
// modification time the last use, to the minute.
type session struct {
	Name    string          `json:"name"`
	Display string          `json:"display,omitempty"`
	Role    identity.Role   `json:"role"`
	Groups  identity.Groups `json:"groups,omitempty"`
	How     string          `json:"how"`              // byPassword, ...
	Token   *identity.Key   `json:"token,omitempty"`  // with byToken: what the session ends with
	Secret  string          `json:"secret,omitempty"` // with byPassword: a digest of the hash at the beginning
	From    string          `json:"from"`             // the address of the browser
	Begun   time.Time       `json:"begun"`
	used    time.Time
	looked  time.Time // when the file was read
}

// Errors of sessions.
var (
	errNoSession = fmt.Errorf("%w: sign in with a browser, or send a token (Authorization: Bearer stp_...)",
		identity.ErrNone)
	errOver = errors.New("the session is over: sign in again")
)

const (
	useEvery    = time.Minute // between two records of the last use
	rereadEvery = time.Second // how long a session that was revoked on another server may be used
	mostCached  = 10_000
	sessionFile = 64 << 10 // bytes
)

// sessions are those of a directory, which several servers may share. They are safe for concurrent use.
type sessions struct {
	dir      string
	idle     time.Duration
	longest  time.Duration
	now      func() time.Time
	secure   func(*http.Request) bool
	standing func(*session) (identity.Identity, bool) // who it is now; false: the account or token is no longer valid

	mu    sync.Mutex // guards the rest
	cache map[identity.Key]*session
	swept time.Time
}

// cookieName is that of the cookie of a session. With the prefix __Host- browsers accept it only over TLS, from this
// host, and for all paths.
func cookieName(secure bool, what string) string {
	if secure {
		return "__Host-stagepost" + what
	}
	return "stagepost" + what
}

// cookie makes a cookie; a negative age removes it.
func cookie(secure bool, what, value string, age time.Duration) *http.Cookie {
	c := &http.Cookie{Name: cookieName(secure, what), Value: value, Path: "/", MaxAge: int(age / time.Second),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode}
	if age < 0 {
		c.MaxAge = -1
	}
	return c
}

// keyOf returns the key of the session of a request; ok is false without a cookie.
func (s *sessions) keyOf(r *http.Request) (k identity.Key, ok bool) {
	all := r.CookiesNamed(cookieName(s.secure(r), ""))
	if len(all) != 1 {
		return k, false
	}
	return sha256.Sum256([]byte(all[0].Value)), true
}

// Identify is part of [identity.Source].
func (s *sessions) Identify(r *http.Request) (identity.Identity, error) {
	key, ok := s.keyOf(r)
	if !ok {
		return identity.Identity{}, errNoSession
	}
	one, err := s.get(key)
	if err != nil {
		return identity.Identity{}, err
	}
	who, ok := s.standing(one)
	if !ok {
		return identity.Identity{}, errOver
	}
	if !unattended(r) {
		s.use(key, one)
	}
	who.Way, who.Key = identity.BySession, key
	return who, nil
}

// unattended reports whether a page sent a request by itself: a script that reads the page again or opens an event
// stream, which cannot have a header of ours, or a page that reloads itself.
func unattended(r *http.Request) bool {
	return r.Header.Get(server.RefreshHeader) != "" || r.Header.Get("Accept") == "text/event-stream" ||
		r.URL.Query().Get(server.RefreshQuery) == server.RefreshAgain
}

// Valid is part of [identity.Source].
func (s *sessions) Valid(who *identity.Identity) bool {
	one, err := s.get(who.Key)
	if err != nil {
		return false
	}
	now, ok := s.standing(one)
	return ok && now.Same(who)
}

// begin begins a session, whose cookie has the secret. A session that the browser has already ends: ids are never kept
// over a sign-in.
func (s *sessions) begin(r *http.Request, one session) (secret string, err error) {
	s.end(r)
	s.sweep()
	secret = rand.Text() + rand.Text() // 256 bits
	key := identity.Key(sha256.Sum256([]byte(secret)))
	one.Begun = s.now().UTC().Truncate(time.Second)
	text, err := json.Marshal(one)
	if err != nil {
		return "", err
	}
	if err := durable.Replace(s.file(key), text); err != nil {
		return "", err
	}
	return secret, os.Chtimes(s.file(key), s.now(), s.now())
}

// end ends the session of a request, if it has one.
func (s *sessions) end(r *http.Request) {
	if key, ok := s.keyOf(r); ok {
		_ = s.remove(key) // none is as good
	}
}

// remove ends a session, on the disk when it returns.
func (s *sessions) remove(k identity.Key) error {
	s.mu.Lock()
	delete(s.cache, k)
	s.mu.Unlock()
	if err := os.Remove(s.file(k)); err != nil {
		return err
	}
	return durable.Sync(s.dir)
}

func (s *sessions) file(k identity.Key) string { return filepath.Join(s.dir, k.String()) }

// get returns a session that is not over.
func (s *sessions) get(k identity.Key) (*session, error) {
	now := s.now()
	s.mu.Lock()
	one := s.cache[k]
	s.mu.Unlock()
	if one == nil || now.Sub(one.looked) >= rereadEvery {
		var err error
		if one, err = s.read(k); errors.Is(err, fs.ErrNotExist) {
			return nil, errOver
		} else if err != nil {
			return nil, fmt.Errorf("%w: %w", identity.ErrFault, err)
		}
		s.keep(k, one)
	}
	if now.Sub(one.used) >= s.idle || now.Sub(one.Begun) >= s.longest {
		return nil, errOver
	}
	return one, nil
}

func (s *sessions) keep(k identity.Key, one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cache) >= mostCached {
		clear(s.cache)
	}
	s.cache[k] = one
}

// read reads the file of a session.
func (s *sessions) read(k identity.Key) (*session, error) {
	stat, err := os.Stat(s.file(k))
	if err != nil {
		return nil, err
	}
	if stat.Size() > sessionFile {
		return nil, fmt.Errorf("%s is larger than %d bytes", s.file(k), sessionFile)
	}
	text, err := os.ReadFile(s.file(k))
	if err != nil {
		return nil, err
	}
	one := &session{used: stat.ModTime(), looked: s.now()}
	return one, json.Unmarshal(text, one)
}

// use records the last use of a session.
func (s *sessions) use(k identity.Key, one *session) {
	now := s.now()
	if now.Sub(one.used) < useEvery {
		return
	}
	if err := os.Chtimes(s.file(k), now, now); err == nil { // it may have been revoked at this moment
		used := *one
		used.used = now
		s.keep(k, &used)
	}
}

// list returns the sessions that are not over, by their keys.
func (s *sessions) list() (map[identity.Key]*session, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	all := map[identity.Key]*session{}
	for _, e := range entries {
		var k identity.Key
		if raw, err := hex.DecodeString(e.Name()); err != nil || len(raw) != len(k) {
			continue // a file that a crash left
		} else {
			copy(k[:], raw)
		}
		if one, err := s.get(k); err == nil {
			if _, ok := s.standing(one); ok {
				all[k] = one
			}
		}
	}
	return all, nil
}

// sweep removes the files of sessions that are over, at most every ten minutes.
func (s *sessions) sweep() {
	s.mu.Lock()
	now := s.now()
	due := now.Sub(s.swept) >= 10*time.Minute
	if due {
		s.swept = now
	}
	s.mu.Unlock()
	if !due {
		return
	}
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && now.Sub(info.ModTime()) >= max(s.idle, time.Hour) {
			_ = os.Remove(filepath.Join(s.dir, e.Name()))
		}
	}
}
