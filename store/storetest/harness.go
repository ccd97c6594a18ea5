package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Step's and Batch's names as kinds.
var (
	stepKind  = job.Kind(Step.Name())
	batchKind = job.Kind(Batch.Name())
)

// harness is one test's store with a clock that moves by a millisecond whenever it is read, so that order is never a
// tie.
type harness struct {
	*testing.T
	st     job.Store
	reopen func() job.Store
	clock  time.Time
	ids    int
}

func newHarness(t *testing.T, open Open) *harness {
	t.Helper()
	st, reopen := open(t)
	if durable := st.Properties().Durable; durable != (reopen != nil) {
		t.Fatalf("Properties state Durable %v, and the store can be opened again: %v", durable, reopen != nil)
	}
	return &harness{T: t, st: st, reopen: reopen, clock: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)}
}

func (w *harness) now() time.Time {
	w.clock = w.clock.Add(time.Millisecond)
	return w.clock
}

// pass lets time go by.
func (w *harness) pass(d time.Duration) time.Time {
	w.clock = w.clock.Add(d)
	return w.now()
}

// made gives a new job of the lifecycle, to be created; ids rise in the order of calls.
func (w *harness) made(life *lifecycle.Table, with ...func(*job.Job)) job.Created {
	w.ids++
	j := job.Job{
		ID: job.ID(fmt.Sprintf("tst_%026d", w.ids)), Kind: job.Kind(life.Name()), Position: life.Start(),
		Priority: job.DefaultPriority, Definition: life.Hash(), Spec: json.RawMessage(`{"made":true}`),
	}
	for _, f := range with {
		f(&j)
	}
	j, e := job.New(j, lifecycle.Owner, "alice", w.now())
	return job.Created{Job: j, Event: e}
}

func (w *harness) create(list ...job.Created) []job.Job {
	w.Helper()
	jobs, err := w.st.Create(w.Context(), list...)
	if err != nil {
		w.Fatalf("create: %v", err)
	}
	if len(jobs) != len(list) {
		w.Fatalf("create gave %d jobs for %d", len(jobs), len(list))
	}
	return jobs
}

// step creates one job of the small lifecycle.
func (w *harness) step(with ...func(*job.Job)) job.Job {
	w.Helper()
	return w.create(w.made(Step, with...))[0]
}

func (w *harness) get(id job.ID) job.Job {
	w.Helper()
	j, err := w.st.Get(w.Context(), id)
	if err != nil {
		w.Fatalf("get %s: %v", id, err)
	}
	return j
}

func (w *harness) list(q job.Query) []job.Job {
	w.Helper()
	page, err := w.st.List(w.Context(), q)
	if err != nil {
		w.Fatalf("list %+v: %v", q, err)
	}
	return page.Jobs
}

// claim asks for up to n jobs of the small lifecycle in the states (Waiting if none is given).
func (w *harness) claim(worker string, n int, states ...lifecycle.State) []job.Job {
	w.Helper()
	return w.claimWith(worker, n, nil, states...)
}

func (w *harness) claimWith(worker string, n int, limits []job.Limit, states ...lifecycle.State) []job.Job {
	w.Helper()
	jobs, err := w.st.Claim(w.Context(), w.asks(worker, n, limits, states...))
	if err != nil {
		w.Fatalf("claim: %v", err)
	}
	return jobs
}

func (w *harness) asks(worker string, n int, limits []job.Limit, states ...lifecycle.State) job.Claim {
	if len(states) == 0 {
		states = []lifecycle.State{waiting}
	}
	now := w.now()
	c := job.Claim{Worker: worker, N: n, Now: now, Lease: time.Minute, Limits: limits}
	for _, s := range states {
		c.From = append(c.From, job.KindState{Kind: stepKind, State: s})
	}
	return c
}

