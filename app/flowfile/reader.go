package flowfile

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/format/tree"
	"github.com/stagepost/stagepost/internal/nearest"
)

// reader turns a tree into what it states, and collects what is wrong.
type reader struct {
	o        Options
	inputs   []Input
	mistakes Mistakes
	taken    map[string]place // names of tasks, fan-outs and controllers
	tasks    []*task          // all, in the order of the file
	items    int
	notes    []Finding // of lint
	sleeps   map[string]int
}

func (r *reader) wrong(at place, format string, args ...any) {
	if len(r.mistakes) <= 4*MostMistakes {
		r.mistakes = append(r.mistakes, wrongAt(at, format, args...))
	}
}

// keys checks that a mapping is one and has no other keys.
func (r *reader) keys(t *tree.Node, what string, known table) bool {
	if t.Kind != tree.Mapping {
		r.wrong(t.Position, "%s is written as keys with values, not as %s", what, t.Describe())
		return false
	}
	for _, m := range t.Members {
		if known.named(m.Name) == nil {
			r.wrong(m.Position, "%s has no key %.60q%s", what, m.Name, similar(m.Name, known.names()))
		}
	}
	return true
}

// text reads a text; of a number, how it is written.
func (r *reader) text(t *tree.Node, what string) string {
	switch v := t.Value.(type) {
	case nil:
		r.wrong(t.Position, "%s is a text, not %s", what, t.Describe())
		return ""
	case bool:
		return strconv.FormatBool(v)
	}
	return t.Text
}

// name reads a name; empty if it is none.
func (r *reader) name(t *tree.Node, what string) string {
	if t.Kind == tree.Leaf && t.Value == nil {
		r.wrong(t.Position, "%s has no value", what)
		return ""
	}
	if t.Kind != tree.Leaf {
		r.wrong(t.Position, "%s is a name, not %s", what, t.Describe())
		return ""
	}
	name := r.text(t, what)
	if !nameForm.MatchString(name) {
		r.wrong(t.Position, "%.40q is no name: 1 to 200 letters, digits, dots, hyphens, slashes and underscores", name)
		return ""
	}
	return name
}

// names reads one name or a list of them.
func (r *reader) names(t *tree.Node, what string) []ref {
	if t == nil {
		return nil
	}
	all := []*tree.Node{t}
	if t.Kind == tree.List {
		all = t.Items
	}
	var refs []ref
	for _, one := range all {
		if name := r.name(one, what); name != "" {
			if slices.ContainsFunc(refs, func(x ref) bool { return x.name == name }) {
				r.wrong(one.Position, "%s names %s twice", what, name)
			}
			refs = append(refs, ref{one.Position, name})
		}
	}
	return refs
}

// span reads a time; zero if there is none.
func (r *reader) span(t *tree.Node, what string) time.Duration {
	if t == nil {
		return 0
	}
	text, _ := t.Value.(string)
	if text == "" {
		r.wrong(t.Position, "%s is a time such as 10s, 1h30m or 2d, not %s", what, t.Describe())
		return 0
	}
	d, err := span(text)
	if err != nil {
		r.wrong(t.Position, "%s: %v", what, err)
	}
	return d
}

// whole reads a whole number of at least least; def if there is none.
func (r *reader) whole(t *tree.Node, what string, least, def int) int {
	if t == nil {
		return def
	}
	n, ok := t.Value.(int)
	if !ok {
		r.wrong(t.Position, "%s is a whole number, not %s", what, t.Describe())
		return def
	}
	if n < least || n > 1_000_000_000 {
		r.wrong(t.Position, "%s must be from %d to 1000000000", what, least)
		return def
	}
	return n
}

// flag reads true or false.
func (r *reader) flag(t *tree.Node, what string, def bool) bool {
	if t == nil {
		return def
	}
	b, ok := t.Value.(bool)
	if !ok {
		r.wrong(t.Position, "%s is true or false, not %s", what, t.Describe())
		return def
	}
	return b
}

// oneOf reads a word of a list; the first if there is none.
func (r *reader) oneOf(t *tree.Node, what string, words ...string) string {
	if t == nil {
		return words[0]
	}
	text, _ := t.Value.(string)
	if !slices.Contains(words, text) {
		switch best := nearest.Word(text, words); {
		case text == "":
			r.wrong(t.Position, "%s is one of %s, not %s", what, strings.Join(words, ", "), t.Describe())
		case best != "":
			r.wrong(t.Position, "%s is one of %s, not %.40q; is it %s?", what, strings.Join(words, ", "), t.Text, best)
		default:
			r.wrong(t.Position, "%s is one of %s, not %.40q", what, strings.Join(words, ", "), t.Text)
		}
		return words[0]
	}
	return text
}

// take claims a name that must be there once.
func (r *reader) take(name string, at place) {
	if name == "" {
		return
	}
	if first, there := r.taken[name]; there {
		r.wrong(at, "there is something called %s already, in line %d: every task has a name of its own", name,
			first.Line)
		return
	}
	r.taken[name] = at
}
