package servertest

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
)

// CheckRoutes tries routes of a server: each answers, with the headers, to a request that is right, to one for a job
// that does not exist, to a strange parameter, to a body that is garbage, from another origin and under another name.
// It closes the server, so that event streams end at once.
func CheckRoutes(t *testing.T, w *Harness, routes []server.Route) {
	w.Server.Close()
	for _, r := range routes {
		t.Run(r.Method+" "+r.Pattern, func(t *testing.T) {
			w := *w
			w.T = t
			id := w.Post(engine.Order{}).ID
			if r.Doc == "" || !strings.HasSuffix(r.Doc, ".") || r.Who == "" {
				t.Errorf("it needs a sentence and a role: %q, %q", r.Doc, r.Who)
			}
			at := func(id job.ID) string {
				return strings.NewReplacer("{id}", string(id), "{event}", "hold", "{name}", "test.letter", "{$}",
					"").Replace(r.Pattern)
			}
			answer, text := w.Ask(w.Request(r.Method, at(id), ""))
			CheckHeaders(t, answer)
			if answer.StatusCode >= 500 {
				t.Errorf("got %s: %s", answer.Status, text)
			}
			writes := r.Method != http.MethodGet && r.Method != http.MethodOptions
			if strings.Contains(r.Pattern, "{id}") {
				body := ""
				if strings.HasSuffix(r.Pattern, "/priority") {
					body = `{"priority":1}`
				}
				w.Problem(w.Request(r.Method, at("let_nobody"), body), http.StatusNotFound, job.NotFound)
			}
			if r.Pattern != "/{$}" && r.Pattern != "/healthz" && !strings.Contains(r.Pattern, "/worker/") {
				p := w.Problem(w.Request(r.Method, at(id)+"?nonsense=1", ""), http.StatusBadRequest, job.Invalid)
				checkParameters(t, &r, p.Detail)
			}
			if writes && r.Method != http.MethodDelete {
				garbage := w.Request(r.Method, at(id), `{"no such field": 1}`)
				if answer, text := w.Ask(garbage); answer.StatusCode < 400 || answer.StatusCode >= 500 {
					t.Errorf("garbage: got %s: %s", answer.Status, text)
				} else {
					CheckHeaders(t, answer)
				}
			}
			foreign := w.Request(r.Method, at(id), "")
			foreign.Header.Set("Origin", "https://evil.example")
			foreign.Header.Set("Sec-Fetch-Site", "cross-site")
			if writes {
				w.Problem(foreign, http.StatusForbidden, job.Refused)
			}
			rebound := w.Request(r.Method, at(id), "")
			rebound.Host = "evil.example"
			w.Problem(rebound, http.StatusMisdirectedRequest, job.Refused)
		})
	}
}

// checkParameters compares the declared parameters of a route with those that its refusal of another one lists.
func checkParameters(t *testing.T, r *server.Route, refusal string) {
	t.Helper()
	_, list, found := strings.Cut(refusal, "(known: ")
	if !found {
		return // the application refused before
	}
	known := []string{}
	if list = strings.TrimSuffix(list, ")"); list != "none" {
		known = strings.Split(list, ", ")
	}
	declared := []string{}
	for _, p := range r.IO.Query {
		declared = append(declared, p.Name)
	}
	slices.Sort(known)
	slices.Sort(declared)
	if !slices.Equal(known, declared) {
		t.Errorf("the route declares the parameters %q, and the handler reads %q", declared, known)
	}
}

// allowedFor returns who may use a route: of the longest path that fits; a method goes before none.
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

