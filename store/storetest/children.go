package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var childTests = []test{
	{"every move of a child moves its parent's counts", childMoves},
	{"required state of the parent", requireParent},
	{"required end of all expected children", requireSettled},
	{"required that no child is open", requireIdle},
	{"required that some child has not ended", requireUnsettled},
	{"spawned once, however often", spawnTwice},
	{"a spawned job that exists is left as it is", spawnExisting},
	{"nothing is spawned in the end of its parent", spawnAtEnd},
	{"a spawned job of another parent is refused or counted there", spawnElsewhere},
	{"a parent that sleeps is due when its last child ends", childWakes},
	{"5,000 children in chunks, with a crash between", childChunks},
	{"the last two jobs end at once: one report", childLastTwo},
}

func childMoves(w *harness) {
	batch := w.create(w.made(Batch, expecting(3)))[0]
	j, sibling := w.step(parent(batch.ID)), w.step(parent(batch.ID))
	version := w.get(batch.ID).Version
	is := func(what string, want job.Children) {
		w.Helper()
		want.Expected = 3
		now := w.get(batch.ID)
		same(w, what, now.Children, want)
		if now.Version <= version {
			w.Errorf("%s: the parent's version %d is not raised", what, now.Version)
		}
		version = now.Version
	}
	j = w.moved(j, lifecycle.Worker, "begin", "fail")
	is("failed", job.Children{Open: 1, Failed: 1})
	j = w.moved(j, lifecycle.Owner, "retry")
	is("sent back", job.Children{Open: 2})
	j = w.moved(j, lifecycle.Worker, "next", "finish")
	is("done", job.Children{Open: 1, OK: 1})
	w.moved(j, lifecycle.Timer, "delete")
	is("deleted", job.Children{Open: 1, Deleted: 1})
	w.moved(w.moved(sibling, lifecycle.Worker, "begin"), lifecycle.Timer, "expire")
	is("timed out", job.Children{TimedOut: 1, Deleted: 1})
	third := w.step(parent(batch.ID))
	is("a third", job.Children{Open: 1, TimedOut: 1, Deleted: 1})
	w.moved(third, lifecycle.Owner, "cancel")
	is("cancelled", job.Children{Cancelled: 1, TimedOut: 1, Deleted: 1})
	w.sound()
}

func requireParent(w *harness) {
	batch := w.create(w.made(Batch, expecting(1)))[0]
	j := w.step(parent(batch.ID))
	needs := func(c *job.Change) { c.Require.ParentIn = []lifecycle.State{gathering, failed} }
	before := w.snapshot(j.ID)
	_, err := w.commit(w.move(j, "hold", lifecycle.Operator, needs))
	w.refused(err, job.Refused)
	w.unchanged(before)
	w.moved(w.get(batch.ID), lifecycle.Worker, "begin")
	w.must(w.move(j, "hold", lifecycle.Operator, needs))
	w.must(w.move(w.step(), "hold", lifecycle.Operator, needs)) // one without a parent
}

func requireSettled(w *harness) {
	batch := w.moved(w.create(w.made(Batch, expecting(2)))[0], lifecycle.Worker, "begin")
	report := func(want job.ErrorKind) {
		w.Helper()
		before := w.snapshot(batch.ID)
		_, err := w.commit(w.move(w.get(batch.ID), "report", lifecycle.Engine,
			func(c *job.Change) { c.Require.Settled = true }))
		if want == "" && err != nil {
			w.Errorf("report: %v", err)
		} else if want != "" {
			w.refused(err, want)
			w.unchanged(before)
		}
	}
	report(job.Refused) // no child exists, and two are expected
	a := w.moved(w.step(parent(batch.ID)), lifecycle.Operator, "cancel")
	report(job.Refused) // none is open, one is still to come
	b := w.step(parent(batch.ID))
	report(job.Refused)
	w.moved(b, lifecycle.Worker, "begin", "fail")
	w.moved(a, lifecycle.Operator, "delete")
	report("")
	w.sound()
}

func requireIdle(w *harness) {
	batch := w.create(w.made(Batch, expecting(9)))[0]
	j := w.step(parent(batch.ID))
	w.moved(w.get(batch.ID), lifecycle.Worker, "begin", "fail")
	idle := func(c *job.Change) { c.Require.Idle = true }
	before := w.snapshot(batch.ID)
	_, err := w.commit(w.move(w.get(batch.ID), "delete", lifecycle.Operator, idle))
	w.refused(err, job.Refused)
	w.unchanged(before)
	w.moved(j, lifecycle.Operator, "cancel")
	w.must(w.move(w.get(batch.ID), "delete", lifecycle.Operator, idle))
	w.sound()
}

