package engine_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/job"
	lc "github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/mem"
	"github.com/stagepost/stagepost/store/sqlite"
)

var (
	hours = flag.Int("hours", 24, "simulated hours of TestSimulation")
	seed  = flag.Uint64("seed", 1, "seed of TestSimulation")
)

// cutoff is one engine's connection to the store. When it is cut, the engine can commit nothing more: for the store it
// was killed.
type cutoff struct {
	job.Store
	cut atomic.Bool
}

var errCut = &job.Error{Op: "store", Kind: job.Unavailable, Err: errors.New("the line is cut")}

func (c *cutoff) Get(ctx context.Context, id job.ID) (job.Job, error) {
	if c.cut.Load() {
		return job.Job{}, errCut
	}
	return c.Store.Get(ctx, id)
}

func (c *cutoff) List(ctx context.Context, q job.Query) (job.Page, error) {
	if c.cut.Load() {
		return job.Page{}, errCut
	}
	return c.Store.List(ctx, q)
}

func (c *cutoff) Overdue(ctx context.Context, now time.Time, kinds []job.Kind, n int) ([]job.Job, error) {
	if c.cut.Load() {
		return nil, errCut
	}
	return c.Store.Overdue(ctx, now, kinds, n)
}

func (c *cutoff) Claim(ctx context.Context, q job.Claim) ([]job.Job, error) {
	if c.cut.Load() {
		return nil, errCut
	}
	return c.Store.Claim(ctx, q)
}

func (c *cutoff) Renew(ctx context.Context, r job.Renewal) ([]job.Lease, error) {
	if c.cut.Load() {
		return nil, errCut
	}
	return c.Store.Renew(ctx, r)
}

func (c *cutoff) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	if c.cut.Load() {
		return nil, errCut
	}
	return c.Store.Commit(ctx, changes...)
}

// jumpy is a clock whose wall time can be moved.
type jumpy struct {
	clock.Clock
	mu  sync.Mutex
	off time.Duration
}

func (j *jumpy) Wall() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.Clock.Wall().Add(j.off)
}

func (j *jumpy) jump(d time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.off += d
}

// dice is a random source that many steps share.
type dice struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (d *dice) n(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.r.IntN(n)
}

func (d *dice) upTo(t time.Duration) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Duration(d.r.Int64N(int64(t)))
}

