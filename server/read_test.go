package server_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/joblog"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestListByWords: the list finds jobs by words of the texts of their orders, whatever their case and accents. A query
// without a word is refused. Records in answers have no words.
func TestListByWords(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	first := w.Post(engine.Order{Owner: "ann", Words: []string{"Cartes de Cr\u00e8te", "crete.tif"}})
	w.Post(engine.Order{Owner: "bob", Words: []string{"Maps"}})
	for text, want := range map[string]int{
		"CR\u00c9TE": 1, "de cart": 1, "tif crete": 1, "tif maps": 0, "": 2, "ma": 1,
	} {
		answer, body := w.Ask(w.Request(http.MethodGet, "/api/v1/jobs?"+url.Values{"words": {text}}.Encode(), ""))
		if n := strings.Count(body, `"id":"let_`); answer.StatusCode != http.StatusOK || n != want ||
			strings.Contains(body, `"words"`) {
			t.Errorf("%q: %s, %d jobs: %s", text, answer.Status, n, body)
		}
	}
	page, err := w.Client.Jobs(t.Context(), job.Query{Words: []string{"crete"}, Owner: "bob"})
	if err != nil || len(page.Jobs) != 0 {
		t.Errorf("%d jobs of another, %v", len(page.Jobs), err)
	}
	page, err = w.Client.Jobs(t.Context(), job.Query{Words: []string{"Cr\u00e8te"}, Owner: "ann"})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].ID != first.ID {
		t.Errorf("%d jobs, %v", len(page.Jobs), err)
	}
	for _, bad := range []string{"-", strings.Repeat("a ", 17)} {
		answer, body := w.Ask(w.Request(http.MethodGet, "/api/v1/jobs?"+url.Values{"words": {bad}}.Encode(), ""))
		if answer.StatusCode != http.StatusBadRequest || !strings.Contains(body, "word") {
			t.Errorf("%q: %s %s", bad, answer.Status, body)
		}
	}
}