// requireUnsettled goes to sleep until the last child ends, and must not if that was meanwhile.
func requireUnsettled(w *harness) {
	batch := w.create(w.made(Batch, expecting(1)))[0]
	sleep := func(want job.ErrorKind) {
		w.Helper()
		before := w.snapshot(batch.ID)
		_, err := w.commit(job.Change{Job: batch.ID, Version: before.Job.Version, At: w.now(),
			Set: job.Fields{Due: ptr(w.now().Add(time.Hour))}, Require: job.Require{Unsettled: true}})
		if want == "" && err != nil {
			w.Errorf("sleep: %v", err)
		} else if want != "" {
			w.refused(err, want)
			w.unchanged(before)
		}
	}
	sleep("") // its child does not exist yet
	j := w.step(parent(batch.ID))
	sleep("") // its child is open
	w.moved(j, lifecycle.Operator, "cancel")
	sleep(job.Conflict)
}

func spawnTwice(w *harness) {
	batch := w.create(w.made(Batch, expecting(2)))[0]
	claim := job.Claim{Worker: "w1", N: 1, Now: w.now(), Lease: time.Hour,
		From: []job.KindState{{Kind: batchKind, State: waiting}}}
	got, err := w.st.Claim(w.Context(), claim)
	if err != nil || len(got) != 1 {
		w.Fatalf("claim gave %v, %v", ids(got), err)
	}
	a, b := w.made(Step, parent(batch.ID)), w.made(Step, parent(batch.ID))
	a.Outbox = []job.Message{{Key: "a", Job: a.Job.ID, Topic: "mail", Created: w.now(), Due: w.now()}}
	spawn := job.Change{Job: batch.ID, Epoch: got[0].Epoch, Keep: true, At: w.now(), Spawn: []job.Created{a, b, a}}
	first := w.must(spawn)
	same(w, "after one", first.Children, job.Children{Expected: 2, Open: 2})
	same(w, "record", w.get(batch.ID), first)
	child := w.get(a.Job.ID)
	want := a.Job
	want.Number = child.Number
	same(w, "child", child, want)
	same(w, "its history", w.history(child.ID), []job.Event{a.Event})
	a.Outbox[0].Number = 1
	same(w, "its messages", w.messages(child.ID), a.Outbox)
	w.moved(child, lifecycle.Operator, "hold")
	spawn.At = w.now()
	same(w, "after another", w.must(spawn).Children, first.Children)
	same(w, "the child stays as it is", w.get(a.Job.ID).State, parked)
	same(w, "and can be claimed if it waits", ids(w.claim("w2", 9)), []job.ID{b.Job.ID})
	w.sound()
}

func spawnExisting(w *harness) {
	batch := w.create(w.made(Batch, expecting(1)))[0]
	child := w.step(parent(batch.ID))
	w.claim("w1", 1)
	before := w.snapshot(child.ID)
	again := w.made(Step, parent(batch.ID), func(j *job.Job) { j.ID, j.Priority = child.ID, 1 })
	now := w.get(batch.ID)
	w.must(job.Change{Job: batch.ID, Version: now.Version, At: w.now(), Spawn: []job.Created{again}})
	w.unchanged(before)
	same(w, "counts", w.get(batch.ID).Children, job.Children{Expected: 1, Open: 1})
}

func spawnAtEnd(w *harness) {
	batch := w.create(w.made(Batch, expecting(2)))[0]
	child := w.step(parent(batch.ID))
	before := w.snapshot(batch.ID)
	end := w.move(before.Job, "fail", lifecycle.Worker, func(c *job.Change) {
		c.Epoch, c.Version = 0, before.Job.Version
		c.Spawn = []job.Created{w.made(Step, parent(batch.ID))}
	})
	_, err := w.commit(end)
	w.refused(err, job.Refused)
	w.unchanged(before)
	w.gone(end.Spawn[0].Job.ID)
	end.Spawn[0].Job.ID = child.ID // the control: it exists
	same(w, "children", w.must(end).Children, before.Job.Children)
	w.sound()
}

func spawnElsewhere(w *harness) {
	batch := w.create(w.made(Batch, expecting(2)))[0]
	j := w.claimed(parent(batch.ID))
	sibling := w.made(Step, parent(batch.ID))
	_, err := w.commit(job.Change{Job: j.ID, Epoch: j.Epoch, Keep: true, At: w.now(), Spawn: []job.Created{sibling}})
	want := job.Children{Expected: 2, Open: 1}
	if err == nil {
		want.Open = 2
	}
	same(w, "counts of the batch", w.get(batch.ID).Children, want)
	same(w, "children of the batch", len(w.list(job.Query{Parent: batch.ID})), want.Open)
	w.sound()
}

