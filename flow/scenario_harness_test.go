package flow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stagepost/stagepost/flow"
)

// harness records one play of a scenario: events, calls and violations.
type harness struct {
	began time.Time
	pace  float64 // by which waits are multiplied

	mu         sync.Mutex // guards the rest
	lives      int        // processes so far; calls of tasks of earlier ones are ignored
	changed    chan struct{}
	announced  map[string]bool // "atom STATE"
	gates      map[string]bool
	executed   map[string][]map[string]any
	reverted   map[string][]map[string]any
	histories  [][]string
	progress   map[string][]float64
	recording  bool
	events     []event
	all        []event // of all steps
	machine    []string
	violations []string
	asked      func(event)  // suspends the flow at an event
	entered    func(string) // the same, by states of the machine
	stored     func(atom string) string
}

// event is something that was reported.
type event struct {
	name, letter, state, result string
	saved                       bool // it has a result
}

func (e event) String() string {
	text := e.name + "." + e.letter + " " + e.state
	if e.saved {
		text += "(" + e.result + ")"
	}
	return text
}

func newHarness() *harness {
	return &harness{
		began: time.Now(), pace: 1, changed: make(chan struct{}), announced: map[string]bool{},
		gates:    map[string]bool{},
		executed: map[string][]map[string]any{}, reverted: map[string][]map[string]any{},
		progress: map[string][]float64{},
	}
}

func (w *harness) life() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lives
}

// crash ends the process: its later calls are ignored.
func (w *harness) crash() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lives++
}

// note runs f if the process that it is about is alive.
func (w *harness) note(life int, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if life == w.lives {
		f()
	}
}

func (w *harness) violate(life int, format string, args ...any) {
	w.note(life, func() { w.violations = append(w.violations, fmt.Sprintf(format, args...)) })
}

func (w *harness) gate(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gates[name]
}

func (w *harness) elapsed() time.Duration {
	return time.Duration(float64(time.Since(w.began)) / w.pace)
}

// pass lets seconds pass.
func (w *harness) pass(ctx context.Context, seconds float64) error {
	t := time.NewTimer(time.Duration(seconds * w.pace * float64(time.Second)))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// patience is how long anything here waits for anything else.
const patience = 20 * time.Second

// wait blocks until a task was announced in one of some states, ever.
func (w *harness) wait(ctx context.Context, words *waitWords) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		w.mu.Lock()
		changed := w.changed
		there := slices.ContainsFunc(words.States, func(s string) bool { return w.announced[words.Task+" "+s] })
		w.mu.Unlock()
		if there {
			return nil
		}
		select {
		case <-changed:
		case <-late.C:
			return &raised{"TimeoutError", words.Task + " was never in any of " + strings.Join(words.States, ", ")}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// executing notes that an atom is executed. Before that was begun it must have been stored.
func (w *harness) executing(life int, c *flow.Call) {
	w.begun(life, c.Atom, "RUNNING")
	w.note(life, func() {
		with := plain(map[string]any(c.Args())).(map[string]any)
		if c.History != nil {
			with["history"] = attempts(c.History)
		}
		w.executed[c.Atom] = append(w.executed[c.Atom], with)
	})
}

// attempts are a history as scenarios write it: [value, {atom: failure}] for each.
func attempts(h flow.History) any {
	all := make([]any, len(h))
	for i := range h {
		failures := map[string]any{}
		for _, f := range h[i].Failures {
			failures[f.Atom] = f.Failure.String()
		}
		all[i] = []any{plain(h[i].Value), failures}
	}
	return all
}

// reverting notes that an atom is reverted.
func (w *harness) reverting(life int, c *flow.Call) {
	with := plain(map[string]any(c.Args())).(map[string]any)
	if c.Failure != nil {
		with["result"] = c.Failure.String()
	} else {
		with["result"] = plain(c.Result.Any())
	}
	failures := map[string]any{}
	for name, f := range c.Failures {
		failures[name] = f.String()
	}
	with["flow_failures"] = failures
	if c.History != nil {
		with["history"] = attempts(c.History)
	}
	w.begun(life, c.Atom, "REVERTING")
	w.note(life, func() { w.reverted[c.Atom] = append(w.reverted[c.Atom], with) })
}

// begun checks that a started atom is stored as started.
func (w *harness) begun(life int, atom, state string) {
	if w.stored == nil {
		return
	}
	if s := w.stored(atom); s != state {
		w.violate(life, "%s was begun while it was stored as %q, not %s", atom, s, state)
	}
}

func (w *harness) decided(life int, names []string) {
	w.note(life, func() { w.histories = append(w.histories, names) })
}

// listen makes the listener of the engine of a process.
func (w *harness) listen(life int) flow.Listener {
	return func(e flow.Event) {
		one, is := eventOf(e)
		var asked func(event)
		w.note(life, func() {
			switch {
			case e.Within == flow.Progressed:
				w.progress[e.Atom] = append(w.progress[e.Atom], e.Progress)
				return
			case !is:
				return
			}
			w.announced[one.name+" "+one.state] = true
			close(w.changed)
			w.changed = make(chan struct{})
			if w.recording {
				w.events, w.all = append(w.events, one), append(w.all, one)
			}
			asked = w.asked
		})
		if asked != nil {
			asked(one)
		}
	}
}

// eventOf returns an event in the form of scenarios.
func eventOf(e flow.Event) (one event, is bool) {
	if e.Within != "" {
		return event{}, false
	}
	one = event{name: e.Atom, letter: "t", state: string(e.New)}
	switch {
	case e.Atom == "":
		one.name, one.letter = e.Flow, "f"
		return one, true
	case e.Kind == flow.KindRetry:
		one.letter = "r"
	}
	switch e.New {
	case flow.Success, flow.Reverted:
		one.saved, one.result = true, "None"
		if e.Result != nil {
			one.result = python(plain(e.Result.Any()))
		}
	case flow.FailureState, flow.RevertFailure:
		one.saved = true
		if e.Failure != nil {
			one.result = e.Failure.String()
		}
	}
	return one, true
}

// plain converts a value as JSON does: it is the same whether the value was stored or not.
func plain(v any) any {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	var out any
	if err := strict(text, &out); err != nil {
		return fmt.Sprint(v)
	}
	return settled(out)
}

// same reports whether two values are the same as JSON.
func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// python writes a value as Python does; lists are tuples.
func python(v any) string {
	if s, is := v.(string); is {
		return s
	}
	return literal(v)
}

func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		if v {
			return "True"
		}
		return "False"
	case string:
		return "'" + v + "'"
	case float64:
		text := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return text
	case []any:
		parts := make([]string, len(v))
		for i := range v {
			parts[i] = literal(v[i])
		}
		if len(v) == 1 {
			return "(" + parts[0] + ",)"
		}
		return "(" + strings.Join(parts, ", ") + ")"
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		sort.Strings(keys)
		for i, k := range keys {
			keys[i] = literal(k) + ": " + literal(v[k])
		}
		return "{" + strings.Join(keys, ", ") + "}"
	}
	return fmt.Sprint(v)
}
