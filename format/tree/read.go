package tree

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Options define what files of one kind may have. The zero Options allow the least.
type Options struct {
	Nodes   int  // parts of a file, each use of an alias counted. Defaults to 20,000
	Levels  int  // of nested parts, the root being level 0. Defaults to 32
	Aliases bool // anchors and aliases are allowed
	Merges  bool // a merge key (<<) adds the keys of another mapping, or of a list of mappings, that are not given

	Omit  bool // a key without a value counts as omitted
	Empty bool // a file without content counts as one without keys

	Number func(json.Number) any // makes the Value of a number. Defaults to the json.Number itself, without loss

	Quote  bool   // messages name keys and anchors: these files have no secrets
	Noun   string // the kind of file: "flow" gives "a flow has no tag". Defaults to "file"
	Second string // message for a second document. Defaults to "it has more than one document"
	Merge  string // message for a merge key (<<). Defaults to "a merge key is not for this file"
}

func (o Options) withDefaults() Options {
	o.Nodes, o.Levels, o.Noun = cmp.Or(o.Nodes, 20_000), cmp.Or(o.Levels, 32), cmp.Or(o.Noun, "file")
	o.Second = cmp.Or(o.Second, "it has more than one document")
	o.Merge = cmp.Or(o.Merge, "a merge key is not for this file")
	if o.Number == nil {
		o.Number = func(n json.Number) any { return n }
	}
	return o
}

// Read reads a file. The error is an [*Error]: the first mistake. Messages contain no content of the file, except
// names that [Options].Quote allows.
func Read(text []byte, o Options) (root *Node, err error) {
	if e := weigh(text); e != nil {
		return nil, e
	}
	defer func() {
		if recover() != nil { // the library panics on some malformed files
			root, err = nil, unreadable()
		}
	}()
	// this package reports duplicates itself: the library may quote a secret
	file, err := parser.ParseBytes(text, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntax(err)
	}
	r := &reader{Options: o.withDefaults(), anchors: map[string]*Node{}}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.NullType {
			continue
		}
		if root != nil {
			return nil, wrong(positionOf(doc.Body), "%s", r.Second)
		}
		if root, err = r.node(doc.Body, 0); err != nil {
			return nil, err
		}
	}
	switch {
	case root == nil && o.Empty:
		return &Node{Position: Position{1, 1}, Kind: Mapping}, nil
	case root == nil:
		return nil, wrong(Position{1, 1}, "the file is empty")
	}
	return root, nil
}

func unreadable() *Error { return wrong(Position{1, 1}, "the file cannot be read as YAML") }

// syntax moves the position of a library error to its front, and drops quoted text.
func syntax(err error) *Error {
	e := unreadable()
	var its yaml.Error
	if errors.As(err, &its) {
		e.Text = "not YAML: " + inWords(unquote(its.GetMessage()))
		if token := its.GetToken(); token != nil && token.Position != nil {
			e.Position = Position{max(token.Position.Line, 1), max(token.Position.Column, 1)}
		}
	}
	return e
}

// inWords rewords the most frequent errors of the library.
func inWords(text string) string {
	switch {
	case strings.Contains(text, "found character '\t'"):
		return "YAML does not allow a tab here; indent with spaces"
	case strings.Contains(text, "could not find end character of"):
		return "the quote that begins here is not closed"
	case strings.HasPrefix(text, "value is not allowed in this context"):
		return "a text begins where a value has ended; is a quote before it not closed, or one within a quoted text " +
			"not doubled?"
	}
	return text
}

// unquote removes everything from the first quote to the last, and all lines but the first. Quoted text may contain
// quotes itself.
func unquote(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	const quotes = "\"`"
	from, to := strings.IndexAny(text, quotes), strings.LastIndexAny(text, quotes)
	switch {
	case from < 0:
		return text
	case from == to: // the closing quote is missing
		return text[:from] + "..."
	}
	return text[:from] + "..." + text[to+1:]
}

// reader converts the nodes of the library.
type reader struct {
	Options
	anchors map[string]*Node
	nodes   int
}

// count counts one more part.
func (r *reader) count(at Position, level int) error {
	if r.nodes++; r.nodes > r.Nodes {
		return wrong(at, "there is more in this file than %d values, aliases counted as often as they are used",
			r.Nodes)
	}
	if level > r.Levels {
		return wrong(at, "this is nested too deeply")
	}
	return nil
}

func positionOf(n ast.Node) Position {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return positionOf(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return positionOf(n.Key)
	}
	if token := n.GetToken(); token != nil && token.Position != nil {
		return Position{max(token.Position.Line, 1), max(token.Position.Column, 1)}
	}
	return Position{1, 1}
}

