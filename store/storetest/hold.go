package storetest

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var holdTests = []test{
	{"every scope keeps its jobs from being claimed", holdScopes},
	{"a job's hold concerns the jobs of the batch", holdBatch},
	{"ends by itself", holdUntil},
	{"put, replaced, released, listed", holdList},
	{"oldest first, those of one time by scope", holdOrder},
	{"releasing what is not held", holdNone},
	{"two holds on one job", holdTwo},
	{"a hold by tag concerns who has the tag now", holdTag},
	{"required: free of holds where it comes to", holdFree},
	{"required: held where it is", holdHeld},
	{"required: no hold where it is", holdUnheld},
	{"a job that moves comes under the hold of its new state", holdMoved},
	{"claimed jobs go on", holdClaimed},
	{"no claim slips through once a hold is put", holdRace},
}

func (w *harness) put(s job.Scope, until time.Time) []job.Hold {
	w.Helper()
	return w.hold(job.Hold{Scope: s, Who: "olga", Why: "a test", Since: w.now(), Until: until})
}

func (w *harness) release(s job.Scope) []job.Hold {
	w.Helper()
	return did(w, "release", func() ([]job.Hold, error) { return w.st.Release(w.Context(), job.Hold{Scope: s}) })
}

func holdScopes(w *harness) {
	inside := w.step(owner("ann"), group("maps"), tagged("queue=a", "place=main"))
	outside := w.moved(w.step(owner("bob"), group("books"), tagged("queue=b", "place=main")), lifecycle.Worker, "begin")
	batch := w.create(w.made(Batch))[0]
	places := []job.KindState{{Kind: stepKind, State: waiting}, {Kind: stepKind, State: running},
		{Kind: batchKind, State: waiting}}
	for _, s := range []job.Scope{
		{}, {Kind: stepKind}, {State: waiting}, {Group: "maps"}, {Owner: "ann"}, {Job: inside.ID},
		{Kind: stepKind, State: waiting, Group: "maps", Owner: "ann", Job: inside.ID}, {Kind: stepKind, Group: "books"},
		{Kind: batchKind, Group: "maps"}, {Owner: "nobody"},
		{Tag: "queue=a"}, {Tag: "place=main"}, {Tag: "queue=a", State: running},
		{Tag: "place=main", Kind: stepKind, Owner: "bob"}, {Tag: "queue"},
	} {
		w.put(s, time.Time{})
		var want []job.ID
		for _, j := range []job.Job{inside, outside, batch} {
			if now := w.get(j.ID); !s.Matches(&now) {
				want = append(want, j.ID)
			}
		}
		ask := w.asks("w1", 9, nil)
		ask.From = places
		got, err := w.st.Claim(w.Context(), ask)
		if err != nil {
			w.Fatal(err)
		}
		set := map[job.ID]bool{}
		for _, j := range got {
			set[j.ID] = true
			w.must(job.Change{Job: j.ID, Epoch: j.Epoch, At: w.now()})
		}
		for _, id := range want {
			if !set[id] {
				w.Errorf("hold of %s: %s is outside and was not given", s, id)
			}
		}
		if len(got) != len(want) {
			w.Errorf("hold of %s: claim gave %v, want %v", s, ids(got), want)
		}
		w.release(s)
		if got, err = w.st.Claim(w.Context(), ask); err != nil || len(got) != 3 {
			w.Errorf("after the release of %s: claim gave %v, %v", s, ids(got), err)
		}
		for _, j := range got {
			w.must(job.Change{Job: j.ID, Epoch: j.Epoch, At: w.now()})
		}
	}
}

func holdBatch(w *harness) {
	a, b := w.create(w.made(Batch, expecting(2)))[0], w.create(w.made(Batch, expecting(1)))[0]
	w.create(w.made(Step, parent(a.ID)))
	free := w.step(parent(b.ID))
	w.put(job.Scope{Job: a.ID}, time.Time{})
	late := w.step(parent(a.ID))
	same(w, "claim", ids(w.claim("w1", 9)), []job.ID{free.ID})
	got, err := w.st.Claim(w.Context(), job.Claim{Worker: "w1", N: 9, Now: w.now(), Lease: time.Hour,
		From: []job.KindState{{Kind: batchKind, State: waiting}}})
	if err != nil || len(got) != 1 || got[0].ID != b.ID {
		w.Errorf("claim of batches gave %v, %v", ids(got), err)
	}
	w.release(job.Scope{Job: a.ID})
	same(w, "children after the release", len(w.claim("w1", 9)), 2)
	same(w, "the younger child is claimed", w.get(late.ID).Worker, "w1")
}

