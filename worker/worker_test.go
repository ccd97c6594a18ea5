package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/worker"
)

// becomes is what a step makes of a job.
type becomes struct {
	State          lifecycle.State
	Cause, Message string
	Data           string
	Attempts       int
	Bytes          int64
	Tags           []string
	Words          string
	Tasks          []string
	Events         map[lifecycle.Event]int
	Lines          []string
}

// TestStepRunsUnchanged runs each step in the engine of a server and in a remote worker, and compares what becomes of
// the job. The control is a step that shows where it runs.
func TestStepRunsUnchanged(t *testing.T) {
	steps := map[string]engine.Step{
		"success":   pass,
		"event":     func(context.Context, *engine.Run) error { return engine.Go("tear") },
		"failure":   func(context.Context, *engine.Run) error { return engine.Fail("ink", errors.New("no ink")) },
		"retries":   func(context.Context, *engine.Run) error { return engine.Retry(errors.New("paper jam")) },
		"error":     func(context.Context, *engine.Run) error { return errors.New("smoke") },
		"permanent": func(_ context.Context, r *engine.Run) error { return job.Errorf(job.Invalid, "print", "", "blank") },
		"panic":     func(context.Context, *engine.Run) error { panic("fire") },
		"timeout": func(ctx context.Context, r *engine.Run) error {
			<-ctx.Done()
			return ctx.Err()
		},
		"wait": func(_ context.Context, r *engine.Run) error {
			var seen struct{ Waited bool }
			if err := r.Data(&seen); err != nil || seen.Waited {
				return err
			}
			seen.Waited = true
			return errors.Join(r.SetData(seen), engine.Wait(job.Blocker{Code: "ink", Sentence: "ink is ordered",
				Until: r.Now().Add(time.Minute)}))
		},
		"everything": everything,
	}
	for name, step := range steps {
		got := map[string]becomes{}
		for _, where := range []string{"server", "remote"} {
			timeout := func(w *engine.Work) {
				w.Policies = map[lifecycle.State]engine.Policy{"Printing": {Timeout: time.Hour, MaxAttempts: 2,
					Backoff: w.Policy.Backoff}}
				w.Topics = []string{"mail"}
				if where == "server" {
					w.Outside, w.Steps = false, prints(step).Steps
				}
			}
			bubble(t, func(h *harness) {
				d := &direct{Engine: h.Engine}
				if where == "remote" {
					stop := h.work(d, step, worker.Options{Lease: 10 * time.Second})
					defer func() {
						if err := stop(); err != nil {
							t.Error(err)
						}
					}()
				}
				got[where] = h.became(h.end(h.submit().ID))
			}, timeout)
			if b := got[where]; name == "timeout" { // the sweep of the server may come before the step, at the same time
				b.Message = ""
				got[where] = b
			}
		}
		if diff := cmp.Diff(got["server"], got["remote"]); diff != "" {
			t.Errorf("%s: the server (-) and the remote worker (+) differ:\n%s", name, diff)
		}
		if got["remote"].Events["create"] != 1 || len(got["remote"].Events) < 2 {
			t.Errorf("%s: %+v: nothing was compared", name, got["remote"])
		}
	}
}

// everything is a step that uses what a run offers.
func everything(ctx context.Context, r *engine.Run) error {
	var spec struct{ Pages int }
	if err := r.Spec(&spec); err != nil {
		return err
	}
	r.Log().Info("pages", "n", spec.Pages)
	r.SetTags("size=a4", "ink=blue")
	r.SetBytes(int64(spec.Pages))
	r.SetWords("Printed Maps", "maps.pdf")
	r.PutTask(job.Task{Name: "page-1", Kind: "test.page", State: "Done", Message: "dry"})
	if err := r.SetData(map[string]int{"half": spec.Pages / 2}); err != nil {
		return err
	}
	if err := r.Save(ctx); err != nil {
		return err
	}
	tasks, err := r.Tasks(ctx)
	if err != nil || len(tasks) != 1 || r.Last() {
		return fmt.Errorf("%d tasks, last %v: %w", len(tasks), r.Last(), err)
	}
	if err := r.Fresh(ctx); err != nil {
		return err
	}
	var saved struct{ Half int }
	if err := r.Data(&saved); err != nil || saved.Half != 1 {
		return fmt.Errorf("data %+v, %w", saved, err)
	}
	r.Progress(1, 3, "pages")
	r.Log().Warn("nearly out of ink")
	r.SetMessage("printed on both sides")
	r.SetPriority(7)
	return errors.Join(r.Send("mail", "done", "body"), r.SetData(map[string]int{"all": spec.Pages}))
}

