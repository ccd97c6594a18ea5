package flowfile

import (
	"slices"
	"strings"
	"time"
)

// reader turns a tree into what it says, and collects what is wrong.
type reader struct {
	o        Options
	inputs   []Input
	mistakes Mistakes
	taken    map[string]place // names of tasks, fan-outs and controllers
	tasks    []*task          // all, in the order of the file
	items    int
	notes    []Finding // of lint
}

func (r *reader) wrong(at place, format string, args ...any) {
	if len(r.mistakes) <= 4*MostMistakes {
		r.mistakes = append(r.mistakes, wrongAt(at, format, args...))
	}
}

// keys checks that a mapping is one and has no other keys.
func (r *reader) keys(t *tree, what string, known table) bool {
	if t.kind != mapping {
		r.wrong(t.place, "%s is written as keys with values, not as %s", what, t.word())
		return false
	}
	for _, m := range t.members {
		if known.named(m.name) == nil {
			r.wrong(m.place, "%s has no key %.60q%s", what, m.name, similar(m.name, known.names()))
		}
	}
	return true
}

// text reads a text; of a number or a flag, how it is written.
func (r *reader) text(t *tree, what string) string {
	if t.kind == leaf {
		switch v := t.value.(type) {
		case string:
			return v
		case bool:
			if v {
				return "true"
			}
			return "false"
		case nil:
		default:
			return t.raw
		}
	}
	r.wrong(t.place, "%s is a text, not %s", what, t.word())
	return ""
}

// name reads a name; empty if it is none.
func (r *reader) name(t *tree, what string) string {
	if t.kind == leaf && t.value == nil {
		r.wrong(t.place, "%s has no value", what)
		return ""
	}
	if t.kind != leaf {
		r.wrong(t.place, "%s is a name, not %s", what, t.word())
		return ""
	}
	name := r.text(t, what)
	if !nameForm.MatchString(name) {
		r.wrong(t.place, "%.40q is no name: 1 to 200 letters, digits, dots, hyphens, slashes and underscores", name)
		return ""
	}
	return name
}

// names reads one name or a list of them.
func (r *reader) names(t *tree, what string) []ref {
	if t == nil {
		return nil
	}
	all := []*tree{t}
	if t.kind == list {
		all = t.items
	}
	var refs []ref
	for _, one := range all {
		if name := r.name(one, what); name != "" {
			if slices.ContainsFunc(refs, func(x ref) bool { return x.name == name }) {
				r.wrong(one.place, "%s names %s twice", what, name)
			}
			refs = append(refs, ref{one.place, name})
		}
	}
	return refs
}

// span reads a time; zero if there is none.
func (r *reader) span(t *tree, what string) time.Duration {
	if t == nil {
		return 0
	}
	text := ""
	if t.kind == leaf {
		text, _ = t.value.(string)
	}
	if text == "" {
		r.wrong(t.place, "%s is a time such as 10s, 1h30m or 2d, not %s", what, t.word())
		return 0
	}
	d, err := span(text)
	if err != nil {
		r.wrong(t.place, "%s: %v", what, err)
	}
	return d
}

// whole reads a whole number of at least least; def if there is none.
func (r *reader) whole(t *tree, what string, least, def int) int {
	if t == nil {
		return def
	}
	n, ok := t.value.(int)
	if !ok || t.kind != leaf {
		r.wrong(t.place, "%s is a whole number, not %s", what, t.word())
		return def
	}
	if n < least || n > 1_000_000_000 {
		r.wrong(t.place, "%s must be from %d to 1000000000", what, least)
		return def
	}
	return n
}

// flag reads true or false.
func (r *reader) flag(t *tree, what string, def bool) bool {
	if t == nil {
		return def
	}
	b, ok := t.value.(bool)
	if !ok || t.kind != leaf {
		r.wrong(t.place, "%s is true or false, not %s", what, t.word())
		return def
	}
	return b
}

// oneOf reads a word of a list; the first if there is none.
func (r *reader) oneOf(t *tree, what string, words ...string) string {
	if t == nil {
		return words[0]
	}
	text, _ := t.value.(string)
	if t.kind != leaf || !slices.Contains(words, text) {
		if t.kind == leaf && text == "" {
			text = t.raw
		}
		r.wrong(t.place, "%s is one of %s, not %.40q", what, strings.Join(words, ", "), text)
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
		r.wrong(at, "there is something called %s already, in line %d: every task has a name of its own", name, first.line)
		return
	}
	r.taken[name] = at
}