func holdUntil(w *harness) {
	j := w.step(group("maps"))
	w.put(job.Scope{Group: "maps"}, w.now().Add(time.Hour))
	same(w, "while it is on", ids(w.claim("w1", 1)), nil)
	w.pass(time.Hour)
	same(w, "when it has run out", ids(w.claim("w1", 1)), []job.ID{j.ID})
}

func holdList(w *harness) {
	same(w, "none", w.holds(), nil)
	maps, all := job.Scope{Group: "maps"}, job.Scope{}
	first := w.put(maps, time.Time{})
	until := w.now().Add(time.Hour)
	holds := w.put(all, until)
	if len(first) != 1 || len(holds) != 2 {
		w.Fatalf("one, then two: %v, %v", first, holds)
	}
	same(w, "the first stays as it is", holds[0], first[0])
	same(w, "put", holds[1],
		job.Hold{Scope: all, Who: "olga", Why: "a test", Since: holds[1].Since, Until: until})
	same(w, "read again", w.holds(), holds)
	changed := w.hold(job.Hold{Scope: maps, Who: "otto", Why: "another reason", Since: first[0].Since})
	if len(changed) != 2 || changed[0].Who != "otto" || changed[0].Why != "another reason" {
		w.Errorf("replaced: %v", changed)
	}
	same(w, "after a release", w.release(all), changed[:1])
}

// holdOrder puts holds of one time in no order, between an older and a younger one.
func holdOrder(w *harness) {
	since := w.now()
	want := []string{"owner=zoe",
		"everything", "group=Maps", "group=maps", "group=maps owner=bob", "queue=a",
		"group=a"}
	for i, s := range []job.Scope{{Group: "maps"}, {Tag: "queue=a"}, {}, {Group: "maps", Owner: "bob"}, {Group: "Maps"},
		{Group: "a"}, {Owner: "zoe"}} {
		h := job.Hold{Scope: s, Who: "olga", Why: "a test", Since: since}
		switch i {
		case 5:
			h.Since = since.Add(time.Second)
		case 6:
			h.Since = since.Add(-time.Second)
		}
		w.hold(h)
	}
	ordered := func(what string) {
		w.Helper()
		var got []string
		for _, h := range w.holds() {
			got = append(got, h.Scope.String())
		}
		same(w, what, got, want)
	}
	ordered("in order")
	w.hold(job.Hold{Scope: job.Scope{}, Who: "otto", Why: "another reason", Since: since})
	ordered("one in place of an earlier one")
	w.restart()
	ordered("opened again")
}

func holdNone(w *harness) {
	w.put(job.Scope{Group: "maps"}, time.Time{})
	before := w.holds()
	for _, s := range []job.Scope{{}, {Group: "books"}, {Group: "maps", Kind: stepKind}} {
		_, err := w.st.Release(w.Context(), job.Hold{Scope: s})
		w.refused(err, job.NotFound)
	}
	same(w, "holds", w.holds(), before)
}

func holdTwo(w *harness) {
	j := w.step(group("maps"), owner("ann"))
	w.put(job.Scope{Group: "maps"}, time.Time{})
	w.put(job.Scope{Owner: "ann"}, time.Time{})
	w.release(job.Scope{Group: "maps"})
	same(w, "one is still on", ids(w.claim("w1", 1)), nil)
	w.release(job.Scope{Owner: "ann"})
	same(w, "both are off", ids(w.claim("w1", 1)), []job.ID{j.ID})
}

// holdTag opens the store again under the hold, and gives and takes the tag.
func holdTag(w *harness) {
	with, without := w.step(tagged("queue=a")), w.step()
	w.put(job.Scope{Tag: "queue=a"}, time.Time{})
	w.restart()
	same(w, "holds", w.holds()[0].Tag, "queue=a")
	same(w, "without the tag", ids(w.claim("w1", 9)), []job.ID{without.ID})
	w.must(job.Change{Job: with.ID, Version: with.Version, At: w.now(), Set: job.Fields{Tags: []string{}}})
	got := w.claim("w1", 9)
	same(w, "when it has lost the tag", ids(got), []job.ID{with.ID})
	w.must(job.Change{Job: with.ID, Epoch: got[0].Epoch, At: w.now(),
		Set: job.Fields{Tags: job.Tagged("place=x", "queue=a")}})
	same(w, "when it has it again", ids(w.claim("w1", 9)), nil)
	w.release(job.Scope{Tag: "queue=a"})
	same(w, "after the release", ids(w.claim("w1", 9)), []job.ID{with.ID})
	w.sound()
}

