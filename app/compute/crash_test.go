package compute_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/sqlite"
	"github.com/stagepost/stagepost/store/storetest"
)

var onSQLite = flag.Bool("crash-sqlite", false, "stop the process on SQLite instead of in memory")

// plot is a job's life to be stopped at every change, and what must come of it.
type plot struct {
	name string
	fake func() *fake
	// the executor reports that a parcel whose answer was lost cannot have arrived
	liar bool
	// files that were there when the record was made are not on the disk after a crash
	loses bool
	act   func(s *scene, j *job.Job)      // is called again and again while the job lives, with its record
	ends  func(j *job.Job) (wrong string) // checks the end
	lost  time.Duration                   // how long its agent may be silent; zero: long
	fetch []compute.RemoteFile            // inputs of its order
	from  func() *origin                  // where they come from
	runs  int                             // how often it is begun in the whole, at most
}

// scene is a plot that is played, in one process after another.
type scene struct {
	t     *testing.T
	plot  *plot
	store job.Store
	dir   string
	fakes []*fake
	from  *origin // lives on, as the agents do

	mu  sync.Mutex // guards app
	app *compute.App
}

func (s *scene) current() *compute.App {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.app
}

// live plays until the job has ended and its agent was notified, or until the process ends.
func (s *scene) live(m *killable) {
	o := quick(s.t)
	o.Dir, o.Poll, o.Answer, o.Stall, o.Lost, o.Killing = s.dir, 2*time.Millisecond, 200*time.Millisecond, 200*
		time.Millisecond, cmp.Or(s.plot.lost, 20*time.Second), 20*time.Second
	if s.from != nil {
		o.Source = s.from
	}
	app, err := compute.New(o)
	if err != nil {
		s.t.Error(err)
		return
	}
	e, err := engine.New(m, app.Works(), engine.Options{Deliver: app.Deliver(), Sweep: 20 * time.Millisecond,
		Lease: 2 * time.Second, Grace: time.Millisecond})
	if err != nil {
		s.t.Error(err)
		return
	}
	for i, f := range s.fakes {
		app.Join(fmt.Sprint("a", i), executorOf(f, s.plot.liar))
	}
	ctx, kill := context.WithCancel(context.Background())
	s.mu.Lock()
	s.app = app
	s.mu.Unlock()
	var all sync.WaitGroup
	app.Bind(e)
	all.Go(func() { _ = e.Run(ctx) })
	all.Go(func() { // the user sends it once more under the same key, for as long as no answer came
		u, err := app.Begin(ctx)
		if err == nil {
			err = u.File(compute.Script, strings.NewReader(hello))
		}
		if err == nil {
			_, err = u.Commit(ctx, compute.Order{Owner: "ada", Service: "example", Key: "k", Fetch: s.plot.fetch})
			u.Discard()
		}
		if err != nil && ctx.Err() == nil {
			s.t.Error(err)
		}
	})
	s.play(m)
	if s.from != nil && !m.isDead() {
		if err := app.Sweep(ctx); err != nil {
			s.t.Error(err)
		}
	}
	kill()
	all.Wait()
	if err := app.Close(); err != nil {
		s.t.Error(err)
	}
}

// play lets people and agents act until the end or the death of the process.
func (s *scene) play(m *killable) {
	limit := time.After(patience)
	for {
		if j := s.job(); j != nil && s.over(j) {
			return
		} else if j != nil && !j.Ended && s.plot.act != nil {
			s.plot.act(s, j)
		}
		select {
		case <-m.dead:
			return
		case <-limit:
			j := s.job()
			s.t.Errorf("it came to no end: %+v", j)
			return
		case <-time.After(time.Millisecond):
		}
	}
}

// job gives the record, if there is one.
func (s *scene) job() *job.Job {
	page, err := s.store.List(context.Background(), job.Query{Kinds: []job.Kind{compute.JobKind}})
	if err != nil || len(page.Jobs) == 0 {
		return nil
	}
	return &page.Jobs[0]
}

// over reports whether a job has ended and its messages are delivered, or taken by a process that ended: they are given
// to another after two minutes.
func (s *scene) over(j *job.Job) bool {
	if !j.Ended {
		return false
	}
	messages, err := job.MessagesOf(context.Background(), s.store, j.ID)
	return err == nil && !slices.ContainsFunc(messages, func(m job.Message) bool {
		return m.Settled == job.Pending && m.Due.Before(time.Now())
	})
}

