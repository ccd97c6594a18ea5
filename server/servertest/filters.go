package servertest

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/openapi"
)

// legal has a value of each filter whose values are limited to a vocabulary: others are refused with the known ones.
var legal = map[string]string{"kind": "test.letter", "state": "Riding", "outcome": "ok", "topic": "callback",
	"service": "default", "application": "one"}

// open lists the filters with values that people or workers choose: of a value that no entry has, the list is empty.
var open = []string{
	"activity", "actor", "ark", "cause", "course", "digest", "event", "group", "job", "key", "label",
	"local_id", "location", "name", "owner", "parent", "source", "tag", "words", "worker",
}

// CheckFilters compares the parameters of every route with one rule. A parameter that does not exist is refused. A
// filter of a list that is declared as repeatable is also a list with commas, any other one is refused if it is given
// twice; a value that is not possible is refused with the values that are. Paths has the paths of routes that need
// one; known are values of filters in place of the usual ones.
func CheckFilters(t *testing.T, w *Harness, routes []server.Route, paths, known map[string]string) {
	id := string(w.Post(engine.Order{}).ID)
	checked := 0
	for _, r := range routes {
		if !strings.HasPrefix(r.Pattern, "/api/") { // other paths are of other standards
			continue
		}
		path, given := paths[r.Method+" "+r.Pattern]
		if !given {
			path = strings.NewReplacer("{id}", id, "{name}", "x").Replace(r.Pattern)
		}
		refusesUnknown(w, &r, path)
		checked++
		if r.Method != http.MethodGet || r.IO.Out == nil || len(r.IO.Query) == 0 {
			continue
		}
		t.Run(r.Method+" "+r.Pattern, func(t *testing.T) {
			w := *w
			w.T = t
			if status, text := ask(&w, path); status != http.StatusOK {
				t.Fatalf("without a filter: got %d: %s", status, text)
			}
			for _, p := range r.IO.Query {
				if p.Name != "after" && p.Name != "limit" {
					checkFilter(&w, path, &p, known)
				}
			}
		})
	}
	if checked == 0 {
		t.Error("no route was checked")
	}
}

// refusesUnknown sends a parameter that no route has.
func refusesUnknown(w *Harness, r *server.Route, path string) {
	w.T.Helper()
	body := ""
	if r.Method != http.MethodGet {
		body = `{"note":"why"}`
	}
	query := "?nonsense=x"
	for _, p := range r.IO.Query {
		if p.Name == "note" || p.Name == "why" { // a reason is checked first
			query += "&" + p.Name + "=why"
		}
	}
	answer, text := w.Ask(w.Request(r.Method, path+query, body))
	if answer.StatusCode != http.StatusBadRequest || !strings.Contains(text, "nonsense") {
		w.T.Errorf("%s %s with a parameter that does not exist: got %s: %.300s", r.Method, path, answer.Status, text)
	}
}

// moment is the time in an answer.
var moment = regexp.MustCompile(`"at":"[^"]*"`)

// ask returns the answer to a list with pairs of a filter and a value.
func ask(w *Harness, path string, filters ...string) (status int, text string) {
	w.T.Helper()
	q := url.Values{}
	for i := 0; i < len(filters); i += 2 {
		q.Add(filters[i], filters[i+1])
	}
	answer, text := w.Ask(w.Request(http.MethodGet, path+"?"+q.Encode(), ""))
	return answer.StatusCode, moment.ReplaceAllString(text, "")
}

func checkFilter(w *Harness, path string, p *openapi.Parameter, known map[string]string) {
	w.T.Helper()
	right, wrong, hint := "", "nonsense", "(known: "
	switch {
	case len(p.Values) > 0:
		right, hint = p.Values[0], strings.Join(p.Values, ", ")
	case p.Type == "boolean":
		right, hint = "true", "true or false"
	case p.Type == "integer" || p.Type == "number":
		right, hint = "1", "must be a number from "
	case p.Format == "date-time":
		right, hint = time.Now().UTC().Format(time.RFC3339Nano), "must be a time such as"
	case p.Name == "address":
		right, hint = "192.0.2.7", "must be an IP address, a prefix such as"
	case slices.Contains(open, p.Name):
		right, wrong = "x", ""
	default:
		right = legal[p.Name]
	}
	if value := known[p.Name]; value != "" {
		right = value
	}
	status, once := ask(w, path, p.Name, right)
	if status >= 400 {
		w.T.Errorf("%s=%s: got %d: %s", p.Name, right, status, once)
	}
	status, twice := ask(w, path, p.Name, right, p.Name, right)
	if p.Many {
		if _, listed := ask(w, path, p.Name, right+","+right); twice != once || listed != once {
			w.T.Errorf("%s once, twice and as a list: got %s, %s, %s", p.Name, once, twice, listed)
		}
	} else if status != http.StatusBadRequest || !strings.Contains(twice, "is given twice") {
		w.T.Errorf("%s twice: got %d: %s", p.Name, status, twice)
	}
	if wrong == "" {
		return
	}
	r := w.Request(http.MethodGet, path+"?"+url.Values{p.Name: {wrong}}.Encode(), "")
	if e := w.Problem(r, http.StatusBadRequest, job.Invalid); !strings.Contains(e.Detail, hint) {
		w.T.Errorf("%s=%s: the refusal lacks %q: %s", p.Name, wrong, hint, e.Detail)
	}
}