// holdFree releases a parked job into a state: refused while a hold concerns it there.
func holdFree(w *harness) {
	for _, c := range []struct {
		name  string
		scope job.Scope
		until time.Duration // after the hold was put
		want  job.ErrorKind
	}{
		{"no hold", job.Scope{Owner: "somebody else"}, 0, ""},
		{"its tag", job.Scope{Tag: "queue=a"}, 0, job.Refused},
		{"its group", job.Scope{Group: "maps"}, time.Hour, job.Refused},
		{"its batch", job.Scope{Job: "tst_the_batch"}, 0, job.Refused},
		{"where it comes to", job.Scope{State: waiting}, 0, job.Refused},
		{"where it is", job.Scope{State: parked}, 0, ""},
		{"one that has ended", job.Scope{Tag: "queue=a"}, time.Microsecond, ""},
	} {
		batch := w.made(Batch, expecting(9), func(j *job.Job) { j.ID = "tst_the_batch" })
		w.create(batch)
		j := w.moved(w.step(tagged("place=main", "queue=a"), group("maps"), parent("tst_the_batch")),
			lifecycle.Operator, "hold")
		until := time.Time{}
		if c.until > 0 {
			until = w.now().Add(c.until)
		}
		w.put(c.scope, until)
		before := w.snapshot(j.ID)
		release := w.move(j, "release", lifecycle.Operator, func(c *job.Change) { c.Require.Free = true })
		_, err := w.commit(release)
		if job.KindOf(err) != c.want {
			w.Errorf("%s: %v, want kind %q", c.name, err, c.want)
		}
		if c.want != "" {
			w.unchanged(before)
			w.release(c.scope)
			w.must(release) // the same change, when nothing holds it
		} else {
			w.release(c.scope)
		}
		w.moved(w.get(j.ID), lifecycle.Operator, "cancel")
	}
	w.sound()
}

// holdHeld parks a job because of a hold: refused when the hold is gone, as when it was released meanwhile.
func holdHeld(w *harness) {
	for _, c := range []struct {
		name  string
		scope job.Scope
		until time.Duration
		want  job.ErrorKind
	}{
		{"its tag", job.Scope{Tag: "queue=a"}, 0, ""},
		{"everything", job.Scope{}, time.Hour, ""},
		{"where it is", job.Scope{State: waiting}, 0, ""},
		{"where it comes to", job.Scope{State: parked}, 0, job.Conflict},
		{"others", job.Scope{Tag: "queue=b"}, 0, job.Conflict},
		{"one that has ended", job.Scope{Tag: "queue=a"}, time.Microsecond, job.Conflict},
	} {
		j := w.step(tagged("queue=a"))
		until := time.Time{}
		if c.until > 0 {
			until = w.now().Add(c.until)
		}
		w.put(c.scope, until)
		before := w.snapshot(j.ID)
		_, err := w.commit(w.move(j, "hold", lifecycle.Operator, func(c *job.Change) { c.Require.Held = true }))
		if job.KindOf(err) != c.want {
			w.Errorf("%s: %v, want kind %q", c.name, err, c.want)
		}
		if c.want != "" {
			w.unchanged(before)
		}
		w.release(c.scope)
	}
	j := w.step()
	_, err := w.commit(w.move(j, "hold", lifecycle.Operator, func(c *job.Change) { c.Require.Held = true }))
	w.refused(err, job.Conflict) // there is no hold at all
	w.sound()
}

// holdUnheld lets a worker begin only while nothing holds the job.
func holdUnheld(w *harness) {
	j := w.claimed(tagged("queue=a"))
	begin := w.move(j, "begin", lifecycle.Worker, func(c *job.Change) { c.Require.Unheld = true })
	w.put(job.Scope{Tag: "queue=a"}, time.Time{})
	before := w.snapshot(j.ID)
	_, err := w.commit(begin)
	w.refused(err, job.Refused)
	w.unchanged(before)
	w.release(job.Scope{Tag: "queue=a"})
	w.put(job.Scope{State: running}, time.Time{}) // where it comes to: no reason
	w.must(begin)
}

func holdMoved(w *harness) {
	j := w.claimed(group("maps"))
	w.put(job.Scope{State: running, Group: "maps"}, time.Time{})
	j = w.must(w.move(j, "begin", lifecycle.Worker))
	same(w, "in the new state", ids(w.claim("w1", 1, running)), nil)
	w.must(job.Change{Job: j.ID, Version: j.Version, At: w.now(), Set: job.Fields{Group: ptr("books")}})
	same(w, "in another group", ids(w.claim("w1", 1, running)), []job.ID{j.ID})
}

func holdClaimed(w *harness) {
	j := w.claimed()
	w.put(job.Scope{}, time.Time{})
	lost, err := w.st.Renew(w.Context(),
		job.Renewal{Worker: "w1", Leases: []job.Lease{{Job: j.ID, Epoch: j.Epoch}}, Lease: time.Hour, Now: w.now()})
	if err != nil || len(lost) > 0 {
		w.Errorf("renew: lost %v, %v", lost, err)
	}
	w.must(w.move(w.get(j.ID), "begin", lifecycle.Worker))
}

