package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/joblog"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// stored is what is stored of a job that was worked on, without the name of the worker.
type stored struct {
	Position      lc.Position
	Cause, Says   string
	Attempts      int
	Due           time.Duration
	Data          string
	Priority      int
	Tags          []string
	Words         string
	Bytes         int64
	Children      job.Children
	History       []string
	Tasks         []job.Task
	Messages      []string
	Log           []string
	ChildrenOf    []string
	Claimed       bool
	ProgressShown bool
}

var same = []struct {
	name   string
	step   func(context.Context, *engine.Run) error
	report []remote.Report // in one claim; all but the last have Keep
	event  lc.Event        // that the control expects in the history
}{
	{"success", func(context.Context, *engine.Run) error { return nil }, []remote.Report{{}}, "begin"},
	{"event", func(context.Context, *engine.Run) error {
		return engine.Go("hold")
	}, []remote.Report{{Event: "hold"}}, "hold"},
	{"data replaced", func(_ context.Context, r *engine.Run) error { return r.SetData(map[string]int{"n": 2}) },
		[]remote.Report{{Data: json.RawMessage(`{"n":2}`)}}, "begin"},
	{"data merged", func(ctx context.Context, r *engine.Run) error {
		data := map[string]any{"a": 1, "b": map[string]any{"c": 2, "d": 3}}
		if err := errors.Join(r.SetData(data), r.Save(ctx)); err != nil {
			return err
		}
		return r.SetData(map[string]any{"b": map[string]any{"d": 4}, "e": []int{5}})
	}, []remote.Report{{Keep: true, Data: json.RawMessage(`{"a":1,"b":{"c":2,"d":3}}`)},
		{Merge: json.RawMessage(`{"a":null,"b":{"c":null,"d":4},"e":[5]}`)}}, "begin"},
	{"tasks", func(ctx context.Context, r *engine.Run) error {
		r.PutTask(job.Task{Name: "cover", Kind: "test.part", State: "Running", Total: 10})
		r.PutTask(job.Task{Name: "spine", Kind: "test.part", State: "Waiting"})
		if err := r.Save(ctx); err != nil {
			return err
		}
		r.PutTask(job.Task{Name: "cover", Kind: "test.part", State: "Done", Done: 10, Total: 10, Message: "all",
			Data: json.RawMessage(`{"p":1}`)})
		return nil
	}, []remote.Report{
		{Keep: true, Tasks: []job.Task{{Name: "cover", Kind: "test.part", State: "Running", Total: 10},
			{Name: "spine", Kind: "test.part", State: "Waiting"}}},
		{Tasks: []job.Task{{Name: "cover", Kind: "test.part", State: "Done", Done: 10, Total: 10, Message: "all",
			Data: json.RawMessage(`{"p":1}`)}}},
	}, "begin"},
	{"message to the outbox", func(_ context.Context, r *engine.Run) error {
		return r.Send("test.news", string(r.Job().ID)+"/read", map[string]string{"to": "ann"})
	}, []remote.Report{{Messages: []remote.Message{{Topic: "test.news", Key: "read",
		Body: json.RawMessage(`{"to":"ann"}`)}}}}, "begin"},
	{"log", func(_ context.Context, r *engine.Run) error {
		r.Log().Info("looked", "page", 3)
		r.Log().Warn("torn")
		return nil
	}, []remote.Report{{Keep: true, Log: []remote.Line{{Text: "looked",
		Attrs: map[string]any{"page": 3}}}}, {Log: []remote.Line{{Text: "torn", Level: slog.LevelWarn}}}}, "begin"},
	{"fields", func(_ context.Context, r *engine.Run) error {
		r.SetMessage("it is long")
		r.SetPriority(7)
		r.SetTags("b", "a")
		r.SetWords("A M\u00e1p", "map.tif")
		r.SetBytes(12)
		r.Advanced()
		return nil
	}, []remote.Report{{Message: text("it is long"), Priority: number(7), Tags: []string{"b", "a"}, Bytes: size(12),
		Words: []string{"A M\u00e1p", "map.tif"}, Advanced: true}}, "begin"},
	{"children", func(ctx context.Context, r *engine.Run) error {
		err := r.Spawn(ctx, 2, func(i int) (engine.Order, error) {
			return engine.Order{Kind: "test.letter", Group: "g", Due: later, Spec: map[string]int{"n": i},
				Owner: "ann"}, nil
		})
		if err != nil {
			return err
		}
		return r.WaitChildren()
	}, []remote.Report{
		{Keep: true, Spawn: &remote.Spawn{Expected: 2, From: 1,
			Jobs: []remote.Child{{Kind: "test.letter", Group: "g", Spec: map[string]int{"n": 0}}}}},
		{Spawn: &remote.Spawn{Expected: 2, From: 2, Jobs: []remote.Child{{Kind: "test.letter", Group: "g",
			Spec: map[string]int{"n": 1}}}}, Children: true},
	}, lc.Waiting},
	{"wait", func(_ context.Context, r *engine.Run) error {
		return engine.Wait(job.Blocker{Code: "snow", Sentence: "shut", Until: r.Now().Add(time.Hour)})
	}, []remote.Report{{Wait: &job.Blocker{Code: "snow", Sentence: "shut", Until: began.Add(time.Hour)}}}, lc.Waiting},
	{"retry", func(context.Context, *engine.Run) error {
		return engine.RetryAfter(time.Hour, wooden{errors.New("axle")})
	},
		[]remote.Report{{Retry: "axle", Cause: "wood", After: time.Hour}}, lc.Backoff},
	{"fail", func(context.Context, *engine.Run) error { return engine.Fail("water", errors.New("bridge")) },
		[]remote.Report{{Fail: "bridge", Cause: "water"}}, "fail"},
}

