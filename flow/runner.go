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

// Runner runs one flow: it finds ready atoms, executes or reverts them, stores their outcomes, notifies listeners and
// decides how the flow ends. All of this happens in the goroutine that calls Run or Advance. With a Pool, tasks run in
// its goroutines.
type Runner struct {
	plan      *plan
	o         Options
	running   atomic.Bool  // in Advance or Reset
	isRunning atomic.Bool  // state is RUNNING, for request
	requested atomic.Int32 // a request to end the run; see requestNone
	mail      atomic.Pointer[mailbox]
	notifying sync.Mutex // serializes calls of listeners
	ending    atomic.Pointer[Ending]
	contexts  taskContexts

	mu           sync.Mutex // guards the rest; it is free while tasks, listeners and controllers run
	loaded       bool
	state        lifecycle.State
	recs         []Record // by node; of atoms only
	injected     map[string]Value
	inbox        *inbox
	taken        []string     // signals taken by results that are not stored yet
	sent         atomic.Int64 // number of signals sent with Signal
	removed      []Record     // stored atoms that the flow no longer has
	removedDirty []Record     // those of removed that changed and are not stored yet
	outline      *Outline     // not stored yet; nil: it is
	gauge        gauge

	dirty         []int32
	isDirty       []bool
	failing       map[int32]*Failure  // failures of atoms that Attempts does not repeat
	reasonsByAtom map[string]*Failure // failing by name, for reverts; nil: out of date
	unstored      bool                // nothing was stored of the atoms yet
	events        []Event             // of changes that are not reported yet

	planned []planned             // moved, and about to be reported and started
	queue   []queued              // started, to be executed in this goroutine
	active  map[int32]func() bool // executing or queued in the pool; the function cancels queued work
	// moved to RUNNING by this Runner without an outcome yet; without the atoms that an earlier run may have started
	unbegun map[int32]bool
	// number of times that active work was left behind; outcomes of an earlier generation are ignored
	generation     int
	waiting        map[int32]bool            // RUNNING and inactive
	unwanted       []int32                   // atoms whose intention changed while they waited
	callers        map[string]map[int32]bool // atoms that wait for a signal, and some that did
	arrived        []string                  // signals for which callers is not searched yet
	revertingAfter map[int32]bool            // controllers, or wholeFlow, whose dependents have the intention REVERT
	timers         timers
	again          map[int32]bool     // a failed revert that is repeated
	faults         []*fault           // errors of the flow itself, and failed reverts
	revertCauses   []*Failure         // errors of the flow itself, for which it is reverted
	limits         map[int32]*Failure // controllers that decided to retry without an attempt left
	acceptedEnding *Ending            // the accepted request to end
	counts         struct{ executed, reverted int }
}

// The requests to end a run.
const (
	requestNone int32 = iota
	requestSuspend
	requestStop
)

// fault is a reason why a flow ends in FAILURE.
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

// Run runs the flow until it ends or is suspended, and waits in between for times and signals. It returns:
//
//	nil          SUCCESS, or SUSPENDED
//	*Failure     REVERTED or FAILURE, because of one atom
//	*Failures    the same, because of several
//	[ErrMissing] a required value has no provider; nothing was executed
//	others       [ErrState], [ErrBusy], [ErrChanged], [ErrStopped]; the context's cause; the storage's error. The flow
//	             can be run again
//
// A flow that has ended can be run again: from SUCCESS the run executes new tasks, from FAILURE it continues, and from
// REVERTED it resets the flow and starts from the beginning.
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

// Rest is what a flow waits for while none of its tasks is active.
type Rest struct {
	Until   time.Time // the earliest time at which an atom continues; zero: none
	Signals []string  // awaited
	Atoms   []string  // that wait
}

// waitForRest waits for a signal, a request or the time of the Rest.
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

