package durable

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Kind is the kind of jobs that are flows.
const Kind job.Kind = "flow"

// Prefix is that of the ids of flows.
const Prefix = "flw"

// Factory makes the flow of an order from its arguments. It is called on every worker that takes the flow, each time it
// takes it: it must make the same flow then, and do nothing else.
type Factory func(args json.RawMessage) (flow.Item, error)

// Limits bound what is stored of one flow. Zero fields take the defaults.
type Limits struct {
	Value   int // bytes of the largest value as JSON; defaults to 16 MiB
	Inline  int // bytes of the largest value in a record; larger ones go to Blobs; defaults to 32 KiB
	Signals int // that no task has taken; defaults to 1000
	// bytes of all values in the records of a flow; values of up to 256 bytes are always accepted; defaults to 64
	// MiB
	Total  int
	Inject int // bytes of the arguments and injected values of an order; defaults to 1 MiB
}

// Options of Flows. The zero Options work, but know no factory.
type Options struct {
	Factories map[string]Factory
	Workers   *flow.Pool // tasks of all flows run in it; defaults to a pool of 16
	// flows that are run at once by an engine, in slots of their own; defaults to the engine's, shared with other jobs
	Slots  int
	Blobs  Blobs // for large values; nil: none may be larger than Limits.Inline
	Limits Limits

	Upgrade   func(*flow.Difference) error // see [flow.Options.Upgrade]
	Listeners []flow.Listener              // of all flows; Event.ID is the job's
	// further listeners of one flow, asked each time it is taken; nil: none
	Attach   func(id job.ID, item flow.Item) []flow.Listener
	Policies map[lifecycle.State]engine.Policy // of single states; see MaxStarts
	// claims whose workers crashed before a flow is rolled back, and once more as many before it fails; defaults to 5
	MaxStarts int
	// how long ended flows are kept before they are deleted; defaults to job.Unlimited
	Keep time.Duration
	// executions of one atom before its flow stops trying; defaults to 1000
	Attempts int
	Grace    time.Duration // see [flow.Options.Grace]
}

// Flows runs flows. It is safe for concurrent use, and may serve several engines.
type Flows struct {
	o      Options
	engine atomic.Pointer[engine.Engine]
	mu     sync.Mutex // guards inlets
	inlets map[job.ID]inlet
	sent   atomic.Int64 // signals: those of one moment keep their order
}

// New makes the application. The error names every mistake in the options.
func New(o Options) (*Flows, error) {
	var mistakes []error
	for name, f := range o.Factories {
		if name == "" || f == nil {
			mistakes = append(mistakes, fmt.Errorf("the factory %q needs a name and a function", name))
		}
	}
	for name, v := range map[string]*int{"Value": &o.Limits.Value, "Inline": &o.Limits.Inline, "Total": &o.Limits.Total,
		"Inject": &o.Limits.Inject, "Signals": &o.Limits.Signals} {
		if *v < 0 {
			mistakes = append(mistakes, fmt.Errorf("the limit %s is negative", name))
		}
	}
	if err := errors.Join(mistakes...); err != nil {
		return nil, err
	}
	usual(&o.Limits.Value, 16<<20)
	usual(&o.Limits.Inline, 32<<10)
	usual(&o.Limits.Total, 64<<20)
	usual(&o.Limits.Inject, 1<<20)
	usual(&o.Limits.Signals, 1000)
	usual(&o.MaxStarts, 5)
	o.Limits.Inline = min(o.Limits.Inline, o.Limits.Value)
	if o.Workers == nil {
		o.Workers = flow.NewPool(16)
	}
	return &Flows{o: o}, nil
}

func usual(v *int, otherwise int) {
	if *v == 0 {
		*v = otherwise
	}
}

// Bind joins Flows to an engine that was made with its Work. It is called before the engine runs: without it flows
// cannot be reset.
func (f *Flows) Bind(e *engine.Engine) { f.engine.Store(e) }

// Work is the kind that an engine is to be made with.
func (f *Flows) Work() engine.Work {
	steps := map[lifecycle.State]engine.Step{}
	for _, s := range []lifecycle.State{flow.Pending, flow.Running, flow.Suspending, flow.Suspended, flow.Resuming} {
		steps[s] = f.step
	}
	return engine.Work{
		Life: flow.Life, Prefix: Prefix, Steps: steps, Slots: f.o.Slots, Policies: f.o.Policies,
		Policy:    engine.Policy{MaxStarts: f.o.MaxStarts, MaxAttempts: 20},
		OwnEnds:   true,
		Accompany: f.accompany, Announce: f.announce, Explain: explain, Keep: f.o.Keep,
	}
}

// Factories lists the names of the factories, sorted.
func (f *Flows) Factories() []string { return sortedKeys(f.o.Factories) }

func (f *Flows) known() string { return strings.Join(f.Factories(), ", ") }