// check gives what is wrong with the end.
func (s *scene) check() (faults []string) {
	page, err := s.store.List(context.Background(), job.Query{Kinds: []job.Kind{compute.JobKind}})
	if err != nil || len(page.Jobs) != 1 {
		return []string{fmt.Sprintf("%d jobs, %v", len(page.Jobs), err)}
	}
	j := page.Jobs[0]
	if wrong := s.plot.ends(&j); wrong != "" {
		faults = append(faults, wrong)
	}
	begun := 0
	for _, f := range s.fakes {
		f.mu.Lock()
		for _, n := range f.runs {
			begun += n
		}
		f.mu.Unlock()
	}
	if begun > s.plot.runs {
		faults = append(faults, fmt.Sprintf("it was begun %d times, %d is right", begun, s.plot.runs))
	}
	tallies, err := s.store.Count(context.Background())
	for _, t := range tallies {
		if compute.Slot(t.State) && t.Jobs != 0 {
			faults = append(faults, fmt.Sprintf("%d jobs hold slots in %s", t.Jobs, t.State))
		}
	}
	if j.State == compute.Completed {
		d, _ := compute.DataOf(&j)
		info, err := os.Stat(filepath.Join(s.dir, "compute", compute.DirOf(j.ID), "results.zip"))
		if err != nil || d.Results == nil || info.Size() != d.Results.Bytes {
			faults = append(faults, fmt.Sprintf("completed without its results: %v", err))
		}
	}
	if s.from != nil {
		for _, name := range leftovers(s.t, s.dir, &j) {
			faults = append(faults, "left in its directory: "+name)
		}
	}
	return append(append(faults, storetest.Check(context.Background(), s.store, compute.JobLife)...), errorsOf(err)...)
}

func errorsOf(err error) []string {
	if err == nil {
		return nil
	}
	return []string{err.Error()}
}

// executorOf gives a fake that sends no notifications, so that a dead process is not called; a liar reports that what
// it did not answer never arrived.
func executorOf(f *fake, liar bool) compute.Executor {
	if liar {
		return lying{f}
	}
	return f
}

// lying plants the defect that a lost answer counts as a parcel that never arrived.
type lying struct{ *fake }

func (l lying) Submit(ctx context.Context, p *compute.Parcel) (compute.Notice, error) {
	n, err := l.fake.Submit(ctx, p)
	if err != nil {
		err = errors.Join(err, compute.ErrNotSent)
	}
	return n, err
}

func ends(state lifecycle.State, cause string) func(*job.Job) string {
	return func(j *job.Job) string {
		if j.State != state || j.Cause != cause {
			return fmt.Sprintf("it ended as %s by %q (%s), want %s by %q", j.State, j.Cause, j.Message, state, cause)
		}
		return ""
	}
}

// manual is a fake whose payloads wait for the plot.
func manual() *fake { f := newFake(); f.auto = false; return f }

// onceAt makes an executor lose the answer to its first submission.
func onceAt(f *fake) *fake {
	n := 0
	f.after = func(call string, _ compute.Ticket) error {
		if call == "submit" {
			if n++; n == 1 {
				return errors.New("connection reset")
			}
		}
		return nil
	}
	return f
}

// cancelIn calls the job off in a state.
func cancelIn(state lifecycle.State) func(s *scene, j *job.Job) {
	return func(s *scene, j *job.Job) {
		if app := s.current(); j.State == state && app != nil {
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = app.Cancel(context.Background(), j.ID, compute.Request{By: lifecycle.Owner, Actor: "ada"})
			}()
			<-done
		}
	}
}

