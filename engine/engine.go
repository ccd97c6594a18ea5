package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/engine/meter"
	"github.com/stagepost/stagepost/engine/status"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Options of an engine. The zero Options work.
type Options struct {
	Name    string             // of this engine among those on the store; defaults to "engine"
	Slots   int                // steps that run at once; defaults to 16
	Lease   time.Duration      // of a claim; defaults to 15 s
	Renew   time.Duration      // between renewals; defaults to a third of Lease
	Labels  []string           // of the slots: states and jobs that require others are not claimed (Work.Requires)
	Sweep   time.Duration      // between searches for what no event reported; defaults to 1 s
	Grace   time.Duration      // for running steps when the engine stops; defaults to 10 s
	Clock   clock.Clock        // defaults to SystemClock
	Rand    *mathrand.Rand     // for jitter; defaults to a random seed
	Entropy io.Reader          // for ids; defaults to crypto/rand
	Log     *slog.Logger       // of the engine itself; defaults to none
	JobLogs JobLogs            // of the jobs; defaults to none
	Deliver map[string]Deliver // by topic of outbox messages
	// by topic: messages to one receiver do not wait for those to another; a topic without it has one receiver
	Receivers map[string]Receiver
	Attempts  int // deliveries of a message before it is abandoned; defaults to 8
	Retain    Retention

	// Impaired reports what keeps the whole server from working, or nil. Why names it for every job that has not ended.
	// It may be called concurrently. Defaults to none.
	Impaired func() *status.Impairment
	// Leads reports whether this engine does the work that one engine of a shared store does for all: the sweep, the
	// parking of held jobs, retention, and what applications do after [Engine.Leads]. It is called before each round,
	// from several goroutines, and must be quick.
	// A store that one process owns ([job.Properties].Exclusive) does not need it. Defaults to always.
	Leads func() bool
	Meter meter.Meter // is notified of claims, attempts and deliveries; defaults to none
	// defaults to: one claim in ten takes the job that waited longest, if it waited ten minutes; a negative Share: none
	Ageing job.Ageing
}

// JobLogs keeps what steps log, by job. Package joblog has one in files.
type JobLogs interface {
	Logger(id job.ID, epoch int64, state lifecycle.State) *slog.Logger
}

// Engine moves the jobs of one store. Any number of engines may share a store that allows it.
type Engine struct {
	surroundings
	store   job.Store
	guard   *clock.Guard
	latest  time.Time // the latest time that an earlier process may have written to records
	options Options
	name    string // with an instance part, so that a restarted engine is another worker
	meter   meter.Meter
	entropy *lockedEntropy
	kinds   atomic.Pointer[kinds] // the registered works; replaced as a whole
	shared  *pool

	defining sync.RWMutex // is held while jobs are created; Register and Unregister hold it alone

	open   atomic.Bool // Run is under way and not stopping; mu guards its changes
	chains atomic.Bool // steps keep their claims: open, and no suspect waits to run alone; mu guards its changes

	stopped stoppedWatch

	mu         sync.Mutex // guards the rest
	random     *mathrand.Rand
	running    map[job.ID]*running
	waiters    map[job.ID][]*waiter
	rechecks   bool            // recheck is called later
	woken      []chan struct{} // of waiters that hints wake, used again; nil while a call uses it
	started    bool            // Run is under way
	drained    chan struct{}   // closed when no step of the last Run runs any more
	stopping   chan struct{}   // closed when Run begins to stop
	work       context.Context // of the steps
	lasting    context.Context // of their commits: it does not end
	suspects   suspicion
	several    severalJobs
	alarms     alarms
	alarmTimer *time.Timer

	wake    chan struct{}   // to the dispatcher
	topics  []string        // that are delivered, sorted
	posts   []chan struct{} // to the deliveries: one for each topic and one for the rest
	parking chan struct{}   // to the sweep: there is a new hold
	steps   sync.WaitGroup
	lines   lineNumbers // of remote workers
	claims  claimTimes  // of remote workers
	retain  *retention
	headway atomic.Int64 // of the sweep: nanoseconds since 1970 by the engine's clock; 0 while it does not run
}

type lockedEntropy struct {
	sync.Mutex
	*ulid.MonotonicEntropy
}

// Reasons for which a step's context ends.
var (
	errLost     = errors.New("the claim is over")
	errStopping = errors.New("the engine stops")
	errExpired  = errors.New("the time for this state is up")
)

