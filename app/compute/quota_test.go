package compute_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// counting is a store that counts after every commit, before anybody else can make one, who holds slots.
type counting struct {
	job.Store
	mu     sync.Mutex // guards the rest and lets one change pass at a time
	state  map[job.ID]job.Job
	most   int            // slots held at once
	mostOf map[string]int // by owner
	held   map[string]int // now, by owner
	all    int
	begun  []string // owners, in the order in which their jobs began
}

func newCounting(inner job.Store) *counting {
	return &counting{Store: inner, state: map[job.ID]job.Job{}, mostOf: map[string]int{}, held: map[string]int{}}
}

func (c *counting) Commit(ctx context.Context, changes ...job.Change) ([]job.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	results, err := c.Store.Commit(ctx, changes...)
	for i := range results {
		j := results[i].Job
		if results[i].Err != nil || j.Kind != compute.JobKind {
			continue
		}
		was, is := compute.Slot(c.state[j.ID].State), compute.Slot(j.State)
		c.state[j.ID] = j
		switch {
		case is && !was:
			c.all, c.held[j.Owner] = c.all+1, c.held[j.Owner]+1
			c.begun = append(c.begun, j.Owner)
		case was && !is:
			c.all, c.held[j.Owner] = c.all-1, c.held[j.Owner]-1
		}
		c.most, c.mostOf[j.Owner] = max(c.most, c.all), max(c.mostOf[j.Owner], c.held[j.Owner])
	}
	return results, err
}

// crew is a server on a store that others use, too. It can be killed.
type crew struct {
	app   *compute.App
	store *mortal
	stop  func()
}

