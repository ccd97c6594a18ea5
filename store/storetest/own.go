package storetest

import (
	"bytes"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var ownTests = []test{
	{"records are the caller's own", ownRecords},
	{"what a caller passes stays its own", ownInput},
	{"tasks and messages are the caller's own", ownRest},
}

// spoil overwrites all that records refer to.
func spoil(jobs ...job.Job) {
	for i := range jobs {
		spoilBytes(jobs[i].Spec)
		spoilBytes(jobs[i].Data)
		for _, list := range [][]string{jobs[i].Tags, jobs[i].Requires} {
			for k := range list {
				list[k] = "spoilt=yes"
			}
		}
	}
}

func spoilBytes(b []byte) { copy(b, bytes.Repeat([]byte("#"), len(b))) }

// ownRecords overwrites each answer and reads the record again.
func ownRecords(w *harness) {
	data := func(j *job.Job) { j.Spec, j.Data = []byte(`{"s":1}`), []byte(`{"a":1}`) }
	made := w.create(w.made(Step, data, tagged("queue=a")), w.made(Step, data, tagged("queue=b")))
	want := []string{`{"a":1}`, `{"s":1}`, "queue=a"}
	check := func(what string) {
		w.Helper()
		j := w.get(made[0].ID)
		got := []string{string(j.Data), string(j.Spec), j.Tags[0]}
		same(w, "the record after its copy of "+what+" was overwritten", got, want)
	}
	spoil(made...)
	check("create")
	spoil(w.create(w.made(Step, data, func(j *job.Job) { j.ID = made[0].ID }))...)
	check("an existing job")
	j := w.get(made[0].ID)
	spoil(j)
	check("get")
	spoil(w.list(job.Query{})...)
	check("list")
	spoil(did(w, "numbered", func() (job.Job, error) { return w.st.Numbered(w.Context(), j.Kind, j.Number) }))
	check("number")
	spoil(did(w, "named", func() ([]job.Job, error) { return w.st.Named(w.Context(), string(j.ID), "", 1) })...)
	check("name")
	claimed := w.claim("w1", 2)
	spoil(claimed...)
	check("claim")
	spoil(w.list(job.Query{Worker: "w1"})...)
	check("the list of a worker")
	overdue := func() ([]job.Job, error) { return w.st.Overdue(w.Context(), w.clock.Add(time.Hour), nil, 9) }
	spoil(did(w, "overdue", overdue)...)
	check("overdue")
	spoil(w.must(job.Change{Job: j.ID, Epoch: claimed[0].Epoch, Keep: true, At: w.now()}))
	check("commit")
	refused, _ := w.commit(job.Change{Job: j.ID, Version: 99, At: w.now()})
	spoil(refused)
	check("a refused commit")
	want[0] = `{"b":2}`
	spoil(w.must(w.move(w.get(j.ID), "begin", lifecycle.Worker, sets(job.Fields{Data: []byte(want[0])}))))
	check("a commit of data")
	spoil(w.claim("w2", 1, running)...)
	check("a claim after it")
	w.sound()
}

// ownInput overwrites what was passed to the store.
func ownInput(w *harness) {
	c := w.made(Step, tagged("queue=a"), func(j *job.Job) { j.Data = []byte(`{"a":1}`) })
	c.Outbox = []job.Message{{Key: "m", Job: c.Job.ID, Topic: "mail", Body: []byte(`{"m":1}`), Due: w.now()}}
	j := w.create(c)[0]
	spoil(c.Job)
	spoilBytes(c.Outbox[0].Body)
	same(w, "data", string(w.get(j.ID).Data), `{"a":1}`)
	same(w, "tags", w.get(j.ID).Tags, []string{"queue=a"})
	same(w, "message", string(w.messages(j.ID)[0].Body), `{"m":1}`)
	change := job.Change{Job: j.ID, Version: j.Version, At: w.now(), Set: job.Fields{Data: []byte(`{"b":2}`),
		Tags: []string{"queue=b"}}, Tasks: []job.Task{{Name: "t", Kind: "k", State: done, Data: []byte(`{"t":1}`)}}}
	w.must(change)
	spoilBytes(change.Set.Data)
	spoilBytes(change.Tasks[0].Data)
	change.Set.Tags[0] = "spoilt=yes"
	same(w, "data of a change", string(w.get(j.ID).Data), `{"b":2}`)
	same(w, "tags of a change", w.get(j.ID).Tags, []string{"queue=b"})
	same(w, "task", string(w.tasks(j.ID)[0].Data), `{"t":1}`)
	same(w, "data of a claim", string(w.claim("w1", 1)[0].Data), `{"b":2}`)
	w.sound()
}

func ownRest(w *harness) {
	j := w.claimed()
	w.must(job.Change{Job: j.ID, Epoch: j.Epoch, Keep: true, At: w.now(),
		Tasks: []job.Task{{Name: "t", Kind: "k", State: done, Data: []byte(`{"t":1}`)}}})
	w.sends(j, "m", w.now())
	tried := []job.Attempt{{At: w.now(), Took: 7, Error: "no"}}
	w.settle(job.Message{Key: "m", Settled: job.Abandoned, Tried: tried})
	tried[0].Error = "spoilt"
	for range 2 {
		tasks, messages := w.tasks(j.ID), w.messages(j.ID)
		same(w, "task", string(tasks[0].Data), `{"t":1}`)
		same(w, "message", string(messages[0].Body), `{"n":"m"}`)
		same(w, "delivery", messages[0].Tried[0].Error, "no")
		spoilBytes(tasks[0].Data)
		spoilBytes(messages[0].Body)
		messages[0].Tried[0].Error = "spoilt"
	}
	for _, m := range did(w, "replay", func() ([]job.Message, error) {
		return w.st.Replay(w.Context(), w.now(), "m")
	}) {
		spoilBytes(m.Body)
	}
	for _, m := range w.take(1) {
		spoilBytes(m.Body)
	}
	same(w, "message", string(w.messages(j.ID)[0].Body), `{"n":"m"}`)
	w.sound()
}
