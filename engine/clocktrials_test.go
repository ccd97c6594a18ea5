package engine_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

const year = 365 * 24 * time.Hour

// machine simulates a machine whose clock can be wrong and that can be suspended. The time of the test is the time for
// which it was awake.
type machine struct {
	mu    sync.Mutex
	off   time.Duration // of its wall clock from the true time
	slept time.Duration
}

func (m *machine) set(off time.Duration)   { m.mu.Lock(); m.off = off; m.mu.Unlock() }
func (m *machine) suspend(d time.Duration) { m.mu.Lock(); m.slept += d; m.mu.Unlock() }
func (m *machine) now() time.Time          { m.mu.Lock(); defer m.mu.Unlock(); return time.Now().Add(m.slept) }
func (m *machine) wall() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return time.Now().Add(m.slept + m.off)
}
func (m *machine) boot() *process  { return &process{m, m.wall().Sub(m.now())} }
func (p *process) Now() time.Time  { return p.now().Add(p.off0) }
func (p *process) Wall() time.Time { return p.wall() }

// process is the clock of one process on a machine. It reads the wall time once, at its start.
type process struct {
	*machine
	off0 time.Duration
}

// keeping is a connection to a store that keeps the clock, until it is cut.
type keeping struct {
	*tap
	clocks job.ClockStore
}

func (k *keeping) KeptClock(ctx context.Context) (job.KeptClock, error) {
	return through(k.tap, "KeptClock", func() (job.KeptClock, error) { return k.clocks.KeptClock(ctx) })
}

func (k *keeping) KeepClock(ctx context.Context, c job.KeptClock) error {
	_, err := through(k.tap, "KeepClock", func() (bool, error) { return true, k.clocks.KeepClock(ctx, c) })
	return err
}

// trial is a store on a machine whose clock goes wrong, with jobs of every sort. It records in true time when each job
// ended and was deleted.
type trial struct {
	*testing.T
	*machine
	store *mem.Store
	keep  time.Duration
	line  *tap
	e     *harness

	mu      sync.Mutex // guards the rest
	ended   map[job.ID]time.Time
	deleted map[job.ID]time.Time
	well    bool // what was tried again and again succeeds now
	here    bool // what is waited for is here
	mailed  bool // a mail was delivered
}

func newTrial(t *testing.T) *trial {
	tr := &trial{
		T: t, machine: &machine{}, store: mem.New(), keep: 48 * time.Hour, ended: map[job.ID]time.Time{},
		deleted: map[job.ID]time.Time{},
	}
	tr.store.Watch(t.Context(), func(hints []job.Hint) {
		tr.mu.Lock()
		defer tr.mu.Unlock()
		for _, h := range hints {
			switch _, known := tr.ended[h.Job]; {
			case h.State == "Burnt":
				tr.deleted[h.Job] = tr.now()
			case h.Ended && !known:
				tr.ended[h.Job] = tr.now()
			}
		}
	})
	return tr
}

func (tr *trial) count(jobs map[job.ID]time.Time) int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return len(jobs)
}

func (tr *trial) is(flag *bool) bool { tr.mu.Lock(); defer tr.mu.Unlock(); return *flag }
func (tr *trial) let(flag *bool)     { tr.mu.Lock(); defer tr.mu.Unlock(); *flag = true }

