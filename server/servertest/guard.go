package servertest

import (
	"crypto/rand"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/token"
)

// Guarded is a server that requires tokens.
type Guarded struct {
	*Harness
	File   string
	Tokens map[identity.Role]string // by role; the user is ann
	Bob    string                   // another user
}

// Guard starts one; more may add tokens before.
func Guard(t *testing.T, parts ...PartOf) *Guarded {
	t.Helper()
	return GuardWith(t, func(*Guarded, *server.Options) {}, parts...)
}

// GuardWith starts one whose options are changed; change may add tokens.
func GuardWith(t *testing.T, change func(g *Guarded, o *server.Options), parts ...PartOf) *Guarded {
	t.Helper()
	g := &Guarded{File: filepath.Join(t.TempDir(), "tokens"), Tokens: map[identity.Role]string{}}
	for _, role := range identity.Roles() {
		owner := string(role)
		if role == identity.Depositor {
			owner = "ann"
		}
		g.Tokens[role] = g.add(t, owner, role, time.Time{})
	}
	g.Bob = g.add(t, "bob", identity.Depositor, time.Time{})
	g.Harness = Open(t, func(o *server.Options) {
		change(g, o)
		tokens, err := token.Open(g.File)
		if err != nil {
			t.Fatal(err)
		}
		o.Identities = tokens
	}, nil, parts...)
	return g
}

func (g *Guarded) add(t *testing.T, owner string, role identity.Role, expires time.Time) string {
	t.Helper()
	s, err := token.New(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := token.Add(g.File, token.Entry{Hash: s.Hash(), Role: role, Owner: owner, Expires: expires}); err != nil {
		t.Fatal(err)
	}
	return s.Reveal()
}

// With is a request with a token; "" is none.
func (g *Guarded) With(secret, method, path, body string) *http.Request {
	g.T.Helper()
	r := g.Request(method, path, body)
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	return r
}

// other is a well-formed token that the file does not have.
func (g *Guarded) other() string {
	s, err := token.New(rand.Reader)
	if err != nil {
		g.T.Fatal(err)
	}
	return s.Reveal()
}
