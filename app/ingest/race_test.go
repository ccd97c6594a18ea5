package ingest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/ingest/inventory"
	"github.com/stagepost/stagepost/app/ingest/workdir"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/format/ocfl"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// tries is how often two jobs race in TestTwoJobsRace.
var tries = flag.Int("tries", 60, "races of TestTwoJobsRace")

const raced = "ark:/99999/fk4race"

// race is one object, and two updates of it that come at once, each with a file of its own. The process may die at any
// call of the store or about a lock, more than once.
type race struct {
	t      *testing.T
	o      Options
	store  job.Store
	change func(*App) // before the application begins

	mu    sync.Mutex // guards the rest
	order []string   // jobs as they first got the lock of the object
}

// note keeps who got the lock.
func (r *race) note(by string, locks []inventory.Lock) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.order, by) {
		r.order = append(r.order, by)
	}
}

// life runs a process until all batches have ended, or until it crashes at the given call (0: never). It gives how many
// calls there were.
func (r *race) life(at int, after bool, clock clock.Clock) (calls int) {
	r.t.Helper()
	m := newCrashing(r.store, at, after)
	a, err := New(r.o)
	if err != nil {
		r.t.Fatal(err)
	}
	if r.change != nil {
		r.change(a)
	}
	a.locks = &tapped{locker: &crashingLocks{locker: a.locks, m: m}, took: r.note}
	e, err := engine.New(m, a.Works(),
		engine.Options{Deliver: a.Deliver(), Sweep: 20 * time.Millisecond, Grace: time.Millisecond, Clock: clock})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, kill := context.WithCancel(context.Background())
	a.Bind(e)
	var all sync.WaitGroup
	all.Go(func() { _ = e.Run(ctx) })
	ended := make(chan struct{})
	all.Go(func() {
		var both sync.WaitGroup
		for i := range 3 {
			both.Go(func() {
				name := fmt.Sprintf("f%d.txt", i)
				s := Submission{Profile: "test", Submitter: "ann", Key: name, Filename: name, PrimaryID: raced,
					Update: true}
				b, err := a.Submit(ctx, s, strings.NewReader(name))
				if err == nil {
					_, _ = e.Await(ctx, b.ID, func(j *job.Job) bool { return j.Ended })
				}
			})
			if i == 0 { // the object is there when the two come
				both.Wait()
			}
		}
		both.Wait()
		if ctx.Err() == nil {
			close(ended)
		}
	})
	select {
	case <-m.Dead:
	case <-ended:
	case <-time.After(2 * time.Minute):
		r.t.Errorf("neither ended nor crashed at call %d", at)
	}
	kill()
	gone := make(chan struct{})
	go func() { all.Wait(); close(gone) }()
	select {
	case <-gone:
	case <-time.After(10 * time.Millisecond): // an engine that crashed in a call never frees its slots
	}
	if err := a.Close(); err != nil {
		r.t.Error(err)
	}
	return m.Calls()
}

// crashingLocks crashes at calls about locks as well.
type crashingLocks struct {
	locker
	m *crashing
}

func (l *crashingLocks) Take(ctx context.Context, by inventory.Taker, wants ...inventory.Want) (got []inventory.Lock,
	err error) {
	l.m.Call(func() { got, err = l.locker.Take(ctx, by, wants...) })
	return got, err
}

func (l *crashingLocks) Check(ctx context.Context, locks ...inventory.Lock) (err error) {
	l.m.Call(func() { err = l.locker.Check(ctx, locks...) })
	return err
}

// verify returns what is wrong with the object in the end.
func (r *race) verify() error {
	r.t.Helper()
	var wrong []error
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Errorf(format, args...)) }
	i, err := inventory.Open(r.t.Context(), filepath.Join(r.o.Dir, "inventory.db"), "")
	if err != nil {
		return err
	}
	defer i.Close()
	objects, err := i.Objects(r.t.Context(), inventory.Query{ARK: raced})
	if err != nil || len(objects) != 1 {
		return fmt.Errorf("%d objects, %v", len(objects), err)
	}
	o := objects[0]
	if o.Head != 3 || len(o.Versions) != 3 {
		bad("the inventory has %d versions, its head is %d", len(o.Versions), o.Head)
	}
	var stored []string
	for n, v := range o.Versions {
		stored = append(stored, v.Job)
		if v.Number != n+1 {
			bad("version %d has number %d", n+1, v.Number)
		}
		if v.Places[0].Name != fmt.Sprintf("v%d", v.Number) || v.Places[1].Name != v.Places[0].Name {
			bad("version %d is %v", v.Number, v.Places)
		}
	}
	if r.order != nil && !slices.Equal(stored, r.order) {
		bad("versions are of %v, the lock was given to %v", stored, r.order)
	}
	files, err := i.Files(r.t.Context(), raced, o.Head, workdir.ProducerName+"/", 100)
	wrong = append(wrong, err)
	has := map[string]bool{}
	for _, f := range files {
		has[f.Path] = true
	}
	for n := range 3 {
		if !has[fmt.Sprintf("producer/f%d.txt", n)] {
			bad("the inventory's head lacks f%d.txt", n)
		}
	}
	for _, dir := range []string{"storage", "second"} {
		wrong = append(wrong, r.verifyLocation(dir))
	}
	if left, err := i.Locks(r.t.Context()); err != nil || len(left) > 0 {
		bad("locks are left: %v, %v", left, err)
	}
	return errors.Join(wrong...)
}