// became describes an ended job.
func (h *harness) became(j job.Job) becomes {
	h.t.Helper()
	synctest.Wait() // lines of the log follow the commit
	b := becomes{State: j.State, Cause: j.Cause, Message: j.Message, Data: string(j.Data), Attempts: j.Attempts,
		Bytes: j.Bytes, Tags: j.Tags, Words: j.Words, Events: h.events(j.ID)}
	tasks, err := h.Store().Tasks(h.t.Context(), j.ID)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, one := range tasks {
		b.Tasks = append(b.Tasks, one.Name+" "+string(one.State)+" "+one.Message)
	}
	log, err := h.logs.Read(j.ID, 0, 1000)
	if err != nil {
		h.t.Fatal(err)
	}
	for _, l := range log.Lines {
		b.Lines = append(b.Lines, l.Level+" "+l.Msg)
	}
	return b
}

// TestMoveIsRefused: what a remote step cannot do is an error with the reason, and the step may go on.
func TestMoveIsRefused(t *testing.T) {
	bubble(t, func(h *harness) {
		var got error
		stop := h.work(&direct{Engine: h.Engine}, func(ctx context.Context, r *engine.Run) error {
			got = r.Move(ctx, "finish")
			return nil
		}, worker.Options{})
		defer func() { _ = stop() }()
		if j := h.end(h.submit().ID); j.State != "Printed" || job.KindOf(got) != job.Refused {
			t.Errorf("%s, %v", j.State, got)
		}
	})
}

// TestCuts loses each request and each answer of a worker, one in each run. The job is done, and its step succeeds
// once. The control repeats no report: then the job is printed twice.
func TestCuts(t *testing.T) {
	for _, op := range []string{"claim", "renew", "report", "update", "job"} {
		for n := 1; n <= 3; n++ {
			for _, answer := range []bool{false, true} {
				bubble(t, func(h *harness) {
					d := &direct{Engine: h.Engine, cut: func(o string, i int) (bool, bool) {
						return o == op && i == n && !answer, o == op && i == n && answer
					}}
					var times atomic.Int32
					stop := h.work(d, func(ctx context.Context, r *engine.Run) error {
						times.Add(1)
						r.Log().Info("printing")
						if err := r.Save(ctx); err != nil {
							return err
						}
						if err := r.Fresh(ctx); err != nil {
							return err
						}
						time.Sleep(35 * time.Second) // three renewals
						return r.SetData("printed")
					}, worker.Options{Lease: 30 * time.Second})
					j := h.end(h.submit().ID)
					if err := stop(); err != nil {
						t.Error(err)
					}
					e := h.events(j.ID)
					if j.State != "Printed" || e["finish"] != 1 || e["lost"] > 0 && op != "claim" || times.Load() != 1 {
						t.Errorf("%s %d, answer %v: %s after %v, %d times", op, n, answer, j.State, e, times.Load())
					}
					log, err := h.logs.Read(j.ID, 0, 100)
					if err != nil || len(log.Lines) != 1 {
						t.Errorf("%s %d, answer %v: %d log lines, %v", op, n, answer, len(log.Lines), err)
					}
				})
			}
		}
	}
}

// TestCutControl: a worker that crashes instead of repeating its report leaves the job to another one, which does the
// work again.
func TestCutControl(t *testing.T) {
	bubble(t, func(h *harness) {
		var times atomic.Int32
		step := func(context.Context, *engine.Run) error { times.Add(1); return nil }
		down := &direct{Engine: h.Engine, cut: func(op string, n int) (bool, bool) { return op == "report" && n > 1, false }}
		kill := h.work(down, step, worker.Options{Name: "first", Grace: job.Off, Lease: 30 * time.Second})
		id := h.submit().ID
		time.Sleep(5 * time.Second)
		if times.Load() != 1 {
			t.Fatalf("%d times", times.Load())
		}
		down.stop() // the process is gone
		stop := h.work(&direct{Engine: h.Engine}, step, worker.Options{Name: "second"})
		if j := h.end(id); j.State != "Printed" || times.Load() != 2 {
			t.Errorf("%s, %d times", j.State, times.Load())
		}
		_, _ = stop(), kill()
	})
}

