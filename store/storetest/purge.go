package storetest

import (
	"fmt"
	"slices"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var purgeTests = []test{
	{"nothing is left of it", purgeAll},
	{"its id and key are free, its numbers are not", purgeFrees},
	{"only tombstones, at their version, and alone", purgeRefused},
	{"not while jobs of the batch are recorded", purgeBatch},
	{"not while a message is on its way", purgeMessages},
	{"a cursor stays valid", purgeCursor},
	{"a person's purge is in the audit log", purgeAudited},
}

// tombstone creates a job and deletes it.
func (w *harness) tombstone(with ...func(*job.Job)) job.Job {
	w.Helper()
	return w.moved(w.step(with...), lifecycle.Operator, "cancel", "delete")
}

// purge is the change that purges a job.
func (w *harness) purge(j job.Job) job.Change {
	return job.Change{Job: j.ID, Version: j.Version, Purge: true, By: lifecycle.Timer, Actor: "retention", At: w.now()}
}

// gone checks that nothing of a job is left.
func (w *harness) gone(id job.ID) {
	w.Helper()
	_, err := w.st.Get(w.Context(), id)
	w.refused(err, job.NotFound)
	_, err = w.st.History(w.Context(), id, 0, 0)
	w.refused(err, job.NotFound)
	if tasks, err := w.st.Tasks(w.Context(), id); err == nil && len(tasks) > 0 || err != nil &&
		job.KindOf(err) != job.NotFound {
		w.Errorf("tasks of %s: %v, %v", id, tasks, err)
	}
	same(w, "messages", w.messages(id), nil)
	same(w, "messages in the list", w.listed(job.MessageQuery{Job: id}), nil)
	for _, q := range []job.Query{{}, {Oldest: true}, {States: []lifecycle.State{deleted}}, {Tag: "queue=a"},
		{Owner: "ann"}} {
		if slices.Contains(ids(w.list(q)), id) {
			w.Errorf("%s is still listed by %+v", id, q)
		}
	}
}

func purgeAll(w *harness) {
	stays := w.tombstone(group("maps"), sized(1))
	batch := w.create(w.made(Batch, expecting(1)))[0]
	j := w.claimed(owner("ann"), group("maps"), key("k"), tagged("queue=a"), sized(10), parent(batch.ID),
		func(j *job.Job) { j.Data = []byte(`{"a":1}`) })
	c := w.move(j, "cancel", lifecycle.Owner)
	c.Tasks = []job.Task{{Name: "t", Kind: "x", State: done, Changed: w.now()}}
	c.Outbox = []job.Message{{Key: "m", Job: j.ID, Topic: "mail", Created: w.now(), Due: w.now()},
		{Key: "n", Job: j.ID, Topic: "mail", Created: w.now(), Due: w.now()}}
	w.must(c)
	w.take(9)
	w.settle(job.Message{Key: "m", Settled: job.Delivered}, job.Message{Key: "n", Settled: job.Abandoned})
	j = w.moved(w.get(j.ID), lifecycle.Timer, "delete")
	parent := w.get(batch.ID)
	same(w, "what was purged", w.must(w.purge(j)), j)
	w.gone(j.ID)
	same(w, "the parent", w.get(batch.ID), parent)
	want := []job.Tally{
		{Kind: batchKind, State: waiting, Jobs: 1}, {Kind: stepKind, State: deleted, Group: "maps", Jobs: 1, Bytes: 1},
	}
	same(w, "tallies", w.count(), want)
	w.sound()
	_, err := w.commit(w.purge(j))
	w.refused(err, job.NotFound)
	w.restart()
	w.gone(j.ID)
	same(w, "tallies, opened again", w.count(), want)
	same(w, "another", w.get(stays.ID), stays)
	w.sound()
	both := w.commitAll(w.purge(stays), w.purge(stays))
	if both[0].Err != nil || job.KindOf(both[1].Err) != job.NotFound {
		w.Errorf("twice in one call: %v, %v", both[0].Err, both[1].Err)
	}
	w.moved(parent, lifecycle.Worker, "begin", "fail") // its counts are still right
	w.sound()
}

// purgeFrees purges the youngest of everything and creates it again, in the same store and in one that was opened anew.
func purgeFrees(w *harness) {
	numbers, messages := map[int64]bool{}, map[int64]bool{}
	for round := range 4 {
		c := w.made(Step, owner("ann"), key("k"), func(j *job.Job) { j.ID = "tst_again" })
		c.Outbox = []job.Message{{Key: "m", Job: "tst_again", Topic: "mail", Created: w.now(), Due: w.now()}}
		j := w.create(c)[0]
		same(w, "created", j.Created, c.Job.Created)
		m := w.messages(j.ID)[0]
		if numbers[j.Number] || messages[m.Number] {
			w.Errorf("round %d: number %d of the job or %d of the message was given before", round, j.Number, m.Number)
		}
		numbers[j.Number], messages[m.Number] = true, true
		same(w, "its history", len(w.history(j.ID)), 1)
		same(w, "who has the key", ids(w.list(job.Query{Key: "k"})), []job.ID{j.ID})
		w.settle(job.Message{Key: "m", Settled: job.Delivered})
		w.must(w.purge(w.moved(j, lifecycle.Operator, "cancel", "delete")))
		same(w, "no job has the key", ids(w.list(job.Query{Key: "k"})), nil)
		if round%2 == 0 {
			w.restart()
		}
		w.sound()
	}
}

func purgeRefused(w *harness) {
	gone, ended, live := w.tombstone(), w.moved(w.step(), lifecycle.Operator, "cancel"), w.step()
	held := w.claimed(priority(0))
	for _, c := range []struct {
		name  string
		j     job.Job
		spoil func(*job.Change)
		want  job.ErrorKind
	}{
		{"on its way", live, nil, job.Refused},
		{"claimed", held, nil, job.Refused},
		{"ended", ended, nil, job.Refused},
		{"without a version", gone, func(c *job.Change) { c.Version = 0 }, job.Invalid},
		{"another version", gone, func(c *job.Change) { c.Version++ }, job.Conflict},
		{"another state", gone, func(c *job.Change) { c.From = stopped }, job.Conflict},
		{"with an event", gone, func(c *job.Change) { c.Event = "delete" }, job.Invalid},
		{"with a message", gone, func(c *job.Change) { c.Outbox = []job.Message{{Key: "m", Job: c.Job}} }, job.Invalid},
		{"with a child", gone, func(c *job.Change) { c.Spawn = []job.Created{w.made(Step, parent(c.Job))} },
			job.Invalid},
		{"unknown", job.Job{ID: "tst_nobody", Version: 1}, nil, job.NotFound},
	} {
		change := w.purge(c.j)
		if c.spoil != nil {
			c.spoil(&change)
		}
		if _, err := w.commit(change); job.KindOf(err) != c.want {
			w.Errorf("%s: %v, want kind %s", c.name, err, c.want)
		}
	}
	same(w, "all are there", len(w.list(job.Query{})), 4)
	w.sound()
	w.must(w.purge(gone)) // the control
}

func purgeBatch(w *harness) {
	batch := w.create(w.made(Batch, expecting(3)))[0]
	var children []job.Job
	for range 3 {
		children = append(children, w.tombstone(parent(batch.ID)))
	}
	gone := w.moved(w.get(batch.ID), lifecycle.Worker, "begin", "fail")
	gone = w.moved(gone, lifecycle.Operator, "delete")
	_, err := w.commit(w.purge(gone))
	w.refused(err, job.Refused)
	w.must(w.purge(children[0]))
	_, err = w.commit(w.purge(gone))
	w.refused(err, job.Refused)
	w.restart()
	// with the last job the batch may go
	r := w.commitAll(w.purge(children[1]), w.purge(gone), w.purge(children[2]), w.purge(gone))
	for i, want := range []job.ErrorKind{"", job.Refused, "", ""} {
		if job.KindOf(r[i].Err) != want {
			w.Errorf("change %d: %v, want kind %q", i, r[i].Err, want)
		}
	}
	same(w, "jobs", w.list(job.Query{}), nil)
	same(w, "tallies", w.count(), nil)
	w.sound()
}

func purgeMessages(w *harness) {
	j := w.tombstone()
	w.sends(j, "a", w.now())
	w.sends(j, "b", w.now())
	w.settle(job.Message{Key: "a", Settled: job.Delivered})
	before := w.snapshot(j.ID)
	_, err := w.commit(w.purge(before.Job))
	w.refused(err, job.Refused)
	w.unchanged(before)
	w.settle(job.Message{Key: "b", Settled: job.Abandoned})
	w.must(w.purge(before.Job))
	w.gone(j.ID)
	other := w.step()
	w.sends(other, "a", w.now()) // the key is free too
	same(w, "messages of another", len(w.messages(other.ID)), 1)
}

// purgeCursor purges the job at which a page ended, and creates another, before the next page is asked for.
func purgeCursor(w *harness) {
	for _, oldest := range []bool{true, false} {
		var want []job.ID
		for range 6 {
			want = append(want, w.tombstone(group(fmt.Sprint(oldest))).ID)
		}
		if !oldest {
			slices.Reverse(want)
		}
		q := job.Query{Group: fmt.Sprint(oldest), Oldest: oldest, Limit: 3}
		first, err := w.st.List(w.Context(), q)
		if err != nil {
			w.Fatal(err)
		}
		same(w, "the first page", ids(first.Jobs), want[:3])
		w.must(w.purge(w.get(want[2])))
		w.must(w.purge(w.get(want[3])))
		w.restart()
		late := w.tombstone(group(fmt.Sprint(oldest))) // the newest: on a page to come only if the oldest go first
		rest := want[4:]
		if oldest {
			rest = append(rest, late.ID)
		}
		q.After = first.Next
		second, err := w.st.List(w.Context(), q)
		if err != nil {
			w.Fatal(err)
		}
		same(w, "the second page", ids(second.Jobs), rest)
	}
}

func purgeAudited(w *harness) {
	before := w.audited()
	j := w.tombstone()
	c := w.purge(j)
	c.By, c.Actor, c.Note = lifecycle.Operator, "olga", "personal data"
	w.must(c)
	got := w.audited()
	entry := got[len(got)-1]
	if len(got) != len(before)+3 || entry.Event != job.Purge || entry.Job != j.ID || entry.From != deleted ||
		entry.To != "" || entry.Note != "personal data" {
		w.Errorf("entries: %+v", got)
	}
	w.must(w.purge(w.tombstone()))
	if last := w.audited(); len(last) != len(got)+2 {
		w.Errorf("a timer's purge is entered: %+v", last)
	}
}
