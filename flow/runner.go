package flow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Runner runs one flow: it decides what is ready, lets it be done, stores what came of it, notifies listeners, and
// finds out how the flow ends. All of this happens in the goroutine that calls Run or Advance; only tasks run
// elsewhere, if there is a Pool.
type Runner struct {
	plan      *plan
	o         Options
	running   atomic.Bool
	requested atomic.Int32 // of somebody who needs the run to end; see requests
	mail      atomic.Pointer[mailbox]
	notifying sync.Mutex // listeners are notified one thing at a time
	ending    atomic.Pointer[Ending]
	contexts  taskContexts

	mu           sync.Mutex // guards the rest; it is free while tasks, listeners and controllers run
	loaded       bool
	state        lifecycle.State
	recs         []Record // by node; of atoms only
	injected     map[string]Value
	inbox        *inbox
	taken        []string     // signals that results took which are not stored yet
	sent         atomic.Int64 // signals by Signal
	removed      []Record     // stored atoms that the flow no longer has
	removedDirty []Record     // of them, those that changed and are not stored yet
	outline      *Outline     // not stored yet; nil: it is
	gauge        gauge

	dirty         []int32
	isDirty       []bool
	failing       map[int32]*Failure  // why atoms failed that are not tried again by themselves
	reasonsByAtom map[string]*Failure // the same for those who are reverted; nil: to be made again
	isNew         bool                // nothing was stored of the atoms yet
	events        []Event             // of changes that are made but not reported

	planned []planned             // moved, and about to be reported and begun
	queue   []queued              // begun, and to be executed in this goroutine
	active  map[int32]func() bool // executing or queued in the pool; stops trying what has not begun
	// moved to RUNNING by this Runner, and nothing came of it yet; atoms that an earlier run may have begun are not
	// among them
	unbegun map[int32]bool
	// number of times that what was active was left behind; what comes from an earlier crew is no one's
	generation     int
	waiting        map[int32]bool            // RUNNING, and no one works on it
	unwanted       []int32                   // atoms that waited when they were abandoned
	callers        map[string]map[int32]bool // atoms that wait for a signal, and some that did
	arrived        []string                  // signals that callers were not appeared through for
	revertingAfter map[int32]bool            // controllers all that depends on which is to be reverted, or wholeFlow
	timers         timers
	again          map[int32]bool     // a failed revert that is to be tried once more
	faults         []*fault           // errors of the flow itself, and failed reverts
	revertErrors   []*Failure         // errors of the flow itself for which it is reverted
	limits         map[int32]*Failure // controllers that wanted another attempt and had none left
	acceptedEnding *Ending            // the request to end that was taken in
	counts         struct{ executed, reverted int }
}

// requests of others.
const (
	requestNone int32 = iota
	requestSuspend
	requestStop
)

// fault is why a flow ends in FAILURE.
type fault struct {
	atom    string
	failure *Failure
}