// claimed creates a job and has worker w1 claim it.
func (w *harness) claimed(with ...func(*job.Job)) job.Job {
	w.Helper()
	j := w.step(with...)
	for _, got := range w.claim("w1", 1) {
		if got.ID == j.ID {
			return got
		}
	}
	w.Fatalf("the claim did not give %s, the only job that waits", j.ID)
	return j
}

// move makes the change of a move of the small lifecycles and lets f alter it.
func (w *harness) move(j job.Job, e lifecycle.Event, by lifecycle.Actor, f ...func(*job.Change)) job.Change {
	w.Helper()
	life := Step
	if j.Kind == batchKind {
		life = Batch
	}
	c, err := Transition(life, j, e, by, w.now())
	if err != nil {
		w.Fatal(err)
	}
	for _, one := range f {
		one(&c)
	}
	return c
}

// commit applies one change and gives what became of it.
func (w *harness) commit(c job.Change) (job.Job, error) {
	w.Helper()
	r := w.commitAll(c)[0]
	return r.Job, r.Err
}

func (w *harness) commitAll(c ...job.Change) []job.Result {
	w.Helper()
	results, err := w.st.Commit(w.Context(), c...)
	if err != nil {
		w.Fatalf("commit as a whole: %v", err)
	}
	if len(results) != len(c) {
		w.Fatalf("commit gave %d results for %d changes", len(results), len(c))
	}
	return results
}

// must is commit for changes that cannot be refused.
func (w *harness) must(c job.Change) job.Job {
	w.Helper()
	j, err := w.commit(c)
	if err != nil {
		w.Fatalf("commit %s of %s: %v", c.Event, c.Job, err)
	}
	return j
}

// moved makes the moves one after another, each by the actor, without claims.
func (w *harness) moved(j job.Job, by lifecycle.Actor, events ...lifecycle.Event) job.Job {
	w.Helper()
	for _, e := range events {
		j = w.must(w.move(j, e, by, func(c *job.Change) { c.Epoch, c.Version = 0, j.Version }))
	}
	return j
}

// refused checks the kind of an error, and that it is the error type of the contract.
func (w *harness) refused(err error, want job.ErrorKind) {
	w.Helper()
	var e *job.Error
	switch {
	case err == nil:
		w.Errorf("no error; want kind %s", want)
	case !errors.As(err, &e):
		w.Errorf("error %v is a %T, not a *job.Error", err, err)
	case e.Kind != want:
		w.Errorf("error %v has kind %s, want %s", err, e.Kind, want)
	}
}

func (w *harness) history(id job.ID) []job.Event {
	w.Helper()
	events, err := w.st.History(w.Context(), id, 0, 0)
	if err != nil {
		w.Fatalf("history of %s: %v", id, err)
	}
	return events
}

func (w *harness) tasks(id job.ID) []job.Task {
	w.Helper()
	tasks, err := w.st.Tasks(w.Context(), id)
	if err != nil {
		w.Fatalf("tasks of %s: %v", id, err)
	}
	return tasks
}

// messages gives all messages of a job, the oldest first.
func (w *harness) messages(id job.ID) []job.Message {
	w.Helper()
	return did(w, "messages", func() ([]job.Message, error) { return job.MessagesOf(w.Context(), w.st, id) })
}

func (w *harness) listed(q job.MessageQuery) []job.Message {
	w.Helper()
	return did(w, "messages", func() ([]job.Message, error) { return w.st.Messages(w.Context(), q) })
}

// taken takes due messages of all topics, or of those that f selects.
func (w *harness) taken(n int, f ...func(*job.Taking)) []job.Message {
	w.Helper()
	t := job.Taking{N: n, Lease: time.Minute, Now: w.now()}
	for _, one := range f {
		one(&t)
	}
	return did(w, "take", func() ([]job.Message, error) { return w.st.Take(w.Context(), t) })
}

func (w *harness) settle(messages ...job.Message) {
	w.Helper()
	did(w, "settle", func() (bool, error) { return true, w.st.Settle(w.Context(), messages...) })
}

