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
	"github.com/stagepost/stagepost/job/words"
	"github.com/stagepost/stagepost/lifecycle"
)

// Run is one attempt at the work of a state, or of several if the step moves its job: the step reads and changes its
// job by it. Only the goroutine of the step uses it; other goroutines may call Log and Progress.
type Run struct {
	mu      sync.Mutex // guards log, writes of job and epoch, and what other goroutines read of them
	job     job.Job
	id      job.ID
	epoch   int64
	engine  *Engine // nil: this process is a remote worker ([RemoteRun])
	in      *surroundings
	backend backend // nil: the report of a remote worker
	work    *Work
	running *running // claim; nil: the report of a remote worker
	claim   running
	lasting context.Context // of commits: it does not end with the claim
	actor   string          // the name of the worker
	term    *term
	began   time.Time // of the attempt, or of the last Move
	over    bool      // the step itself ended the claim
	wants   settings
	settled bool         // WaitChildren found that all children have ended
	exact   bool         // Unchanged was called
	log     *slog.Logger // nil until Log is called
}

// settings are what a step sets for its next commit.
type settings struct {
	set    job.Fields
	tasks  []job.Task
	outbox []job.Message
}

// newAttempt begins the next attempt with the record: at the same state or the next, under the same claim or a newer
// one of the same worker.
func (r *Run) newAttempt() {
	r.mu.Lock()
	r.epoch, r.log = r.job.Epoch, nil
	r.mu.Unlock()
	r.wants = settings{}
	r.settled, r.exact = false, false
	r.began = r.Now()
}

// Job returns the record as of the claim or the last Save, Move or Fresh.
func (r *Run) Job() job.Job { return r.job }

// record replaces the record by a newer one.
func (r *Run) record(j *job.Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.job = *j
}

// state returns the state of the record, for other goroutines.
func (r *Run) state() lifecycle.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.job.State
}

// Key names the work: it is the same for every attempt at this state of the job. Systems outside that deduplicate by it
// do the work once.
func (r *Run) Key() string { return fmt.Sprintf("%s/%s", r.job.ID, r.job.State) }

// Fence names this attempt: the job and the epoch of its claim. It belongs in the names of directories and uploads that
// must not be shared with an earlier attempt.
func (r *Run) Fence() string { return fmt.Sprintf("%s-e%d", r.job.ID, r.job.Epoch) }

// Now returns the engine's time.
func (r *Run) Now() time.Time { return r.in.clock.Now() }

// Last reports whether a retry of this attempt would be refused because the attempts are used up.
func (r *Run) Last() bool { return r.job.Attempts+1 >= r.work.policyFor(r.job.State).MaxAttempts }

// Spec decodes the job's specification.
func (r *Run) Spec(into any) error { return decode(r.job, r.job.Spec, "spec", into) }

// Data decodes the data that steps have stored. If there is none, into is not changed.
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
	r.wants.set.Data = text
	return nil
}

// SetMessage sets a sentence for the user in the commit that ends the attempt.
func (r *Run) SetMessage(text string) { r.wants.set.Message = &text }

// SetCause sets one word for programs and filters in the commit that ends the attempt or moves the job. A cause of the
// outcome has precedence.
func (r *Run) SetCause(word string) { r.wants.set.Cause = &word }

// SetPriority sets the priority in the commit that ends the attempt, limited to 0..99.
func (r *Run) SetPriority(p int) {
	p = min(max(p, job.FirstPriority), job.LastPriority)
	r.wants.set.Priority = &p
}

// SetTags sets the tags that holds and limits can name, in the commit that ends the attempt.
func (r *Run) SetTags(tags ...string) { r.wants.set.Tags = append([]string{}, job.Tagged(tags...)...) }

// SetWords sets the texts by whose words people find the job, such as a title and the name of a file, in the commit
// that ends the attempt.
func (r *Run) SetWords(texts ...string) {
	w := words.Of(texts...)
	r.wants.set.Words = &w
}

// SetBytes sets the size of the work in the commit that ends the attempt.
func (r *Run) SetBytes(n int64) { r.wants.set.Bytes = &n }

// SetDeadline sets when the job must have ended, in the commit that ends the attempt or moves the job; zero is no
// deadline. It counts from the state that the commit leads to.
func (r *Run) SetDeadline(at time.Time) { r.wants.set.Deadline = &at }

// Advanced states with the next commit that the work has progressed under this claim: earlier claims without a report
// no longer count towards poison. This one counts if its worker crashes.
func (r *Run) Advanced() {
	if r.job.Starts > 1 {
		one := 1
		r.wants.set.Starts = &one
	}
}

// PutTask records a task's state in the next commit.
func (r *Run) PutTask(t job.Task) {
	t.Epoch, t.Changed = r.job.Epoch, r.Now()
	r.wants.tasks = append(r.wants.tasks, t)
}

// Tasks returns the recorded tasks of the job.
func (r *Run) Tasks(ctx context.Context) ([]job.Task, error) {
	return r.backend.tasks(ctx, r)
}

