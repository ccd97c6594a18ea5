package storetest

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var limitTests = []test{
	{"of many kinds, each counts its own", limitKinds},
	{"a number of claimed jobs", limitTotal},
	{"only jobs of its kind", limitKind},
	{"guarded states only", limitGuard},
	{"jobs in occupied states count without a claim", limitOccupy},
	{"a job in an occupied state is counted already", limitOccupies},
	{"one owner, group or tag", limitNamed},
	{"each owner on its own", limitPerOwner},
	{"each group on its own", limitPerGroup},
	{"all limits together", limitAll},
	{"a job with a full limit does not stop those behind it", limitPasses},
	{"never overshot by 16 parallel workers", limitParallel},
}

func steps(max int, with ...func(*job.Limit)) []job.Limit {
	l := job.Limit{Name: "max_test", Kind: stepKind, Max: max}
	for _, f := range with {
		f(&l)
	}
	return []job.Limit{l}
}

func limitTotal(w *harness) {
	for range 5 {
		w.step()
	}
	got := w.claimWith("w1", 9, steps(3))
	same(w, "claimed", len(got), 3)
	same(w, "over the limit", len(w.claimWith("w2", 9, steps(3))), 0)
	same(w, "a limit of 0", len(w.claimWith("w2", 9, steps(0))), 0)
	w.must(w.move(got[1], "begin", lifecycle.Worker))
	same(w, "one slot is free", len(w.claimWith("w2", 9, steps(3))), 1)
	same(w, "a caller with a higher limit", len(w.claimWith("w2", 9, steps(4))), 1)
	same(w, "without a limit", len(w.claim("w2", 9)), 0)
}

func limitKind(w *harness) {
	w.claimed()
	w.step()
	w.step()
	other := job.Limit{Name: "other", Kind: batchKind, Max: 0}
	same(w, "a limit of another kind", len(w.claimWith("w1", 1, []job.Limit{other})), 1)
	batch := w.create(w.made(Batch))[0]
	got, err := w.st.Claim(w.Context(), job.Claim{Worker: "w1", N: 9, Now: w.now(), Limits: steps(2),
		From: []job.KindState{{Kind: stepKind, State: waiting}, {Kind: batchKind, State: waiting}}})
	if err != nil || len(got) != 1 || got[0].ID != batch.ID {
		w.Errorf("with the limit of one kind full, the claim gave %v, %v; want %s", ids(got), err, batch.ID)
	}
}

func limitGuard(w *harness) {
	limit := steps(2, func(l *job.Limit) { l.Guard = []lifecycle.State{waiting, checking} })
	free := w.moved(w.step(), lifecycle.Worker, "begin")
	w.moved(w.step(), lifecycle.Worker, "begin", "next")
	w.step()
	w.step()
	same(w, "guarded", len(w.claimWith("w1", 9, limit, waiting, checking)), 2)
	same(w, "not guarded", ids(w.claimWith("w1", 9, limit, waiting, checking, running)), []job.ID{free.ID})
	w.step()
	same(w, "claims in other states do not count", len(w.claimWith("w1", 9, steps(3, func(l *job.Limit) {
		l.Guard = []lifecycle.State{waiting, checking}
	}))), 1)
}

func limitOccupy(w *harness) {
	limit := steps(2, func(l *job.Limit) {
		l.Guard, l.Occupy = []lifecycle.State{waiting}, []lifecycle.State{running, checking}
	})
	for range 4 {
		w.step()
	}
	got := w.claimWith("w1", 9, limit)
	same(w, "both claimed", len(got), 2)
	w.must(w.move(got[0], "begin", lifecycle.Worker)) // from claimed in a guarded state to unclaimed in an occupied one
	same(w, "one occupies, one is claimed", len(w.claimWith("w1", 9, limit)), 0)
	second := w.must(w.move(got[1], "begin", lifecycle.Worker))
	same(w, "both occupy", len(w.claimWith("w1", 9, limit)), 0)
	claims := w.claim("w2", 1, running)
	same(w, "occupied and claimed counts once", len(w.claimWith("w1", 9, steps(3, func(l *job.Limit) {
		l.Guard, l.Occupy = []lifecycle.State{waiting}, []lifecycle.State{running, checking}
	}))), 1)
	w.must(w.move(claims[0], "fail", lifecycle.Worker))
	w.moved(w.get(second.ID), lifecycle.Operator, "fail")
	same(w, "both left", len(w.claimWith("w1", 9, limit)), 1)
}