func (w *harness) hold(h job.Hold) []job.Hold {
	w.Helper()
	return did(w, "hold", func() ([]job.Hold, error) { return w.st.Hold(w.Context(), h) })
}

func (w *harness) holds() []job.Hold {
	w.Helper()
	return did(w, "holds", func() ([]job.Hold, error) { return w.st.Holds(w.Context()) })
}

func (w *harness) peek(c job.Claim, id job.ID) job.Forecast {
	w.Helper()
	return did(w, "peek", func() (job.Forecast, error) { return w.st.Peek(w.Context(), c, id) })
}

// did gives the answer of an operation that cannot be refused.
func did[T any](w *harness, what string, f func() (T, error)) T {
	w.Helper()
	answer, err := f()
	if err != nil {
		w.Fatalf("%s: %v", what, err)
	}
	return answer
}

// snapshot is all that a store holds of one job.
type snapshot struct {
	Job      job.Job
	History  []job.Event
	Tasks    []job.Task
	Messages []job.Message
	Children []job.Job
}

func (w *harness) snapshot(id job.ID) snapshot {
	w.Helper()
	return snapshot{w.get(id), w.history(id), w.tasks(id), w.messages(id),
		w.list(job.Query{Parent: id})}
}

// unchanged checks that nothing of the job has changed since the snapshot.
func (w *harness) unchanged(before snapshot) {
	w.Helper()
	same(w, "job "+string(before.Job.ID), w.snapshot(before.Job.ID), before)
}

// same compares what a store gives back with what was put in; nil and empty are the same.
func same[T any](w *harness, what string, got, want T) {
	w.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		w.Errorf("%s differs (-want +got):\n%s", what, diff)
	}
}

// sound checks the whole store against its records.
func (w *harness) sound(lives ...*lifecycle.Table) {
	w.Helper()
	for _, fault := range Check(context.WithoutCancel(w.Context()), w.st, append(slices.Clip(lives), Step, Batch)...) {
		w.Error(fault)
	}
}

// ids lists the jobs' ids in their order.
func ids(jobs []job.Job) []job.ID {
	list := make([]job.ID, len(jobs))
	for i := range jobs {
		list[i] = jobs[i].ID
	}
	return list
}

// scale is how often a test repeats: fewer times on a store that writes to a disk.
func (w *harness) scale(inMemory, onDisk int) int {
	if w.st.Properties().Durable {
		return onDisk
	}
	return inMemory
}

// restart opens a durable store again, as after the end of its process; others stay as they are.
func (w *harness) restart() {
	if w.reopen != nil {
		w.st = w.reopen()
	}
}

func ptr[T any](v T) *T { return &v }

func owner(name string) func(*job.Job) { return func(j *job.Job) { j.Owner = name } }
func group(name string) func(*job.Job) { return func(j *job.Job) { j.Group = name } }
func tagged(tags ...string) func(*job.Job) {
	return func(j *job.Job) { j.Tags = job.Tagged(tags...) }
}
func sized(n int64) func(*job.Job)        { return func(j *job.Job) { j.Bytes = n } }
func priority(n int) func(*job.Job)       { return func(j *job.Job) { j.Priority = n } }
func parent(id job.ID) func(*job.Job)     { return func(j *job.Job) { j.Parent = id } }
func key(text string) func(*job.Job)      { return func(j *job.Job) { j.Key = text } }
func expecting(n int) func(*job.Job)      { return func(j *job.Job) { j.Children.Expected = n } }
func due(at time.Time) func(*job.Job)     { return func(j *job.Job) { j.Due = at } }
func without(c *job.Change)               { c.Epoch = 0 }
func note(text string) func(*job.Change)  { return func(c *job.Change) { c.Note = text } }
func sets(f job.Fields) func(*job.Change) { return func(c *job.Change) { c.Set = f } }
