package server_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/servertest"
	"github.com/stagepost/stagepost/store/mem"
)

var posted = []job.KindState{{Kind: "test.letter", State: "Posted"}}

func claimJobs(w *servertest.Harness, worker string, n int) []client.Leased {
	w.T.Helper()
	jobs, err := w.Client.Claim(w.T.Context(), client.Claim{Worker: worker, From: posted, N: n})
	if err != nil {
		w.T.Fatal(err)
	}
	return jobs
}

func TestWorkerCarriesAJobThrough(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	id := w.Post(engine.Order{Spec: map[string]string{"to": "Übersee <&>"}, Group: "a\"b"}).ID
	jobs := claimJobs(w, "coach", 5)
	if len(jobs) != 1 || jobs[0].ID != id || jobs[0].Epoch != 1 || jobs[0].Group != "a\"b" ||
		string(jobs[0].Spec) != `{"to":"Übersee \u003c\u0026\u003e"}` {
		t.Fatalf("got %+v", jobs)
	}
	if lost, err := w.Client.Renew(t.Context(),
		client.Renewal{Worker: "coach", Leases: []job.Lease{{Job: id, Epoch: 1}, {Job: id, Epoch: 7}}}); err != nil ||
		len(lost) != 1 || lost[0].Epoch != 7 {
		t.Errorf("got %v, %v", lost, err)
	}
	epoch := jobs[0].Epoch
	for _, want := range []lc.State{"Sorting", "Riding", "Delivered"} {
		got, err := w.Client.Report(t.Context(), client.Reports{Worker: "coach", Reports: []client.Report{
			{Job: id, Epoch: epoch, Again: true, Data: json.RawMessage(`{"seen":true}`)},
		}})
		if err != nil || len(got) != 1 || got[0].State != want || got[0].Held == got[0].Ended {
			t.Fatalf("got %+v, %v", got, err)
		}
		epoch = got[0].Epoch
	}
	j, err := w.Client.Job(t.Context(), id)
	if err != nil || !j.Ended || j.Outcome != lc.OK || string(j.Data) != `{"seen":true}` {
		t.Errorf("got %+v, %v", j, err)
	}
}

