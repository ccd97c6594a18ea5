package durable_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
)

// line is what an engine has of its store. It crashes at a commit; from then on every call fails, as for a process that
// was killed.
type line struct {
	job.Store
	ledger *ledger
	at     int  // the commit, from 1; 0: none
	after  bool // the last commit is made, and no one learns of it

	mu      sync.Mutex // guards the rest
	commits int
	dead    bool
}

var errDead = job.Errorf(job.Unavailable, "call", "", "%w", errors.New("the line is dead"))

func (l *line) down() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return errDead
	}
	return nil
}

func (l *line) kill() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
}

func (l *line) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return nil, errDead
	}
	l.commits++
	last := l.commits == l.at
	if last && !l.after {
		l.dead = true
		return nil, errDead
	}
	results, err := l.Store.Commit(ctx, changes...)
	for i := range results {
		if results[i].Err == nil {
			l.ledger.stored(changes[i].Tasks)
		}
	}
	if last {
		l.dead = true
		return nil, errDead
	}
	return results, err
}

func (l *line) Get(ctx context.Context, id job.ID) (job.Job, error) {
	if err := l.down(); err != nil {
		return job.Job{}, err
	}
	return l.Store.Get(ctx, id)
}

func (l *line) Claim(ctx context.Context, c job.Claim) ([]job.Job, error) {
	if err := l.down(); err != nil {
		return nil, err
	}
	return l.Store.Claim(ctx, c)
}

func (l *line) Renew(ctx context.Context, r job.Renewal) ([]job.Lease, error) {
	if err := l.down(); err != nil {
		return nil, err
	}
	return l.Store.Renew(ctx, r)
}

func (l *line) Tasks(ctx context.Context, id job.ID) ([]job.Task, error) {
	if err := l.down(); err != nil {
		return nil, err
	}
	return l.Store.Tasks(ctx, id)
}

func (l *line) List(ctx context.Context, q job.Query) (job.Page, error) {
	if err := l.down(); err != nil {
		return job.Page{}, err
	}
	return l.Store.List(ctx, q)
}

func (l *line) Overdue(ctx context.Context, now time.Time, kinds []job.Kind, n int) ([]job.Job, error) {
	if err := l.down(); err != nil {
		return nil, err
	}
	return l.Store.Overdue(ctx, now, kinds, n)
}

// ledger can determine what is stored of atoms, and which of them ran although they were stored as done.
type ledger struct {
	callLog
	mu     sync.Mutex // guards the rest
	done   map[string]bool
	faults []string
}

func (l *ledger) stored(tasks []job.Task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range tasks {
		t := &tasks[i]
		if l.done[t.Name] && t.State == flow.Running && t.Kind == "flow.task" {
			l.faults = append(l.faults, t.Name+" begins although it is stored as SUCCESS")
		}
		l.done[t.Name] = t.State == flow.Success
	}
}

// watched makes a task of a flow that is to crash.
func (l *ledger) watched(name string, more ...func(*flow.Task)) *flow.Task {
	t := l.task(name, more...)
	execute := t.Execute
	t.Execute = func(ctx context.Context, c *flow.Call) (any, error) {
		l.mu.Lock()
		if l.done[name] {
			l.faults = append(l.faults, name+" is executed although it is stored as SUCCESS")
		}
		l.mu.Unlock()
		return execute(ctx, c)
	}
	return t
}

// plot is a flow to crash, what people do to it, and what must come of it.
type plot struct {
	name string
	make func(l *ledger) flow.Item
	// until it ends, or its engine is dead; called again on the next engine
	act   func(t *testing.T, w *harness, id job.ID)
	end   lc.State
	atoms string
	most  int // executions and reverts without a crash
}

// rest waits until a flow has ended, is suspended, waits for a signal, or its engine is dead.
func rest(w *harness, id job.ID) job.Job {
	for range 1000 {
		j, err := w.store.Get(context.Background(), id)
		if err != nil || j.Ended || !j.Claimed() && (j.State == flow.Suspended && j.Due.Year() > 9000 ||
			j.Cause == durable.BlockSignal) {
			return j
		}
		time.Sleep(100 * time.Millisecond)
	}
	return job.Job{}
}

