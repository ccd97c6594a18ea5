package config

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stagepost/stagepost/format/tree"
	"github.com/stagepost/stagepost/internal/nearest"
)

// entry is one value of the configuration file.
type entry struct {
	Name string // "retain.every", however it is written
	Text string // of a list: its items, joined with commas
	Line int
	kind tree.Kind // a Mapping is one without members
	item string    // what is wrong with an item of a list
}

// findFile gives the configuration file: the named one, else stagepost.yaml in the working directory or in the data
// directory. "" is none.
func (s *Set) findFile(env func(string) (string, bool)) string {
	named, _ := env(fileVariable)
	if named = cmp.Or(s.Named, named); named != "" {
		return named
	}
	for _, name := range []string{"stagepost.yaml", filepath.Join(s.dir(), "stagepost.yaml")} {
		if _, err := os.Stat(name); err == nil || !errors.Is(err, os.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return name
		}
	}
	return ""
}

// fileVariable names the configuration file in the environment.
const fileVariable = "STAGEPOST_CONFIG"

// readError adds to an error of the configuration file where its name comes from.
func (s *Set) readError(err error) error {
	var file *fs.PathError
	switch {
	case !errors.As(err, &file):
		return err
	case s.Named != "":
		return fmt.Errorf("--config: %w", err)
	case file.Path == "stagepost.yaml" || filepath.Dir(file.Path) == s.dir():
		if errors.Is(err, fs.ErrPermission) {
			return fmt.Errorf("the configuration file: %w (run the command as the user of the data directory, or name "+
				"another directory with --data DIR)", err)
		}
		return fmt.Errorf("the configuration file: %w", err)
	}
	return fmt.Errorf("%s: %w", fileVariable, err)
}

// ReadEntries reads a configuration file. {retain: {every: 1h}} and {retain.every: 1h} are the same.
func ReadEntries(name string) ([]entry, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	root, err := tree.Read(text, tree.Options{Empty: true, Quote: true})
	var entries []entry
	if err == nil {
		entries, err = entriesOf(root, "")
	}
	var e *tree.Error
	if errors.As(err, &e) {
		return nil, fmt.Errorf("%s:%d: %s", name, e.Line, e.Text)
	}
	seen := map[string]int{}
	for _, e := range entries {
		if line := seen[e.Name]; line > 0 {
			return nil, fmt.Errorf("%s:%d: %s stands there twice, first in line %d", name, e.Line, e.Name, line)
		}
		seen[e.Name] = e.Line
	}
	return entries, nil
}

// entriesOf gives the values of a part of the file; prefix begins their names. The error is a [*tree.Error].
func entriesOf(part *tree.Node, prefix string) ([]entry, error) {
	if part.Kind != tree.Mapping {
		return nil, &tree.Error{Position: part.Position, Text: "settings are names with values (slots: 32)"}
	}
	var all []entry
	for _, m := range part.Members {
		if m.Value.Kind == tree.Mapping && len(m.Value.Members) > 0 {
			below, err := entriesOf(m.Value, prefix+m.Name+".")
			if err != nil {
				return nil, err
			}
			all = append(all, below...)
			continue
		}
		e := entry{Name: prefix + m.Name, Text: m.Value.Text, Line: m.Line, kind: m.Value.Kind}
		if e.kind == tree.List {
			e.addItems(m.Value.Items)
		}
		all = append(all, e)
	}
	return all, nil
}

// addItems sets the text of a list.
func (e *entry) addItems(items []*tree.Node) {
	texts := make([]string, len(items))
	for i, item := range items {
		texts[i] = item.Text
		switch {
		case item.Kind != tree.Leaf:
			e.item = fmt.Sprintf("item %d of the list must be a plain value", i+1)
		case strings.Contains(item.Text, ","):
			e.item = fmt.Sprintf("item %d of the list, %q, must not have a comma: commas separate the items", i+1,
				item.Text)
		}
	}
	e.Text = strings.Join(texts, ",")
}

// checkEntry checks that an entry of the file is valid for the setting.
func (s Setting) checkEntry(e entry) error {
	return cmp.Or(s.checkShape(e), s.Check(e.Text))
}

// checkShape refuses a list or a mapping for a setting that has one value, and lists of anything but plain values.
func (s Setting) checkShape(e entry) error {
	switch {
	case e.kind == tree.Mapping && s.List:
		return fmt.Errorf("%s: it must be a list (%[1]s: [a, b]) or a text with commas (%[1]s: a,b), not a mapping",
			s.Name)
	case e.kind == tree.Mapping:
		return fmt.Errorf("%s: it must be one value, %s, not a mapping", s.Name, s.form())
	case e.kind == tree.List && !s.List:
		return fmt.Errorf("%s: it must be one value, %s, not a list", s.Name, s.form())
	case e.item != "":
		return fmt.Errorf("%s: %s", s.Name, e.item)
	}
	return nil
}

// form states what the value of the setting is.
func (s Setting) form() string {
	switch s.Value.Interface().(type) {
	case string:
		if n := len(s.Choices); n > 0 {
			return strings.Join(s.Choices[:n-1], ", ") + " or " + s.Choices[n-1]
		}
		return "a text"
	case bool:
		return "true or false"
	case time.Duration:
		return "a duration such as 90s or 2h"
	}
	if s.Unit == "bytes" {
		return "a size such as 512MiB"
	}
	return "a whole number"
}

// Unknown is the error for a setting that does not exist. It suggests the name that was probably meant.
func (s *Set) Unknown(file string, e entry) error {
	var names []string
	for _, one := range s.All() {
		names = append(names, one.Name)
		if strings.HasPrefix(e.Name, one.Name+".") { // {slots: {a: 3}}
			return fmt.Errorf("%s:%d: %w", file, e.Line, one.checkShape(entry{kind: tree.Mapping}))
		}
	}
	best := nearest.Word(e.Name, names)
	if i := slices.IndexFunc(names, func(n string) bool {
		return strings.HasSuffix(n, "."+e.Name) || strings.HasPrefix(n, e.Name+".")
	}); best == "" && i >= 0 {
		best = names[i]
	}
	hint := "stagepost admin config lists all"
	if best != "" {
		hint = "did you mean " + best + "?"
	}
	return fmt.Errorf("%s:%d: there is no setting %s (%s)", file, e.Line, e.Name, hint)
}

// CheckFile reads a configuration file and counts its settings. It changes no setting. The error names every mistake.
func (s *Set) CheckFile(name string) (int, error) {
	entries, err := ReadEntries(name)
	if err != nil {
		return 0, err
	}
	all := s.All()
	var mistakes []error
	for _, e := range entries {
		i := slices.IndexFunc(all, func(one Setting) bool { return one.Name == e.Name })
		if i < 0 {
			mistakes = append(mistakes, s.Unknown(name, e))
		} else if err := all[i].checkEntry(e); err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s:%d: %w", name, e.Line, err))
		}
	}
	return len(entries), errors.Join(mistakes...)
}
