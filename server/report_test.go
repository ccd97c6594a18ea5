package server_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/servertest"
)

// TestWorkerReportsAllThatAStepCan sends each member of an update over HTTP, twice, and reads what is stored.
func TestWorkerReportsAllThatAStepCan(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	id := w.Post(engine.Order{Owner: "ann"}).ID
	j := claimJobs(w, "coach", 1)[0]
	says, priority, bytes := "on its way", 7, int64(12)
	update := api.Report{
		Job: id, Epoch: j.Epoch, Merge: json.RawMessage(`{"a":1}`), Message: &says, Priority: &priority,
		Tags: []string{"wet"}, Words: []string{"A post-card"}, Bytes: &bytes,
		Tasks:    []job.Task{{Name: "weigh", Kind: "test.part", State: "Done", Total: 3}},
		Messages: []api.Letter{{Topic: "test.news", Key: "sent", Body: json.RawMessage(`{"to":"bob"}`)}},
		Log:      []api.LogEntry{{N: 1, Text: "weighed", Level: "warn", Attrs: map[string]any{"grams": 3}}},
		Progress: &api.WorkProgress{Done: 1, Total: 2, Unit: "miles"},
		Spawn: &api.Spawn{Expected: 1, From: 1,
			Jobs: []api.Order{{Kind: "test.letter", Spec: json.RawMessage(`{"copy":true}`),
				Words: []string{"Copied card"}}}},
	}
	for range 2 {
		got, err := w.Client.Update(t.Context(), api.Reports{Worker: "coach", Reports: []api.Report{update}})
		if err != nil || len(got) != 1 || !got[0].Held || got[0].Epoch != j.Epoch {
			t.Fatalf("got %+v, %v", got, err)
		}
	}
	got, err := w.Client.Job(t.Context(), id)
	if err != nil || string(got.Data) != `{"a":1}` || got.Message != says || got.Priority != 7 ||
		!cmp.Equal(got.Tags, []string{"wet"}) || got.Bytes != 12 ||
		got.Children.Open != 1 || got.Progress == nil || got.Progress.Done != 1 || got.Worker != "coach" {
		t.Errorf("got %+v, %v", got, err)
	}
	tasks, err := w.Client.Tasks(t.Context(), id)
	if err != nil || len(tasks) != 1 || tasks[0].Name != "weigh" || tasks[0].Epoch != j.Epoch {
		t.Errorf("got %+v, %v", tasks, err)
	}
	log, err := w.Client.Log(t.Context(), id, 0, 0)
	if err != nil || len(log.Lines) != 1 || log.Lines[0].Msg != "weighed" || log.Lines[0].Level != "WARN" {
		t.Errorf("got %+v, %v", log, err)
	}
	for text, want := range map[string]int{"card": 2, "post": 1, "copied ca": 1, "postcard": 0} {
		page, err := w.Client.Jobs(t.Context(), job.Query{Words: strings.Fields(text)})
		if err != nil || len(page.Jobs) != want {
			t.Errorf("%q: %d jobs, %v", text, len(page.Jobs), err)
		}
	}
	page, err := w.Client.Jobs(t.Context(), job.Query{Parent: id})
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Owner != "ann" ||
		string(page.Jobs[0].Spec) != `{"copy":true}` {
		t.Errorf("got %+v, %v", page, err)
	}
	messages, err := job.MessagesOf(t.Context(), w.Store(), id)
	if err != nil || len(messages) != 1 || messages[0].Key != string(id)+"/sent" {
		t.Errorf("got %+v, %v", messages, err)
	}
}

// TestBadUpdates are refused. The control is the same without the mistake.
func TestBadUpdates(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	id := w.Post(engine.Order{}).ID
	claimJobs(w, "coach", 1)
	send := func(members string) *http.Request {
		return w.Request(http.MethodPost, "/api/v1/worker/update",
			`{"worker":"coach","reports":[{"job":"`+string(id)+`"`+members+`}]}`)
	}
	spawned := func(n int) string {
		return `,"epoch":1,"spawn":{"expected":1,"from":1,"jobs":[{"kind":"test.letter","spec":` + textOf(n) + `}]}`
	}
	for members, status := range map[string]int{
		`,"epoch":1,"fail":"x"`: 400, `,"epoch":1,"again":true`: 400, `,"epoch":1,"children":true`: 400,
		`,"epoch":1,"after":5`: 400, ``: 400,
		`,"epoch":1,"log":[{"text":"x","level":"loud"}]`:                400,
		`,"epoch":1,"messages":[{"topic":"test.news","key":"a\u0000"}]`: 400,
		`,"epoch":1,"messages":[{"topic":"mail","key":"a"}]`:            409, `,"epoch":2,"log":[{"text":"x"}]`: 409,
		`,"epoch":1,"log":[{"text":"x"}]`: 200,
		`,"epoch":1,"bytes":-1`:           400, `,"epoch":1,"bytes":0`: 200,
		`,"epoch":1,"priority":100`: 400, `,"epoch":1,"priority":-1`: 400, `,"epoch":1,"priority":99`: 200,
		`,"epoch":1,"deadline":"0000-01-01T00:00:00Z"`: 400, `,"epoch":1,"deadline":"1969-12-31T23:59:59Z"`: 400,
		`,"epoch":1,"deadline":"9999-12-31T23:59:59Z"`:                                          200,
		`,"epoch":1,"tasks":[{"name":"a\u0007","kind":"test.part","state":"Done"}]`:             400,
		`,"epoch":1,"tasks":[{"name":"a\n","kind":"test.part","state":"Done"}]`:                 400,
		`,"epoch":1,"tasks":[{"name":"a","kind":"test.part","state":"Do\u0000ne"}]`:             400,
		`,"epoch":1,"tasks":[{"name":"a","kind":"test.part","state":"Done","done":-1}]`:         400,
		`,"epoch":1,"tasks":[{"name":"a","kind":"test.letter","state":"Lost at sea"}]`:          400,
		`,"epoch":1,"tasks":[{"name":"a","kind":"test.letter","state":"Sorting"}]`:              200,
		`,"epoch":1,"spawn":{"expected":1,"from":1,"jobs":[{"kind":"test.letter","bytes":-1}]}`: 400,
		`,"epoch":1,"data":` + textOf(1<<20+1):                                                  400,
		`,"epoch":1,"data":` + textOf(1<<20):                                                    200,
		`,"epoch":1,"merge":{"a":` + textOf(1<<20-6+1) + `}`:                                    400,
		`,"epoch":1,"merge":{"a":` + textOf(1<<20-6) + `}`:                                      200,
		spawned(1<<20 + 1): 400,
		spawned(1 << 20):   200,
	} {
		if answer, text := w.Ask(send(members)); answer.StatusCode != status {
			t.Errorf("%.200s: got %d %.200s, want %d", members, answer.StatusCode, text, status)
		}
	}
}

