package profile

import (
	"fmt"
	"sort"
	"strings"

	"github.com/stagepost/stagepost/format/tree"
)

// Mistake is one thing that is wrong with a profile file, and where.
type Mistake struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line"`             // from 1
	Column int    `json:"column"`           // from 1, in characters
	Key    string `json:"key,omitempty"`    // "webhooks.0.url"
	Text   string `json:"text"`             // what is wrong
	Source string `json:"source,omitempty"` // the line; what may be secret in it is ***
	Caret  int    `json:"caret,omitempty"`  // column in Source, from 1
}

// Position returns "file:line:column", or "line:column" without a file.
func (m *Mistake) Position() string {
	text := fmt.Sprintf("%d:%d", m.Line, m.Column)
	if m.File != "" {
		text = m.File + ":" + text
	}
	return text
}

// Error gives "file:line:column: key: text"; without a file it begins with the line.
func (m *Mistake) Error() string {
	text := m.Position() + ": "
	if m.Key != "" {
		text += m.Key + ": "
	}
	return text + m.Text
}

// Excerpt gives the line with a caret below the position, or nothing if there is no line to show.
func (m *Mistake) Excerpt() string {
	return tree.Excerpt(tree.Position{Line: m.Line, Column: m.Caret}, m.Source)
}

// Mistakes are all that is wrong, in the order of files and lines.
type Mistakes []*Mistake

// Error gives all in one line.
func (m Mistakes) Error() string { return m.joined("; ") }

// Lines gives one line for each.
func (m Mistakes) Lines() string { return m.joined("\n") }

func (m Mistakes) joined(by string) string {
	texts := make([]string, len(m))
	for i, one := range m {
		texts[i] = one.Error()
	}
	return strings.Join(texts, by)
}

// sorted brings mistakes into the order of files and positions, each once.
func (m Mistakes) sorted() Mistakes {
	sort.SliceStable(m, func(i, k int) bool {
		a, b := m[i], m[k]
		if a.File != b.File {
			return a.File < b.File
		}
		if a.Line != b.Line {
			return a.Line < b.Line
		}
		return a.Column < b.Column
	})
	var each Mistakes
	for i, one := range m {
		if i == 0 || one.Error() != m[i-1].Error() {
			each = append(each, one)
		}
	}
	return each
}

// sources shows lines of a file without what may be secret. root is nil for a text that could not be read.
type sources struct {
	lines []string
	hide  map[int]int // by line: the column from which on nothing is shown
	blind bool
}

func newSources(text []byte, root *tree.Node) *sources {
	s := &sources{lines: strings.Split(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n"), hide: map[int]int{},
		blind: root == nil}
	if root != nil {
		for key, part := range root.All() {
			if hidden(key, part) {
				if from, ok := s.hide[part.Line]; !ok || part.Column < from {
					s.hide[part.Line] = part.Column
				}
			}
		}
	}
	return s
}

// hidden reports whether a part must not be shown, with all that is in it.
func hidden(key string, part *tree.Node) bool {
	if part.Kind == tree.Leaf {
		return !public(key, part)
	}
	_, _, ok := lookup(key)
	return key != "" && !ok
}

// public reports whether the value of a key may be shown: it is one of the schema's, and no URL that may hold a
// secret.
func public(key string, part *tree.Node) bool {
	f, item, ok := lookup(key)
	if !ok || f.branch() || f.list != item {
		return false
	}
	text, _ := part.Value.(string)
	return !strings.Contains(text, "whsec_") && (f.format != "uri" || !strings.ContainsAny(text, "@?"))
}

// show sets the line and the caret of a mistake.
func (s *sources) show(m *Mistake) {
	if m.Line < 1 || m.Line > len(s.lines) {
		return
	}
	line := []rune(strings.Map(tabless, s.lines[m.Line-1]))
	m.Caret = min(m.Column, len(line)+1)
	from, ok := s.hide[m.Line]
	if s.blind {
		from, ok = blindly(line)
	}
	if i := strings.Index(string(line), "whsec_"); i >= 0 {
		if col := len([]rune(string(line)[:i])) + 1; !ok || col < from {
			from, ok = col, true
		}
	}
	if ok && from <= len(line) {
		line = append(line[:from-1:from-1], []rune("***")...)
		m.Caret = min(m.Caret, from)
	}
	m.Source = strings.TrimRight(string(line), " ")
}

// tabless makes one column of every character.
func tabless(r rune) rune {
	if r < ' ' || r == 0x7f {
		return ' '
	}
	return r
}

// blindly gives the column from which on a line of an unreadable file is not shown: behind the first key, unless that
// is one whose value is never secret and nothing else stands on the line.
func blindly(line []rune) (from int, hide bool) {
	text := string(line)
	body := strings.TrimLeft(text, " -")
	key, rest, ok := strings.Cut(body, ":")
	start := len(line) - len([]rune(body)) + 1
	if !ok {
		return start, body != "" && !strings.HasPrefix(body, "#")
	}
	if shown[strings.TrimSpace(key)] && !strings.ContainsAny(rest, ":{@?") {
		return 0, false
	}
	return start + len([]rune(key)) + 1, true
}

// shown are the keys whose values are never secret, wherever they stand.
var shown = func() map[string]bool {
	all := map[string]bool{}
	for _, f := range fieldsOf(profileType) {
		all[f.name] = !f.branch() && f.format != "uri"
	}
	return all
}()
