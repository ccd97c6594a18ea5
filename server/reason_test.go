package server_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/token"
)

// reasonIn says by hand in which type each route that needs a reason reads it; nil: in the query, which DELETE has instead of a body.
var reasonIn = map[string]any{
	"POST /api/jobs/{id}/events/{event}":     client.Act{},
	"POST /api/jobs/{id}/{event}":            client.Act{},
	"PUT /api/jobs/{id}/priority":            client.Priority{},
	"PUT /api/holds":                         client.Hold{},
	"DELETE /api/holds":                      nil,
	"DELETE /api/locks":                      nil,
	"POST /api/bulk":                         client.Bulk{},
	"POST /api/storage":                      client.Adoption{},
	"POST /api/fixity":                       client.CheckFixity{},
	"POST /api/orphans":                      client.FixOrphans{},
	"POST /api/ingest/profiles/reload":       client.ReloadProfiles{},
	"POST /api/outbox/replay":                client.Replay{},
	"POST /api/hooks/replay":                 client.ReplayHooks{},
	"POST /api/hooks/ping":                   client.PingHooks{},
	"POST /api/flows/{id}/mark-reverted":     client.FlowMark{},
	"POST /api/flows/{id}/signal":            client.FlowSignal{},
	"DELETE /api/compute/jobs/{id}":          nil,
	"POST /api/compute/jobs/{id}/cancel":     client.Act{},
	"POST /api/compute/jobs/{id}/clean":      client.Act{},
	"POST /api/compute/jobs/{id}/retry":      client.ComputeRepeat{},
	"POST /api/compute/jobs/{id}/clone":      client.ComputeRepeat{},
	"POST /api/compute/agents/{name}/drain":  client.Act{},
	"POST /api/compute/agents/{name}/resume": client.Act{},
	"POST /api/admin/fsck":                   client.Fsck{},
	"POST /api/admin/clock":                  client.ConfirmClock{},
	"POST /api/admin/backup":                 client.Backup{},
}

// reasonRefused tells whether an answer is the refusal of a request without a reason.
func reasonRefused(text string) bool {
	return strings.Contains(text, "reasons: required") && strings.Contains(text, "--note")
}

// hasReason tells whether a type has a field for a reason.
func hasReason(of any) bool {
	t := reflect.TypeOf(of)
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name == "note" || name == "why" {
			return true
		}
	}
	return false
}

// TestReasons asks every route that changes something, with and without a reason, as staff and as a user, where reasons are required and where they
// are not. A new route must take a reason or be listed in the server with why not.
func TestReasons(t *testing.T) {
	strict := guardWith(t, func(o *server.Options) { o.ReasonsRequired = true })
	lax := guard(t)
	for _, g := range []*guarded{strict, lax} {
		g.server.Close() // long polls end at once
	}
	jobs := map[*guarded]job.ID{strict: strict.post(engine.Order{Owner: "ann"}).ID, lax: lax.post(engine.Order{Owner: "ann"}).ID}
	refused := func(g *guarded, role token.Role, r *server.Route, reason string) bool {
		t.Helper()
		name := map[bool]string{true: "why", false: "note"}[r.Pattern == "/api/holds"]
		path := strings.NewReplacer("{id}", string(jobs[g]), "{event}", "hold", "{name}", "x", "{upload}", "x", "{task}", "x").Replace(r.Pattern)
		body := `{"` + name + `":"` + reason + `"}`
		switch {
		case r.Method == http.MethodDelete:
			path, body = path+"?"+name+"="+strings.ReplaceAll(reason, " ", "%20"), ""
		case r.Pattern == "/api/admin/fsck":
			body = strings.Replace(body, "{", `{"Repair":true,`, 1) // as the decoder reads it
		}
		_, text := g.ask(g.with(g.tokens[role], r.Method, path, body))
		if strings.Contains(text, "unknown field") && r.Pattern != "/api/compute/jobs/{id}" {
			if needed, _ := r.NeedsReason(); needed {
				t.Errorf("%s %s does not know the reason: %s", r.Method, r.Pattern, text)
			}
		}
		return reasonRefused(text)
	}
	for _, r := range lax.server.All() {
		if r.Method == http.MethodGet || r.Method == http.MethodOptions {
			continue
		}
		route := r.Method + " " + r.Pattern
		needed, whyNot := r.NeedsReason()
		in, listed := reasonIn[route]
		if needed != listed || needed == (whyNot != "") {
			t.Errorf("%s: needs a reason: %t, is in the table: %t, why not: %q", route, needed, listed, whyNot)
			continue
		}
		if (in != nil && !hasReason(in)) || (needed && in == nil && r.Method != http.MethodDelete) {
			t.Errorf("%s: %T has no field for a reason", route, in)
		}
		for _, role := range []token.Role{token.Operator, token.Admin} {
			may := role == token.Admin || r.Who != server.Admin && r.Who != server.Worker
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
		if refused(strict, token.User, &r, "") {
			t.Errorf("%s: a user needs a reason", route)
		}
	}
}

// TestReasonsPreview: what only looks needs no reason, whatever the names of its fields look like; a body of a DELETE counts for nothing. Without tokens
// only who acts as owner needs none.
func TestReasonsPreview(t *testing.T) {
	w := open(t, func(o *server.Options) { o.ReasonsRequired = true }, nil)
	path := "/api/jobs/" + string(w.post(engine.Order{Owner: "ann"}).ID)
	for _, c := range []struct {
		method, path, body string
		refused            bool
	}{
		{http.MethodPost, "/api/bulk?dry=true", `{"event":"hold"}`, false},
		{http.MethodPost, "/api/bulk", `{"event":"hold"}`, true},
		{http.MethodPost, "/api/admin/fsck", `{}`, false},
		{http.MethodPost, "/api/admin/fsck", `{"repair":true}`, true},
		{http.MethodPost, "/api/admin/fsck", `{"REPAIR":true}`, true},
		{http.MethodPost, "/api/admin/fsck", `{"repair":true,"Note":"counts"}`, false},
		{http.MethodDelete, "/api/holds?group=g", `{"why":"in the body"}`, true},
		{http.MethodDelete, "/api/holds?group=g&why=done", "", false},
		{http.MethodPost, path + "/hold", "", true},
		{http.MethodPost, path + "/hold", "null", true},
		{http.MethodPost, path + "/hold", `{"note":5}`, true},
		{http.MethodPost, path + "/hold", `{"as":"operator"}`, true},
		{http.MethodPost, path + "/hold", `{"as":"owner"}`, false},
		{http.MethodPost, path + "/hold", `[`, false}, // refused by the handler
	} {
		answer, text := w.ask(w.request(c.method, c.path, c.body))
		if got := reasonRefused(text); got != c.refused || got && answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s %s %s: %s %s", c.method, c.path, c.body, answer.Status, text)
		}
	}
}
