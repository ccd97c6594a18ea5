package flow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"

	"github.com/stagepost/stagepost/internal/decimal"
)

// Values are arguments and results by name.
type Values map[string]any

// Value is an argument or a result. In memory it is a Go value; from storage it is JSON and is decoded when it is
// used. The zero Value is null.
type Value struct {
	live any
	text json.RawMessage // nil: live is the value
}

// ValueOf wraps a Go value.
func ValueOf(v any) Value {
	if own, ok := v.(Value); ok {
		return own
	}
	return Value{live: v}
}

// Any returns the Go value. A value from storage is nil, bool, string, int (numbers without fraction), float64,
// json.Number (numbers that neither of the two has exactly, such as 12345678901234567890), []any or map[string]any.
func (v Value) Any() any {
	if v.text == nil {
		return v.live
	}
	var out any
	d := json.NewDecoder(bytes.NewReader(v.text))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		return nil // impossible: only valid JSON is stored
	}
	return plain(out)
}

// plain converts each json.Number to a number, in place.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n
		}
		f, err := v.Float64()
		if c, ok := decimal.Compare(v.String(), strconv.FormatFloat(f, 'g', -1, 64)); err != nil || !ok || c != 0 {
			return v
		}
		return f
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	}
	return v
}

// Into sets the variable that into points to: directly if the types match, otherwise by way of JSON.
func (v Value) Into(into any) error {
	to := reflect.ValueOf(into)
	if to.Kind() != reflect.Pointer || to.IsNil() {
		return fmt.Errorf("cannot decode into %T: a pointer is needed", into)
	}
	text := v.text
	if text == nil {
		from := reflect.ValueOf(v.live)
		if from.IsValid() && from.Type().AssignableTo(to.Type().Elem()) {
			to.Elem().Set(from)
			return nil
		}
		var err error
		if text, err = json.Marshal(v.live); err != nil {
			return err
		}
	}
	return json.Unmarshal(text, into)
}

// list returns the elements of a list. Numbers that came as JSON are as Any returns them.
func (v Value) list() (all []any, err error) {
	if elements, is := v.Any().([]any); is {
		return elements, nil
	}
	if err := v.Into(&all); err != nil {
		return nil, fmt.Errorf("it is no list: %.100s", describe(v))
	}
	return all, nil
}

// describe returns the JSON of a value, or its Go syntax.
func describe(v Value) string {
	if text, err := json.Marshal(v); err == nil {
		return string(text)
	}
	return fmt.Sprintf("%#v", v.live)
}

// wrapValues wraps Go values; the result is never nil.
func wrapValues(all Values) map[string]Value {
	wrapped := make(map[string]Value, len(all))
	for name, v := range all {
		wrapped[name] = ValueOf(v)
	}
	return wrapped
}

// MarshalJSON returns the JSON form.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.text != nil {
		return v.text, nil
	}
	return json.Marshal(v.live)
}

// UnmarshalJSON keeps the text, which is decoded when it is used.
func (v *Value) UnmarshalJSON(text []byte) error {
	v.live, v.text = nil, bytes.Clone(text)
	return nil
}

// Equal reports whether two values have the same JSON, or the same Go syntax (%#v) if both have no JSON.
func (v Value) Equal(o Value) bool {
	a, errA := json.Marshal(v)
	b, errB := json.Marshal(o)
	if errA != nil && errB != nil {
		return fmt.Sprintf("%#v", v.live) == fmt.Sprintf("%#v", o.live)
	}
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// part returns the element of a list at a position, or of a map under a key.
func (v Value) part(position int, key string) (Value, bool) {
	from := v.Any()
	r := reflect.ValueOf(from)
	for r.Kind() == reflect.Pointer && !r.IsNil() {
		r = r.Elem()
	}
	switch {
	case key == "" && (r.Kind() == reflect.Slice || r.Kind() == reflect.Array):
		if position >= r.Len() {
			return Value{}, false
		}
		return ValueOf(r.Index(position).Interface()), true
	case key != "" && r.Kind() == reflect.Map && r.Type().Key().Kind() == reflect.String:
		e := r.MapIndex(reflect.ValueOf(key).Convert(r.Type().Key()))
		if !e.IsValid() {
			return Value{}, false
		}
		return ValueOf(e.Interface()), true
	}
	return Value{}, false
}

// clamp keeps progress between 0 and 1.
func clamp(part float64) float64 {
	if math.IsNaN(part) {
		return 0
	}
	return min(max(part, 0), 1)
}