func TestListOfJobs(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	batch := w.Post(engine.Order{Group: "maps", Owner: "ann"})
	five := 5
	change := job.Change{Job: batch.ID, Version: batch.Version, At: time.Now(), Set: job.Fields{Expected: &five}}
	if r, err := w.Store().Commit(t.Context(), change); err != nil || r[0].Err != nil {
		t.Fatal(r, err)
	}
	for range five {
		w.Post(engine.Order{Group: "books", Owner: "bob", Parent: batch.ID})
	}
	if _, err := w.Client.Do(t.Context(), batch.ID, "hold", client.Act{}); err != nil {
		t.Fatal(err)
	}
	no := false
	for name, c := range map[string]struct {
		q    job.Query
		want int
	}{
		"all": {job.Query{}, 6}, "kind": {job.Query{Kinds: []job.Kind{"test.letter"}}, 6},
		"other group": {job.Query{Group: "x"}, 0},
		"state":       {job.Query{States: []lc.State{"Held"}}, 1},
		"states":      {job.Query{States: []lc.State{"Held", "Posted"}}, 6},
		"group":       {job.Query{Group: "books"}, 5}, "owner": {job.Query{Owner: "ann"}, 1},
		"parent": {job.Query{Parent: batch.ID}, 5},
		"open":   {job.Query{Ended: &no}, 6}, "outcome": {job.Query{Outcomes: []lc.Outcome{lc.OK}}, 0},
	} {
		page, err := w.Client.Jobs(t.Context(), c.q)
		if err != nil || len(page.Jobs) != c.want {
			t.Errorf("%s: got %d jobs, want %d (%v)", name, len(page.Jobs), c.want, err)
		}
	}
	var ids []job.ID
	q := job.Query{Limit: 4, Oldest: true}
	for {
		page, err := w.Client.Jobs(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			ids = append(ids, j.ID)
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	if len(ids) != 6 || ids[0] != batch.ID {
		t.Errorf("page by page: got %v", ids)
	}
	_, text := w.Ask(w.Request(http.MethodGet, "/api/v1/jobs/"+string(batch.ID)+"/children?state=Posted,Held&limit=2",
		""))
	if strings.Count(text, `"id"`) != 2 || !strings.Contains(text, `"next"`) {
		t.Errorf("got %s", text)
	}
	w.Problem(w.Request(http.MethodGet, "/api/v1/jobs/"+string(batch.ID)+"/children?parent=x", ""),
		http.StatusBadRequest, job.Invalid)
}

func TestEverythingAboutAJob(t *testing.T) {
	var logs *joblog.Logs
	w := servertest.Open(t, func(o *server.Options) { logs = o.Logs.(*joblog.Logs) }, nil)
	id := w.Post(engine.Order{}).ID
	for _, e := range []lc.Event{"hold", "release"} {
		if _, err := w.Client.Do(t.Context(), id, e, client.Act{Actor: "ann", Note: "because"}); err != nil {
			t.Fatal(err)
		}
	}
	logs.Logger(id, 3, "Sorting").Warn("the road is flooded", "river", "Elbe")
	j, err := w.Client.Job(t.Context(), id)
	if err != nil || len(j.Can["operator"]) != 1 || len(j.Can["owner"]) != 0 || j.Links["why"] == "" ||
		j.State != "Posted" {
		t.Errorf("got %+v, %v", j, err)
	}
	h, err := w.Client.History(t.Context(), id, 1, 1)
	if err != nil || len(h) != 1 || h[0].Event != "hold" || h[0].By != lc.Operator || h[0].Actor != "ann" ||
		h[0].Note != "because" || h[0].Hash == (job.Hash{}) {
		t.Errorf("got %+v, %v", h, err)
	}
	if log, err := w.Client.Log(t.Context(), id, 0, 0); err != nil || len(log.Lines) != 1 ||
		log.Lines[0].Msg != "the road is flooded" || string(log.Lines[0].Attrs) != `{"river":"Elbe"}` {
		t.Errorf("got %+v, %v", log, err)
	}
	logs.Logger(id, 3, "Sorting").Warn("the road is free")
	if log, err := w.Client.LogTail(t.Context(), id, 1); err != nil || len(log.Lines) != 1 ||
		log.Lines[0].Msg != "the road is free" || log.Next == 0 || log.More {
		t.Errorf("got %+v, %v", log, err)
	}
	w.Problem(w.Request(http.MethodGet, "/api/v1/jobs/"+string(id)+"/log?tail=1&offset=1", ""), http.StatusBadRequest,
		job.Invalid)
	if tasks, err := w.Client.Tasks(t.Context(), id); err != nil || len(tasks) != 0 {
		t.Errorf("got %v, %v", tasks, err)
	}
	why, err := w.Client.Why(t.Context(), id, time.Time{})
	if err != nil || why.Position.State != "Posted" || len(why.Moves) != 3 || why.Moves[1].By&lc.Operator == 0 {
		t.Errorf("got %+v, %v", why, err)
	}
	if _, err := w.Client.Why(t.Context(), id, time.Now().Add(-time.Hour)); job.KindOf(err) != job.NotFound {
		t.Errorf("before it was there: got %v", err)
	}
	if svg, err := w.Client.Diagram(t.Context(), id); err != nil || !strings.HasPrefix(string(svg), "<svg ") ||
		!strings.Contains(string(svg), `aria-current="step"`) {
		t.Errorf("got %.80q, %v", svg, err)
	}
	three := 3
	if j, err = w.Client.SetPriority(t.Context(), id,
		client.Priority{Priority: &three, Actor: "ann", Note: "sooner"}); err != nil || j.Priority != 3 {
		t.Errorf("got %d, %v", j.Priority, err)
	}
	counts, err := w.Client.Counts(t.Context())
	if err != nil || len(counts) != 1 || counts[0].Jobs != 1 || counts[0].State != "Posted" {
		t.Errorf("got %v, %v", counts, err)
	}
}

func TestHolds(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	until := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	holds, err := w.Client.Hold(t.Context(),
		client.Hold{Scope: job.Scope{Group: "maps", Kind: "test.letter"}, Who: "ann", Why: "flood", Until: until})
	if err != nil || len(holds) != 1 || holds[0].Who != "ann" || !holds[0].Until.Equal(until) {
		t.Fatalf("got %+v, %v", holds, err)
	}
	if _, err = w.Client.Hold(t.Context(), client.Hold{Everything: true, Why: "night"}); err != nil {
		t.Fatal(err)
	}
	if _, err = w.Client.Hold(t.Context(),
		client.Hold{Scope: job.Scope{Group: "maps"}, Everything: true, Why: "night"}); job.KindOf(err) != job.Invalid {
		t.Errorf("everything and a scope: got %v", err)
	}
	if holds, err = w.Client.Release(t.Context(), job.Scope{}, "ann", "over"); err != nil || len(holds) != 1 {
		t.Errorf("got %+v, %v", holds, err)
	}
	if holds, err = w.Client.Release(t.Context(), holds[0].Scope, "ann", "over"); err != nil || len(holds) != 0 {
		t.Errorf("got %+v, %v", holds, err)
	}
	if holds, err = w.Client.Holds(t.Context()); err != nil || len(holds) != 0 {
		t.Errorf("got %+v, %v", holds, err)
	}
	w.Problem(w.Request(http.MethodDelete, "/api/v1/holds", ""), http.StatusBadRequest, job.Invalid)
}

func TestLifecycles(t *testing.T) {
	other := lc.Must("test.other", lc.OnQueue("A", "begins", lc.OnPass("finish", "B", lc.Worker, "done"),
		lc.OnFail("fail", "C", lc.Worker|lc.Timer, "not done")),
		lc.OnEnd("B", lc.OK, "done"), lc.OnEnd("C", lc.Failed, "not done"))
	w := servertest.Open(t, func(o *server.Options) { o.Lives = []*lc.Table{other, servertest.Letter} }, nil)
	all, err := w.Client.Lifecycles(t.Context())
	if err != nil || len(all) != 2 || !all[0].Jobs || all[1].Jobs || all[1].Name != "test.other" ||
		len(all[1].States) != 3 {
		t.Errorf("got %+v, %v", all, err)
	}
	for format, begin := range map[string]string{"json": `{"name":"test.other"`, "svg": "<svg ",
		"mmd": "stateDiagram-v2", "dot": "digraph "} {
		if text, err := w.Client.Drawing(t.Context(), "test.other", format); err != nil ||
			!strings.Contains(string(text), begin) {
			t.Errorf("%s: got %.80q, %v", format, text, err)
		}
	}
	if _, err := w.Client.Drawing(t.Context(), "test.other", "gif"); job.KindOf(err) != job.NotFound {
		t.Errorf("got %v", err)
	}
	answer, _ := w.Ask(w.Request(http.MethodGet, "/api/v1/lifecycles/test.letter.svg", ""))
	if p := answer.Header.Get("Content-Security-Policy"); !strings.Contains(p, "sandbox") ||
		strings.Contains(p, "script") {
		t.Errorf("got %q", p)
	}
}

func TestAdmin(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	if c, err := w.Client.Verify(t.Context(), client.Verify{}); err != nil || !c.Sound || c.Jobs != 1 {
		t.Errorf("got %+v, %v", c, err)
	}
	if c, err := w.Client.Fsck(t.Context(), client.Fsck{}); err != nil || c.Sound || len(c.Faults) != 1 {
		t.Errorf("got %+v, %v", c, err)
	}
	if b, err := w.Client.Backup(t.Context(), client.Backup{Name: "x"}); err != nil || b.Dir != "x" {
		t.Errorf("got %+v, %v", b, err)
	}
}

func TestHealth(t *testing.T) {
	broken := job.Errorf(job.Unavailable, "commit", "", "the disk is gone")
	var state error
	w := servertest.Open(t, func(o *server.Options) { o.Alive = func() error { return state } }, nil)
	if h, err := w.Client.Health(t.Context()); err != nil || h.Status != "ok" || h.Version != "test" ||
		h.Store != "mem" || len(h.Kinds) != 1 {
		t.Errorf("got %+v, %v", h, err)
	}
	state = broken
	answer, text := w.Ask(w.Request(http.MethodGet, "/healthz", ""))
	if answer.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "the disk is gone") {
		t.Errorf("got %s: %s", answer.Status, text)
	}
	_, text = w.Ask(w.Request(http.MethodGet, "/", ""))
	for _, r := range w.Server.All() {
		if !strings.Contains(text, r.Doc) {
			t.Errorf("the index lacks %s %s", r.Method, r.Pattern)
		}
	}
}

// TestBriefLists: on request, lists leave out specs and data. What they show of the work is the same.
func TestBriefLists(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	batch := w.Post(engine.Order{Spec: "ordered"})
	one := 1
	change := job.Change{Job: batch.ID, Version: batch.Version, At: time.Now(), Set: job.Fields{Expected: &one,
		Data: []byte(`"known"`)}}
	if r, err := w.Store().Commit(t.Context(), change); err != nil || r[0].Err != nil {
		t.Fatal(r, err)
	}
	w.Post(engine.Order{Spec: "ordered", Parent: batch.ID})
	for _, path := range []string{"/api/v1/jobs", "/api/v1/jobs/" + string(batch.ID) + "/children"} {
		_, whole := w.Ask(w.Request(http.MethodGet, path, ""))
		_, brief := w.Ask(w.Request(http.MethodGet, path+"?brief=true", ""))
		if !strings.Contains(whole, `"spec":"ordered"`) {
			t.Errorf("control: %s: %s", path, whole)
		}
		want := strings.NewReplacer(`"spec":"ordered",`, "", `"data":"known",`, "").Replace(whole)
		if brief != want {
			t.Errorf("%s: got %s, want %s", path, brief, want)
		}
	}
}
