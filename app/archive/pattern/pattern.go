// Package pattern makes names of files and folders from patterns with variables:
//
//	archive-${courseshortname}-${cmid}_${date}  ->  archive-BIO101-12_2026-05-04
//
// Values are inserted literally: a value that contains ${courseid} or $1 stays as it is, without the characters that a
// name cannot have. Names are cut between characters. Equal names are kept apart by source.Names.
package pattern

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/stagepost/stagepost/internal/nearest"
)

// Kind is what a pattern names.
type Kind int

// The kinds.
const (
	File   Kind = iota // a name without extension
	Folder             // one or more names with slashes between them
)

// Limits of a name. Every file system and storage location accepts 170 bytes with the extensions that are added.
const (
	maxValue = 128 // characters of a variable's value
	maxName  = 240 // characters of a name
	maxBytes = 170 // bytes of a name in UTF-8
)

// Unnamed is the name if nothing remains of the others.
const Unnamed = "unnamed"

// forbidden are characters that no pattern contains, and that are removed from values.
const forbidden = "\\.:;*?!\"<>|\x00"

// ErrInvalid is the error for an invalid pattern.
var ErrInvalid = errors.New("invalid pattern")

// Pattern is a parsed pattern. The zero Pattern is not valid.
type Pattern struct {
	kind  Kind
	parts []part
}

// part is a literal text or a variable.
type part struct{ text, variable string }

// Parse parses a pattern. It may use the variables given. The error is of kind [ErrInvalid] and names what to change.
func Parse(kind Kind, text string, variables []string) (Pattern, error) {
	p := Pattern{kind: kind}
	fail := func(format string, args ...any) (Pattern, error) {
		return Pattern{}, fmt.Errorf("%w %.200q: %s", ErrInvalid, text, fmt.Sprintf(format, args...))
	}
	if text == "" {
		return fail("it is empty")
	}
	for rest := text; rest != ""; {
		literal, behind, found := strings.Cut(rest, "$")
		if bad := unusable(kind, literal); bad != "" {
			return fail("%q is not allowed", bad)
		}
		if literal != "" {
			p.parts = append(p.parts, part{text: literal})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(behind, "}")
		name, opened := strings.CutPrefix(name, "{")
		if name = strings.Trim(name, " "); !opened || !closed {
			return fail("a $ begins a variable such as ${%s}", variables[0])
		}
		if !slices.Contains(variables, name) {
			if other := nearest.Word(name, variables); other != "" {
				return fail("there is no variable %q; similar: ${%s}", name, other)
			}
			return fail("there is no variable %q; there are %s", name, strings.Join(variables, ", "))
		}
		p.parts = append(p.parts, part{variable: name})
		rest = after
	}
	return p, nil
}

// unusable returns the first character of a literal text that a pattern cannot contain.
func unusable(kind Kind, text string) string {
	for _, r := range text {
		if r == utf8.RuneError || !allowed(r) || kind == File && r == '/' {
			return string(r)
		}
	}
	return ""
}

// allowed reports whether a name may contain a character. A slash separates folders.
func allowed(r rune) bool {
	return !strings.ContainsRune(forbidden, r) && unicode.IsPrint(r) && r != '%' && r != '~'
}

// Uses reports whether the pattern has a variable.
func (p Pattern) Uses(variable string) bool {
	return slices.ContainsFunc(p.parts, func(one part) bool { return one.variable == variable })
}

// Name inserts values. A variable without a value is empty. The result is a valid name, or valid names with slashes
// between them for a folder, whatever the values are.
func (p Pattern) Name(values map[string]string) string {
	var b strings.Builder
	for _, part := range p.parts {
		if part.variable == "" {
			b.WriteString(part.text)
		} else {
			b.WriteString(cutRunes(clean(values[part.variable]), maxValue))
		}
	}
	if p.kind == File {
		return finish(b.String())
	}
	var names []string
	for name := range strings.SplitSeq(b.String(), "/") {
		if name = finish(name); name != Unnamed {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return Unnamed
	}
	return strings.Join(names, "/")
}

// clean removes what a value cannot contribute to a name.
func clean(value string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '/' || r == utf8.RuneError:
			return -1
		case unicode.IsSpace(r):
			return ' '
		case !allowed(r):
			return -1
		}
		return r
	}, norm.NFC.String(value))
}

// finish trims a name and cuts it.
func finish(name string) string {
	name = cut(strings.TrimSpace(norm.NFC.String(name)))
	if name == "" {
		return Unnamed
	}
	return name
}

// cut cuts a name to its limits, between characters.
func cut(name string) string {
	name = cutRunes(name, maxName)
	for len(name) > maxBytes {
		_, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
	}
	return strings.TrimRightFunc(name, unicode.IsSpace)
}

// cutRunes returns the first n characters.
func cutRunes(text string, n int) string {
	for i := range text {
		if n--; n < 0 {
			return text[:i]
		}
	}
	return text
}
