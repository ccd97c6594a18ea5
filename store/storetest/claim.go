package storetest

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var claimTests = []test{
	{"raises epoch and starts and names the worker", claimGives},
	{"an empty answer is no error", claimNothing},
	{"only from the named states", claimPlaces},
	{"at most N", claimAtMost},
	{"fewer than N of large jobs", claimLarge},
	{"lowest priority number first, then the oldest", claimOrder},
	{"priority goes before the owners' turns", claimPriorityFirst},
	{"a changed priority counts at once", claimPriorityChanged},
	{"owners in turn", claimOwners},
	{"owners in turn from call to call", claimOwnersByOne},
	{"nothing before its due time", claimDue},
	{"nothing that is claimed, however old the claim", claimClaimed},
	{"never the same job to two of 16 workers", claimParallel},
	{"a peek forecasts the next jobs and claims none", claimPeek},
	{"a peek names what keeps a job from being granted", claimReasons},
	{"a peek names the limits of its own claim", claimPeekLimits},
	{"a peek with a later time changes nothing", claimPeekLater},
	{"nothing that was due for a later claim only", claimEarlier},
	{"jobs that are due at any time, before 1970", claimBefore1970},
	{"starts are counted until a worker reports", claimStarts},
	{"suspects as the claim asks", claimSuspects},
	{"suspects after claims without them", claimSuspectsAgain},
}

func claimGives(w *harness) {
	before := w.step(owner("bob"), key("k"), group("maps"))
	ask := w.asks("w1", 5, nil)
	got, err := w.st.Claim(w.Context(), ask)
	if err != nil || len(got) != 1 {
		w.Fatalf("claim gave %v, %v", ids(got), err)
	}
	same(w, "claimed job", got[0], w.get(before.ID))
	if got[0].Version <= before.Version {
		w.Errorf("version %d after %d", got[0].Version, before.Version)
	}
	want := before
	want.Epoch, want.Starts, want.Worker, want.Until = before.Epoch+1, 1, "w1", ask.Now.Add(ask.Lease)
	want.Version, want.Changed = got[0].Version, got[0].Changed
	same(w, "claimed job", got[0], want)
	same(w, "a claim is no history entry", len(w.history(before.ID)), 1)
	w.sound()
}

func claimNothing(w *harness) {
	same(w, "claim on an empty store", ids(w.claim("w1", 3)), nil)
	w.moved(w.step(), lifecycle.Operator, "hold")
	same(w, "claim with nothing there", ids(w.claim("w1", 3)), nil)
	got, err := w.st.Claim(w.Context(), job.Claim{Worker: "w1", N: 1, Now: w.now()})
	if err != nil || len(got) > 0 {
		w.Errorf("a claim without a state returned %v, %v", ids(got), err)
	}
}

func claimPlaces(w *harness) {
	a, b := w.step(), w.moved(w.step(), lifecycle.Worker, "begin")
	w.create(w.made(Batch))
	w.moved(w.step(), lifecycle.Worker, "begin", "next")
	same(w, "one state", ids(w.claim("w1", 9, running)), []job.ID{b.ID})
	same(w, "two states", ids(w.claim("w1", 9, running, waiting)), []job.ID{a.ID})
	got, err := w.st.Claim(w.Context(), job.Claim{Worker: "w1", N: 9, Now: w.now(), Lease: time.Hour,
		From: []job.KindState{{Kind: batchKind, State: waiting}, {Kind: stepKind, State: checking}}})
	if err != nil || len(got) != 2 {
		w.Errorf("states of two kinds returned %v, %v", ids(got), err)
	}
}

func claimAtMost(w *harness) {
	for range 5 {
		w.step()
	}
	for _, n := range []int{2, 2, 1, 0} {
		if got := w.claim("w1", 2); len(got) != n {
			w.Errorf("claim of 2 gave %d, want %d", len(got), n)
		}
	}
}

func claimOrder(w *harness) {
	var want [100]job.ID
	for _, p := range []int{50, 0, 99, 7, 70, 49} {
		want[p] = w.step(priority(p)).ID
	}
	second := w.step(priority(7))
	third := w.moved(w.step(priority(7)), lifecycle.Worker, "begin")
	order := []job.ID{want[0], want[7], second.ID, third.ID, want[49], want[50], want[70], want[99]}
	same(w, "one by one", ids(w.claim("w1", 1, waiting, running)), order[:1])
	same(w, "the rest", ids(w.claim("w1", 9, waiting, running)), order[1:])
}