var (
	began = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	later = began.Add(time.Hour) // no step takes the children
)

func text(s string) *string { return &s }
func number(n int) *int     { return &n }
func size(n int64) *int64   { return &n }

func nothing(context.Context, *engine.Run) error { return nil }

type wooden struct{ error }

func (wooden) Cause() string { return "wood" }

// TestRemoteWorkersDoWhatStepsDo does each thing once in a step and once by reports, and compares what is stored. Each
// report is sent twice: the repetition changes nothing.
func TestRemoteWorkersDoWhatStepsDo(t *testing.T) {
	for _, c := range same {
		t.Run(c.name, func(t *testing.T) {
			want, got := doneLocally(t, c.step), doneRemotely(t, c.report)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("a step (-) and a remote worker (+):\n%s", diff)
			}
			if last := want.History[len(want.History)-1]; len(last) == 0 || want.Claimed ||
				!contains(want.History, string(c.event)) {
				t.Errorf("the control: the history has no %s: %q", c.event, want.History)
			}
		})
	}
}

func contains(lines []string, event string) bool {
	for _, l := range lines {
		if len(l) >= len(event) && l[:len(event)] == event {
			return true
		}
	}
	return false
}

func doneLocally(t *testing.T, step engine.Step) (s stored) {
	synctest.Test(t, func(t *testing.T) {
		w, logs := sameHarness(t, map[lc.State]engine.Step{"Posted": step})
		id := w.post(engine.Order{Owner: "ann"}).ID
		synctest.Wait()
		s = w.stored(id, logs)
		w.stop()
	})
	return s
}

func doneRemotely(t *testing.T, reports []remote.Report) (s stored) {
	synctest.Test(t, func(t *testing.T) {
		w, logs := sameHarness(t, nil)
		id := w.post(engine.Order{Owner: "ann"}).ID
		j := w.acquire("ann", 1)[0]
		for i, r := range reports {
			for try := range 2 {
				record := w.get(id)
				if !r.Keep && try == 0 || r.Keep {
					record = j
				}
				numbered(r.Log, i)
				r.Job, r.Epoch = j.ID, j.Epoch
				results, err := w.Remote().Report(t.Context(), "ann", []job.Job{record}, []remote.Report{r})
				if err != nil || results[0].Err != nil {
					t.Fatalf("report %d, try %d: %v, %v", i, try, err, results[0].Err)
				}
				if r.Keep {
					j = results[0].Job
				}
			}
		}
		s = w.stored(id, logs)
		w.stop()
	})
	return s
}

// numbered numbers the lines of report i, so that a repetition is recognized.
func numbered(lines []remote.Line, i int) {
	for k := range lines {
		lines[k].Number = int64(100*i + k + 1)
	}
}

func sameHarness(t *testing.T, steps map[lc.State]engine.Step) (*harness, *joblog.Logs) {
	logs, err := joblog.Open(t.TempDir(), joblog.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = logs.Close() })
	work := engine.Work{Life: letter, Prefix: "let", Outside: true, Slots: 1, Steps: steps,
		Topics: []string{"test.news"}}
	bags := engine.Work{Life: bag, Prefix: "bag", Steps: map[lc.State]engine.Step{"Packed": nothing, "Open": nothing}}
	return start(t, mem.New(), engine.Options{JobLogs: logs, Lease: time.Hour}, work, bags), logs
}

