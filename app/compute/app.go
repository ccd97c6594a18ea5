package compute

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stagepost/stagepost/edge/fetch"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/clock"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Options of the application. Dir is required.
type Options struct {
	Dir      string // the data directory; jobs and uploads lie below it
	Services []Service
	// by the names of agents: what each has besides what it reports. Defaults to nothing
	AgentLabels map[string][]string

	Retries  int           // attempts to hand a job over before it fails. Defaults to 5; negative: without end
	RetryFor time.Duration // over which the attempts are spread. Defaults to 2 min
	Silence  time.Duration // of an agent before a job counts as Unknown. Defaults to 10 s
	Lost     time.Duration // in Unknown before a job counts as lost. Defaults to 1 h
	Killing  time.Duration // since its agent last answered before a cancelled job counts as killed. Defaults to 10 min
	Keep     time.Duration // of files after a job's end (MAX_AGE). Defaults to 48 h; job.Unlimited
	Poll     time.Duration // between checks of agents that report nothing by themselves. Defaults to 500 ms
	Recheck  time.Duration // between checks of those that do. Defaults to 30 s
	Answer   time.Duration // that an executor may take for the answer to a question. Defaults to 10 s
	// in which nothing of a parcel or of results moves before the transfer is abandoned. Defaults to 2 min
	Stall time.Duration
	Slots int // steps at once. Defaults to 64

	UserBytes  int64       // of files that one user may have here. Zero: no bound
	MaxResults int64       // bytes of one job's results. Defaults to 64 GiB
	NeedScript bool        // an upload without run.sh is refused instead of being accepted and then Invalid
	Check      ScriptCheck // of run.sh, before a job runs. Nil: every script may run
	Resend     bool        // a job goes to an executor without tickets again when its answer was lost: it may run twice
	Source     Source      // of inputs that orders name by URL. Nil: such orders are refused
	Log        *slog.Logger

	// refuses as full what does not fit on this server's disk. Nil: nothing is refused
	Space func(bytes int64) error
	// its id, for the source of the events of callbacks. Defaults to none
	Installation string
	// of callbacks: what else they may reach. The zero Policy is safe
	Fetch fetch.Policy
	// is notified of each job that came to an end; ran is zero for one that never ran. Must not block. Nil: no one is
	Ended func(service, state, cause string, ran time.Duration)
	// is notified of bytes that went to an agent or came from one (ToAgent, FromAgent). Nil: no one is
	Moved func(way, service string, n int64)
}

func (o *Options) complete() (err error) {
	if o.Dir == "" {
		return errors.New("compute needs a data directory")
	}
	o.Retries = either(o.Retries, 5)
	o.RetryFor = either(o.RetryFor, 2*time.Minute)
	o.Silence = either(o.Silence, 10*time.Second)
	o.Lost = either(o.Lost, time.Hour)
	o.Killing = either(o.Killing, 10*time.Minute)
	o.Keep = max(either(o.Keep, 48*time.Hour), 0)
	o.Poll = either(o.Poll, 500*time.Millisecond)
	o.Recheck = either(o.Recheck, 30*time.Second)
	o.Answer = either(o.Answer, 10*time.Second)
	o.Stall = either(o.Stall, 2*time.Minute)
	o.Slots = either(o.Slots, 64)
	o.MaxResults = either(o.MaxResults, 64<<30)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Fetch.Log == nil {
		o.Fetch.Log = o.Log
	}
	o.Services, err = CheckServices(o.Services)
	return err
}

// App is the application: what the engine calls for jobs of kind compute.job, and what the server asks about them.
type App struct {
	options     Options
	log         *slog.Logger
	services    map[string]*Service
	registry    *registry
	usage       *usage
	directories *directories
	queues      *queues
	loads       *loads
	callers     map[string]*fetch.Client // by service: the exits of callbacks
	root        *os.Root                 // Dir/compute
	engine      *engine.Engine
	guard       *clock.Guard
	sweeping    sync.Mutex
	draining    sync.Mutex // guards the file of drained executors; locked before the registry
	stage       *os.File   // uploads that are not committed; locked
	alone       bool       // no other process has the lock
	opened      time.Time  // when it was taken
	stop        context.CancelFunc
	wait        sync.WaitGroup
}