// limitOccupies claims a job in a state that it occupies, with the limit full: it continues in its own slot.
// Otherwise a limit whose guarded and occupied states overlap would lock itself up.
func limitOccupies(w *harness) {
	limit := steps(1, func(l *job.Limit) { l.Occupy = []lifecycle.State{running} })
	j := w.moved(w.step(), lifecycle.Worker, "begin")
	w.step()
	same(w, "another, with the slot taken", ids(w.claimWith("w1", 9, limit)), nil)
	same(w, "the one that has the slot", ids(w.claimWith("w1", 9, limit, running, waiting)), []job.ID{j.ID})
}

func limitNamed(w *harness) {
	for _, name := range []string{"ann", "ann", "bob", "bob"} {
		w.step(owner(name), group("g-"+name))
	}
	got := w.claimWith("w1", 9, steps(1, func(l *job.Limit) { l.Owner = "ann" }))
	same(w, "of ann", count(got, func(j job.Job) bool { return j.Owner == "ann" }), 1)
	same(w, "of bob", count(got, func(j job.Job) bool { return j.Owner == "bob" }), 2)
	w.step(owner("bob"), group("g-bob"))
	got = w.claimWith("w1", 9, steps(2, func(l *job.Limit) { l.Group = "g-ann" }))
	same(w, "of group g-ann", count(got, func(j job.Job) bool { return j.Group == "g-ann" }), 1)
	same(w, "of group g-bob", count(got, func(j job.Job) bool { return j.Group == "g-bob" }), 1)
	for i := range 6 {
		w.step(owner(fmt.Sprint("o", i)), tagged(fmt.Sprint("queue=", i%2), fmt.Sprint("place=", i)))
	}
	limit := steps(2, func(l *job.Limit) { l.Tag = "queue=0" })
	got = w.claimWith("w1", 9, limit)
	same(w, "with and without the tag", len(got), 5)
	queue0 := func(j job.Job) bool { return slices.Contains(j.Tags, "queue=0") }
	same(w, "with the tag", count(got, queue0), 2)
	w.must(w.move(got[slices.IndexFunc(got, queue0)], "begin", lifecycle.Worker))
	same(w, "when a slot is free", len(w.claimWith("w1", 9, limit)), 1)
}

func limitPerOwner(w *harness) {
	for _, name := range []string{"ann", "ann", "ann", "bob", "cid", "cid", "cid"} {
		w.step(owner(name))
	}
	limit := steps(2, func(l *job.Limit) { l.PerOwner = true })
	got := w.claimWith("w1", 9, limit)
	for name, want := range map[string]int{"ann": 2, "bob": 1, "cid": 2} {
		same(w, "of "+name, count(got, func(j job.Job) bool { return j.Owner == name }), want)
	}
	same(w, "again", len(w.claimWith("w1", 9, limit)), 0)
}

func limitPerGroup(w *harness) {
	for i := range 9 {
		w.step(group(fmt.Sprint("g", i%3)), owner("ann"))
	}
	limit := steps(1, func(l *job.Limit) { l.PerGroup = true })
	got := w.claimWith("w1", 9, limit)
	same(w, "claimed", len(got), 3)
	for i := range 3 {
		name := fmt.Sprint("g", i)
		same(w, "of "+name, count(got, func(j job.Job) bool { return j.Group == name }), 1)
	}
	w.must(w.move(got[1], "begin", lifecycle.Worker))
	same(w, "its group has a free slot", w.claimWith("w1", 9, limit)[0].Group, got[1].Group)
	moving := w.must(job.Change{Job: got[0].ID, Epoch: got[0].Epoch, Keep: true, At: w.now(),
		Set: job.Fields{Group: ptr("g9")}})
	got = w.claimWith("w1", 9, limit)
	same(w, "the group that "+string(moving.ID)+" left has a free slot", len(got), 1)
	w.sound()
}

func limitAll(w *harness) {
	for i := range 8 {
		w.step(owner(fmt.Sprint("o", i%2)), group(fmt.Sprint("g", i%4)))
	}
	limits := append(steps(5), steps(3, func(l *job.Limit) { l.PerOwner = true })...)
	limits = append(limits, steps(1, func(l *job.Limit) { l.Group = "g0" })...)
	got := w.claimWith("w1", 9, limits)
	same(w, "in all", len(got), 5)
	same(w, "of g0", count(got, func(j job.Job) bool { return j.Group == "g0" }) <= 1, true)
	same(w, "of o0", count(got, func(j job.Job) bool { return j.Owner == "o0" }) <= 3, true)
	same(w, "of o1", count(got, func(j job.Job) bool { return j.Owner == "o1" }) <= 3, true)
}

func limitPasses(w *harness) {
	limit := steps(1, func(l *job.Limit) { l.PerOwner = true })
	for range 100 {
		w.step(owner("ann"), priority(1))
	}
	bob := w.step(owner("bob"), priority(90))
	got := w.claimWith("w1", 5, limit)
	same(w, "one of each", len(got), 2)
	same(w, "the last is bob's", got[len(got)-1].ID, bob.ID)
}

