package storetest

import (
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var chainTests = []test{
	{"granted", chainGranted},
	{"without a claim before", chainWithoutClaim},
	{"refused by a hold", chainHeld},
	{"refused by a limit", chainLimit},
	{"its own old claim does not count", chainOwnRoom},
	{"refused when one of better priority waits", chainPriority},
	{"refused when one of better priority has become due", chainPriorityDue},
	{"refused before the job is due", chainDue},
	{"refused at the end", chainEnd},
	{"the first claim of a new job", chainCreated},
	{"the first claim of a new job, refused", chainCreatedNot},
	{"neighbours in one call share one limit", chainShared},
}

// chained asks for the claim of the next state.
func (w *harness) chained(j job.Job, e lifecycle.Event, limits ...job.Limit) job.Change {
	w.Helper()
	return w.move(j, e, lifecycle.Worker, func(c *job.Change) {
		c.Chain = &job.Chain{Worker: "w1", Lease: time.Minute, Limits: limits}
	})
}

// goesOn checks whether the job is claimed after the chain, and that it moved either way.
func (w *harness) goesOn(c job.Change, want bool) job.Job {
	w.Helper()
	got := w.must(c)
	same(w, "record", w.get(c.Job), got)
	if got.State != c.To.State || got.Claimed() != want {
		w.Errorf("the job is in %s, claimed by %q; want %s, claimed: %v", got.State, got.Worker, c.To.State, want)
	}
	return got
}

func chainGranted(w *harness) {
	j := w.claimed()
	c := w.chained(j, "begin")
	got := w.goesOn(c, true)
	if got.Epoch <= j.Epoch || got.Starts != 1 || got.Worker != "w1" || !got.Until.Equal(c.At.Add(c.Chain.Lease)) {
		w.Errorf("chained: %+v", got)
	}
	_, err := w.commit(w.move(got, "next", lifecycle.Worker, func(c *job.Change) { c.Epoch = j.Epoch }))
	w.refused(err, job.Stale)
	got = w.goesOn(w.chained(got, "next"), true)
	w.must(w.move(got, "finish", lifecycle.Worker))
	w.sound()
}

func chainWithoutClaim(w *harness) {
	j := w.step()
	got := w.goesOn(w.chained(j, "begin"), true)
	w.must(w.move(got, "next", lifecycle.Worker))
}

func chainHeld(w *harness) {
	j := w.claimed(group("maps"))
	w.put(job.Scope{Group: "maps", State: running}, w.now().Add(time.Hour))
	w.goesOn(w.chained(j, "begin"), false)
	free := w.claimed(group("books"))
	w.goesOn(w.chained(free, "begin"), true)
	w.pass(time.Hour)
	late := w.claimed(group("maps"))
	w.release(job.Scope{Group: "maps", State: running})
	w.claim("w1", 9, running)
	w.goesOn(w.chained(late, "begin"), true)
	batch := w.create(w.made(Batch, expecting(1)))[0]
	child := w.claimed(parent(batch.ID))
	w.put(job.Scope{Job: batch.ID}, time.Time{})
	w.goesOn(w.chained(child, "begin"), false)
	w.sound()
}

func chainLimit(w *harness) {
	limit := steps(1, func(l *job.Limit) { l.Guard = []lifecycle.State{running} })
	a, b := w.claimed(), w.claimed()
	got := w.goesOn(w.chained(a, "begin", limit...), true)
	w.goesOn(w.chained(b, "begin", limit...), false)
	got = w.goesOn(w.chained(got, "next", limit...), true)
	same(w, "one slot is free after the first moved on", len(w.claimWith("w2", 9, limit, running)), 1)
	w.must(w.move(got, "finish", lifecycle.Worker))
	w.sound()
}

func chainOwnRoom(w *harness) {
	j := w.claimed()
	j = w.goesOn(w.chained(j, "begin", steps(1)...), true)
	j = w.goesOn(w.chained(j, "next", steps(1, func(l *job.Limit) {
		l.Occupy = []lifecycle.State{running, checking}
	})...), true)
	w.must(w.move(j, "finish", lifecycle.Worker))
}

func chainPriority(w *harness) {
	equal := w.moved(w.step(priority(50)), lifecycle.Worker, "begin")
	j := w.claimed(priority(50))
	got := w.goesOn(w.chained(j, "begin"), true) // one of equal priority waits, and need not be passed to
	w.must(w.move(got, "fail", lifecycle.Worker))
	better := w.moved(w.step(priority(49)), lifecycle.Worker, "begin")
	j = w.claimed(priority(50))
	w.goesOn(w.chained(j, "begin"), false)
	same(w, "who is next", ids(w.claim("w1", 3, running)), []job.ID{better.ID, equal.ID, j.ID})
	w.claimed()
	w.moved(w.step(priority(1)), lifecycle.Worker, "begin", "next")
	j = w.claimed(priority(50))
	w.goesOn(w.chained(j, "begin"), true) // one of better priority is claimed, another waits in another state
}

func chainPriorityDue(w *harness) {
	better := w.must(w.move(w.step(priority(1)), "begin", lifecycle.Worker, without,
		sets(job.Fields{Due: ptr(w.now().Add(time.Minute))})))
	j := w.claimed(priority(50))
	j = w.goesOn(w.chained(j, "begin"), true) // it is not due yet
	w.must(w.move(j, "fail", lifecycle.Worker))
	j = w.claimed(priority(50))
	w.pass(time.Hour)
	w.goesOn(w.chained(j, "begin"), false)
	same(w, "who is next", ids(w.claim("w1", 1, running)), []job.ID{better.ID})
}

func chainDue(w *harness) {
	j := w.claimed()
	c := w.chained(j, "begin")
	c.Set.Due = ptr(c.At.Add(time.Minute))
	w.goesOn(c, false)
	same(w, "not due", ids(w.claim("w1", 1, running)), nil)
}

func chainEnd(w *harness) {
	w.moved(w.step(), lifecycle.Worker, "begin", "next")
	j := w.claim("w1", 1, checking)[0]
	w.goesOn(w.chained(j, "finish"), false)
	w.sound()
}

func chainShared(w *harness) {
	limit := steps(2, func(l *job.Limit) { l.Guard = []lifecycle.State{running} })
	var changes []job.Change
	for range 4 {
		changes = append(changes, w.chained(w.claimed(), "begin", limit...))
	}
	n := 0
	for _, r := range w.commitAll(changes...) {
		if r.Err != nil {
			w.Errorf("commit: %v", r.Err)
		}
		if r.Job.Claimed() {
			n++
		}
	}
	same(w, "chains granted", n, 2)
	w.sound()
}

// born gives a new job that is to be claimed as it is created.
func (w *harness) born(limits []job.Limit, with ...func(*job.Job)) job.Created {
	c := w.made(Step, with...)
	c.Chain = &job.Chain{Worker: "w1", Lease: time.Minute, Limits: limits}
	return c
}

func chainCreated(w *harness) {
	c := w.born(nil, key("k"))
	j := w.create(c)[0]
	if j.Worker != "w1" || !j.Until.Equal(c.Job.Created.Add(c.Chain.Lease)) || j.Epoch < 1 || j.Starts != 1 {
		w.Fatalf("created: %+v", j)
	}
	same(w, "record", w.get(j.ID), j)
	same(w, "nothing is left to claim", ids(w.claim("w2", 9)), nil)
	w.sound()
	before := w.snapshot(j.ID)
	again := w.born(nil, key("k"))
	again.Chain.Worker = "w2"
	same(w, "one that exists", w.create(again)[0], j)
	w.unchanged(before)
	w.must(w.move(j, lifecycle.Yield, lifecycle.Worker))
	same(w, "given back, it exists and is claimed as any other", w.create(w.born(nil, key("k")))[0].Claimed(), false)
	w.sound()
}

func chainCreatedNot(w *harness) {
	free := func(what string, c job.Created) {
		w.Helper()
		j := w.create(c)[0]
		if j.Claimed() || j.Epoch != 0 || j.Starts != 0 {
			w.Errorf("%s: %+v", what, j)
		}
		same(w, "record", w.get(j.ID), j)
	}
	w.put(job.Scope{Group: "maps"}, time.Time{})
	free("held", w.born(nil, group("maps")))
	w.release(job.Scope{Group: "maps"})
	w.claim("w2", 9)
	free("over a limit", w.born(steps(1)))
	w.claim("w2", 9)
	free("not due", w.born(nil, due(w.now().Add(time.Hour))))
	w.step(priority(1))
	free("one of better priority waits", w.born(nil, priority(50)))
	w.sound()
}
