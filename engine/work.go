package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/internal/block"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Step does the work of one state. What it returns decides how the job goes on:
//
//	nil                   the state's success event
//	[Go](event)           this event, where a state has several exits
//	[Wait](blocker)       stays; no attempt is counted
//	[Retry](err)          tried again after a backoff; counted
//	[Fail](cause, err)    fails at once
//	any other error       as [cause.Temporary] states
//
// A panic is a retry once, then a failure. The context ends when the claim is lost, the state's time is up or the
// engine stops.
type Step func(ctx context.Context, r *Run) error

// Gate is a condition outside the lifecycle that can keep a job from being worked on, such as free disk space. It is
// called before each step and when a job is explained; nil means that the job may be worked on. It must be quick and
// have no effects.
type Gate func(ctx context.Context, j *job.Job) *job.Blocker

// Work is what an application registers for one kind of job.
type Work struct {
	Life     *lifecycle.Table
	Prefix   string // of the ids, "ing": letters, digits and hyphens; another one for each kind
	Steps    map[lifecycle.State]Step
	Gates    map[lifecycle.State]Gate
	Policies map[lifecycle.State]Policy // of single states; Policy is for the rest
	Policy   Policy
	Limits   []job.Limit

	// Patience returns how long a job may stay in a state, waiting included, where that is not the same for all jobs;
	// zero: Policy.Timeout. It is called when a job enters the state, with the record before. It must be quick, have no
	// effects, and be safe for concurrent use.
	Patience func(j *job.Job, s lifecycle.State) time.Duration

	// Elapsed has the event that a timer takes when the time for a state is up and the deadline of the job is not, for
	// states where that is not the event timeout.
	Elapsed map[lifecycle.State]lifecycle.Event

	// Overdue returns the cause and the reason when a timer takes a job out of a state; an empty cause: the time was
	// up. j is the record before.
	Overdue func(j *job.Job) (cause, sentence string)

	// Slots is how many steps of this kind run at once in slots of their own, independently of other kinds. Zero: the
	// kind shares Options.Slots with the rest. It is not negative.
	Slots int

	// Outside states that remote workers claim the states without a step here, by [Engine.Remote]. States with a step
	// are claimed by them only if Shared has them.
	Outside bool

	// Shared lists states with a step here that remote workers claim too.
	Shared []lifecycle.State

	// Programs lists states without a step here whose remote workers are programs of their own: the command work has no
	// step for them. Package explain reads it.
	Programs []lifecycle.State

	// Requires has the labels that a worker must have to claim jobs in a state ([Options.Labels], remote.Claim). They
	// hold for all jobs of the state; a single job may require further ones ([Order.Requires]).
	Requires map[lifecycle.State][]string

	// Topics lists the topics of the messages that remote workers may send. Nil: none.
	Topics []string

	// Orders states that people may create jobs of this kind by the general operation.
	Orders bool

	// Owes checks what a job must have achieved when a worker causes the success event of a state. The change c has the
	// event and the data of the attempt, j is the record before. Its error is the outcome of a step, or refuses the
	// report of a remote worker. It must have no effects. Nil: nothing is checked.
	Owes func(ctx context.Context, j *job.Job, c *job.Change) error

	// Allow checks a person's event beyond the lifecycle, and returns the conditions of its commit. The error, of kind
	// Refused, states the reason to the person. Nil allows all.
	Allow func(ctx context.Context, j *job.Job, a *operator.Act) (job.Require, error)

	// Accompany is called by Do with the complete change of a person's event before it is committed: it may add tasks,
	// data and messages, which are then part of that commit. j is the record before. It may be called again for the
	// same act if the record changed meanwhile; its error stops the act. Nil: nothing is added.
	Accompany func(ctx context.Context, j *job.Job, a *operator.Act, c *job.Change) error

	// Again returns a task as it is after a retry by a person, while a worker has the job. The step then finds it among
	// its tasks and is notified ([Run.Changed]). The error, of kind Refused, states why the task is not tried again on
	// its own. It must be quick and have no effects. Nil: no task is.
	Again func(j *job.Job, t *job.Task, by lifecycle.Actor) (job.Task, error)

	// Parks reports whether a hold moves jobs out of the queue states that have the event hold for workers. Such a job
	// stays in its new state until a person releases it. Under other holds jobs stay in their state and continue by
	// themselves. Nil: none.
	Parks func(h *job.Hold) bool

	// Announce returns the messages that a transition sends, with keys that follow from the job and the number of the
	// history entry. j is the record before; [job.Apply] returns the one after. It must be quick and must change
	// neither. Nil: none.
	Announce func(j *job.Job, c *job.Change) []job.Message

	// OwnEnds states that the steps, not the engine, end their jobs when the deadline has passed ([Run.Job]'s Deadline)
	// or the starts are used up (its Starts).
	OwnEnds bool

	// Explain completes the blocker of a job that a step left waiting or at rest: the record has only the blocker's
	// code, sentence and time, not who can end it and how. Nil: a timer or a person ends it.
	Explain func(j *job.Job, b *job.Blocker)

	// Keep is how long an ended job stays before the timer's transition leaves its end (delete, clean).
	// Defaults to job.Unlimited.
	Keep time.Duration

	// Adopts lists the hashes of older definitions whose states all have the same meaning in Life (reliability rule
	// R13).
	Adopts []string
}

