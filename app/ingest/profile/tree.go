package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// place is where something stands in a file, both from 1.
type place struct{ line, column int }

// tree is a YAML value of which every part knows its place. Exactly one of members and items is set for a branch; a leaf has a value.
type tree struct {
	place
	value   any // nil, bool, string, json.Number
	members []member
	items   []*tree
	kind    treeKind
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

// Bounds of a file: what a person writes is far below them.
const (
	maxFile  = 1 << 20
	maxNodes = 20_000 // aliases count as often as they are used
	maxDepth = 32
)

// grow reads YAML. The error is a *Mistake with its place.
func grow(text []byte) (root *tree, err error) {
	if len(text) > maxFile {
		return nil, &Mistake{Line: 1, Column: 1, Text: fmt.Sprintf("the file has more than %d bytes", maxFile)}
	}
	defer func() {
		if recover() != nil { // the library panics on some malformed files
			err = &Mistake{Line: 1, Column: 1, Text: "the file cannot be read as YAML"}
		}
	}()
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, syntax(err)
	}
	g := &grower{anchors: map[string]ast.Node{}}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.NullType {
			continue
		}
		if root != nil {
			return nil, g.wrong(doc.Body, "a second document: a file holds one profile")
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

// syntax brings the position of a YAML error to its front, and drops what it quotes: that may be a secret.
func syntax(err error) *Mistake {
	m := &Mistake{Line: 1, Column: 1, Text: "the file cannot be read as YAML"}
	var e yaml.Error
	if errors.As(err, &e) {
		m.Text = "not YAML: " + unquote(e.GetMessage())
		if token := e.GetToken(); token != nil {
			m.Line, m.Column = max(token.Position.Line, 1), max(token.Position.Column, 1)
		}
	}
	return m
}

// unquote takes away what stands in quotes, and all lines but the first.
func unquote(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	for _, quote := range []string{`"`, "`"} {
		parts := strings.Split(text, quote)
		for i := 1; i < len(parts); i += 2 {
			parts[i] = "..."
		}
		text = strings.Join(parts, quote)
	}
	return text
}

type grower struct {
	anchors map[string]ast.Node
	nodes   int
}

func (g *grower) wrong(n ast.Node, format string, args ...any) error {
	at := placeOf(n)
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
	if g.nodes++; g.nodes > maxNodes || depth > maxDepth {
		return nil, g.wrong(n, "there is more in this file than a profile can hold")
	}
	t := &tree{place: placeOf(n)}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		t.value = n.Value
	case *ast.IntegerNode:
		t.value = json.Number(fmt.Sprint(n.Value))
	case *ast.FloatNode:
		text, err := json.Marshal(n.Value)
		if err != nil {
			return nil, g.wrong(n, "it is no number that a profile takes")
		}
		t.value = json.Number(text)
	case *ast.StringNode:
		t.value = n.Value
	case *ast.LiteralNode:
		t.value = n.Value.Value
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
		target, ok := g.anchors[n.Value.String()]
		if !ok {
			return nil, g.wrong(n, "there is no anchor of this name before it")
		}
		at := t.place
		t, err := g.node(target, depth+1)
		if err == nil {
			t.place = at
		}
		return t, err
	default:
		return nil, g.wrong(n, "a profile has no %s", strings.ToLower(n.Type().String()))
	}
	return t, nil
}

func (g *grower) mapping(t *tree, values []*ast.MappingValueNode, depth int) (*tree, error) {
	t.kind = mapping
	seen := map[string]bool{}
	for _, v := range values {
		name, ok := v.Key.(*ast.StringNode)
		if !ok {
			return nil, g.wrong(v.Key, "a key is a plain word")
		}
		if seen[name.Value] {
			return nil, g.wrong(v.Key, "the key stands there twice")
		}
		seen[name.Value] = true
		value, err := g.node(v.Value, depth+1)
		if err != nil {
			return nil, err
		}
		if value.kind == leaf && value.value == nil {
			continue // a key without a value is one that was left out
		}
		t.members = append(t.members, member{name.Value, placeOf(v.Key), value})
	}
	return t, nil
}

// plain gives the tree as the JSON it stands for.
func (t *tree) plain() any {
	switch t.kind {
	case mapping:
		m := map[string]any{}
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

// find gives the part that a path names, and where its key stands; ok is false if it is not there.
func (t *tree) find(path []string) (part *tree, key place, ok bool) {
	key = t.place
	for _, name := range path {
		next := (*tree)(nil)
		for _, m := range t.members {
			if m.name == name {
				next, key = m.value, m.place
			}
		}
		for i, item := range t.items {
			if fmt.Sprint(i) == name {
				next, key = item, item.place
			}
		}
		if next == nil {
			return t, key, false
		}
		t = next
	}
	return t, key, true
}

// walk visits every part with its key, the root first.
func (t *tree) walk(key string, visit func(key string, part *tree)) {
	visit(key, t)
	below := func(name string) string {
		if key == "" {
			return name
		}
		return key + "." + name
	}
	for _, m := range t.members {
		m.value.walk(below(m.name), visit)
	}
	for i, item := range t.items {
		item.walk(below(fmt.Sprint(i)), visit)
	}
}
