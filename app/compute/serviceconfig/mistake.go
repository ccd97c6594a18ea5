package serviceconfig

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/format/tree"
)

// Mistake is one thing that is wrong in a service configuration. Its text is one line. Its position is that in the
// file; variables stand in no file.
type Mistake struct {
	File   string
	Line   int // from 1; 0: not known
	Column int
	Text   string
	lines  string
}

func (m *Mistake) Error() string {
	text := m.Text
	if m.Line > 0 {
		text = fmt.Sprintf("%d:%d: %s", m.Line, m.Column, text)
		if m.File != "" {
			text = m.File + ":" + text
		}
	} else if m.File != "" {
		text = m.File + ": " + text
	}
	return text
}

// Excerpt gives the line with a caret below the position, or nothing if it is not known.
func (m *Mistake) Excerpt() string { return m.lines }

// mistakes collects what is wrong, with the positions where it stands in a file.
type mistakes struct {
	root  *tree.Node // of the file; nil: there is none
	lines *lines
	all   []*Mistake
}

// at notes a mistake at a position.
func (m *mistakes) at(p tree.Position, format string, args ...any) {
	m.all = append(m.all, &Mistake{Line: p.Line, Column: p.Column, Text: fmt.Sprintf(format, args...),
		lines: m.lines.excerpt(p)})
}

// add notes a mistake in the part that a path of keys leads to, or in what there is of it.
func (m *mistakes) add(path []string, format string, args ...any) {
	one := &Mistake{Text: strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")}
	if m.root != nil {
		if _, at, _ := m.root.Find(path); len(path) > 0 && m.root.Get(path[0]) != nil &&
			m.root.Get(path[0]).Get(path[1]) != nil {
			one.Line, one.Column, one.lines = at.Line, at.Column, m.lines.excerpt(at)
		}
	}
	m.all = append(m.all, one)
}

// written reports whether the file has a value, other than null, at the end of a path of keys.
func (m *mistakes) written(path []string) bool {
	node := m.root
	for _, key := range path {
		if node == nil {
			return false
		}
		node = node.Get(key)
	}
	return node != nil && (node.Kind != tree.Leaf || node.Value != nil)
}

// join gives all of them in the order of the file, each as an error of its own.
func (m *mistakes) join() error {
	slices.SortStableFunc(m.all, func(a, b *Mistake) int { return cmp.Compare(a.Line, b.Line) })
	var all []error
	for _, one := range m.all {
		all = append(all, one)
	}
	return errors.Join(all...)
}

// inFile names in each mistake the file it stands in.
func inFile(name string, err error) error {
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) {
		return named(name, err)
	}
	var all []error
	for _, one := range many.Unwrap() {
		all = append(all, named(name, one))
	}
	return errors.Join(all...)
}

func named(name string, err error) error {
	var m *Mistake
	if errors.As(err, &m) {
		with := *m
		with.File = name
		return &with
	}
	return fmt.Errorf("%s: %w", name, err)
}
