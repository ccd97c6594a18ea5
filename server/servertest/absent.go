package servertest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

// CheckAbsent holds every route of a part without its application against the rule of absent modules: 404 with a
// sentence that names the setting, or the module that the program was made without. The table has by path what is
// named, the longest that fits; "-" marks a route that answers all the same. A route for one job may answer that the
// job does not exist. present is a server with the application, the control: there an answer replaces each sentence.
func CheckAbsent(t *testing.T, absent PartOf, present *Harness, named map[string]string) {
	without, answered := Open(t, nil, nil, absent), map[string]bool{"-": true}
	without.Server.Close()
	present.Server.Close()
	problem := func(w *Harness, r *server.Route) (p api.Problem, status int) {
		id := w.Post(engine.Order{}).ID
		path := strings.NewReplacer("{id}", string(id), "{name}", "x", "{token}", "x", "{path...}", "x",
			"{key...}", "x", "{upload}", "x", "{task}", "x").Replace(r.Pattern)
		answer, text := w.Ask(w.Request(r.Method, path, ""))
		media, _, _ := strings.Cut(answer.Header.Get("Content-Type"), ";")
		theirs := slices.Contains(r.IO.Faults, media) // a fault in the form of another program
		if answer.StatusCode >= 400 && !theirs && json.Unmarshal([]byte(text), &p) != nil {
			t.Errorf("%s %s: got %s: %s", r.Method, r.Pattern, answer.Status, text)
		}
		return p, answer.StatusCode
	}
	for _, r := range absent(without).Routes {
		name, ok := allowedFor(named, &r)
		if !ok {
			t.Errorf("%s %s: the table lacks what is named", r.Method, r.Pattern)
			continue
		}
		p, status := problem(without, &r)
		if name == "-" {
			if status != http.StatusOK {
				t.Errorf("%s %s: got %d %s", r.Method, r.Pattern, status, p.Detail)
			}
			continue
		}
		if status != http.StatusNotFound || p.Kind != job.NotFound {
			t.Errorf("%s %s: got %d %s", r.Method, r.Pattern, status, p.Detail)
		}
		if !strings.Contains(r.Pattern, "{id}") && !strings.HasSuffix(p.Detail, "("+name+")") {
			t.Errorf("%s %s does not name %q: %s", r.Method, r.Pattern, name, p.Detail)
		}
		p, status = problem(present, &r)
		answered[name] = answered[name] || status != http.StatusNotFound && !strings.Contains(p.Detail, name)
	}
	for path, name := range named {
		if !answered[name] {
			t.Errorf("control: %s: a server that has the application answers the same to %s", path, name)
		}
	}
}
