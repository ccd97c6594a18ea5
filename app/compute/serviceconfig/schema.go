package serviceconfig

import (
	"encoding"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"

	"github.com/stagepost/stagepost/format/schema"
	"github.com/stagepost/stagepost/format/tree"
)

// SchemaID names the schema.
const SchemaID = "urn:stagepost:schema:compute-services"

var (
	fileType = reflect.TypeFor[document]()
	unitType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// describe makes the schema of a type. For editors, numbers stand for texts where YAML takes them so; [typed] has made
// texts of them before a file is checked.
func describe(t reflect.Type, editors bool) map[string]any {
	text := map[string]any{"type": "string"}
	if editors {
		text["type"] = []string{"string", "number", "boolean"}
	}
	switch {
	case t.Kind() == reflect.Pointer:
		return describe(t.Elem(), editors)
	case reflect.PointerTo(t).Implements(unitType):
		return text
	}
	switch t.Kind() {
	case reflect.Struct:
		properties := map[string]any{}
		for f := range t.Fields() {
			if name := f.Tag.Get("json"); name != "-" {
				one := describe(f.Type, editors)
				one["description"] = f.Tag.Get("doc")
				properties[name] = one
			}
		}
		return map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": describe(t.Elem(), editors)}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": describe(t.Elem(), editors)}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	}
	return text
}

var compiled = sync.OnceValue(func() *schema.Schema {
	s := schema.Compile(SchemaID, schema.Text(SchemaID, "", "", describe(fileType, false)))
	s.Known = known
	return s
})

// known lists the keys of a mapping.
func known(path []string) (names []string) {
	t := fileType
	for _, name := range path {
		if t = below(t, name); t == nil {
			return nil
		}
	}
	if t.Kind() == reflect.Struct {
		for f := range t.Fields() {
			if name := f.Tag.Get("json"); name != "-" {
				names = append(names, name)
			}
		}
	}
	return names
}

// below gives the type of a key or an item; nil: there is none.
func below(t reflect.Type, name string) reflect.Type {
	switch t.Kind() {
	case reflect.Map, reflect.Slice:
		t = t.Elem()
	case reflect.Struct:
		found := false
		for f := range t.Fields() {
			if f.Tag.Get("json") == name && name != "-" {
				t, found = f.Type, true
				break
			}
		}
		if !found {
			return nil
		}
	default:
		return nil
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// decode reads a document from a tree. All mistakes are noted.
func decode(root *tree.Node, wrong *mistakes) (d document) {
	root = wrong.typed(root, fileType, "")
	for _, f := range compiled().Check(root) {
		wrong.at(f.Position, "%s", strings.TrimPrefix(f.Key()+": "+f.Text, ": "))
	}
	if len(wrong.all) > 0 {
		return d
	}
	text, err := json.Marshal(root.Plain())
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	var other *json.UnmarshalTypeError
	if errors.As(err, &other) { // a number that the type does not hold
		wrong.at(schema.Locate(root, strings.Split(other.Field, ".")), "%s: it is no number that this can be",
			other.Field)
	} else if err != nil {
		wrong.all = append(wrong.all, &Mistake{Text: err.Error()})
	}
	return d
}

// typed gives a part as JSON has it for a type: numbers are texts where these are wanted, and keys without a value are
// left out, or stand for a mapping without keys. Sizes and times that cannot be read are noted.
func (m *mistakes) typed(n *tree.Node, t reflect.Type, name string) *tree.Node {
	here := *n
	unit := reflect.PointerTo(t).Implements(unitType)
	switch {
	case n.Kind == tree.Mapping:
		here.Members = nil
		for _, one := range n.Members {
			of := below(t, one.Name)
			if of == nil || unit {
				here.Members = append(here.Members, one)
				continue
			}
			none := one.Value.Kind == tree.Leaf && one.Value.Value == nil
			if none && t.Kind() != reflect.Map {
				continue
			}
			value := *one.Value
			switch {
			case none && of.Kind() == reflect.Struct:
				value.Kind = tree.Mapping
			case none:
				value.Value = ""
			}
			one.Value = m.typed(&value, of, one.Name)
			here.Members = append(here.Members, one)
		}
	case n.Kind == tree.List && t.Kind() == reflect.Slice:
		here.Items = nil
		for _, one := range n.Items {
			here.Items = append(here.Items, m.typed(one, t.Elem(), name))
		}
	case n.Kind == tree.Leaf && n.Value != nil && (unit || t.Kind() == reflect.String):
		here.Value = n.Text
	}
	if unit && n.Kind == tree.Leaf {
		if err := reflect.New(t).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(n.Text)); err != nil {
			m.at(n.Position, "%s: %.60q: %v", name, n.Text, err)
		}
	}
	return &here
}

// lines are those of a file, to be shown with mistakes.
type lines struct {
	all  []string
	hide map[int]int // by line: the column from which on nothing is shown
}

func linesOf(text []byte, root *tree.Node) *lines {
	l := &lines{strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n"), map[int]int{}}
	l.redact(root, fileType)
	return l
}

// redact finds what may be secret: values of variables, those of keys that are not known, and URLs with a password.
func (l *lines) redact(n *tree.Node, t reflect.Type) {
	text, _ := n.Value.(string)
	if t == nil || strings.ContainsAny(text, "@?") {
		if from, ok := l.hide[n.Line]; !ok || n.Column < from {
			l.hide[n.Line] = n.Column
		}
	}
	for _, m := range n.Members {
		if t == nil || m.Name == "env" {
			l.redact(m.Value, nil)
		} else {
			l.redact(m.Value, below(t, m.Name))
		}
	}
	for _, item := range n.Items {
		if t != nil && t.Kind() == reflect.Slice {
			l.redact(item, t.Elem())
		} else {
			l.redact(item, nil)
		}
	}
}

// excerpt shows a line with a caret.
func (l *lines) excerpt(at tree.Position) string {
	if l == nil || at.Line < 1 || at.Line > len(l.all) {
		return ""
	}
	line := []rune(l.all[at.Line-1])
	if from, ok := l.hide[at.Line]; ok && from <= len(line) {
		line = append(line[:from-1:from-1], []rune("***")...)
		at.Column = min(at.Column, from)
	}
	return tree.Excerpt(at, strings.TrimRight(string(line), " "))
}
