package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Run is one attempt at the work of a state, or of several that a step walks through by Move: what a step sees of its
// job and what it may do besides returning. It belongs to the goroutine of the step; only Log and Progress may be
// called from others.
type Run struct {
	mu      sync.Mutex // guards writes of job, and what other goroutines read of it
	job     job.Job
	id      job.ID
	epoch   int64
	engine  *Engine
	work    *Work
	hands   *running // nil: the worker is outside
	actor   string   // the name of the worker
	term    *term
	began   time.Time // of the attempt, or when it came to the state by Move
	over    bool      // the step itself ended the claim
	set     job.Fields
	tasks   []job.Task
	outbox  []job.Message
	settled bool      // WaitChildren stated that all children have ended
	exact   bool      // Unchanged was called
	once    sync.Once // guards log
	log     *slog.Logger
}

// Job gives the record as of the claim or the last Save, Move or Fresh.
func (r *Run) Job() job.Job { return r.job }

// record takes a newer record.
func (r *Run) record(j job.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.job = j
}

// state is that of the record, for other goroutines.
func (r *Run) state() lifecycle.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.job.State
}

// Key names the work: the same for every attempt at this state of the job. The one who is asked to do something under
// the key does it once.
func (r *Run) Key() string { return fmt.Sprintf("%s/%s", r.job.ID, r.job.State) }

// Fence names this attempt: the job and the epoch of its claim. Directories and uploads that must not be shared with an
// earlier attempt carry it.
func (r *Run) Fence() string { return fmt.Sprintf("%s-e%d", r.job.ID, r.job.Epoch) }

// Now is the engine's time.
func (r *Run) Now() time.Time { return r.engine.clock.Now() }

// Last reports whether a retry of this attempt would be refused because the attempts are used up.
func (r *Run) Last() bool { return r.job.Attempts+1 >= r.work.policyFor(r.job.State).MaxAttempts }

// Spec decodes what the job was created with.
func (r *Run) Spec(into any) error { return decode(r.job, r.job.Spec, "spec", into) }

// Data decodes what steps have found out so far. Empty data leaves into as it is.
func (r *Run) Data(into any) error { return decode(r.job, r.job.Data, "data", into) }

func decode(j job.Job, text json.RawMessage, what string, into any) error {
	if len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return job.Errorf(job.Internal, "decode", j.ID, "%s: %w", what, err)
	}
	return nil
}

// SetData sets the job's data in the commit that ends the attempt.
func (r *Run) SetData(data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return job.Errorf(job.Internal, "encode", r.job.ID, "data: %w", err)
	}
	r.set.Data = text
	return nil
}

// SetMessage leaves a sentence for the user in the commit that ends the attempt.
func (r *Run) SetMessage(text string) { r.set.Message = &text }

// SetCause leaves one word for programs and filters in the commit that ends the attempt or moves the job. A cause that
// the outcome has itself stands.
func (r *Run) SetCause(word string) { r.set.Cause = &word }

// SetPriority changes the priority in the commit that ends the attempt, kept within 0..99.
func (r *Run) SetPriority(p int) {
	p = min(max(p, job.FirstPriority), job.LastPriority)
	r.set.Priority = &p
}

// SetTags sets what holds and limits name the job by, besides its group, in the commit that ends the attempt.
func (r *Run) SetTags(tags ...string) { r.set.Tags = append([]string{}, job.Tagged(tags...)...) }

// SetBytes states how large the work is, in the commit that ends the attempt.
func (r *Run) SetBytes(n int64) { r.set.Bytes = &n }

// Advanced states that the work of this job has come further under this claim, with the next commit: claims whose
// workers crashed before do not count towards poison any more. This one does, should its worker die.
func (r *Run) Advanced() {
	if r.job.Starts > 1 {
		one := 1
		r.set.Starts = &one
	}
}

// PutTask records a task's state in the next commit.
func (r *Run) PutTask(t job.Task) {
	t.Epoch, t.Changed = r.job.Epoch, r.Now()
	r.tasks = append(r.tasks, t)
}

// Tasks gives the recorded tasks of the job.
func (r *Run) Tasks(ctx context.Context) ([]job.Task, error) {
	return r.engine.store.Tasks(ctx, r.job.ID)
}

// Send puts a message into the outbox in the commit that ends the attempt. Its key must follow from the work alone.
func (r *Run) Send(topic, key string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return job.Errorf(job.Internal, "encode", r.job.ID, "message %s: %w", key, err)
	}
	now := r.Now()
	r.outbox = append(r.outbox, job.Message{Key: key, Job: r.job.ID, Topic: topic, Body: text, Created: now, Due: now})
	return nil
}

// Save commits what was set so far and goes on under the same claim. An error of kind Stale means that the claim is
// over: stop. Conflict means that a person moved the job to another state and left it to its worker: call Fresh. After
// any error but Stale it may be called again: nothing of what was set is forgotten.
func (r *Run) Save(ctx context.Context) error {
	c := r.take()
	c.Keep = true
	err := r.commit(ctx, c)
	if err != nil {
		r.set, r.tasks, r.outbox = c.Set, c.Tasks, c.Outbox
	}
	return err
}

