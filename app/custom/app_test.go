package custom_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/custom"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/edge/webhook/webhooktest"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/storetest"
)

const check = `name: lab.check
states:
  - state: Checking
    kind: work
    doc: A command checks.
    arrows:
      - {event: accept, to: Done, by: worker, class: pass, doc: The pages are good.}
      - {event: reject, to: Failed, by: [worker, timer], class: fail, doc: A page is unreadable.}
  - {state: Done, kind: end, outcome: ok, doc: Checked.}
  - {state: Failed, kind: end, outcome: failed, doc: A person decides.}
work:
  Checking:
    command: [check]
    env: {LANG: C.UTF-8}
    attempts: 2
    backoff: {first: 1ms, max: 1ms}
    exits: {3: reject, 4: fail, 5: success}
`

// fake is a sandbox that runs a function.
type fake func(ctx context.Context, c *sandbox.Command) (sandbox.Ending, error)

func (f fake) Run(ctx context.Context, c *sandbox.Command) (sandbox.Ending, error) { return f(ctx, c) }

// open starts an engine with the application in a directory.
func open(t *testing.T, store job.Store, dir string, run fake, files string) (*custom.App, *engine.Engine, error) {
	t.Helper()
	o := custom.Options{Dir: filepath.Join(dir, "lifecycles"), Files: files, Temp: dir, Report: server.ParseReport}
	if run != nil {
		o.Sandbox = run
	}
	app := custom.New(o)
	e, err := engine.New(store, nil, engine.Options{Deliver: app.Deliver()})
	if err != nil {
		t.Fatal(err)
	}
	app.Bind(e)
	if err := app.Load(t.Context()); err != nil {
		return app, e, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return app, e, nil
}

func exits(code int, report string) fake {
	return func(_ context.Context, c *sandbox.Command) (sandbox.Ending, error) {
		_, _ = c.Stdout.Write([]byte("one\ntw"))
		_, _ = c.Stdout.Write([]byte("o\nthree"))
		if report != "" {
			if err := os.WriteFile(filepath.Join(c.Dir, "report.json"), []byte(report), 0o600); err != nil {
				return sandbox.Ending{}, err
			}
		}
		return sandbox.Ending{Exit: code}, nil
	}
}

// TestCommandsEndJobs compares what a command does with what becomes of its job.
func TestCommandsEndJobs(t *testing.T) {
	for _, c := range []struct {
		name         string
		run          fake
		state        string
		cause, saved string
	}{
		{"exit 0", exits(0, ""), "Done", "", ""},
		{"a code of success", exits(5, ""), "Done", "", ""},
		{"a code with an event", exits(3, ""), "Failed", "exit-3", ""},
		{"a code that fails at once", exits(4, ""), "Failed", "exit-4", ""},
		{"a code that is not listed", exits(9, ""), "Failed", "exit-9", ""},
		{"data", exits(0, `{"data":{"pages":3}}`), "Done", "", `{"pages":3}`},
		{"merged data and an event", exits(0, `{"merge":{"pages":4},"event":"reject"}`), "Failed", "", `{"pages":4}`},
		{"a failure by report", exits(0, `{"fail":"torn","cause":"paper"}`), "Failed", "paper", ""},
		{"a report that is no JSON", exits(0, `{`), "Failed", "report", ""},
		{"a report about another job", exits(0, `{"job":"chk_1"}`), "Failed", "report", ""},
		{"a limit", func(context.Context, *sandbox.Command) (sandbox.Ending, error) {
			return sandbox.Ending{Cause: sandbox.Memory, Sentence: "more than 512 MiB"}, nil
		}, "Failed", "memory", ""},
		{"a sandbox that fails", func(context.Context, *sandbox.Command) (sandbox.Ending, error) {
			return sandbox.Ending{}, errors.New("no namespaces")
		}, "Failed", "error", ""},
		{"a report that is a link", func(_ context.Context, c *sandbox.Command) (sandbox.Ending, error) {
			return sandbox.Ending{}, os.Symlink("job.json", filepath.Join(c.Dir, "report.json"))
		}, "Failed", "report", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			app, e, err := open(t, mem.New(), t.TempDir(), c.run, "")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := app.Add(t.Context(), []byte(check), "ann", ""); err != nil {
				t.Fatal(err)
			}
			j := complete(t, e)
			if string(j.State) != c.state || c.cause != "" && j.Cause != c.cause || string(j.Data) != c.saved {
				t.Errorf("got %s, cause %q (%s), data %s", j.State, j.Cause, j.Message, j.Data)
			}
		})
	}
}

