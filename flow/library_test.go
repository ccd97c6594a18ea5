package flow

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stagepost/stagepost/lifecycle"
)

// rig is a runner under test and its events.
type rig struct {
	*Runner
	heard *capture
}

func rigged(t *testing.T, item Item, o Options) *rig {
	t.Helper()
	c := &capture{}
	o.Listeners = append(slices.Clone(o.Listeners), c.Listen)
	r, err := New(item, o)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{r, c}
}

// run runs the flow and requires it to end in a state. It returns the error.
func (r *rig) run(t *testing.T, want lifecycle.State) error {
	t.Helper()
	err := r.Run(t.Context())
	r.is(t, want)
	return err
}

// is needs the flow to be in a state.
func (r *rig) is(t *testing.T, want lifecycle.State) {
	t.Helper()
	if got := r.State(); got != want {
		t.Fatalf("the flow is %s, want %s; %s", got, want, r.heard)
	}
}

// atoms needs atoms to be in states: "a SUCCESS, b PENDING".
func (r *rig) atoms(t *testing.T, want string) {
	t.Helper()
	var got []string
	for _, rec := range r.Atoms() {
		got = append(got, rec.Name+" "+string(rec.State))
	}
	if diff := cmp.Diff(want, strings.Join(got, ", ")); diff != "" {
		t.Errorf("atoms (-want +got):\n%s%s", diff, r.heard)
	}
}

// changes requires the reported changes of state; they are separated by commas.
func (r *rig) changes(t *testing.T, want string) {
	t.Helper()
	if diff := cmp.Diff(strings.Split(want, ", "), r.heard.Changes()); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}

// await waits until the flow or an atom came into a state.
func (r *rig) await(t *testing.T, name string, s lifecycle.State) {
	t.Helper()
	if _, err := r.heard.Await(t.Context(), reached(name, s)); err != nil {
		t.Fatal(err)
	}
}

// running runs the flow in another goroutine, which sends the result to the channel.
func (r *rig) running(ctx context.Context) <-chan error {
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	return done
}

var errWoot = errors.New("Woot")

// gives makes a task that gives a value under its own name in capitals, and can be reverted.
func gives(name string, v any) *Task {
	return &Task{Name: name, Result: One(strings.ToUpper(name)), Execute: func(context.Context, *Call) (any, error) {
		return v, nil
	}}
}

// fails makes a task that fails.
func fails(name string) *Task {
	return &Task{Name: name, Execute: func(context.Context, *Call) (any, error) { return nil, errWoot }}
}

// failsTimes makes a task that fails so often, then succeeds.
func failsTimes(name string, n int) *Task {
	return &Task{Name: name, Execute: func(context.Context, *Call) (any, error) {
		if n--; n >= 0 {
			return nil, errWoot
		}
		return nil, nil
	}}
}

// does makes a task of a function.
func does(name string, f func(ctx context.Context) error) *Task {
	return &Task{Name: name, Execute: func(ctx context.Context, _ *Call) (any, error) { return nil, f(ctx) }}
}

// held makes a task that signals its start and continues when it is released or its context ends.
func held(name string) (t *Task, begun <-chan struct{}, letGo func()) {
	in, out := make(chan struct{}, 100), make(chan struct{})
	return does(name, func(ctx context.Context) error {
		in <- struct{}{}
		select {
		case <-out:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}), in, func() { close(out) }
}

// onDisk is a Memory whose records pass through JSON, as in durable storage. It refuses values that are no JSON.
type onDisk struct {
	*Memory
	live    bool // see Snapshot.Live
	commits int
	broken  error // given by Save
}

func newDisk() *onDisk { return &onDisk{Memory: NewMemory()} }

func (d *onDisk) Load(ctx context.Context) (*Snapshot, error) {
	s, err := d.Memory.Load(ctx)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	again := &Snapshot{Live: d.live}
	return again, json.Unmarshal(text, again)
}

func (d *onDisk) Save(ctx context.Context, c *Commit) error {
	if d.broken != nil {
		return d.broken
	}
	d.commits++
	return d.Memory.Save(ctx, c)
}

// Encode is part of Encoder.
func (d *onDisk) Encode(v Value) (Value, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return Value{}, &Error{Kind: ErrUnstored, Text: "the result is no JSON", Err: err}
	}
	var kept Value
	return kept, json.Unmarshal(text, &kept)
}

// wantKind needs an error of a kind that names atoms and has a word in its text.
func wantKind(t *testing.T, err, kind error, word string, atoms ...string) {
	t.Helper()
	var e *Error
	if !errors.Is(err, kind) || !errors.As(err, &e) {
		t.Fatalf("got %v (%T), want kind %v", err, err, kind)
	}
	if diff := cmp.Diff(atoms, e.Atoms); diff != "" && len(atoms)+len(e.Atoms) > 0 {
		t.Errorf("atoms of %v (-want +got):\n%s", err, diff)
	}
	if !strings.Contains(err.Error(), word) {
		t.Errorf("error %q, want %q in it", err, word)
	}
}
