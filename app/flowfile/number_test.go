package flowfile

import (
	"strings"
	"testing"

	"github.com/stagepost/stagepost/flow"
)

// TestExactNumbers: numbers of outputs keep their digits, and conditions compare them exactly.
func TestExactNumbers(t *testing.T) {
	v, err := result([]byte(`{"id": 12345678901234567890}`), "json")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := textOf(v); err != nil || text != `{"id":12345678901234567890}` {
		t.Errorf("got %s (%v)", text, err)
	}
	n := plainJSON([]byte("12345678901234567890"))
	for other, want := range map[string]int{"12345678901234567890": 0, "12345678901234567891": -1,
		"12345678901234567889": 1, "12345678901234567890.0": 0, "5": 1, "1e300": -1} {
		o := plainJSON([]byte(other))
		if got, ok := order(n, o); !ok || got != want || same(n, o) != (want == 0) {
			t.Errorf("%s: %d, %t", other, got, ok)
		}
	}
	if c, ok := order(9007199254740993, 9007199254740992); c != 1 || !ok { // the same float64
		t.Errorf("got %d, %t", c, ok)
	}
}

// TestOutputNotUTF8: bytes that are no text fail the task in place of a change of the value.
func TestOutputNotUTF8(t *testing.T) {
	for _, output := range []string{"text", "line", "json"} {
		v, err := result([]byte("\"caf\xe9\"\n"), output)
		if err == nil || !strings.Contains(err.Error(), "not UTF-8") {
			t.Errorf("%s: %q, %v", output, v, err)
		}
	}
	if _, err := result([]byte("\xe9"), "none"); err != nil {
		t.Error(err)
	}
	// what is not used may be anything
	if v, err := result([]byte("\xe9\nlast \n"), "line"); err != nil || v != "last" {
		t.Errorf("%q, %v", v, err)
	}
}

// TestForEachOfInput: an input that must be a list is checked before the flow runs.
func TestForEachOfInput(t *testing.T) {
	text := "inputs: {n: 5}\nflow: f\nfor_each_of: n\nas: v\nlinear:\n- {task: a, go: echo, requires: [v]}\n"
	f := mustParse(t, text, noting(new([]string)))
	if _, err := f.Flow(nil); err == nil || !strings.Contains(err.Error(), "the input n must be a list") {
		t.Errorf("got %v", err)
	}
	if _, err := f.Flow(flow.Values{"n": []any{1}}); err != nil {
		t.Error(err)
	}
}