// take empties the run into a change without an event.
func (r *Run) take() job.Change {
	c := job.Change{
		Job: r.job.ID, Epoch: r.job.Epoch, From: r.job.State, At: r.Now(), Actor: r.actor,
		Set: r.set, Tasks: r.tasks, Outbox: r.outbox,
	}
	r.set, r.tasks, r.outbox = job.Fields{}, nil, nil
	return c
}

func (r *Run) commit(ctx context.Context, c job.Change) error {
	before, after := r.job.Version, int64(0)
	r.hands.committing()
	defer func() { r.hands.committed(before, after) }()
	results, err := r.engine.store.Commit(ctx, c)
	if err != nil {
		return err
	}
	if results[0].Err != nil {
		return results[0].Err
	}
	after = results[0].Job.Version
	r.record(results[0].Job)
	return nil
}

// Spawn creates the n children that next gives, in chunks and under ids that follow from parent and number, so that a
// second attempt creates only those that are missing (reliability rule R8). The parent's Expected is set first.
// Children ended by then do not run again. Fewer than an earlier attempt expected are Refused: those that exist would
// never be waited for ([Run.Abandon] stops trying those that do not).
func (r *Run) Spawn(ctx context.Context, n int, next func(i int) (Order, error)) error {
	if was := r.job.Children.Expected; n < was {
		return job.Errorf(job.Refused, "spawn", r.job.ID, "%d jobs were expected before, %d are fewer: the same work must give the same jobs", was, n)
	}
	if r.job.Children.Expected != n {
		r.set.Expected = &n
		if err := r.Save(ctx); err != nil {
			return err
		}
	}
	const chunk = 500
	orders := make([]Order, 0, min(n, chunk))
	for i := range n {
		one, err := next(i)
		if err != nil {
			return err
		}
		if orders = append(orders, one); len(orders) == chunk || i == n-1 {
			if err := r.create(ctx, i+2-len(orders), orders); err != nil {
				return err
			}
			orders = orders[:0]
		}
	}
	return nil
}

// create creates children in one commit; first is the number of the first of them. No kind is removed meanwhile.
func (r *Run) create(ctx context.Context, first int, orders []Order) error {
	r.engine.defining.RLock()
	defer r.engine.defining.RUnlock()
	spawn := make([]job.Created, 0, len(orders))
	for i, one := range orders {
		one.Parent, one.ID = r.job.ID, ""
		made, err := r.engine.prepare(one, first+i, r.job.Created)
		if err != nil {
			return err
		}
		spawn = append(spawn, made)
	}
	c := r.take()
	c.Keep, c.Spawn = true, spawn
	return r.commit(ctx, c)
}

// Abandon stops trying the children that were never created: no more are expected than exist. It commits at once.
func (r *Run) Abandon(ctx context.Context) error {
	if err := r.Fresh(ctx); err != nil {
		return err
	}
	n := r.job.Children.Created()
	if n == r.job.Children.Expected {
		return nil
	}
	r.set.Expected = &n
	return r.Save(ctx)
}

// WaitChildren is what a step returns to wait until all its children have ended; the engine runs it again then. When
// they have, it gives nil, and the commit that ends the attempt requires that they still have: a retry in between lets
// the step run again.
func (r *Run) WaitChildren() error {
	c := r.job.Children
	if c.Settled() {
		r.settled = true
		return nil
	}
	r.settled = false
	return Wait(job.Blocker{
		Code: cause.Children, Sentence: fmt.Sprintf("%d of %d jobs have not ended", c.Expected-c.Created()+c.Open, c.Expected),
		Until: r.Now().Add(24 * time.Hour), Remedy: "nothing: it goes on by itself when they have ended",
	})
}

// Fresh reads the record again: for its children's counts, or because somebody else changed it ([Run.Changed]). The
// state may be another then, and its time counts. An error of kind Stale means that the claim is over.
func (r *Run) Fresh(ctx context.Context) error {
	j, err := r.engine.store.Get(ctx, r.job.ID)
	if err != nil {
		return err
	}
	if j.Epoch != r.job.Epoch || !j.Claimed() {
		return job.Errorf(job.Stale, "read", j.ID, "claim %d is over, the record is at %d", r.job.Epoch, j.Epoch)
	}
	r.hands.saw(j.Version)
	r.record(j)
	r.term.set(j.Expires)
	return nil
}

// Log is the job's log: it survives the worker and is shown to the user. It is that of the state in which it was first
// asked for.
func (r *Run) Log() *slog.Logger {
	r.once.Do(func() {
		r.log = r.engine.log
		if logs := r.engine.options.JobLogs; logs != nil {
			r.log = logs.Logger(r.id, r.epoch, r.state())
		}
	})
	return r.log
}

// Progress reports how far the work of this state has come. It is shown, not stored.
func (r *Run) Progress(done, total int64, unit string) {
	r.engine.progress.set(r.id, job.Progress{Done: done, Total: total, Unit: unit, State: r.state(), At: r.Now()})
}
