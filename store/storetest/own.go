package storetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

var ownTests = []test{
	{"records are the caller's own", ownRecords},
	{"what a caller passes stays its own", ownInput},
	{"arguments are not kept", ownArguments},
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
	known := w.get(j.ID)
	spoil(w.must(job.Change{Job: j.ID, Epoch: claimed[0].Epoch, Keep: true, At: w.now(), Known: &known}))
	check("a commit by a caller that has the record")
	spoil(known)
	answer := w.must(job.Change{Job: j.ID, Epoch: claimed[0].Epoch, Keep: true, At: w.now(), Known: &known})
	same(w, "the answer to a caller that has another record", []string{string(answer.Data), string(answer.Spec),
		answer.Tags[0]}, want)
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

// ownArguments uses the memory of arguments again.
func ownArguments(w *harness) {
	made := []job.Created{w.made(Step, tagged("queue=a")), w.made(Step)}
	made[0].Outbox = []job.Message{{Key: "m", Job: made[0].Job.ID, Topic: "mail", Due: w.now()}}
	id, other := made[0].Job.ID, made[1].Job.ID
	w.create(made...)
	made[0].Outbox[0] = job.Message{Key: "spoilt", Topic: "spoilt"}
	made[0], made[1] = made[1], job.Created{}
	same(w, "tags", w.get(id).Tags, []string{"queue=a"})
	same(w, "message", w.messages(id)[0].Topic, "mail")
	same(w, "tags of the other job", w.get(other).Tags, nil)

	text, cause, due, expected := "text", "cause", w.now().Add(time.Hour), 3
	changes := []job.Change{{Job: id, Version: 1, At: w.now(), Set: job.Fields{Message: &text, Cause: &cause, Due: &due,
		Expected: &expected}, Tasks: []job.Task{{Name: "t", Kind: "k", State: done}}},
		{Job: other, Version: 1, At: w.now()}}
	check := func() {
		w.Helper()
		j := w.get(id)
		same(w, "message", j.Message, "text")
		same(w, "cause", j.Cause, "cause")
		same(w, "due", j.Due.Unix(), w.clock.Add(time.Hour).Unix())
		same(w, "expected", j.Children.Expected, 3)
		same(w, "task", w.tasks(id)[0].Name, "t")
	}
	w.commitAll(changes...)
	changes[0].Tasks[0] = job.Task{Name: "spoilt"}
	changes[0], changes[1] = changes[1], job.Change{}
	text, cause, due, expected = "spoilt", "spoilt", due.Add(time.Hour), 9
	check()
	w.restart()
	check()
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

var contextTests = []test{{"that ends during a call loses no result", contextEnds}}

// endings are calls at the same time, each of which ends the context of another one when it returns: at any moment of
// that call.
type endings struct {
	st  job.Store
	now time.Time
	end [4]atomic.Pointer[context.CancelFunc] // of the present call of each caller

	mu      sync.Mutex        // guards all below
	given   map[job.ID]string // claimed jobs that a call returned: the worker
	created map[job.ID]bool   // jobs that a call returned
	taken   int               // messages that calls returned
	wrong   []error           // of another kind than Unavailable
}

// contextEnds makes creations with chains, claims and takes whose contexts end. Whatever is written then was returned:
// otherwise jobs are claimed without work on them, and a start or an attempt is counted for nothing.
func contextEnds(w *harness) {
	rounds := w.scale(200, 30)
	e := &endings{st: w.st, given: map[job.ID]string{}, created: map[job.ID]bool{}}
	var first, later []job.Created
	for i := range 2 * len(e.end) * rounds {
		one := w.made(Step)
		one.Outbox = []job.Message{{Key: string(one.Job.ID), Job: one.Job.ID, Topic: "mail", Created: one.Job.Created,
			Due: one.Job.Created}}
		if i%2 == 0 {
			first = append(first, one)
			e.created[one.Job.ID] = true
		} else {
			later = append(later, one)
		}
	}
	w.create(first...)
	e.now = w.now()
	var all sync.WaitGroup
	for n := range e.end {
		all.Go(func() {
			for i, one := range later[n*rounds : (n+1)*rounds] {
				ctx, end := context.WithCancel(w.Context())
				e.end[n].Store(&end)
				if e.call(ctx, i, fmt.Sprint("w", n, ".", i), one) {
					if next := e.end[(n+1)%len(e.end)].Load(); next != nil {
						(*next)()
					}
				}
				end()
			}
		})
	}
	all.Wait()
	// after what the store may still have of calls that have returned
	did(w, "note", func() (bool, error) {
		return true, w.st.Note(w.Context(), job.Audit{At: e.now, Event: "test", Actor: "alice"})
	})
	for _, err := range e.wrong {
		w.refused(err, job.Unavailable)
	}
	took := 0
	for q := (job.Query{Oldest: true, Limit: 1000}); ; {
		page := did(w, "list", func() (job.Page, error) { return w.st.List(w.Context(), q) })
		for _, j := range page.Jobs {
			if !e.created[j.ID] {
				w.Errorf("%s was created, and no call returned it", j.ID)
			}
			if j.Worker != e.given[j.ID] {
				w.Errorf("%s is claimed by %q; calls returned it to %q", j.ID, j.Worker, e.given[j.ID])
			}
			for _, m := range w.messages(j.ID) {
				took += m.Attempts
			}
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	same(w, "messages that were taken", took, e.taken)
}

// call makes call number i of a caller, and reports whether it has a result.
func (e *endings) call(ctx context.Context, i int, worker string, one job.Created) bool {
	var jobs []job.Job
	var messages []job.Message
	var err error
	switch i % 3 {
	case 0:
		one.Chain = &job.Chain{Worker: worker, Lease: time.Hour}
		jobs, err = e.st.Create(ctx, one)
	case 1:
		jobs, err = e.st.Claim(ctx, job.Claim{Worker: worker, N: 2, Now: e.now, Lease: time.Hour,
			From: []job.KindState{{Kind: stepKind, State: waiting}}})
	case 2:
		messages, err = e.st.Take(ctx, job.Taking{N: 2, Lease: time.Hour, Now: e.now})
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, j := range jobs {
		e.created[j.ID] = true
		if j.Claimed() {
			e.given[j.ID] = worker
		}
	}
	e.taken += len(messages)
	if err != nil && job.KindOf(err) != job.Unavailable {
		e.wrong = append(e.wrong, err)
	}
	return err == nil
}
