package profile

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// SchemaID names the schema.
const SchemaID = "urn:stagepost:schema:ingest-profile"

// Schema gives the JSON Schema (Draft 2020-12) of a profile file, indented, as docs/profile.schema.json has it. Editors use it to complete and
// check while one types; [Parse] checks by the same.
func Schema() []byte {
	doc := object(profileType)
	for _, f := range fieldsOf(profileType) {
		if f.short != "" { // spellOut makes the mapping of the text
			f.withText(doc["properties"].(schema))
		}
	}
	return spelled(doc)
}

// spelled writes a schema of profiles as text.
func spelled(doc schema) []byte {
	doc["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	doc["$id"] = SchemaID
	doc["title"] = "Stagepost ingest profile"
	doc["description"] = "What an operator decides for a collection. One YAML file of the profile directory."
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic(err) // texts and numbers of the program's own
	}
	return append(text, '\n')
}

type schema = map[string]any

func object(t reflect.Type) schema {
	properties, required := schema{}, []string{}
	for _, f := range fieldsOf(t) {
		properties[f.name] = f.schema()
		if f.need {
			required = append(required, f.name)
		}
	}
	s := schema{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

// withText lets a text stand for the mapping of the key.
func (f *field) withText(properties schema) {
	mapping := properties[f.name].(schema)
	text := schema{"type": "string"}
	for _, one := range fieldsOf(f.kind) {
		if one.name == f.short {
			text = one.schema()
		}
	}
	delete(mapping, "description")
	properties[f.name] = schema{"description": f.doc, "anyOf": []any{text, mapping}}
}

// schema describes one key; what the tags say of a list holds for its items.
func (f *field) schema() schema {
	s := schema{}
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
	if f.secret() {
		s["writeOnly"] = true
	}
	if f.list {
		s = schema{"type": "array", "items": s}
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
var compiled = sync.OnceValue(func() *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(spelled(object(profileType))))
	if err != nil {
		panic(err) // the program's own text
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(SchemaID, doc); err != nil {
		panic(err)
	}
	return c.MustCompile(SchemaID)
})
