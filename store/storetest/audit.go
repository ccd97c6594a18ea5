package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// auditTests are for stores that keep the audit log ([job.Auditor]); for others the test logs that it is absent.
var auditTests = []test{
	{"what people do, and nothing else", auditPeople},
	{"holds and releases", auditHolds},
	{"an entry alone", auditAlone},
	{"what is refused leaves no entry", auditRefused},
	{"pages forwards and backwards", auditPages},
	{"goes on after the store is opened again", auditReopened},
}

// audited gives the whole list, checked; ok is false for a store that keeps none.
func (w *harness) audited() (list []job.Audit, ok bool) {
	w.Helper()
	st, ok := w.st.(job.Auditor)
	if !ok {
		w.Log("this store keeps no audit log")
		return nil, false
	}
	list, err := st.Audit(w.Context(), 0, 10_000)
	if err == nil {
		err = job.VerifyAudit(nil, list)
	}
	if err != nil {
		w.Fatalf("audit: %v", err)
	}
	return list, true
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
	if _, ok := w.audited(); !ok {
		return
	}
	var want []job.Audit
	j := w.step() // by its owner: not entered
	c := w.made(Step)
	c.Event.By, c.Event.Actor, c.Event.Note = lifecycle.Operator, "olga", "by hand"
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
	got, _ := w.audited()
	same(w, "entries", unsealed(got), want)
	same(w, "an entry names the priorities", got[2].Object, "priority 50 to 9")
	w.sound()
}

func auditHolds(w *harness) {
	if _, ok := w.audited(); !ok {
		return
	}
	put := job.HoldChange{Hold: job.Hold{Scope: job.Scope{Tag: "queue=a", Group: "maps"}, Who: "olga", Why: "a flood",
		Since: w.now(), Until: w.now()}}
	w.hold(&put)
	again := put
	again.Hold.Why, again.Hold.Since = "a larger flood", w.now()
	w.hold(&again)
	release := job.HoldChange{Hold: job.Hold{Scope: put.Hold.Scope, Who: "otto", Why: "all is dry", Since: w.now()},
		Release: true}
	w.hold(&release)
	_, err := w.st.Hold(w.Context(), &release)
	w.refused(err, job.NotFound)
	got, _ := w.audited()
	same(w, "entries", unsealed(got),
		[]job.Audit{job.AuditedHold(&put), job.AuditedHold(&again), job.AuditedHold(&release)})
	same(w, "what was released", got[2].Object, "group=maps queue=a")
}

func auditAlone(w *harness) {
	if _, ok := w.audited(); !ok {
		return
	}
	whole := job.Change{By: lifecycle.Operator,
		Actor: "olga", Event: "break-lock", Note: "its holder is gone", At: w.now(),
		Set: job.Fields{Message: ptr("lock 7")}}
	w.must(whole)
	spoilt := map[string]job.Change{}
	for name, spoil := range map[string]func(*job.Change){
		"no actor": func(c *job.Change) { c.Actor = "" }, "no event": func(c *job.Change) { c.Event = "" },
		"with a message": func(c *job.Change) { c.Outbox = []job.Message{{Key: "k"}} },
		"with a purge":   func(c *job.Change) { c.Purge = true },
	} {
		c := whole
		spoil(&c)
		spoilt[name] = c
	}
	for name, c := range spoilt {
		if _, err := w.commit(c); job.KindOf(err) != job.Invalid {
			w.Errorf("%s: %v, want kind invalid", name, err)
		}
	}
	got, _ := w.audited()
	same(w, "entries", unsealed(got), []job.Audit{job.Audited(&whole, nil)})
	same(w, "its object", got[0].Object, "lock 7")
	same(w, "jobs", w.list(job.Query{}), nil)
}

// auditRefused makes changes that are refused, each in one call with one that passes.
func auditRefused(w *harness) {
	before, ok := w.audited()
	if !ok {
		return
	}
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
		got, _ := w.audited()
		same(w, "entries", len(got), len(before)+1)
		same(w, "the entry", got[len(got)-1].Job, a.ID)
		before = got
	}
	w.sound()
}

func auditPages(w *harness) {
	if _, ok := w.audited(); !ok {
		return
	}
	st := w.st.(job.Auditor)
	for i := range 7 {
		w.must(job.Change{By: lifecycle.Operator, Actor: "olga", Event: "test", Note: fmt.Sprint(i), At: w.now()})
	}
	all, _ := w.audited()
	for _, c := range []struct {
		seq  int64
		n    int
		want []job.Audit
	}{
		{0, 3, all[:3]}, {3, 2, all[3:5]}, {5, 100, all[5:]}, {7, 5, nil}, {99, 5, nil}, {0, 0, nil}, {0, -2, all[5:]},
		{0, -100, all},
		{6, -2, all[3:5]}, {3, -9, all[:2]}, {1, -9, nil}, {99, -1, all[6:]}, {-5, 2, all[:2]}, {-5, -2, all[5:]},
	} {
		got, err := st.Audit(w.Context(), c.seq, c.n)
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

func auditReopened(w *harness) {
	before, ok := w.audited()
	if !ok {
		return
	}
	for i := range 4 {
		w.moved(w.step(), lifecycle.Operator, "hold")
		w.hold(&job.HoldChange{Hold: job.Hold{Scope: job.Scope{Group: fmt.Sprint(i)}, Who: "olga", Since: w.now(),
			Until: time.Time{}}})
		w.restart()
		got, _ := w.audited()
		same(w, "entries", len(got), len(before)+2)
		same(w, "the older ones", got[:len(before)], before)
		before = got
	}
}
