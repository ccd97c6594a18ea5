// Package yamlfile reads YAML files that people write into structs, and reports each mistake with its line.
//
// The fields have the tags of the form:
//
//	json  the key
//	doc   a sentence about it, which ends in a full stop
//	need  "true": the key must be given
//	enum  words that a text can be, with commas between them
//	min   the least that a number can be
//
// One [Form] makes the JSON Schema for editors, and checks files by it.
package yamlfile

import (
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/stagepost/stagepost/format/schema"
	"github.com/stagepost/stagepost/format/tree"
)

// Form is the form of one kind of files. Fields are structs, pointers to them, maps with texts as keys, lists, texts,
// numbers, booleans, and types that implement [encoding.TextUnmarshaler].
type Form struct {
	id       string
	t        reflect.Type
	compiled func() *schema.Schema
}

// New makes the form of the files that are read into structs of a type. The id names its schema.
func New(id string, t reflect.Type) *Form {
	f := &Form{id: id, t: t}
	f.compiled = sync.OnceValue(func() *schema.Schema {
		s := schema.Compile(id, schema.Text(id, "", "", describe(t, false)))
		s.Known, s.Public = f.keys, f.isPublic
		return s
	})
	return f
}

// Schema gives the JSON Schema (Draft 2020-12), indented, for editors.
func (f *Form) Schema(title, about string) []byte {
	return schema.Text(f.id, title, about, describe(f.t, true))
}

var unitType = reflect.TypeFor[encoding.TextUnmarshaler]()

// isUnit reports whether values of a type are made of texts.
func isUnit(t reflect.Type) bool { return reflect.PointerTo(t).Implements(unitType) }

// keyOf gives the key of a field; empty: it has none.
func keyOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" {
		return ""
	}
	return name
}

// describe makes the schema of a type. For editors, numbers and booleans stand for texts where YAML reads them so;
// [Form.Read] makes texts of them before a file is checked.
func describe(t reflect.Type, editors bool) map[string]any {
	text := map[string]any{"type": "string"}
	if editors {
		text["type"] = []string{"string", "number", "boolean"}
	}
	if t.Kind() == reflect.Pointer {
		return describe(t.Elem(), editors)
	}
	if isUnit(t) {
		return text
	}
	switch t.Kind() {
	case reflect.Struct:
		return describeStruct(t, editors)
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": describe(t.Elem(), editors)}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": describe(t.Elem(), editors)}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	}
	return text
}

func describeStruct(t reflect.Type, editors bool) map[string]any {
	properties, needed := map[string]any{}, []string{}
	for field := range t.Fields() {
		name := keyOf(field)
		if name == "" {
			continue
		}
		one := describe(field.Type, editors)
		one["description"] = field.Tag.Get("doc")
		if words := field.Tag.Get("enum"); words != "" {
			one["type"], one["enum"] = "string", strings.Split(words, ",")
		}
		if least := field.Tag.Get("min"); least != "" {
			one["minimum"] = json.Number(least)
		}
		if field.Tag.Get("need") == "true" {
			needed = append(needed, name)
		}
		properties[name] = one
	}
	s := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(needed) > 0 {
		s["required"] = needed
	}
	return s
}

// at gives the type and the tags of the value at a path.
func (f *Form) at(path []string) (t reflect.Type, tags reflect.StructTag) {
	t = f.t
	for _, name := range path {
		if t, tags = below(t, name); t == nil {
			return nil, ""
		}
	}
	return t, tags
}

// keys lists the keys of a mapping.
func (f *Form) keys(path []string) (names []string) {
	t, _ := f.at(path)
	if t == nil || t.Kind() != reflect.Struct || isUnit(t) {
		return nil
	}
	for field := range t.Fields() {
		if name := keyOf(field); name != "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// isPublic reports whether a value may be quoted: those of a few words.
func (f *Form) isPublic(path []string, _ *tree.Node) bool {
	_, tags := f.at(path)
	return tags.Get("enum") != ""
}

// below gives the type and the tags of a key or of an item; a nil type: there is none.
func below(t reflect.Type, name string) (reflect.Type, reflect.StructTag) {
	var tags reflect.StructTag
	switch t.Kind() {
	case reflect.Map, reflect.Slice:
		t = t.Elem()
	case reflect.Struct:
		found := false
		for field := range t.Fields() {
			if key := keyOf(field); key == name && key != "" {
				t, tags, found = field.Type, field.Tag, true
				break
			}
		}
		if !found {
			return nil, ""
		}
	default:
		return nil, ""
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t, tags
}
