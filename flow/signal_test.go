package flow

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

const approved = Signal[bool]("approved")

// TestSignalsAreDeclared: the refusal of an undeclared signal lists the declared ones. Early signals are accepted. A
// signal of another type is refused in both cases.
func TestSignalsAreDeclared(t *testing.T) {
	item := Linear("f", approved.Wait("w", 0), Wait("any", "config", 0))
	for _, c := range []struct {
		name  string
		value any
		early bool
		want  string // of the message; empty: it is accepted
	}{
		{"approved", true, false, ""},
		{"approved", true, true, ""},
		{"aproved", true, false, `no task waits for a signal "aproved"; did you mean approved? (signals of the flow: approved, config)`},
		{"stop", true, false, `no task waits for a signal "stop" (signals of the flow: approved, config)`},
		{"aproved", true, true, ""},
		{"approved", "yes", false, "the signal approved: it takes a boolean, not a string"},
		{"approved", "yes", true, "the signal approved: it takes a boolean, not a string"},
		{"approved", nil, false, "the signal approved: it takes a boolean, not null"},
		{"config", map[string]any{"a": 1}, false, ""},
		{"config", nil, false, ""},
	} {
		r := runner(t, item, Options{})
		err := r.signal(c.name, c.value, c.early)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrInvalid) || err.Error() != c.want) {
			t.Errorf("%s with %v, early %t: got %v, want %q", c.name, c.value, c.early, err, c.want)
		}
		item = Linear("f", approved.Wait("w", 0), Wait("any", "config", 0))
	}
	r := runner(t, gives("a", 1), Options{})
	wantKind(t, r.Signal("x", 1), ErrInvalid, "the flow declares no signals")
}

// TestSignalIsTyped: a value keeps its type. A value of another type, sent before the flow declared the signal, fails
// the wait.
func TestSignalIsTyped(t *testing.T) {
	type vote struct {
		By  string `json:"by"`
		Yes bool   `json:"yes"`
	}
	votes := Signal[vote]("vote")
	got := vote{}
	item := func() Item {
		w := votes.Wait("w", 0)
		w.Result = One("vote")
		return Linear("f", w, Proc1("c", Name[vote]("vote"), func(_ context.Context, v vote) error {
			got = v
			return nil
		}, nil))
	}
	r := runner(t, item(), Options{})
	if err := errors.Join(votes.Send(r, vote{"Ada", true}), r.Run(t.Context())); err != nil ||
		got != (vote{"Ada", true}) {
		t.Errorf("got %+v, %v", got, err)
	}
	r = runner(t, item(), Options{})
	r.Receive("vote", "1", 5)
	wantKind(t, r.Run(t.Context()), ErrInvalid, `the value of the signal "vote" is no flow.vote`, "w")
}

// TestAwaitIsDeclared: a task that waits for a signal that it does not declare fails with what to do.
func TestAwaitIsDeclared(t *testing.T) {
	for _, declared := range []bool{false, true} {
		task := does("a", func(context.Context) error { return Await("go", time.Time{}) })
		if declared {
			task.Signals = []AnySignal{Signal[int]("go")}
		}
		r := runner(t, task, Options{})
		rest, err := r.Advance(t.Context())
		if declared && (rest == nil || err != nil) {
			t.Errorf("the control: %+v, %v", rest, err)
		}
		if !declared {
			wantKind(t, err, ErrInvalid, `a waits for the signal "go", which it does not declare; add it to Task.Signals`, "a")
		}
	}
}

// TestSignalsThatContradict: two tasks declare one signal with different types, or one without a name. One of them may
// take anything.
func TestSignalsThatContradict(t *testing.T) {
	_, err := New(Linear("f", approved.Wait("a", 0), Signal[string]("approved").Wait("b", 0)), Options{})
	wantKind(t, err, ErrInvalid, `the task b in f declares the signal "approved" as string, and a as bool`, "b", "a")
	_, err = New(Wait("a", "", 0), Options{})
	wantKind(t, err, ErrInvalid, "the task a declares a signal without a name", "a")
	for _, item := range []Item{
		Linear("f", Wait("a", "approved", 0), approved.Wait("b", 0)),
		Linear("f", approved.Wait("a", 0), Wait("b", "approved", 0)),
	} {
		r := runner(t, item, Options{})
		wantKind(t, r.Signal("approved", 1), ErrInvalid, "it takes a boolean, not the number 1")
		o, err := OutlineOf(item)
		if err != nil {
			t.Fatal(err)
		}
		wantKind(t, o.Declared().Check("approved", ValueOf(1), false), ErrInvalid, "the number 1")
	}
}

// TestForm: a form accepts exactly the texts that encoding/json decodes into the type.
func TestForm(t *testing.T) {
	type inner struct {
		N    int8      `json:"n"`
		List []float64 `json:"list,omitempty"`
	}
	type outer struct {
		inner
		When   time.Time
		Bytes  []byte
		Up     *uint8
		Texts  map[string]string
		Inner  inner `json:"inner"`
		Quoted int   `json:",string"`
		Any    any
		hidden int
		Fixed  [2]bool
		Self   *outer
		Off    int `json:"-"`
	}
	_ = outer{hidden: 1}
	for _, text := range []string{
		`{}`, `{"n": 127}`, `{"n": 128}`, `{"N": "x"}`, `{"list": [1, 2.5]}`, `{"list": [1, "x"]}`, `{"list": {}}`,
		`{"Bytes": "AA=="}`, `{"Bytes": [1]}`, `{"Up": null}`, `{"Up": 255}`, `{"Up": 256}`,
		`{"Up": -1}`, `{"Texts": {"a": "b"}}`, `{"Texts": {"a": 1}}`, `{"inner": {"n": 1}}`, `{"inner": {"n": 1.5}}`,
		`{"inner": {"n": 1e2}}`, `{"Quoted": "1"}`, `{"Any": [1]}`,
		`{"hidden": "x"}`, `{"Fixed": [true]}`, `{"Fixed": [0]}`, `{"Self": {"Self": {"n": 1}}}`,
		`{"Self": {"Self": {"n": []}}}`, `{"Off": "x"}`, `{"unknown": 1}`, `[]`, `5`, `"x"`, `true`,
		`{"inner": null}`,
	} {
		got, want := form[outer](t, text)
		if (got == nil) != (want == nil) {
			t.Errorf("%s: the form gives %v, decoding %v", text, got, want)
		}
	}
	for text, want := range map[string]string{"5": "", "null": "it takes an integer (int8), not null", "200": "it takes an integer (int8), not the number 200"} {
		if got, _ := form[int8](t, text); (want == "") != (got == nil) || got != nil && got.Error() != want {
			t.Errorf("%s as int8: %v", text, got)
		}
	}
	if got, _ := form[[]string](t, `["a", 1]`); got == nil ||
		!strings.Contains(got.Error(), "[1] takes a string, not the number 1") {
		t.Errorf("got %v", got)
	}
	if err := formOf(reflect.TypeFor[float64]()).Check(ValueOf(math.Inf(1))); err == nil {
		t.Error("infinity is no JSON")
	}
}

// form checks a text by the form of a type and by decoding it.
func form[T any](t *testing.T, text string) (byForm, byDecoding error) {
	t.Helper()
	var v Value
	if err := v.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	_, byDecoding = decode[T](v, "it")
	return formOf(reflect.TypeFor[T]()).Check(v), byDecoding
}