// New compiles a flow. Errors: [ErrDuplicate], [ErrInvalid].
func New(item Item, o Options) (*Runner, error) {
	p, err := compile(item)
	if err != nil {
		return nil, err
	}
	if err := p.checkInjected(wrapValues(o.Inject)); err != nil {
		return nil, err
	}
	if o.ID == "" {
		o.ID = p.name
	}
	if o.MaxAttempts <= 0 {
		o.MaxAttempts = 1000
	}
	if o.Grace <= 0 {
		o.Grace = 10 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Rand == nil {
		o.Rand = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Runner{plan: p, o: o, state: Pending}
	r.mail.Store(newMailbox())
	return r, nil
}

// Run runs the flow until it ends or is suspended, and waits in between for times and signals. What it gives:
//
//	nil          SUCCESS, or SUSPENDED
//	*Failure     REVERTED or FAILURE, because of one atom
//	*Failures    the same, because of several
//	[ErrMissing] a required value is provided by no one; nothing has happened
//	others       see [ErrState], [ErrBusy], [ErrChanged], [ErrStopped]; the context's cause; the storage's error. The flow can be run again
//
// A flow that has ended is run again: from SUCCESS what is new is done, from FAILURE it goes on, from REVERTED it is
// reset and begins anew.
func (r *Runner) Run(ctx context.Context) error {
	for {
		rest, err := r.Advance(ctx)
		if err != nil || rest == nil {
			return err
		}
		if err := r.waitForRest(ctx, rest); err != nil {
			return err
		}
	}
}

// Rest is what a flow waits for while none of its tasks is being done.
type Rest struct {
	Until   time.Time // the earliest time at which something goes on by itself; zero: none does
	Signals []string  // awaited
	Atoms   []string  // that wait
}

// waitForRest waits for a signal, a request or a time.
func (r *Runner) waitForRest(ctx context.Context, rest *Rest) error {
	var late <-chan time.Time
	if !rest.Until.IsZero() {
		t := time.NewTimer(max(rest.Until.Sub(r.o.Now()), 0))
		defer t.Stop()
		late = t.C
	}
	select {
	case <-late:
	case <-r.mail.Load().wake:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// Advance is Run that does not wait while nothing is being done: it gives what the flow waits for, and is to be called
// again then. No goroutine is held in between. A nil Rest means that the run is over.
func (r *Runner) Advance(ctx context.Context) (*Rest, error) {
	if !r.running.CompareAndSwap(false, true) {
		return nil, wrong(ErrBusy, nil, "the flow %s is running already", r.plan.name)
	}
	defer r.running.Store(false)
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, giveUp := context.WithCancel(ctx)
	defer func() { r.contexts.release() }()
	// nothing is active then but what is left behind, as when the storage has refused a commit: it is to return
	defer giveUp()
	r.acceptedEnding = nil
	if err := r.beginRun(ctx); err != nil {
		r.requested.Store(requestNone)
		r.abandon()
		return nil, err
	}
	rest, err := r.machine(ctx)
	// it was SUSPENDING when it was asked to end
	for rest == nil && err == nil && r.state == Suspended && r.isEnding() && r.acceptedEnding == nil {
		if err = r.beginRun(ctx); err == nil {
			rest, err = r.machine(ctx)
		}
	}
	if rest == nil {
		r.requested.Store(requestNone)
	}
	if Life.Ended(r.state) {
		r.ending.Store(nil)
		r.acceptedEnding = nil
	}
	var broken *storageError
	if errors.As(err, &broken) {
		r.abandon()
		return nil, broken.err
	}
	return rest, err
}

// abandon forgets what is not stored: the next run loads it again.
func (r *Runner) abandon() {
	if r.o.Storage != nil {
		r.loaded = false
	}
	r.events, r.planned, r.queue, r.acceptedEnding = nil, nil, nil, nil
	r.leaveBehind()
}

// Suspend asks the flow to pause: nothing new is begun; what is active ends and is stored. Run returns when the flow is
// SUSPENDED, or has come to its end meanwhile. It may be called from anywhere, listeners included; a flow that does not
// run stays as it is.
func (r *Runner) Suspend() { r.request(requestSuspend) }

// Stop asks the run to end as Suspend does, but leaves the flow RUNNING: Run gives [ErrStopped]. It is for a worker
// that has to go, not for the flow.
func (r *Runner) Stop() { r.request(requestStop) }

func (r *Runner) request(wish int32) {
	if r.running.Load() || r.State() == Running {
		r.requested.CompareAndSwap(requestNone, wish)
		r.mail.Load().wakeUp()
	}
}

// Signal sends a signal to the flow. The one who awaits it goes on, now or when it comes to that. Signals of a name are
// a queue: each is taken once. With a Storage the signal is not stored by this: storage that lasts has its own way for
// signals. Error: [ErrInvalid] if no task declares the signal, or with another type.
func (r *Runner) Signal(name string, value any) error { return r.signal(name, value, false) }

// signal is Signal; early accepts a name that no task declares yet.
func (r *Runner) signal(name string, value any, early bool) error {
	if err := r.plan.signals.Check(name, ValueOf(value), early); err != nil {
		return err
	}
	r.Receive(name, fmt.Sprintf("sent-%d", r.sent.Add(1)), value)
	return nil
}

// Receive takes in a signal with an id and without a check, for storage that keeps signals: one with an id that the
// flow had is left out. [Commit].Taken reports when it is taken.
func (r *Runner) Receive(name, id string, value any) {
	r.mail.Load().post(parcel{signal: name, id: id, value: value})
}

// Reset puts all atoms and the flow itself back to PENDING, from any state in which it does not run: results, failures,
// histories and the signals that came are gone. All of it is one commit.
func (r *Runner) Reset(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return wrong(ErrBusy, nil, "the flow %s is running", r.plan.name)
	}
	defer r.running.Store(false)
	defer r.requested.Store(requestNone) // of a listener: it is not for the next run
	defer r.ending.Store(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(ctx); err != nil {
		return err
	}
	if err := r.reset(ctx); err != nil {
		r.abandon()
		return storageErr(err)
	}
	r.mail.Load().removeAll() // signals among it, to the flow as it was
	return nil
}

// reset is Reset with everything loaded.
func (r *Runner) reset(ctx context.Context) error {
	if r.state == Running || r.state == Suspending || r.state == Resuming {
		return &StateError{Kind: "Flow", Name: r.plan.name, From: r.state, To: Pending}
	}
	for _, i := range r.plan.atoms {
		r.clearAtom(i)
	}
	r.again, r.removed, r.inbox, r.taken = map[int32]bool{}, nil, newInbox(nil), nil
	if r.state == Pending {
		return r.commit(ctx, nil, nil)
	}
	return r.move(ctx, Reset, Pending, nil)
}

// State gives the flow's state.
func (r *Runner) State() lifecycle.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Load reads what is stored, if it was not read yet, so that the flow can be examined before it is run.
func (r *Runner) Load(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.load(ctx)
}

// Atoms gives the records of all atoms, in the order of the flow.
func (r *Runner) Atoms() []Record {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make([]Record, 0, len(r.plan.atoms))
	if r.recs == nil {
		return all
	}
	for _, i := range r.plan.atoms {
		rec := r.recs[i]
		rec.History = slices.Clone(rec.History) // the rest is never changed in place
		all = append(all, rec)
	}
	return all
}

// Atom gives the record of one atom.
func (r *Runner) Atom(name string) (Record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	i, ok := r.plan.byName[name]
	if !ok || r.recs == nil {
		return Record{}, false
	}
	rec := r.recs[i]
	rec.History = slices.Clone(rec.History)
	return rec, true
}

// Inject adds values of the flow and stores them. Errors: the storage's; [ErrInvalid] if a typed task takes one as
// another type.
func (r *Runner) Inject(ctx context.Context, values Values) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(ctx); err != nil {
		return err
	}
	added := wrapValues(values)
	if err := r.plan.checkInjected(added); err != nil {
		return err
	}
	after := maps.Clone(r.injected)
	if after == nil {
		after = map[string]Value{}
	}
	maps.Copy(after, added)
	if err := r.save(ctx, &Commit{Injected: after}); err != nil {
		return storageErr(err)
	}
	r.injected = after
	return nil
}

// Value gives a value of the flow: an injected one, or what the first atom has that gives it. ok is false if no one has
// given it yet, or it was reverted.
func (r *Runner) Value(name string) (v Value, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.values(name)
	if len(all) == 0 {
		return Value{}, false
	}
	return all[0], true
}

// Values gives all values that are there; where several were given under one name, the list of them.
func (r *Runner) Values() Values {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := map[string]bool{}
	for name := range r.injected {
		names[name] = true
	}
	for name := range r.plan.gives {
		names[name] = true
	}
	all := Values{}
	for name := range names {
		switch found := r.values(name); len(found) {
		case 0:
		case 1:
			all[name] = found[0].Any()
		default:
			list := make([]any, len(found))
			for i := range found {
				list[i] = found[i].Any()
			}
			all[name] = list
		}
	}
	return all
}

func (r *Runner) values(name string) []Value {
	var all []Value
	if v, ok := r.injected[name]; ok {
		all = append(all, v)
	}
	for _, i := range r.plan.gives[name] {
		if v, ok := r.result(i, name); ok {
			all = append(all, v)
		}
	}
	return all
}

// result takes a value out of what an atom gave, if that can be read in its state.
func (r *Runner) result(i int32, name string) (Value, bool) {
	if r.recs == nil {
		return Value{}, false
	}
	rec := &r.recs[i]
	switch rec.State {
	case Success, FailureState, Reverting, Retrying:
	default:
		return Value{}, false
	}
	if rec.Kind == KindRetry {
		if len(rec.History) == 0 {
			return Value{}, false
		}
		return rec.History[len(rec.History)-1].Value, true
	}
	if rec.Result == nil {
		return Value{}, false
	}
	return r.plan.nodes[i].result.pick(name, *rec.Result)
}

// ExecuteFailures gives why atoms failed to execute, by name: of those that have not been reset since.
func (r *Runner) ExecuteFailures() map[string]*Failure {
	return r.collect(func(rec *Record) *Failure { return rec.Failure })
}

// RevertFailures gives why atoms failed to revert, by name.
func (r *Runner) RevertFailures() map[string]*Failure {
	return r.collect(func(rec *Record) *Failure { return rec.RevertFailure })
}

func (r *Runner) collect(of func(*Record) *Failure) map[string]*Failure {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failures(of)
}

func (r *Runner) failures(of func(*Record) *Failure) map[string]*Failure {
	all := map[string]*Failure{}
	for _, i := range r.plan.atoms {
		if r.recs == nil {
			break
		}
		if f := of(&r.recs[i]); f != nil && r.recs[i].State != Running {
			all[r.recs[i].Name] = f
		}
	}
	return all
}
