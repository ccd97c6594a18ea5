package storetest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var createTests = []test{
	{"gives the jobs as they were made", createGives},
	{"numbers are unique within a kind", createNumbers},
	{"an ID that exists is not added again", createSameID},
	{"a key that exists for kind and owner is not added again", createSameKey},
	{"a key twice in one call makes one job", createKeyTwice},
	{"100 parallel creations with one key make one job", createParallel},
	{"all or none", createNone},
	{"the parent's counts change in the same commit", createCounts},
	{"a parent and its child in one call", createWhole},
	{"no more children than expected", createTooMany},
	{"no children of a parent that has ended", createOfEnded},
	{"a child that exists is given, although no more may be made", createChildAgain},
	{"outbox messages are written with the job", createOutbox},
}

func createGives(w *harness) {
	c := w.made(Step, owner("bob"), group("maps"), key("k1"), priority(7), func(j *job.Job) {
		j.Data, j.Message, j.Cause = []byte(`{"n":1}`), "hello", "new"
		j.Deadline, j.Expires = w.clock.Add(time.Hour), w.clock.Add(2*time.Hour)
		j.Due = w.clock.Add(time.Minute)
	})
	got := w.create(c)[0]
	want := c.Job
	want.Number = got.Number
	same(w, "created job", got, want)
	same(w, "job read back", w.get(c.Job.ID), want)
	same(w, "history", w.history(c.Job.ID), []job.Event{c.Event})
	w.sound()
}

func createNumbers(w *harness) {
	seen := map[job.Kind]map[int64]bool{stepKind: {}, batchKind: {}}
	for range 3 {
		for _, j := range w.create(w.made(Step), w.made(Batch), w.made(Step)) {
			if j.Number <= 0 || seen[j.Kind][j.Number] {
				w.Errorf("%s %s has number %d; taken: %v", j.Kind, j.ID, j.Number, seen[j.Kind])
			}
			seen[j.Kind][j.Number] = true
		}
	}
}

func createSameID(w *harness) {
	first := w.claimed(owner("bob"))
	before := w.snapshot(first.ID)
	again := w.made(Step, func(j *job.Job) { j.ID, j.Owner, j.Priority = first.ID, "carol", 1 })
	again.Outbox = []job.Message{{Key: "again", Job: first.ID, Topic: "mail", Due: w.now()}}
	fresh := w.made(Step)
	got := w.create(again, fresh)
	same(w, "the one that exists", got[0], before.Job)
	same(w, "its neighbour", got[1].ID, fresh.Job.ID)
	w.unchanged(before)
}

func createSameKey(w *harness) {
	first := w.step(owner("bob"), key("upload-1"))
	got := w.create(w.made(Step, owner("bob"), key("upload-1")), w.made(Step, owner("carol"), key("upload-1")),
		w.made(Batch, owner("bob"), key("upload-1")), w.made(Step, owner("bob"), key("upload-2")),
		w.made(Step, owner("bob")),
		w.made(Step, owner("bob")))
	same(w, "same kind, owner and key", got[0], first)
	seen := map[job.ID]bool{}
	for _, j := range got {
		seen[j.ID] = true
	}
	if len(seen) != 6 {
		w.Errorf("another owner, kind or key, or no key, must make another job: got %v", ids(got))
	}
	w.moved(w.get(first.ID), lifecycle.Operator, "cancel")
	again := w.create(w.made(Step, owner("bob"), key("upload-1")))[0]
	same(w, "a key stays taken when its job has ended", again.ID, first.ID)
	w.sound()
}

func createKeyTwice(w *harness) {
	got := w.create(w.made(Step, key("k")), w.made(Step, key("k")), w.made(Step))
	if got[0].ID != got[1].ID {
		w.Errorf("the key made two jobs: %v", ids(got))
	}
	if n := len(w.list(job.Query{})); n != 2 {
		w.Errorf("%d jobs exist, want 2", n)
	}
}

func createParallel(w *harness) {
	batch := w.create(w.made(Batch, expecting(1)))[0]
	const n = 100
	var made [n]job.Created
	for i := range made {
		made[i] = w.made(Step, owner("bob"), key("once"), parent(batch.ID))
	}
	var got [n]job.ID
	var all sync.WaitGroup
	for i := range made {
		all.Go(func() {
			jobs, err := w.st.Create(w.Context(), made[i])
			if err != nil {
				w.Errorf("create: %v", err)
				return
			}
			got[i] = jobs[0].ID
		})
	}
	all.Wait()
	for i := range got {
		if got[i] != got[0] {
			w.Fatalf("two jobs for one key: %s and %s", got[0], got[i])
		}
	}
	if n := len(w.list(job.Query{Kinds: []job.Kind{stepKind}})); n != 1 {
		w.Errorf("%d jobs exist, want 1", n)
	}
	same(w, "the batch counts it once", w.get(batch.ID).Children, job.Children{Expected: 1, Open: 1})
	w.sound()
}

