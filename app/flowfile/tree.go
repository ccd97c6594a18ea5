package flowfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// place is where something stands in a file, both from 1.
type place struct{ line, column int }

// tree is a YAML value of which every part knows its place.
type tree struct {
	place
	kind    treeKind
	value   any    // of a leaf: nil, bool, string, int, float64
	raw     string // of a number: as it is written
	members []member
	items   []*tree
}

type treeKind int

const (
	leaf treeKind = iota
	mapping
	list
)

type member struct {
	name string
	place
	value *tree
}

// Bounds of a file.
const (
	MaxFile     = 1 << 20 // bytes
	MaxTasks    = 100_000 // of a flow, with all that lists are fanned out to
	MaxDepth    = 32      // of parts within parts
	maxNodes    = 400_000 // aliases count as often as they are used
	maxLevels   = 3*MaxDepth + 16
	maxKeys     = 1_000  // of one mapping: the YAML library takes quadratic time
	maxBrackets = 10_000 // [ and { in all, for the same reason
	maxEmpty    = 20_000 // keys and items without a value
	maxMarks    = 500    // of one sort in one line, or anchors and tags in all
)

// grow reads YAML. The error is a *Mistake with its place.
func grow(text []byte) (root *tree, err error) {
	if m := weigh(text); m != nil {
		return nil, m
	}
	defer func() {
		if recover() != nil { // the library panics on some malformed files
			root, err = nil, &Mistake{Line: 1, Column: 1, Text: "the file cannot be read as YAML"}
		}
	}()
	file, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntax(err)
	}
	g := &grower{anchors: map[string]ast.Node{}}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.NullType {
			continue
		}
		if root != nil {
			return nil, wrongAt(placeOf(doc.Body), "a second document: a file holds one flow")
		}
		if root, err = g.node(doc.Body, 0); err != nil {
			return nil, err
		}
	}
	if root == nil {
		return nil, &Mistake{Line: 1, Column: 1, Text: "the file is empty"}
	}
	return root, nil
}

var anchorOrTag = regexp.MustCompile(`(^|[\s,\[{:-])[&!][A-Za-z0-9!]`)

// weigh refuses texts for which the YAML library would need more than a few seconds or much memory, before it sees them.
func weigh(text []byte) *Mistake {
	if len(text) > MaxFile {
		return &Mistake{Line: 1, Column: 1, Text: fmt.Sprintf("the file has more than %d bytes", MaxFile)}
	}
	brackets, anchors, empty := 0, 0, 0
	keys := map[int]int{} // by indentation: lines in a row that may be keys of one mapping
	for i, line := range strings.Split(string(text), "\n") {
		say := func(format string, args ...any) *Mistake { return wrongAt(place{i + 1, 1}, format, args...) }
		body := strings.TrimLeft(line, " ")
		indent := len(line) - len(body)
		if body != "" && body[0] != '#' {
			for at := range keys {
				if at > indent || body[0] == '-' && at == indent {
					delete(keys, at)
				}
			}
		}
		if strings.Contains(body, ":") && body[0] != '-' {
			if keys[indent]++; keys[indent] > maxKeys {
				return say("more than %d keys one below the other", maxKeys)
			}
		}
		if brackets += strings.Count(line, "[") + strings.Count(line, "{"); brackets > maxBrackets {
			return say("more than %d brackets and braces: long lists are written line by line, or given as an input", maxBrackets)
		}
		if empty += valueless(body); empty > maxEmpty {
			return say("more than %d keys and items without a value of their own: long lists are written line by line, or given as an input", maxEmpty)
		}
		if anchors += len(anchorOrTag.FindAllString(line, -1)); anchors > maxMarks {
			return say("more than %d anchors and tags", maxMarks)
		}
		for _, mark := range []string{": ", "- ", "? ", "-\t", ":\t"} {
			if strings.Count(line, mark) > maxMarks {
				return say("more than %d times %q in one line", maxMarks, mark)
			}
		}
	}
	return nil
}

// valueless counts, rather too many than too few, what in a line the library may have to give an empty value: "key:" and "-" at its end, "?", and entries between commas that
// have no colon, or none for certain.
func valueless(line string) int {
	line, _, _ = strings.Cut(line, " #")
	line = strings.TrimSpace(line)
	n := 0
	if strings.HasSuffix(line, ":") || strings.HasSuffix(line, "-") || strings.HasPrefix(line, "?") {
		n++
	}
	if !strings.Contains(line, ",") {
		return n
	}
	for entry := range strings.SplitSeq(line, ",") {
		if !strings.Contains(entry, ":") || strings.ContainsAny(entry, `'"`) || strings.HasSuffix(strings.TrimSpace(entry), ":") {
			n++
		}
	}
	return n
}

// syntax takes the position out of a YAML error.
func syntax(err error) *Mistake {
	m := &Mistake{Line: 1, Column: 1, Text: "the file cannot be read as YAML"}
	var e yaml.Error
	if errors.As(err, &e) {
		text, _, _ := strings.Cut(e.GetMessage(), "\n")
		m.Text = "not YAML: " + text
		if token := e.GetToken(); token != nil && token.Position != nil {
			m.Line, m.Column = max(token.Position.Line, 1), max(token.Position.Column, 1)
		}
	}
	return m
}

