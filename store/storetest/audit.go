package storetest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var auditTests = []test{
	{"what people do, and nothing else", auditPeople},
	{"holds and releases", auditHolds},
	{"an entry alone", auditAlone},
	{"what is refused leaves no entry", auditRefused},
	{"pages forwards and backwards", auditPages},
	{"pages of holds", auditHoldPages},
	{"goes on after the store is opened again", auditReopened},
	{"the address of a sender, in histories too", auditAddress},
}

// audited gives the whole list, checked.
func (w *harness) audited() []job.Audit {
	w.Helper()
	list, err := w.st.Audit(w.Context(), 0, 10_000)
	if err == nil {
		err = job.VerifyAudit(nil, list)
	}
	if err != nil {
		w.Fatalf("audit: %v", err)
	}
	return list
}

// unsealed gives entries without numbers and hashes, to be compared.
func unsealed(list []job.Audit) []job.Audit {
	list = slices.Clone(list)
	for i := range list {
		list[i].Seq, list[i].Prev, list[i].Hash = 0, job.Hash{}, job.Hash{}
	}
	return list
}

func auditPeople(w *harness) {
	var want []job.Audit
	j := w.step() // by its owner: not entered
	c := w.made(Step)
	c.Event.By, c.Event.Actor, c.Event.Note = lifecycle.Operator, "olga", "manually"
	c.Event.Seal(job.Hash{})
	c.Job.Head = c.Event.Hash
	w.create(c, c) // once
	want = append(want, job.AuditedCreate(&c))
	acts := []struct {
		event lifecycle.Event
		by    lifecycle.Actor
	}{
		{"hold", lifecycle.Operator}, {lifecycle.Reprioritize, lifecycle.Operator}, {"release", lifecycle.Operator},
		{"begin", lifecycle.Worker},
		{lifecycle.Lost, lifecycle.Timer}, {"cancel", lifecycle.Owner}, {"delete", lifecycle.Timer},
	}
	for i, a := range acts {
		change := w.move(j, a.event, a.by, note(fmt.Sprint("note ", i)), func(c *job.Change) {
			c.Epoch, c.Version, c.Seen, c.Actor = 0, j.Version, int64(i), "somebody"
			if a.event == lifecycle.Reprioritize {
				c.Set.Priority = ptr(9)
			}
		})
		if a.by&people != 0 {
			want = append(want, job.Audited(&change, &j))
		}
		j = w.must(change)
	}
	// no event
	w.must(job.Change{Job: j.ID, Version: j.Version, By: lifecycle.Operator, At: w.now(),
		Set: job.Fields{Message: ptr("news")}})
	got := w.audited()
	same(w, "entries", unsealed(got), want)
	same(w, "an entry names the priorities", got[2].Object, "priority 50 to 9")
	w.sound()
}

func auditHolds(w *harness) {
	put := job.Hold{Scope: job.Scope{Tag: "queue=a", Group: "maps"}, Who: "olga", Why: "a flood", Since: w.now(),
		Until: w.now()}
	w.hold(put)
	again := put
	again.Why, again.Since = "a larger flood", w.now()
	w.hold(again)
	release := job.Hold{Scope: put.Scope, Who: "otto", Why: "all is dry", Since: w.now()}
	did(w, "release", func() ([]job.Hold, error) { return w.st.Release(w.Context(), release) })
	_, err := w.st.Release(w.Context(), release)
	w.refused(err, job.NotFound)
	got := w.audited()
	same(w, "entries", unsealed(got),
		[]job.Audit{job.AuditedHold(&put), job.AuditedHold(&again), job.AuditedRelease(&release)})
	same(w, "what was released", got[2].Object, "group=maps queue=a")
}

func auditAlone(w *harness) {
	whole := job.Audit{By: lifecycle.Operator, Actor: "olga", Event: "break-lock", Object: "lock 7",
		Note: "its holder is gone", At: w.now()}
	for range 2 {
		if err := w.st.Note(w.Context(), whole); err != nil {
			w.Fatal(err)
		}
	}
	for name, spoil := range map[string]func(*job.Audit){
		"no actor": func(a *job.Audit) { a.Actor = "" }, "no event": func(a *job.Audit) { a.Event = "" },
	} {
		spoilt := whole
		spoil(&spoilt)
		if err := w.st.Note(w.Context(), spoilt); job.KindOf(err) != job.Invalid {
			w.Errorf("%s: %v, want kind invalid", name, err)
		}
	}
	same(w, "entries", unsealed(w.audited()), []job.Audit{whole, whole})
	same(w, "jobs", w.list(job.Query{}), nil)
}

// auditRefused makes changes that are refused, each in one call with one that passes.
func auditRefused(w *harness) {
	before := w.audited()
	for _, spoil := range []func(*job.Change){
		func(c *job.Change) { c.Version = 99 }, func(c *job.Change) { c.From = done },
		func(c *job.Change) { c.Require.Held = true },
		func(c *job.Change) { c.Job = "tst_nobody" }, func(c *job.Change) { c.Epoch = 7 },
	} {
		a, b := w.step(), w.step()
		good, bad := w.move(a, "cancel", lifecycle.Operator), w.move(b, "cancel", lifecycle.Operator)
		spoil(&bad)
		r := w.commitAll(bad, good)
		if r[0].Err == nil || r[1].Err != nil {
			w.Errorf("want a refusal and a success, got %v, %v", r[0].Err, r[1].Err)
		}
		got := w.audited()
		same(w, "entries", len(got), len(before)+1)
		same(w, "the entry", got[len(got)-1].Job, a.ID)
		before = got
	}
	w.sound()
}

