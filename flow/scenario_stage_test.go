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

// stage is where a scenario is played: what keeps its flow, and how engines are made over that.
type stage interface {
	// engine makes an engine over what is kept.
	engine(item flow.Item, o flow.Options) (engine, error)
	// change changes what is kept, behind everybody's back.
	change(func(*flow.Snapshot)) error
	// keeps reports whether what is kept outlives the engine: presets and second engines need that.
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

// errDead is what a storage states to a process that has crashed.
var errDead = errors.New("the process is dead")

// ledger is a storage that examines what it is given, and can let the process die at a commit.
type ledger struct {
	*flow.Memory
	world   *harness
	asJSON  bool // what is stored goes through JSON, as in storage that lasts
	crashAt int  // the number of the commit at which the process crashes; 0: it does not
	lost    bool // and whether that commit is lost
	forgets int  // the number of a commit that is not stored, and stated to be; 0: none is

	mu    sync.Mutex // guards the rest
	saves int        // notified of
	kept  int        // stored
	last  flow.Transition
	dead  bool
	atoms map[string]flow.Record
	was   map[string]bool // "atom STATE": stored at some time
}

func newLedger(w *harness) *ledger {
	l := &ledger{Memory: flow.NewMemory(), world: w, atoms: map[string]flow.Record{}, was: map[string]bool{}}
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
		defer l.world.crash()
		if l.lost {
			return errDead
		}
	}
	if l.saves == l.forgets {
		return nil
	}
	for _, r := range c.Atoms {
		l.look(l.atoms[r.Name], r)
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

// appear refuses that an atom whose success is stored is begun again without a reset, a revert or a retry.
func (l *ledger) look(old, now flow.Record) {
	if old.State != flow.Success {
		return
	}
	retried := now.Kind == flow.KindRetry && old.Intention == flow.ToRetry
	if now.State == flow.FailureState || now.State == flow.Running && !retried {
		l.world.violate(l.world.life(), "%s had succeeded, and becomes %s", now.Name, now.State)
	}
}

// revive lets another process begin after the first has crashed.
func (l *ledger) revive() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = false
	// who waits for news reads what is stored
	l.world.note(l.world.life(), func() { maps.Copy(l.world.announced, l.was) })
}

// account reports how many commits were tried and stored, and what the flow's last move was.
func (l *ledger) account() (tried, stored int, last flow.Transition, dead bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.saves, l.kept, l.last, l.dead
}
