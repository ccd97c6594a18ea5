package server_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/token"
)

// allowed says by hand which roles may use what lies below a path: u(ser), o(perator), w(orker), a(dmin), or * for everybody without a token. The
// longest path that fits counts; a method goes before none.
var allowed = map[string]string{
	"/{$}": "*", "/healthz": "*", "/metrics": "oa", "/assets/": "*",
	"/api/jobs": "uoa", "PUT /api/jobs/{id}/priority": "oa",
	"/api/holds": "oa", "/api/locks": "oa", "/api/counts": "oa", "/api/bulk": "oa", "/api/queue": "oa", "/api/stuck": "oa", "/api/orphans": "oa", "/api/audit": "oa",
	"/api/storage": "oa", "POST /api/storage": "a", "/api/fixity": "oa",
	"/api/lifecycles": "*", "/api/hooks": "oa", "/api/outbox": "oa",
	"/api/ingest/submissions": "uoa", "/api/ingest/batches/": "uoa", "/batches/": "uoa", "/api/ingest/jobs/": "uoa", "/api/ingest/objects": "uoa",
	"/api/ingest/profiles": "uoa", "/api/ingest/profiles/schema": "*", "/api/ingest/profiles/{id}": "oa", "/api/ingest/profiles/reload": "oa",
	"/api/access": "uoa", "/api/access/": "*",
	"/api/flows": "uoa", "/flows/": "uoa",
	"/api/compute/jobs": "uoa", "/api/compute/services": "uoa", "/api/compute/usage": "uoa", "/api/compute/uploads": "uoa", "/api/compute/agents": "oa",
	"/api/compute/tunnel": "wa", "/ga4gh/tes/v1/": "uoa",
	"/v1/":         "uoa",
	"/api/worker/": "wa", "/api/admin/": "a",
}

func TestRolesAndRoutes(t *testing.T) {
	g := guard(t)
	checkRoles(t, g, g.server.All(), allowed)
}

func TestForeignIsUnknown(t *testing.T) {
	g := guard(t)
	checkForeign(t, g, g.server.All(), allowed)
}

// TestListsAreOwn holds lists and orders against whose they are.
func TestListsAreOwn(t *testing.T) {
	g := guard(t)
	g.post(engine.Order{Owner: "bob"})
	mine := g.post(engine.Order{Owner: "ann"})
	ids := func(secret, query string) []job.ID {
		c, err := client.New(g.web.URL, client.Options{Token: client.NewSecret(secret)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		page, err := c.Jobs(t.Context(), job.Query{Owner: query})
		if err != nil {
			t.Fatal(err)
		}
		var all []job.ID
		for _, j := range page.Jobs {
			all = append(all, j.ID)
		}
		return all
	}
	if got := ids(g.tokens[token.User], ""); !cmp.Equal(got, []job.ID{mine.ID}) {
		t.Errorf("ann sees %v", got)
	}
	if got := ids(g.tokens[token.User], "ann"); !cmp.Equal(got, []job.ID{mine.ID}) {
		t.Errorf("ann sees %v", got)
	}
	if got := ids(g.tokens[token.Operator], ""); len(got) != 2 {
		t.Errorf("the operator sees %v", got)
	}
	g.problem(g.with(g.tokens[token.User], http.MethodGet, "/api/jobs?owner=bob", ""), http.StatusForbidden, job.Refused)
}

// TestActorIsTheToken holds who did what against the token, whatever the request says.
func TestActorIsTheToken(t *testing.T) {
	g := guard(t)
	j := g.post(engine.Order{Owner: "ann"})
	path := "/api/jobs/" + string(j.ID)
	answer, text := g.ask(g.with(g.tokens[token.Operator], http.MethodPost, path+"/hold", `{"actor":"the president"}`))
	if answer.StatusCode != http.StatusOK {
		t.Fatal(text)
	}
	h, err := g.Store().History(t.Context(), j.ID, 0, 100)
	if err != nil || h[len(h)-1].Actor != "operator" {
		t.Errorf("got %+v, %v", h[len(h)-1], err)
	}
	// A user is its jobs' owner and nothing more: what only operators may is refused, and so is saying that one is an operator.
	p := g.problem(g.with(g.tokens[token.User], http.MethodPost, path+"/release", `{}`), http.StatusConflict, job.Refused)
	if p.By != "owner" {
		t.Errorf("a user acts as %s", p.By)
	}
	g.problem(g.with(g.tokens[token.User], http.MethodPost, path+"/release", `{"as":"operator"}`), http.StatusForbidden, job.Refused)
}

// TestSubmissionsAreOwn holds the owner of what is handed in against the token, and a key leads to nobody else's job.
func TestSubmissionsAreOwn(t *testing.T) {
	g := guard(t)
	submit := func(secret, submitter, key string) (client.Job, error) {
		c, err := client.New(g.web.URL, client.Options{Token: client.NewSecret(secret)})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.Submit(t.Context(), client.Submission{Submitter: submitter, Key: key}, strings.NewReader("x"))
	}
	for _, c := range []struct{ secret, said, want string }{
		{g.tokens[token.User], "bob", "ann"}, {g.tokens[token.User], "", "ann"}, {g.tokens[token.Operator], "bob", "bob"}, {g.tokens[token.Operator], "", "operator"},
	} {
		if j, err := submit(c.secret, c.said, ""); err != nil || j.Owner != c.want {
			t.Errorf("said %q: got %q, %v, want %q", c.said, j.Owner, err, c.want)
		}
	}
	first, err := submit(g.bob, "", "k")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := submit(g.bob, "", "k"); err != nil || again.ID != first.ID {
		t.Errorf("got %s, %v", again.ID, err)
	}
	if j, err := submit(g.tokens[token.User], "", "k"); err != nil || j.ID == first.ID || j.Owner != "ann" {
		t.Errorf("got %s of %s, %v", j.ID, j.Owner, err)
	}
}

// TestTokensFault tells that the file is broken, and not what is in it.
func TestTokensFault(t *testing.T) {
	g := guard(t)
	warnings := func() string {
		_, text := g.ask(g.request(http.MethodGet, "/healthz", ""))
		var h client.Health
		if err := json.Unmarshal([]byte(text), &h); err != nil {
			t.Fatal(err)
		}
		return strings.Join(h.Warnings, "\n")
	}
	if got := warnings(); got != "" {
		t.Errorf("got %q", got)
	}
	broken := open(t, func(o *server.Options) { o.Tokens = faulty{} }, nil)
	g.world = broken
	if got := warnings(); !strings.Contains(got, "file of tokens") || strings.Contains(got, "secret") {
		t.Errorf("got %q", got)
	}
}

type faulty struct{}

func (faulty) Check(*http.Request) (token.Identity, error) { return token.Identity{}, token.ErrUnknown }
func (faulty) Valid() []token.Hash                         { return nil }
func (faulty) Fault() error                                { return token.ErrTypo }