// New opens the application in its data directory, which it makes if there is none.
func New(o Options) (*App, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	dir := filepath.Join(o.Dir, "compute")
	for _, sub := range []string{stageName, jobsName, trashName} {
		if err := durable.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, fmt.Errorf("compute: %w", err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("compute: %w", err)
	}
	if err := syncAbove(dir); err != nil {
		return nil, fmt.Errorf("compute: %w", err)
	}
	a := &App{options: o, log: o.Log, services: map[string]*Service{}, callers: map[string]*fetch.Client{}, root: root,
		stop: func() {}}
	for i := range o.Services {
		a.services[o.Services[i].Name] = &o.Services[i]
	}
	a.registry, a.usage, a.directories = newRegistry(a), newUsage(o.UserBytes), newDirectories()
	a.queues, a.loads = newQueues(), newLoads(a)
	if err := a.lockStage(); err != nil {
		return nil, errors.Join(fmt.Errorf("compute: %w", err), root.Close())
	}
	if err := a.openCallers(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if _, err := a.recallDrained(); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return a, nil
}

// Works are the kinds that the engine is to be made with.
func (a *App) Works() []engine.Work {
	var limits []job.Limit
	for i := range a.options.Services {
		limits = append(limits, a.options.Services[i].Quotas()...)
	}
	w := engine.Work{
		Life: JobLife, Prefix: "cmp", Slots: a.options.Slots, Keep: a.options.Keep, Limits: limits,
		Policy: engine.Policy{Backoff: engine.Backoff{First: 200 * time.Millisecond, Max: 10 * time.Second},
			MaxAttempts: 10},
		Policies: map[lifecycle.State]engine.Policy{
			Unknown: {Timeout: a.options.Lost}, Killing: {Timeout: a.options.Killing},
		},
		Adopts: []string{beforeCancel}, Patience: a.patience, Overdue: overdue, Accompany: a.accompany,
		Announce: a.announceAll,
		Explain:  a.explain, Owes: a.owes,
		Steps: map[lifecycle.State]engine.Step{
			Queued: a.begin, Processing: a.send, Submitted: a.query, Prepared: a.query, Running: a.query,
			Unknown:    a.query,
			Retrieving: a.fetch, Killing: a.kill,
		},
	}
	return []engine.Work{w}
}

// beforeCancel is the hash of the lifecycle of jobs before they could be cancelled in Processing, Retrieving and
// Unknown. Its states mean the same.
const beforeCancel = "9cb7249b2a9b2064"

// patience is how long a job may run by the server's clock.
func (a *App) patience(j *job.Job, s lifecycle.State) time.Duration {
	if s != Running {
		return 0
	}
	spec, err := SpecOf(j)
	service := a.services[j.Group]
	if err != nil || service == nil {
		return 0
	}
	return service.patience(spec.Limits)
}

// overdue reports what it means that a job's time in a state was up.
func overdue(j *job.Job) (cause, sentence string) {
	switch j.State {
	case Unknown:
		return lost(j)
	case Killing:
		if d, err := DataOf(j); err == nil {
			return d.abandoned("has not confirmed that it ended it")
		}
		return CauseKilled, "its agent has not confirmed that it ended it"
	}
	return "", ""
}

// lost reports what is known of a job whose agent did not answer for too long: how it ended, if the agent reported that
// and only the output is missing.
func lost(j *job.Job) (cause, sentence string) {
	d, err := DataOf(j)
	if err != nil || d.Notice == nil || d.Notice.Ending == nil {
		return CauseLost, "its agent did not answer, and its end is not known"
	}
	if e := d.Notice.Ending; e.Cause != "" {
		return e.Cause, e.Sentence + "; its output could not be fetched, its agent did not answer"
	}
	return CauseResults, "it ended well, and its agent did not answer when its output was to be fetched"
}

// Deliver gives the topics of the outbox that the application delivers, for the engine's options.
func (a *App) Deliver() map[string]engine.Deliver {
	return map[string]engine.Deliver{forgetTopic: a.deliverForget, cleanTopic: a.deliverClean,
		callbackTopic: a.deliverCallback}
}

// Receivers is part of module.Receiving.
func (a *App) Receivers() map[string]engine.Receiver {
	return map[string]engine.Receiver{callbackTopic: engine.ReceiverIn("host")}
}

// Bind joins the application to the engine that runs its works. It is called once, before the engine runs. Where users
// have a bound for their files, uploads wait until the files that are here were counted.
func (a *App) Bind(e *engine.Engine) {
	a.engine, a.guard = e, e.Clock()
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	a.loads.ctx = ctx
	e.Store().Watch(ctx, a.usage.observe)
	e.Store().Watch(ctx, a.loads.observe)
	if a.options.Ended != nil {
		e.Store().Watch(ctx, a.observeEnds)
	}
	a.wait.Go(func() { a.count(ctx) })
	a.registry.start(ctx)
	a.wait.Go(func() { a.followDrained(ctx) })
	a.wait.Go(func() { a.tidy(ctx) })
	if a.options.Source != nil {
		a.wait.Go(a.loads.resume)
	}
}

// Close ends background work and the agents' connections.
func (a *App) Close() error {
	a.stop()
	a.wait.Wait()
	a.registry.wait.Wait()
	for _, c := range a.callers {
		c.Close()
	}
	return errors.Join(a.stage.Close(), a.root.Close())
}

// Services lists the services by name, completed.
func (a *App) Services() []Service { return a.options.Services }

// UserBytes is how many bytes of files one user may have here; 0: there is no bound.
func (a *App) UserBytes() int64 { return a.options.UserBytes }

// Expires is when the files of a job are removed that ended at a moment. It is zero if they are kept.
func (a *App) Expires(ended time.Time) time.Time {
	if a.options.Keep == 0 {
		return time.Time{}
	}
	return ended.Add(a.options.Keep)
}