var plots = []plot{
	{
		name: "success", end: flow.Success, atoms: "a SUCCESS, b SUCCESS, c SUCCESS, d SUCCESS", most: 4,
		make: func(l *ledger) flow.Item {
			return flow.Linear("deploy", l.watched("a"), flow.Unordered("u", l.watched("b"), l.watched("c")),
				l.watched("d", needs("a")))
		},
	},
	{
		name: "revert", end: flow.Reverted, atoms: "a REVERTED, b REVERTED, c REVERTED", most: 6,
		make: func(l *ledger) flow.Item {
			return flow.Linear("deploy", l.watched("a"), l.watched("b"), l.watched("c", l.failing(always)))
		},
	},
	{
		name: "retry", end: flow.Success, atoms: "a SUCCESS, inner_retry SUCCESS, b SUCCESS, c SUCCESS", most: 11,
		make: func(l *ledger) flow.Item {
			return flow.Linear("deploy", l.watched("a"), flow.Linear("inner", l.watched("b"),
				l.watched("c", l.failing(func(c *flow.Call) bool { return c.Attempt < 3 }))).With(flow.Times(3)))
		},
	},
	{
		name: "signal", end: flow.Success, atoms: "a SUCCESS, approval SUCCESS, c SUCCESS", most: 2,
		make: func(l *ledger) flow.Item {
			return flow.Linear("deploy", l.watched("a"), flow.Wait("approval", "approved", 0), l.watched("c"))
		},
		act: func(_ *testing.T, w *harness, id job.ID) {
			for range 3 {
				if j := rest(w, id); j.ID == "" || j.Ended {
					return
				}
				// the next engine sends it again
				_ = w.flows.Signal(context.Background(), w.Engine, id, durable.Signal{Name: "approved"})
				time.Sleep(time.Second)
			}
		},
	},
	{
		name: "suspend", end: flow.Success, atoms: "a SUCCESS, b SUCCESS, c SUCCESS", most: 3,
		make: func(l *ledger) flow.Item {
			slow := func(t *flow.Task) {
				execute := t.Execute
				t.Execute = func(ctx context.Context, c *flow.Call) (any, error) {
					time.Sleep(time.Second)
					return execute(ctx, c)
				}
			}
			return flow.Linear("deploy", l.watched("a", slow), l.watched("b", slow), l.watched("c"))
		},
		act: func(t *testing.T, w *harness, id job.ID) {
			time.Sleep(1500 * time.Millisecond)
			// refused if it was done already
			_, _ = w.Do(context.Background(), operator.Act{Job: id, Event: flow.Suspend, By: lc.Owner, Actor: "ann"})
			j := rest(w, id)
			if j.ID == "" || j.Ended {
				return
			}
			if j.State == flow.Suspended {
				time.Sleep(10 * time.Minute)
				if still, err := w.store.Get(context.Background(), id); err == nil && still.Version != j.Version {
					t.Errorf("it was suspended and is %s by %s", still.State, w.events(id))
				}
			}
			_, _ = w.Do(context.Background(), operator.Act{Job: id, Event: flow.Run, By: lc.Owner, Actor: "ann"})
		},
	},
}

// live runs a plot on a line until its engine has crashed or the flow has ended.
func (p *plot) live(t *testing.T, store *line, l *ledger, id job.ID) (job.ID, bool) {
	w := start(t, store, one(func() flow.Item { return p.make(l) }),
		engine.Options{Lease: 3 * time.Second, Grace: time.Second, Sweep: time.Second})
	time.Sleep(time.Millisecond) // it is at work
	if id == "" {
		id = w.submit(order)
	}
	if p.act != nil {
		p.act(t, w, id)
	}
	ended := false
	for range 300 {
		if j, err := store.Store.Get(context.Background(), id); store.down() != nil || err != nil || j.Ended {
			ended = err == nil && j.Ended && store.down() == nil
			break
		}
		time.Sleep(time.Second)
	}
	store.kill()
	w.stop()
	return id, ended
}

// TestCrashAtEveryCommit kills the engine of a flow before and after each commit, some of the next engines too, and
// lets another go on.
func TestCrashAtEveryCommit(t *testing.T) {
	for i := range plots {
		p := &plots[i]
		t.Run(p.name, func(t *testing.T) {
			windows := 0
			for at, whole := 1, false; !whole && at < 100; at++ {
				for _, after := range []bool{false, true} {
					for _, second := range []int{0, 2} {
						synctest.Test(t, func(t *testing.T) { whole = p.crash(t, at, after, second) })
						windows++
					}
				}
			}
			if t.Logf("%d windows", windows); windows < 12 {
				t.Error("hardly anything was tried")
			}
		})
	}
}

