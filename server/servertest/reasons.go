package servertest

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
)

// ReasonRefused reports whether an answer is the refusal of a request without a reason.
func ReasonRefused(text string) bool {
	return strings.Contains(text, "reasons: required") && strings.Contains(text, "--note")
}

// hasReason reports whether a type has a field for a reason.
func hasReason(of any) bool {
	t := reflect.TypeOf(of)
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name == "note" || name == "why" {
			return true
		}
	}
	return false
}

// CheckReasons asks every route of parts, or of the server if there are none, that changes something, with and
// without a reason, as staff and as a user, where reasons are required and where they are not. in lists in which type
// each route that needs a reason reads it; nil: in the query, which DELETE has instead of a body. A new route must take
// a reason or state why not ([server.Route.NoReason]).
func CheckReasons(t *testing.T, in map[string]any, parts ...PartOf) {
	t.Helper()
	strict := GuardWith(t, func(_ *Guarded, o *server.Options) { o.ReasonsRequired = true }, parts...)
	lax := Guard(t, parts...)
	for _, g := range []*Guarded{strict, lax} {
		g.Server.Close() // long polls end at once
	}
	jobs := map[*Guarded]job.ID{strict: strict.Post(engine.Order{Owner: "ann"}).ID,
		lax: lax.Post(engine.Order{Owner: "ann"}).ID}
	refused := func(g *Guarded, role identity.Role, r *server.Route, reason string) bool {
		t.Helper()
		name := map[bool]string{true: "why", false: "note"}[r.Pattern == "/api/v1/holds"]
		path := strings.NewReplacer("{id}", string(jobs[g]), "{event}", "hold", "{name}", "x", "{upload}", "x",
			"{task}", "x").Replace(r.Pattern)
		body := `{"` + name + `":"` + reason + `"}`
		switch {
		case r.Method == http.MethodDelete:
			path, body = path+"?"+name+"="+strings.ReplaceAll(reason, " ", "%20"), ""
		case r.Pattern == "/api/v1/admin/fsck":
			body = strings.Replace(body, "{", `{"Repair":true,`, 1) // as the decoder reads it
		}
		_, text := g.Ask(g.With(g.Tokens[role], r.Method, path, body))
		if strings.Contains(text, "unknown field") && r.Method != http.MethodDelete {
			if needed, _ := r.NeedsReason(); needed {
				t.Errorf("%s %s does not know the reason: %s", r.Method, r.Pattern, text)
			}
		}
		return ReasonRefused(text)
	}
	for _, r := range routesOf(lax, parts) {
		if r.Method == http.MethodGet || r.Method == http.MethodOptions {
			continue
		}
		route := r.Method + " " + r.Pattern
		needed, whyNot := r.NeedsReason()
		of, listed := in[route]
		if needed != listed || needed == (whyNot != "") {
			t.Errorf("%s: needs a reason: %t, is in the table: %t, why not: %q", route, needed, listed, whyNot)
			continue
		}
		if (of != nil && !hasReason(of)) || (needed && of == nil && r.Method != http.MethodDelete) {
			t.Errorf("%s: %T has no field for a reason", route, of)
		}
		for _, role := range []identity.Role{identity.Operator, identity.Admin} {
			may := role == identity.Admin || r.Who != server.Admin && r.Who != server.Worker && r.Right == ""
			if got := refused(strict, role, &r, ""); got != (needed && may) {
				t.Errorf("%s as %s without a reason: refused: %t", route, role, got)
			}
			if got := refused(strict, role, &r, "  "); got != (needed && may) {
				t.Errorf("%s as %s with a blank reason: refused: %t", route, role, got)
			}
			if refused(strict, role, &r, "because") || refused(lax, role, &r, "") {
				t.Errorf("%s as %s is refused with a reason, or where none is required", route, role)
			}
		}
		if refused(strict, identity.Depositor, &r, "") {
			t.Errorf("%s: a user needs a reason", route)
		}
	}
}

// routesOf lists the routes of parts, or of the server if there are none.
func routesOf(g *Guarded, parts []PartOf) []server.Route {
	if len(parts) == 0 {
		return server.Routes()
	}
	var all []server.Route
	for _, part := range parts {
		all = append(all, part(g.Harness).Routes...)
	}
	return all
}
