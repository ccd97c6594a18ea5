package flow

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestValuesSurviveStorage: a stored value comes back as JSON has it, whole numbers as int.
func TestValuesSurviveStorage(t *testing.T) {
	for _, c := range []struct{ in, want any }{
		{nil, nil}, {true, true}, {5, 5}, {-7, -7}, {1.5, 1.5}, {"ä", "ä"}, {math.MaxInt64, math.MaxInt64},
		{1e300, 1e300},
		{[]int{1, 2}, []any{1, 2}}, {map[string]any{"x": []float64{0.5}}, map[string]any{"x": []any{0.5}}},
		{receipt{"7"}, map[string]any{"ID": "7"}},
	} {
		text, err := json.Marshal(ValueOf(c.in))
		if err != nil {
			t.Fatal(err)
		}
		var back Value
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, back.Any()); diff != "" {
			t.Errorf("%v (-want +got):\n%s", c.in, diff)
		}
		if !back.Equal(ValueOf(c.in)) || back.Equal(ValueOf("other")) {
			t.Errorf("%v does not equal what was stored of it", c.in)
		}
	}
	var none Value
	if text, err := json.Marshal(none); string(text) != "null" || err != nil || none.Any() != nil {
		t.Errorf("the zero value is %s, %v", text, err)
	}
}

// TestResultsArePicked by position, by key, and whole, live and stored.
func TestResultsArePicked(t *testing.T) {
	list, entries := Result{Names: []string{"x", "", "z"}}, Result{Keys: []string{"x", "y"}}
	for _, c := range []struct {
		r    Result
		name string
		v    any
		want any
		ok   bool
	}{
		{One("x"), "x", 5, 5, true}, {One("x"), "y", 5, nil, false},
		{list, "x", []int{1, 2, 3}, 1, true}, {list, "z", []int{1, 2, 3}, 3, true}, {list, "z", []int{1}, nil, false},
		{list, "x", 5, nil, false}, {list, "x", [1]string{"a"}, "a", true},
		{entries, "y", map[string]int{"y": 2}, 2, true}, {entries, "x", map[string]int{"y": 2}, nil, false},
		{entries, "x", nil, nil, false}, {entries, "x", map[int]int{1: 1}, nil, false},
	} {
		v := ValueOf(c.v)
		for _, stored := range []bool{false, true} {
			if stored {
				text, err := json.Marshal(v)
				if err != nil {
					t.Fatal(err)
				}
				v = Value{text: text}
			}
			got, ok := c.r.pick(c.name, v)
			if ok != c.ok || !cmp.Equal(got.Any(), c.want) {
				t.Errorf("%+v %s of %v (stored %v): %v, %v; want %v, %v", c.r, c.name, c.v, stored, got.Any(), ok, c.want, c.ok)
			}
		}
	}
}

// TestIntoNeedsAPointer and a value that fits.
func TestIntoNeedsAPointer(t *testing.T) {
	var n int
	var wide float64
	for _, c := range []struct {
		v    any
		into any
		ok   bool
	}{{5, &n, true}, {5, &wide, true}, {5, n, false}, {5, (*int)(nil), false}, {5, nil, false}, {"5", &n, false},
		{make(chan int), &n, false}} {
		if err := ValueOf(c.v).Into(c.into); (err == nil) != c.ok {
			t.Errorf("%v into %T: %v", c.v, c.into, err)
		}
	}
	if n != 5 || wide != 5 {
		t.Errorf("got %d and %v", n, wide)
	}
}