func childWakes(w *harness) {
	batch := w.create(w.made(Batch, expecting(2)))[0]
	a, b := w.step(parent(batch.ID)), w.step(parent(batch.ID))
	batch = w.get(batch.ID)
	w.must(job.Change{Job: batch.ID, Version: batch.Version, At: w.now(),
		Set: job.Fields{Due: ptr(w.now().Add(time.Hour))}})
	claim := func() []job.ID {
		w.Helper()
		got, err := w.st.Claim(w.Context(), job.Claim{Worker: "w1", N: 1, Now: w.now(), Lease: time.Hour,
			From: []job.KindState{{Kind: batchKind, State: waiting}}})
		if err != nil {
			w.Fatal(err)
		}
		return ids(got)
	}
	same(w, "asleep", claim(), nil)
	w.moved(a, lifecycle.Owner, "cancel")
	same(w, "with one child left", claim(), nil)
	w.moved(b, lifecycle.Owner, "cancel")
	same(w, "when the last has ended", claim(), []job.ID{batch.ID})
}

// childChunks creates the children of a batch in chunks, like a worker that crashes half-way; its successor starts
// from the beginning with the same ids. Some children end meanwhile, and the batch is never settled too early.
func childChunks(w *harness) {
	const n, chunk = 5000, 1000
	batch := w.create(w.made(Batch))[0]
	batch = w.must(job.Change{Job: batch.ID, Version: batch.Version, At: w.now(), Set: job.Fields{Expected: ptr(n)}})
	var all []job.Created
	for range n {
		all = append(all, w.made(Step, parent(batch.ID)))
	}
	end := func(from, to int) {
		w.Helper()
		var changes []job.Change
		for _, c := range all[from:to] {
			changes = append(changes, w.move(w.get(c.Job.ID), "cancel", lifecycle.Operator))
		}
		for _, r := range w.commitAll(changes...) {
			if r.Err != nil {
				w.Fatal(r.Err)
			}
		}
		if got := w.get(batch.ID).Children; to < n && got.Settled() {
			w.Fatalf("settled too early: %+v", got)
		}
	}
	w.create(all[:chunk]...)
	w.create(all[chunk : chunk+300]...)
	end(0, chunk+300) // all that exist have ended, and the list of open ones is empty
	for at := 0; at < n; at += chunk {
		now := w.get(batch.ID)
		if at%2 == 0 {
			w.create(all[at : at+chunk]...)
		} else {
			w.must(job.Change{Job: batch.ID, Version: now.Version, At: w.now(), Spawn: all[at : at+chunk]})
		}
	}
	same(w, "all created", w.get(batch.ID).Children,
		job.Children{Expected: n, Open: n - chunk - 300, Cancelled: chunk + 300})
	end(chunk+300, n)
	if got := w.get(batch.ID).Children; !got.Settled() || got.Cancelled != n {
		w.Errorf("at the end: %+v", got)
	}
	w.sound()
}

// childLastTwo has the last two jobs of a batch end at once, each by its own worker; each then checks whether the
// batch is to be reported (reliability experiment E17). Whatever the schedule, there is one report.
func childLastTwo(w *harness) {
	for seed := range w.scale(10_000, 100) {
		batch := w.moved(w.create(w.made(Batch, expecting(2)))[0], lifecycle.Worker, "begin")
		w.create(w.made(Step, parent(batch.ID)), w.made(Step, parent(batch.ID)))
		jobs := w.claim("w1", 2)
		var all sync.WaitGroup
		for i, e := range []lifecycle.Event{"cancel", "cancel"} {
			c := w.move(jobs[i], e, lifecycle.Owner)
			pauses := rand.New(rand.NewPCG(uint64(seed), uint64(i)))
			all.Go(func() {
				if err := endAndReport(w.Context(), w.st, c, batch.ID, pauses); err != nil {
					w.Errorf("seed %d: %v", seed, err)
				}
			})
		}
		all.Wait()
		reports := 0
		for _, e := range w.history(batch.ID) {
			if e.Event == "report" {
				reports++
			}
		}
		if reports != 1 {
			w.Fatalf("seed %d: %d reports, want 1", seed, reports)
		}
	}
}

// endAndReport ends a job and reports its batch if all jobs have ended, as an engine does.
func endAndReport(ctx context.Context, st job.Store, end job.Change, batch job.ID, pauses *rand.Rand) error {
	pause := func() {
		for range pauses.IntN(4) {
			runtime.Gosched()
		}
	}
	pause()
	if r, err := st.Commit(ctx, end); err != nil || r[0].Err != nil {
		return fmt.Errorf("end: %v, %+v", err, r)
	}
	for {
		pause()
		now, err := st.Get(ctx, batch)
		if err != nil || now.State != gathering || !now.Children.Settled() {
			return err
		}
		pause()
		report, err := Transition(Batch, now, "report", lifecycle.Engine, end.At)
		if err != nil {
			return err
		}
		report.Require.Settled = true
		r, err := st.Commit(ctx, report)
		if err != nil {
			return err
		}
		if kind := job.KindOf(r[0].Err); kind != job.Conflict {
			return r[0].Err
		}
	}
}