// step is what every letter goes through, as its group states.
func (tr *trial) step(ctx context.Context, r *engine.Run) error {
	switch r.Job().Group {
	case "backoff":
		if !tr.is(&tr.well) {
			return engine.Retry(errBroken)
		}
	case "wait":
		if !tr.is(&tr.here) {
			return engine.Wait(job.Blocker{Code: "snow", Sentence: "the pass is shut",
				Until: r.Now().Add(3 * time.Hour)})
		}
	case "long":
		look := time.NewTicker(10 * time.Minute)
		defer look.Stop()
		for !tr.is(&tr.here) {
			select {
			case <-look.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

func (tr *trial) work() engine.Work {
	w := letters(map[lc.State]engine.Step{"Sorting": tr.step})
	w.Policy = engine.Policy{Timeout: 90 * 24 * time.Hour, MaxAttempts: 1000, MaxStarts: 1000,
		Backoff: engine.Backoff{First: time.Minute, Max: 2 * time.Hour}}
	w.Keep = tr.keep
	return w
}

// begin starts a process; end ends it, as kill -9 does.
func (tr *trial) begin() {
	tr.Helper()
	tr.line = &tap{Store: tr.store}
	tr.e = start(tr.T, &keeping{tr.line, tr.store}, engine.Options{
		Name: "trial", Clock: tr.boot(), Sweep: time.Minute,
		Deliver: map[string]engine.Deliver{"mail": func(context.Context, job.Message) error {
			tr.let(&tr.mailed)
			return nil
		}},
	}, tr.work())
}

func (tr *trial) end() {
	tr.line.cut()
	tr.e.stop()
}

// fill submits a letter of every sort, one of which a worker outside has, and waits until they stand where they are to
// be.
func (tr *trial) fill() []job.Job {
	tr.Helper()
	var all []job.Job
	for _, group := range []string{"plain", "backoff", "wait", "long"} {
		all = append(all, tr.e.post(engine.Order{Group: group}))
	}
	time.Sleep(30 * time.Second)
	return all
}

func (tr *trial) status() clock.State { return tr.e.Clock().State() }

// check compares deletions with the true time, and checks that every job ends.
func (tr *trial) check() {
	tr.Helper()
	tr.let(&tr.well)
	tr.let(&tr.here)
	open := false
	for hours := 0; ; hours++ {
		page, err := tr.store.List(tr.Context(), job.Query{Ended: &open, Limit: 10})
		if err != nil {
			tr.Fatal(err)
		}
		if len(page.Jobs) == 0 {
			break
		}
		if j := page.Jobs[0]; hours == 5 {
			tr.Errorf("%d hours later a job of group %s is still %s: due %v, until %v, now %v", hours, j.Group, j.State,
				j.Due, j.Until, tr.e.Clock().Now())
			break
		}
		time.Sleep(time.Hour)
	}
	tr.notEarly()
}

func (tr *trial) notEarly() {
	tr.Helper()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for id, at := range tr.deleted {
		if age := at.Sub(tr.ended[id]); age < tr.keep {
			tr.Errorf("%s was deleted %v after its end", id, age)
		}
	}
}

// cleared lets time pass until all that ended is deleted.
func (tr *trial) cleared(within time.Duration) {
	tr.Helper()
	time.Sleep(within)
	left := tr.count(tr.ended) - tr.count(tr.deleted)
	if left > 0 {
		tr.Errorf("%d jobs are still kept: %+v", left, tr.status())
	}
	tr.notEarly()
}

// TestClockTrials sets wrong clocks at a start and during a run, and suspends a machine, each time with jobs that back
// off, wait, are worked on and have ended. No job is deleted early, and none is stuck. The control keeps no time in the
// store.
func TestClockTrials(t *testing.T) {
	run := func(name string, try func(tr *trial)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { try(newTrial(t)) })
		})
	}
	for name, off := range map[string]time.Duration{"a year ahead": year, "a year behind": -year} {
		run("started "+name, func(tr *trial) { wrongAtStart(tr, off) })
		run("jumped "+name+" in the run", func(tr *trial) { wrongInRun(tr, off) })
		run("first started "+name, func(tr *trial) { wrongAtFirst(tr, off) })
	}
	run("suspended for two hours", suspendedFor)
	run("three days off", switchedOff)
	run("set right while it runs", setRight)
}

// wrongAtStart works right, then in two processes with a wrong clock, then right again.
func wrongAtStart(tr *trial, off time.Duration) {
	tr.begin()
	tr.fill()
	time.Sleep(time.Hour)
	tr.end()
	tr.set(off)
	for range 2 {
		tr.begin()
		tr.fill()
		time.Sleep(30 * time.Hour)
		if s := tr.status(); s.Doubt == "" || tr.count(tr.deleted) > 0 || tr.e.Clock().State().Doubt == "" {
			tr.Errorf("%d deleted, clock %+v", tr.count(tr.deleted), s)
		}
		tr.end()
	}
	tr.set(0)
	tr.begin()
	if s := tr.status(); s.Doubt != "" {
		tr.Errorf("the clock is right again: %+v", s)
	}
	tr.fill()
	tr.check()
	tr.cleared(tr.keep + 3*time.Hour)
	tr.end()
}

// wrongInRun lets the clock jump while the process runs, and the next process begin with it.
func wrongInRun(tr *trial, off time.Duration) {
	tr.begin()
	tr.fill()
	tr.set(off)
	time.Sleep(30 * time.Hour)
	if s := tr.status(); s.Doubt != clock.Jumped || tr.count(tr.deleted) > 0 {
		tr.Errorf("%d deleted, clock %+v", tr.count(tr.deleted), s)
	}
	tr.fill()
	tr.end()
	tr.begin()
	time.Sleep(30 * time.Hour)
	if s := tr.status(); s.Doubt == "" || tr.count(tr.deleted) > 0 {
		tr.Errorf("after the restart %d deleted, clock %+v", tr.count(tr.deleted), s)
	}
	tr.fill()
	tr.end()
	tr.set(0)
	tr.begin()
	tr.fill()
	tr.check()
	tr.cleared(tr.keep + 3*time.Hour)
	tr.end()
}

// wrongAtFirst begins with a wrong clock, which nothing can report, and is set right: a person confirms that.
func wrongAtFirst(tr *trial, off time.Duration) {
	tr.set(off)
	tr.begin()
	tr.fill()
	time.Sleep(5 * time.Hour)
	tr.end()
	tr.set(0)
	tr.begin()
	tr.fill()
	time.Sleep(60 * time.Hour)
	if s := tr.status(); s.Doubt == "" || tr.count(tr.deleted) > 0 {
		tr.Errorf("%d deleted, clock %+v", tr.count(tr.deleted), s)
	}
	if _, err := tr.e.Operator().ConfirmClock(tr.Context(), "ann", ""); job.KindOf(err) != job.Invalid {
		tr.Errorf("a confirmation without a note: %v", err)
	}
	if s, err := tr.e.Operator().ConfirmClock(tr.Context(), "ann", "asked the time server"); err != nil ||
		s.Doubt != "" {
		tr.Errorf("confirmed: %+v, %v", s, err)
	}
	if _, err := tr.e.Operator().ConfirmClock(tr.Context(), "ann", "again"); job.KindOf(err) != job.Refused {
		tr.Errorf("a second confirmation: %v", err)
	}
	tr.fill()
	tr.end()
	tr.begin()
	if s := tr.status(); s.Doubt != "" || s.Now.Sub(tr.now()).Abs() > time.Second {
		tr.Errorf("after the confirmation and a restart: %+v, true %v", s, tr.now())
	}
	tr.check()
	tr.cleared(tr.keep + 3*time.Hour)
	tr.end()
	list, err := tr.store.Audit(tr.Context(), 0, 100)
	if err != nil || !slices.ContainsFunc(list, func(a job.Audit) bool {
		return a.Event == "confirm-clock" &&
			a.Actor == "ann" && a.Note != ""
	}) {
		tr.Errorf("the audit list has %+v, %v", list, err)
	}
}

// suspendedFor suspends the machine while a step works: it goes on, and ages count the time that was slept.
func suspendedFor(tr *trial) {
	tr.begin()
	all := tr.fill()
	before, err := tr.store.Get(tr.Context(), all[3].ID)
	if err != nil || !before.Claimed() {
		tr.Fatalf("got %+v, %v", before, err)
	}
	tr.suspend(2 * time.Hour)
	time.Sleep(time.Minute)
	after, err := tr.store.Get(tr.Context(), all[3].ID)
	if err != nil || after.Epoch != before.Epoch || !after.Claimed() || !after.Until.After(tr.now()) {
		tr.Errorf("the step lost its job: %+v, %v", after, err)
	}
	if s := tr.status(); s.Doubt != "" {
		tr.Errorf("the clock is in doubt: %+v", s)
	}
	tr.check()
	tr.suspend(2 * time.Hour)
	tr.cleared(tr.keep + time.Hour)
	tr.end()
}

// switchedOff has the server off for longer than is trusted: retention waits for a person, and from then on for the
// full time.
func switchedOff(tr *trial) {
	tr.begin()
	tr.fill()
	tr.end()
	time.Sleep(72 * time.Hour)
	tr.begin()
	tr.check()
	if s := tr.status(); s.Doubt != clock.Ahead || tr.count(tr.deleted) > 0 {
		tr.Errorf("%d deleted, clock %+v", tr.count(tr.deleted), s)
	}
	time.Sleep(100 * time.Hour)
	if _, err := tr.e.Operator().ConfirmClock(tr.Context(), "ann", "it was off for three days"); err != nil {
		tr.Error(err)
	}
	time.Sleep(tr.keep - 2*time.Hour)
	if n := tr.count(tr.deleted); n > 0 {
		tr.Errorf("%d deleted before the full time after the confirmation", n)
	}
	tr.cleared(4 * time.Hour)
	tr.end()
}

// setRight starts a year behind, and the clock is set right while the process runs: no person is needed.
func setRight(tr *trial) {
	tr.begin()
	tr.fill()
	tr.end()
	tr.set(-year)
	tr.begin()
	if s := tr.status(); s.Doubt != clock.Behind {
		tr.Errorf("got %+v", s)
	}
	time.Sleep(time.Hour)
	tr.set(0)
	if s := tr.status(); s.Doubt != "" {
		tr.Errorf("got %+v", s)
	}
	tr.check()
	tr.cleared(tr.keep + 3*time.Hour)
	tr.end()
}

// TestClockTrialsControl checks that a server that starts a year ahead deletes recent jobs if the store keeps no time.
func TestClockTrialsControl(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t)
		start1 := func() { tr.e = start(t, &tap{Store: tr.store}, engine.Options{Clock: tr.boot()}, tr.work()) }
		start1()
		tr.fill()
		tr.e.stop()
		tr.set(year)
		start1()
		time.Sleep(65 * time.Minute)
		if tr.count(tr.deleted) == 0 {
			t.Error("nothing was deleted: the trials prove nothing")
		}
		tr.e.stop()
	})
}