type grower struct {
	anchors map[string]ast.Node
	nodes   int
}

func wrongAt(at place, format string, args ...any) *Mistake {
	return &Mistake{Line: at.line, Column: at.column, Text: fmt.Sprintf(format, args...)}
}

func placeOf(n ast.Node) place {
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return placeOf(m.Values[0].Key)
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		return placeOf(m.Key)
	}
	token := n.GetToken()
	if token == nil || token.Position == nil {
		return place{1, 1}
	}
	return place{max(token.Position.Line, 1), max(token.Position.Column, 1)}
}

// node makes a tree of a node. Whatever the library has no business handing over is a mistake in the file.
func (g *grower) node(n ast.Node, depth int) (*tree, error) {
	if n == nil {
		return &tree{place: place{1, 1}}, nil
	}
	if g.nodes++; g.nodes > maxNodes {
		return nil, wrongAt(placeOf(n), "there is more in this file than %d values, aliases counted as often as they are used", maxNodes)
	}
	if depth > maxLevels {
		return nil, wrongAt(placeOf(n), "this is nested too deeply")
	}
	t := &tree{place: placeOf(n)}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		t.value = n.Value
	case *ast.IntegerNode:
		return g.number(t, n, fmt.Sprint(n.Value))
	case *ast.FloatNode:
		text, err := json.Marshal(n.Value)
		if err != nil {
			return nil, wrongAt(t.place, "it is no number that JSON has")
		}
		return g.number(t, n, string(text))
	case *ast.StringNode:
		t.value = strings.ToValidUTF8(n.Value, "\uFFFD")
	case *ast.LiteralNode:
		t.value = strings.ToValidUTF8(n.Value.Value, "\uFFFD")
	case *ast.MappingNode:
		return g.mapping(t, n.Values, depth)
	case *ast.MappingValueNode:
		return g.mapping(t, []*ast.MappingValueNode{n}, depth)
	case *ast.SequenceNode:
		t.kind = list
		for _, v := range n.Values {
			item, err := g.node(v, depth+1)
			if err != nil {
				return nil, err
			}
			t.items = append(t.items, item)
		}
	case *ast.AnchorNode:
		g.anchors[n.Name.String()] = n.Value
		return g.node(n.Value, depth+1)
	case *ast.AliasNode:
		return g.alias(n, depth)
	default:
		return nil, wrongAt(t.place, "a flow has no %s", strings.ToLower(n.Type().String()))
	}
	return t, nil
}

func (g *grower) number(t *tree, n ast.Node, text string) (*tree, error) {
	t.raw = text
	if token := n.GetToken(); token != nil {
		t.raw = strings.TrimSpace(token.Value)
	}
	t.value = plainJSON([]byte(text))
	return t, nil
}

func (g *grower) alias(n *ast.AliasNode, depth int) (*tree, error) {
	name := n.Value.String()
	target, ok := g.anchors[name]
	if !ok {
		return nil, wrongAt(placeOf(n), "there is no anchor %.40q before it", name)
	}
	delete(g.anchors, name) // not while it is being copied: it would contain itself
	t, err := g.node(target, depth+1)
	g.anchors[name] = target
	if err == nil {
		t.place = placeOf(n)
	}
	return t, err
}

func (g *grower) mapping(t *tree, values []*ast.MappingValueNode, depth int) (*tree, error) {
	t.kind = mapping
	seen := map[string]bool{}
	for _, v := range values {
		at := placeOf(v.Key)
		name := ""
		switch key := v.Key.(type) {
		case *ast.StringNode:
			name = key.Value
		case *ast.IntegerNode, *ast.BoolNode, *ast.FloatNode:
			name = key.GetToken().Value
		case *ast.MergeKeyNode:
			return nil, wrongAt(at, "merge keys (<<) are not part of the language")
		default:
			return nil, wrongAt(at, "a key is a plain word")
		}
		if seen[name] {
			return nil, wrongAt(at, "the key %.60q stands there twice", name)
		}
		seen[name] = true
		value, err := g.node(v.Value, depth+1)
		if err != nil {
			return nil, err
		}
		t.members = append(t.members, member{name, at, value})
	}
	return t, nil
}

// get gives the value of a key, or nil.
func (t *tree) get(name string) *tree {
	for i := range t.members {
		if t.members[i].name == name {
			return t.members[i].value
		}
	}
	return nil
}

// at gives the place of a key, or that of the mapping.
func (t *tree) at(name string) place {
	for i := range t.members {
		if t.members[i].name == name {
			return t.members[i].place
		}
	}
	return t.place
}

// plain gives the Go value that a tree stands for.
func (t *tree) plain() any {
	switch t.kind {
	case mapping:
		m := make(map[string]any, len(t.members))
		for _, one := range t.members {
			m[one.name] = one.value.plain()
		}
		return m
	case list:
		l := make([]any, len(t.items))
		for i, one := range t.items {
			l[i] = one.plain()
		}
		return l
	}
	return t.value
}

// word says what a tree is, for messages.
func (t *tree) word() string {
	switch t.kind {
	case mapping:
		return "keys with values"
	case list:
		return "a list"
	}
	switch t.value.(type) {
	case nil:
		return "nothing"
	case bool:
		return "true or false"
	case string:
		return "a text"
	}
	return "a number"
}