func claimPriorityFirst(w *harness) {
	other := w.step(owner("bob"), priority(2))
	var want []job.ID
	for range 3 {
		want = append(want, w.step(owner("ann"), priority(1)).ID)
	}
	same(w, "order", ids(w.claim("w1", 9)), append(want, other.ID))
}

func claimPriorityChanged(w *harness) {
	a, b := w.step(), w.step()
	w.must(job.Change{Job: b.ID, Version: b.Version, At: w.now(), Set: job.Fields{Priority: ptr(3)}})
	same(w, "order", ids(w.claim("w1", 1)), []job.ID{b.ID})
	same(w, "order", ids(w.claim("w1", 2)), []job.ID{a.ID})
}

// herd creates five jobs of ann, two of bob and one of cid, in this order, and one of ann's before all others in
// priority.
func herd(w *harness) []job.Job {
	var jobs []job.Job
	for _, name := range []string{"ann", "ann", "ann", "ann", "ann", "bob", "bob", "cid"} {
		jobs = append(jobs, w.step(owner(name)))
	}
	return jobs
}

// inTurn checks that owners got their turns: each once, then those with two jobs, then the rest; and that each
// owner's jobs went the oldest first.
func inTurn(w *harness, got []job.Job) {
	w.Helper()
	if len(got) != 8 {
		w.Fatalf("%d jobs were given, want 8", len(got))
	}
	last := map[string]job.ID{}
	for round, n := range []int{3, 2, 1, 1, 1} {
		var owners []string
		for _, j := range got[:n] {
			owners = append(owners, j.Owner)
			if j.ID < last[j.Owner] {
				w.Errorf("%s of %s comes after the younger %s", j.ID, j.Owner, last[j.Owner])
			}
			last[j.Owner] = j.ID
		}
		slices.Sort(owners)
		if want := []string{"ann", "bob", "cid"}[:min(n, 3)]; !slices.Equal(owners, want) {
			w.Errorf("round %d goes to %v, want %v", round+1, owners, want)
		}
		got = got[n:]
	}
}

func claimOwners(w *harness) {
	herd(w)
	inTurn(w, w.claim("w1", 8))
}

func claimOwnersByOne(w *harness) {
	herd(w)
	var got []job.Job
	for range 8 {
		got = append(got, w.claim("w1", 1)...)
	}
	inTurn(w, got)
}

func claimDue(w *harness) {
	at := w.now().Add(time.Hour)
	late := w.step(due(at), priority(1))
	now := w.step()
	same(w, "before it is due", ids(w.claim("w1", 9)), []job.ID{now.ID})
	w.pass(time.Hour)
	same(w, "when it is due", ids(w.claim("w1", 9)), []job.ID{late.ID})
	j := w.get(late.ID)
	back := w.must(job.Change{Job: j.ID, Epoch: j.Epoch, At: w.now(),
		Set: job.Fields{Due: ptr(w.now().Add(time.Minute))}})
	same(w, "after it was put off", ids(w.claim("w1", 9)), nil)
	w.must(job.Change{Job: j.ID, Version: back.Version, At: w.now(), Set: job.Fields{Due: ptr(time.Time{})}})
	same(w, "after that was undone", ids(w.claim("w1", 9)), []job.ID{late.ID})
}

func claimClaimed(w *harness) {
	j := w.claimed()
	same(w, "while it is claimed", ids(w.claim("w2", 9)), nil)
	w.pass(24 * time.Hour)
	same(w, "when the claim ran out", ids(w.claim("w2", 9)), nil)
	w.must(w.move(w.get(j.ID), lifecycle.Lost, lifecycle.Timer))
	got := w.claim("w2", 9)
	if len(got) != 1 || got[0].Worker != "w2" || got[0].Epoch <= j.Epoch {
		w.Errorf("after it was lost: %+v", got)
	}
}