// TestClockThatWasAhead checks the lease of a remote worker and the pause of a message after the clock was a year
// ahead.
func TestClockThatWasAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := newTrial(t)
		tr.set(year)
		tr.begin()
		tr.e.stop()
		j := tr.e.post(engine.Order{Group: "long"})
		ahead := tr.e.Clock().Now()
		claim := job.Claim{Worker: "outside", From: []job.KindState{{Kind: j.Kind, State: j.State}}, N: 1, Now: ahead,
			Lease: 15 * time.Second}
		if got, err := tr.store.Claim(t.Context(), claim); err != nil || len(got) != 1 {
			t.Fatalf("got %v, %v", got, err)
		}
		record, event := job.New(j, lc.Owner, "ann", tr.e.Clock().Now())
		record.ID, event.Job, record.Number, record.Worker, record.Until = "let_mail", "let_mail", 0, "", time.Time{}
		message := job.Message{Key: "k", Job: record.ID, Topic: "mail", Created: event.At, Due: event.At}
		if _, err := tr.store.Create(t.Context(), job.Created{Job: record, Event: event,
			Outbox: []job.Message{message}}); err != nil {
			t.Fatal(err)
		}
		tr.set(0)
		tr.begin()
		defer tr.end()
		time.Sleep(3 * time.Minute)
		if got := tr.e.get(j.ID); got.Worker == "outside" {
			t.Errorf("it still has the job, until %v", got.Until)
		}
		if !tr.is(&tr.mailed) {
			t.Error("the message was not delivered")
		}
		tr.let(&tr.here)
		time.Sleep(time.Hour)
		if got := tr.e.get(j.ID); !got.Ended {
			t.Errorf("got %s", got.State)
		}
	})
}