// TestSilence stops a worker's network for longer than the lease, as SIGSTOP does, while its step runs. The step is
// stopped when the lease is over, another worker does the job, and the first one's report changes nothing. The control
// is a shorter silence: the step goes on.
func TestSilence(t *testing.T) {
	for _, c := range []struct {
		silence time.Duration
		by      string
	}{{50 * time.Second, "second"}, {15 * time.Second, "first"}} {
		bubble(t, func(h *harness) {
			var mu sync.Mutex
			ended := map[string]error{}
			step := func(name string, takes time.Duration) engine.Step {
				return func(ctx context.Context, r *engine.Run) error {
					select {
					case <-ctx.Done():
					case <-time.After(takes):
					}
					mu.Lock()
					defer mu.Unlock()
					ended[name] = context.Cause(ctx)
					return r.SetData(name)
				}
			}
			d := &direct{Engine: h.Engine}
			first := h.work(d, step("first", 2*time.Minute), worker.Options{Name: "first", Lease: 30 * time.Second})
			id := h.submit().ID
			h.begun(id)
			resume := d.stop()
			second := h.work(&direct{Engine: h.Engine}, step("second", time.Second), worker.Options{Name: "second"})
			time.Sleep(c.silence)
			resume()
			j := h.end(id)
			if err := errors.Join(first(), second()); err != nil {
				t.Error(err)
			}
			if string(j.Data) != `"`+c.by+`"` || h.events(id)["finish"] != 1 {
				t.Errorf("silence of %s: %s by %s", c.silence, j.State, j.Data)
			}
			if stopped := ended["first"] != nil; stopped != (c.by == "second") {
				t.Errorf("silence of %s: the first step ended with %v", c.silence, ended["first"])
			}
		})
	}
}

// TestStop: a worker that is stopped gives its steps the grace period, and then returns their jobs to the queue at once
// and without counting an attempt. The control is a worker that crashes: its job waits for the end of the lease.
func TestStop(t *testing.T) {
	for _, c := range []struct {
		name    string
		takes   time.Duration
		crash   bool
		by      string
		atLeast time.Duration
		atMost  time.Duration
	}{
		{"within grace", 20 * time.Second, false, "first", 0, 25 * time.Second},
		{"beyond grace", time.Hour, false, "second", 29 * time.Second, 40 * time.Second},
		{"crash", time.Hour, true, "second", 55 * time.Second, 75 * time.Second},
	} {
		bubble(t, func(h *harness) {
			step := func(name string, takes time.Duration) engine.Step {
				return func(ctx context.Context, r *engine.Run) error {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(takes):
					}
					return r.SetData(name)
				}
			}
			d := &direct{Engine: h.Engine}
			first := h.work(d, step("first", c.takes), worker.Options{Name: "first"})
			id := h.submit().ID
			h.begun(id)
			second := h.work(&direct{Engine: h.Engine}, step("second", 0), worker.Options{Name: "second"})
			began := time.Now()
			if c.crash {
				defer d.stop()()
			}
			go func() { _ = first() }()
			j := h.end(id)
			if took := time.Since(began); string(j.Data) != `"`+c.by+`"` || took < c.atLeast || took > c.atMost {
				t.Errorf("%s: by %s after %s", c.name, j.Data, took)
			}
			if e := h.events(id); c.by == "second" && !c.crash && (e["yield"] != 1 || e["backoff"] != 0) {
				t.Errorf("%s: %v", c.name, e)
			}
			if err := second(); err != nil {
				t.Error(err)
			}
			time.Sleep(5 * time.Minute) // the first one ends by itself
		})
	}
}