func claimParallel(w *harness) {
	const n, workers = 200, 16
	var list []job.Created
	for i := range n {
		list = append(list, w.made(Step, owner(fmt.Sprint("o", i%5)), priority(i%3)))
	}
	w.create(list...)
	ask := w.asks("", 3, nil)
	var mu sync.Mutex
	seen := map[job.ID]string{}
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			mine := ask
			mine.Worker = fmt.Sprint("w", i)
			for range n + 1 {
				got, err := w.st.Claim(w.Context(), mine)
				if err != nil {
					w.Errorf("claim: %v", err)
				}
				if len(got) == 0 {
					return
				}
				mu.Lock()
				for _, j := range got {
					if other, taken := seen[j.ID]; taken || j.Worker != mine.Worker || j.Epoch != 1 {
						w.Errorf("%s went to %s as %+v and to %q", j.ID, mine.Worker, j, other)
					}
					seen[j.ID] = mine.Worker
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) != n {
		w.Errorf("%d jobs were given, want %d", len(seen), n)
	}
	w.sound()
}

// claimReasons peeks at jobs that a claim does not grant.
func claimReasons(w *harness) {
	ann, bob := w.step(owner("ann"), group("maps")), w.step(owner("bob"), group("maps"))
	cid := w.step(owner("cid"), group("books"), tagged("queue=a"))
	mine := job.Limit{Name: "each", Kind: stepKind, PerOwner: true, Max: 1}
	maps := job.Limit{Name: "maps", Kind: stepKind, Group: "maps", Guard: []lifecycle.State{waiting},
		Occupy: []lifecycle.State{running}, Max: 2}
	limits := []job.Limit{mine, maps, {Name: "other", Kind: batchKind, Max: 0}}
	w.must(w.move(w.claimWith("w1", 1, limits)[0], "begin", lifecycle.Worker)) // ann's, which now occupies maps
	second := w.step(owner("ann"), group("maps"))
	w.claimWith("w1", 1, limits, running)
	why := func(j job.Job) job.Forecast { return w.peek(w.asks("w1", 9, limits), j.ID) }
	uses := func(f job.Forecast) (all []string) {
		for i := range f.Limits {
			l := &f.Limits[i]
			all = append(all, fmt.Sprintf("%s %d/%d %v", l.Name, l.Active, l.Max, l.Full()))
		}
		return all
	}
	same(w, "of the owner whose share is full", uses(why(second)), []string{"each 1/1 true", "maps 1/2 false"})
	same(w, "of another owner", uses(why(bob)), []string{"each 0/1 false", "maps 1/2 false"})
	same(w, "of another group", uses(why(cid)), []string{"each 0/1 false"})
	same(w, "of one that is counted", uses(why(w.get(ann.ID))), nil)
	same(w, "of none", uses(w.peek(w.asks("w1", 9, limits), "tst_nobody")), nil)
	same(w, "granted", sortedIDs(why(second).Next), sortedIDs([]job.ID{bob.ID, cid.ID}))
	same(w, "no hold", why(bob).Hold, nil)
	w.put(job.Scope{Tag: "queue=a"}, time.Time{})
	w.put(job.Scope{Job: bob.ID}, w.now().Add(time.Hour))
	holds := w.holds()
	same(w, "a hold on a tag", why(cid).Hold, &holds[0])
	same(w, "a hold on the job", why(bob).Hold, &holds[1])
	same(w, "granted, with the holds", why(bob).Next, nil)
	w.pass(2 * time.Hour)
	same(w, "a hold that ended", why(bob).Hold, nil)
	w.sound()
}

func sortedIDs(list []job.ID) []job.ID { return slices.Sorted(slices.Values(list)) }

func claimPeek(w *harness) {
	herd(w)
	w.step(priority(1), due(w.now().Add(time.Hour)))
	w.put(job.Scope{Owner: "cid"}, time.Time{})
	ask := w.asks("w1", 5, steps(4))
	before := w.list(job.Query{})
	said := w.peek(ask, "").Next
	same(w, "jobs", w.list(job.Query{}), before)
	same(w, "asked again", w.peek(ask, "").Next, said)
	same(w, "jobs", w.list(job.Query{}), before)
	got, err := w.st.Claim(w.Context(), ask)
	if err != nil {
		w.Fatal(err)
	}
	same(w, "what is claimed", ids(got), said)
	same(w, "how many", len(got), 4)
	w.sound()
}

// claimPeekLimits peeks at a job of a kind from which the claim takes none, with other limits than the claim before.
func claimPeekLimits(w *harness) {
	batch := w.create(w.made(Batch, owner("ann")))[0]
	limits := func(name string, most int) []job.Limit {
		return []job.Limit{{Name: "steps", Kind: stepKind, Max: 1}, {Name: name, Kind: batchKind, Max: most}}
	}
	peek := func(limits []job.Limit, from ...job.KindState) []job.LimitUse {
		ask := w.asks("w1", 9, limits)
		ask.From = from
		return w.peek(ask, batch.ID).Limits
	}
	batches, other := job.KindState{Kind: batchKind, State: waiting}, job.KindState{Kind: stepKind, State: waiting}
	uses := func(all []job.Limit) []job.LimitUse { return []job.LimitUse{{Limit: all[1]}} }
	first, second := limits("first", 0), limits("second", 5)
	same(w, "of its own kind", peek(first, batches), uses(first))
	same(w, "of another kind", peek(second, other), uses(second))
	same(w, "of another kind, without limits", peek(nil, other), nil)
	same(w, "of no kind", peek(first), uses(first))
	same(w, "of both kinds", peek(second, other, batches), uses(second))
	same(w, "in another state", peek(first, job.KindState{Kind: batchKind, State: running}), uses(first))
	w.sound()
}

// claimPeekLater peeks with a later time at jobs that are not due, and then claims.
func claimPeekLater(w *harness) {
	later := w.now().Add(time.Hour)
	late := w.step(due(later), priority(1), owner("ann"))
	held := w.step(due(later), priority(2), owner("bob"))
	free := w.step(priority(3), owner("cid"))
	w.put(job.Scope{Job: held.ID}, time.Time{})
	suspect := w.step(due(later), priority(4))
	w.must(job.Change{Job: suspect.ID, Version: suspect.Version, At: w.now(),
		Set: job.Fields{Starts: ptr(job.SuspectStarts)}})
	ask := w.asks("w1", 9, nil)
	peek := func(at time.Time, of job.Suspects, share int) []job.ID {
		mine := ask
		mine.Now, mine.Suspects, mine.Ageing.Share = at, of, share
		return w.peek(mine, late.ID).Next
	}
	for range 2 {
		for _, share := range []int{0, 1} {
			same(w, "later", peek(later, job.NoSuspects, share), []job.ID{late.ID, free.ID})
			same(w, "now", peek(ask.Now, job.NoSuspects, share), []job.ID{free.ID})
		}
		same(w, "later, suspects", peek(later, job.OnlySuspects, 0), []job.ID{suspect.ID})
		same(w, "now, suspects", peek(ask.Now, job.OnlySuspects, 0), nil)
	}
	w.release(job.Scope{Job: held.ID})
	same(w, "claimed", ids(w.claim("w1", 9)), []job.ID{free.ID})
	w.pass(time.Hour)
	same(w, "claimed later", ids(w.claim("w1", 9)), []job.ID{late.ID, held.ID, suspect.ID})
	w.sound()
}

// claimEarlier claims with a later time and then with an earlier one, as when the clock of a caller is set back.
func claimEarlier(w *harness) {
	now := w.now()
	var jobs []job.Job
	for _, after := range []time.Duration{time.Hour, time.Hour, time.Minute} {
		jobs = append(jobs, w.step(due(now.Add(after))))
	}
	claim := func(at time.Time, n int) []job.ID {
		ask := w.asks("w1", n, nil)
		ask.Now = at
		return ids(did(w, "claim", func() ([]job.Job, error) { return w.st.Claim(w.Context(), ask) }))
	}
	same(w, "later", claim(now.Add(time.Hour), 1), []job.ID{jobs[0].ID})
	same(w, "earlier", claim(now.Add(time.Minute), 9), []job.ID{jobs[2].ID})
	same(w, "earlier again", claim(now.Add(time.Minute), 9), nil)
	same(w, "later again", claim(now.Add(time.Hour), 9), []job.ID{jobs[1].ID})
	w.sound()
}

// claimBefore1970 claims as a caller whose clock was never set. Two jobs are due at any time.
func claimBefore1970(w *harness) {
	first, suspect := w.step(), w.step()
	w.must(job.Change{Job: suspect.ID, Version: suspect.Version, At: w.now(),
		Set: job.Fields{Starts: ptr(job.SuspectStarts)}})
	w.step(due(time.UnixMicro(1)))
	ask := w.asks("w1", 9, nil)
	ask.Now = time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, share := range []int{0, 1} {
		ask.Ageing.Share = share
		same(w, "forecast", w.peek(ask, first.ID).Next, []job.ID{first.ID, suspect.ID})
	}
	ask.Ageing.Share, ask.Suspects = 0, job.OnlySuspects
	same(w, "forecast of suspects", w.peek(ask, suspect.ID).Next, []job.ID{suspect.ID})
	ask.Suspects = job.SuspectsToo
	got := did(w, "claim", func() ([]job.Job, error) { return w.st.Claim(w.Context(), ask) })
	same(w, "claimed", ids(got), []job.ID{first.ID, suspect.ID})
	w.sound()
}

func claimStarts(w *harness) {
	j := w.claimed()
	for n := 1; n <= 3; n++ {
		if j.Starts != n {
			w.Errorf("start %d is counted as %d", n, j.Starts)
		}
		w.must(w.move(j, lifecycle.Lost, lifecycle.Timer))
		j = w.claim("w1", 1)[0]
	}
	w.must(w.move(j, lifecycle.Yield, lifecycle.Worker))
	if j = w.claim("w1", 1)[0]; j.Starts != 1 {
		w.Errorf("%d starts after a worker gave it back alive, want 1", j.Starts)
	}
}
