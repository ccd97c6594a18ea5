package flowfile

import "encoding/json"

// SchemaID names the schema.
const SchemaID = "urn:stagepost:schema:flow"

// Schema gives the JSON Schema (Draft 2020-12) of a file, indented, as docs/flowfile.schema.json has it. Editors use it
// to complete and check while one types. [Parse] checks by the same tables, and more than a schema can state.
func Schema() []byte {
	defs := map[string]any{
		"name":     json.RawMessage(aName),
		"input":    object(inputKeys),
		"retry":    object(retryKeys, "times"),
		"wait":     object(waitKeys, "signal"),
		"attempts": object(attemptKeys, "max"),
		"http":     object(httpKeys, "url"),
		"provides": object(providesKeys, "keys"),
		"revert":   object(revertTable),
		"test":     object(testKeys),
		"part":     object(partTable),
		"task":     object(taskTable),
		"each":     object(eachTable, "each", "in"),
		"item": map[string]any{
			"if": map[string]any{"required": []string{"each"}}, "then": pointer("each"),
			"else": map[string]any{
				"if":   map[string]any{"anyOf": []any{required("linear"), required("unordered"), required("graph")}},
				"then": pointer("part"), "else": pointer("task"),
			},
		},
		"condition": map[string]any{
			"type": "object", "minProperties": 1,
			"properties": map[string]any{
				"all": someConditions, "any": someConditions, "not": pointer("condition"),
			},
			"additionalProperties": map[string]any{"anyOf": []any{pointer("test"),
				map[string]any{"type": []string{"string", "number", "boolean", "null", "array"}}}},
			"description": "TASK: test; several hold together. all and any take lists of conditions, not takes one.",
		},
	}
	doc := object(fileTable, "flow")
	doc["$schema"], doc["$id"] = "https://json-schema.org/draft/2020-12/schema", SchemaID
	doc["title"], doc["description"] = "Stagepost flow",
		"A flow of tasks that can be reverted, in one YAML file. See docs/flows.md."
	doc["oneOf"] = []any{required("linear"), required("unordered"), required("graph")}
	doc["$defs"] = defs
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic(err) // the program's own tables
	}
	return append(text, '\n')
}

var someConditions = map[string]any{"type": "array", "minItems": 1, "items": pointer("condition")}

func pointer(name string) map[string]any { return map[string]any{"$ref": "#/$defs/" + name} }

func required(name string) map[string]any { return map[string]any{"required": []string{name}} }

// object makes the schema of a table.
func object(t table, needed ...string) map[string]any {
	properties := map[string]any{}
	for _, k := range t {
		var s any
		if err := json.Unmarshal([]byte(k.schema), &s); err != nil {
			panic(err) // the program's own text
		}
		if m, is := s.(map[string]any); is {
			m["description"] = k.doc
		} else {
			s = map[string]any{"description": k.doc}
		}
		properties[k.name] = s
	}
	o := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(needed) > 0 {
		o["required"] = needed
	}
	return o
}