// TestDrainAfter: the worker ends by itself when its jobs have ended, and takes no new ones.
func TestDrainAfter(t *testing.T) {
	bubble(t, func(h *harness) {
		d := &direct{Engine: h.Engine}
		w, err := worker.New(d, []engine.Work{prints(func(context.Context, *engine.Run) error {
			time.Sleep(2 * time.Minute)
			return nil
		})}, nil, worker.Options{Name: "w", Slots: 1, DrainAfter: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		one, two := h.submit(), h.submit()
		began := time.Now()
		if err := w.Run(h.t.Context()); err != nil {
			t.Error(err)
		}
		if took := time.Since(began); took < 2*time.Minute || took > 150*time.Second {
			t.Errorf("it ended after %s", took)
		}
		j, _ := h.Store().Get(h.t.Context(), two.ID)
		if done := h.end(one.ID); done.State != "Printed" || j.Claimed() || j.Ended {
			t.Errorf("%s, and the other is %s of %q", done.State, j.State, j.Worker)
		}
	})
}

// TestRefusedClaimEndsRun: a worker whose claim the server refuses ends with the reason.
func TestRefusedClaimEndsRun(t *testing.T) {
	bubble(t, func(h *harness) {
		w, err := worker.New(&direct{Engine: h.Engine}, []engine.Work{prints(pass)}, nil, worker.Options{Name: "w"})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Run(h.t.Context()); job.KindOf(err) != job.Refused {
			t.Errorf("got %v", err)
		}
	}, func(w *engine.Work) { w.Outside, w.Steps = false, prints(pass).Steps })
}

// TestOtherDefinition: a job of another definition waits with the reason, unless the work can be read again.
func TestOtherDefinition(t *testing.T) {
	other := lifecycle.Must("test.paper",
		lifecycle.OnWork("Sent", "an older lifecycle",
			lifecycle.OnPass("finish", "Printed", lifecycle.Worker, "it is printed"),
			lifecycle.OnFail("fail", "Torn", lifecycle.Worker|lifecycle.Timer, "it cannot be printed")),
		lifecycle.OnEnd("Printed", lifecycle.OK, "it is printed"), lifecycle.OnEnd("Torn", lifecycle.Failed, "it is torn"))
	old := engine.Work{Life: other, Prefix: "pap", Steps: map[lifecycle.State]engine.Step{"Sent": pass}}
	for _, refresh := range []bool{false, true} {
		bubble(t, func(h *harness) {
			o := worker.Options{Name: "w"}
			if refresh {
				o.Refresh = func(context.Context, job.Kind) (*engine.Work, error) { return new(prints(pass)), nil }
			}
			w, err := worker.New(&direct{Engine: h.Engine}, []engine.Work{old}, nil, o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
			defer cancel()
			id := h.submit().ID
			_ = w.Run(ctx)
			j, _ := h.Store().Get(h.t.Context(), id)
			if refresh && j.State != "Printing" || !refresh && j.Cause != "definition" {
				t.Errorf("refresh %v: %s, %s: %s", refresh, j.State, j.Cause, j.Message)
			}
		})
	}
}

// TestStopLeavesAStepThatRunsOn checks that a step that ignores its context does not keep Run from returning: its job
// returns to the queue at once, and what the step reports afterwards is not sent.
// Control: a step that returns within the bound.
func TestStopLeavesAStepThatRunsOn(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Duration // the step returns; zero: after another worker has done its job
		took  time.Duration
	}{{"it runs on", 0, 40 * time.Second}, {"control: it returns late", 35 * time.Second, 35 * time.Second}} {
		bubble(t, func(h *harness) {
			free := make(chan struct{})
			first := h.work(&direct{Engine: h.Engine}, func(_ context.Context, r *engine.Run) error {
				<-free
				return r.SetData("first")
			}, worker.Options{Name: "first"})
			id := h.submit().ID
			h.begun(id)
			second := h.work(&direct{Engine: h.Engine}, func(_ context.Context, r *engine.Run) error {
				return r.SetData("second")
			}, worker.Options{Name: "second"})
			if c.after > 0 {
				time.AfterFunc(c.after, func() { close(free) })
			}
			began := time.Now()
			err := first()
			if took := time.Since(began); took < c.took || took > c.took+time.Second {
				t.Errorf("%s: the stop took %s, want %s", c.name, took, c.took)
			}
			j := h.end(id)
			if c.after > 0 {
				if err != nil || string(j.Data) != `"first"` {
					t.Errorf("%s: got %v, %s", c.name, err, j.Data)
				}
			} else {
				if want := string(id) + " (Printing)"; job.KindOf(err) != job.Internal ||
					!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "still run") {
					t.Errorf("%s: got %v", c.name, err)
				}
				if took := time.Since(began); took > c.took+10*time.Second || string(j.Data) != `"second"` ||
					h.events(id)["yield"] != 1 {
					t.Errorf("%s: by %s after %s: %v", c.name, j.Data, took, h.events(id))
				}
				close(free)
				synctest.Wait()
			}
			if err := second(); err != nil {
				t.Error(err)
			}
		})
	}
}
