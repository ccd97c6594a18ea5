package profile

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/stagepost/stagepost/format/schema"
	"github.com/stagepost/stagepost/format/tree"
)

// SchemaID names the schema.
const SchemaID = "urn:stagepost:schema:ingest-profile"

// Schema gives the JSON Schema (Draft 2020-12) of a profile file, indented, as docs/profile.schema.json has it.
// Editors use it to complete and check while one types; [Parse] checks by the same.
func Schema() []byte {
	doc := object(profileType)
	for _, f := range fieldsOf(profileType) {
		if f.short != "" { // spellOut makes the mapping of the text
			f.withText(doc["properties"].(entries))
		}
	}
	return spelled(doc)
}

// spelled writes a schema of profiles as text.
func spelled(doc entries) []byte {
	return schema.Text(SchemaID,
		"Stagepost ingest profile",
		"What an operator decides for a collection. One YAML file of the profile directory.", doc)
}

type entries = map[string]any

func object(t reflect.Type) entries {
	properties, required := entries{}, []string{}
	for _, f := range fieldsOf(t) {
		properties[f.name] = f.schema()
		if f.need {
			required = append(required, f.name)
		}
	}
	s := entries{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// withText lets a text stand for the mapping of the key.
func (f *field) withText(properties entries) {
	mapping := properties[f.name].(entries)
	text := entries{"type": "string"}
	for _, one := range fieldsOf(f.kind) {
		if one.name == f.short {
			text = one.schema()
		}
	}
	delete(mapping, "description")
	properties[f.name] = entries{"description": f.doc, "anyOf": []any{text, mapping}}
}

// schema describes one key; the tags of a list hold for its items.
func (f *field) schema() entries {
	s := entries{}
	switch f.kind.Kind() {
	case reflect.Struct:
		s = object(f.kind)
	case reflect.Bool:
		s["type"] = "boolean"
	case reflect.Int, reflect.Int64:
		s["type"] = "integer"
	default:
		s["type"] = "string"
	}
	for name, text := range map[string]string{"format": f.format, "pattern": f.pattern} {
		if text != "" {
			s[name] = text
		}
	}
	for name, text := range map[string]string{"minimum": f.min, "maximum": f.max} {
		if text != "" {
			s[name] = json.Number(text)
		}
	}
	if f.enum != nil {
		s["enum"] = f.enum
	}
	if f.list {
		s = entries{"type": "array", "items": s}
		if f.need {
			s["minItems"] = 1
		}
	}
	s["description"] = f.doc
	if f.def != "" {
		s["default"] = f.defaultValue()
	}
	return s
}

func (f *field) defaultValue() any {
	switch _, err := strconv.ParseInt(f.def, 10, 64); {
	case f.list:
		return []string{f.def}
	case err == nil:
		return json.Number(f.def)
	}
	return f.def
}

// compiled is the schema of files that [spellOut] has gone through, ready to validate: with one form for each key, a
// mistake has one reason.
var compiled = sync.OnceValue(func() *schema.Schema {
	s := schema.Compile(SchemaID, spelled(object(profileType)))
	s.Known = func(path []string) []string { return known(strings.Join(path, ".")) }
	s.Doc = func(path []string) string { f, _, _ := lookup(strings.Join(path, ".")); return f.doc }
	s.Public = func(path []string, part *tree.Node) bool { return public(strings.Join(path, "."), part) }
	return s
})

// known lists the keys of a mapping.
func known(above string) (names []string) {
	t := profileType
	if above != "" {
		f, _, ok := lookup(above)
		if !ok || !f.branch() {
			return nil
		}
		t = f.kind
	}
	for _, f := range fieldsOf(t) {
		names = append(names, f.name)
	}
	return names
}
