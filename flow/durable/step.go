package durable

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Codes of what flows wait for ([engine.Blocker]).
const (
	BlockSignal    = "flow-signal"  // a signal, and perhaps a time
	BlockTime      = "flow-time"    // a time
	BlockFactory   = "flow-factory" // a worker that has its factory
	BlockSuspended = "suspended"    // a person
)

// Causes of flows in FAILURE and REVERTED. Others are the type of the first failure in lower case.
const (
	CauseReverted = "reverted" // a task failed, and what it and others did was reverted
	CauseChanged  = "changed"  // the flow is not the one that was begun
	CauseFactory  = "factory"  // the factory does not make the flow
	CauseMissing  = "missing"  // no one provides what an atom requires
	CauseDamaged  = "damaged"  // what is stored cannot be read
)

// longestWait is after how long a flow that waits is examined, whatever it waits for.
const longestWait = 24 * time.Hour

// elsewhere is how long a worker leaves a flow whose factory it lacks to others.
const elsewhere = 10 * time.Second

// session is one worker's time with a flow, from claim to the end of the claim. The goroutine of the step has the
// engine's run, serves commits and receives changes; another runs the flow.
type session struct {
	flows    *Flows
	run      *engine.Run
	id       job.ID
	spec     Spec
	data     Data
	runner   *flow.Runner
	store    *storage
	changed  <-chan struct{} // of the run
	end      *Ending         // the request to end the flow; nil: there is none
	over     bool            // the claim has ended with what was committed
	stopping atomic.Bool
	heard    map[string]string // signals that the runner has, with what they were when
	poked    bool              // the runner was notified something that it may not have seen
	suspend  atomic.Bool       // the record is SUSPENDING
	looked   time.Time         // when signals were read last
	patience time.Duration     // for how long they are not read after that
}

// step runs a flow as far as it goes. It serves all states in which a worker has flows.
func (f *Flows) step(ctx context.Context, r *engine.Run) error {
	changed, j := r.Changed(), r.Job()
	s := &session{flows: f, run: r, id: j.ID, changed: changed}
	select {
	case <-r.Stopping():
		return s.yield()
	default:
	}
	var err error
	if s.data, err = DataOf(&j); err != nil {
		return s.fail(ctx, CauseDamaged, err)
	}
	if s.spec, err = SpecOf(&j); err != nil {
		return s.fail(ctx, CauseDamaged, err)
	}
	if s.data.Name == "" {
		s.data.Name = s.spec.Name
	}
	tasks, err := r.Tasks(ctx)
	if err != nil {
		return err
	}
	e, err := endingOf(j.ID, tasks)
	if err != nil {
		return s.fail(ctx, CauseDamaged, err)
	}
	s.ends(e)
	if err := s.poison(ctx, tasks); isJobError(err) {
		return err
	} else if err != nil {
		return s.fail(ctx, cause.Poison, err)
	}
	s.expire()
	return s.begin(ctx, tasks)
}

// begin loads the flow and runs it.
func (s *session) begin(ctx context.Context, tasks []job.Task) error {
	f, r := s.flows, s.run
	if f.o.Factories[s.spec.Factory] == nil {
		if s.end != nil && s.end.Keep {
			return s.fail(ctx, CauseFactory, fmt.Errorf("this worker has no factory %q", s.spec.Factory))
		}
		return engine.Wait(job.Blocker{
			Code: BlockFactory, Sentence: fmt.Sprintf("this worker has no factory %q (known: %s)", s.spec.Factory,
				f.known()),
			Until: r.Now().Add(elsewhere),
		})
	}
	item, err := f.build(&s.spec)
	if err != nil {
		return s.fail(ctx, CauseFactory, err)
	}
	if err := s.load(ctx, item, tasks); err != nil {
		if job.KindOf(err) == job.Internal && isJobError(err) {
			return s.fail(ctx, CauseDamaged, err)
		}
		return err
	}
	return s.play(ctx)
}

func isJobError(err error) bool {
	var e *job.Error
	return errors.As(err, &e)
}

