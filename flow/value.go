package flow

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strconv"
)

// Values are arguments and results by name.
type Values map[string]any

// Value is something that tasks hand on: an argument, a result. In memory it stays the Go value that it was; once it
// has been stored it is JSON, and is decoded when somebody appears. The zero Value is null.
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

// Any gives the Go value. What comes from storage is nil, bool, string, int (numbers without fraction), float64, []any
// or map[string]any.
func (v Value) Any() any {
	if v.text == nil {
		return v.live
	}
	var out any
	d := json.NewDecoder(bytes.NewReader(v.text))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		return nil // what a Value holds was valid JSON when it was stored
	}
	return plain(out)
}

// plain makes numbers of json.Numbers, in place.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n
		}
		f, _ := v.Float64()
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

// Into sets what into points to: directly if the types fit, else by way of JSON.
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

// wrapValues wraps Go values; it is never nil.
func wrapValues(all Values) map[string]Value {
	wrapped := make(map[string]Value, len(all))
	for name, v := range all {
		wrapped[name] = ValueOf(v)
	}
	return wrapped
}

// MarshalJSON gives the JSON form.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.text != nil {
		return v.text, nil
	}
	return json.Marshal(v.live)
}

// UnmarshalJSON keeps the text and decodes it when it is wanted.
func (v *Value) UnmarshalJSON(text []byte) error {
	v.live, v.text = nil, bytes.Clone(text)
	return nil
}

// Equal reports whether two values are the same as JSON; of values that are no JSON, whether Go writes them the same.
func (v Value) Equal(o Value) bool {
	a, errA := json.Marshal(v)
	b, errB := json.Marshal(o)
	if errA != nil && errB != nil {
		return fmt.Sprintf("%#v", v.live) == fmt.Sprintf("%#v", o.live)
	}
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// part gives the element of a list under a position, or of a map under a key.
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
