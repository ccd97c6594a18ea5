// Package schema checks files that people write by a JSON Schema. It reports each mistake with its line and column.
package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/stagepost/stagepost/format/tree"
	"github.com/stagepost/stagepost/internal/nearest"
)

// Schema is one of the program's own schemas.
type Schema struct {
	// Known gives the keys of the mapping at a path. Nil: no key is suggested.
	Known func(path []string) []string
	// Doc describes the value of a key, in a sentence for a value that does not match its pattern. Nil: no sentence.
	Doc func(path []string) string
	// Public reports whether the value of a key may be quoted. Nil: none may.
	Public func(path []string, part *tree.Node) bool

	compiled *jsonschema.Schema
}

// Text writes a schema (Draft 2020-12), indented.
func Text(id, title, about string, doc map[string]any) []byte {
	doc["$schema"], doc["$id"] = "https://json-schema.org/draft/2020-12/schema", id
	doc["title"], doc["description"] = title, about
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic(err) // texts and numbers of the program's own
	}
	return append(text, '\n')
}

// Compile makes a schema of its text. A mistake in it panics: the text is the program's own.
func Compile(id string, text []byte) *Schema {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		panic(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(id, doc); err != nil {
		panic(err)
	}
	return &Schema{compiled: c.MustCompile(id)}
}

// Fault is one thing that is wrong with a file.
type Fault struct {
	tree.Position
	Path []string // of the key
	Text string
}

// Key gives the path with dots: webhooks.0.url.
func (f *Fault) Key() string { return strings.Join(f.Path, ".") }

// Check gives what is wrong with a file.
func (s *Schema) Check(root *tree.Node) []Fault {
	var v *jsonschema.ValidationError
	if err := s.compiled.Validate(root.Plain()); err == nil || !errors.As(err, &v) {
		return nil
	}
	return s.faults(root, v)
}

// Locate gives the position of a value, or that of the nearest key above that is there.
func Locate(root *tree.Node, path []string) tree.Position {
	part, key, ok := root.Find(path)
	if ok && part.Kind == tree.Leaf {
		return part.Position
	}
	return key
}

// faults are those of what the schema refuses. The texts are our own: the library's quote values.
func (s *Schema) faults(root *tree.Node, v *jsonschema.ValidationError) []Fault {
	var all []Fault
	for _, cause := range v.Causes {
		all = append(all, s.faults(root, cause)...)
	}
	if len(v.Causes) > 0 {
		return all
	}
	path := v.InstanceLocation
	part, _, _ := root.Find(path)
	say := func(format string, args ...any) {
		all = append(all, Fault{Locate(root, path), path, fmt.Sprintf(format, args...)})
	}
	below := func(name string) []string { return append(append([]string{}, path...), name) }
	switch k := v.ErrorKind.(type) {
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			_, at, _ := root.Find(below(name))
			all = append(all, Fault{at, below(name), "there is no such key" + s.similar(path, name)})
		}
	case *kind.Required:
		for _, name := range k.Missing {
			all = append(all, Fault{Locate(root, below(name)), below(name), "it is missing"})
		}
	case *kind.Type:
		say("it must be %s, not %s", words[k.Want[0]], words[k.Got])
	case *kind.Enum:
		say("%sit is none of %s", s.value(path, part), joined(k.Want))
	case *kind.Pattern:
		doc := ""
		if s.Doc != nil {
			doc = s.Doc(path)
		}
		say("%sit is not as it should be. %s", s.value(path, part), strings.TrimSuffix(doc, "."))
	case *kind.Minimum:
		say("it must not be below %s", number(k.Want))
	case *kind.Maximum:
		say("it must not be above %s", number(k.Want))
	case *kind.MinItems:
		say("it must have at least %d", k.Want)
	default:
		say("it does not match the schema")
	}
	return all
}

// words are what a person calls the types of JSON.
var words = map[string]string{
	"string": "a text", "integer": "a whole number", "number": "a number", "boolean": "true or false",
	"array": "a list", "object": "keys with values", "null": "nothing",
}

func number(n *big.Rat) string { return strings.TrimSuffix(n.FloatString(0), ".") }

// value quotes a value that may be shown.
func (s *Schema) value(path []string, part *tree.Node) string {
	if text, ok := part.Value.(string); ok && s.Public != nil && s.Public(path, part) {
		return fmt.Sprintf("%.100q: ", text)
	}
	return ""
}

func joined(all []any) string {
	texts := make([]string, len(all))
	for i, one := range all {
		texts[i] = fmt.Sprint(one)
	}
	return strings.Join(texts, ", ")
}

// similar names the key that was probably meant, or lists those that there are.
func (s *Schema) similar(path []string, name string) string {
	if s.Known == nil {
		return ""
	}
	known := s.Known(path)
	if best := nearest.Word(name, known); best != "" {
		return "; is it " + best + "?"
	}
	if len(known) == 0 {
		return ""
	}
	return " (known: " + strings.Join(known, ", ") + ")"
}
