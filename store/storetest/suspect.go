package storetest

import (
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
)

// claimSuspects has jobs whose last two claims ended without a report: they are given, left out, or given alone, as
// the claim asks.
func claimSuspects(w *harness) {
	for range 2 {
		w.step(owner("ann"))
		w.step(owner("bob"), func(j *job.Job) { j.Priority = 1 })
	}
	all := w.list(job.Query{Oldest: true})
	suspects := []job.ID{all[0].ID, all[3].ID} // one of each owner, of different priorities
	for _, id := range suspects {
		j := w.get(id)
		if _, err := w.commit(job.Change{Job: id, Version: j.Version, At: w.now(),
			Set: job.Fields{Starts: ptr(job.SuspectStarts)}}); err != nil {
			w.Fatal(err)
		}
	}
	look := func(what job.Suspects, n int) []job.ID {
		ask := w.asks("w1", n, nil)
		ask.Suspects = what
		return w.peek(ask, "").Next
	}
	sorted := func(list []job.ID) []job.ID { slices.Sort(list); return list }
	for range 2 { // a peek changes nothing
		same(w, "all", len(look(job.SuspectsToo, 10)), 4)
		same(w, "suspects alone", sorted(look(job.OnlySuspects, 10)), sorted(slices.Clone(suspects)))
		same(w, "the others", sorted(look(job.NoSuspects, 10)), sorted([]job.ID{all[1].ID, all[2].ID}))
	}
	first := suspects[0]
	if w.get(suspects[1]).Priority < w.get(first).Priority {
		first = suspects[1]
	}
	same(w, "the suspect of the best priority", look(job.OnlySuspects, 1), []job.ID{first})
	w.restart()
	ask := w.asks("w1", 1, nil)
	ask.Suspects = job.OnlySuspects
	got, err := w.st.Claim(w.Context(), ask)
	if err != nil || len(got) != 1 || got[0].ID != first || got[0].Starts != job.SuspectStarts+1 {
		w.Fatalf("got %v, %v", got, err)
	}
	other := suspects[1]
	if first == other {
		other = suspects[0]
	}
	w.hold(job.Hold{Scope: job.Scope{Owner: w.get(other).Owner}, Who: "olga", Since: w.now()})
	same(w, "a suspect on hold", len(look(job.OnlySuspects, 1)), 0)
	reported := w.get(first)
	if j, err := w.commit(job.Change{Job: first, Epoch: reported.Epoch, At: w.now()}); err != nil || j.Starts != 0 {
		w.Fatalf("got %+v, %v", j, err)
	}
	same(w, "after its worker reported", len(look(job.OnlySuspects, 1)), 0)
}

// claimSuspectsAgain has claims that exclude suspects, and then ones that do not: a suspect is found by its age, and
// after a hold on it has ended.
func claimSuspectsAgain(w *harness) {
	suspect := w.step(group("maps"), priority(90))
	w.must(job.Change{Job: suspect.ID, Version: suspect.Version, At: w.now(),
		Set: job.Fields{Starts: ptr(job.SuspectStarts)}})
	w.pass(time.Hour)
	other := w.step(priority(95))
	first := func(what job.Suspects, share int) []job.ID {
		w.Helper()
		ask := w.asks("w1", 1, nil)
		ask.Suspects, ask.Ageing = what, job.Ageing{Share: share, Patience: time.Nanosecond}
		return w.peek(ask, "").Next
	}
	for _, share := range []int{0, 1} {
		same(w, "without suspects", first(job.NoSuspects, share), []job.ID{other.ID})
		same(w, "with suspects", first(job.SuspectsToo, share), []job.ID{suspect.ID})
	}
	w.put(job.Scope{Group: "maps"}, w.now().Add(time.Minute))
	for range 2 {
		same(w, "held", first(job.SuspectsToo, 0), []job.ID{other.ID})
	}
	same(w, "held, without suspects", first(job.NoSuspects, 0), []job.ID{other.ID})
	w.pass(time.Hour)
	same(w, "after the hold", first(job.SuspectsToo, 0), []job.ID{suspect.ID})
}