// withDefaults returns the options with the defaults.
func (o Options) withDefaults() Options {
	if o.Name == "" {
		o.Name = "engine"
	}
	if o.Slots <= 0 {
		o.Slots = 16
	}
	if o.Lease <= 0 {
		o.Lease = 15 * time.Second
	}
	if o.Renew <= 0 {
		o.Renew = o.Lease / 3
	}
	if o.Sweep <= 0 {
		o.Sweep = time.Second
	}
	if o.Grace <= 0 {
		o.Grace = 10 * time.Second
	}
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Rand == nil {
		o.Rand = mathrand.New(mathrand.NewPCG(mathrand.Uint64(), mathrand.Uint64()))
	}
	if o.Entropy == nil {
		o.Entropy = rand.Reader
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Attempts <= 0 {
		o.Attempts = 8
	}
	if o.Meter == nil {
		o.Meter = meter.None{}
	}
	if o.Ageing.Share == 0 {
		o.Ageing = job.Ageing{Share: 10, Patience: 10 * time.Minute}
	}
	o.Ageing.Share = max(o.Ageing.Share, 0)
	o.Retain = o.Retain.withDefaults()
	return o
}

// New makes an engine for the works. The error names every mistake in them.
func New(store job.Store, works []Work, o Options) (*Engine, error) {
	o = o.withDefaults()
	e := &Engine{
		surroundings: surroundings{clock: o.Clock, log: o.Log, logs: o.JobLogs},
		store:        store, options: o, meter: o.Meter, random: o.Rand,
		entropy: &lockedEntropy{MonotonicEntropy: ulid.Monotonic(o.Entropy, 0)},
		running: map[job.ID]*running{}, waiters: map[job.ID][]*waiter{},
		shared: &pool{total: o.Slots, free: o.Slots, waiting: unknown},
		wake:   make(chan struct{}, 1), parking: make(chan struct{}, 1),
	}
	e.drained = make(chan struct{})
	close(e.drained)
	e.topics = slices.Sorted(maps.Keys(o.Deliver))
	for range len(e.topics) + 1 {
		e.posts = append(e.posts, make(chan struct{}, 1))
	}
	e.suspects.search, e.several = true, severalJobs{}
	e.progress.now = map[job.ID]job.Progress{}
	if err := e.guardClock(context.Background(), &o); err != nil {
		return nil, err
	}
	e.retain = newRetention(o.Retain, e.clock, e.guard)
	e.name = o.Name + "/" + strings.ToLower(e.ulid(e.clock.Now())[16:])
	var mistakes []error
	e.kinds.Store(&kinds{pools: []*pool{e.shared}})
	for i := range works {
		mistakes = append(mistakes, e.register(&works[i]))
	}
	if err := errors.Join(mistakes...); err != nil {
		return nil, err
	}
	return e, nil
}

// Kinds lists the registered kinds, sorted.
func (e *Engine) Kinds() []job.Kind {
	kinds := make([]job.Kind, 0, len(e.kindsNow().works))
	for k := range e.kindsNow().works {
		kinds = append(kinds, k)
	}
	slices.Sort(kinds)
	return kinds
}

func (e *Engine) kindNames() string {
	words := []string{}
	for _, k := range e.Kinds() {
		words = append(words, string(k))
	}
	return cmp.Or(strings.Join(words, ", "), "none")
}

// Life returns the lifecycle of a kind, or nil.
func (e *Engine) Life(k job.Kind) *lifecycle.Table {
	if w := e.workOf(k); w != nil {
		return w.Life
	}
	return nil
}

// Work returns the registration of a kind, for reading, or nil. Its Policies have every state, with the defaults.
func (e *Engine) Work(k job.Kind) *Work { return e.workOf(k) }

// Store returns the store, for reading.
func (e *Engine) Store() job.Store { return e.store }

// Clock returns the engine's clock, which also decides whether ages can be computed.
func (e *Engine) Clock() *clock.Guard { return e.guard }

// beforeClaims does what must precede the first claim. On a full disk it waits until there is space.
func (e *Engine) beforeClaims(ctx context.Context) error {
	for _, first := range []func(context.Context) error{e.reanchor, e.reclaim, e.keepClock} {
		for {
			err := first(ctx)
			if err == nil {
				break
			}
			if !job.IsFull(err) || ctx.Err() != nil {
				return err
			}
			e.log.Warn("the engine begins when the store accepts writes", "error", err)
			again := time.NewTimer(e.options.Sweep)
			select {
			case <-ctx.Done():
				again.Stop()
				return err
			case <-again.C:
			}
		}
	}
	return nil
}

// Run works until ctx ends. Then it claims no more jobs and gives running steps Grace; jobs of steps that have not
// ended by then return to their queue with the event yield. If a step still runs 10 s after its context ended, its job
// returns to its queue too: another worker may begin it, and what the step commits later is Stale. Run then returns an
// error of kind Internal that names such jobs.
//
// Other errors: that of a store that is down at the beginning, and Refused while the engine runs already or a step of
// the last Run has not ended.
func (e *Engine) Run(ctx context.Context) error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.exit()
	work, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	watch, unwatch := context.WithCancel(context.WithoutCancel(ctx))
	defer unwatch()
	e.store.Watch(watch, e.onHints)
	if err := e.beforeClaims(ctx); err != nil {
		if ctx.Err() != nil { // stopped before it began
			return nil
		}
		return err
	}
	e.mu.Lock()
	e.work, e.lasting, e.stopping = work, context.WithoutCancel(work), make(chan struct{})
	e.open.Store(true)
	e.decideChains()
	e.mu.Unlock()

	var loops sync.WaitGroup
	loops.Go(func() { e.renewals(watch) })
	var rest sync.WaitGroup
	rest.Go(func() { e.sweeps(ctx) })
	rest.Go(func() { e.retain.run(ctx, e) })
	var undelivered []string
	rest.Go(func() { undelivered = e.deliveries(ctx) })
	e.dispatch(ctx)

	e.mu.Lock()
	e.open.Store(false)
	e.decideChains()
	close(e.stopping)
	e.mu.Unlock()
	left := e.endSteps(context.WithoutCancel(ctx), func() { cancel(errStopping) })
	rest.Wait()
	if err := e.keepClock(context.WithoutCancel(ctx)); err != nil {
		e.log.Error("the time could not be stored", "error", err)
	}
	unwatch()
	loops.Wait()
	e.mu.Lock()
	for _, t := range []*time.Timer{e.alarmTimer, e.suspects.timer} {
		if t != nil {
			t.Stop()
		}
	}
	e.mu.Unlock()
	return errors.Join(left, stillRun("deliveries", undelivered))
}

