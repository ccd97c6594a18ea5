package flow

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
)

// TestCancelWithMissingValue: a flow that cannot continue because a value is missing can be rolled back, whatever kind
// of atom needs the value, also after a request to end it with Keep. What was never called is not reverted by a call.
func TestCancelWithMissingValue(t *testing.T) {
	for _, keep := range []bool{false, true} {
		for kind, needs := range map[string]func() Item{
			"task": func() Item {
				return &Task{Name: "b", Args: Args{Requires: []string{"q"}},
					Execute: func(context.Context, *Call) (any, error) { return nil, nil },
					Revert: func(context.Context, *Call) (any, error) {
						t.Error("it was reverted")
						return nil, nil
					}}
			},
			"controller": func() Item {
				r := ParameterizedForEach()
				r.Args.Rebind = map[string]string{"values": "q"}
				c := &Task{Name: "c", Execute: func(context.Context, *Call) (any, error) { return nil, nil }}
				return Linear("b", c).With(r)
			},
		} {
			t.Run(kind, func(t *testing.T) {
				reverted, storage := 0, NewMemory()
				run := func(e *Ending) (*Runner, error) {
					a := &Task{Name: "a", Result: Result{Names: []string{"p", "q"}},
						Execute: func(context.Context, *Call) (any, error) { return []any{1}, nil },
						Revert: func(context.Context, *Call) (any, error) {
							reverted++
							return nil, nil
						}}
					r, err := New(Linear("f", a, needs()), Options{Storage: storage})
					if err != nil {
						t.Fatal(err)
					}
					if e != nil {
						r.Cancel(*e)
					}
					return r, r.Run(t.Context())
				}
				if r, err := run(nil); r.State() != FailureState || err == nil || reverted != 0 {
					t.Fatalf("%s (%v), %d reverted", r.State(), err, reverted)
				}
				if keep {
					if r, err := run(&Ending{Keep: true}); r.State() != FailureState || err == nil {
						t.Fatalf("%s (%v)", r.State(), err)
					}
				}
				if r, err := run(&Ending{}); r.State() != Reverted || reverted != 1 {
					t.Errorf("%s (%v), %d reverted; the atoms are %v", r.State(), err, reverted, states(r))
				}
			})
		}
	}
}

// TestForEachOfNoList: a controller whose list is none fails with a type and a text for people.
func TestForEachOfNoList(t *testing.T) {
	r := ParameterizedForEach()
	r.Args.Inject = Values{"values": 5}
	f := Linear("f", &Task{Name: "c", Execute: func(context.Context, *Call) (any, error) { return nil, nil }}).With(r)
	runner, err := New(f, Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = runner.Run(t.Context())
	if f := FailureOf(err); !f.Caused("InvalidArgument") || !strings.Contains(f.Message, "must be a list") {
		t.Errorf("got %v", f)
	}
}

// TestExactNumbers: numbers that no int and no float64 has exactly keep their digits, also as elements of a list that a
// controller uses one after another.
func TestExactNumbers(t *testing.T) {
	text := `[12345678901234567890,12345678901234567891,0.1234567890123456789012,1e400]`
	var v Value
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(v.Any()); err != nil || string(again) != text {
		t.Errorf("got %s (%v)", again, err)
	}
	for in, want := range map[string]any{"1": 1, "1.5": 1.5, "0.10": 0.1, "1e3": 1e3,
		"9007199254740993": 9007199254740993,
		"1e20":             1e20, "9223372036854775809": json.Number("9223372036854775809")} {
		if err := json.Unmarshal([]byte(in), &v); err != nil || v.Any() != want {
			t.Errorf("%s is %v (%T), %v", in, v.Any(), v.Any(), err)
		}
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	var got []any
	r := ParameterizedForEach()
	r.Args.Inject, r.Result = Values{"values": v}, "n"
	runner, err := New(Linear("f", &Task{Name: "c", Args: Args{Requires: []string{"n"}},
		Execute: func(_ context.Context, c *Call) (any, error) {
			var n any = c.Get("n")
			got = append(got, n)
			return nil, errWoot
		}}).With(r), Options{Storage: NewMemory()})
	if err != nil {
		t.Fatal(err)
	}
	_ = runner.Run(t.Context())
	if again, err := json.Marshal(got); err != nil || string(again) != text {
		t.Errorf("the controller gave %s (%v)", again, err)
	}
}
