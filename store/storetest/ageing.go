package storetest

import (
	"fmt"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var ageingTests = []test{
	{"a batch of the last priority gets through a steady stream", ageingBatch},
	{"not before the patience is over", ageingPatience},
	{"who came into the state first", ageingFirst},
	{"from all the states of the claim", ageingPlaces},
	{"holds and limits stand", ageingHolds},
	{"a dry claim reports the next job and changes nothing", ageingPeek},
	{"owners keep their turns", ageingOwners},
	{"after the store is opened again", ageingReopened},
}

// ages asks for up to n jobs with ageing.
func (w *harness) ages(n, share int, patience time.Duration, with ...func(*job.Claim)) []job.Job {
	w.Helper()
	ask := w.asks("w1", n, nil)
	ask.Ageing = job.Ageing{Share: share, Patience: patience}
	for _, f := range with {
		f(&ask)
	}
	got, err := w.st.Claim(w.Context(), ask)
	if err != nil {
		w.Fatalf("claim: %v", err)
	}
	return got
}

// ageingBatch claims one job after another while there are always more of priority 5 than are claimed.
func ageingBatch(w *harness) {
	const n, share = 8, 5
	stream := func(picks, share int) (last int) {
		for i := range picks {
			w.create(w.made(Step, priority(5)), w.made(Step, priority(5)))
			got := w.ages(1, share, time.Minute)
			if len(got) != 1 {
				w.Fatalf("pick %d gave %v", i, ids(got))
			}
			if got[0].Priority == 97 {
				last++
			}
			w.must(w.move(got[0], "begin", lifecycle.Worker))
		}
		return last
	}
	for range n {
		w.step(priority(97))
	}
	w.pass(time.Minute)
	same(w, "the control, priorities alone", stream(n*share, 0), 0)
	w.moved(w.step(priority(97)), lifecycle.Operator, "cancel")
	same(w, "of the batch", stream(n*share, share), n)
	w.sound()
}

func ageingPatience(w *harness) {
	old := w.step(priority(90))
	w.pass(time.Minute)
	var first []job.ID
	for range 3 {
		first = append(first, w.step(priority(5)).ID)
	}
	same(w, "too early", ids(w.ages(2, 1, time.Hour)), first[:2])
	w.pass(time.Hour)
	young := w.step(priority(1))
	same(w, "in its turn", ids(w.ages(1, 1, time.Hour)), []job.ID{old.ID})
	same(w, "no other job is that old", ids(w.ages(2, 1, 2*time.Hour)), []job.ID{young.ID, first[2]})
}

// ageingFirst goes by the time in the state: attempts do not make a job younger, moves do.
func ageingFirst(w *harness) {
	moved, again, back := w.step(priority(5)), w.step(priority(90)), w.step(priority(91))
	moved = w.moved(moved, lifecycle.Operator, "hold")
	w.pass(time.Minute)
	late := w.step(priority(0), owner("zoe"), tagged("queue=a"))
	w.moved(moved, lifecycle.Operator, "release") // now the youngest
	tried := w.ages(1, 1, time.Second)
	same(w, "the oldest", ids(tried), []job.ID{again.ID})
	w.must(w.move(tried[0], lifecycle.Backoff, lifecycle.Worker, sets(job.Fields{Due: ptr(w.now().Add(time.Minute))})))
	w.must(job.Change{Job: back.ID, Version: back.Version, At: w.now(),
		Set: job.Fields{Tags: job.Tagged("queue=b"), Priority: ptr(99)}})
	w.pass(2 * time.Minute)
	same(w, "with attempts and tags changed", ids(w.ages(9, 1, time.Second)),
		[]job.ID{again.ID, back.ID, late.ID, moved.ID})
}

func ageingPlaces(w *harness) {
	a := w.step(priority(90))
	b := w.step(priority(91))
	c := w.moved(w.step(priority(92)), lifecycle.Worker, "begin")
	w.moved(b, lifecycle.Operator, "hold", "release")               // came after c
	w.moved(w.step(priority(0)), lifecycle.Worker, "begin", "next") // in a state that is not requested
	w.pass(time.Minute)
	got := w.ages(9, 1, time.Second,
		func(c *job.Claim) { c.From = append(c.From, job.KindState{Kind: stepKind, State: running}) })
	same(w, "order", ids(got), []job.ID{a.ID, c.ID, b.ID})
}

func ageingHolds(w *harness) {
	held := []job.Job{w.step(priority(80), tagged("queue=a")), w.step(priority(81), owner("ann")), w.step(priority(82))}
	for _, s := range []job.Scope{{Tag: "queue=a"}, {Owner: "ann"}, {Job: held[2].ID}} {
		w.put(s, time.Time{})
	}
	busy := w.claimWith("w2", 1, nil)
	same(w, "nothing is free", ids(busy), nil)
	limited := w.step(priority(83), owner("bob"))
	more := w.step(priority(84), owner("bob"))
	free := w.step(priority(85))
	w.pass(time.Hour)
	young := w.step(priority(1))
	limits := steps(1, func(l *job.Limit) { l.PerOwner = true })
	limits[0].Owner = "bob"
	with := func(c *job.Claim) { c.Limits = limits }
	same(w, "past held and limited jobs", ids(w.ages(9, 1, time.Minute, with)), []job.ID{limited.ID, free.ID, young.ID})
	for _, h := range w.holds() {
		w.release(h.Scope)
	}
	same(w, "after the release", ids(w.ages(9, 1, time.Minute, with)), ids(held))
	w.must(w.move(w.get(limited.ID), "begin", lifecycle.Worker))
	same(w, "when the limit allows", ids(w.ages(9, 1, time.Minute, with)), []job.ID{more.ID})
	w.sound()
}

func ageingPeek(w *harness) {
	for i := range 12 {
		w.step(priority(90-i), owner(fmt.Sprint("o", i%3)), tagged(fmt.Sprint("queue=", i%2)))
	}
	w.put(job.Scope{Tag: "queue=1", Owner: "o1"}, time.Time{})
	w.pass(time.Hour)
	w.ages(1, 3, time.Minute) // so that the next turn by age is not the first
	for range 3 {
		var first []job.ID
		peek := func(c *job.Claim) { first, c.N = w.peek(*c, "").Next, 0 }
		w.ages(3, 3, time.Minute, peek)
		again := first
		w.ages(3, 3, time.Minute, peek)
		same(w, "asked again", again, first)
		same(w, "what is claimed", ids(w.ages(3, 3, time.Minute)), first)
	}
	w.sound()
}

// ageingOwners has two owners in a steady stream, and a third whose old jobs are let in between.
func ageingOwners(w *harness) {
	for range 20 {
		w.step(priority(97), owner("cid"))
	}
	w.pass(time.Hour)
	given := map[string]int{}
	for range 40 {
		w.create(w.made(Step, priority(5), owner("ann")), w.made(Step, priority(5), owner("bob")))
		for _, j := range w.ages(1, 5, time.Minute) {
			given[j.Owner]++
			w.must(w.move(j, "begin", lifecycle.Worker))
		}
	}
	same(w, "given", given, map[string]int{"ann": 16, "bob": 16, "cid": 8})
}

func ageingReopened(w *harness) {
	var want []job.ID
	for i := range 5 {
		want = append(want, w.step(priority(90-i), owner(fmt.Sprint("o", i))).ID)
	}
	w.moved(w.get(want[0]), lifecycle.Operator, "hold", "release") // the youngest
	want = append(want[1:], want[0])
	w.pass(time.Hour)
	w.restart()
	same(w, "order", ids(w.ages(9, 1, time.Minute)), want)
}