func newCrew(t *testing.T, name string, store job.Store, o compute.Options, works func([]engine.Work) []engine.Work, x compute.Executor) *crew {
	t.Helper()
	app, err := compute.New(o)
	if err != nil {
		t.Fatal(err)
	}
	m := newMortal(store, 0, false)
	e, err := engine.New(m, works(app.Works()), engine.Options{Name: name, Deliver: app.Deliver(), Sweep: 10 * time.Millisecond, Lease: 300 * time.Millisecond, Grace: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	app.Join("a1", x)
	app.Bind(e)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = e.Run(ctx) }()
	return &crew{app: app, store: m, stop: sync.OnceFunc(func() {
		cancel()
		select {
		case <-done:
		case <-time.After(50 * time.Millisecond):
		}
		_ = app.Close()
	})}
}

func (c *crew) kill() { c.store.kill(); c.stop() }

func same(w []engine.Work) []engine.Work { return w }

// TestQuotasHold uploads 200 jobs of many users at once to two servers on one store, one of which is killed and started again several times: never more than the quotas allow hold a slot,
// users take turns, and in the end nobody holds any. Without limits the same uploads overshoot.
func TestQuotasHold(t *testing.T) {
	unlimited := func(w []engine.Work) []engine.Work { w[0].Limits = nil; return w }
	for _, c := range []struct {
		name  string
		works func([]engine.Work) []engine.Work
		jobs  int
		holds bool
	}{{"limits", same, 200, true}, {"control without limits", unlimited, 60, false}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			const users, perUser, most = 12, 3, 10
			store := newCounting(mem.New())
			f := newFake()
			f.slots, f.auto = 1000, false
			o := quick(t)
			o.Poll, o.Services = 2*time.Millisecond, []compute.Service{{Name: "example", RunsPerUser: perUser, MaxRuns: most}}
			one, two := newCrew(t, "one", store, o, c.works, f), newCrew(t, "two", store, o, c.works, f)
			defer func() { one.stop(); two.stop() }()
			var wg sync.WaitGroup
			for i := range c.jobs {
				wg.Go(func() {
					app := two.app // the one that is not killed
					u, err := app.Begin(t.Context())
					if err == nil {
						err = u.File(compute.Script, strings.NewReader(hello))
					}
					if err == nil {
						_, err = u.Commit(t.Context(), compute.Order{Owner: fmt.Sprint("user", i%users), Service: "example"})
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
			one = playQuotas(t, store, f, one, c.jobs, func() *crew { return newCrew(t, "one", store, o, c.works, f) })
			wg.Wait()
			store.mu.Lock()
			defer store.mu.Unlock()
			worst := 0
			for _, n := range store.mostOf {
				worst = max(worst, n)
			}
			t.Logf("at most %d slots at once, %d of one user", store.most, worst)
			if held := store.most <= most && worst <= perUser; held != c.holds {
				t.Errorf("%d slots at once, %d of one user: within the quotas %t, want %t", store.most, worst, held, c.holds)
			}
			if store.all != 0 {
				t.Errorf("%d slots are held at the end", store.all)
			}
			for id, j := range store.state {
				if j.State != compute.Completed {
					t.Errorf("%s ended as %s by %s: %s", id, j.State, j.Cause, j.Message)
				}
			}
			f.begunOnce(t)
		})
	}
}

// playQuotas lets payloads end by and by until all jobs have, and kills a server three times meanwhile. It gives the last one.
func playQuotas(t *testing.T, store *counting, f *fake, one *crew, jobs int, again func() *crew) *crew {
	t.Helper()
	limit := time.After(60 * time.Second)
	for tick, kills := 0, 0; store.ended() < jobs; tick++ {
		f.mu.Lock()
		for _, p := range f.payloads {
			if p.notice.Standing == compute.Works && (tick+int(p.parcel.Job[len(p.parcel.Job)-1]))%3 == 0 {
				f.end(p, nil)
			}
		}
		f.mu.Unlock()
		if n := store.ended(); kills < 3 && n > jobs*(kills+1)/5 {
			kills++
			one.kill()
			one = again()
		}
		select {
		case <-limit:
			t.Fatalf("%d of %d jobs have ended", store.ended(), jobs)
		case <-time.After(3 * time.Millisecond):
		}
	}
	return one
}

// begunOnce checks that every job was begun once, under its first ticket.
func (f *fake) begunOnce(t *testing.T) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for ticket, n := range f.runs {
		if n != 1 || !strings.HasSuffix(ticket, "/1") {
			t.Errorf("%s was begun %d times", ticket, n)
		}
	}
}

// ended counts the jobs that have ended.
func (c *counting) ended() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, j := range c.state {
		if j.Ended {
			n++
		}
	}
	return n
}

// TestQueueCases are those of the original (spec/orchestrator.md section 4).
func TestQueueCases(t *testing.T) {
	for _, c := range []struct {
		name             string
		perUser, maxRuns int
		before           map[string]int // jobs that run already
		queued           map[string]int
		want             []string // owners of those that begin, sorted
	}{
		{"three users, three slots", 5, 3, nil, map[string]int{"1": 5, "2": 5, "3": 5}, []string{"1", "2", "3"}},
		{"full", 5, 2, map[string]int{"9": 2}, map[string]int{"1": 3, "2": 3}, nil},
		{"two slots, different users", 5, 2, nil, map[string]int{"1": 3, "2": 3}, []string{"1", "2"}},
		{"a user at his quota", 2, 10, map[string]int{"1": 2}, map[string]int{"1": 3, "2": 5}, []string{"2", "2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			store := newCounting(mem.New())
			f := newFake()
			f.slots, f.auto = 100, false
			o := quick(t)
			o.Services = []compute.Service{{Name: "example", RunsPerUser: c.perUser, MaxRuns: c.maxRuns}}
			w := newWorldOn(t, store, o, one(teller{f}))
			for owner, n := range c.before {
				for range n {
					w.until(w.upload(owner, hello).ID, compute.Running)
				}
			}
			store.mu.Lock()
			before := len(store.begun)
			store.mu.Unlock()
			if _, err := w.store.Hold(t.Context(), &job.HoldChange{Hold: job.Hold{Scope: job.Scope{Kind: compute.JobKind}, Who: "op", Why: "all come at once", Since: time.Now()}}); err != nil {
				t.Fatal(err)
			}
			for _, owner := range []string{"1", "2", "3"} {
				for range c.queued[owner] {
					w.upload(owner, hello)
				}
			}
			if _, err := w.store.Hold(t.Context(), &job.HoldChange{Hold: job.Hold{Scope: job.Scope{Kind: compute.JobKind}}, Release: true}); err != nil {
				t.Fatal(err)
			}
			begun := func() []string {
				store.mu.Lock()
				defer store.mu.Unlock()
				return slices.Clone(store.begun[before:])
			}
			for range 2000 {
				if len(begun()) >= len(c.want) {
					break
				}
				time.Sleep(time.Millisecond)
			}
			time.Sleep(60 * time.Millisecond) // three sweeps in which nothing more may begin
			got := begun()
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("jobs of %v began, want %v", got, c.want)
			}
		})
	}
}
