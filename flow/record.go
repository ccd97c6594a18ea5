package flow

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Intention is what the flow does with an atom next. A new Runner needs only it and the state to continue.
type Intention string

// The intentions.
const (
	Execute  Intention = "EXECUTE"
	ToRevert Intention = "REVERT"
	ToRetry  Intention = "RETRY" // retry controllers only: revert its part, then run it again
	ToIgnore Intention = "IGNORE"
)

// Kind is the kind of an atom.
type Kind string

// The kinds.
const (
	KindTask  Kind = "task"
	KindRetry Kind = "retry"
)

// Record is the stored form of an atom. Nothing else is stored of it.
type Record struct {
	Name      string          `json:"name"`
	Kind      Kind            `json:"kind"`
	Version   string          `json:"version"`
	State     lifecycle.State `json:"state"`
	Intention Intention       `json:"intention"`

	Result        *Value   `json:"result,omitempty"`         // of Execute; readable in SUCCESS, FAILURE, REVERTING
	Failure       *Failure `json:"failure,omitempty"`        // of Execute, until the atom is reset
	Reverted      *Value   `json:"reverted,omitempty"`       // of Revert
	RevertFailure *Failure `json:"revert_failure,omitempty"` // of Revert
	History       History  `json:"history,omitempty"`        // of a retry controller

	// executions; a retry or a reset continues the count: see [Call.Key]
	Attempts int `json:"attempts,omitempty"`
	// failed executions that [Task.Attempts] repeated, in this attempt
	Tries  int       `json:"tries,omitempty"`
	Due    time.Time `json:"due,omitzero"`     // RUNNING: waits until then; see Awaits
	Awaits string    `json:"awaits,omitempty"` // RUNNING: waits for this signal
	Waits  bool      `json:"waits,omitempty"`  // RUNNING and inactive: it waits for Due, Awaits or both

	Progress float64   `json:"progress,omitempty"` // of Execute or Revert, 0 to 1
	Details  *Value    `json:"details,omitempty"`  // of the progress
	Began    time.Time `json:"began,omitzero"`     // the present or last execution or revert
	Ended    time.Time `json:"ended,omitzero"`

	// of an atom that is or was reverted: the reverted execution
	ExecuteBegan time.Time `json:"execute_began,omitzero"`
	ExecuteEnded time.Time `json:"execute_ended,omitzero"`
}

// Snapshot is all that is stored of a flow.
type Snapshot struct {
	State    lifecycle.State         `json:"state"` // empty: PENDING
	Atoms    []Record                `json:"atoms"` // in any order
	Injected map[string]Value        `json:"injected,omitempty"`
	Outline  *Outline                `json:"outline,omitempty"` // of the flow that made it; nil: it is not compared
	Signals  map[string][]KeptSignal `json:"signals,omitempty"` // by name, the oldest first

	// Live means that the last run ended in order, or that this process still has the flow. Then the flow does not pass
	// through RESUMING. Storage that is opened after a crash leaves it false.
	Live bool `json:"-"`
}

// Commit is one decision and all its changes. It is stored completely or not at all.
type Commit struct {
	Move     *Transition      // of the flow; nil: it stays
	Atoms    []Record         // replaced by name; valid during the call
	Injected map[string]Value // all of them, if they changed
	Err      error            // why the flow ends as it does, with Move
	Taken    []string         // ids of the signals that its results take
	Ending   *Ending          // the request to end that the run has taken in; nil: none
	Outline  *Outline         // of the flow, if it is not the stored one
	Created  bool             // the first commit of these atoms: Snapshot had none of them
}

// Transition is a change of the flow's state by an event of [Life].
type Transition struct {
	Event    lifecycle.Event
	From, To lifecycle.State
}

// Storage keeps one flow. A Runner calls it from one goroutine at a time.
type Storage interface {
	// Load returns the stored flow; for a flow that was never run, an empty Snapshot.
	Load(ctx context.Context) (*Snapshot, error)

	// Save stores a commit. If it returns nil, every later Load returns all of it; otherwise none of it. An error ends
	// the run at once: nothing more is reported or started.
	Save(ctx context.Context, c *Commit) error
}

// Memory is a Storage in the memory of the process, for tests and for examining a flow while it runs.
type Memory struct {
	mu   sync.Mutex // guards the rest
	snap Snapshot
	at   map[string]int // position in snap.Atoms
}

// NewMemory makes an empty storage.
func NewMemory() *Memory { return &Memory{at: map[string]int{}} }

// Load is part of Storage.
func (m *Memory) Load(context.Context) (*Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.snap
	s.Atoms = slices.Clone(m.snap.Atoms)
	for i := range s.Atoms {
		s.Atoms[i].History = slices.Clone(s.Atoms[i].History)
	}
	return &s, nil
}

// Save is part of Storage.
func (m *Memory) Save(_ context.Context, c *Commit) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.Move != nil {
		m.snap.State = c.Move.To
	}
	if c.Outline != nil {
		m.snap.Outline = c.Outline
	}
	if c.Injected != nil {
		m.snap.Injected = c.Injected
	}
	for i := range c.Atoms {
		r := c.Atoms[i]
		r.History = slices.Clone(r.History)
		if at, ok := m.at[r.Name]; ok {
			m.snap.Atoms[at] = r
			continue
		}
		m.at[r.Name] = len(m.snap.Atoms)
		m.snap.Atoms = append(m.snap.Atoms, r)
	}
	return nil
}
