package engine_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/remote"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// outside is an engine that does not run: its jobs are for remote workers.
func outside(t *testing.T, store job.Store, works ...engine.Work) *harness {
	t.Helper()
	if len(works) == 0 {
		works = []engine.Work{remoteLetters()}
	}
	w := start(t, store, engine.Options{Name: "host"}, works...)
	w.stop()
	return w
}

// remoteLetters is a work whose states are all for remote workers.
func remoteLetters() engine.Work { return outward(letters(nil)) }

// outward leaves all states of a work to remote workers.
func outward(w engine.Work) engine.Work {
	w.Outside, w.Steps = true, nil
	return w
}

var everywhere = []job.KindState{
	{Kind: "test.letter", State: "Posted"}, {Kind: "test.letter", State: "Sorting"}, {Kind: "test.letter",
		State: "Riding"},
}

func (w *harness) acquire(worker string, n int) []job.Job {
	w.t.Helper()
	jobs, err := w.Remote().Claim(w.t.Context(), remote.Claim{Worker: worker, From: everywhere, N: n})
	if err != nil {
		w.t.Fatal(err)
	}
	return jobs
}

func (w *harness) report(worker string, j job.Job, r remote.Report) job.Result {
	w.t.Helper()
	r.Job, r.Epoch = j.ID, j.Epoch
	results, err := w.Remote().Report(w.t.Context(), worker, []job.Job{j}, []remote.Report{r})
	if err != nil || len(results) != 1 {
		w.t.Fatalf("%d results, %v", len(results), err)
	}
	return results[0]
}

// TestReportMovesAJob checks that a report does what the same outcome of a step would.
func TestReportMovesAJob(t *testing.T) {
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name     string
		report   remote.Report
		state    lc.State
		event    lc.Event
		attempts int
		cause    string
		says     string
		due      [2]time.Duration
	}{
		{"success", remote.Report{}, "Sorting", "begin", 0, "", "", [2]time.Duration{}},
		{"event", remote.Report{Event: "hold"}, "Held", "hold", 0, "", "", [2]time.Duration{}},
		{"data", remote.Report{Data: json.RawMessage(`{"n":1}`)}, "Sorting", "begin", 0, "", "", [2]time.Duration{}},
		{"wait", remote.Report{Wait: &job.Blocker{Code: "snow", Sentence: "shut", Until: began.Add(time.Hour)}},
			"Posted", lc.Waiting, 0, "snow", "shut",
			[2]time.Duration{time.Hour, time.Hour}},
		{"wait without an end", remote.Report{Wait: &job.Blocker{Code: "snow", Sentence: "shut"}}, "Posted", lc.Waiting,
			0, "snow", "shut",
			[2]time.Duration{time.Second, time.Minute}},
		{"retry", remote.Report{Retry: "axle", Cause: "wood"}, "Posted", lc.Backoff, 1, "wood", "axle",
			[2]time.Duration{800 * time.Millisecond, 1200 * time.Millisecond}},
		{"fail without a cause", remote.Report{Fail: "bridge"}, "Lost", "fail", 0, cause.Error, "bridge",
			[2]time.Duration{}},
		{"fail", remote.Report{Fail: "bridge", Cause: "water"}, "Lost", "fail", 0, "water", "bridge",
			[2]time.Duration{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := outside(t, mem.New())
				id := w.post(engine.Order{}).ID
				jobs := w.acquire("ann", 5)
				if len(jobs) != 1 || jobs[0].Worker != "ann" || jobs[0].Starts != 1 ||
					!jobs[0].Until.Equal(began.Add(15*time.Second)) {
					t.Fatalf("got %+v", jobs)
				}
				r := w.report("ann", jobs[0], c.report)
				j := r.Job
				if r.Err != nil || j.State != c.state || j.Attempts != c.attempts || j.Cause != c.cause ||
					j.Message != c.says || j.Claimed() || j.Starts != 0 {
					t.Errorf("got %+v, %v", j, r.Err)
				}
				if len(c.report.Data) > 0 && string(j.Data) != string(c.report.Data) {
					t.Errorf("data %s", j.Data)
				}
				if due := j.Due.Sub(began); c.due[1] > 0 && (due < c.due[0] || due > c.due[1]) || c.due[1] == 0 &&
					!j.Due.IsZero() {
					t.Errorf("due after %s", due)
				}
				history, err := w.store.History(t.Context(), id, 0, 0)
				if last := history[len(history)-1]; err != nil || last.Event != c.event || last.Actor != "ann" ||
					last.By != lc.Worker {
					t.Errorf("the history has %+v, %v", last, err)
				}
				w.verify(id)
			})
		})
	}
}

