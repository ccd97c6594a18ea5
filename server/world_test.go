package server_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/joblog"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/store/mem"
)

// letter is a small life: a queue, two stages of work, a wait for a person, a retry to where it failed.
var letter = lc.Must("test.letter",
	lc.OnQueue("Posted", "a sender brings it, a clerk takes it",
		lc.OnPass("begin", "Sorting", lc.Worker, "a clerk has time"),
		lc.On("hold", "Held", lc.Worker|lc.Operator, "its town is shut"),
		lc.OnFail("fail", "Lost", lc.Worker|lc.Timer, "it cannot be read")),
	lc.OnWait("Held", "its town is shut; an operator lets it go on",
		lc.On("release", "Posted", lc.Operator, "the town is open again"),
		lc.On("delete", "Burnt", lc.Operator, "nobody wants it").Sets(lc.Cancelled)),
	lc.OnWork("Sorting", "a clerk reads the address",
		lc.OnPass("next", "Riding", lc.Worker, "the address is known"),
		lc.OnFail("fail", "Lost", lc.Worker|lc.Timer, "there is no such place"),
		lc.OnFail("stop", "Lost", lc.Operator, "an operator takes it out")),
	lc.OnWork("Riding", "a coach carries it",
		lc.OnPass("finish", "Delivered", lc.Worker, "it is in the right hands"),
		lc.OnFail("fail", "Lost", lc.Worker|lc.Timer, "the coach broke down")),
	lc.OnEnd("Delivered", lc.OK, "it is in the right hands",
		lc.On("delete", "Burnt", lc.Operator|lc.Timer, "kept long enough")),
	lc.OnEnd("Lost", lc.Failed, "it went wrong somewhere",
		lc.OnReenter("retry", lc.Operator|lc.Owner, "try again where it went wrong", "Posted", "Sorting", "Riding"),
		lc.On("delete", "Burnt", lc.Operator|lc.Timer, "nobody wants it")),
	lc.OnEnd("Burnt", lc.None, "only the record is left"),
)

// world is a server on a store in memory. Its engine does not run unless a test starts it, so that jobs stay where they are.
type world struct {
	*engine.Engine
	t      *testing.T
	server *server.Server
	web    *httptest.Server
	client *client.Client
	ingest *inbox
}

var nothing = func(context.Context, *engine.Run) error { return nil }

// worked are the steps of a world whose engine is to run: those that do nothing.
var worked = map[lc.State]engine.Step{}

// open starts a server. Without steps workers outside may work on the letters, with some the engine does.
func open(t *testing.T, change func(*server.Options), steps map[lc.State]engine.Step) *world {
	t.Helper()
	all := map[lc.State]engine.Step{}
	for _, s := range []lc.State{"Posted", "Sorting", "Riding"} {
		all[s] = func(context.Context, *engine.Run) error { return nil }
	}
	for s, step := range steps {
		all[s] = step
	}
	allow := func(_ context.Context, j *job.Job, a *engine.Act) (job.Require, error) {
		if a.Event == "delete" && !a.Confirm {
			return job.Require{}, job.Errorf(job.Refused, "delete", j.ID, "a deleted letter is gone; confirm it")
		}
		return job.Require{}, nil
	}
	work := engine.Work{Life: letter, Prefix: "let", Steps: all, Allow: allow}
	if steps == nil { // nobody runs it: workers outside may
		work.Steps, work.Outside = nil, true
	}
	e, err := engine.New(mem.New(), []engine.Work{work}, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	logs, err := joblog.Open(t.TempDir(), joblog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Engine: e, t: t, ingest: &inbox{engine: e}}
	o := server.Options{Engine: e, Ingest: w.ingest, Bulk: bulks(e), Locks: &lockbox{}, Logs: logs, Keeper: keeper{}, Version: "test"}
	if change != nil {
		change(&o)
	}
	w.server = server.New(o)
	w.web = httptest.NewUnstartedServer(w.server)
	w.web.Config = server.HTTP(w.server, discard)
	w.web.Start()
	if w.client, err = client.New(w.web.URL, client.Options{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.server.Close()
		w.client.Close()
		w.web.Close()
		_ = logs.Close()
	})
	return w
}

// run starts the engine until the test ends.
func (w *world) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Engine.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
	})
}

func (w *world) post(o engine.Order) job.Job {
	w.t.Helper()
	o.Kind = "test.letter"
	j, err := w.Submit(w.t.Context(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

// ask does a request as it is given and reads the answer.
func (w *world) ask(r *http.Request) (*http.Response, string) {
	w.t.Helper()
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer, string(text)
}

func (w *world) request(method, path, body string) *http.Request {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, w.web.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// problem does a request that must fail with a status and a kind.
func (w *world) problem(r *http.Request, status int, kind job.ErrorKind) client.Problem {
	w.t.Helper()
	answer, text := w.ask(r)
	var p client.Problem
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		w.t.Fatalf("%s %s: %s, not a problem: %.200q", r.Method, r.URL, answer.Status, text)
	}
	if answer.StatusCode != status || p.Status != status || p.Kind != kind || p.Title == "" || p.Type == "" ||
		answer.Header.Get("Content-Type") != "application/problem+json" {
		w.t.Errorf("%s %s: got %d %+v, want %d %s", r.Method, r.URL, answer.StatusCode, p, status, kind)
	}
	return p
}

// inbox is an ingest that keeps what it gets.
type inbox struct {
	engine *engine.Engine
	got    client.Submission
	bytes  string
	fail   error // of submissions, instead of taking them
}

func (i *inbox) Submit(ctx context.Context, _ string, s client.Submission, payload io.Reader) (job.Job, error) {
	text, err := io.ReadAll(payload)
	if err != nil {
		return job.Job{}, &job.Error{Op: "submit", Kind: job.Unavailable, Err: err}
	}
	if i.fail != nil {
		return job.Job{}, i.fail
	}
	i.got, i.bytes = s, string(text)
	return i.engine.Submit(ctx, engine.Order{Kind: "test.letter", Key: s.Key, Owner: s.Submitter})
}

func (i *inbox) Report(_ context.Context, id job.ID) (server.Report, error) {
	return server.Report{JSON: json.RawMessage(`{"batch":"` + string(id) + `"}`), Text: "report on " + string(id) + "\n"}, nil
}

func (i *inbox) Objects(context.Context, string, client.ObjectQuery) (json.RawMessage, error) {
	return json.RawMessage(`{"objects":[]}`), nil
}

// keeper finds nothing wrong.
type keeper struct{}

func (keeper) Verify(context.Context, job.ID) (client.Checkup, error) {
	return client.Checkup{Jobs: 1, Faults: []string{}, Sound: true}, nil
}

func (keeper) Fsck(_ context.Context, f client.Fsck) (client.Checkup, error) {
	return client.Checkup{Faults: []string{"the count of Posted is off by one"}, Sound: f.Repair}, nil
}

func (keeper) Backup(_ context.Context, b client.Backup) (client.BackedUp, error) {
	return client.BackedUp{Dir: b.Name, Bytes: 1}, nil
}

var discard = slog.New(slog.DiscardHandler)

// want are the headers that stand on every answer.
var want = map[string]string{
	"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
	"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
}

func checkHeaders(t *testing.T, answer *http.Response) {
	t.Helper()
	for name, value := range want {
		if got := answer.Header.Get(name); got != value {
			t.Errorf("%s is %q, want %q", name, got, value)
		}
	}
	policy := answer.Header.Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("Content-Security-Policy %q lacks %s", policy, part)
		}
	}
	if answer.Header.Get("Content-Type") == "" {
		t.Error("Content-Type is missing")
	}
}
