package servertest

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/token"
)

// rolesOf lists the roles of identities for each role of a route that changes something, independently of the routes.
// An auditor may also use routes that read, except those of workers.
var rolesOf = map[server.Role][]identity.Role{
	server.Person:   {identity.Depositor, identity.Operator, identity.Admin},
	server.Own:      {identity.Depositor, identity.Operator, identity.Admin},
	server.Shared:   {identity.Depositor, identity.Operator, identity.Admin},
	server.Operator: {identity.Operator, identity.Admin},
	server.Worker:   {identity.Worker, identity.Admin},
	server.Admin:    {identity.Admin},
}

// caller is a row of the matrix: a role with its scope, and its token.
type caller struct {
	name   string
	role   identity.Role // empty: no identity
	groups identity.Groups
	secret string
}

// object is a column of the matrix: whose job the path names.
type object struct {
	name  string
	id    job.ID
	owner string
	group string
}

// CheckMatrix asks every route as every role, with and without a scope, for an own job, that of another person and
// none, with an event that deletes and one that does not, and compares the answers with what the roles and rights of
// the table state. The parts of modules are held to the same table.
func CheckMatrix(t *testing.T, g *Guarded, routes []server.Route) {
	t.Helper()
	g.Server.Close() // event streams end at once
	callers := []caller{{name: "anonymous"}}
	for role, secret := range g.Tokens {
		callers = append(callers, caller{string(role), role, "", secret})
	}
	for _, role := range []identity.Role{identity.Depositor, identity.Operator} {
		callers = append(callers, caller{string(role) + ":maps", role, "maps", g.addScoped(t, "ann", role, "maps")})
	}
	objects := []object{
		{"own", g.Post(engine.Order{Owner: "ann", Group: "maps"}).ID, "ann", "maps"},
		{"foreign", g.Post(engine.Order{Owner: "bob", Group: "photos"}).ID, "bob", "photos"},
	}
	none := string(objects[1].id)
	objects = append(objects, object{"none", job.ID(none[:len(none)-4] + "ZZZZ"), "", "none"})
	for i := range routes {
		r := &routes[i]
		for _, c := range callers {
			for n, o := range objects {
				if n > 0 && !strings.Contains(r.Pattern, "{id}") {
					break
				}
				for _, event := range eventsOf(r) {
					checkCell(t, g, r, &c, &o, event)
				}
			}
		}
	}
}

// eventsOf lists the events for which a route is asked.
func eventsOf(r *server.Route) []string {
	if strings.Contains(r.Pattern, "{event}") {
		return []string{"hold", "delete"}
	}
	return []string{""}
}

// checkCell compares one answer.
func checkCell(t *testing.T, g *Guarded, r *server.Route, c *caller, o *object, event string) {
	t.Helper()
	path := strings.NewReplacer("{id}", string(o.id), "{event}", event, "{name}", "test.letter", "{$}", "",
		"{key...}", "x", "{token}", "x", "{path...}", "x", "{upload}", "x", "{task}", "x", "{key}",
		"x").Replace(r.Pattern)
	answer, text := g.Ask(g.With(c.secret, r.Method, path, ""))
	CheckHeaders(t, answer)
	got := answer.StatusCode
	hidden := got == http.StatusNotFound && strings.Contains(text, "there is no such job")
	if want := expected(r, c, o, event); want == http.StatusOK && (got == http.StatusUnauthorized ||
		got == http.StatusForbidden) || want != http.StatusOK && got != want || want == http.StatusNotFound && !hidden {
		t.Errorf("%s %s as %s for %s %s: got %d, want %d: %.200s", r.Method, r.Pattern, c.name, o.name, event,
			got, want, text)
	}
}

// expected returns the status that the table of routes demands; 200 stands for every answer of a handler.
func expected(r *server.Route, c *caller, o *object, event string) int {
	job := strings.Contains(r.Pattern, "{id}") && (r.Who == server.Person || r.Grouped)
	may := slices.Contains(rolesOf[r.Who], c.role) || c.role == identity.Auditor && r.Who != server.Worker && reads(r)
	grouped := r.Grouped || r.Who == server.Shared || job
	switch {
	case r.Who == server.Anyone:
		return http.StatusOK
	case c.role == "":
		return http.StatusUnauthorized
	case !may, c.groups != "" && !grouped, c.role == identity.Depositor && r.Who == server.Person && !job:
		return http.StatusForbidden
	case job && (c.role == identity.Depositor && o.owner != "ann" || c.groups != "" && string(c.groups) != o.group):
		return http.StatusNotFound
	case job && !entitled(r, c, o, event):
		return http.StatusForbidden
	}
	return http.StatusOK
}

// entitled reports whether a caller may do with an object what needs a right: admins, and the owner. Handlers answer
// for events of jobs that do not exist.
func entitled(r *server.Route, c *caller, o *object, event string) bool {
	if r.Right == "" && (event != "delete" || o.name == "none") || c.role == identity.Admin {
		return true
	}
	owner := string(c.role) // as Guard names them
	if c.role == identity.Depositor || c.groups != "" {
		owner = "ann"
	}
	return o.owner == owner
}

// addScoped makes a token that is limited to groups.
func (g *Guarded) addScoped(t *testing.T, owner string, role identity.Role, groups identity.Groups) string {
	t.Helper()
	s := newSecret(t)
	if err := token.Add(g.File, token.Entry{Hash: s.Hash(), Role: role, Owner: owner, Groups: groups}); err != nil {
		t.Fatal(err)
	}
	r := g.With(s.Reveal(), http.MethodGet, "/api/v1/lookup?name=none", "")
	for deadline := time.Now().Add(time.Minute); ; { // the file is read again within a second
		answer, text := g.Ask(r)
		if answer.StatusCode != http.StatusUnauthorized {
			return s.Reveal()
		}
		if time.Now().After(deadline) {
			t.Fatalf("the token is not accepted: %s", text)
		}
	}
}