// load makes the runner of what is stored.
func (s *session) load(ctx context.Context, item flow.Item, tasks []job.Task) (err error) {
	if s.store, err = newStorage(ctx, s, item, tasks); err != nil {
		return err
	}
	s.heard = map[string]string{}
	for i := range tasks {
		if t := &tasks[i]; t.Kind == kindSignal {
			s.heard[t.Name] = string(t.Data)
		}
	}
	f := s.flows
	o := flow.Options{
		ID: string(s.id), Storage: s.store, Workers: f.o.Workers, Listeners: f.o.Listeners,
		DeferReverts: s.spec.Settings.DeferReverts, NeverResolve: s.spec.Settings.NeverResolve,
		RevertErrors: s.spec.Settings.RevertErrors,
		MaxAttempts:  f.o.Attempts, Upgrade: f.o.Upgrade, Grace: f.o.Grace, Now: s.run.Now, Log: s.run.Log(),
	}
	switch n := s.spec.Settings.Workers; {
	case n == 1:
		o.Workers = nil
	case n > 1:
		o.Workers = flow.NewPool(n)
	}
	log, err := s.logging(item)
	if err != nil {
		return err
	}
	o.Listeners = append([]flow.Listener{log}, o.Listeners...)
	if f.o.Attach != nil {
		o.Listeners = append(o.Listeners, f.o.Attach(s.id, item)...)
	}
	if s.runner, err = flow.New(item, o); err == nil && s.end != nil {
		s.runner.Cancel(s.end.request())
	}
	return err
}

// pause is what a runner came to.
type pause struct {
	rest  *flow.Rest
	err   error
	panic any
}

// play lets the flow run until it ends, rests, is suspended or has to stop.
func (s *session) play(ctx context.Context) error {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopping, done := s.run.Stopping(), make(chan pause, 1)
	var again <-chan time.Time // a check that failed, or came too soon after another
	look := func() {
		again = nil
		switch later, err := s.readChanges(ctx); {
		case job.KindOf(err) == job.Stale:
			cancel(err)
		case err != nil:
			again = time.After(200 * time.Millisecond)
		case later > 0:
			again = time.After(later)
		}
	}
	go s.advance(inner, done)
	var came *pause // nil: the runner is at it
	var clock alarm
	defer clock.stop()
	for {
		select {
		case <-clock.set(s.limit(), s.run.Now()):
			clock = alarm{} // should the two clocks differ, it is set once more
			s.expire()
		case q := <-s.store.requests:
			q.reply <- s.commit(ctx, q)
		case <-s.changed:
			look()
		case <-again:
			look()
		case <-stopping:
			stopping = nil
			s.stopping.Store(true)
			s.runner.Stop()
		case p := <-done:
			came = &p
			if p.panic != nil {
				panic(p.panic)
			}
			select {
			// with the last commit, which has the news in its record: the record will not report of it once more
			case <-s.changed:
				look()
			default:
			}
		}
		switch {
		// it does not rest on news that could not be read
		case came == nil, came.rest != nil && again != nil && ctx.Err() == nil:
		case came.rest != nil && s.restless(came.rest):
			came = nil
			go s.advance(inner, done)
		default:
			return s.conclude(ctx, *came)
		}
	}
}

// restless reports whether there is something for a flow that rests to do at once.
func (s *session) restless(rest *flow.Rest) bool {
	poked := s.poked
	s.poked = false
	return !s.over && (poked || s.suspend.Load() || !rest.Until.IsZero() && !rest.Until.After(s.run.Now()))
}

// advance runs the flow in a goroutine of its own.
func (s *session) advance(ctx context.Context, done chan<- pause) {
	var p pause
	defer func() {
		p.panic = recover()
		done <- p
	}()
	if p.err = s.runner.Load(ctx); p.err != nil || s.store.ended {
		return
	}
	if s.suspend.Load() {
		s.runner.Suspend()
	}
	s.store.advancing = true
	p.rest, p.err = s.runner.Advance(ctx)
	s.store.advancing = false
}

// readChanges reads what others changed: a request to suspend, signals. Signals are read so rarely that three quarters
// of the time are left to commits; later is the time until the next reading then.
func (s *session) readChanges(ctx context.Context) (later time.Duration, err error) {
	if s.over {
		return 0, nil
	}
	if err := s.fresh(ctx); err != nil {
		return 0, err
	}
	began := time.Now()
	if later = s.patience - began.Sub(s.looked); later > 0 {
		return later, nil
	}
	if err := s.rows(ctx); err != nil {
		return 0, err
	}
	s.looked = time.Now()
	s.patience = 3 * s.looked.Sub(began)
	return 0, nil
}

