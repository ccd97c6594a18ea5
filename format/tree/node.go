package tree

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
)

// Position is a position in a file.
type Position struct {
	Line   int // from 1
	Column int // from 1, in characters
}

// Kind determines which fields of a node are set.
type Kind int

// The kinds of nodes.
const (
	Leaf    Kind = iota // Value and Text
	Mapping             // Members
	List                // Items
)

// Node is one part of a file. A node is immutable: all aliases of an anchor share it.
type Node struct {
	Position // of an alias: the position of the alias
	Kind     Kind
	Value    any      // nil, bool, string, or the result of [Options].Number
	Text     string   // a text itself; a number, true and false as written; empty for null
	Members  []Member // in the order of the file, names are unique
	Items    []*Node
}

// Member is a key with its value.
type Member struct {
	Name     string
	Position // of the key
	Value    *Node
}

// Get returns the value of a key, or nil.
func (n *Node) Get(name string) *Node {
	if m := n.member(name); m != nil {
		return m.Value
	}
	return nil
}

// At returns the position of a key, or that of the mapping if the key does not exist.
func (n *Node) At(name string) Position {
	if m := n.member(name); m != nil {
		return m.Position
	}
	return n.Position
}

func (n *Node) member(name string) *Member {
	for i := range n.Members {
		if n.Members[i].Name == name {
			return &n.Members[i]
		}
	}
	return nil
}

// Find follows a path of keys and of positions in lists. It returns the part and the position of its key. If the part
// does not exist, it returns the last existing part of the path, and ok is false.
func (n *Node) Find(path []string) (part *Node, key Position, ok bool) {
	part, key = n, n.Position
	for _, name := range path {
		next, at := part.Get(name), part.At(name)
		if i, err := strconv.Atoi(name); err == nil && part.Kind == List && i >= 0 && i < len(part.Items) {
			next, at = part.Items[i], part.Items[i].Position
		}
		if next == nil {
			return part, key, false
		}
		part, key = next, at
	}
	return part, key, true
}

// All yields every part with its key, such as webhooks.0.url: the root first, with an empty key.
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

// Plain returns the Go value of a part: its Value, a map[string]any or a []any.
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

// Describe names the kind of a part for messages: "it is a text, not a list".
func (n *Node) Describe() string {
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

// Error is a mistake in a file, with its position.
type Error struct {
	Position
	Text string
}

// Error returns "line:column: text".
func (e *Error) Error() string { return fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Text) }

func wrong(at Position, format string, args ...any) *Error {
	return &Error{at, fmt.Sprintf(format, args...)}
}

// Most characters of a line that an excerpt shows before and behind a position.
const shownBefore, shownBehind = 60, 60

// Excerpt returns a line of a file with a caret below a position in it, or nothing for an empty line.
func Excerpt(at Position, source string) string {
	if source == "" {
		return ""
	}
	runes := []rune(source)
	caret := min(max(at.Column-1, 0), len(runes))
	from, to := max(caret-shownBefore, 0), min(caret+shownBehind, len(runes))
	number := fmt.Sprintf("%4d | ", at.Line)
	below := strings.Repeat(" ", len(number)-2) + "| " + strings.Repeat(" ", caret-from) + "^"
	return number + strings.TrimRight(string(runes[from:to]), " ") + "\n" + below
}
