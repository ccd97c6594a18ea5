package server_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/token"
)

// checkRoutes tries routes of a world: each answers, with the headers, to a request that is right, to one for a job that does not exist, to a strange
// parameter, to a body that is garbage, from another origin and under another name. It closes the server, so that event streams end at once.
func checkRoutes(t *testing.T, w *world, routes []server.Route) {
	w.server.Close()
	for _, r := range routes {
		t.Run(r.Method+" "+r.Pattern, func(t *testing.T) {
			w := *w
			w.t = t
			id := w.post(engine.Order{}).ID
			if r.Doc == "" || !strings.HasSuffix(r.Doc, ".") || r.Who == "" {
				t.Errorf("it needs a sentence and a role: %q, %q", r.Doc, r.Who)
			}
			at := func(id job.ID) string {
				return strings.NewReplacer("{id}", string(id), "{event}", "hold", "{name}", "test.letter", "{$}", "").Replace(r.Pattern)
			}
			answer, text := w.ask(w.request(r.Method, at(id), ""))
			checkHeaders(t, answer)
			if answer.StatusCode >= 500 {
				t.Errorf("got %s: %s", answer.Status, text)
			}
			writes := r.Method != http.MethodGet && r.Method != http.MethodOptions
			if strings.Contains(r.Pattern, "{id}") && !strings.Contains(r.Pattern, "/ingest/") {
				body := ""
				if strings.HasSuffix(r.Pattern, "/priority") {
					body = `{"priority":1}`
				}
				w.problem(w.request(r.Method, at("let_nobody"), body), http.StatusNotFound, job.NotFound)
			}
			if r.Pattern != "/{$}" && r.Pattern != "/healthz" && !strings.Contains(r.Pattern, "/worker/") {
				w.problem(w.request(r.Method, at(id)+"?nonsense=1", ""), http.StatusBadRequest, job.Invalid)
			}
			if writes && r.Method != http.MethodDelete {
				garbage := w.request(r.Method, at(id), `{"no such field": 1}`)
				if answer, text := w.ask(garbage); answer.StatusCode < 400 || answer.StatusCode >= 500 {
					t.Errorf("garbage: got %s: %s", answer.Status, text)
				} else {
					checkHeaders(t, answer)
				}
			}
			foreign := w.request(r.Method, at(id), "")
			foreign.Header.Set("Origin", "https://evil.example")
			foreign.Header.Set("Sec-Fetch-Site", "cross-site")
			if writes {
				w.problem(foreign, http.StatusForbidden, job.Refused)
			}
			rebound := w.request(r.Method, at(id), "")
			rebound.Host = "evil.example"
			w.problem(rebound, http.StatusMisdirectedRequest, job.Refused)
		})
	}
}

// allowedFor gives who may use a route: of the longest path that fits; a method goes before none.
func allowedFor(allowed map[string]string, r *server.Route) (roles string, ok bool) {
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

// checkRoles asks routes in every role, without a token, and with ones that are malformed, expired and revoked. The table says by hand which roles
// may use what lies below a path: u(ser), o(perator), w(orker), a(dmin), or * for everybody without a token; a method may stand before a path.
func checkRoles(t *testing.T, g *guarded, routes []server.Route, allowed map[string]string) {
	g.server.Close() // event streams end at once
	mine := g.post(engine.Order{Owner: "ann"}).ID
	letters := map[token.Role]string{token.User: "u", token.Operator: "o", token.Worker: "w", token.Admin: "a"}
	refused := map[string]string{
		"none": "", "malformed": "stp_x", "unknown": g.other(), "expired": g.add(t, "ann", token.Admin, time.Now().Add(-time.Hour)),
	}
	for _, r := range routes {
		roles, ok := allowedFor(allowed, &r)
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

// checkForeign compares what a user gets for the job of another with what it gets for none, byte for byte and header by header. The control
// is its own job, and the operator, who sees both.
func checkForeign(t *testing.T, g *guarded, routes []server.Route, allowed map[string]string) {
	g.server.Close()
	foreign, mine := g.post(engine.Order{Owner: "bob"}).ID, g.post(engine.Order{Owner: "ann"}).ID
	none := job.ID(string(foreign)[:len(foreign)-4] + "ZZZZ")
	ann := g.tokens[token.User]
	for _, r := range routes {
		roles, _ := allowedFor(allowed, &r)
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
