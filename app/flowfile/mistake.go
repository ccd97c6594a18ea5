package flowfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/format/tree"
)

// Mistake is one thing that is wrong with a file, and where.
type Mistake struct {
	Line   int    `json:"line"`             // from 1
	Column int    `json:"column"`           // from 1, in characters
	Text   string `json:"text"`             // what is wrong, and what would be right
	Source string `json:"source,omitempty"` // the line
}

func wrongAt(at place, format string, args ...any) *Mistake {
	return &Mistake{Line: at.Line, Column: at.Column, Text: fmt.Sprintf(format, args...)}
}

// Error gives "line:column: text".
func (m *Mistake) Error() string { return fmt.Sprintf("%d:%d: %s", m.Line, m.Column, m.Text) }

// Excerpt gives the line with a caret below the position.
func (m *Mistake) Excerpt() string {
	return tree.Excerpt(tree.Position{Line: m.Line, Column: m.Column}, m.Source)
}

// Mistakes are all that is wrong with a file, in the order of their positions; at most [MostMistakes].
type Mistakes []*Mistake

// MostMistakes is how many are notified of one file.
const MostMistakes = 50

// Error gives all in one line.
func (m Mistakes) Error() string {
	texts := make([]string, len(m))
	for i, one := range m {
		texts[i] = one.Error()
	}
	return strings.Join(texts, "; ")
}

// Excerpts gives all with their lines, for people.
func (m Mistakes) Excerpts() string {
	var text strings.Builder
	for _, one := range m {
		text.WriteString(one.Error() + "\n" + one.Excerpt() + "\n")
	}
	return text.String()
}

// source gives a line of the text, with one column for every character.
func source(lines []string, line int) string {
	if line < 1 || line > len(lines) {
		return ""
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, lines[line-1])
}

// linesOf splits a text.
func linesOf(text []byte) []string {
	return strings.Split(strings.ReplaceAll(strings.ToValidUTF8(string(text), "\uFFFD"), "\r\n", "\n"), "\n")
}

// finish orders mistakes, drops what is there twice, and adds the lines.
func (m Mistakes) finish(lines []string) Mistakes {
	slices.SortStableFunc(m, func(a, b *Mistake) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	m = slices.CompactFunc(m, func(a, b *Mistake) bool { return *a == *b })
	m = m[:min(len(m), MostMistakes)]
	for _, one := range m {
		one.Source = source(lines, one.Line)
	}
	return m
}
