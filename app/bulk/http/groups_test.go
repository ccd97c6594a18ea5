package bulkhttp_test

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/bulk"
	bulkhttp "github.com/stagepost/stagepost/app/bulk/http"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/identity"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/server/token"
	"github.com/stagepost/stagepost/web"
)

// grouped is a server with letters of several groups, and operators who are limited to some.
type grouped struct {
	*servertest.Guarded
	secrets map[string]string   // of operators: olga has maps, pia has maps and plans, xaver has photos
	letters map[string][]job.ID // by group
}

func openGrouped(t *testing.T) *grouped {
	t.Helper()
	inner, app := openApp(t)
	w := &grouped{secrets: map[string]string{}, letters: map[string][]job.ID{}}
	w.Guarded = servertest.GuardWith(t, func(g *servertest.Guarded, o *server.Options) {
		o.Engine = inner.Engine
		for owner, groups := range map[string]identity.Groups{"olga": "maps", "pia": "maps,plans", "xaver": "photos"} {
			s, err := token.New(rand.Reader)
			if err != nil {
				t.Fatal(err)
			}
			if err := token.Add(g.File, token.Entry{Hash: s.Hash(), Role: identity.Operator, Owner: owner,
				Groups: groups}); err != nil {
				t.Fatal(err)
			}
			w.secrets[owner] = s.Reveal()
		}
	}, func(w *servertest.Harness) server.Part { return web.Part(w.Server) },
		func(w *servertest.Harness) server.Part { return bulkhttp.Part(w.Server, app) })
	w.secrets["all"] = w.Tokens[identity.Operator]
	for _, group := range []string{"maps", "maps", "plans", "photos", "photos", "photos", ""} {
		id := w.Post(engine.Order{Owner: "ann", Group: group, Bytes: 10, Tags: []string{"floor=" + group + "1"}}).ID
		w.letters[group] = append(w.letters[group], id)
	}
	return w
}

// send sends a request for a bulk as a person, and reads the answer.
func (w *grouped) send(who, query, body string) (status int, text string) {
	w.T.Helper()
	answer, text := w.Ask(w.With(w.secrets[who], http.MethodPost, "/api/v1/bulk"+query, body))
	return answer.StatusCode, text
}

// end starts a bulk as a person, and gives it with its result at its end.
func (w *grouped) end(who, body string) (j job.Job, result api.BulkResult) {
	w.T.Helper()
	status, text := w.send(who, "", body)
	if status != http.StatusCreated {
		w.T.Fatalf("%s: got %d: %s", body, status, text)
	}
	var started api.Job
	if err := json.Unmarshal([]byte(text), &started); err != nil {
		w.T.Fatal(err)
	}
	j, err := w.Await(w.T.Context(), started.ID, func(j *job.Job) bool { return j.Ended })
	if err != nil {
		w.T.Fatal(err)
	}
	answer, text := w.Ask(w.With(w.secrets[who], http.MethodGet, "/api/v1/bulk/"+string(j.ID), ""))
	if err := json.Unmarshal([]byte(text), &result); err != nil || answer.StatusCode != http.StatusOK {
		w.T.Fatalf("the result: got %s: %s", answer.Status, text)
	}
	return j, result
}

// states gives the states of the letters of a group.
func (w *grouped) states(group string) (all []lc.State) {
	w.T.Helper()
	for _, id := range w.letters[group] {
		j, err := w.Store().Get(w.T.Context(), id)
		if err != nil {
			w.T.Fatal(err)
		}
		all = append(all, j.State)
	}
	return all
}

