package flow

import (
	"context"
	"strings"

	"github.com/stagepost/stagepost/flow/internal/recorder"
	"github.com/stagepost/stagepost/lifecycle"
)

// Allowed reports whether a flow may be asked to change so.
func Allowed(from, to lifecycle.State) bool { return statePair{from, to}.isAllowed() }

// Ignored reports whether a flow that is asked to change so stays as it is, without an error.
func Ignored(from, to lifecycle.State) bool { return statePair{from, to}.isIgnored() }

// Change changes the stored records, concurrently with the Runner of the flow.
func (m *Memory) Change(change func(*Snapshot)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.snap)
	clear(m.at)
	for i := range m.snap.Atoms {
		m.at[m.snap.Atoms[i].Name] = i
	}
}

// capture is flowtest.Capture, which tests of this package cannot import.
type capture struct{ recorder.Recorder[Event] }

func (c *capture) Changes() (all []string) {
	for _, e := range c.Events() {
		if e.Within == "" {
			all = append(all, e.Subject()+" "+string(e.New))
		}
	}
	return all
}

func (c *capture) String() string { return strings.Join(c.Changes(), ", ") }

func reached(name string, s lifecycle.State) func(Event) bool {
	return func(e Event) bool { return e.Within == "" && e.Subject() == name && e.New == s }
}

// Watching returns options that call a function when the machine enters a state.
func (o Options) Watching(machine func(string)) Options {
	o.machine = machine
	return o
}

// ClearInjected removes all values of the flow.
func (r *Runner) ClearInjected(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(ctx); err != nil {
		return err
	}
	r.injected = map[string]Value{}
	return storageErr(r.save(ctx, &Commit{Injected: r.injected}))
}

// MoveFrom moves a flow from one state to another by an event, as the Runner does.
func (r *Runner) MoveFrom(ctx context.Context, from lifecycle.State, e lifecycle.Event, to lifecycle.State) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if from != Resuming { // loading goes on from there at once
		if err := r.load(ctx); err != nil {
			return err
		}
	}
	r.setState(from)
	return r.move(ctx, e, to, nil)
}