// Policy has the timeouts and limits of a state. Zero fields take the defaults.
type Policy struct {
	Timeout     time.Duration // in the state, waiting included; zero: none
	MaxAttempts int           // failed attempts before the job fails; defaults to 5
	// claims without a report of their worker before the job fails as poison; defaults to 5
	MaxStarts int
	Backoff   Backoff
	Serial    bool // the state needs a claim of its own: its jobs wait in the queue
}

// Backoff is the pause before attempt n: First doubled n-1 times, at most Max, plus or minus a fifth by chance.
type Backoff struct {
	First time.Duration // defaults to 1 s
	Max   time.Duration // defaults to 5 min; at most 100 years
}

// longestPause bounds a pause: neither twice as much nor the chance exceeds what a duration can have.
const longestPause = 100 * 365 * 24 * time.Hour

// Pause returns the pause after attempt n (1 for the first); chance is in [0,1).
func (b Backoff) Pause(n int, chance float64) time.Duration {
	first, most := b.First, b.Max
	if first <= 0 {
		first = time.Second
	}
	if most <= 0 {
		most = 5 * time.Minute
	}
	most = min(most, longestPause)
	pause := first
	for i := 1; i < n && pause < most; i++ {
		pause *= 2
	}
	pause = min(pause, most)
	return time.Duration(float64(pause) * (0.8 + 0.4*chance))
}

// policyFor returns the policy of a state with its defaults.
func (w *Work) policyFor(s lifecycle.State) Policy {
	p, ok := w.Policies[s]
	if !ok {
		p = w.Policy
	}
	if p.MaxAttempts <= 0 {
		p.MaxAttempts = 5
	}
	if p.MaxStarts <= 0 {
		p.MaxStarts = 5
	}
	return p
}

// kind is the name under which jobs of the work are stored.
func (w *Work) kind() job.Kind { return job.Kind(w.Life.Name()) }

// handsOut reports whether remote workers may work on a state.
func (w *Work) handsOut(s lifecycle.State) bool {
	k := w.Life.Kind(s)
	return (k == lifecycle.Work || k == lifecycle.Queue) && (w.Outside && w.Steps[s] == nil ||
		slices.Contains(w.Shared, s))
}

// sends reports whether remote workers may send messages of a topic.
func (w *Work) sends(topic string) bool { return slices.Contains(w.Topics, topic) }

// owes calls Owes for a change by a success event.
func (w *Work) owes(ctx context.Context, j *job.Job, c *job.Change) error {
	if w.Owes == nil || c.Event == "" || c.To.State == c.From {
		return nil
	}
	if a, ok := w.Life.Transition(c.From, c.Event); !ok || a.Class != lifecycle.Pass {
		return nil
	}
	return w.Owes(ctx, j, c)
}

// foreign returns the blocker of a job that was created under a definition that the work cannot continue, or nil.
func (w *Work) foreign(j *job.Job) *job.Blocker { return block.Definition(j, w.Life.Hash(), w.Adopts) }

// supports reports whether the job was created under a definition that the work can continue.
func (w *Work) supports(j *job.Job) bool { return w.foreign(j) == nil }

// timerEvent returns the event by which a timer takes a job out of a state. overdue: the deadline of the job has
// passed, not only the time for the state.
func (w *Work) timerEvent(p lifecycle.Position, overdue bool) (lifecycle.Event, bool) {
	return block.TimerEvent(w.Life, w.Elapsed[p.State], p, overdue)
}

// poisoned returns the event by which the sweep fails a poisoned job, and its actor: the timer's failure if there is
// one, else the worker's failure, else the timer's event.
func (w *Work) poisoned(p lifecycle.Position) (lifecycle.Event, lifecycle.Actor, bool) {
	stage, _ := w.Life.Stage(p.State)
	for _, by := range []lifecycle.Actor{lifecycle.Timer, lifecycle.Worker} {
		for _, a := range stage.Transitions {
			if a.Class == lifecycle.Fail && a.By&by != 0 && a.Event != block.TimedOut {
				return a.Event, by, true
			}
		}
	}
	e, ok := w.timerEvent(p, false)
	return e, lifecycle.Timer, ok
}

// expires returns when a timer takes job j out of the state that it enters; zero for never.
func (w *Work) expires(j *job.Job, p lifecycle.Position, now, deadline time.Time) time.Time {
	if w.OwnEnds {
		return time.Time{}
	}
	at, d := deadline, w.policyFor(p.State).Timeout
	if w.Patience != nil {
		if own := w.Patience(j, p.State); own > 0 {
			d = own
		}
	}
	if d > 0 {
		if t := now.Add(d); at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if at.IsZero() {
		return at
	}
	if _, ok := w.timerEvent(p, false); !ok {
		return time.Time{}
	}
	return at
}

// late is the outcome of a job whose time in a state is up.
func (w *Work) late(j *job.Job, why string) *outcome {
	o := &outcome{verdict: fails, cause: cause.Timeout, err: errors.New(why)}
	if w.Overdue != nil {
		if cause, sentence := w.Overdue(j); cause != "" {
			o.cause, o.err = cause, errors.New(sentence+": "+why)
		}
	}
	return o
}