func complete(t *testing.T, e *engine.Engine) job.Job {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	j, err := e.Complete(ctx, engine.Order{Kind: "lab.check", Spec: map[string]int{"n": 7}})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// TestCommandSeesItsJob in job.json and in its environment.
func TestCommandSeesItsJob(t *testing.T) {
	var seen struct {
		Kind  string
		State string
		Spec  map[string]int
	}
	var env string
	app, e, err := open(t, mem.New(), t.TempDir(), func(_ context.Context, c *sandbox.Command) (sandbox.Ending, error) {
		text, err := os.ReadFile(filepath.Join(c.Dir, "job.json"))
		env = strings.Join(c.Env, " ")
		return sandbox.Ending{}, errors.Join(err, json.Unmarshal(text, &seen))
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := app.Add(t.Context(), []byte(check), "ann", ""); err != nil {
		t.Fatal(err)
	}
	j := complete(t, e)
	if seen.Kind != "lab.check" || seen.State != "Checking" || seen.Spec["n"] != 7 || !strings.Contains(env,
		"LANG=C.UTF-8") ||
		!strings.Contains(env, "STAGEPOST_JOB="+string(j.ID)) {
		t.Errorf("got %+v, %s", seen, env)
	}
}

// TestLifecyclesAreKept: a lifecycle is there after a restart, and its definition is pinned while a job is open.
func TestLifecyclesAreKept(t *testing.T) {
	store, dir := mem.New(), t.TempDir()
	running, release := make(chan struct{}, 1), make(chan struct{})
	app, e, err := open(t, store, dir, func(ctx context.Context, _ *sandbox.Command) (sandbox.Ending, error) {
		running <- struct{}{}
		<-release
		return sandbox.Ending{}, nil
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := app.Add(t.Context(), []byte(check), "ann", "for tests"); err != nil {
		t.Fatal(err)
	}
	j, err := e.Submit(t.Context(), engine.Order{Kind: "lab.check"})
	if err != nil {
		t.Fatal(err)
	}
	<-running
	other := strings.Replace(check, "event: accept", "event: approve", 1)
	if _, err := app.Add(t.Context(), []byte(other), "ann", ""); job.KindOf(err) != job.Refused ||
		!strings.Contains(err.Error(), string(j.ID)) {
		t.Errorf("another definition while a job is open: got %v", err)
	}
	if _, err := app.Add(t.Context(), []byte(strings.Replace(check, "attempts: 2", "attempts: 3", 1)), "ann",
		""); err != nil {
		t.Errorf("the control, the same definition with other work: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "lifecycles", "lab.check.yaml"), []byte(other), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := open(t, store, dir, exits(0, ""), ""); err == nil || !strings.Contains(err.Error(),
		"lab.check.yaml") {
		t.Errorf("a restart with another file: got %v", err)
	}
	close(release)
	if _, err := e.Await(t.Context(), j.ID, func(j *job.Job) bool { return j.Ended }); err != nil {
		t.Fatal(err)
	}
	if _, e, err = open(t, store, dir, exits(0, ""), ""); err != nil || e.Life("lab.check") == nil {
		t.Errorf("a restart when no job is open: got %v", err)
	}
}

// TestRemove: a lifecycle is removed with its file when its jobs are deleted, and refused before. It can be added
// again.
func TestRemove(t *testing.T) {
	text := []byte(strings.Replace(check, "doc: Checked.}",
		`doc: Checked., arrows: [{event: delete, to: Deleted, by: operator, doc: x.}]}
  - {state: Deleted, kind: end, doc: Deleted.}`, 1))
	dir, site := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(site, "own.yaml"),
		bytes.ReplaceAll(text, []byte("lab.check"), []byte("lab.own")), 0o600); err != nil {
		t.Fatal(err)
	}
	app, e, err := open(t, mem.New(), dir, exits(0, ""), site)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "lifecycles", "lab.check.yaml")
	for range 2 {
		if _, err := app.Add(t.Context(), text, "ann", ""); err != nil {
			t.Fatal(err)
		}
		j, err := e.Complete(t.Context(), engine.Order{Kind: "lab.check"})
		if err != nil {
			t.Fatal(err)
		}
		_, err = app.Remove(t.Context(), "lab.check", "ann", "")
		if job.KindOf(err) != job.Refused || !strings.Contains(err.Error(), "jobs of the kind lab.check: 1") ||
			e.Life("lab.check") == nil {
			t.Errorf("while a job exists: %v", err)
		}
		if all, err := custom.Tables(site, filepath.Join(dir, "lifecycles")); err != nil || len(all) != 2 {
			t.Errorf("the lifecycles in files: %v, %v", all, err)
		}
		if _, err := e.Do(t.Context(), operator.Act{Job: j.ID, Event: "delete", By: lifecycle.Operator,
			Actor: "ann"}); err != nil {
			t.Fatal(err)
		}
		if _, err := app.Remove(t.Context(), "lab.check", "ann", ""); err != nil || e.Life("lab.check") != nil {
			t.Errorf("when the job is deleted: %v", err)
		}
		if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the file: %v", err)
		}
	}
	if _, err := e.Submit(t.Context(), engine.Order{Kind: "lab.check"}); job.KindOf(err) != job.Invalid {
		t.Errorf("a job of a removed kind: %v", err)
	}
	for name, kind := range map[string]job.ErrorKind{"lab.check": job.NotFound, "lab.own": job.Refused} {
		if _, err := app.Remove(t.Context(), name, "ann", ""); job.KindOf(err) != kind {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRefusedLifecycles: commands without a sandbox, names that are taken, files with mistakes. The control is in
// TestCommandsEndJobs.
func TestRefusedLifecycles(t *testing.T) {
	files := t.TempDir()
	app, _, err := open(t, mem.New(), t.TempDir(), nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := app.Add(t.Context(), []byte(check), "ann", ""); job.KindOf(err) != job.Refused ||
		!strings.Contains(err.Error(), "lifecycle.commands") {
		t.Errorf("a command without a sandbox: got %v", err)
	}
	if _, err := app.Add(t.Context(), []byte("name: x\n"), "ann", ""); job.KindOf(err) != job.Invalid {
		t.Errorf("a file with mistakes: got %v", err)
	}
	if err := os.WriteFile(filepath.Join(files, "check.yaml"), []byte(check), 0o600); err != nil {
		t.Fatal(err)
	}
	app, e, err := open(t, mem.New(), t.TempDir(), exits(0, ""), files)
	if err != nil {
		t.Fatal(err)
	}
	if complete(t, e).State != "Done" {
		t.Error("a job of a lifecycle in the directory did not end")
	}
	if _, err := app.Add(t.Context(), []byte(check), "ann", ""); job.KindOf(err) != job.Refused ||
		!strings.Contains(err.Error(), "check.yaml") {
		t.Errorf("a lifecycle of the directory: got %v", err)
	}
	if err := os.WriteFile(filepath.Join(files, "bad.yaml"), []byte("name: x\nstates: 7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := app.Reload(); err == nil || !strings.Contains(err.Error(), "bad.yaml:2:") {
		t.Errorf("a directory with a bad file: got %v", err)
	}
}

// TestTidy removes what a command has locked. The control is the directory without it.
func TestTidy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Join(dir, "a", "b"), filepath.Join(dir, "a")} {
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := custom.Tidy(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("it is still there: %v", err)
	}
	if err := custom.Tidy(dir); err != nil {
		t.Errorf("the control: %v", err)
	}
}

// TestNotifications posts the message of a command to the webhook of its lifecycle, once for its key. A name that the
// lifecycle does not have is abandoned; without webhooks a message is refused.
func TestNotifications(t *testing.T) {
	got := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		if err := webhooktest.Check(r.Header, text); err != nil {
			t.Error(err)
		}
		var e webhook.Event
		if err := json.Unmarshal(text, &e); err != nil {
			t.Error(err)
		}
		got <- strings.Join([]string{e.ID, e.Type, e.Subject, string(e.Data)}, " ")
	}))
	defer receiver.Close()
	report := `{"messages":[{"topic":"notification","key":"done","body":{"to":"archive","body":{"pages":3}}}]}`
	app, e, err := open(t, mem.New(), t.TempDir(), exits(0, report), "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := app.Add(t.Context(), []byte(check), "ann", ""); err != nil {
		t.Fatal(err)
	}
	if j := complete(t, e); j.State != "Failed" {
		t.Errorf("without webhooks: got %s", j.State)
	}
	if _, err := app.Add(t.Context(), []byte(check+"webhooks: {archive: \""+receiver.URL+"\"}\n"), "ann",
		""); err != nil {
		t.Fatal(err)
	}
	j := complete(t, e)
	want := string(j.ID) + "/done io.github.stagepost.custom.notification " + string(j.ID) + ` {"pages":3}`
	select {
	case text := <-got:
		if j.State != "Done" || text != want {
			t.Errorf("got %s, %s", j.State, text)
		}
	case <-time.After(time.Minute):
		t.Error("no notification came")
	}
}

// TestOtherServersLifecycles: a server has the lifecycles that another one adds, changes and removes in the directory
// that both have.
func TestOtherServersLifecycles(t *testing.T) {
	store, dir := storetest.Several{Store: mem.New()}, t.TempDir()
	a, first, err := open(t, store, dir, exits(0, ""), "")
	if err != nil {
		t.Fatal(err)
	}
	b, second, err := open(t, store, dir, exits(0, ""), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	if _, err := a.Add(t.Context(), []byte(check), "ann", ""); err != nil {
		t.Fatal(err)
	}
	follow := func(what string, want bool) {
		t.Helper()
		if err := b.Follow(t.Context()); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if got := second.Life("lab.check") != nil; got != want {
			t.Errorf("%s: the other server has it: %v", what, got)
		}
	}
	follow("added", true)
	other := strings.Replace(check, "event: accept", "event: approve", 1)
	if _, err := a.Add(t.Context(), []byte(other), "ann", ""); err != nil {
		t.Fatal(err)
	}
	follow("changed", true)
	if one, two := first.Life("lab.check").Hash(), second.Life("lab.check").Hash(); one != two {
		t.Errorf("the definitions differ: %s and %s", one, two)
	}
	if _, err := a.Remove(t.Context(), "lab.check", "ann", ""); err != nil {
		t.Fatal(err)
	}
	follow("removed", false)
}