func (r *race) verifyLocation(dir string) error {
	path := filepath.Join(r.o.Dir, dir)
	report, err := ocfl.Validate(r.t.Context(), path)
	if err != nil {
		return err
	}
	if !report.Valid() {
		return fmt.Errorf("%s: %v", dir, report.Errors)
	}
	root, err := ocfl.OpenRoot(path)
	if err != nil {
		return err
	}
	defer root.Close()
	o, err := root.Object(raced)
	if err != nil {
		return err
	}
	if got := o.Versions(); len(got) != 3 {
		return fmt.Errorf("%s: versions %v", dir, got)
	}
	files, err := o.Files("")
	if err != nil {
		return err
	}
	n := 0
	for _, f := range files {
		if strings.HasPrefix(f.Path, workdir.ProducerName+"/") {
			n++
		}
	}
	if n != 3 {
		return fmt.Errorf("%s: the head has %d of 3 files", dir, n)
	}
	return nil
}

func newRace(t *testing.T, change func(*App)) *race {
	p := testProfile()
	p.Storage = []string{"storage", "second"}
	return &race{t: t, o: options(t, leavable(t), p), store: mem.New(), change: change}
}

// TestTwoJobsRace lets two jobs add a version to one object at once, again and again, while the process crashes at
// random calls. In the end both versions are there, in the order in which the jobs got the lock, and no file is lost.
func TestTwoJobsRace(t *testing.T) {
	whole := newRace(t, nil)
	calls := whole.life(0, false, clock.System())
	if err := whole.verify(); err != nil {
		t.Fatal(err)
	}
	t.Logf("a race has %d calls", calls)
	seed := rand.Uint64()
	t.Run("tries", func(t *testing.T) {
		for n := range *tries {
			t.Run(fmt.Sprint(n), func(t *testing.T) {
				t.Parallel()
				chance := rand.New(rand.NewPCG(seed, uint64(n)))
				r := newRace(t, nil)
				clock := clock.System()
				var deaths []string
				for range 1 + chance.IntN(3) {
					at, after := 1+chance.IntN(calls), chance.IntN(2) == 0
					deaths = append(deaths, fmt.Sprintf("%d after=%t", at, after))
					r.life(at, after, clock)
					clock = later{clock}
				}
				r.life(0, false, clock)
				if err := r.verify(); err != nil {
					t.Errorf("deaths at %v (seed %d): %v", deaths, seed, err)
				}
			})
		}
	})
}

// openLock is given to all who ask. Of the two that race, the first waits before it stores
// until the other one is as far, and the other until the first has recorded.
type openLock struct {
	locker
	both chan struct{} // closed when both have decided what to store
	done chan struct{} // closed when the first is recorded

	mu   sync.Mutex // guards here
	here []string   // jobs in the order in which they came
}

func (l *openLock) Take(_ context.Context, by inventory.Taker, wants ...inventory.Want) ([]inventory.Lock, error) {
	var got []inventory.Lock
	for _, w := range wants {
		got = append(got, inventory.Lock{Kind: w.Kind, Name: w.Name, Job: by.Job, Epoch: by.Epoch})
	}
	return got, nil
}

func (l *openLock) Check(ctx context.Context, locks ...inventory.Lock) error {
	l.mu.Lock()
	if !slices.Contains(l.here, locks[0].Job) {
		l.here = append(l.here, locks[0].Job)
		if len(l.here) == 3 { // the first one made the object
			close(l.both)
		}
	}
	n := slices.Index(l.here, locks[0].Job)
	l.mu.Unlock()
	if n == 0 {
		return nil
	}
	for _, c := range []chan struct{}{l.both, l.done}[:n] {
		select {
		case <-c:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (l *openLock) Record(ctx context.Context, e inventory.Entry, files iter.Seq2[inventory.File, error]) error {
	e.Locks = nil
	err := l.locker.Record(ctx, e, files)
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Index(l.here, e.Job) == 1 {
		close(l.done)
	}
	return err
}

// TestRaceWithoutLock is the control: with the lock given to each job and the head not compared, the failure of a race
// does happen. The comparison of the head alone is enough to prevent it: it is the fence in the storage location.
func TestRaceWithoutLock(t *testing.T) {
	for _, compare := range []bool{false, true} {
		t.Run(fmt.Sprintf("head compared %t", compare), func(t *testing.T) {
			t.Parallel()
			r := newRace(t, nil)
			r.change = func(a *App) {
				a.locks = &openLock{locker: a.locks, both: make(chan struct{}), done: make(chan struct{})}
				if !compare {
					a.expect = func(string) *string { return nil }
				}
			}
			r.life(0, false, clock.System())
			r.order = nil // a lock that both have gives no order
			err := r.verify()
			t.Logf("found: %v", err)
			if !compare && (err == nil || !strings.Contains(err.Error(), "lacks f")) {
				t.Errorf("a file must be lost: %v", err)
			}
			if compare && err != nil {
				t.Errorf("nothing may be lost: %v", err)
			}
		})
	}
}