// troubled is the work of a letter whose steps are slow, fail, panic, or ignore the end of their context.
func troubled(d *dice, double *sync.Map) engine.Work {
	step := func(ctx context.Context, r *engine.Run) error {
		if _, twice := double.LoadOrStore(r.Fence(), true); twice {
			return engine.Fail("fence", fmt.Errorf("%s was given out twice", r.Fence()))
		}
		pause := time.NewTimer(d.upTo(40 * time.Second))
		defer pause.Stop()
		if d.n(20) == 0 {
			<-pause.C // deaf
		} else {
			select {
			case <-pause.C:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		switch n := d.n(100); {
		case n < 8:
			return errors.New("a wheel is loose")
		case n < 9:
			panic("the horse bolted")
		case n < 12:
			return engine.Wait(job.Blocker{Code: "snow", Sentence: "the pass is shut",
				Until: r.Now().Add(d.upTo(10 * time.Minute))})
		case n < 13:
			return engine.Fail("address", errors.New("unknown address"))
		}
		return nil
	}
	w := letters(map[lc.State]engine.Step{"Posted": step, "Sorting": step, "Riding": step})
	w.Policy = engine.Policy{Timeout: 6 * time.Hour}
	w.Limits = []job.Limit{{Name: "coaches", Kind: "test.letter", Guard: []lc.State{"Riding"}, Max: 20}}
	w.Keep = 48 * time.Hour
	return w
}

func bags(d *dice) engine.Work {
	return engine.Work{Life: bag, Prefix: "bag", Steps: map[lc.State]engine.Step{
		"Packed": func(context.Context, *engine.Run) error { return nil },
		"Open": func(ctx context.Context, r *engine.Run) error {
			var spec struct{ N int }
			if err := r.Spec(&spec); err != nil {
				return err
			}
			if err := r.Spawn(ctx, spec.N, func(i int) (engine.Order, error) {
				return engine.Order{Kind: "test.letter", Owner: fmt.Sprint("owner", i%3)}, nil
			}); err != nil {
				return err
			}
			return r.WaitChildren()
		},
	}}
}

// clerk runs one engine: it starts it, kills it after a while, and starts it again.
func clerk(ctx context.Context, t *testing.T, name string, store job.Store, d *dice, clock clock.Clock,
	works func() []engine.Work, kills *atomic.Int64) {
	for ctx.Err() == nil {
		line := &cutoff{Store: store}
		e, err := engine.New(line, works(), engine.Options{
			Name: name, Slots: 4, Sweep: 30 * time.Second, Clock: clock, Rand: rand.New(rand.NewPCG(uint64(d.n(1<<30)),
				1)),
		})
		if err != nil {
			t.Error(err)
			return
		}
		life, die := context.WithTimeout(ctx, time.Minute+d.upTo(4*time.Hour))
		kill := d.n(2) == 0
		context.AfterFunc(life, func() {
			if kill && ctx.Err() == nil {
				line.cut.Store(true)
				kills.Add(1)
			}
		})
		_ = e.Run(life)
		die()
		pause := time.NewTimer(d.upTo(3 * time.Minute))
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// TestSimulation lets engines work on a store in memory, and on one in a directory with a log in front of its database
// and without, for a sixth of the time: their calls wait for a disk. With a log, a long simulation has all of it.
func TestSimulation(t *testing.T) {
	part := max(1, *hours/6)
	t.Run("memory", func(t *testing.T) {
		simulate(t, *hours, func(*testing.T) (job.Store, func()) { return mem.New(), func() {} })
	})
	t.Run("database", func(t *testing.T) { simulateOnDisk(t, part, sqlite.Options{NoLog: true}) })
	t.Run("log", func(t *testing.T) {
		if *hours > 24 {
			part = *hours
		}
		simulateOnDisk(t, part, sqlite.Options{})
	})
}

func simulateOnDisk(t *testing.T, hours int, o sqlite.Options) {
	t.Helper()
	dir := quickDir(t)
	simulate(t, hours, func(t *testing.T) (job.Store, func()) {
		s, err := sqlite.Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		return s, func() {
			report, err := s.Fsck(t.Context(), func(k job.Kind) *lc.Table {
				return map[job.Kind]*lc.Table{"test.letter": letter, "test.bag": bag}[k]
			}, false)
			if err = errors.Join(err, s.Close()); err != nil || !report.Clean() {
				t.Errorf("%v %v", report.Faults, err)
			}
		}
	})
}

// quickDir is a directory in memory if possible.
func quickDir(t *testing.T) string {
	dir, err := os.MkdirTemp("/dev/shm", "stagepost-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// simulate lets 8 engines work for a day on one store while steps fail, engines are killed and the wall clock
// jumps. Afterwards every job has ended, every history replays, every batch has reported with all its jobs counted, and
// no claim was granted twice.
func simulate(t *testing.T, hours int, open func(*testing.T) (store job.Store, end func())) {
	synctest.Test(t, func(t *testing.T) {
		store, end := open(t)
		d := &dice{r: rand.New(rand.NewPCG(*seed, 42))}
		clock := &jumpy{Clock: clock.System()}
		var double sync.Map
		var kills atomic.Int64
		works := func() []engine.Work { return []engine.Work{troubled(d, &double), bags(d)} }
		ctx, cancel := context.WithCancel(t.Context())
		var clerks sync.WaitGroup
		for i := range 8 {
			clerks.Go(func() { clerk(ctx, t, fmt.Sprint("clerk", i), store, d, clock, works, &kills) })
		}
		sender, err := engine.New(store, works(), engine.Options{Name: "sender", Clock: clock})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		sent := 0
		for time.Since(began) < time.Duration(hours)*time.Hour {
			o := engine.Order{Kind: "test.letter", Priority: new(d.n(100)), Owner: fmt.Sprint("owner", d.n(4))}
			if d.n(10) == 0 {
				o.Kind, o.Spec = "test.bag", struct{ N int }{1 + d.n(30)}
			}
			if _, err := sender.Submit(ctx, o); err != nil {
				t.Fatal(err)
			}
			sent++
			if d.n(50) == 0 {
				clock.jump(time.Duration(d.n(99)-49) * time.Hour)
			}
			<-time.After(d.upTo(4 * time.Minute))
		}
		settle(t, store)
		cancel()
		clerks.Wait()
		total := audit(t, store, sender)
		t.Logf("%d hours, %d submissions, %d jobs, %d kills: all ended, all histories replay", hours, sent, total,
			kills.Load())
		end()
	})
}

// settle waits until no job is open, at most two simulated days.
func settle(t *testing.T, store job.Store) {
	live := false
	for range 48 * 60 {
		page, err := store.List(t.Context(), job.Query{Ended: &live, Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Jobs) == 0 {
			return
		}
		<-time.After(time.Minute)
	}
	page, _ := store.List(t.Context(), job.Query{Ended: &live, Limit: 5})
	t.Fatalf("jobs that never end: %+v", page.Jobs)
}

func audit(t *testing.T, store job.Store, e *engine.Engine) (total int) {
	q := job.Query{Limit: 1000}
	for {
		page, err := store.List(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range page.Jobs {
			total++
			history, err := store.History(t.Context(), j.ID, 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			if err := job.Verify(j, history, e.Life(j.Kind)); err != nil {
				t.Errorf("%s: %v", j.ID, err)
			}
			if j.Cause == "fence" {
				t.Errorf("%s: %s", j.ID, j.Message)
			}
			if j.Kind == "test.bag" && (!j.Children.Settled() || j.Outcome != lc.OK) {
				t.Errorf("%s: %s with %+v", j.ID, j.Outcome, j.Children)
			}
		}
		if page.Next == "" {
			return total
		}
		q.After = page.Next
	}
}
