package server_test

import (
	"crypto/rand"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/token"
)

// guarded is a server that wants tokens.
type guarded struct {
	*world
	file   string
	tokens map[token.Role]string // by role; the user is ann
	bob    string                // another user
}

// guard starts one; more may add tokens before.
func guard(t *testing.T, more ...func(g *guarded)) *guarded {
	t.Helper()
	return guardWith(t, func(*server.Options) {}, more...)
}

func guardWith(t *testing.T, change func(*server.Options), more ...func(g *guarded)) *guarded {
	t.Helper()
	g := &guarded{file: filepath.Join(t.TempDir(), "tokens"), tokens: map[token.Role]string{}}
	for _, role := range token.Roles() {
		owner := string(role)
		if role == token.User {
			owner = "ann"
		}
		g.tokens[role] = g.add(t, owner, role, time.Time{})
	}
	g.bob = g.add(t, "bob", token.User, time.Time{})
	for _, add := range more {
		add(g)
	}
	tokens, err := token.Open(g.file)
	if err != nil {
		t.Fatal(err)
	}
	g.world = open(t, func(o *server.Options) { o.Tokens = tokens; change(o) }, nil)
	return g
}

func (g *guarded) add(t *testing.T, owner string, role token.Role, expires time.Time) string {
	t.Helper()
	s, err := token.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := token.Add(g.file, token.Entry{Hash: s.Hash(), Role: role, Owner: owner, Expires: expires}); err != nil {
		t.Fatal(err)
	}
	return s.Reveal()
}

// with is a request with a token; "" is none.
func (g *guarded) with(secret, method, path, body string) *http.Request {
	g.t.Helper()
	r := g.request(method, path, body)
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	return r
}

// other is a well-formed token that the file does not have.
func (g *guarded) other() string {
	s, err := token.New(rand.Reader)
	if err != nil {
		g.t.Fatal(err)
	}
	return s.Reveal()
}