// onHints handles the store's hints: it wakes the dispatcher, cancels steps whose claim has ended, and notifies
// waiters. Those of a job that ended by its step are notified when its slot is free, so that what they submit next can
// begin at once.
func (e *Engine) onHints(hints []job.Hint) {
	work, suspects, all := false, false, e.kindsNow()
	e.mu.Lock()
	woken := e.woken[:0]
	e.woken = nil
	for i := range hints {
		h := &hints[i]
		if h.Released {
			all.expectAll()
			work, suspects = true, true
			continue
		}
		if !h.Until.IsZero() {
			e.alarmAt(h.Until)
			continue
		}
		w := all.works[h.Kind]
		if h.Free && w != nil && w.Steps[h.State] != nil {
			all.poolOf(h.Kind).expect(1)
			work, suspects = true, suspects || h.Record == nil || h.Record.Suspect()
		}
		if w != nil && len(w.Steps) > 0 && all.releases(h) {
			all.poolOf(h.Kind).expect(1)
			work = true
		}
		r := e.running[h.Job]
		switch {
		case r == nil && (h.Ended || h.Free):
			e.progress.drop(h.Job)
		case r == nil:
		case h.Epoch > r.epoch.Load() && (h.Ended || h.Free):
			r.cancel(errLost)
		case h.Epoch == r.epoch.Load() && h.Ended:
			r.ended = true
		case h.Epoch == r.epoch.Load() && !h.Free:
			r.heed(h.Record)
		}
		for _, w := range e.waiters[h.Job] {
			if w.hint(h) && (r == nil || !r.ended) {
				woken = append(woken, w.woken) // without mu the waiter may have been freed
			}
		}
	}
	e.mu.Unlock()
	for _, c := range woken { // those that wake need mu
		signal(c)
	}
	clear(woken)
	e.mu.Lock()
	e.woken = woken[:0]
	e.suspects.search = e.suspects.search || suspects
	e.mu.Unlock()
	if work {
		signal(e.wake)
	}
}

// wakeDispatcher makes the dispatcher search for jobs.
func (e *Engine) wakeDispatcher() {
	e.mu.Lock()
	e.kindsNow().expectAll()
	e.suspects.search = true
	e.mu.Unlock()
	signal(e.wake)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// decideChains notes whether steps keep their claims. The caller holds mu.
func (e *Engine) decideChains() { e.chains.Store(e.open.Load() && e.suspects.draining.IsZero()) }

// chanceFor is the chance that an outcome needs: only the pause of a retry depends on one.
func (e *Engine) chanceFor(o *outcome) float64 {
	if o.verdict != retries {
		return 0
	}
	return e.chance()
}

func (e *Engine) chance() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.random.Float64()
}
