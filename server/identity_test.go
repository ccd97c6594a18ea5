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
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/openapi"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/server/token"
)

// allowed lists, independently of the routes, which roles may use what is below a path: u (depositor), o(perator),
// w(orker), a(dmin), or * for all callers without a token. The longest path that fits counts; a method goes before
// none.
var allowed = map[string]string{
	"/{$}":                           "*",
	"/healthz":                       "*",
	"/metrics":                       "oa",
	"/assets/":                       "*",
	"/api/v1/jobs":                   "uoa",
	"/api/v1/lookup":                 "uoa",
	"PUT /api/v1/jobs/{id}/priority": "oa",
	"/api/v1/holds":                  "oa",
	"/api/v1/locks":                  "oa",
	"/api/v1/workers":                "oa",
	"/api/v1/fixity":                 "oa",
	"/api/v1/fixity/objects":         "oa",
	"/api/v1/counts":                 "oa",
	"/api/v1/throughput":             "oa",
	"/api/v1/queue":                  "oa",
	"/api/v1/stuck":                  "oa",
	"/api/v1/audit":                  "oa",
	"/api/v1/lifecycles":             "*",
	"/api/v1/openapi.json":           "*",
	"/api/v1/docs":                   "*",
	"/api/v1/outbox":                 "oa",
	"/api/v1/worker/":                "wa",
	"/api/v1/admin/":                 "a",
}

func TestRolesAndRoutes(t *testing.T) {
	g := servertest.Guard(t)
	servertest.CheckRoles(t, g, g.Server.All(), allowed)
}

// TestMatrix is the role matrix of the routes of every server.
func TestMatrix(t *testing.T) {
	g := servertest.Guard(t)
	servertest.CheckMatrix(t, g, g.Server.All())
}

// TestNoRuleIsClosed: a route without a role is closed, to admins too.
func TestNoRuleIsClosed(t *testing.T) {
	part := func(*servertest.Harness) server.Part {
		return server.Part{Routes: []server.Route{{Method: http.MethodGet, Pattern: "/unruled", Doc: "A test.",
			Handle: func(http.ResponseWriter, *http.Request) error { t.Error("it was reached"); return nil }}}}
	}
	g := servertest.Guard(t, part)
	for role, secret := range g.Tokens {
		answer, _ := g.Ask(g.With(secret, http.MethodGet, "/unruled", ""))
		if answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s: got %s", role, answer.Status)
		}
	}
}

func TestForeignIsUnknown(t *testing.T) {
	g := servertest.Guard(t)
	servertest.CheckForeign(t, g, g.Server.All(), allowed)
}