// Advance is Run without waiting: when no task is active, it returns what the flow waits for. Call it again then. No
// goroutine is held in between. A nil Rest means that the run is over.
func (r *Runner) Advance(ctx context.Context) (*Rest, error) {
	if !r.running.CompareAndSwap(false, true) {
		return nil, wrong(ErrBusy, nil, "the flow %s is running already", r.plan.name)
	}
	defer r.running.Store(false)
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer func() { r.contexts.release() }()
	defer cancel() // for tasks that are left behind, such as after an error of the storage
	r.acceptedEnding = nil
	if err := r.beginRun(ctx); err != nil {
		r.requested.Store(requestNone)
		r.abandon()
		return nil, err
	}
	rest, err := r.machine(ctx)
	// its end was requested while it was SUSPENDING
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

// abandon drops everything that is not stored: the next run loads the records again.
func (r *Runner) abandon() {
	if r.o.Storage != nil {
		r.loaded = false
	}
	r.events, r.planned, r.queue, r.acceptedEnding = nil, nil, nil, nil
	r.leaveBehind()
}

// Suspend suspends the flow: nothing new is started; active tasks end and are stored. Run returns when the flow is
// SUSPENDED or has ended meanwhile. Suspend may be called from any goroutine and from listeners. It has no effect on a
// flow that does not run.
func (r *Runner) Suspend() { r.request(requestSuspend) }

// Stop ends the run as Suspend does, but leaves the flow RUNNING: Run returns [ErrStopped]. It is for a worker that
// shuts down.
func (r *Runner) Stop() { r.request(requestStop) }

// request does not take mu: that is held while a commit is stored.
func (r *Runner) request(kind int32) {
	if r.running.Load() || r.isRunning.Load() {
		r.requested.CompareAndSwap(requestNone, kind)
		r.mail.Load().wakeUp()
	}
}

// Signal sends a signal to the flow. A task that awaits it continues, now or when it starts to wait. Signals of a name
// form a queue: each is taken once. Signal does not store the signal; a durable Storage has its own function for that.
// Error: [ErrInvalid] if no task declares the signal, or only with another type.
func (r *Runner) Signal(name string, value any) error { return r.signal(name, value, false) }

// signal is Signal; early accepts a name that no task declares yet.
func (r *Runner) signal(name string, value any, early bool) error {
	if err := r.plan.signals.Check(name, ValueOf(value), early); err != nil {
		return err
	}
	r.Receive(name, fmt.Sprintf("sent-%d", r.sent.Add(1)), value)
	return nil
}

// Receive adds a signal with an id, without a check, for storage that keeps signals. It ignores a signal whose id the
// flow has or had. [Commit].Taken has the id when a task takes the signal.
func (r *Runner) Receive(name, id string, value any) {
	r.mail.Load().post(parcel{signal: name, id: id, value: value})
}

// Reset moves all atoms and the flow itself to PENDING, in one commit, and removes results, failures, histories and
// signals. It is allowed in every state in which the flow does not run.
func (r *Runner) Reset(ctx context.Context) error {
	if !r.running.CompareAndSwap(false, true) {
		return wrong(ErrBusy, nil, "the flow %s is running", r.plan.name)
	}
	defer r.running.Store(false)
	defer r.requested.Store(requestNone) // a request of a listener is not for the next run
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
	r.mail.Load().removeAll() // also the signals before the reset
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

// State returns the flow's state.
func (r *Runner) State() lifecycle.State {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state
}

// Load reads the stored records, unless they are loaded, so that the flow can be examined before it is run.
func (r *Runner) Load(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.load(ctx)
}

// Atoms returns the records of all atoms, in the order of the flow.
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

// Atom returns the record of one atom.
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

// Inject adds values of the flow and stores them. Errors: the storage's; [ErrInvalid] if a value does not have the type
// that a task needs.
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

// Value returns a value of the flow: an injected one, or that of the first atom that gives it. ok is false if no atom
// has given it yet, or if it was reverted.
func (r *Runner) Value(name string) (v Value, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.values(name)
	if len(all) == 0 {
		return Value{}, false
	}
	return all[0], true
}

// Values returns all present values. If several atoms gave a value of one name, it is the list of them.
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

// result returns a value from the result of an atom, if the atom's state allows reading it.
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

// ExecuteFailures returns the failures of executions, by atom, of atoms that were not reset since.
func (r *Runner) ExecuteFailures() map[string]*Failure {
	return r.collect(func(rec *Record) *Failure { return rec.Failure })
}

// RevertFailures returns the failures of reverts, by atom.
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
