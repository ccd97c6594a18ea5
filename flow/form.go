package flow

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// jsonForm is the JSON form of a Go type: the part of the type that can be stored and sent.
type jsonForm struct {
	JSON     string               `json:"json,omitempty"` // boolean, integer, number, string, list or object; "": any
	Go       string               `json:"go,omitempty"`   // the type in Go
	Null     bool                 `json:"null,omitempty"` // null is a value of it
	Bits     int                  `json:"bits,omitempty"` // of an integer
	Unsigned bool                 `json:"unsigned,omitempty"`
	Of       *jsonForm            `json:"of,omitempty"`     // of elements of a list or entries of an object; nil: any
	Fields   map[string]*jsonForm `json:"fields,omitempty"` // of an object, by name; others are ignored
}

// deepest bounds the nesting of types in a jsonForm. Deeper values may be anything.
const deepest = 6

// formOf returns the form of the values that can be decoded into a type; nil: all can.
func formOf(t reflect.Type) *jsonForm { return formAt(t, 0) }

func formAt(t reflect.Type, depth int) *jsonForm {
	if t.Kind() == reflect.Interface || depth > deepest {
		return nil
	}
	f := &jsonForm{Go: t.String(), Null: nullable(t)}
	pointer := reflect.PointerTo(t)
	switch {
	case pointer.Implements(reflect.TypeFor[json.Unmarshaler]()):
		return f
	case pointer.Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		f.JSON = "string"
		return f
	}
	switch t.Kind() {
	case reflect.Bool:
		f.JSON = "boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		f.JSON, f.Bits = "integer", t.Bits()
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		f.JSON, f.Bits, f.Unsigned = "integer", t.Bits(), true
	case reflect.Float32, reflect.Float64:
		f.JSON = "number"
	case reflect.String:
		f.JSON = "string"
	case reflect.Pointer:
		if f = formAt(t.Elem(), depth+1); f != nil {
			f.Null = true
		}
	case reflect.Slice, reflect.Array:
		if f.JSON = "list"; t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			f.JSON = "" // base64, or a list of numbers
			break
		}
		f.Of = formAt(t.Elem(), depth+1)
	case reflect.Map:
		f.JSON, f.Of = "object", formAt(t.Elem(), depth+1)
	case reflect.Struct:
		f.JSON, f.Fields = "object", map[string]*jsonForm{}
		f.fields(t, depth+1)
	}
	return f
}

// fields adds the fields of a struct and of its embedded structs.
func (f *jsonForm) fields(t reflect.Type, depth int) {
	for i := range t.NumField() {
		field := t.Field(i)
		tag := field.Tag.Get("json")
		name, options, _ := strings.Cut(tag, ",")
		inner := field.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case tag == "-":
		case field.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			if depth <= deepest {
				f.fields(inner, depth+1)
			}
		case !field.IsExported():
		default:
			if name == "" {
				name = field.Name
			}
			if f.Fields[name] = formAt(field.Type, depth); slices.Contains(strings.Split(options, ","), "string") {
				f.Fields[name] = nil
			}
		}
	}
}

// Check returns an error if a value does not have the form.
func (f *jsonForm) Check(v Value) error {
	text, err := v.MarshalJSON()
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var one any
	if err := d.Decode(&one); err != nil {
		return err
	}
	if one == nil && f != nil && !f.Null {
		return fmt.Errorf("it takes %s, not null", f)
	}
	return f.checkPart("", one)
}

// checkPart checks a part of a value. A null in a value is allowed: decoding leaves that part unchanged.
func (f *jsonForm) checkPart(path string, v any) error {
	if f == nil || v == nil || f.JSON == "" {
		return nil
	}
	is, fits := "", false
	switch v := v.(type) {
	case bool:
		is, fits = "a boolean", f.JSON == "boolean"
	case string:
		is, fits = "a string", f.JSON == "string"
	case json.Number:
		is, fits = "the number "+v.String(), f.JSON == "number" || f.JSON == "integer" && f.holds(v.String())
	case []any:
		is, fits = "a list", f.JSON == "list"
	case map[string]any:
		is, fits = "an object", f.JSON == "object"
	}
	if !fits {
		if path == "" {
			path = "it"
		}
		return fmt.Errorf("%s takes %s, not %s", path, f, is)
	}
	return f.checkElements(path, v)
}

// checkElements checks the elements of a list and the entries of an object.
func (f *jsonForm) checkElements(path string, v any) error {
	switch v := v.(type) {
	case []any:
		for i := range v {
			if err := f.Of.checkPart(fmt.Sprintf("%s[%d]", path, i), v[i]); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			form := f.Of
			if f.Fields != nil {
				form = f.field(key)
			}
			if err := form.checkPart(path+"."+key, v[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

// field returns the form of a field. Like encoding/json it prefers an exact match and then ignores case.
func (f *jsonForm) field(name string) *jsonForm {
	if one, there := f.Fields[name]; there {
		return one
	}
	for _, key := range slices.Sorted(maps.Keys(f.Fields)) {
		if strings.EqualFold(key, name) {
			return f.Fields[key]
		}
	}
	return nil
}

// holds reports whether an integer is in range.
func (f *jsonForm) holds(number string) bool {
	var err error
	if f.Unsigned {
		_, err = strconv.ParseUint(number, 10, f.Bits)
	} else {
		_, err = strconv.ParseInt(number, 10, f.Bits)
	}
	return err == nil
}

// String names the form for messages: "an integer (int8)", "a list of strings".
func (f *jsonForm) String() string {
	if f == nil || f.JSON == "" {
		return "anything"
	}
	text := "a " + f.JSON
	if strings.ContainsRune("aeiou", rune(f.JSON[0])) {
		text = "an " + f.JSON
	}
	switch {
	case f.JSON == "list" && f.Of != nil && f.Of.JSON != "":
		text += " of " + f.Of.JSON + "s"
	case len(f.Fields) > 0:
		text += " with " + strings.Join(slices.Sorted(maps.Keys(f.Fields)), ", ")
	}
	if f.Go != "" && f.Go != f.usualGo() {
		text += " (" + f.Go + ")"
	}
	return text
}

// usualGo returns the Go type that String omits, because it is the usual one for the JSON type.
func (f *jsonForm) usualGo() string {
	return map[string]string{"boolean": "bool", "integer": "int", "number": "float64", "string": "string",
		"list": "[]interface {}", "object": "map[string]interface {}"}[f.JSON]
}
