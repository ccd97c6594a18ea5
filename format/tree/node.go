package tree

import (
	"fmt"
	"iter"
	"strconv"
)

// Place is where something stands in a file.
type Place struct {
	Line   int // from 1
	Column int // from 1, in characters
}

// Kind says which of a node's fields are set.
type Kind int

// The kinds of nodes.
const (
	Leaf    Kind = iota // Value and Text
	Mapping             // Members
	List                // Items
)

// Node is one part of a file. Nobody changes a node: what an alias names is there once, and shared.
type Node struct {
	Place   // of an alias: where the alias stands
	Kind    Kind
	Value   any      // nil, bool, string, or what [Options] make of a number
	Text    string   // a text itself; a number, true and false as they are written; empty for nothing
	Members []Member // in the order of the file, each name once
	Items   []*Node
}

// Member is a key with its value.
type Member struct {
	Name  string
	Place // of the key
	Value *Node
}

// Get gives the value of a key, or nil.
func (n *Node) Get(name string) *Node {
	if m := n.member(name); m != nil {
		return m.Value
	}
	return nil
}

// At gives the place of a key, or that of the mapping if it is not there.
func (n *Node) At(name string) Place {
	if m := n.member(name); m != nil {
		return m.Place
	}
	return n.Place
}

func (n *Node) member(name string) *Member {
	for i := range n.Members {
		if n.Members[i].Name == name {
			return &n.Members[i]
		}
	}
	return nil
}

// Find follows a path of keys and of positions in lists. It gives the part that the path names, and where its key stands; if that is not there, the last part on the way that is,
// and ok is false.
func (n *Node) Find(path []string) (part *Node, key Place, ok bool) {
	part, key = n, n.Place
	for _, name := range path {
		next, at := part.Get(name), part.At(name)
		if i, err := strconv.Atoi(name); err == nil && part.Kind == List && i >= 0 && i < len(part.Items) {
			next, at = part.Items[i], part.Items[i].Place
		}
		if next == nil {
			return part, key, false
		}
		part, key = next, at
	}
	return part, key, true
}

// All gives every part with its key, such as webhooks.0.url: the root first, whose key is empty.
func (n *Node) All() iter.Seq2[string, *Node] {
	return func(yield func(string, *Node) bool) { n.all("", yield) }
}

func (n *Node) all(key string, yield func(string, *Node) bool) bool {
	if !yield(key, n) {
		return false
	}
	if key != "" {
		key += "."
	}
	for _, m := range n.Members {
		if !m.Value.all(key+m.Name, yield) {
			return false
		}
	}
	for i, item := range n.Items {
		if !item.all(key+strconv.Itoa(i), yield) {
			return false
		}
	}
	return true
}

// Plain gives the Go value that a part stands for: its Value, a map[string]any or a []any.
func (n *Node) Plain() any {
	switch n.Kind {
	case Mapping:
		values := make(map[string]any, len(n.Members))
		for _, m := range n.Members {
			values[m.Name] = m.Value.Plain()
		}
		return values
	case List:
		values := make([]any, len(n.Items))
		for i, item := range n.Items {
			values[i] = item.Plain()
		}
		return values
	}
	return n.Value
}

// Word says what a part is, for messages: "it is a text, not a list".
func (n *Node) Word() string {
	switch n.Kind {
	case Mapping:
		return "keys with values"
	case List:
		return "a list"
	}
	switch n.Value.(type) {
	case nil:
		return "nothing"
	case bool:
		return "true or false"
	case string:
		return "a text"
	}
	return "a number"
}

// Error says why a file cannot be read, and where.
type Error struct {
	Place
	Text string
}

// Error gives "line:column: text".
func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Text) }

func wrong(at Place, format string, args ...any) *Error {
	return &Error{at, fmt.Sprintf(format, args...)}
}