// TestReportsStandAlone checks that one bad report does not stop the others of a call.
func TestReportsStandAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := outside(t, mem.New())
		for range 5 {
			w.post(engine.Order{})
		}
		jobs := w.acquire("ann", 5)
		reports := make([]remote.Report, len(jobs))
		for i := range jobs {
			reports[i] = remote.Report{Job: jobs[i].ID, Epoch: jobs[i].Epoch}
		}
		reports[1].Event = "explode"
		reports[2].Epoch = 99
		reports[3].Epoch = 0
		jobs[4].Kind = "test.unknown"
		results, err := w.Remote().Report(t.Context(), "ann", jobs, reports)
		if err != nil {
			t.Fatal(err)
		}
		var kinds []job.ErrorKind
		for _, r := range results {
			kinds = append(kinds, job.KindOf(r.Err))
		}
		if diff := cmp.Diff([]job.ErrorKind{"", job.Refused, job.Stale, job.Invalid, job.Invalid}, kinds); diff != "" {
			t.Errorf("kinds (-want +got):\n%s", diff)
		}
		for i, want := range []lc.State{"Sorting", "Posted", "Posted", "Posted", "Posted"} {
			if j := w.get(jobs[i].ID); j.State != want || j.Claimed() != (i > 0) {
				t.Errorf("%d is %s, claimed %v", i, j.State, j.Claimed())
			}
		}
		if !strings.Contains(results[1].Err.Error(), "(can: begin, hold, fail)") {
			t.Errorf("got %v", results[1].Err)
		}
	})
}

// TestReportUnderAnOldEpoch checks that a report after the lease has expired is refused. In the control the worker
// renewed it.
func TestReportUnderAnOldEpoch(t *testing.T) {
	for _, renews := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			store := mem.New()
			w := outside(t, store)
			j := w.post(engine.Order{})
			mine := w.acquire("ann", 1)[0]
			sweeper := start(t, store, engine.Options{Name: "sweeper"}, engine.Work{
				Life: letter, Prefix: "let", Outside: true, Limits: []job.Limit{{Name: "none", Kind: "test.letter",
					Max: 0}},
			})
			defer sweeper.stop()
			for range 12 {
				time.Sleep(5 * time.Second)
				if renews {
					lost, err := w.Remote().Renew(t.Context(), "ann",
						[]job.Lease{{Job: j.ID, Epoch: mine.Epoch}, {Job: "let_none", Epoch: 1}}, 0)
					if err != nil || len(lost) != 1 || lost[0].Job != "let_none" {
						t.Errorf("renewed %v, %v", lost, err)
					}
				}
			}
			r := w.report("ann", mine, remote.Report{})
			if renews && (r.Err != nil || r.Job.State != "Sorting") {
				t.Errorf("renewed: got %s, %v", r.Job.State, r.Err)
			}
			if renews {
				return
			}
			if job.KindOf(r.Err) != job.Stale {
				t.Errorf("not renewed: got %s, %v", r.Job.State, r.Err)
			}
			lost, err := w.Remote().Renew(t.Context(), "ann", []job.Lease{{Job: j.ID, Epoch: mine.Epoch}}, 0)
			if err != nil || len(lost) != 1 {
				t.Errorf("a renewal of what is lost gave %v, %v", lost, err)
			}
			bens := w.acquire("ben", 1)
			if len(bens) != 1 || bens[0].Epoch <= mine.Epoch {
				t.Fatalf("got %+v", bens)
			}
			if r := w.report("ann", mine, remote.Report{}); job.KindOf(r.Err) != job.Stale {
				t.Errorf("while ben has it: got %v", r.Err)
			}
			if r := w.report("ben", bens[0], remote.Report{}); r.Err != nil {
				t.Errorf("ben: %v", r.Err)
			}
			w.verify(j.ID)
		})
	}
}

// TestReportGoesStraightOn checks that the worker claims the next state if it asks to, and only where a claim would be
// granted.
func TestReportGoesStraightOn(t *testing.T) {
	for _, c := range []struct {
		name   string
		report remote.Report
		hold   bool
		keeps  bool
		state  lc.State
	}{
		{"asks", remote.Report{Again: true}, false, true, "Sorting"},
		{"control: does not ask", remote.Report{}, false, false, "Sorting"},
		{"held", remote.Report{Again: true}, true, false, "Posted"},
		{"stays", remote.Report{Again: true, Retry: "axle"}, false, false, "Posted"},
		{"ends", remote.Report{Again: true, Fail: "axle"}, false, false, "Lost"},
		{"comes to a person", remote.Report{Again: true, Event: "hold"}, false, false, "Held"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := outside(t, mem.New())
				w.post(engine.Order{})
				mine := w.acquire("ann", 1)[0]
				if c.hold {
					if _, err := w.Operator().Hold(t.Context(), job.Scope{}, "ben", "flood", time.Time{}); err != nil {
						t.Fatal(err)
					}
				}
				r := w.report("ann", mine, c.report)
				if r.Err != nil || r.Job.State != c.state || r.Job.Claimed() != c.keeps {
					t.Fatalf("got %s, claimed %v, %v", r.Job.State, r.Job.Claimed(), r.Err)
				}
				if c.keeps && (r.Job.Worker != "ann" || r.Job.Epoch != mine.Epoch+1) {
					t.Errorf("got %s, epoch %d", r.Job.Worker, r.Job.Epoch)
				}
				if c.keeps {
					for range 2 {
						if r = w.report("ann", r.Job, remote.Report{Again: true}); r.Err != nil {
							t.Fatal(r.Err)
						}
					}
					if r.Job.State != "Delivered" || r.Job.Claimed() {
						t.Errorf("got %s", r.Job.State)
					}
				}
				w.verify(mine.ID)
			})
		})
	}
}