// textOf is a JSON text of n bytes.
func textOf(n int) string { return `"` + strings.Repeat("x", n-2) + `"` }

// TestMergesAreBounded: data that is merged into other data is bounded as a whole.
func TestMergesAreBounded(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	id := w.Post(engine.Order{}).ID
	j := claimJobs(w, "coach", 1)[0]
	for i, want := range []job.ErrorKind{"", job.Invalid} {
		_, err := w.Client.Update(t.Context(), api.Reports{Worker: "coach", Reports: []api.Report{{Job: id,
			Epoch: j.Epoch, Merge: json.RawMessage(fmt.Sprintf(`{"part %d":%s}`, i, textOf(600<<10)))}}})
		if err == nil && want != "" || err != nil && job.KindOf(err) != want {
			t.Errorf("merge %d: got %v", i, err)
		}
	}
}

// TestRangesOfOrders: a job is created with values within their ranges only.
func TestRangesOfOrders(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	for members, status := range map[string]int{
		``: 201, `,"bytes":0`: 201, `,"bytes":-1`: 400, `,"bytes":9223372036854775807`: 201,
		`,"priority":99`: 201, `,"priority":100`: 400, `,"priority":-1`: 400,
		`,"deadline":"0000-06-01T00:00:00Z"`: 400, `,"due":"1969-12-31T23:59:59Z"`: 400,
		`,"deadline":"9999-12-31T23:59:59Z"`: 201, `,"due":"1970-01-01T00:00:00Z"`: 201,
		`,"spec":` + textOf(1<<20): 201, `,"spec":` + textOf(1<<20+1): 400,
	} {
		r := w.Request(http.MethodPost, "/api/v1/jobs", `{"kind":"test.letter"`+members+`}`)
		if answer, text := w.Ask(r); answer.StatusCode != status {
			t.Errorf("%.100s: got %d %.200s, want %d", members, answer.StatusCode, text, status)
		}
	}
}

// TestReportIsRepeated: a report whose answer was lost succeeds again, and another one under the same claim does not.
func TestReportIsRepeated(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	id := w.Post(engine.Order{}).ID
	j := claimJobs(w, "coach", 1)[0]
	report := client.Reports{Worker: "coach",
		Reports: []client.Report{{Job: id, Epoch: j.Epoch, Data: json.RawMessage(`1`)}}}
	for range 2 {
		if got, err := w.Client.Report(t.Context(), report); err != nil || got[0].State != "Sorting" || got[0].Held {
			t.Errorf("got %+v, %v", got, err)
		}
	}
	report.Reports[0].Fail = "torn"
	if _, err := w.Client.Report(t.Context(), report); job.KindOf(err) != job.Stale {
		t.Errorf("got %v", err)
	}
}

// TestCreate makes a job by the general operation; the same key gives the same job. Kinds with an operation of their
// own are refused.
func TestCreate(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	var first api.Job
	for i := range 2 {
		j, err := w.Client.Create(t.Context(),
			api.Order{Kind: "test.letter", Key: "k", Spec: json.RawMessage(`{"to":"ann"}`), Group: "g"})
		if err != nil || i > 0 && j.ID != first.ID {
			t.Fatalf("got %+v, %v", j, err)
		}
		first = j
	}
	if first.State != "Posted" || first.Group != "g" || string(first.Spec) != `{"to":"ann"}` ||
		first.Priority != job.DefaultPriority {
		t.Errorf("got %+v", first)
	}
	history, err := w.Store().History(t.Context(), first.ID, 0, 1)
	if err != nil || len(history) != 1 || history[0].By != lc.Operator || history[0].Actor != "operator" {
		t.Errorf("a request that names no actor: %+v, %v", history, err)
	}
	if _, err := w.Client.Create(t.Context(), api.Order{Kind: "test.nothing"}); job.KindOf(err) != job.Invalid {
		t.Errorf("got %v", err)
	}
	closed := servertest.Open(t, nil, servertest.Worked)
	if _, err := closed.Client.Create(t.Context(), api.Order{Kind: "test.letter"}); job.KindOf(err) != job.Refused {
		t.Errorf("got %v", err)
	}
}
