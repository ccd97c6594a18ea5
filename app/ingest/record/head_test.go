package record

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stagepost/stagepost/api"
)

// fill gives the fields of a struct, also of an embedded one, values of their own.
func fill(v reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case v.Type().Field(i).Anonymous:
			fill(f)
		case f.Kind() == reflect.String:
			f.SetString(v.Type().Field(i).Name)
		case f.Kind() == reflect.Int:
			f.SetInt(int64(i) + 1)
		case f.Type() == reflect.TypeFor[[]string]():
			f.Set(reflect.ValueOf([]string{v.Type().Field(i).Name}))
		}
	}
}

// TestHeads: what a head has of a spec is the same as in the spec.
func TestHeads(t *testing.T) {
	for _, c := range []struct{ spec, head any }{{&BatchSpec{}, &BatchHead{}}, {&JobSpec{}, &JobHead{}}} {
		whole := reflect.ValueOf(c.spec).Elem()
		fill(whole)
		text, err := json.Marshal(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, c.head); err != nil {
			t.Fatal(err)
		}
		head := reflect.ValueOf(c.head).Elem()
		for i := range head.NumField() {
			name := head.Type().Field(i).Name
			if got, want := head.Field(i).Interface(), whole.FieldByName(name).Interface(); head.Field(i).IsZero() ||
				!reflect.DeepEqual(got, want) {
				t.Errorf("%T.%s is %v, want %v", c.head, name, got, want)
			}
		}
	}
}

// TestHeadOfALargeSpec: to read a head costs no memory for what it does not have. The control reads the spec.
func TestHeadOfALargeSpec(t *testing.T) {
	s := BatchSpec{Submission: api.Submission{Title: "Maps", DublinCore: map[string][]string{
		"subject": slices.Repeat([]string{strings.Repeat("x", 100)}, 10_000)}}}
	text, err := json.Marshal(&s)
	if err != nil {
		t.Fatal(err)
	}
	read := func(into any) float64 {
		return testing.AllocsPerRun(2, func() {
			if err := json.Unmarshal(text, into); err != nil {
				t.Fatal(err)
			}
		})
	}
	if whole, head := read(&BatchSpec{}), read(&BatchHead{}); whole < 10_000 || head > 100 {
		t.Errorf("%.0f allocations for the spec, %.0f for its head", whole, head)
	}
}