// limitParallel has 16 workers claim and give back under one limit; there are never more claims than it allows.
func limitParallel(w *harness) {
	const max, workers = 5, 16
	for i := range 40 {
		w.step(owner(fmt.Sprint("o", i%4)))
	}
	ask := w.asks("", 3, append(steps(max), steps(2, func(l *job.Limit) { l.PerOwner = true })...))
	var mu sync.Mutex
	open, owners, total := 0, map[string]int{}, 0
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			mine := ask
			mine.Worker = fmt.Sprint("w", i)
			for range w.scale(50, 5) {
				got, err := w.st.Claim(w.Context(), mine)
				if err != nil {
					w.Errorf("claim: %v", err)
				}
				mu.Lock()
				open += len(got)
				total += len(got)
				for _, j := range got {
					if owners[j.Owner]++; owners[j.Owner] > 2 {
						w.Errorf("%s has %d claims, its limit is 2", j.Owner, owners[j.Owner])
					}
				}
				if open > max {
					w.Errorf("%d claims, the limit is %d", open, max)
				}
				mu.Unlock()
				runtime.Gosched()
				mu.Lock() // counted off before they are given back: never more than there are
				open -= len(got)
				for _, j := range got {
					owners[j.Owner]--
				}
				mu.Unlock()
				for _, j := range got {
					if r, err := w.st.Commit(w.Context(),
						job.Change{Job: j.ID, Epoch: j.Epoch, At: mine.Now}); err != nil || r[0].Err != nil {
						w.Errorf("give back: %v, %+v", err, r)
					}
				}
			}
		})
	}
	all.Wait()
	if total == 0 {
		w.Error("nothing was claimed")
	}
	w.sound()
	same(w, "all at once and none given back", len(parallelClaims(w, ask, workers)), max)
}

// parallelClaims has the workers claim at once and gives what they got together.
func parallelClaims(w *harness, ask job.Claim, workers int) []job.Job {
	w.Helper()
	var mu sync.Mutex
	var jobs []job.Job
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			mine := ask
			mine.Worker = fmt.Sprint("w", i)
			got, err := w.st.Claim(w.Context(), mine)
			if err != nil {
				w.Errorf("claim: %v", err)
			}
			mu.Lock()
			jobs = append(jobs, got...)
			mu.Unlock()
		})
	}
	all.Wait()
	return jobs
}

func count(jobs []job.Job, match func(job.Job) bool) int {
	n := 0
	for _, j := range jobs {
		if match(j) {
			n++
		}
	}
	return n
}

// limitKinds claims jobs of many kinds, each with a limit of its own.
func limitKinds(w *harness) {
	const kinds = 30
	var list []job.Created
	c := w.asks("w1", 1000, nil)
	c.From, c.Ageing = nil, job.Ageing{Share: 3, Patience: time.Nanosecond}
	kind := func(i int) job.Kind { return job.Kind(fmt.Sprint("kind", i)) }
	for i := range kinds {
		for k := range 4 {
			one := w.made(Step, owner(fmt.Sprint("o", k%2)), func(j *job.Job) { j.Kind = kind(i) })
			if i%5 != 4 { // of others there are none
				list = append(list, one)
			}
		}
		for _, s := range []lifecycle.State{running, waiting} {
			c.From = append(c.From, job.KindState{Kind: kind(i), State: s})
		}
		c.Limits = append(c.Limits, job.Limit{Name: "all", Kind: kind(i), Max: i % 5})
		if i%2 == 0 {
			c.Limits = append(c.Limits, job.Limit{Name: "each", Kind: kind(i), PerOwner: true, Max: 1})
		}
	}
	w.create(list...)
	want := map[job.Kind]int{}
	for i := range kinds {
		n := i % 5
		if n == 4 {
			n = 0
		}
		if i%2 == 0 {
			n = min(n, 2)
		}
		if n > 0 {
			want[kind(i)] = n
		}
	}
	count := func(jobs []job.Job) map[job.Kind]int {
		n := map[job.Kind]int{}
		for _, j := range jobs {
			n[j.Kind]++
		}
		return n
	}
	ask := func() []job.Job {
		c.Now = w.now()
		forecast := w.peek(c, "")
		got := did(w, "claim", func() ([]job.Job, error) { return w.st.Claim(w.Context(), c) })
		same(w, "forecast", len(forecast.Next), len(got))
		return got
	}
	w.now()
	got := ask()
	same(w, "granted", count(got), want)
	same(w, "granted again", len(ask()), 0)
	back := got[0]
	w.must(job.Change{Job: back.ID, Epoch: back.Epoch, At: w.now()})
	same(w, "granted after one was given back", count(ask()), map[job.Kind]int{back.Kind: 1})
}
