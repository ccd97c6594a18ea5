package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/stagepost/stagepost/app/archive/workdir"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/internal/dirlock"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// phases are the states that a job returns to from RecoverableError.
var phases = []lifecycle.State{ActivityArchiving, BackupCollection, PostProcessing, Store, Signing}

// Classes of failures.
const (
	Recoverable = "recoverable" // another attempt may succeed
	Permanent   = "permanent"
)

// FailedAttempt is a failed attempt of a phase.
type FailedAttempt struct {
	Phase   lifecycle.State `json:"phase"`
	Attempt int             `json:"attempt"` // 1 for the first
	Class   string          `json:"class"`
	Cause   string          `json:"cause"`
	Message string          `json:"message"`
	At      time.Time       `json:"at"`
}

// maxErrors is the number of failures that a job keeps. All are in its history.
const maxErrors = 20

// task is one attempt at a phase.
type task struct {
	*engine.Run
	app  *App
	spec Request
	data data
	dir  *workdir.Dir
}

// phase makes a step of the work of a phase. The step has the working directory of the job, and its failure is recorded
// with its class, which the state Error decides by.
func (a *App) phase(work func(*task, context.Context) error) engine.Step {
	return a.step(func(t *task, ctx context.Context) error {
		dir, err := workdir.Open(a.workDir(), t.Job().ID, t.Job().Epoch)
		if err != nil {
			return waitForLock(t, err)
		}
		t.dir = dir
		return t.failed(ctx, t.within(ctx, work))
	})
}

// within does the work and gives the working directory back, also after a panic.
func (t *task) within(ctx context.Context, work func(*task, context.Context) error) (err error) {
	defer func() { err = errors.Join(err, t.dir.Close()) }()
	return work(t, ctx)
}

// step makes a step that has decoded the records of its job.
func (a *App) step(work func(*task, context.Context) error) engine.Step {
	return func(ctx context.Context, r *engine.Run) error {
		t := &task{Run: r, app: a}
		if err := errors.Join(r.Spec(&t.spec), r.Data(&t.data)); err != nil {
			return engine.Fail(cause.Error, err)
		}
		return work(t, ctx)
	}
}

// waitForLock waits until an earlier attempt, whose claim is over, has stopped.
func waitForLock(t *task, err error) error {
	if !errors.Is(err, dirlock.Err) {
		return err
	}
	return engine.Wait(job.Blocker{
		Code: "work-directory", Sentence: "an earlier attempt has not left the working directory yet",
		Until: t.Now().Add(time.Second), Remedy: "nothing: it goes on by itself when that attempt has ended",
	})
}

// waiting is what a phase waits for. No attempt is counted.
type waiting struct {
	job.Blocker
	later bool // the next phase waits for it
}

func (w waiting) Error() string { return w.Sentence }

// exit is the event by which a step leaves a state that has several exits.
type exit struct{ event lifecycle.Event }

func (x exit) Error() string { return "goes on by " + string(x.event) }

// failed records the failure of a phase and gives the outcome of the step.
func (t *task) failed(ctx context.Context, err error) error {
	var w waiting
	var x exit
	switch {
	case err == nil:
		return t.SetData(t.data)
	case errors.As(err, &x):
		return errors.Join(t.SetData(t.data), engine.Go(x.event))
	case ctx.Err() != nil: // the claim, the time or the engine ended
		return context.Cause(ctx)
	case errors.As(err, &w):
		if err := t.SetData(t.data); err != nil {
			return err
		}
		return engine.Wait(w.Blocker)
	}
	f := FailedAttempt{
		Phase: t.Job().State, Attempt: t.data.Failures[t.Job().State] + 1, Class: Permanent,
		Cause: cause.Of(err), Message: err.Error(), At: t.Now().UTC(),
	}
	if !slices.Contains(phases, f.Phase) { // the engine counts them
		f.Attempt = t.Job().Attempts + 1
	}
	if cause.Temporary(err) && !t.panicsAgain(f) {
		f.Class = Recoverable
	}
	t.data.note(f)
	if err := t.SetData(t.data); err != nil {
		return err
	}
	if f.Class == Recoverable && !slices.Contains(phases, f.Phase) {
		return engine.Retry(err) // there is no way to RecoverableError
	}
	t.Log().Error("phase failed", "phase", f.Phase, "attempt", f.Attempt, "class", f.Class, "error", err)
	return engine.Fail(f.Cause, err)
}

