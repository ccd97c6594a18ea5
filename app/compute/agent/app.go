package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/internal/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Service reports how payloads of one service are run here.
type Service struct {
	Binds   []sandbox.Bind      // files and directories of the machine that they may read
	Network string              // "none" (the default) or "host"
	Env     map[string]string   // that they get; a payload's own go over them
	Limits  compute.Limits      // where a payload asks for none
	Max     compute.Limits      // that a payload may ask for
	Check   compute.ScriptCheck // of run.sh. nil: that of the agent
}

// Runner runs one command confined. [sandbox.Sandbox] is one.
type Runner interface {
	Run(ctx context.Context, c *sandbox.Command) (sandbox.Ending, error)
}

// Options of the application. Dir is required.
type Options struct {
	Dir   string // the data directory
	Name  string // of the agent, shown to people. Defaults to the name of the machine
	Slots int    // payloads that run at once. Defaults to the number of processors
	// that payloads together may ask for. Defaults to the number of processors; negative: any number
	Cores float64
	// bytes that payloads together may ask for. Defaults to that of the machine; negative: any amount
	Memory   int64
	Reserve  int64              // bytes of the disk that no parcel may take. Defaults to 256 MiB
	Services map[string]Service // by name. Defaults to any service, with the zero Service
	Labels   []string           // that services and jobs can require
	// services that Services does not name are served, too, with the zero Service
	Others  bool
	Runner  Runner // what confines payloads
	Sandbox string // how Runner confines, for people and records
	// between SIGTERM and SIGKILL for a payload that is ended. Defaults to 5 s
	Grace time.Duration
	// of files after the end of a payload, if no receipt comes. Defaults to 48 h; job.Unlimited: until one comes
	Keep time.Duration
	// for services that set none. Defaults to 64 MiB of each output and 4096 processes; memory is bounded by Memory in
	// any case
	Limits compute.Limits
	Check  compute.ScriptCheck // for services that set none. nil: every script may run
	// what in the environment shows a path to jobs of a service. nil: nothing does
	Setting func(service, path string) string
	Log     *slog.Logger // never of secrets, headers or content. Defaults to none
	Disk    DiskSpace    // defaults to asking the file system of Dir
}

// DiskSpace reports how many bytes of a directory's file system are free.
type DiskSpace func(dir string) (free int64, err error)

