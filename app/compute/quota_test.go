package compute_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/mem"
)

// counting is a store that counts after every commit, before another caller can make one, who holds slots.
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
	store *killable
	stop  func()
}

func newCrew(t *testing.T, name string, m *killable, o compute.Options, works func([]engine.Work) []engine.Work,
	x compute.Executor) *crew {
	t.Helper()
	app, err := compute.New(o)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(m, works(app.Works()), engine.Options{Name: name, Deliver: app.Deliver(),
		Sweep: 10 * time.Millisecond, Lease: 300 * time.Millisecond, Grace: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	app.Join("a1", x)
	app.Bind(e)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = e.Run(ctx) }()
	c := &crew{app: app, store: m, stop: sync.OnceFunc(func() {
		cancel()
		<-done
		_ = app.Close()
	})}
	t.Cleanup(c.stop)
	return c
}

// upload makes a job of a user.
func (c *crew) upload(ctx context.Context, user string) error {
	u, err := c.app.Begin(ctx)
	if err != nil {
		return err
	}
	defer u.Discard()
	if err := u.File(compute.Script, strings.NewReader(hello)); err != nil {
		return err
	}
	_, err = u.Commit(ctx, compute.Order{Owner: user, Service: "example"})
	return err
}

func (c *crew) kill() { c.store.kill(); c.stop() }

func same(w []engine.Work) []engine.Work { return w }

// TestQuotasHold uploads 200 jobs of several users, many at once, to two servers on one store, one of which ends at one
// of its changes and is started again, several times: never more than the quotas allow hold a slot, and in the end no
// one holds any. Without limits the same uploads overshoot.
func TestQuotasHold(t *testing.T) {
	unlimited := func(w []engine.Work) []engine.Work { w[0].Limits = nil; return w }
	for _, c := range []struct {
		name   string
		works  func([]engine.Work) []engine.Work
		jobs   int
		deaths []int
		holds  bool
	}{{"limits", same, 200, []int{41, 60, 33}, true}, {"control without limits", unlimited, 80, nil, false}} {
		runInBubble(t, c.name, func(t *testing.T) {
			const users, perUser, most, atOnce = 4, 3, 10, 60 // both quotas are reached
			store := newCounting(mem.New())
			f := newFake()
			f.slots, f.auto = 1000, false
			o := quick(t)
			o.Poll, o.Services = 2*time.Millisecond, []compute.Service{{Name: "example", RunsPerUser: perUser,
				MaxRuns: most}}
			join := func(name string, at int) *crew {
				return newCrew(t, name, newKillable(store, at, at%2 == 0), o, c.works, f)
			}
			lives := join("two", 0)
			var wg sync.WaitGroup
			for i := range c.jobs {
				wg.Go(func() {
					time.Sleep(time.Duration(max(0, i-atOnce)/10) * tick) // the others come while payloads end
					if err := lives.upload(t.Context(), fmt.Sprint("user", i%users)); err != nil {
						t.Error(err)
					}
				})
			}
			playQuotas(t, store, f, c.jobs, c.deaths, func(at int) *crew { return join("one", at) })
			wg.Wait()
			store.mu.Lock()
			defer store.mu.Unlock()
			worst := 0
			for _, n := range store.mostOf {
				worst = max(worst, n)
			}
			t.Logf("at most %d slots at once, %d of one user", store.most, worst)
			if held := store.most == most && worst == perUser; held != c.holds {
				t.Errorf("%d slots at once, %d of one user: just as many as the quotas allow %t, want %t", store.most, worst, held, c.holds)
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

// tick is between two checks of what may end.
const tick = 3 * time.Millisecond

// playQuotas lets payloads end by and by until all jobs have. Meanwhile a server joins that ends at its nth change, for
// each of the deaths, and at last one that lives.
func playQuotas(t *testing.T, store *counting, f *fake, jobs int, deaths []int, join func(dies int) *crew) {
	t.Helper()
	one := join(cmp.Or(deaths...))
	synctest.Wait() // the first ones have all the slots that they can get
	limit := time.Now().Add(time.Minute)
	for n := 0; store.ended() < jobs; n++ {
		if time.Now().After(limit) {
			t.Fatalf("%d of %d jobs have ended", store.ended(), jobs)
		}
		f.mu.Lock()
		for _, p := range f.payloads {
			if p.notice.Standing == compute.Works && (n+int(p.parcel.Job[len(p.parcel.Job)-1]))%3 == 0 {
				f.end(p, nil)
			}
		}
		f.mu.Unlock()
		select {
		case <-one.store.dead:
			one.stop()
			deaths = deaths[1:]
			one = join(cmp.Or(deaths...))
		case <-time.After(tick):
		}
	}
	if len(deaths) != 0 {
		t.Errorf("all jobs have ended, and no server ended at its changes %v", deaths)
	}
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

// TestQueueCases are those of the original.
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
		runInBubble(t, c.name, func(t *testing.T) {
			store := newCounting(mem.New())
			f := newFake()
			f.slots, f.auto = 100, false
			o := quick(t)
			o.Services = []compute.Service{{Name: "example", RunsPerUser: c.perUser, MaxRuns: c.maxRuns}}
			w := newHarnessOn(t, store, o, one(notifier{f}))
			synctest.Wait() // the agent has reported how it stands
			for owner, n := range c.before {
				for range n {
					w.until(w.upload(owner, hello).ID, compute.Running)
				}
			}
			store.mu.Lock()
			before := len(store.begun)
			store.mu.Unlock()
			hold := job.Hold{Scope: job.Scope{Kind: compute.JobKind}, Who: "op", Why: "all come at once",
				Since: time.Now()}
			if _, err := w.store.Hold(t.Context(), hold); err != nil {
				t.Fatal(err)
			}
			for _, owner := range []string{"1", "2", "3"} {
				for range c.queued[owner] {
					w.upload(owner, hello)
				}
			}
			if _, err := w.store.Release(t.Context(), hold); err != nil {
				t.Fatal(err)
			}
			time.Sleep(patience) // whatever may begin has begun, and nothing more does
			store.mu.Lock()
			got := slices.Clone(store.begun[before:])
			store.mu.Unlock()
			slices.Sort(got)
			if !slices.Equal(got, c.want) {
				t.Errorf("jobs of %v began, want %v", got, c.want)
			}
		})
	}
}
