package yamlfile

import (
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/format/schema"
	"github.com/stagepost/stagepost/format/tree"
)

// maxFile is the most bytes of a file.
const maxFile = 1 << 20

// Mistake is one thing that is wrong in a file.
type Mistake struct {
	File   string // may be empty
	Line   int    // from 1
	Column int    // from 1, in characters
	Key    string // such as sources.campus.url; may be empty
	Text   string
	Lines  string // the line of the file with a caret below the position; what may be secret is ***
}

// Error gives FILE:LINE:COLUMN: KEY: TEXT.
func (m *Mistake) Error() string {
	text := fmt.Sprintf("%d:%d: ", m.Line, m.Column)
	if m.File != "" {
		text = m.File + ":" + text
	}
	if m.Key != "" {
		text += m.Key + ": "
	}
	return text + m.Text
}

// Excerpt gives the line of the file with a caret below the position.
func (m *Mistake) Excerpt() string { return m.Lines }

// Mistakes are all that is wrong in a file, in its order.
type Mistakes []*Mistake

// Error gives all, a line each.
func (m Mistakes) Error() string {
	texts := make([]string, len(m))
	for i, one := range m {
		texts[i] = one.Error()
	}
	return strings.Join(texts, "\n")
}

// Unwrap gives each mistake.
func (m Mistakes) Unwrap() (all []error) {
	for _, one := range m {
		all = append(all, one)
	}
	return all
}

// Source is a file that was read. It gives positions to mistakes that a schema does not find.
type Source struct {
	name  string
	root  *tree.Node
	lines []string
	hide  map[int]int // by line: the column from which on nothing is shown
	wrong Mistakes
}

// Load reads a file (see [Form.Read]). A missing file wraps [fs.ErrNotExist].
func (f *Form) Load(name string, into any) (*Source, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("%s is longer than %d bytes", name, maxFile)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return f.Read(name, text, into)
}

// Read reads the text of a file into a pointer to the struct of the form. The error is [Mistakes]: all of them, but of
// a text that is not YAML the first one. name is for messages.
func (f *Form) Read(name string, text []byte, into any) (*Source, error) {
	s := &Source{name: name, hide: map[int]int{}}
	s.lines = strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n")
	root, err := tree.Read(text, tree.Options{Aliases: true, Merges: true, Empty: true})
	var broken *tree.Error
	if errors.As(err, &broken) {
		return s, Mistakes{{File: name, Line: broken.Line, Column: broken.Column, Text: broken.Text}}
	}
	s.root = root
	s.redact(root, f.t)
	typed := s.typed(root, f.t, nil)
	for _, fault := range f.compiled().Check(typed) {
		s.at(fault.Position, fault.Key(), fault.Text)
	}
	if err := s.Err(); err != nil {
		return s, err
	}
	plain, err := json.Marshal(typed.Plain())
	if err == nil {
		err = json.Unmarshal(plain, into)
	}
	var number *json.UnmarshalTypeError
	if errors.As(err, &number) {
		s.Wrong(number.Field, "it is no number that this can be")
	} else if err != nil {
		s.Wrong("", "%v", err)
	}
	return s, s.Err()
}

// Wrong notes a mistake in the value of a key such as sources.campus.url, or in the nearest one above it that there is.
func (s *Source) Wrong(key, format string, args ...any) {
	var path []string
	if key != "" {
		path = strings.Split(key, ".")
	}
	s.at(schema.Locate(s.root, path), key, strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; "))
}

func (s *Source) at(p tree.Position, key, text string) {
	s.wrong = append(s.wrong, &Mistake{
		File: s.name, Line: p.Line, Column: p.Column, Key: key, Text: text, Lines: s.excerpt(p),
	})
}

// Err gives the mistakes that were noted, as [Mistakes]; nil: none.
func (s *Source) Err() error {
	if len(s.wrong) == 0 {
		return nil
	}
	slices.SortStableFunc(s.wrong, func(a, b *Mistake) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column, strings.Compare(a.Key, b.Key))
	})
	return s.wrong
}

// typed gives a part as JSON has it for a type: numbers are texts where these are required, and keys without a value
// are left out, or stand for a mapping without keys. Texts that their type cannot read are noted.
func (s *Source) typed(n *tree.Node, t reflect.Type, path []string) *tree.Node {
	here := *n
	switch {
	case n.Kind == tree.Mapping && !isUnit(t):
		here.Members = nil
		for _, one := range n.Members {
			of, _ := below(t, one.Name)
			if of == nil {
				here.Members = append(here.Members, one)
				continue
			}
			value := *one.Value
			if value.Kind == tree.Leaf && value.Value == nil {
				if t.Kind() != reflect.Map || of.Kind() != reflect.Struct {
					continue
				}
				value.Kind = tree.Mapping
			}
			one.Value = s.typed(&value, of, append(slices.Clone(path), one.Name))
			here.Members = append(here.Members, one)
		}
	case n.Kind == tree.List && t.Kind() == reflect.Slice:
		here.Items = nil
		for i, one := range n.Items {
			here.Items = append(here.Items, s.typed(one, t.Elem(), append(slices.Clone(path), fmt.Sprint(i))))
		}
	case n.Kind == tree.Leaf && n.Value != nil && (isUnit(t) || t.Kind() == reflect.String):
		here.Value = n.Text
	}
	if isUnit(t) && n.Kind == tree.Leaf {
		unit := reflect.New(t).Interface().(encoding.TextUnmarshaler)
		if err := unit.UnmarshalText([]byte(n.Text)); err != nil {
			s.at(n.Position, strings.Join(path, "."), fmt.Sprintf("%.60q: %v", n.Text, err))
		}
	}
	return &here
}

// redact finds what may be secret: the values of keys that are not known, and URLs with a password or a query.
func (s *Source) redact(n *tree.Node, t reflect.Type) {
	text, _ := n.Value.(string)
	if t == nil || strings.ContainsAny(text, "@?") {
		if from, ok := s.hide[n.Line]; !ok || n.Column < from {
			s.hide[n.Line] = n.Column
		}
	}
	for _, m := range n.Members {
		var of reflect.Type
		if t != nil {
			of, _ = below(t, m.Name)
		}
		s.redact(m.Value, of)
	}
	for _, item := range n.Items {
		var of reflect.Type
		if t != nil && t.Kind() == reflect.Slice {
			of = t.Elem()
		}
		s.redact(item, of)
	}
}

// excerpt shows a line with a caret.
func (s *Source) excerpt(at tree.Position) string {
	if at.Line < 1 || at.Line > len(s.lines) {
		return ""
	}
	line := []rune(s.lines[at.Line-1])
	if from, ok := s.hide[at.Line]; ok && from <= len(line) {
		line = append(line[:from-1:from-1], []rune("***")...)
		at.Column = min(at.Column, from)
	}
	return tree.Excerpt(at, strings.TrimRight(string(line), " "))
}