// crash tries one window, and a second one on the engine that comes then. It reports whether the flow had ended before.
func (p *plot) crash(t *testing.T, at int, after bool, second int) (whole bool) {
	store, l := mem.New(), &ledger{done: map[string]bool{}}
	deaths := []int{at}
	if second > 0 {
		deaths = append(deaths, second)
	}
	var id job.ID
	ended := false
	for k, n := range deaths {
		if ended {
			break
		}
		id, ended = p.live(t, &line{Store: store, ledger: l, at: n, after: after}, l, id)
		whole = whole || k == 0 && ended
	}
	last := &line{Store: store, ledger: l}
	if !ended {
		p.live(t, last, l, id)
	}
	w := &harness{t: t, store: store}
	w.flows, _ = durable.New(durable.Options{})
	j := w.verify(id)
	name := fmt.Sprintf("commit %d (%t), then %d", at, after, second)
	if got := w.states(id); j.State != p.end || got != p.atoms {
		t.Errorf("%s: got %s with %s by %s (%s)", name, j.State, got, w.events(id), j.Message)
	}
	if len(l.faults) > 0 {
		t.Errorf("%s: %s", name, strings.Join(l.faults, "; "))
	}
	if most := p.most + 2*len(deaths); len(l.lines) > most { // at most two tasks are active in any of them
		t.Errorf("%s: %d executions and reverts: %s", name, len(l.lines), l.text())
	}
	return whole
}

// TestCrashCheckCanFail is the control: a store that forgets results makes tasks run again that are stored as done.
func TestCrashCheckCanFail(t *testing.T) {
	faults := 0
	for at := 2; at < 8; at++ {
		synctest.Test(t, func(t *testing.T) {
			p, l, store := &plots[0], &ledger{done: map[string]bool{}}, forgetful{mem.New()}
			id, ended := p.live(t, &line{Store: store, ledger: l, at: at}, l, "")
			if !ended {
				p.live(t, &line{Store: store, ledger: l}, l, id)
			}
			faults += len(l.faults)
		})
	}
	if faults == 0 {
		t.Error("nothing was noticed")
	}
}

// forgetful is a store that shows atoms that are done as not begun.
type forgetful struct{ *mem.Store }

func (f forgetful) Tasks(ctx context.Context, id job.ID) ([]job.Task, error) {
	tasks, err := f.Store.Tasks(ctx, id)
	for i := range tasks {
		if tasks[i].Name == "a" && tasks[i].State == flow.Success {
			tasks[i].State = flow.Pending
		}
	}
	return tasks, err
}

// severed is what a worker has of its store that receives nothing any more: its claim runs out, and it does not know.
// Without fencing it writes all the same.
type severed struct {
	job.Store
	unfenced bool
	stale    *int
}

func (s *severed) Watch(context.Context, func([]job.Hint)) {}

func (s *severed) Renew(context.Context, job.Renewal) ([]job.Lease, error) { return nil, nil }

func (s *severed) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	for i := range changes {
		if j, err := s.Store.Get(ctx, changes[i].Job); err == nil && s.unfenced && j.Epoch != changes[i].Epoch {
			changes[i].Epoch, changes[i].Version, changes[i].From = 0, j.Version, ""
		}
	}
	results, err := s.Store.Commit(ctx, changes...)
	for i := range results {
		if job.KindOf(results[i].Err) == job.Stale {
			*s.stale++
		}
	}
	return results, err
}