// holdRace puts a hold while workers claim. What was claimed before is claimed; afterwards nothing is.
func holdRace(w *harness) {
	var list []job.Created
	for range w.scale(300, 40) {
		list = append(list, w.made(Step))
	}
	w.create(list...)
	ask := w.asks("w1", 1, nil)
	var claims atomic.Int64
	var on atomic.Bool
	var all sync.WaitGroup
	begun := make(chan bool, 1)
	for range 4 {
		all.Go(func() {
			for {
				held := on.Load()
				got, err := w.st.Claim(w.Context(), ask)
				if err != nil {
					w.Errorf("claim: %v", err)
				}
				if held && len(got) > 0 {
					w.Errorf("%s was claimed after its hold", got[0].ID)
				}
				if held || len(got) == 0 {
					return
				}
				claims.Add(1)
				select {
				case begun <- true:
				default:
				}
			}
		})
	}
	<-begun
	w.put(job.Scope{Kind: stepKind}, time.Time{})
	on.Store(true)
	all.Wait()
	same(w, "nothing more", ids(w.claim("w1", 9)), nil)
	var claimed int64
	for _, t := range w.count() {
		claimed += t.Claimed
	}
	same(w, "claims", claimed, claims.Load())
}

var renewTests = []test{
	{"prolongs the claims that are held", renewHeld},
	{"gives the leases that are over", renewLost},
}

func renewHeld(w *harness) {
	a, b := w.claimed(), w.claimed()
	at := w.now()
	until := at.Add(2 * time.Hour)
	lost, err := w.st.Renew(w.Context(), job.Renewal{Worker: "w1", Lease: 2 * time.Hour, Now: at,
		Leases: []job.Lease{{Job: a.ID, Epoch: a.Epoch}, {Job: b.ID, Epoch: b.Epoch}}})
	if err != nil || len(lost) > 0 {
		w.Fatalf("lost %v, %v", lost, err)
	}
	for _, j := range []job.Job{a, b} {
		now := w.get(j.ID)
		if !now.Until.Equal(until) || now.Epoch != j.Epoch || now.Worker != "w1" || now.Starts != j.Starts {
			w.Errorf("renewed claim: %+v", now)
		}
		same(w, "a renewal is no history entry", now.Seq, j.Seq)
	}
	if _, err := w.st.Renew(w.Context(), job.Renewal{Worker: "w1", Lease: time.Hour, Now: w.now()}); err != nil {
		w.Errorf("nothing to renew: %v", err)
	}
	w.must(w.move(a, "begin", lifecycle.Worker)) // the epoch stays good
	w.sound()
}

func renewLost(w *harness) {
	good, back, fenced, other, again := w.claimed(), w.claimed(), w.claimed(), w.claimed(), w.claimed()
	w.must(job.Change{Job: back.ID, Epoch: back.Epoch, At: w.now()})
	w.must(w.move(fenced, "cancel", lifecycle.Operator))
	w.must(w.move(other, lifecycle.Lost, lifecycle.Timer))
	w.must(w.move(again, lifecycle.Lost, lifecycle.Timer))
	w.claim("w2", 1) // claims back's, the oldest
	w.claim("w1", 9) // the same worker under a new epoch
	var leases []job.Lease
	for _, j := range []job.Job{good, back, fenced, other, again, {ID: "tst_nobody", Epoch: 1}} {
		leases = append(leases, job.Lease{Job: j.ID, Epoch: j.Epoch})
	}
	before := []snapshot{w.snapshot(back.ID), w.snapshot(fenced.ID), w.snapshot(other.ID), w.snapshot(again.ID)}
	at := w.now()
	lost, err := w.st.Renew(w.Context(), job.Renewal{Worker: "w1", Leases: leases, Lease: time.Hour, Now: at})
	if err != nil {
		w.Fatal(err)
	}
	same(w, "lost leases", lost, leases[1:])
	same(w, "the one that is held", w.get(good.ID).Until, at.Add(time.Hour))
	for _, s := range before {
		w.unchanged(s)
	}
	now := w.get(back.ID) // held by w2
	lost, err = w.st.Renew(w.Context(),
		job.Renewal{Worker: "w1", Leases: []job.Lease{{Job: now.ID, Epoch: now.Epoch}}, Lease: time.Hour, Now: at})
	if now.Worker != "w2" || err != nil || len(lost) != 1 {
		w.Errorf("another worker's claim (%s) was renewed: lost %v, %v", now.Worker, lost, err)
	}
}
