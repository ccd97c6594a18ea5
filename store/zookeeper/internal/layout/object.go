package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// Object is a JSON object with its values as they were read. Encode writes the keys in alphabetical order, compact.
type Object map[string]json.RawMessage

// errEmpty is the error of a node without data where an object is expected.
var errEmpty = errors.New("the node is empty")

// ParseObject reads the data of a node.
func ParseObject(data []byte) (Object, error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 {
		return nil, errEmpty
	}
	var o Object
	if err := json.Unmarshal(data, &o); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	if o == nil {
		return nil, errors.New("not a JSON object: null")
	}
	return o, nil
}

// Encode returns the data of a node. The values must be valid, as Set and ParseObject make them.
func (o Object) Encode() []byte {
	if o == nil {
		return []byte("{}")
	}
	return encode(map[string]json.RawMessage(o))
}

func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("layout: " + err.Error()) // only texts, numbers, lists and values that were parsed
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// Set sets a key to a text, a number, a truth value, a list of texts or nil.
func (o Object) Set(key string, value any) { o[key] = encode(value) }

// Text returns the text of a key. A number or truth value is returned as its text; a missing key and null as "".
func (o Object) Text(key string) string {
	raw := o[key]
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

// Int returns the number of a key, which may be written as a text; ok is false if it is none.
func (o Object) Int(key string) (n int64, ok bool) { return parseInt(o.Text(key)) }

// Bool returns the truth value of a key, which may be written as a text; ok is false if it is none.
func (o Object) Bool(key string) (value, ok bool) {
	switch o.Text(key) {
	case "true":
		return true, true
	case "false":
		return false, true
	}
	return false, false
}

// Texts returns the list of a key. A text alone is a list of one.
func (o Object) Texts(key string) []string {
	var all []string
	if json.Unmarshal(o[key], &all) == nil {
		return all
	}
	if s := o.Text(key); s != "" {
		return []string{s}
	}
	return nil
}

// Clone returns a copy whose keys can be set.
func (o Object) Clone() Object {
	c := make(Object, len(o)+4)
	for k, v := range o {
		c[k] = v
	}
	return c
}

// parseInt parses a decimal number, or a floating-point number that is whole.
func parseInt(text string) (int64, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64)
	const exact = 1 << 53
	if err != nil || f != float64(int64(f)) || f > exact || f < -exact {
		return 0, false
	}
	return int64(f), true
}
