package flow_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	jobengine "github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/flow/durable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// host is an engine over a store that runs flows as jobs. It has the flows of scenarios by number.
type host struct {
	store  job.Store
	engine *jobengine.Engine
	flows  *durable.Flows

	mu        sync.Mutex // guards the rest
	items     []flow.Item
	listeners map[flow.Item][]flow.Listener
}

func newHost(t *testing.T, store job.Store) *host {
	t.Helper()
	h := &host{store: store, listeners: map[flow.Item][]flow.Listener{}}
	var err error
	h.flows, err = durable.New(durable.Options{
		Factories: map[string]durable.Factory{"scenario": h.made}, Upgrade: flow.AcceptChanges,
		Attach: func(_ job.ID, item flow.Item) []flow.Listener {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.listeners[item]
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if h.engine, err = jobengine.New(store, []jobengine.Work{h.flows.Work()}, jobengine.Options{}); err != nil {
		t.Fatal(err)
	}
	h.flows.Bind(h.engine)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- h.engine.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return h
}

// made is the factory: the number of a flow leads to it.
func (h *host) made(args json.RawMessage) (flow.Item, error) {
	n, err := strconv.Atoi(string(args))
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.items[n], nil
}

// stored is the stage of flows that are jobs. What it keeps outlives engines, but presets and second engines over it
// are not played: the records of a job are changed under a claim only.
type stored struct {
	*host
	workers int
}

func (stored) keeps() bool { return false }
func (stored) change(func(*flow.Snapshot)) error {
	return errors.New("records are changed under a claim only")
}

func (s stored) engine(item flow.Item, o flow.Options) (engine, error) {
	if _, err := flow.New(item, flow.Options{}); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.items = append(s.items, item)
	reported := make(chan lifecycle.State, 1000)
	s.listeners[item] = append(o.Listeners, func(e flow.Event) {
		if e.Atom == "" && e.Within == "" {
			reported <- e.New
		}
	})
	one := &ordered{host: s.host, item: item, reported: reported, inject: flow.Values{}, order: durable.Order{
		Factory: "scenario", Args: json.RawMessage(strconv.Itoa(len(s.items) - 1)),
		Settings: durable.Settings{DeferReverts: o.DeferReverts, NeverResolve: o.NeverResolve, Workers: s.workers},
	}}
	return one, one.Load(context.Background())
}

// ordered is a flow that is a job. A Runner that is never run reads its records.
type ordered struct {
	*host
	*flow.Runner
	item     flow.Item
	order    durable.Order
	reported <-chan lifecycle.State // states of the flow that listeners got
	inject   flow.Values
	id       job.ID
}

// Run orders the flow, or runs it again, and waits for its end.
func (o *ordered) Run(ctx context.Context) error {
	retries := 0
	switch {
	case o.id == "":
		o.order.Inject = o.inject
		j, err := o.flows.Submit(ctx, o.host.engine, o.order)
		if err != nil {
			return err
		}
		o.id = j.ID
	default:
		before, err := o.store.Get(ctx, o.id)
		if err != nil {
			return err
		}
		if before.State == flow.Reverted {
			return errAnew // a person's reset of the job does that, and is reported to no listener
		}
		retries = before.Retries + 1
		if _, err := o.host.engine.Do(ctx, operator.Act{Job: o.id, Event: flow.Run, By: lifecycle.Owner,
			Actor: "scenario", Confirm: true}); err != nil {
			return err
		}
	}
	j, err := o.host.engine.Await(ctx, o.id, func(j *job.Job) bool { return j.Ended && j.Retries >= retries })
	if err != nil {
		return err
	}
	for state := lifecycle.State(""); state != j.State; { // it is reported after it was stored
		select {
		case state = <-o.reported:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := o.Load(ctx); err != nil {
		return err
	}
	return o.blame(&j)
}

// storedError is an error of which only the text is kept.
type storedError struct{ text string }

func (e *storedError) Error() string { return e.text }

// blame makes the error of a Runner from the records.
func (o *ordered) blame(j *job.Job) error {
	if j.State == flow.Success {
		return nil
	}
	all := &flow.Failures{}
	for _, r := range o.Atoms() {
		if r.RevertFailure != nil {
			all.Atoms, all.All = append(all.Atoms, r.Name), append(all.All, r.RevertFailure)
		}
		if r.Failure != nil && j.State == flow.Reverted {
			all.Atoms, all.All = append(all.Atoms, r.Name), append(all.All, r.Failure)
		}
	}
	switch len(all.All) {
	case 0:
		return &storedError{j.Message}
	case 1:
		return all.All[0]
	}
	return all
}

// Load reads the records.
func (o *ordered) Load(ctx context.Context) error {
	m := flow.NewMemory()
	if o.id != "" {
		v, err := o.flows.View(ctx, o.store, o.id)
		if err != nil {
			return err
		}
		m.Change(func(s *flow.Snapshot) {
			s.State, s.Live, s.Injected = v.Job.State, true, map[string]flow.Value{}
			for name, value := range o.inject {
				s.Injected[name] = flow.ValueOf(value)
			}
			for _, a := range v.Atoms {
				s.Atoms = append(s.Atoms, a.Record)
			}
		})
	}
	var err error
	if o.Runner, err = flow.New(o.item, flow.Options{Storage: m, Upgrade: flow.AcceptChanges}); err != nil {
		return err
	}
	return o.Runner.Load(ctx)
}

// Inject is for the time before the flow is ordered.
func (o *ordered) Inject(_ context.Context, values flow.Values) error {
	for name, v := range values {
		o.inject[name] = v
	}
	return nil
}

// asJob reports whether a job can play a scenario: its steps only run the flow, and none suspends it at a moment that
// only the process itself can choose.
func (s *scenario) asJob() bool {
	return !slices.ContainsFunc(s.Steps, func(one step) bool {
		return one.Preset != nil || one.NewEngine != nil || one.Reset != nil || one.Suspend != nil ||
			one.Inject != nil || one.ClearInjected != nil ||
			one.Run != nil && (one.Run.SuspendOn != nil || one.Run.SuspendAfter != nil || one.Run.Machine != nil)
	})
}

// TestDurableScenarios plays the scenarios that run, fail, revert and retry on an engine over a store on the disk.
func TestDurableScenarios(t *testing.T) {
	b := scenarios(t)
	h := newHost(t, boards["sqlite"](t))
	played := 0
	for _, e := range b.Scenarios {
		s, err := e.read()
		if err != nil || len(s.Steps) == 0 || !s.asJob() {
			continue // TestScenarios reports the error
		}
		t.Run(e.id, func(t *testing.T) {
			for _, f := range performances(t, s) {
				if f.scenario != s || f.loose {
					continue
				}
				played++
				workers := 1
				if f.parallel {
					workers = max(s.Workers, 2)
				}
				t.Run(f.name, func(t *testing.T) {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					defer cancel()
					p := newPlay(ctx, s, newHarness(), stored{h, workers}, nil)
					p.all()
					for _, text := range p.wrong {
						t.Error(text)
					}
				})
			}
		})
	}
	if played < 100 && file() == standard {
		t.Errorf("only %d plays", played)
	}
}