// CheckRoles asks routes in every role, without a token, and with ones that are malformed, expired and revoked. The
// table lists, independently of the routes, which roles may use what is below a path: u (depositor), o(perator),
// w(orker), a(dmin), or * for all callers without a token; a method may stand before a path. An auditor may use what
// reads, except for workers.
func CheckRoles(t *testing.T, g *Guarded, routes []server.Route, allowed map[string]string) {
	g.Server.Close() // event streams end at once
	mine := g.Post(engine.Order{Owner: "ann"}).ID
	letters := map[identity.Role]string{identity.Depositor: "u", identity.Operator: "o", identity.Worker: "w",
		identity.Admin: "a"}
	refused := map[string]string{
		"none": "", "malformed": "stp_x", "unknown": g.other(),
		"expired": g.add(t, "ann", identity.Admin, time.Now().Add(-time.Hour)),
	}
	for _, r := range routes {
		roles, ok := allowedFor(allowed, &r)
		if !ok {
			t.Errorf("%s %s: the table lacks who may", r.Method, r.Pattern)
			continue
		}
		path := strings.NewReplacer("{id}", string(mine), "{event}", "hold", "{name}", "test.letter", "{$}", "",
			"{key...}", "x", "{token}", "x", "{path...}", "x", "{upload}", "x", "{task}", "x").Replace(r.Pattern)
		for role, secret := range g.Tokens {
			want := roles == "*" || strings.Contains(roles, letters[role])
			if role == identity.Auditor {
				want = roles == "*" || strings.Contains(roles, "o") && reads(&r) || roles == "a" && reads(&r)
			}
			answer, text := g.Ask(g.With(secret, r.Method, path, ""))
			if got := answer.StatusCode != http.StatusUnauthorized &&
				answer.StatusCode != http.StatusForbidden; got != want {
				t.Errorf("%s %s as %s: got %s, want it let in: %v: %s", r.Method, r.Pattern, role, answer.Status,
					want, text)
			}
			if !want && r.Fault != nil { // in the form of another program
				CheckHeaders(t, answer)
				media, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";")
				if answer.StatusCode != http.StatusForbidden || !slices.Contains(r.IO.Faults, media) {
					t.Errorf("%s %s as %s: got %s, %s: %s", r.Method, r.Pattern, role, answer.Status, media, text)
				}
			} else if !want {
				g.Problem(g.With(secret, r.Method, path, ""), http.StatusForbidden, job.Refused)
			}
		}
		for what, secret := range refused {
			if roles == "*" {
				if answer, _ := g.Ask(g.With(secret, r.Method, path,
					"")); answer.StatusCode == http.StatusUnauthorized {
					t.Errorf("%s %s is for anyone: %s", r.Method, r.Pattern, answer.Status)
				}
				continue
			}
			answer, text := g.Ask(g.With(secret, r.Method, path, ""))
			CheckHeaders(t, answer)
			if answer.StatusCode != http.StatusUnauthorized ||
				!strings.HasPrefix(answer.Header.Get("WWW-Authenticate"), `Bearer realm="stagepost"`) {
				t.Errorf("%s %s with a token that is %s: got %s %q", r.Method, r.Pattern, what, answer.Status,
					answer.Header.Get("WWW-Authenticate"))
			}
			if secret != "" && strings.Contains(text, secret) {
				t.Errorf("the answer has the token: %s", text)
			}
		}
		g.Problem(g.With(g.Tokens[identity.Admin], r.Method, path+"?token="+g.Tokens[identity.Admin], ""),
			http.StatusBadRequest, job.Invalid)
	}
}

// reads reports whether a route changes nothing.
func reads(r *server.Route) bool { return r.Method == http.MethodGet || r.Reads }

// CheckForeign compares what a user gets for the job of another with what it gets for none, byte for byte and header
// by header. The control is its own job, and the operator, who sees both.
func CheckForeign(t *testing.T, g *Guarded, routes []server.Route, allowed map[string]string) {
	g.Server.Close()
	foreign, mine := g.Post(engine.Order{Owner: "bob"}).ID, g.Post(engine.Order{Owner: "ann"}).ID
	none := job.ID(string(foreign)[:len(foreign)-4] + "ZZZZ")
	ann := g.Tokens[identity.Depositor]
	for _, r := range routes {
		roles, _ := allowedFor(allowed, &r)
		if !strings.Contains(r.Pattern, "{id}") || !strings.Contains(roles, "u") {
			continue
		}
		for _, body := range []string{"", `{"no such field":1}`, "{"} {
			for _, query := range []string{"", "?nonsense=1"} {
				at := func(id job.ID) *http.Request {
					path := strings.NewReplacer("{id}", string(id), "{event}", "hold", "{name}",
						"graph.svg").Replace(r.Pattern)
					return g.With(ann, r.Method, path+query, body)
				}
				a, foreignText := g.Ask(at(foreign))
				b, noneText := g.Ask(at(none))
				a.Header.Del("Date")
				b.Header.Del("Date")
				if got := strings.ReplaceAll(foreignText, string(foreign), string(none)); got != noneText ||
					a.StatusCode != http.StatusNotFound || b.StatusCode != http.StatusNotFound {
					t.Errorf("%s %s: got %d %s, for none %d %s", r.Method, r.Pattern, a.StatusCode, foreignText,
						b.StatusCode, noneText)
				}
				if diff := cmp.Diff(a.Header, b.Header); diff != "" {
					t.Errorf("%s %s: %s", r.Method, r.Pattern, diff)
				}
			}
		}
	}
	for secret, ids := range map[string][]job.ID{ann: {mine}, g.Tokens[identity.Operator]: {mine, foreign}} {
		for _, id := range ids {
			if answer, text := g.Ask(g.With(secret, http.MethodGet, "/api/v1/jobs/"+string(id),
				"")); answer.StatusCode != http.StatusOK {
				t.Errorf("got %s %s", answer.Status, text)
			}
		}
	}
}

// CheckPart tries the routes of an application: see [CheckRoutes], [CheckRoles], [CheckMatrix], [CheckForeign] and
// [CheckReasons].
func CheckPart(t *testing.T, allowed map[string]string, reasonIn map[string]any, part PartOf) {
	t.Run("routes", func(t *testing.T) {
		w := Open(t, nil, nil, part)
		CheckRoutes(t, w, part(w).Routes)
	})
	t.Run("roles", func(t *testing.T) {
		g := Guard(t, part)
		CheckRoles(t, g, part(g.Harness).Routes, allowed)
	})
	t.Run("matrix", func(t *testing.T) {
		g := Guard(t, part)
		CheckMatrix(t, g, part(g.Harness).Routes)
	})
	t.Run("foreign", func(t *testing.T) {
		g := Guard(t, part)
		CheckForeign(t, g, part(g.Harness).Routes, allowed)
	})
	t.Run("reasons", func(t *testing.T) { CheckReasons(t, reasonIn, part) })
}