// rows reads what others stored beside the record.
func (s *session) rows(ctx context.Context) error {
	tasks, err := s.run.Tasks(ctx)
	if err != nil {
		return err
	}
	e, err := endingOf(s.id, tasks)
	if err != nil {
		return err
	}
	s.ends(e)
	for i := range tasks {
		t := &tasks[i]
		if t.Kind != kindSignal || t.State != sent || s.heard[t.Name] == string(t.Data) {
			continue
		}
		name, v, err := s.flows.signal(ctx, s.id, t)
		if err != nil {
			s.run.Log().Error("a signal cannot be read", "signal", t.Name, "error", err)
			continue
		}
		s.heard[t.Name], s.poked = string(t.Data), true
		s.runner.Receive(name, t.Name, v)
	}
	return nil
}

// fresh reads the record again, and reports the runner if a user needs it to pause.
func (s *session) fresh(ctx context.Context) error {
	if err := s.run.Fresh(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	j := s.run.Job()
	d, err := DataOf(&j)
	if err != nil {
		return err
	}
	s.data.Suspend = d.Suspend
	if j.State == flow.Suspending && !s.suspend.Swap(true) {
		s.runner.Suspend()
	}
	return nil
}

// conclude makes the outcome of the step of what the runner came to.
func (s *session) conclude(ctx context.Context, p pause) error {
	var wrong *flow.Error
	switch {
	case s.over:
		return nil
	case errors.Is(s.store.err, errSuperseded):
		return s.flows.step(ctx, s.run)
	case s.store.err != nil:
		return s.store.err
	case p.rest != nil:
		return s.wait(p.rest)
	case errors.Is(p.err, flow.ErrStopped):
		return s.yield()
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(p.err, flow.ErrChanged):
		return s.fail(ctx, CauseChanged, p.err)
	case errors.Is(p.err, flow.ErrMissing):
		return s.fail(ctx, CauseMissing, p.err)
	case errors.As(p.err, &wrong):
		return s.fail(ctx, strings.ToLower(wrong.FailureType()), p.err)
	case p.err != nil:
		return p.err
	}
	return job.Errorf(job.Internal, "run", s.id, "the flow came to %s and the record is %s", s.runner.State(),
		s.run.Job().State)
}

// yield gives the claim back because the worker stops.
func (s *session) yield() error {
	if _, ok := flow.Life.Transition(s.run.Job().State, lifecycle.Yield); ok {
		return engine.Go(lifecycle.Yield)
	}
	return engine.Wait(job.Blocker{Code: cause.Stopped, Sentence: "its worker stopped",
		Until: s.run.Now().Add(time.Millisecond)})
}

// fail ends the flow in FAILURE from wherever it stands.
func (s *session) fail(ctx context.Context, word string, why error) error {
	if s.end != nil {
		if word != cause.Poison {
			word, why = s.end.Cause, fmt.Errorf("%s; it could not be loaded: %w", s.end.Text, why)
		}
		tasks, err := s.run.Tasks(ctx)
		if err != nil {
			return err
		}
		remains, err := s.settle(tasks)
		if err != nil {
			word, why = CauseDamaged, err
		} else if len(remains) > 0 {
			why = fmt.Errorf("%w; not rolled back: %s", why, someOf(remains))
		}
	}
	for {
		e := flow.Fail
		switch s.run.Job().State {
		case flow.Pending, flow.Suspended:
			e = flow.Run
		case flow.Resuming:
			e = flow.Park
		}
		s.data.Again = ""
		if e == flow.Fail {
			s.data.Suspend = nil
			s.run.SetCause(word)
			s.run.SetMessage(sentence(why))
		}
		if word != CauseDamaged {
			if err := s.run.SetData(&s.data); err != nil {
				return err
			}
		}
		switch err := s.run.Move(ctx, e); {
		case job.KindOf(err) == job.Conflict:
			if err := s.run.Fresh(ctx); err != nil {
				return err
			}
		case err != nil || e == flow.Fail:
			return err
		}
	}
}
