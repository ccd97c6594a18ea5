package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"sync"

	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/lifecycle"
)

// engine runs one flow of a scenario. A [flow.Runner] is one.
type engine interface {
	Run(ctx context.Context) error
	Suspend()
	Reset(ctx context.Context) error
	Inject(ctx context.Context, values flow.Values) error
	ClearInjected(ctx context.Context) error
	Load(ctx context.Context) error
	State() lifecycle.State
	Atoms() []flow.Record
	Values() flow.Values
	ExecuteFailures() map[string]*flow.Failure
	RevertFailures() map[string]*flow.Failure
}

// stage is the environment of a play: the storage of the flow and the constructor of engines.
type stage interface {
	// engine makes an engine on the storage.
	engine(item flow.Item, o flow.Options) (engine, error)
	// change changes the stored records without an engine.
	change(func(*flow.Snapshot)) error
	// keeps reports whether the storage outlives the engine: presets and second engines need that.
	keeps() bool
}

// bare has no storage at all: the engine is all there is.
type bare struct{}

func (bare) engine(item flow.Item, o flow.Options) (engine, error) { return flow.New(item, o) }
func (bare) keeps() bool                                           { return false }
func (bare) change(func(*flow.Snapshot)) error                     { return errors.New("nothing is kept") }

// memory keeps the flow in a [flow.Memory].
type memory struct{ *ledger }

func (m memory) keeps() bool { return true }

func (m memory) engine(item flow.Item, o flow.Options) (engine, error) {
	o.Storage = m.ledger
	return flow.New(item, o)
}

func (m memory) change(change func(*flow.Snapshot)) error {
	m.Change(change)
	return nil
}

// errDead is the error of a storage for a process that has crashed.
var errDead = errors.New("the process is dead")

// ledger is a storage that checks its commits and can crash the process at one of them.
type ledger struct {
	*flow.Memory
	harness *harness
	asJSON  bool // records pass through JSON, as in durable storage
	crashAt int  // the number of the commit at which the process crashes; 0: it does not
	lost    bool // and whether that commit is lost
	forgets int  // the number of a commit that is accepted and not stored; 0: none

	mu    sync.Mutex // guards the rest
	saves int        // notified of
	kept  int        // stored
	last  flow.Transition
	dead  bool
	atoms map[string]flow.Record
	was   map[string]bool // "atom STATE": stored at some time
}

func newLedger(w *harness) *ledger {
	l := &ledger{Memory: flow.NewMemory(), harness: w, atoms: map[string]flow.Record{}, was: map[string]bool{}}
	w.stored = func(atom string) string {
		l.mu.Lock()
		defer l.mu.Unlock()
		return string(l.atoms[atom].State)
	}
	return l
}

// Load is part of [flow.Storage].
func (l *ledger) Load(ctx context.Context) (*flow.Snapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	snap, err := l.Memory.Load(ctx)
	if err != nil {
		return nil, err
	}
	if l.dead {
		return nil, errDead
	}
	if l.asJSON {
		live := snap.Live
		text, err := json.Marshal(snap)
		if err != nil {
			return nil, err
		}
		snap = &flow.Snapshot{Live: live}
		if err := json.Unmarshal(text, snap); err != nil {
			return nil, err
		}
	}
	clear(l.atoms)
	for _, r := range snap.Atoms {
		l.atoms[r.Name] = r
	}
	return snap, nil
}

// Save is part of [flow.Storage].
func (l *ledger) Save(ctx context.Context, c *flow.Commit) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return errDead
	}
	if l.saves++; l.saves == l.crashAt {
		l.dead = true
		defer l.harness.crash()
		if l.lost {
			return errDead
		}
	}
	if l.saves == l.forgets {
		return nil
	}
	for _, r := range c.Atoms {
		l.checkRestart(l.atoms[r.Name], r)
		l.atoms[r.Name] = r
		l.was[r.Name+" "+string(r.State)] = true
		if r.State == flow.Reverting { // one commit can be for two changes
			l.was[r.Name+" SUCCESS"], l.was[r.Name+" FAILURE"] = r.Failure == nil, r.Failure != nil
		}
	}
	if err := l.Memory.Save(ctx, c); err != nil {
		return err
	}
	l.kept++
	if c.Move != nil {
		l.last = *c.Move
	}
	if l.dead {
		return errDead
	}
	return nil
}

// checkRestart refuses that an atom whose success is stored starts again without a reset, a revert or a retry.
func (l *ledger) checkRestart(old, now flow.Record) {
	if old.State != flow.Success {
		return
	}
	retried := now.Kind == flow.KindRetry && old.Intention == flow.ToRetry
	if now.State == flow.FailureState || now.State == flow.Running && !retried {
		l.harness.violate(l.harness.life(), "%s had succeeded, and becomes %s", now.Name, now.State)
	}
}

// revive lets another process begin after the first has crashed.
func (l *ledger) revive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = false
	// waiting checks read the stored records
	l.harness.note(l.harness.life(), func() { maps.Copy(l.harness.announced, l.was) })
}

// account reports how many commits were tried and stored, and what the flow's last move was.
func (l *ledger) account() (tried, stored int, last flow.Transition, dead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.saves, l.kept, l.last, l.dead
}