// TestStaleReport reports under a claim that is over: 409, kind stale. The control reports under the claim that stands.
func TestStaleReport(t *testing.T) {
	for name, leases := range map[string]int{"record at hand": 0, "record read": 1} {
		t.Run(name, func(t *testing.T) {
			w := servertest.Open(t, func(o *server.Options) { o.Leases = leases }, nil)
			id := w.Post(engine.Order{}).ID
			first := claimJobs(w, "slow", 1)[0]
			if _, err := w.Client.Report(t.Context(), client.Reports{Worker: "slow", Reports: []client.Report{
				{Job: id, Epoch: first.Epoch, Retry: "the road is flooded"},
			}}); err != nil {
				t.Fatal(err)
			}
			again := w.Request(http.MethodPost, "/api/v1/worker/report",
				`{"worker":"slow","reports":[{"job":"`+string(id)+`","epoch":1}]}`)
			p := w.Problem(again, http.StatusConflict, job.Stale)
			if p.Job != id {
				t.Errorf("got %+v", p)
			}
			_, err := w.Client.Report(t.Context(),
				client.Reports{Worker: "slow", Reports: []client.Report{{Job: id, Epoch: 1}}})
			if job.KindOf(err) != job.Stale {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestForeignClaim(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	w.Post(engine.Order{})
	j := claimJobs(w, "honest", 1)[0]
	_, err := w.Client.Report(t.Context(),
		client.Reports{Worker: "thief", Reports: []client.Report{{Job: j.ID, Epoch: j.Epoch}}})
	if job.KindOf(err) != job.Stale {
		t.Errorf("got %v", err)
	}
	if _, err := w.Client.Report(t.Context(),
		client.Reports{Worker: "honest", Reports: []client.Report{{Job: j.ID, Epoch: j.Epoch}}}); err != nil {
		t.Errorf("the control: %v", err)
	}
}

// TestReportsStandAlone mixes good and bad reports in one request.
func TestReportsStandAlone(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	for range 4 {
		w.Post(engine.Order{})
	}
	jobs := claimJobs(w, "coach", 4)
	if len(jobs) != 4 {
		t.Fatalf("got %d jobs", len(jobs))
	}
	got, err := w.Client.Report(t.Context(), client.Reports{Worker: "coach", Reports: []client.Report{
		{Job: jobs[0].ID, Epoch: jobs[0].Epoch},
		{Job: jobs[1].ID, Epoch: 9},
		{Job: "let_nobody", Epoch: 1},
		{Job: jobs[2].ID, Epoch: jobs[2].Epoch, Event: "finish"},
		{Job: jobs[3].ID, Epoch: jobs[3].Epoch, Fail: "torn"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	kinds := []job.ErrorKind{"", job.Stale, job.NotFound, job.Refused, ""}
	for i, r := range got {
		kind := job.ErrorKind("")
		if r.Problem != nil {
			kind = r.Problem.Kind
		}
		if kind != kinds[i] {
			t.Errorf("report %d: got %q, want %q (%+v)", i, kind, kinds[i], r)
		}
	}
	if got[0].State != "Sorting" || got[0].Held || got[4].State != "Lost" || !got[4].Ended ||
		got[4].Outcome != lc.Failed {
		t.Errorf("got %+v", got)
	}
	if can := got[3].Problem.Can; len(can) == 0 {
		t.Errorf("a refusal names the legal moves: %+v", got[3].Problem)
	}
}

func TestWorkersRequestsAreChecked(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	for _, c := range []struct{ path, body string }{
		{"claim", `{"worker":"","from":[{"kind":"test.letter","state":"Posted"}],"n":1}`},
		{"claim", `{"worker":"w","from":[],"n":1}`},
		{"claim", `{"worker":"w","from":[{"kind":"test.letter","state":"Posted"}],"n":0}`},
		{"claim", `{"worker":"w","from":[{"kind":"test.letter","state":"Posted"}],"n":1001}`},
		{"claim", `{"worker":"w","from":[{"kind":"test.letter","state":"Nowhere"}],"n":1}`},
		{"claim", `{"worker":"w","from":[{"kind":"nothing","state":"Posted"}],"n":1}`},
		{"claim", `{"worker":"w","from":[{"kind":"test.letter","state":"Posted"}],"n":1,"wait":61}`},
		{"claim", `{"worker":"w","from":[{"kind":"test.letter","state":"Posted"}],"n":1,"lease":-1}`},
		{"claim", `{"worker":"w","from":[{"kind":"test.letter","state":"Posted"}],"n":1,"lease":1e300}`},
		{"renew", `{"worker":"w","leases":[],"lease":3601}`},
		{"renew", `{"worker":"","leases":[]}`},
		{"report", `{"worker":"w","reports":[]}`},
		{"report", `{"worker":"w","reports":[{"job":"let_x","epoch":0}]}`},
		{"report", `{"worker":"w","reports":[{"job":"","epoch":1}]}`},
		{"report", `{"worker":"w","reports":[{"job":"let_x","epoch":1,"retry":"a","fail":"b"}]}`},
		{"report", `{"worker":"w","reports":[{"job":"let_x","epoch":9223372036854775808}]}`},
	} {
		w.Problem(w.Request(http.MethodPost, "/api/v1/worker/"+c.path, c.body), http.StatusBadRequest, job.Invalid)
	}
}

// TestLongPoll waits for a job that comes later, and ends with an empty answer when none does.
func TestLongPoll(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	got := make(chan []client.Leased, 1)
	go func() {
		jobs, err := w.Client.Claim(t.Context(), client.Claim{Worker: "coach", From: posted, N: 1, Wait: 30})
		if err != nil {
			t.Error(err)
		}
		got <- jobs
	}()
	began := time.Now()
	id := w.Post(engine.Order{}).ID
	if jobs := <-got; len(jobs) != 1 || jobs[0].ID != id {
		t.Errorf("got %+v", jobs)
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("it took %s", took)
	}
	jobs, err := w.Client.Claim(t.Context(), client.Claim{Worker: "coach", From: posted, N: 1, Wait: 0.05})
	if err != nil || len(jobs) != 0 {
		t.Errorf("got %+v, %v", jobs, err)
	}
}

// announced sends the name of the worker after each claim.
type announced struct {
	job.Store
	by chan string
}

func (s announced) Claim(ctx context.Context, c job.Claim) ([]job.Job, error) {
	jobs, err := s.Store.Claim(ctx, c)
	s.by <- c.Worker
	return jobs, err
}

// TestLongPollAfterLimit: a worker that polls gets the job that a limit blocked when another one leaves what the limit
// counts. The poll claims again only for that. The control polls without a limit.
func TestLongPollAfterLimit(t *testing.T) {
	for _, limited := range []bool{true, false} {
		work := engine.Work{Life: servertest.Letter, Prefix: "let", Outside: true}
		if limited {
			work.Limits = []job.Limit{{Name: "one", Kind: "test.letter", Guard: []lc.State{"Posted"}, Max: 1}}
		}
		store := announced{mem.New(), make(chan string, 10)}
		e, err := engine.New(store, []engine.Work{work}, engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := servertest.Serve(t, server.Options{Engine: e, PollAgain: time.Hour})
		first, second := w.Post(engine.Order{}).ID, w.Post(engine.Order{}).ID
		mine := claimJobs(w, "coach", 1)
		if len(mine) != 1 || mine[0].ID != first {
			t.Fatalf("got %+v", mine)
		}
		if more := claimJobs(w, "mule", 1); limited != (len(more) == 0) {
			t.Fatalf("control: limited %t, claimed %+v", limited, more)
		} else if !limited {
			continue
		}
		got := make(chan []client.Leased, 1)
		go func() {
			jobs, err := w.Client.Claim(t.Context(), client.Claim{Worker: "mule", From: posted, N: 1, Wait: 20})
			if err != nil {
				t.Error(err)
			}
			got <- jobs
		}()
		for range 4 { // the last two are those of the poll before it waits, and after it has begun to wait
			<-store.by
		}
		if _, err := w.Client.Report(t.Context(), client.Reports{Worker: "coach", Reports: []client.Report{
			{Job: first, Epoch: mine[0].Epoch}}}); err != nil {
			t.Fatal(err)
		}
		if jobs := <-got; len(jobs) != 1 || jobs[0].ID != second {
			t.Errorf("got %+v", jobs)
		}
	}
}

// TestLongPollAfterRelease: a worker that polls gets the job that a hold kept when the hold is released. Control: as
// long as the hold remains, it gets none.
func TestLongPollAfterRelease(t *testing.T) {
	store := announced{mem.New(), make(chan string, 10)}
	work := engine.Work{Life: servertest.Letter, Prefix: "let", Outside: true}
	e, err := engine.New(store, []engine.Work{work}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := servertest.Serve(t, server.Options{Engine: e, PollAgain: time.Hour})
	held := client.Hold{Scope: job.Scope{Kind: "test.letter"}, Who: "ann", Why: "flood"}
	if _, err := w.Client.Hold(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	id := w.Post(engine.Order{}).ID
	if jobs := claimJobs(w, "mule", 1); len(jobs) > 0 {
		t.Fatalf("control: got %+v", jobs)
	}
	got := make(chan []client.Leased, 1)
	go func() {
		jobs, err := w.Client.Claim(t.Context(), client.Claim{Worker: "mule", From: posted, N: 1, Wait: 20})
		if err != nil {
			t.Error(err)
		}
		got <- jobs
	}()
	for range 3 { // the last two are those of the poll before it waits, and after it has begun to wait
		<-store.by
	}
	if _, err := w.Client.Release(t.Context(), held.Scope, "ann", "over"); err != nil {
		t.Fatal(err)
	}
	if jobs := <-got; len(jobs) != 1 || jobs[0].ID != id {
		t.Errorf("got %+v", jobs)
	}
}

// holdReads is a store that reports each reading of its holds.
type holdReads struct {
	job.Store
	read chan struct{}
}

func (s holdReads) Holds(ctx context.Context) ([]job.Hold, error) {
	holds, err := s.Store.Holds(ctx)
	s.read <- struct{}{}
	return holds, err
}

// TestLongPollAfterResume: a drained worker that polls gets a job when it is resumed.
func TestLongPollAfterResume(t *testing.T) {
	store := holdReads{mem.New(), make(chan struct{}, 1000)}
	work := engine.Work{Life: servertest.Letter, Prefix: "let", Outside: true}
	e, err := engine.New(store, []engine.Work{work}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := servertest.Serve(t, server.Options{Engine: e, PollAgain: time.Hour})
	if _, err := w.Client.DrainWorker(t.Context(), "mule", api.WorkerDrain{Actor: "ann", Note: "disk"}); err != nil {
		t.Fatal(err)
	}
	id := w.Post(engine.Order{}).ID
	for len(store.read) > 0 {
		<-store.read
	}
	got := make(chan []client.Leased, 1)
	go func() {
		jobs, err := w.Client.Claim(t.Context(), client.Claim{Worker: "mule", From: posted, N: 1, Wait: 20})
		if err != nil {
			t.Error(err)
		}
		got <- jobs
	}()
	for range 2 { // before the poll waits, and after it has begun to wait
		<-store.read
	}
	if _, err := w.Client.ResumeWorker(t.Context(), "mule", api.WorkerDrain{Actor: "ann", Note: "disk"}); err != nil {
		t.Fatal(err)
	}
	if jobs := <-got; len(jobs) != 1 || jobs[0].ID != id {
		t.Errorf("got %+v", jobs)
	}
}

// TestLeanAnswers compares the JSON of its own encoder with what encoding/json makes of the types.
func TestLeanAnswers(t *testing.T) {
	w := servertest.Open(t, nil, nil)
	for _, o := range []engine.Order{
		{}, {Group: "g<&>\u2028", Owner: "ö\x00\"\\", Spec: []int{1, 2}},
		{Group: "plain", Owner: "ann", Deadline: time.Now().Add(time.Hour)},
	} {
		w.Post(o)
	}
	answer, text := w.Ask(w.Request(http.MethodPost, "/api/v1/worker/claim",
		`{"worker":"w","from":[{"kind":"test.letter","state":"Posted"}],"n":9}`))
	var claimed client.Claimed
	if err := json.Unmarshal([]byte(text), &claimed); err != nil || answer.StatusCode != 200 || len(claimed.Jobs) != 3 {
		t.Fatalf("%s: %v: %s", answer.Status, err, text)
	}
	same(t, text, claimed)
	r := client.Reports{Worker: "w"}
	for i, j := range claimed.Jobs {
		r.Reports = append(r.Reports, client.Report{Job: j.ID, Epoch: j.Epoch + int64(i/2), Again: i == 1})
	}
	body, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	_, text = w.Ask(w.Request(http.MethodPost, "/api/v1/worker/report", string(body)))
	var results client.Results
	if err := json.Unmarshal([]byte(text), &results); err != nil || len(results.Results) != 3 ||
		results.Results[2].Problem == nil {
		t.Fatalf("%v: %s", err, text)
	}
	same(t, text, results)
}

func same[T any](t *testing.T, text string, v T) {
	t.Helper()
	again, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(again)+"\n", text); diff != "" {
		t.Errorf("-encoding/json +server:\n%s", diff)
	}
}
