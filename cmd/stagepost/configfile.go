package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// entry is one value of the configuration file.
type entry struct {
	Name string // "retain.every", however it is written
	Text string
	Line int
}

// findFile gives the configuration file: the one that is named, else stagepost.yaml here or in the data directory; "" is none.
func (s *settings) findFile(env func(string) (string, bool)) string {
	named, _ := env("STAGEPOST_CONFIG")
	if named = cmp.Or(s.file, named); named != "" {
		return named
	}
	for _, name := range []string{"stagepost.yaml", filepath.Join(s.Data, "stagepost.yaml")} {
		if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
			return name
		}
	}
	return ""
}

// readEntries reads a configuration file. {retain: {every: 1h}} and {retain.every: 1h} are the same.
func readEntries(name string) (entries []entry, err error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	defer func() {
		if recover() != nil { // the parser is not proof against every text
			err = fmt.Errorf("%s: the file cannot be read as YAML", name)
		}
	}()
	file, err := parser.ParseBytes(text, 0)
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil {
		return nil, fmt.Errorf("%s:%d: %s", name, at.GetToken().Position.Line, at.GetMessage())
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(file.Docs) > 1 {
		return nil, fmt.Errorf("%s: it has more than one document", name)
	}
	seen := map[string]int{}
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if err := walkFile(doc.Body, "", func(e entry) error {
			if line := seen[e.Name]; line > 0 {
				return fmt.Errorf("%s:%d: %s stands there twice, first in line %d", name, e.Line, e.Name, line)
			}
			seen[e.Name] = e.Line
			entries = append(entries, e)
			return nil
		}); err != nil {
			return nil, inFile(name, err)
		}
	}
	return entries, nil
}

// misplaced is something in the file that no setting can be.
type misplaced struct {
	line int
	what string
}

func (m misplaced) Error() string { return m.what }

func inFile(name string, err error) error {
	var m misplaced
	if errors.As(err, &m) {
		return fmt.Errorf("%s:%d: %s", name, m.line, m.what)
	}
	return err
}

// walkFile calls found for each value below a node, whose name begins with prefix.
func walkFile(n ast.Node, prefix string, found func(entry) error) error {
	line := n.GetToken().Position.Line
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			if err := walkFile(v, prefix, found); err != nil {
				return err
			}
		}
		return nil
	case *ast.MappingValueNode:
		key := n.Key.GetToken()
		if n.Key.IsMergeKey() {
			return misplaced{key.Position.Line, "a merge key is not for this file"}
		}
		name := prefix + key.Value
		switch v := n.Value.(type) {
		case *ast.MappingNode, *ast.MappingValueNode:
			return walkFile(v, name+".", found)
		}
		text, err := scalar(n.Value)
		if err != nil {
			return err
		}
		return found(entry{name, text, key.Position.Line})
	case *ast.CommentGroupNode:
		return nil
	}
	return misplaced{line, "settings are names with values (slots: 32)"}
}

// scalar gives the text of a value; that of a list is its parts with commas between them.
func scalar(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.NullNode:
		return "", nil
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.SequenceNode:
		var parts []string
		for _, v := range n.Values {
			part, err := scalar(v)
			if err != nil {
				return "", err
			}
			parts = append(parts, part)
		}
		return strings.Join(parts, ","), nil
	}
	return "", misplaced{n.GetToken().Position.Line, "it takes a plain value"}
}

// unknown says that there is no setting of a name, and which may have been meant.
func (s *settings) unknown(file string, e entry) error {
	best, far := "", 1<<10
	for _, one := range s.all() {
		d := distance(e.Name, one.Name)
		if strings.HasSuffix(one.Name, "."+e.Name) || strings.HasPrefix(one.Name, e.Name+".") {
			d = min(d, 1)
		}
		if d < far {
			best, far = one.Name, d
		}
	}
	hint := "stagepost config lists all"
	if far <= max(2, len(e.Name)/3) {
		hint = "did you mean " + best + "?"
	}
	return fmt.Errorf("%s:%d: there is no setting %s (%s)", file, e.Line, e.Name, hint)
}

// distance is how many letters must be changed, added or taken away to make b of a (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for i := range row {
		row[i] = i
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before, row[j+1] = row[j+1], slices.Min([]int{cost, row[j+1] + 1, row[j] + 1})
		}
	}
	return row[len(b)]
}