// Send adds a message to the outbox in the commit that ends the attempt. Its key must follow from the work alone.
func (r *Run) Send(topic, key string, body any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return job.Errorf(job.Internal, "encode", r.job.ID, "message %s: %w", key, err)
	}
	now := r.Now()
	m := job.Message{Key: key, Job: r.job.ID, Topic: topic, Body: text, Created: now, Due: now}
	r.wants.outbox = append(r.wants.outbox, m)
	return nil
}

// Save commits what was set so far and keeps the claim. An error of kind Stale means that the claim is over: stop.
// Conflict means that a person moved the job to another state and left it to its worker: call Fresh. After any error
// but Stale it may be called again, with everything that was set.
func (r *Run) Save(ctx context.Context) error {
	set := r.wants
	err := r.backend.save(ctx, r)
	if err != nil {
		r.wants = set
	}
	return err
}

// takeSet returns what was set, which the next commit does not have any more.
func (r *Run) takeSet() settings {
	set := r.wants
	r.wants = settings{}
	return set
}

// update makes a change without an event of what was set. The claim stays.
func (r *Run) update() *transition {
	t, set := r.begin(), r.takeSet()
	t.underClaim(r.actor)
	t.From, t.Keep = r.job.State, true
	t.Set, t.Tasks, t.Outbox = set.set, set.tasks, set.outbox
	return t
}

func (r *Run) commit(ctx context.Context, t *transition) error {
	before, after := r.job.Version, int64(0)
	r.running.committing()
	defer func() { r.running.committed(before, after) }()
	next, err := r.engine.one(ctx, t)
	if err != nil {
		return err
	}
	after = next.Version
	r.record(&next)
	t.free()
	return nil
}

// Spawn creates n children from the orders that next returns. Their ids follow from the parent and their number, so
// that a second attempt creates only those that are missing (reliability rule R8); existing children do not run again.
// The parent's Expected is set first. Fewer children than an earlier attempt expected are Refused ([Run.Abandon] drops
// those that were never created).
func (r *Run) Spawn(ctx context.Context, n int, next func(i int) (Order, error)) error {
	if was := r.job.Children.Expected; n < was {
		return job.Errorf(job.Refused, "spawn", r.job.ID,
			"%d jobs were expected before, %d are fewer: the same work must give the same jobs", was, n)
	}
	if r.job.Children.Expected != n {
		r.wants.set.Expected = &n
		if err := r.Save(ctx); err != nil {
			return err
		}
	}
	chunk := 500
	if most := r.engine.store.Properties().Spawn; most > 0 {
		chunk = min(chunk, most)
	}
	orders := make([]Order, 0, min(n, chunk))
	for i := range n {
		one, err := next(i)
		if err != nil {
			return err
		}
		if orders = append(orders, one); len(orders) == chunk || i == n-1 {
			if err := r.backend.spawn(ctx, r, i+2-len(orders), orders); err != nil {
				return err
			}
			orders = orders[:0]
		}
	}
	return nil
}

// Abandon drops the children that were never created: no more are expected than exist. It commits at once.
func (r *Run) Abandon(ctx context.Context) error {
	if err := r.Fresh(ctx); err != nil {
		return err
	}
	n := r.job.Children.Created()
	if n == r.job.Children.Expected {
		return nil
	}
	r.wants.set.Expected = &n
	return r.Save(ctx)
}

// WaitChildren returns nil if all children have ended, else an error that the step returns to wait for them; the engine
// then runs the step again. After nil, the commit that ends the attempt requires that all children have still ended: if
// one was retried, the step runs again.
func (r *Run) WaitChildren() error {
	c := r.job.Children
	if c.Settled() {
		r.settled = true
		return nil
	}
	r.settled = false
	return Wait(job.Blocker{
		Code:     cause.Children,
		Sentence: fmt.Sprintf("%d of %d jobs have not ended", c.Expected-c.Created()+c.Open, c.Expected),
		Until:    r.Now().Add(24 * time.Hour), Remedy: "nothing: it goes on by itself when they have ended",
	})
}

// Fresh reads the record again, for its children's counts or after a change by another party ([Run.Changed]). If the
// state is another, its timeout applies. An error of kind Stale means that the claim is over.
func (r *Run) Fresh(ctx context.Context) error {
	j, err := r.backend.read(ctx, r)
	if err != nil {
		return err
	}
	if j.Epoch != r.job.Epoch || !j.Claimed() {
		return job.Errorf(job.Stale, "read", j.ID, "claim %d is over, the record is at %d", r.job.Epoch, j.Epoch)
	}
	r.running.saw(j.Version)
	r.record(&j)
	r.term.set(j.Expires)
	return nil
}

// Log returns the job's log, which is kept after a crash and shown to the user. Its lines have the state in which Log
// was first called.
func (r *Run) Log() *slog.Logger {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log == nil {
		r.log = r.in.log
		if logs := r.in.logs; logs != nil {
			r.log = logs.Logger(r.id, r.epoch, r.job.State)
		}
	}
	return r.log
}

// Progress reports the progress of the work in this state. It is shown, not stored.
func (r *Run) Progress(done, total int64, unit string) {
	r.in.progress.set(r.id, job.Progress{Done: done, Total: total, Unit: unit, State: r.state(), At: r.Now()})
}
