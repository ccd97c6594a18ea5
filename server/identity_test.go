package server_test

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
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

func allowedFor(r *server.Route) (roles string, ok bool) {
	best := -1
	for path, who := range allowed {
		method, rest, with := strings.Cut(path, " ")
		if with && method != r.Method {
			continue
		}
		if !with {
			rest = path
		}
		if strings.HasPrefix(r.Pattern, rest) && len(path) > best {
			best, roles, ok = len(path), who, true
		}
	}
	return roles, ok
}

// TestRolesAndRoutes asks every route in every role, without a token, and with ones that are malformed, expired and revoked.
func TestRolesAndRoutes(t *testing.T) {
	g := guard(t)
	g.server.Close() // event streams end at once
	mine := g.post(engine.Order{Owner: "ann"}).ID
	letters := map[token.Role]string{token.User: "u", token.Operator: "o", token.Worker: "w", token.Admin: "a"}
	refused := map[string]string{
		"none": "", "malformed": "stp_x", "unknown": g.other(), "expired": g.add(t, "ann", token.Admin, time.Now().Add(-time.Hour)),
	}
	for _, r := range server.Routes() {
		roles, ok := allowedFor(&r)
		if !ok {
			t.Errorf("%s %s: the table does not say who may", r.Method, r.Pattern)
			continue
		}
		path := strings.NewReplacer("{id}", string(mine), "{event}", "hold", "{name}", "test.letter", "{$}", "", "{key...}", "x", "{token}", "x", "{path...}", "x", "{upload}", "x", "{task}", "x").Replace(r.Pattern)
		for role, secret := range g.tokens {
			want := roles == "*" || strings.Contains(roles, letters[role])
			answer, text := g.ask(g.with(secret, r.Method, path, ""))
			if got := answer.StatusCode != http.StatusUnauthorized && answer.StatusCode != http.StatusForbidden; got != want {
				t.Errorf("%s %s as %s: got %s, want it let in: %v: %s", r.Method, r.Pattern, role, answer.Status, want, text)
			}
			if !want {
				g.problem(g.with(secret, r.Method, path, ""), http.StatusForbidden, job.Refused)
			}
		}
		for what, secret := range refused {
			if roles == "*" {
				if answer, _ := g.ask(g.with(secret, r.Method, path, "")); answer.StatusCode == http.StatusUnauthorized {
					t.Errorf("%s %s is for anyone: %s", r.Method, r.Pattern, answer.Status)
				}
				continue
			}
			answer, text := g.ask(g.with(secret, r.Method, path, ""))
			checkHeaders(t, answer)
			if answer.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(answer.Header.Get("WWW-Authenticate"), `Bearer realm="stagepost"`) {
				t.Errorf("%s %s with a token that is %s: got %s %q", r.Method, r.Pattern, what, answer.Status, answer.Header.Get("WWW-Authenticate"))
			}
			if secret != "" && strings.Contains(text, secret) {
				t.Errorf("the answer has the token: %s", text)
			}
		}
		g.problem(g.with(g.tokens[token.Admin], r.Method, path+"?token="+g.tokens[token.Admin], ""), http.StatusBadRequest, job.Invalid)
	}
}

// other is a well-formed token that the file does not have.
func (g *guarded) other() string {
	s, err := token.New(rand.Reader)
	if err != nil {
		g.t.Fatal(err)
	}
	return s.Reveal()
}

// TestForeignIsUnknown compares what a user gets for the job of another with what it gets for none, byte for byte and header by header. The control
// is its own job, and the operator, who sees both.
func TestForeignIsUnknown(t *testing.T) {
	g := guard(t)
	g.server.Close()
	foreign, mine := g.post(engine.Order{Owner: "bob"}).ID, g.post(engine.Order{Owner: "ann"}).ID
	none := job.ID(string(foreign)[:len(foreign)-4] + "ZZZZ")
	ann := g.tokens[token.User]
	for _, r := range server.Routes() {
		roles, _ := allowedFor(&r)
		if !strings.Contains(r.Pattern, "{id}") || !strings.Contains(roles, "u") {
			continue
		}
		for _, body := range []string{"", `{"no such field":1}`, "{"} {
			for _, query := range []string{"", "?nonsense=1"} {
				at := func(id job.ID) *http.Request {
					path := strings.NewReplacer("{id}", string(id), "{event}", "hold", "{name}", "graph.svg").Replace(r.Pattern)
					return g.with(ann, r.Method, path+query, body)
				}
				a, foreignText := g.ask(at(foreign))
				b, noneText := g.ask(at(none))
				a.Header.Del("Date")
				b.Header.Del("Date")
				if got := strings.ReplaceAll(foreignText, string(foreign), string(none)); got != noneText || a.StatusCode != http.StatusNotFound || b.StatusCode != http.StatusNotFound {
					t.Errorf("%s %s: got %d %s, for none %d %s", r.Method, r.Pattern, a.StatusCode, foreignText, b.StatusCode, noneText)
				}
				if diff := cmp.Diff(a.Header, b.Header); diff != "" {
					t.Errorf("%s %s: %s", r.Method, r.Pattern, diff)
				}
			}
		}
	}
	for secret, ids := range map[string][]job.ID{ann: {mine}, g.tokens[token.Operator]: {mine, foreign}} {
		for _, id := range ids {
			if answer, text := g.ask(g.with(secret, http.MethodGet, "/api/jobs/"+string(id), "")); answer.StatusCode != http.StatusOK {
				t.Errorf("got %s %s", answer.Status, text)
			}
		}
	}
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
