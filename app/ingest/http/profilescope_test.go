package ingesthttp_test

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	ingesthttp "github.com/stagepost/stagepost/app/ingest/http"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/server/token"
)

// TestProfilesToWhom: faults, files and storage of profiles are for staff that is limited to no groups, and an identity
// that is limited to groups sees the profiles of these.
func TestProfilesToWhom(t *testing.T) {
	s := newShelf(t)
	limited := map[string]string{}
	g := servertest.GuardWith(t, func(g *servertest.Guarded, _ *server.Options) {
		for owner, group := range map[string]string{"olga": "maps", "oleg": "films"} {
			secret, err := token.New(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			if err := token.Add(g.File, token.Entry{Hash: secret.Hash(), Role: identity.Operator, Owner: owner,
				Groups: identity.Groups(group)}); err != nil {
				t.Fatal(err)
			}
			limited[owner] = secret.Reveal()
		}
	}, func(w *servertest.Harness) server.Part {
		return ingesthttp.Part(w.Server, ingesthttp.Options{Profiles: s})
	})
	s.put(t, "id: maps\nowner: [hush]\n")
	if _, err := s.Reload(); err == nil {
		t.Fatal("a broken profile was taken")
	}
	for name, c := range map[string]struct {
		secret string
		inside bool // it sees faults and files
		maps   bool // it sees the profile maps
	}{
		"depositor":     {g.Tokens[identity.Depositor], false, true},
		"operator":      {g.Tokens[identity.Operator], true, true},
		"auditor":       {g.Tokens[identity.Auditor], true, true},
		"in its group":  {limited["olga"], false, true},
		"in another":    {limited["oleg"], false, false},
		"administrator": {g.Tokens[identity.Admin], true, true},
	} {
		_, text := g.Ask(g.With(c.secret, http.MethodGet, "/api/v1/ingest/profiles", ""))
		var all client.Profiles
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, s.dir) != c.inside || (all.Status != nil) != c.inside ||
			strings.Contains(text, `"id":"maps"`) != c.maps {
			t.Errorf("%s: got %s", name, text)
		}
	}
}
