package servertest

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/enginetest"
	"github.com/stagepost/stagepost/engine/joblog"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/listen"
	"github.com/stagepost/stagepost/store/mem"
)

// Letter is the lifecycle of the jobs of a harness.
var Letter = enginetest.Letter

// Harness is a server on a store in memory. Its engine does not run unless a test starts it, so that jobs stay where
// they are.
type Harness struct {
	*engine.Engine
	T      *testing.T
	Server *server.Server
	Web    *httptest.Server
	Client *client.Client
}

// PartOf makes the part of an application for the server of a harness.
type PartOf func(w *Harness) server.Part

// Nothing is a step that does nothing.
var Nothing = enginetest.Nothing

// Worked are the steps of a harness whose engine is to run: those that do nothing.
var Worked = map[lc.State]engine.Step{}

// Open starts a server. Without steps workers outside may work on the letters, with some the engine does.
func Open(t *testing.T, change func(*server.Options), steps map[lc.State]engine.Step, parts ...PartOf) *Harness {
	t.Helper()
	allow := func(_ context.Context, j *job.Job, a *operator.Act) (job.Require, error) {
		if a.Event == "delete" && !a.Confirm {
			return job.Require{}, job.Errorf(job.Refused, "delete", j.ID, "a deleted letter is gone; confirm it")
		}
		return job.Require{}, nil
	}
	work := engine.Work{Life: Letter, Prefix: "let", Steps: enginetest.Steps(steps), Allow: allow, Again: again}
	if steps == nil { // the engine does not run it: workers outside may
		work.Steps, work.Outside, work.Orders, work.Topics = nil, true, true, []string{"test.news"}
	}
	logs, err := joblog.Open(t.TempDir(), joblog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = logs.Close() })
	e, err := engine.New(mem.New(), []engine.Work{work}, engine.Options{JobLogs: logs})
	if err != nil {
		t.Fatal(err)
	}
	o := server.Options{Engine: e, Locks: noLocks{}, Logs: logs, Maintenance: Maintenance{}, Version: "test"}
	if change != nil {
		change(&o)
	}
	return Serve(t, o, parts...)
}

// again lets an operator have a Failed task of a claimed letter tried again.
func again(j *job.Job, t *job.Task, by lc.Actor) (job.Task, error) {
	if !j.Claimed() || t.State != "Failed" || by != lc.Operator {
		return job.Task{}, job.Errorf(job.Refused, "retry-task", j.ID, "the task %s is %s", t.Name, t.State)
	}
	next := *t
	next.State, next.Message = "Created", ""
	return next, nil
}

// Serve starts a server with options of its own.
func Serve(t *testing.T, o server.Options, parts ...PartOf) *Harness {
	t.Helper()
	w := &Harness{Engine: o.Engine, T: t, Server: server.New(o)}
	for _, part := range parts {
		w.Server.Add(part(w))
	}
	w.Web = httptest.NewUnstartedServer(w.Server)
	w.Web.Config = listen.HTTP(w.Server, Discard)
	w.Web.Start()
	var err error
	if w.Client, err = client.New(w.Web.URL, client.Options{HTTP: w.http()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Server.Close()
		w.Client.Close()
		w.Web.Close()
	})
	return w
}

// Run starts the engine until the test ends.
func (w *Harness) Run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Engine.Run(ctx) }()
	w.T.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.T.Error(err)
		}
	})
}

func (w *Harness) Post(o engine.Order) job.Job {
	w.T.Helper()
	o.Kind = "test.letter"
	j, err := w.Submit(w.T.Context(), o)
	if err != nil {
		w.T.Fatal(err)
	}
	return j
}

// Ask does a request as it is given and reads the answer.
func (w *Harness) Ask(r *http.Request) (*http.Response, string) {
	w.T.Helper()
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		w.T.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		w.T.Fatal(err)
	}
	if err := w.contract().Check(r, answer, text); err != nil {
		w.T.Error(err)
	}
	return answer, string(text)
}

// http returns a client that checks answers against the description.
func (w *Harness) http() *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	return &http.Client{Transport: checked{t, w}, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
}

func (w *Harness) Request(method, path, body string) *http.Request {
	w.T.Helper()
	r, err := http.NewRequestWithContext(w.T.Context(), method, w.Web.URL+path, strings.NewReader(body))
	if err != nil {
		w.T.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// Problem does a request that must fail with a status and a kind.
func (w *Harness) Problem(r *http.Request, status int, kind job.ErrorKind) api.Problem {
	w.T.Helper()
	answer, text := w.Ask(r)
	var p api.Problem
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		w.T.Fatalf("%s %s: %s, not a problem: %.200q", r.Method, r.URL, answer.Status, text)
	}
	if answer.StatusCode != status || p.Status != status || p.Kind != kind || p.Title == "" || p.Type == "" ||
		answer.Header.Get("Content-Type") != "application/problem+json" {
		w.T.Errorf("%s %s: got %d %+v, want %d %s", r.Method, r.URL, answer.StatusCode, p, status, kind)
	}
	return p
}

// Maintenance finds nothing wrong.
type Maintenance struct{}

func (Maintenance) Verify(context.Context, job.ID) (api.Checkup, error) {
	return api.Checkup{Jobs: 1, Faults: []string{}, Sound: true}, nil
}

func (Maintenance) Fsck(_ context.Context, f api.Fsck) (api.Checkup, error) {
	return api.Checkup{Faults: []string{"the count of Posted is off by one"}, Sound: f.Repair}, nil
}

func (Maintenance) Export(_ context.Context, w io.Writer) error {
	_, err := io.WriteString(w, "an export")
	return err
}

func (Maintenance) Backup(_ context.Context, b api.Backup) (api.BackedUp, error) {
	return api.BackedUp{Dir: b.Name, Bytes: 1, Without: []string{}, Unknown: []string{}, Outside: []api.Location{}}, nil
}

var Discard = slog.New(slog.DiscardHandler)

// want are the headers that stand on every answer.
var want = map[string]string{
	"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
	"Cache-Control":              "no-store",
	"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
}

func CheckHeaders(t *testing.T, answer *http.Response) {
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

// noLocks is an application that has no locks.
type noLocks struct{}

func (noLocks) Locks(context.Context) ([]api.Lock, error) { return nil, nil }

func (noLocks) BreakLock(_ context.Context, kind, name, _, _ string) (api.Lock, error) {
	return api.Lock{}, job.Errorf(job.NotFound, "break", "", "the lock %s %s is not held", kind, name)
}

// AskPage sends a request as browsers do.
func (w *Harness) AskPage(r *http.Request) (*http.Response, string) {
	r.Header.Set("Accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
	return w.Ask(r)
}

// Form is a form that a page sends: names and values in turn.
func (w *Harness) Form(path string, fields ...string) *http.Request {
	q := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		q.Add(fields[i], fields[i+1])
	}
	r := w.Request(http.MethodPost, path, q.Encode())
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}
