package bulkhttp_test

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestPage previews a bulk, which changes nothing, and starts it with the number that the preview had.
func TestPage(t *testing.T) {
	w := openBulk(t)
	var ids []job.ID
	for range 3 {
		ids = append(ids, w.Post(engine.Order{Group: "maps", Bytes: 7}).ID)
	}
	other := w.Post(engine.Order{Group: "atlases"}).ID
	open := func(path string) (int, string) {
		r := w.Request(http.MethodGet, path, "")
		r.Header.Set("Accept", "text/html")
		answer, page := w.Ask(r)
		return answer.StatusCode, page
	}
	status, page := open("/bulk?group=maps&event=hold")
	if status != http.StatusOK || !strings.Contains(page, "hold: 3 of 3 jobs, 21 B") ||
		!strings.Contains(page, "Confirm: hold 3 jobs") || !strings.Contains(page, "Allowed by the lifecycle") ||
		!strings.Contains(page, `name="expect" value="3"`) {
		t.Fatalf("got %d: %s", status, page)
	}
	for path, want := range map[string]int{"/bulk?event=hold": http.StatusBadRequest, "/bulk?group=maps": http.StatusOK,
		"/bulk?group=maps&event=nonsense": http.StatusBadRequest} {
		if status, page := open(path); status != want {
			t.Errorf("%s: got %d: %s", path, status, page)
		}
	}
	if _, page := open("/bulk"); !strings.Contains(page, "No jobs are chosen") || strings.Contains(page, "these: .") ||
		strings.Contains(page, "Preview</button>") {
		t.Errorf("without a filter: %s", page)
	}
	send := func(expect string) *http.Response {
		form := url.Values{"group": {"maps"}, "event": {"hold"}, "expect": {expect}, "note": {"flood"},
			"confirm": {"yes"}}
		r := w.Request(http.MethodPost, "/bulk", form.Encode())
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		answer, _ := w.Ask(r)
		return answer
	}
	for _, c := range []struct {
		expect string
		ok     bool
		state  string
	}{{"2", false, "Posted"}, {"3", true, "Held"}} {
		answer := send(c.expect)
		id, found := strings.CutPrefix(answer.Header.Get("Location"), "/jobs/")
		if answer.StatusCode != http.StatusSeeOther || !found {
			t.Fatalf("got %s to %q", answer.Status, answer.Header.Get("Location"))
		}
		j, err := w.Await(t.Context(), job.ID(id), func(j *job.Job) bool { return j.Ended })
		if err != nil || (j.Outcome == lc.OK) != c.ok {
			t.Fatalf("with the number %s: %+v, %v", c.expect, j.Position, err)
		}
		for _, id := range ids {
			if j, err := w.Client.Job(t.Context(), id); err != nil || string(j.State) != c.state {
				t.Errorf("%s with the number %s: %s, %v", id, c.expect, j.State, err)
			}
		}
	}
	if j, err := w.Client.Job(t.Context(), other); err != nil || j.State != "Posted" {
		t.Errorf("the other job: %s, %v", j.State, err)
	}
}

// TestPageOfRefusals: what a rule of the application refuses is not possible, also if the lifecycle has the event; of
// more jobs than are sampled the page states what was checked.
func TestPageOfRefusals(t *testing.T) {
	refused := 2
	w, _ := openWork(t, engine.Work{Life: servertest.Letter, Prefix: "let", Outside: true,
		Allow: func(_ context.Context, j *job.Job, _ *operator.Act) (job.Require, error) {
			if j.Number <= int64(refused) {
				return job.Require{}, job.Errorf(job.Refused, "hold", j.ID, "its sender is away")
			}
			return job.Require{}, nil
		}})
	post := func(n int) {
		for range n {
			w.Post(engine.Order{Group: "maps"})
		}
	}
	check := func(form string, texts ...string) {
		t.Helper()
		_, page := w.AskPage(w.Request(http.MethodGet, "/bulk?group=maps&event=hold", ""))
		for _, want := range append(texts, form, "its sender is away") {
			if !strings.Contains(page, want) {
				t.Errorf("the page lacks %q: %s", want, page)
			}
		}
		if form == "" && strings.Contains(page, "Confirm: ") {
			t.Errorf("a form for what is possible for none: %s", page)
		}
	}
	post(2)
	check("", "hold: 0 of 2 jobs", "possible for none of these jobs")
	post(1)
	check("Confirm: hold 1 of 3 jobs", "hold: 1 of 3 jobs")
	post(9)
	check("Confirm: hold at most 10 of 12 jobs", "hold: at most 10 of 12 jobs", "10 oldest: 2 of them would be refused")
}