// TestListsAreOwn holds lists and orders against whose they are.
func TestListsAreOwn(t *testing.T) {
	g := servertest.Guard(t)
	g.Post(engine.Order{Owner: "bob"})
	mine := g.Post(engine.Order{Owner: "ann"})
	ids := func(secret, query string) []job.ID {
		c, err := client.New(g.Web.URL, client.Options{Token: client.NewSecret(secret)})
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
	if got := ids(g.Tokens[identity.Depositor], ""); !cmp.Equal(got, []job.ID{mine.ID}) {
		t.Errorf("ann sees %v", got)
	}
	if got := ids(g.Tokens[identity.Depositor], "ann"); !cmp.Equal(got, []job.ID{mine.ID}) {
		t.Errorf("ann sees %v", got)
	}
	if got := ids(g.Tokens[identity.Operator], ""); len(got) != 2 {
		t.Errorf("the operator sees %v", got)
	}
	g.Problem(g.With(g.Tokens[identity.Depositor], http.MethodGet, "/api/v1/jobs?owner=bob", ""), http.StatusForbidden,
		job.Refused)
}

// TestActorIsTheToken holds who did what against the token, whatever the request has.
func TestActorIsTheToken(t *testing.T) {
	g := servertest.Guard(t)
	j := g.Post(engine.Order{Owner: "ann"})
	path := "/api/v1/jobs/" + string(j.ID)
	answer, text := g.Ask(g.With(g.Tokens[identity.Operator], http.MethodPost, path+"/hold",
		`{"actor":"the president"}`))
	if answer.StatusCode != http.StatusOK {
		t.Fatal(text)
	}
	h, err := g.Store().History(t.Context(), j.ID, 0, 100)
	if err != nil || h[len(h)-1].Actor != "operator" {
		t.Errorf("got %+v, %v", h[len(h)-1], err)
	}
	// A user is its jobs' owner and nothing more: what only operators may is refused, and so is the claim to be an
	// operator.
	p := g.Problem(g.With(g.Tokens[identity.Depositor], http.MethodPost, path+"/release", `{}`), http.StatusConflict,
		job.Refused)
	if p.By != "owner" {
		t.Errorf("a user acts as %s", p.By)
	}
	g.Problem(g.With(g.Tokens[identity.Depositor], http.MethodPost, path+"/release", `{"as":"operator"}`),
		http.StatusForbidden, job.Refused)
}

// TestTokensFault: health reports that the file is broken, and not what is in it.
func TestTokensFault(t *testing.T) {
	g := servertest.Guard(t)
	warnings := func() string {
		_, text := g.Ask(g.Request(http.MethodGet, "/healthz", ""))
		var h client.Health
		if err := json.Unmarshal([]byte(text), &h); err != nil {
			t.Fatal(err)
		}
		return strings.Join(h.Warnings, "\n")
	}
	if got := warnings(); got != "" {
		t.Errorf("got %q", got)
	}
	broken := servertest.Open(t, func(o *server.Options) { o.Identities = faulty{} }, nil)
	g.Harness = broken
	if got := warnings(); !strings.Contains(got, "file of tokens or users") || strings.Contains(got, "secret") {
		t.Errorf("got %q", got)
	}
}

type faulty struct{}

func (faulty) Identify(*http.Request) (identity.Identity, error) {
	return identity.Identity{}, token.ErrUnknown
}
func (faulty) Valid(*identity.Identity) bool { return false }
func (faulty) Fault() error                  { return token.ErrTypo }

// TestBasicIsOfItsRoutes takes a token as the password of Basic authentication on routes that allow it, and on no
// others. Other passwords are refused.
func TestBasicIsOfItsRoutes(t *testing.T) {
	part := func(*servertest.Harness) server.Part {
		route := func(pattern string, basic bool) server.Route {
			return server.Route{Method: http.MethodPost, Pattern: pattern, Who: server.Shared, Basic: basic,
				Doc:      "A test.",
				NoReason: "a test", IO: openapi.IO{Media: openapi.Text}, Handle: func(w http.ResponseWriter,
					r *http.Request) error {
					_, err := w.Write([]byte(server.OwnerOf(r.Context())))
					return err
				}}
		}
		return server.Part{Routes: []server.Route{route("/basic", true), route("/bearer", false)}}
	}
	g := servertest.Guard(t, part)
	for _, c := range []struct {
		path, password string
		status         int
	}{
		{"/basic", g.Tokens[identity.Depositor], 200}, {"/bearer", g.Tokens[identity.Depositor], 401},
		{"/basic", "wrong", 401},
		{"/basic", "", 401}, {"/basic", g.Tokens[identity.Worker], 403},
	} {
		r := g.Request(http.MethodPost, c.path, "")
		r.SetBasicAuth("whatever", c.password)
		answer, text := g.Ask(r)
		if answer.StatusCode != c.status || c.status == 200 && text != "ann" {
			t.Errorf("%s %.8q: got %s: %s", c.path, c.password, answer.Status, text)
		}
		offered := strings.Contains(strings.Join(answer.Header.Values("WWW-Authenticate"), ","), "Basic")
		if offered != (c.status == 401 && c.path == "/basic") {
			t.Errorf("%s %.8q: offered %v", c.path, c.password, offered)
		}
	}
	r := g.With(g.Tokens[identity.Depositor], http.MethodPost, "/basic", "")
	if answer, text := g.Ask(r); answer.StatusCode != 200 || text != "ann" {
		t.Errorf("with a bearer token: got %s: %s", answer.Status, text)
	}
}