// TestLeaseOfAClockThatWasAhead lets a remote worker claim a job while the clock is ahead. After the correction the
// worker keeps the job for the time that it had left, at most an hour. In the control the store keeps no time, and the
// worker keeps the job for as long as the clock was ahead.
func TestLeaseOfAClockThatWasAhead(t *testing.T) {
	for _, c := range []struct {
		name         string
		off, lease   time.Duration
		least, most  time.Duration // that it lasts from the correction on
		withoutClock bool
	}{
		{"an hour", year, time.Hour, 59 * time.Minute, time.Hour, false},
		{"ten minutes", year, 10 * time.Minute, 9 * time.Minute, 12 * time.Minute, false},
		{"shorter than the engine's", year, time.Second, 0, 2 * time.Minute, false},
		{"longer than any may be", year, 1000 * time.Hour, 59 * time.Minute, time.Hour, false},
		{"half an hour ahead", 30 * time.Minute, 20 * time.Minute, 19 * time.Minute, 22 * time.Minute, false},
		{"control", year, time.Hour, year, 2 * year, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tr := newTrial(t)
				begin := tr.begin
				if c.withoutClock {
					begin = func() {
						tr.line = &tap{Store: tr.store}
						tr.e = start(t, tr.line, engine.Options{Name: "trial", Clock: tr.boot(), Sweep: time.Minute},
							tr.work())
					}
				}
				begin()
				tr.end()
				tr.set(c.off)
				begin()
				tr.e.stop()
				j := tr.e.post(engine.Order{Group: "plain"})
				ahead := tr.e.Clock().Now()
				claim := job.Claim{Worker: "outside", From: []job.KindState{{Kind: j.Kind, State: j.State}}, N: 1,
					Now: ahead, Lease: c.lease}
				if got, err := tr.store.Claim(t.Context(), claim); err != nil || len(got) != 1 {
					t.Fatalf("got %v, %v", got, err)
				}
				tr.line.cut()
				tr.set(0)
				begin()
				defer tr.end()
				time.Sleep(time.Second)
				synctest.Wait()
				got, err := tr.store.Get(t.Context(), j.ID)
				if left := got.Until.Sub(tr.now()) + time.Second; err != nil || got.Worker != "outside" ||
					left < c.least || left > c.most {
					t.Errorf("%q has it for %v, want from %v to %v; %v", got.Worker, left, c.least, c.most, err)
				}
				if lost, err := tr.e.Remote().Renew(t.Context(), "outside", []job.Lease{{Job: j.ID, Epoch: got.Epoch}},
					time.Hour); err != nil || len(lost) > 0 {
					t.Errorf("its worker cannot renew: %v, %v", lost, err)
				}
				if c.withoutClock {
					return
				}
				time.Sleep(2 * time.Hour)
				if got := tr.e.get(j.ID); got.State != "Delivered" {
					t.Errorf("after the lease it is %s, with %q", got.State, got.Worker)
				}
			})
		})
	}
}

var errNoClock = errors.New("the disk is gone")

// TestClockThatCannotBeRead checks that an engine does not start if the stored time cannot be read.
func TestClockThatCannotBeRead(t *testing.T) {
	store := &keeping{&tap{Store: mem.New()}, brokenClockStore{}}
	if _, err := engine.New(store, []engine.Work{letters(nil)}, engine.Options{}); !errors.Is(err, errNoClock) {
		t.Errorf("got %v", err)
	}
}

type brokenClockStore struct{}

func (brokenClockStore) KeptClock(context.Context) (job.KeptClock, error) {
	return job.KeptClock{}, errNoClock
}
func (brokenClockStore) KeepClock(context.Context, job.KeptClock) error { return errNoClock }