// TestReportDoesNotGoStraightOnIntoASerialState.
func TestReportDoesNotGoStraightOnIntoASerialState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := remoteLetters()
		work.Policies = map[lc.State]engine.Policy{"Riding": {Serial: true}}
		w := outside(t, mem.New(), work)
		w.post(engine.Order{})
		r := w.report("ann", w.acquire("ann", 1)[0], remote.Report{Again: true})
		if r.Err != nil || !r.Job.Claimed() {
			t.Errorf("into %s: claimed %v, %v", r.Job.State, r.Job.Claimed(), r.Err)
		}
		if r = w.report("ann", r.Job, remote.Report{Again: true}); r.Err != nil || r.Job.Claimed() ||
			r.Job.State != "Riding" {
			t.Errorf("into %s: claimed %v, %v", r.Job.State, r.Job.Claimed(), r.Err)
		}
	})
}

// TestAcquireAsksForSomething checks invalid claims, and that claims have the same limits as those of the engine.
func TestAcquireAsksForSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := remoteLetters()
		work.Limits = []job.Limit{{Name: "two", Kind: "test.letter", Guard: []lc.State{"Posted"}, Max: 2}}
		w := outside(t, mem.New(), work)
		for range 5 {
			w.post(engine.Order{})
		}
		for _, c := range []struct {
			worker string
			from   []job.KindState
			n      int
		}{{"", everywhere, 1}, {"ann", nil, 1}, {"ann", everywhere, 0}, {"ann", everywhere, -1}} {
			if _, err := w.Remote().Claim(t.Context(), remote.Claim{Worker: c.worker, From: c.from, N: c.n}); job.KindOf(err) != job.Invalid {
				t.Errorf("%+v: got %v", c, err)
			}
		}
		if a, b := w.acquire("ann", 1), w.acquire("ben", 9); len(a) != 1 || len(b) != 1 || a[0].ID == b[0].ID {
			t.Errorf("ann got %d, ben %d of a limit of two", len(a), len(b))
		}
		jobs, err := w.Remote().Claim(t.Context(), remote.Claim{Worker: "cid", From: []job.KindState{{Kind: "test.none", State: "Posted"}}, N: 1})
		if err != nil || len(jobs) != 0 {
			t.Errorf("of no kind: %d jobs, %v", len(jobs), err)
		}
	})
}

// TestReportFailsWhileTheStoreIsDown checks that no report is answered while it is unknown whether it was committed.
func TestReportFailsWhileTheStoreIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		line := &tap{Store: mem.New()}
		w := outside(t, line)
		w.post(engine.Order{})
		jobs := w.acquire("ann", 1)
		line.cut()
		_, err := w.Remote().Report(t.Context(), "ann", jobs, []remote.Report{{Job: jobs[0].ID, Epoch: jobs[0].Epoch}})
		if job.KindOf(err) != job.Unavailable {
			t.Errorf("got %v", err)
		}
	})
}

// D
func TestAgainNotIntoAPersonsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := outside(t, mem.New())
		w.post(engine.Order{})
		r := w.report("ann", w.acquire("ann", 1)[0], remote.Report{Event: "hold", Again: true})
		if r.Err != nil || r.Job.Claimed() {
			t.Errorf("ann holds a job in %s, which has no worker (%v)", r.Job.State, r.Err)
		}
	})
}

func TestAgainNotIntoASerialState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := remoteLetters()
		work.Policy.Serial = true
		w := outside(t, mem.New(), work)
		w.post(engine.Order{})
		r := w.report("ann", w.acquire("ann", 1)[0], remote.Report{Again: true})
		if r.Err != nil || r.Job.Claimed() {
			t.Errorf("ann went straight on into %s, which is serial", r.Job.State)
		}
	})
}

// K
func TestReportWithoutACause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := outside(t, mem.New())
		w.post(engine.Order{})
		if r := w.report("ann", w.acquire("ann", 1)[0], remote.Report{Fail: "axle"}); r.Job.Cause == "" {
			t.Error("it failed without a cause")
		}
	})
}