// panicked is the error of a task that panicked.
type panicked struct{ error }

func (panicked) Cause() string   { return cause.Panic }
func (panicked) Temporary() bool { return true }

// panicsAgain reports whether a failure is the second panic in a row of a phase. A panic is tried again once.
func (t *task) panicsAgain(f FailedAttempt) bool {
	before, ok := t.data.last(f.Phase, f.Attempt-1)
	return ok && before.Cause == cause.Panic && f.Cause == cause.Panic
}

// note appends a failure.
func (d *data) note(f FailedAttempt) {
	if d.Errors = append(d.Errors, f); len(d.Errors) > maxErrors {
		d.Errors = d.Errors[len(d.Errors)-maxErrors:]
	}
}

// last gives the failure of an attempt at a phase, if its step reported it.
func (d *data) last(phase lifecycle.State, attempt int) (FailedAttempt, bool) {
	if len(d.Errors) == 0 {
		return FailedAttempt{}, false
	}
	f := d.Errors[len(d.Errors)-1]
	return f, f.Phase == phase && f.Attempt == attempt
}

// decide is the step of Error: it counts the attempt and decides whether the phase is tried again.
func (t *task) decide(context.Context) error {
	j := t.Job()
	phase := j.Origin
	n := t.data.Failures[phase] + 1
	f, ok := t.data.last(phase, n)
	if !ok { // the time for the phase was up, or its workers crashed
		f = FailedAttempt{
			Phase: phase, Attempt: n, Class: Recoverable, Cause: j.Cause, Message: j.Message, At: t.Now().UTC(),
		}
		if j.Cause == cause.Poison || j.Cause == cause.Panic { // the engine has tried a step that panics once more
			f.Class = Permanent
		}
		t.data.note(f)
	}
	if t.data.Failures == nil {
		t.data.Failures = map[lifecycle.State]int{}
	}
	t.data.Failures[phase] = n
	if err := t.SetData(t.data); err != nil {
		return err
	}
	t.SetCause(f.Cause)
	switch most := t.data.Settings.Attempts; {
	case f.Class == Permanent:
		t.SetMessage(f.Message)
	case n >= most:
		t.SetMessage(fmt.Sprintf("attempt %d of %d of %s failed: %s", n, most, phase, f.Message))
	default:
		t.SetMessage(fmt.Sprintf("attempt %d of %d of %s failed and is repeated: %s", n, most, phase, f.Message))
		return engine.Go(Recover)
	}
	return engine.Go(Fail)
}

// pause gives the pause before attempt n+1 of a phase: 30 s, doubled with each attempt, at most 30 minutes, plus up to
// a fifth that follows from the job and the attempt.
func pause(id job.ID, n int) time.Duration {
	d := 30 * time.Second
	for i := 1; i < n && d < 30*time.Minute; i++ {
		d *= 2
	}
	d = min(d, 30*time.Minute)
	h := fnv.New32a()
	fmt.Fprintf(h, "%s/%d", id, n)
	return d + time.Duration(float64(d)/5*float64(h.Sum32())/float64(1<<32))
}

// patience gives how long a job stays in a state: in RecoverableError, the pause of its phase.
func (a *App) patience(j *job.Job, s lifecycle.State) time.Duration {
	if s != RecoverableError {
		return 0
	}
	var d data
	if err := decode(j.Data, &d); err != nil {
		return pause(j.ID, 1)
	}
	return pause(j.ID, d.Failures[j.Origin]+1)
}

// passed ends a phase: its failed attempts no longer count.
func (t *task) passed() error {
	delete(t.data.Failures, t.Job().State)
	return nil
}

func decode(text json.RawMessage, into any) error {
	if len(text) == 0 {
		return nil
	}
	return json.Unmarshal(text, into)
}

// encode gives the JSON of a value that has one.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // the types of this package have a JSON form
	}
	return text
}