func plots() []plot {
	inputs := []compute.RemoteFile{{Name: "a", URL: "http://a/1"}, {Name: "b", URL: "http://b/2"}}
	finish := func(s *scene, j *job.Job) {
		if j.State == compute.Running {
			s.fakes[0].finish(j.ID, nil)
		}
	}
	return []plot{
		{name: "normal", fake: newFake, ends: ends(compute.Completed, ""), runs: 1},
		{name: "failing", fake: manual, runs: 1, ends: ends(compute.Failed, compute.CauseExit),
			act: func(s *scene, j *job.Job) {
				if j.State == compute.Running {
					s.fakes[0].finish(j.ID, &compute.Ending{Exit: 3, Cause: compute.CauseExit, Sentence: "exit 3"})
				}
			}},
		{name: "cancelled while running", fake: manual, runs: 1, ends: ends(compute.Killed, compute.CauseKilled),
			act: cancelIn(compute.Running)},
		{name: "cancelled in the queue", fake: func() *fake {
			f := manual()
			f.slots = -1
			return f
		}, ends: ends(compute.Killed, compute.CauseKilled), act: cancelIn(compute.Queued)},
		{name: "lost answer", fake: func() *fake {
			return onceAt(manual())
		}, runs: 1, ends: ends(compute.Completed, ""), act: finish},
		{name: "forgetful", fake: manual, runs: 1, ends: ends(compute.Failed, compute.CauseLost),
			act: func(s *scene, j *job.Job) {
				if f := s.fakes[0]; j.State == compute.Running {
					f.mu.Lock()
					f.payloads, f.instance = map[string]*played{}, "two"
					f.mu.Unlock()
				}
			}},
		{name: "unreachable", lost: 200 * time.Millisecond, fake: func() *fake {
			f := newFake()
			f.fault = func(call string, _ compute.Ticket) error {
				if call == "submit" {
					return compute.ErrNotSent
				}
				return nil
			}
			return f
		}, ends: func(j *job.Job) string {
			// a process that ended while it handed it over leaves it open whether it arrived: then the agent is asked
			// until the time is up
			if j.State == compute.Failed && (j.Cause == compute.CauseAgents || j.Cause == compute.CauseLost) {
				return ""
			}
			return ends(compute.Failed, compute.CauseAgents)(j)
		}},
		{name: "broken results", fake: func() *fake {
			f := newFake()
			f.broken = cut
			return f
		}, runs: 1, ends: ends(compute.Failed, compute.CauseResults)},
		{name: "inputs", fake: newFake, from: newOrigin, fetch: inputs, runs: 1, ends: func(j *job.Job) string {
			if d, err := compute.DataOf(j); err != nil || len(d.Fetched) != 2 {
				return fmt.Sprintf("fetched %v, %v", d.Fetched, err)
			}
			return ends(compute.Completed, "")(j)
		}},
		{name: "inputs that are gone", fake: newFake, fetch: inputs, from: func() *origin {
			o := newOrigin()
			o.fault = func(url string, _ int) error { return map[string]error{"http://b/2": errors.New("gone")}[url] }
			return o
		}, ends: ends(compute.Failed, compute.CauseInputs)},
		{name: "cancelled while its inputs come", fake: newFake, fetch: inputs, from: func() *origin {
			o := newOrigin()
			o.shut()
			return o
		}, ends: ends(compute.Killed, compute.CauseKilled), act: cancelIn(compute.Queued)},
	}
}

// window plays a plot with one death, in a bubble of its own, and gives what is wrong then. ended reports whether it
// came to the death.
func window(t *testing.T, p plot, at int, after bool, agents int) (faults []string, died bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { faults, died = windowOf(t, p, at, after, agents) })
	return faults, died
}

// windowOf is window inside the bubble.
func windowOf(t *testing.T, p plot, at int, after bool, agents int) (faults []string, died bool) {
	s := &scene{t: t, plot: &p, dir: t.TempDir(), store: mem.New()}
	if *onSQLite {
		st, err := sqlite.Open(filepath.Join(t.TempDir(), "jobs.db"), sqlite.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { st.Close() })
		s.store = st
	}
	if p.from != nil {
		s.from = p.from()
	}
	for range agents {
		s.fakes = append(s.fakes, p.fake())
	}
	m := newKillable(s.store, at, after)
	s.live(m)
	m.mu.Lock()
	died = m.past
	m.mu.Unlock()
	if died {
		if j := s.job(); j != nil && p.loses {
			os.RemoveAll(filepath.Join(s.dir, "compute", compute.DirOf(j.ID)))
		}
		s.live(newKillable(s.store, 0, false))
	}
	return s.check(), died
}

// TestDeathAtEveryChange kills the server before and after every change of the store in the whole life of a job, and
// lets another process go on with the same files while the agents live on.
func TestDeathAtEveryChange(t *testing.T) {
	for _, p := range plots() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			windows := 0
			for at := 1; at < 60; at++ {
				alive := 0
				for _, after := range []bool{false, true} {
					faults, died := window(t, p, at, after, 1)
					for _, f := range faults {
						t.Errorf("death at change %d, after=%t: %s", at, after, f)
					}
					if died {
						windows++
					} else {
						alive++
					}
				}
				if alive == 2 || t.Failed() {
					break
				}
			}
			t.Logf("%d windows", windows)
			if windows < 4 {
				t.Errorf("only %d windows", windows)
			}
		})
	}
}

// TestCheckSeesDefects plants defects that the check of the windows must see: handing a job to another agent after a
// lost answer, and a record whose files are not on the disk.
func TestCheckSeesDefects(t *testing.T) {
	t.Parallel()
	lied := plots()[4]
	lied.liar = true
	if faults, _ := window(t, lied, 0, false, 2); !slices.ContainsFunc(faults,
		func(f string) bool { return strings.Contains(f, "it was begun") }) {
		t.Errorf("a job that ran twice passes: %v", faults)
	}
	lost := plots()[0]
	lost.loses = true
	if faults, died := window(t, lost, 1, true, 1); !died || len(faults) == 0 {
		t.Errorf("a job whose files are not on the disk passes (ended %t)", died)
	}
}