func auditPages(w *harness) {
	for i := range 7 {
		one := job.Audit{By: lifecycle.Operator, Actor: "olga", Event: "test", Note: fmt.Sprint(i), At: w.now()}
		did(w, "note", func() (bool, error) { return true, w.st.Note(w.Context(), one) })
	}
	all := w.audited()
	for _, c := range []struct {
		seq  int64
		n    int
		want []job.Audit
	}{
		{0, 3, all[:3]}, {3, 2, all[3:5]}, {5, 100, all[5:]}, {7, 5, nil}, {99, 5, nil}, {0, 0, nil}, {0, -2, all[5:]},
		{0, -100, all},
		{6, -2, all[3:5]}, {3, -9, all[:2]}, {1, -9, nil}, {99, -1, all[6:]}, {-5, 2, all[:2]}, {-5, -2, all[5:]},
	} {
		got, err := w.st.Audit(w.Context(), c.seq, c.n)
		if err != nil {
			w.Errorf("%d of %d: %v", c.n, c.seq, err)
		}
		same(w, fmt.Sprintf("%d of %d", c.n, c.seq), got, c.want)
	}
	last := all[len(all)-1]
	last.Note = "somebody changed it"
	if job.VerifyAudit(&all[5], []job.Audit{last}) == nil {
		w.Error("a changed entry passes the check of the chain")
	}
}

// auditHoldPages has entries of holds among others: those of the events hold and release of a lifecycle, too.
func auditHoldPages(w *harness) {
	same(w, "of an empty log", len(w.auditHolds(0, 5)), 0)
	for i := range 3 {
		w.moved(w.moved(w.step(), lifecycle.Operator, "hold"), lifecycle.Operator, "release")
		w.hold(job.Hold{Scope: job.Scope{Group: fmt.Sprint(i)}, Who: "olga", Since: w.now()})
	}
	last := job.Hold{Scope: job.Scope{Group: "1"}, Who: "otto", Since: w.now()}
	did(w, "release", func() ([]job.Hold, error) { return w.st.Release(w.Context(), last) })
	for range 2 {
		var want []job.Audit
		for _, a := range w.audited() {
			if a.OfHold() {
				a.Prev = job.Hash{}
				want = append(want, a)
			}
		}
		same(w, "entries of holds", len(want), 4)
		same(w, "all", w.auditHolds(0, 100), want)
		same(w, "the first two", w.auditHolds(0, 2), want[:2])
		same(w, "the next two", w.auditHolds(want[1].Seq, 2), want[2:])
		same(w, "after an entry between", w.auditHolds(want[1].Seq-1, 1), want[1:2])
		same(w, "after the last", len(w.auditHolds(want[3].Seq, 2)), 0)
		if w.reopen != nil {
			w.restart()
		}
	}
}

func (w *harness) auditHolds(seq int64, n int) []job.Audit {
	w.Helper()
	list, err := w.st.AuditHolds(w.Context(), seq, n)
	if err != nil {
		w.Fatalf("audit of holds: %v", err)
	}
	return list
}

func auditReopened(w *harness) {
	before := w.audited()
	for i := range 4 {
		w.moved(w.step(), lifecycle.Operator, "hold")
		w.hold(job.Hold{Scope: job.Scope{Group: fmt.Sprint(i)}, Who: "olga", Since: w.now()})
		w.restart()
		got := w.audited()
		same(w, "entries", len(got), len(before)+2)
		same(w, "the older ones", got[:len(before)], before)
		before = got
	}
}

// auditAddress has two addresses: one that is written as it is, and one that is as long as one may be.
func auditAddress(w *harness) {
	const near = "192.0.2.7"
	far := strings.Repeat("f", job.MostAddress)
	c := w.made(Step)
	c.Event.By, c.Event.Actor, c.Event.Address = lifecycle.Operator, "olga", near
	c.Event.Seal(job.Hash{})
	c.Job.Head = c.Event.Hash
	j := w.create(c)[0]
	from := func(address string) func(*job.Change) {
		return func(c *job.Change) { c.Epoch, c.Version, c.Actor, c.Address = 0, j.Version, "olga", address }
	}
	j = w.must(w.move(j, "hold", lifecycle.Operator, from(far)))
	j = w.must(w.move(j, "release", lifecycle.Operator, from("")))
	held := job.Hold{Scope: job.Scope{Group: "maps"}, Who: "olga", Why: "a flood", Since: w.now(), Address: near}
	for _, h := range append(w.hold(held), w.holds()...) {
		same(w, "the address in a list of holds", h.Address, "")
	}
	held.Address = far
	did(w, "release", func() ([]job.Hold, error) { return w.st.Release(w.Context(), held) })
	alone := job.Audit{By: lifecycle.Operator, Actor: "olga", Event: "break-lock", At: w.now(), Address: near}
	did(w, "note", func() (bool, error) { return true, w.st.Note(w.Context(), alone) })
	for range 2 {
		var entered, acted []string
		history := w.history(j.ID)
		for _, e := range history {
			acted = append(acted, e.Address)
		}
		for _, a := range w.audited() {
			entered = append(entered, a.Address)
		}
		same(w, "addresses in the history", acted, []string{near, far, ""})
		same(w, "addresses in the audit log", entered, []string{near, far, "", near, far, near})
		if err := job.Verify(w.get(j.ID), history, Step); err != nil {
			w.Error(err)
		}
		if w.reopen != nil {
			w.restart()
		}
	}
}