func (w *harness) stored(id job.ID, logs *joblog.Logs) stored {
	w.t.Helper()
	j := w.get(id)
	s := stored{
		Position: j.Position, Cause: j.Cause, Says: j.Message, Attempts: j.Attempts, Data: string(j.Data),
		Priority: j.Priority, Tags: j.Tags, Bytes: j.Bytes, Words: j.Words,
		Children: j.Children, Claimed: j.Claimed(),
	}
	if !j.Due.IsZero() {
		s.Due = j.Due.Sub(began).Round(time.Minute)
	}
	w.verify(id)
	history, err := w.store.History(w.t.Context(), id, 0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, h := range history {
		s.History = append(s.History, fmt.Sprintf("%s %s %s %s %s %s", h.Event, h.From, h.To, h.By, h.Cause, h.Note))
	}
	if s.Tasks, err = w.store.Tasks(w.t.Context(), id); err != nil {
		w.t.Fatal(err)
	}
	messages, err := job.MessagesOf(w.t.Context(), w.store, id)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, m := range messages {
		s.Messages = append(s.Messages, m.Topic+" "+m.Key[len(id):]+" "+string(m.Body))
	}
	log, err := logs.Read(id, 0, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range log.Lines {
		var attrs map[string]any
		_ = json.Unmarshal(l.Attrs, &attrs)
		delete(attrs, "line")
		if len(attrs) == 0 {
			attrs = nil
		}
		rest, _ := json.Marshal(attrs)
		s.Log = append(s.Log, l.Level+" "+l.Msg+" "+string(rest)+" "+string(l.State))
	}
	page, err := w.store.List(w.t.Context(), job.Query{Parent: id})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, c := range page.Jobs {
		s.ChildrenOf = append(s.ChildrenOf, c.Group+" "+c.Owner+" "+string(c.Spec)+" "+string(c.Kind))
	}
	_, s.ProgressShown = w.Progress(id)
	return s
}

// TestRefusedReportsChangeNothing compares the record after a refused report with the record before. The control is a
// valid report.
func TestRefusedReportsChangeNothing(t *testing.T) {
	task := []job.Task{{Name: "cover", Kind: "test.part", State: "Done"}}
	child := func(o remote.Child) *remote.Spawn {
		o.Due = later
		return &remote.Spawn{Expected: 1, From: 1, Jobs: []remote.Child{o}}
	}
	line := []remote.Line{{Text: "too late"}}
	for _, c := range []struct {
		name    string
		bad     remote.Report
		worker  string
		kind    job.ErrorKind
		control remote.Report
	}{
		{"an older epoch", remote.Report{Epoch: -1, Tasks: task}, "ann", job.Stale, remote.Report{Tasks: task}},
		{"an older epoch that only logs", remote.Report{Epoch: -1, Log: line}, "ann", job.Stale,
			remote.Report{Log: line}},
		{"another worker", remote.Report{Tasks: task}, "bob", job.Stale, remote.Report{Tasks: task}},
		{"data and merge", remote.Report{Data: json.RawMessage(`1`), Merge: json.RawMessage(`2`)}, "ann", job.Invalid,
			remote.Report{Merge: json.RawMessage(`{"a":2}`)}},
		{"a merge that is no JSON", remote.Report{Merge: json.RawMessage(`{`)}, "ann", job.Invalid,
			remote.Report{Merge: json.RawMessage(`{}`)}},
		{"a task without a name", remote.Report{Tasks: []job.Task{{}}}, "ann", job.Invalid, remote.Report{Tasks: task}},
		{"a topic", remote.Report{Messages: []remote.Message{{Topic: "mail", Key: "k"}}}, "ann", job.Refused,
			remote.Report{Messages: []remote.Message{{Topic: "test.news", Key: "k"}}}},
		{"a message without a key", remote.Report{Messages: []remote.Message{{Topic: "test.news"}}}, "ann", job.Invalid,
			remote.Report{Messages: []remote.Message{{Topic: "test.news", Key: "k"}}}},
		{"a child of the server's", remote.Report{Spawn: child(remote.Child{Kind: "test.bag"})}, "ann", job.Refused,
			remote.Report{Spawn: child(remote.Child{Kind: "test.letter"})}},
		{"a child of another owner", remote.Report{Spawn: child(remote.Child{Kind: "test.letter", Owner: "eve"})},
			"ann", job.Refused,
			remote.Report{Spawn: child(remote.Child{Kind: "test.letter", Owner: "ann"})}},
		{"more children than expected", remote.Report{Spawn: &remote.Spawn{From: 1,
			Jobs: []remote.Child{{Kind: "test.letter"}}}}, "ann", job.Invalid,
			remote.Report{Spawn: &remote.Spawn{Expected: 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, logs := sameHarness(t, nil)
				id := w.post(engine.Order{Owner: "ann"}).ID
				w.acquire("ann", 1)
				if c.bad.Epoch < 0 { // a worker that was thought to be lost
					time.Sleep(2 * time.Hour)
					synctest.Wait()
					w.acquire("ann", 1)
				}
				j := w.get(id)
				before := w.stored(id, logs)
				conclude := func(worker string, r remote.Report) error {
					r.Job, r.Epoch, r.Keep = id, r.Epoch+j.Epoch, true
					results, err := w.Remote().Report(t.Context(), worker, []job.Job{j}, []remote.Report{r})
					return errors.Join(err, results[0].Err)
				}
				if err := conclude(c.worker, c.bad); job.KindOf(err) != c.kind {
					t.Errorf("got %v, want it %s", err, c.kind)
				}
				if diff := cmp.Diff(before, w.stored(id, logs)); diff != "" {
					t.Errorf("it changed something:\n%s", diff)
				}
				if err := conclude("ann", c.control); err != nil {
					t.Errorf("the control: %v", err)
				}
				w.stop()
			})
		})
	}
}

// TestProgressOfARemoteWorker checks that the progress is shown as long as the claim lasts.
func TestProgressOfARemoteWorker(t *testing.T) {
	for _, how := range []string{"report", "lost"} {
		synctest.Test(t, func(t *testing.T) {
			w, _ := sameHarness(t, nil)
			id := w.post(engine.Order{}).ID
			j := w.acquire("ann", 1)[0]
			w.report("ann", j, remote.Report{Keep: true, Progress: &job.Progress{Done: 3, Total: 9, Unit: "pages"}})
			if p, ok := w.Progress(id); !ok || p.Done != 3 || p.Total != 9 || p.Unit != "pages" || p.State != "Posted" {
				t.Errorf("got %+v, %v", p, ok)
			}
			if how == "report" {
				w.report("ann", j, remote.Report{})
			} else {
				time.Sleep(2 * time.Hour)
			}
			synctest.Wait()
			if p, ok := w.Progress(id); ok {
				t.Errorf("%s: it still shows %+v", how, p)
			}
			w.stop()
		})
	}
}

// TestRepeatedReport checks that a report that repeats the one that ended the claim succeeds, also after the job moved
// on and the server restarted. Another report is stale.
func TestRepeatedReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := mem.New()
		logs, err := joblog.Open(t.TempDir(), joblog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer logs.Close()
		first := start(t, store, engine.Options{JobLogs: logs}, remoteLetters())
		id := first.post(engine.Order{}).ID
		j := first.acquire("ann", 1)[0]
		report := remote.Report{Log: []remote.Line{{Number: 1, Text: "read"}, {Number: 2, Text: "sorted"}}}
		if r := first.report("ann", j, report); r.Err != nil || r.Job.State != "Sorting" {
			t.Fatalf("got %+v", r)
		}
		first.stop()
		w := start(t, store, engine.Options{JobLogs: logs}, remoteLetters())
		defer w.stop()
		w.acquire("ann", 1)
		if r := w.report("ann", j, report); r.Err != nil || r.Job.State != "Sorting" || r.Job.Claimed() {
			t.Errorf("the repetition: got %+v", r)
		}
		if c, err := logs.Read(id, 0, 0); err != nil || len(c.Lines) != 2 {
			t.Errorf("got %+v, %v, want each line once", c.Lines, err)
		}
		for name, other := range map[string]remote.Report{"failure": {Fail: "torn"}, "event": {Event: "hold"},
			"wait": {Wait: &job.Blocker{Code: "x"}}} {
			if r := w.report("ann", j, other); job.KindOf(r.Err) != job.Stale {
				t.Errorf("%s after success: got %v", name, r.Err)
			}
		}
		if r := w.report("bob", j, report); job.KindOf(r.Err) != job.Stale {
			t.Errorf("the report of another worker: got %v", r.Err)
		}
	})
}

// TestChildrenAreWaitedFor checks that the report of a remote worker applies when the last child has ended.
func TestChildrenAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := sameHarness(t, nil)
		defer w.stop()
		id := w.post(engine.Order{}).ID
		j := w.acquire("ann", 1)[0]
		report := remote.Report{Children: true, Spawn: &remote.Spawn{Expected: 1, From: 1,
			Jobs: []remote.Child{{Kind: "test.letter"}}}}
		if r := w.report("ann", j, report); r.Err != nil || r.Job.State != "Posted" || r.Job.Cause != cause.Children {
			t.Fatalf("got %+v", r)
		}
		child := w.acquire("ann", 1)
		if len(child) != 1 || child[0].Parent != id {
			t.Fatalf("got %+v", child)
		}
		if r := w.report("ann", child[0], remote.Report{Fail: "torn"}); r.Err != nil {
			t.Fatal(r.Err)
		}
		synctest.Wait()
		j = w.acquire("ann", 1)[0]
		if r := w.report("ann", j, report); r.Err != nil || r.Job.State != "Sorting" || r.Job.Children.Failed != 1 {
			t.Errorf("got %+v", r)
		}
	})
}
