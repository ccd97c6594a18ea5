package durable

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/flow"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Settings are the options of one flow; see [flow.Options].
type Settings struct {
	DeferReverts   bool `json:"defer_reverts,omitempty"`
	NeverResolve   bool `json:"never_resolve,omitempty"`
	RevertErrors   bool `json:"revert_errors,omitempty"`
	KeepAtDeadline bool `json:"keep_at_deadline,omitempty"` // a deadline ends the flow without rolling it back
	// tasks at once, in a pool of its own; 1: one after another; 0: in Options.Workers
	Workers int `json:"workers,omitempty"`
}

// Order asks for a flow.
type Order struct {
	ID       job.ID // empty: made by the engine
	Name     string // shown to people; defaults to the name of the flow that the factory makes
	Factory  string // of Options.Factories
	Args     json.RawMessage
	Inject   flow.Values // values of the flow; they go before every result of an atom
	Settings Settings

	Priority *int // as in [engine.Order]: nil is the default
	Group    string
	Owner    string
	Key      string // idempotency key: the same order with it once more gives the job that the first one made
	Tags     []string
	Requires []string // labels that a worker must have to claim it
	Due      time.Time
	Deadline time.Time
	By       lifecycle.Actor // zero: Owner
	Actor    string
	Note     string
}

// Spec is what a flow was ordered with: the Spec of its job.
type Spec struct {
	Name     string                `json:"name"`
	Factory  string                `json:"factory"`
	Args     json.RawMessage       `json:"args,omitempty"`
	Inject   map[string]flow.Value `json:"inject,omitempty"`
	Settings Settings              `json:"settings,omitzero"`
}

// SpecOf decodes the spec of a job.
func SpecOf(j *job.Job) (Spec, error) {
	var s Spec
	if j.Kind != Kind {
		return s, job.Errorf(job.Invalid, "flow", j.ID, "it is no flow but of kind %s", j.Kind)
	}
	if err := json.Unmarshal(j.Spec, &s); err != nil {
		return s, job.Errorf(job.Internal, "decode", j.ID, "spec: %w", err)
	}
	return s, nil
}

// Submit makes a job of an order once its flow is made, compiled and found to have everything it requires. Errors:
// Invalid, wrapping those of [flow.New] and [flow.ErrMissing]; Conflict if the key or the id was used for another
// order; those of [engine.Engine.Submit].
func (f *Flows) Submit(ctx context.Context, e *engine.Engine, o Order) (job.Job, error) {
	spec, err := f.Check(o)
	if err != nil {
		return job.Job{}, err
	}
	j, err := e.Submit(ctx, engine.Order{
		ID: o.ID, Kind: Kind, Priority: o.Priority, Group: o.Group, Owner: o.Owner, Key: o.Key, Tags: o.Tags,
		Requires: o.Requires, Due: o.Due, Deadline: o.Deadline, Words: []string{spec.Name},
		Spec: spec, By: o.By, Actor: o.Actor, Note: o.Note,
	})
	if err != nil {
		return j, err
	}
	has, err := SpecOf(&j)
	if err != nil {
		return job.Job{}, err
	}
	if !same(&has, &spec) || !slices.Equal(j.Requires, job.Tagged(o.Requires...)) {
		return job.Job{}, job.Errorf(job.Conflict, "create", j.ID,
			"the idempotency key or id was used for another flow; choose another key, or repeat the order as it was")
	}
	return j, nil
}

// same reports whether two specs are one order. Both are compared as they are stored.
func same(a, b *Spec) bool {
	text := func(s *Spec) []byte {
		t, err := json.Marshal(s) // compacts what it holds
		if err != nil {
			return nil
		}
		return t
	}
	first, second := text(a), text(b)
	return first != nil && bytes.Equal(first, second)
}

// Check is Submit without the submission: it gives what the job would have.
func (f *Flows) Check(o Order) (Spec, error) {
	invalid := func(err error) (Spec, error) { return Spec{}, job.Errorf(job.Invalid, "create", o.ID, "%w", err) }
	if f.o.Factories[o.Factory] == nil {
		return invalid(fmt.Errorf("there is no factory %q here (known: %s)", o.Factory, f.known()))
	}
	if len(o.Args) > 0 && !json.Valid(o.Args) {
		return invalid(errors.New("the arguments of the factory are not JSON"))
	}
	if o.Settings.Workers < 0 {
		return invalid(fmt.Errorf("the number of tasks at once must not be negative, and is %d", o.Settings.Workers))
	}
	spec := Spec{Name: o.Name, Factory: o.Factory, Args: o.Args, Settings: o.Settings}
	total := len(o.Args)
	for _, name := range sortedKeys(o.Inject) {
		text, err := encode(o.Inject[name])
		if err != nil {
			return invalid(fmt.Errorf("the value %q: %w", name, err))
		}
		if spec.Inject == nil {
			spec.Inject = map[string]flow.Value{}
		}
		spec.Inject[name] = valueOf(text)
		total += len(text)
	}
	if total > f.o.Limits.Inject {
		return invalid(fmt.Errorf("arguments and injected values have %d bytes, more than the limit of %d", total,
			f.o.Limits.Inject))
	}
	item, err := f.build(&spec)
	if err != nil {
		return invalid(err)
	}
	if spec.Name == "" {
		spec.Name = item.Title()
	}
	if err := complete(item, &spec); err != nil {
		return invalid(err)
	}
	return spec, nil
}

// build lets the factory make the flow. A panic in it is an error.
func (f *Flows) build(s *Spec) (item flow.Item, err error) {
	defer func() {
		if p := recover(); p != nil {
			item, err = nil, fmt.Errorf("the factory %s panicked: %v", s.Factory, p)
		}
	}()
	if item, err = f.o.Factories[s.Factory](s.Args); err != nil {
		return nil, fmt.Errorf("the factory %s: %w", s.Factory, err)
	}
	outline, err := flow.OutlineOf(item)
	if err != nil {
		return nil, err
	}
	for _, name := range outline.Atoms() {
		if strings.HasPrefix(name, signalPrefix) || name == outlineName || name == endingName {
			return nil, fmt.Errorf("the name %q of an atom is reserved", name)
		}
	}
	return item, nil
}

// complete reports whether a flow has everything it requires, by beginning it on a storage that refuses the first
// commit.
func complete(item flow.Item, s *Spec) error {
	r, err := flow.New(item, flow.Options{Storage: rehearsal{s}})
	if err != nil {
		return err
	}
	if _, err = r.Advance(context.Background()); errors.Is(err, errRehearsal) {
		return nil
	}
	return err
}

// rehearsal is the storage of a flow that is not to run.
type rehearsal struct{ spec *Spec }

var errRehearsal = errors.New("this is a rehearsal")

// Load is part of [flow.Storage].
func (r rehearsal) Load(context.Context) (*flow.Snapshot, error) {
	return &flow.Snapshot{Injected: r.spec.Inject}, nil
}

// Save is part of [flow.Storage].
func (r rehearsal) Save(context.Context, *flow.Commit) error { return errRehearsal }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