// node converts a node of the library. A node of an unexpected type is a mistake in the file.
func (r *reader) node(n ast.Node, level int) (*Node, error) {
	if n == nil {
		return &Node{Position: Position{1, 1}}, nil
	}
	at := positionOf(n)
	switch n := n.(type) {
	case *ast.AnchorNode:
		return r.anchor(at, n, level)
	case *ast.AliasNode:
		return r.alias(at, n, level)
	}
	if err := r.count(at, level); err != nil {
		return nil, err
	}
	switch n := n.(type) {
	case *ast.NullNode:
		return &Node{Position: at}, nil
	case *ast.BoolNode:
		return &Node{Position: at, Value: n.Value, Text: written(n)}, nil
	case *ast.IntegerNode:
		return &Node{Position: at, Value: r.Number(json.Number(fmt.Sprint(n.Value))), Text: written(n)}, nil
	case *ast.FloatNode:
		number, err := json.Marshal(n.Value)
		if err != nil {
			return nil, wrong(at, "it is not a JSON number")
		}
		return &Node{Position: at, Value: r.Number(json.Number(number)), Text: written(n)}, nil
	case *ast.StringNode:
		return &Node{Position: at, Value: n.Value, Text: n.Value}, nil
	case *ast.LiteralNode:
		return &Node{Position: at, Value: n.Value.Value, Text: n.Value.Value}, nil
	case *ast.MappingNode:
		return r.mapping(at, n.Values, level)
	case *ast.MappingValueNode:
		return r.mapping(at, []*ast.MappingValueNode{n}, level)
	case *ast.SequenceNode:
		return r.list(at, n.Values, level)
	}
	return nil, wrong(at, "a %s has no %s", r.Noun, strings.ToLower(n.Type().String()))
}

// written returns a value as it is written in the file.
func written(n ast.Node) string { return strings.TrimSpace(n.GetToken().Value) }

func (r *reader) list(at Position, values []ast.Node, level int) (*Node, error) {
	list := &Node{Position: at, Kind: List}
	for _, v := range values {
		item, err := r.node(v, level+1)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, item)
	}
	return list, nil
}

func (r *reader) mapping(at Position, values []*ast.MappingValueNode, level int) (*Node, error) {
	mapping := &Node{Position: at, Kind: Mapping}
	seen := map[string]bool{}
	var merged []*Node
	for _, v := range values {
		if _, is := v.Key.(*ast.MergeKeyNode); is && r.Merges {
			from, err := r.merge(v, level)
			if err != nil {
				return nil, err
			}
			merged = append(merged, from...)
			continue
		}
		name, err := r.key(v.Key)
		if err != nil {
			return nil, err
		}
		key := positionOf(v.Key)
		if seen[name] {
			return nil, wrong(key, "the key%s occurs twice", r.quoted(name))
		}
		seen[name] = true
		value, err := r.node(v.Value, level+1)
		if err != nil {
			return nil, err
		}
		if r.Omit && value.Kind == Leaf && value.Value == nil {
			continue
		}
		mapping.Members = append(mapping.Members, Member{name, key, value})
	}
	for _, from := range merged {
		for _, m := range from.Members {
			if !seen[m.Name] {
				seen[m.Name] = true
				mapping.Members = append(mapping.Members, m)
			}
		}
	}
	return mapping, nil
}

// merge reads what a merge key names: a mapping, or a list of them.
func (r *reader) merge(v *ast.MappingValueNode, level int) ([]*Node, error) {
	value, err := r.node(v.Value, level+1)
	if err != nil {
		return nil, err
	}
	all := []*Node{value}
	if value.Kind == List {
		all = value.Items
	}
	for _, one := range all {
		if one.Kind != Mapping {
			return nil, wrong(one.Position, "a merge key takes keys with values, or a list of such")
		}
	}
	return all, nil
}

// key returns the name of a key; of a number, true or false as written.
func (r *reader) key(n ast.MapKeyNode) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.IntegerNode, *ast.BoolNode, *ast.FloatNode:
		return written(n), nil
	case *ast.MergeKeyNode:
		return "", wrong(positionOf(n), "%s", r.Merge)
	}
	return "", wrong(positionOf(n), "a key is a plain word")
}

// anchor reads a value that later aliases may name. It cannot contain itself.
func (r *reader) anchor(at Position, n *ast.AnchorNode, level int) (*Node, error) {
	if !r.Aliases {
		return nil, wrong(at, "it takes a plain value: a %s has no anchors", r.Noun)
	}
	value, err := r.node(n.Value, level)
	r.anchors[n.Name.String()] = value
	return value, err
}

func (r *reader) alias(at Position, n *ast.AliasNode, level int) (*Node, error) {
	if !r.Aliases {
		return nil, wrong(at, "it takes a plain value: a %s has no aliases", r.Noun)
	}
	name := n.Value.String()
	value := r.anchors[name]
	if value == nil {
		return nil, wrong(at, "there is no anchor%s before it", r.quoted(name))
	}
	if err := r.again(at, value, level); err != nil {
		return nil, err
	}
	here := *value
	here.Position = at
	return &here, nil
}

// again counts a part that an alias repeats.
func (r *reader) again(at Position, n *Node, level int) error {
	if err := r.count(at, level); err != nil {
		return err
	}
	for _, m := range n.Members {
		if err := r.again(at, m.Value, level+1); err != nil {
			return err
		}
	}
	for _, item := range n.Items {
		if err := r.again(at, item, level+1); err != nil {
			return err
		}
	}
	return nil
}

// quoted returns a name for a message, or "" if it may be a secret.
func (r *reader) quoted(name string) string {
	if !r.Quote {
		return ""
	}
	return fmt.Sprintf(" %.60q", name)
}