// TestPreviewWithinGroups: an operator who is limited to groups previews the jobs of one of them. Jobs of other groups
// match no query of it, and a query of such a group is refused. The control is an operator of all jobs.
func TestPreviewWithinGroups(t *testing.T) {
	w := openGrouped(t)
	for _, c := range []struct {
		who, filters string
		status       int
		groups       []string // of the jobs that match
	}{
		{"olga", `"kinds":["test.letter"]`, http.StatusOK, []string{"maps"}},
		{"olga", `"group":"maps"`, http.StatusOK, []string{"maps"}},
		{"olga", `"tag":"floor=photos1"`, http.StatusOK, nil},
		{"olga", `"owner":"ann"`, http.StatusOK, []string{"maps"}},
		{"olga", `"group":"photos"`, http.StatusForbidden, nil},
		{"olga", `"group":"plans"`, http.StatusForbidden, nil},
		{"pia", `"group":"plans"`, http.StatusOK, []string{"plans"}},
		{"pia", `"kinds":["test.letter"]`, http.StatusBadRequest, nil},
		{"all", `"kinds":["test.letter"]`, http.StatusOK, []string{"photos", "maps", "", "plans"}},
		{"all", `"tag":"floor=photos1"`, http.StatusOK, []string{"photos"}},
		{"all", `"group":"photos"`, http.StatusOK, []string{"photos"}},
	} {
		status, text := w.send(c.who, "?dry=true", fmt.Sprintf(`{%s,"event":"hold"}`, c.filters))
		if status != c.status {
			t.Errorf("%s: %s: got %d: %s", c.who, c.filters, status, text)
		}
		if status != http.StatusOK {
			continue
		}
		var p api.BulkPreview
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Fatal(err)
		}
		want := 0
		var groups []string
		for _, g := range c.groups {
			want += len(w.letters[g])
		}
		for _, g := range p.Groups {
			groups = append(groups, g.Name)
		}
		if p.Count != want || p.Legal != want || p.Bytes != int64(10*want) || len(p.Sample) != want ||
			!slices.Equal(slices.Sorted(slices.Values(groups)), slices.Sorted(slices.Values(c.groups))) {
			t.Errorf("%s: %s: got %s", c.who, c.filters, text)
		}
	}
}

// TestBulkWithinGroups: a bulk of an operator who is limited to groups acts on the jobs of one of them; a job of
// another group that matches its query is not touched, and is not counted. The control is the same query of an operator
// of all jobs, which touches it.
func TestBulkWithinGroups(t *testing.T) {
	w := openGrouped(t)
	const body = `{"kinds":["test.letter"],"event":%q,"note":"a flood","expect":%d,"confirm":true}`
	j, result := w.end("olga", fmt.Sprintf(body, "hold", 7)) // all letters
	if j.State != bulk.Failed || j.Cause != bulk.CauseCount || result.Done != 0 ||
		j.Message != "2 jobs match and 7 were expected: nothing was done" {
		t.Errorf("with the number of all jobs: got %s %s %q", j.State, j.Cause, j.Message)
	}
	if status, text := w.send("olga", "", `{"kinds":["test.letter"],"event":"hold","note":"n"}`); status !=
		http.StatusConflict || !strings.Contains(text, "2 jobs match") {
		t.Errorf("without a number: got %d %s", status, text)
	}
	left := map[string]lc.State{"hold": "Held", "release": "Posted"}
	for _, event := range []string{"hold", "release", "hold"} {
		j, result = w.end("olga", fmt.Sprintf(body, event, 2))
		if j.Outcome != lc.OK || j.Group != "maps" || result.Matches != 2 || result.Done != 2 {
			t.Fatalf("%s: got %s %q %+v", event, j.State, j.Message, result)
		}
		if got, want := w.states("maps"), left[event]; !slices.Equal(got, []lc.State{want, want}) {
			t.Errorf("%s: got %s", event, got)
		}
	}
	for _, group := range []string{"plans", "photos", ""} {
		for _, id := range w.letters[group] {
			if f, err := w.Store().Get(t.Context(), id); err != nil || f.Version != 1 || f.State != "Posted" {
				t.Errorf("%s of the group %q was touched: %s, version %d, %v", id, group, f.State, f.Version, err)
			}
		}
	}
	history, err := w.Store().History(t.Context(), w.letters["maps"][0], 0, 0)
	if err != nil || history[1].Actor != "olga" || history[1].By != lc.Operator ||
		!strings.HasPrefix(history[1].Note, "a flood") {
		t.Errorf("got %+v, %v", history, err)
	}
	if status, text := w.send("pia", "", fmt.Sprintf(body, "hold", 1)); status != http.StatusBadRequest ||
		!strings.Contains(text, "name one of maps,plans") {
		t.Errorf("of several groups: got %d %s", status, text)
	}
	if status, text := w.send("xaver", "", strings.Replace(fmt.Sprintf(body, "hold", 1), "{", `{"group":"plans",`,
		1)); status != http.StatusForbidden || strings.Contains(text, string(w.letters["plans"][0])) {
		t.Errorf("of a foreign group: got %d %s", status, text)
	}
	if j, result := w.end("all", fmt.Sprintf(body, "hold", 7)); j.Group != "" || result.Done != 5 {
		t.Errorf("the control: got %q %+v", j.Message, result)
	}
	if got := w.states("photos"); !slices.Equal(got, []lc.State{"Held", "Held", "Held"}) {
		t.Errorf("the control: got %s", got)
	}
}