func (o *Options) complete() error {
	if o.Dir == "" || o.Runner == nil {
		return errors.New("an agent needs a data directory and something that runs payloads")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return err
	}
	o.Dir = dir
	if o.Name == "" {
		o.Name, _ = os.Hostname()
	}
	if o.Slots <= 0 {
		o.Slots = runtime.NumCPU()
	}
	if o.Cores == 0 {
		o.Cores = float64(runtime.NumCPU())
	}
	if o.Memory == 0 {
		o.Memory = MachineMemory()
	}
	o.Cores, o.Memory = max(o.Cores, 0), max(o.Memory, 0)
	if o.Reserve == 0 {
		o.Reserve = 256 << 20
	}
	if o.Grace <= 0 {
		o.Grace = 5 * time.Second
	}
	if o.Keep == 0 {
		o.Keep = 48 * time.Hour
	}
	o.Keep = max(o.Keep, 0)
	if o.Limits.Output == 0 {
		o.Limits.Output = 64 << 20
	}
	if o.Limits.Processes == 0 {
		o.Limits.Processes = 4096
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Disk == nil {
		o.Disk = DiskFree
	}
	return nil
}

// App is the agent: what the engine calls for the kind compute.payload, and what servers ask it.
type App struct {
	options Options
	log     *slog.Logger
	engine  *engine.Engine
	memory  *memory
	fault   error // written by Bind
	room    *capacity
	load    *loadMeter
	hub     *hub
	cleaned *hub // of payloads whose files may have to go
	pack    packer
	shell   string
	freed   chan struct{}   // capacity was released
	life    context.Context // ends with Close
	stop    context.CancelFunc
	wait    sync.WaitGroup

	mu       sync.Mutex // guards the rest
	busy     map[job.ID]bool
	awaited  map[job.ID]int // waiters for busy ones
	trials   map[job.ID]*trial
	draining bool
	halted   bool // nothing is started any more
}

// New opens the application in its data directory, which it makes if there is none.
func New(o Options) (*App, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	for _, dir := range []string{"", stageName, payloadsName} {
		if err := durable.MkdirAll(filepath.Join(o.Dir, dir), 0o700); err != nil {
			return nil, fmt.Errorf("agent: %w", err)
		}
	}
	if err := openWay(&o); err != nil {
		return nil, fmt.Errorf("agent: %w", err)
	}
	a := &App{
		options: o, log: o.Log, room: newCapacity(need{o.Memory, o.Cores}), load: newLoadMeter(), hub: newHub(),
		cleaned: newHub(), pack: zipper{}, shell: Shell(),
		freed: make(chan struct{}, 1), busy: map[job.ID]bool{}, awaited: map[job.ID]int{}, trials: map[job.ID]*trial{},
	}
	a.life, a.stop = context.WithCancel(context.Background())
	return a, nil
}

// Shell is the program that runs run.sh: bash, else whatever the system has.
func Shell() string {
	for _, name := range []string{"/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"} {
		if _, err := os.Stat(name); err == nil {
			return name
		}
	}
	return "/bin/sh"
}

// Works are the kinds that the engine is to be made with.
func (a *App) Works() []engine.Work {
	return []engine.Work{{
		Life: compute.PayloadLife, Prefix: prefix, Keep: a.options.Keep, Slots: a.options.Slots, Explain: explain,
		Steps: map[lifecycle.State]engine.Step{compute.Prepared: a.start, compute.Running: a.resume},
	}}
}

// explain completes why a payload waits for capacity.
func explain(_ *job.Job, b *job.Blocker) {
	if b.Code == codeCapacity {
		b.Holder, b.Remedy = "payloads that run", "nothing: it starts when one of them ends"
	}
}

// Deliver gives the topics of the outbox that the application delivers: none.
func (a *App) Deliver() map[string]engine.Deliver { return nil }

// Bind joins the application to the engine that runs its works. It is called once, before the engine runs. If the data
// directory or the store cannot be read, [App.Fault] reports, and the agent takes nothing.
func (a *App) Bind(e *engine.Engine) {
	a.engine = e
	ctx := a.life
	if a.fault = a.recall(ctx); a.fault != nil {
		a.log.Error("the agent cannot read its records: it accepts nothing", "error", a.fault)
		return
	}
	e.Store().Watch(ctx, a.observe)
	a.wait.Go(func() { a.tidies(ctx) })
	a.wait.Go(func() { a.callNext(ctx) })
	a.wait.Go(func() { a.sweeps(ctx) })
	a.wait.Go(func() { a.load.run(ctx) })
}

// recall reads what earlier lives of the agent left.
func (a *App) recall(ctx context.Context) (err error) {
	if a.memory, err = openMemory(a.options.Dir, func() (bool, error) { return a.empty(ctx) }); err != nil {
		a.memory = &memory{}
		return err
	}
	if err := a.sweep(ctx, true); err != nil {
		a.log.Warn("sweep", "error", err)
	}
	return nil
}

// Fault reports why the agent takes nothing; nil when all is well. It is known when Bind has returned.
func (a *App) Fault() error {
	if a.fault == nil {
		return nil
	}
	return &job.Error{Op: "agent", Kind: job.Unavailable, Err: a.fault}
}

// Close ends background work and open streams. The engine must have stopped.
func (a *App) Close() error {
	a.stop()
	a.wait.Wait()
	return nil
}

// Instance names the agent's memory.
func (a *App) Instance() string { return a.memory.name }

// empty reports whether the store has no payload.
func (a *App) empty(ctx context.Context) (bool, error) {
	page, err := a.engine.Store().List(ctx, job.Query{Kinds: []job.Kind{compute.PayloadKind}, Limit: 1})
	return len(page.Jobs) == 0, err
}

// services lists the services by name; none: any.
func (a *App) services() []string {
	names := []string{}
	if a.options.Others {
		return names
	}
	for name := range a.options.Services {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// service gives how a service is run.
func (a *App) service(name string) (Service, bool) {
	if len(a.options.Services) == 0 {
		return Service{}, true
	}
	s, ok := a.options.Services[name]
	return s, ok || a.options.Others
}

// lock keeps others from receiving, packing or removing a payload until the function it gives is called; ok is false if
// another holds it.
func (a *App) lock(id job.ID) (free func(), ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy[id] {
		return nil, false
	}
	a.busy[id] = true
	return func() {
		a.mu.Lock()
		delete(a.busy, id)
		awaited := a.awaited[id] > 0
		a.mu.Unlock()
		if awaited {
			a.hub.notify(id)
		}
	}, true
}

// locked is lock, and waits for it. When it is given free, the sweep is notified: it may have skipped the payload.
func (a *App) locked(ctx context.Context, id job.ID) (free func(), err error) {
	changes := a.hub.listen()
	defer a.hub.leave(changes)
	a.awaits(id, 1)
	defer a.awaits(id, -1)
	for {
		if free, ok := a.lock(id); ok {
			return func() { free(); a.hub.notify(id) }, nil
		}
		if _, err := changes.next(ctx, a.life); err != nil {
			return nil, &job.Error{Op: "agent", Kind: job.Unavailable, ID: id, Err: err}
		}
	}
}

// awaits counts those who wait for a lock.
func (a *App) awaits(id job.ID, n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.awaited[id] += n; a.awaited[id] == 0 {
		delete(a.awaited, id)
	}
}

// callNext makes the first payload in line check again when capacity was given back.
func (a *App) callNext(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.freed:
		}
		if id, ok := a.room.first(); ok {
			if err := a.engine.Notify(ctx, id, codeCapacity); err != nil && job.KindOf(err) == job.Refused {
				a.room.ended(id)
				signal(a.freed)
			}
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sweeps removes, every hour, what retention removed without a hint.
func (a *App) sweeps(ctx context.Context) {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if err := a.sweep(ctx, false); err != nil && ctx.Err() == nil {
				a.log.Warn("sweep", "error", err)
			}
		}
	}
}
