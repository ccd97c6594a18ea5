package servertest

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

// Versioned makes a job, and gives where it is read and the request that changes it once.
type Versioned func() (read string, write func() *http.Request)

// CheckVersions holds every route that takes a version against the rule of versions: what shows a job has an ETag and
// answers 304 to who has it, and a change with If-Match is made to that version of the record or refused with 412. A
// change to any version, the control, is made. The table is by route; those whose sentence names `version` must be in
// it.
func CheckVersions(t *testing.T, w *Harness, routes []server.Route, versioned map[string]Versioned) {
	for _, r := range routes {
		route := r.Method + " " + r.Pattern
		makes := versioned[route]
		if makes == nil {
			if r.Method != http.MethodGet && strings.Contains(r.Doc, " version,") &&
				!strings.Contains(r.Doc, "files, format") {
				t.Errorf("%s takes a version, and the table of versions lacks it", route)
			}
			continue
		}
		t.Run(route, func(t *testing.T) {
			w := *w
			w.T = t
			checkVersion(&w, makes)
		})
	}
}

func checkVersion(w *Harness, makes Versioned) {
	read, write := makes()
	get := func(header, value string) (*http.Response, string) {
		r := w.Request(http.MethodGet, read, "")
		if header != "" {
			r.Header.Set(header, value)
		}
		return w.Ask(r)
	}
	answer, text := get("", "")
	etag := answer.Header.Get("ETag")
	if answer.StatusCode != http.StatusOK || !strings.HasPrefix(etag, `"`) {
		w.T.Fatalf("got %s with ETag %s: %s", answer.Status, etag, text)
	}
	if a, text := get("If-None-Match", etag); a.StatusCode != http.StatusNotModified || text != "" {
		w.T.Errorf("If-None-Match: got %s: %s", a.Status, text)
	}
	if a, _ := get("If-None-Match", `"other"`); a.StatusCode != http.StatusOK {
		w.T.Errorf("If-None-Match of another answer: got %s", a.Status)
	}
	with := func(match string) *http.Request {
		r := write()
		r.Header.Set("If-Match", match)
		return r
	}
	for _, bad := range []string{"x", `"x"`, `W/` + etag, etag + ", " + etag, `"0"`} {
		w.Problem(with(bad), http.StatusBadRequest, job.Invalid)
	}
	old := with(`"999999-ab"`)
	if a, text := w.Ask(old); a.StatusCode != http.StatusPreconditionFailed || !isConflict(text) {
		w.T.Errorf("If-Match of another version: got %s: %s", a.Status, text)
	}
	a, text := w.Ask(with(etag))
	if a.StatusCode != http.StatusOK || a.Header.Get("ETag") == "" || a.Header.Get("ETag") == etag {
		w.T.Errorf("If-Match: got %s with ETag %s: %s", a.Status, a.Header.Get("ETag"), text)
	}
	_, write = makes()
	if a, text := w.Ask(with("*")); a.StatusCode != http.StatusOK {
		w.T.Errorf("control: If-Match any: got %s: %s", a.Status, text)
	}
}

func isConflict(text string) bool {
	var p api.Problem
	return json.Unmarshal([]byte(text), &p) == nil && p.Kind == job.Conflict &&
		p.Status == http.StatusPreconditionFailed
}