// TestWhoSeesBulks: a bulk within a group exists for the operators of the group, who may cancel it; one of an operator
// of all jobs exists for such operators alone. A key that the latter used does not lead to its bulk.
func TestWhoSeesBulks(t *testing.T) {
	w := openGrouped(t)
	const body = `{"group":"maps","event":"hold","note":"n","expect":2,"key":"k"}`
	of := map[string]job.ID{}
	for _, who := range []string{"all", "olga"} {
		status, text := w.send(who, "", body)
		if who == "olga" { // under the key of another
			if status != http.StatusConflict || strings.Contains(text, string(of["all"])) {
				t.Errorf("got %d %s", status, text)
			}
			status, text = w.send(who, "", strings.Replace(body, `"k"`, `"l"`, 1))
		}
		var j api.Job
		if err := json.Unmarshal([]byte(text), &j); err != nil || status != http.StatusCreated {
			t.Fatalf("got %d %s", status, text)
		}
		of[who] = j.ID
	}
	for who, sees := range map[string][]string{"all": {"all", "olga"}, "olga": {"olga"}, "pia": {"olga"},
		"xaver": nil} {
		for of, id := range of {
			for _, path := range []string{"/api/v1/jobs/", "/api/v1/bulk/", "/jobs/"} {
				answer, text := w.Ask(w.With(w.secrets[who], http.MethodGet, path+string(id), ""))
				if want := slices.Contains(sees, of); (answer.StatusCode == http.StatusOK) != want ||
					!want && answer.StatusCode != http.StatusNotFound {
					t.Errorf("%s, %s of %s: got %s: %.200s", who, path, of, answer.Status, text)
				}
			}
		}
	}
}

// TestBulkPageWithinGroups: the list of jobs leads to the page, whose preview and form are of the group. Depositors are
// the control.
func TestBulkPageWithinGroups(t *testing.T) {
	w := openGrouped(t)
	browse := func(who, method, path string, form url.Values) (*http.Response, string) {
		r := w.With(w.secrets[who], method, path, form.Encode())
		r.Header.Set("Accept", "text/html")
		if form != nil {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		return w.Ask(r)
	}
	w.secrets["ann"] = w.Tokens[identity.Depositor]
	for who, want := range map[string]bool{"olga": true, "pia": true, "all": true, "ann": false} {
		_, text := browse(who, http.MethodGet, "/jobs?kind=test.letter", nil)
		if strings.Contains(text, "Act on all of them") != want {
			t.Errorf("%s: the list leads to bulks: %v", who, !want)
		}
		if limited := who == "olga" || who == "pia"; strings.Contains(text, "/bulk?group=maps&amp;kind=test.letter") !=
			limited {
			t.Errorf("%s: the link has the group: %v: %s", who, !limited, text)
		}
	}
	_, text := browse("olga", http.MethodGet, "/bulk?kind=test.letter&event=hold", nil)
	for _, part := range []string{"hold: 2 of 2 jobs", `name="group" value="maps"`, `name="expect" value="2"`} {
		if !strings.Contains(text, part) {
			t.Errorf("the preview lacks %q: %s", part, text)
		}
	}
	for _, id := range w.letters["photos"] {
		if strings.Contains(text, string(id)) {
			t.Errorf("the preview has a foreign job: %s", text)
		}
	}
	form := url.Values{"kind": {"test.letter"}, "event": {"hold"}, "expect": {"2"}, "note": {"a flood"},
		"confirm": {"yes"}}
	answer, text := browse("olga", http.MethodPost, "/bulk", form)
	id, sent := strings.CutPrefix(answer.Header.Get("Location"), "/jobs/")
	if answer.StatusCode != http.StatusSeeOther || !sent {
		t.Fatalf("got %s: %s", answer.Status, text)
	}
	j, err := w.Await(t.Context(), job.ID(id), func(j *job.Job) bool { return j.Ended })
	if err != nil || j.Message != "2 of 2 done" || j.Group != "maps" {
		t.Errorf("got %q, %v", j.Message, err)
	}
	if answer, _ = browse("olga", http.MethodGet, answer.Header.Get("Location"), nil); answer.StatusCode !=
		http.StatusOK {
		t.Errorf("its page: got %s", answer.Status)
	}
}
