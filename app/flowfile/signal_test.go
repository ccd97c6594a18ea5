package flowfile

import (
	"strings"
	"testing"

	"github.com/stagepost/stagepost/flow"
)

// TestSignalsOfFiles: a flow takes the signals of its waits and of the functions that it names, with values of the type
// that is given.
func TestSignalsOfFiles(t *testing.T) {
	for _, c := range []struct {
		kind    string
		good    any
		bad     any
		refused string
	}{
		{"boolean", true, "yes", "takes a boolean, not a string"},
		{"integer", 5, 5.5, "takes an integer, not the number 5.5"},
		{"number", 5.5, true, "takes a number, not a boolean"},
		{"string", "yes", 5, "takes a string, not the number 5"},
		{"list", []any{1, "a"}, map[string]any{}, "takes a list, not an object"},
		{"object", map[string]any{"by": "Ada"}, []any{}, "takes an object, not a list"},
	} {
		text := "flow: f\nlinear:\n  - wait: {signal: approved, type: " + c.kind + "}\n  - wait: any\n  - go: ask\n"
		ask := func(signals ...flow.AnySignal) Options {
			return Options{Go: map[string]Func{"ask": {Signals: signals}}}
		}
		r := begin(t, text, ask(flow.Signal[int]("number")), nil)
		for name, err := range map[string]error{"the right type": r.Signal("approved", c.good),
			"any type": r.Signal("any", c.bad), "of a function": r.Signal("number", 5)} {
			if err != nil {
				t.Errorf("%s: %s: %v", c.kind, name, err)
			}
		}
		if err := r.Signal("approved", c.bad); err == nil || !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: got %v", c.kind, err)
		}
		if err := r.Signal("aproved", c.good); err == nil || !strings.Contains(err.Error(), "did you mean approved?") {
			t.Errorf("%s: got %v", c.kind, err)
		}
		if r := begin(t, text, ask(), nil); r.Signal("number", 5) == nil {
			t.Error("the control: no task declares number")
		}
	}
	_, err := Parse([]byte("flow: f\nlinear:\n  - wait: {signal: a, type: bolean}\n"), Options{})
	if err == nil || !strings.Contains(err.Error(), "type is one of boolean, integer, number, string, list, object, not \"bolean\"; is it boolean?") {
		t.Errorf("got %v", err)
	}
}