// TestLostClaim: a worker that was abandoned stores nothing when it comes back; the control is one that ignores epochs.
func TestLostClaim(t *testing.T) {
	for _, unfenced := range []bool{false, true} {
		t.Run(fmt.Sprint("unfenced ", unfenced), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, stale := mem.New(), 0
				worker := func(name string, takes time.Duration) durable.Options {
					return one(func() flow.Item {
						return flow.Linear("deploy", &flow.Task{Name: "a", Result: flow.One("a"),
							Execute: func(context.Context, *flow.Call) (any, error) {
								time.Sleep(takes)
								return "by " + name, nil
							}})
					})
				}
				options := engine.Options{Lease: 3 * time.Second, Sweep: time.Second}
				one := start(t, &severed{store, unfenced, &stale}, worker("one", time.Minute), options)
				time.Sleep(time.Millisecond) // it is at work
				id := one.submit(order)
				time.Sleep(1500 * time.Millisecond) // it receives nothing, but sweeps
				two := start(t, store, worker("two", 0), options)
				two.until(id, func(j *job.Job) bool { return j.Ended })
				eq(t, "events", two.events(id), "create run lost resume park run finish")
				time.Sleep(2 * time.Minute)
				want := "by two"
				if unfenced {
					want = "by one"
				}
				if got := two.view(id).Atoms[0].Result.Any(); got != want || !unfenced && stale == 0 {
					t.Errorf("got %v, want %s, %d commits were stale", got, want, stale)
				}
			})
		})
	}
}

// TestTwoEngines run the flows of one store between them, each once.
func TestTwoEngines(t *testing.T) {
	store, b := mem.New(), &callLog{}
	o := one(func() flow.Item { return flow.Linear("deploy", b.task("a"), b.task("b")) })
	w, other := start(t, store, o, engine.Options{Name: "w"}), start(t, store, o, engine.Options{Name: "other"})
	var ids []job.ID
	for i := range 40 {
		if i%2 == 0 {
			ids = append(ids, w.submit(order))
		} else {
			ids = append(ids, other.submit(order))
		}
	}
	for _, id := range ids {
		eq(t, "state", w.end(id).State, flow.Success)
	}
	eq(t, "executions", len(b.lines), 80)
	for key, n := range b.keys {
		eq(t, key, n, 1)
	}
}

// TestPoison: a flow whose workers crash again and again is rolled back; if they crash then too, or it cannot be
// loaded, it ends in FAILURE and names what remains.
func TestPoison(t *testing.T) {
	for _, c := range []struct {
		where, want string
		deaths      int
	}{
		{"task", "REVERTED a REVERTED 5 workers in turn crashed in state RUNNING, running a", 8},
		{"factory", "FAILURE  ", 14},
		{"revert", "FAILURE a REVERT_FAILURE ; not rolled back: a", 14},
	} {
		where := c.where
		synctest.Test(t, func(t *testing.T) {
			store, l, now, ordered := mem.New(), &ledger{done: map[string]bool{}}, (*line)(nil), false
			p := &plot{make: func(l *ledger) flow.Item {
				if where == "factory" && ordered {
					now.kill()
				}
				return flow.Linear("deploy", l.watched("a", func(t *flow.Task) {
					t.Execute = func(_ context.Context, c *flow.Call) (any, error) {
						l.note("+", c)
						now.kill()
						return nil, nil
					}
					t.Revert = func(_ context.Context, c *flow.Call) (any, error) {
						if l.note("-", c); where == "revert" {
							now.kill()
						}
						return nil, nil
					}
				}))
			}}
			id, ended, deaths := job.ID(""), false, 0
			for ; !ended && deaths < 20; deaths++ {
				now = &line{Store: store, ledger: l}
				if !ordered { // by an engine that crashes at once
					id, ended = p.live(t, &line{Store: store, ledger: l, at: 1}, l, id)
					ordered = true
					continue
				}
				id, ended = p.live(t, now, l, id)
			}
			w := &harness{t: t, store: store}
			w.flows, _ = durable.New(durable.Options{})
			j := w.verify(id)
			if j.Cause != cause.Poison || deaths < 5 || deaths > c.deaths || len(l.lines) > 13 {
				t.Errorf("%s: after %d deaths and %d executions: %s, %s: %s", where, deaths, len(l.lines), j.State, j.Cause, j.Message)
			}
			if got := fmt.Sprint(j.State, " ", w.states(id)); !strings.HasPrefix(c.want, got) {
				t.Errorf("%s: got %s, want %s", where, got, c.want)
			} else {
				contains(t, j.Message, strings.TrimSpace(strings.TrimPrefix(c.want, got)))
			}
			if len(l.keys) > 2 {
				t.Errorf("%s: the keys are %v", where, l.keys)
			}
		})
	}
}