func createNone(w *harness) {
	good, orphan := w.made(Step, key("k")), w.made(Step, parent("tst_nobody"))
	good.Outbox = []job.Message{{Key: "good", Job: good.Job.ID, Topic: "mail", Due: w.now()}}
	for _, list := range [][]job.Created{{good, orphan}, {orphan, good}} {
		if _, err := w.st.Create(w.Context(), list...); err == nil {
			w.Error("a child of a parent that does not exist was created")
		}
		if jobs := w.list(job.Query{}); len(jobs) > 0 {
			w.Errorf("the call failed and left %v", ids(jobs))
		}
		if m := w.taken(10, func(t *job.Taking) { t.Now = w.pass(time.Hour) }); len(m) > 0 {
			w.Errorf("the call failed and left messages: %v", m)
		}
	}
	same(w, "created after all", w.create(good)[0].ID, good.Job.ID)
	w.sound()
}

func createCounts(w *harness) {
	batch := w.create(w.made(Batch, expecting(3)))[0]
	w.step(parent(batch.ID), key("a"))
	same(w, "after one", w.get(batch.ID).Children, job.Children{Expected: 3, Open: 1})
	w.create(w.made(Step, parent(batch.ID), key("a")), w.made(Step, parent(batch.ID)), w.made(Step, parent(batch.ID)))
	after := w.get(batch.ID)
	same(w, "after three, one of them twice", after.Children, job.Children{Expected: 3, Open: 3})
	if after.Version <= batch.Version {
		w.Errorf("the batch changed and its version did not: %d, then %d", batch.Version, after.Version)
	}
	w.sound()
}

func createWhole(w *harness) {
	whole := w.create(w.made(Batch, expecting(1), func(j *job.Job) { j.ID = "tst_whole" }),
		w.made(Step, parent("tst_whole")))
	same(w, "parent and child in one call", w.get(whole[0].ID).Children, job.Children{Expected: 1, Open: 1})
	w.sound()
}

func createTooMany(w *harness) {
	batch := w.create(w.made(Batch, expecting(2)))[0]
	w.step(parent(batch.ID))
	before := w.snapshot(batch.ID)
	_, err := w.st.Create(w.Context(), w.made(Step, parent(batch.ID)), w.made(Step, parent(batch.ID)))
	w.refused(err, job.Refused)
	w.unchanged(before)
	_, err = w.commit(job.Change{Job: batch.ID, Version: before.Job.Version, At: w.now(),
		Spawn: []job.Created{w.made(Step, parent(batch.ID)), w.made(Step, parent(batch.ID))}})
	w.refused(err, job.Refused)
	w.unchanged(before)
	w.step(parent(batch.ID))
	w.sound()
}

func createOfEnded(w *harness) {
	batch := w.moved(w.create(w.made(Batch, expecting(2)))[0], lifecycle.Worker, "begin", "fail")
	_, err := w.st.Create(w.Context(), w.made(Step, parent(batch.ID)))
	w.refused(err, job.Refused)
	same(w, "counts", w.get(batch.ID).Children, job.Children{Expected: 2})
}

// createChildAgain has large and many jobs, of which a store that remembers what it wrote remembers the last.
func createChildAgain(w *harness) {
	for _, ended := range []bool{false, true} {
		for _, size := range []int{0, 5000, 100_000} {
			batch := w.create(w.made(Batch, expecting(1)))[0]
			child := w.made(Step, parent(batch.ID), func(j *job.Job) {
				j.Spec = fmt.Appendf(nil, `{"s":%q}`, strings.Repeat("x", size))
			})
			w.create(child)
			for range 20 {
				w.step()
			}
			if ended {
				w.moved(w.get(child.Job.ID), lifecycle.Operator, "cancel")
				w.moved(w.get(batch.ID), lifecycle.Worker, "begin", "fail")
			}
			same(w, "the child", w.create(child)[0].ID, child.Job.ID)
			_, err := w.st.Create(w.Context(), w.made(Step, parent(batch.ID)))
			w.refused(err, job.Refused)
		}
	}
	w.sound()
}

func createOutbox(w *harness) {
	c := w.made(Step)
	m := job.Message{Key: "k", Job: c.Job.ID, Topic: "mail", Body: []byte(`{"to":"bob"}`), Created: w.now(),
		Due: w.now()}
	c.Outbox = []job.Message{m}
	w.create(c)
	m.Number = 1
	same(w, "messages of the job", w.messages(c.Job.ID), []job.Message{m})
}
