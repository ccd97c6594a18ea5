package site

import (
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/stagepost/stagepost/format/tree"
)

// Mistake is one thing that is wrong in a site. Its text is one line; where it stands is told as far as it is known: variables stand in no file.
type Mistake struct {
	File   string
	Line   int // from 1; 0: not known
	Column int
	Text   string
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

// mistakes collects what is wrong, with the places where it stands in a file.
type mistakes struct {
	root *tree.Node // of the file; nil: there is none
	all  []*Mistake
}

// add notes a mistake in the part that a path of keys leads to, or in what there is of it.
func (m *mistakes) add(path []string, format string, args ...any) {
	one := &Mistake{Text: strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")}
	if m.root != nil {
		if _, at, _ := m.root.Find(path); len(path) > 0 && m.root.Get(path[0]) != nil && m.root.Get(path[0]).Get(path[1]) != nil {
			one.Line, one.Column = at.Line, at.Column
		}
	}
	m.all = append(m.all, one)
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

// ofYAML makes mistakes of what the YAML library says, without the lines that it quotes.
func ofYAML(err error, root *tree.Node) error {
	var its yaml.Error
	if !errors.As(err, &its) { // it came from a type of ours, and the library does not say where
		wrong := &mistakes{root: root}
		if wrong.units(); len(wrong.all) > 0 {
			return wrong.join()
		}
		text, _, _ := strings.Cut(err.Error(), "\n")
		return &Mistake{Text: text}
	}
	text, _, _ := strings.Cut(its.GetMessage(), "\n")
	var other *yaml.TypeError
	if errors.As(err, &other) && other.DstType != nil && wanted[other.DstType.Kind()] != "" {
		text = "here must stand " + wanted[other.DstType.Kind()]
	}
	m := &Mistake{Text: text}
	if token := its.GetToken(); token != nil && token.Position != nil {
		m.Line, m.Column = token.Position.Line, token.Position.Column
	}
	return m
}

// wanted names what a field takes.
var wanted = map[reflect.Kind]string{
	reflect.Int: "a whole number", reflect.Float64: "a number", reflect.Bool: "true or false", reflect.String: "a text", reflect.Slice: "a list", reflect.Map: "keys with values",
	reflect.Struct: "keys with values",
}

// units adds the sizes and times that cannot be read.
func (m *mistakes) units() {
	if m.root == nil {
		return
	}
	for key, part := range m.root.All() {
		var into encoding.TextUnmarshaler
		name := key[strings.LastIndex(key, ".")+1:]
		switch name {
		case "memory", "disk", "output":
			into = new(Size)
		case "wall", "cpu", "poll":
			into = new(Duration)
		}
		if into == nil || part.Kind != tree.Leaf {
			continue
		}
		if err := into.UnmarshalText([]byte(part.Text)); err != nil {
			m.all = append(m.all, &Mistake{Line: part.Line, Column: part.Column, Text: fmt.Sprintf("%s: %.60q: %v", name, part.Text, err)})
		}
	}
}

// inFile says of each mistake which file it stands in.
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
