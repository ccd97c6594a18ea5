// Package erc reads and writes the small descriptions that come with deposits: ERC records (electronic resource
// citation, in ANVL: draft-kunze-erc, draft-kunze-anvl), simple Dublin Core in XML (oai_dc), and the parts of
// DataCite that state who, what and when. Input is untrusted: sizes are bounded, document types and entities are
// refused.
package erc

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// maxInput bounds a record of any of the formats, in bytes.
	maxInput = 4 << 20
	// maxElements bounds the elements of a record.
	maxElements = 10_000
)

var (
	// ErrFormat: the input does not have the format, or is too large.
	ErrFormat = errors.New("invalid metadata")
	// ErrText: a value cannot be written in the format.
	ErrText = errors.New("text cannot be written")
)

// Record is an ERC: who made it, its title, when it was made, and where it is. Further elements keep their order.
type Record struct {
	Who, What, When, Where string
	More                   []Element
}

// Element is one label with its value; labels may repeat. Labels of a record that was read have no blanks at either
// end.
type Element struct{ Label, Value string }

// Unknown is the coded value of an ERC for an unknown value (the coded values of section 4 all begin with "(:").
const Unknown = "(:unkn)"

// IsCoded reports whether a value is a code for a missing value, such as (:unkn), (:none) or (:unav).
func IsCoded(value string) bool { return strings.HasPrefix(value, "(:") }

// Get returns the first value of a label, which is not case-sensitive; "" if there is none.
func (r Record) Get(label string) string {
	switch strings.ToLower(label) {
	case "who":
		return r.Who
	case "what":
		return r.What
	case "when":
		return r.When
	case "where":
		return r.Where
	}
	for _, e := range r.More {
		if strings.EqualFold(e.Label, label) {
			return e.Value
		}
	}
	return ""
}

// set keeps the first value of each of the four; another value of the same label goes to More.
func (r *Record) set(e Element) {
	for label, field := range map[string]*string{"who": &r.Who, "what": &r.What, "when": &r.When, "where": &r.Where} {
		if strings.EqualFold(e.Label, label) && *field == "" {
			*field = e.Value
			return
		}
	}
	r.More = append(r.More, e)
}

// Read reads one ERC: a line "erc:" and lines "label: value" until an empty line or the end. A line that begins with
// a blank continues the value before it; a line that begins with # is a comment. The short form "erc: who | what |
// when | where" is read as well. Values are percent-decoded.
func Read(in io.Reader) (Record, error) {
	data, err := readAll(in)
	if err != nil {
		return Record{}, err
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	if !utf8.ValidString(text) {
		return Record{}, fmt.Errorf("%w: not UTF-8", ErrFormat)
	}
	elements, err := readElements(text, func(line int, problem string) error {
		return fmt.Errorf("%w: line %d %s", ErrFormat, line, problem)
	})
	if err != nil {
		return Record{}, err
	}
	if len(elements) == 0 || !strings.EqualFold(elements[0].Label, "erc") {
		return Record{}, fmt.Errorf("%w: an ERC begins with \"erc:\"", ErrFormat)
	}
	return recordOf(elements), nil
}

// recordOf returns the record of the elements of an ERC, whose first is "erc".
func recordOf(elements []Element) Record {
	var r Record
	if short := elements[0].Value; short != "" {
		for i, value := range strings.SplitN(short, "|", 4) {
			r.set(Element{[]string{"who", "what", "when", "where"}[i], decode(strings.TrimSpace(value))})
		}
	}
	for _, e := range elements[1:] {
		r.set(Element{e.Label, decode(e.Value)})
	}
	return r
}

func readAll(in io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	switch {
	case err != nil:
		return nil, err
	case len(data) > maxInput:
		return nil, fmt.Errorf("%w: more than %d bytes", ErrFormat, maxInput)
	}
	return data, nil
}

// readElements returns the lines of the first record, unfolded. It calls odd for a malformed line, and ignores that
// line if odd returns nil.
func readElements(text string, odd func(line int, problem string) error) ([]Element, error) {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	var elements []Element
	var values [][]string // lines of each value
	number := 0
	for line := range strings.SplitSeq(text, "\n") {
		number++
		switch {
		case strings.TrimSpace(line) == "":
			if len(elements) > 0 {
				return joined(elements, values), nil
			}
		case line[0] == '#':
		case line[0] == ' ' || line[0] == '\t':
			if len(elements) == 0 {
				if err := odd(number, "continues no line"); err != nil {
					return nil, err
				}
				continue
			}
			values[len(values)-1] = append(values[len(values)-1], strings.TrimSpace(line))
		default:
			label, value, found := strings.Cut(line, ":")
			if label = strings.TrimSpace(label); !found || label == "" {
				if err := odd(number, `is not "label: value"`); err != nil {
					return nil, err
				}
				continue
			}
			if len(elements) == maxElements {
				return nil, fmt.Errorf("%w: more than %d elements", ErrFormat, maxElements)
			}
			elements = append(elements, Element{Label: decode(label)})
			values = append(values, []string{strings.TrimSpace(value)})
		}
	}
	return joined(elements, values), nil
}

// joined joins the lines of each value with one blank, as ANVL requires.
func joined(elements []Element, values [][]string) []Element {
	for i, lines := range values {
		elements[i].Value = strings.TrimSpace(strings.Join(lines, " "))
	}
	return elements
}

// Write writes the record. An empty value of the four is written as (:unkn), since an ERC must have them. Characters
// that would be lost or misread are percent-encoded: line ends, other control characters, %, blanks at the ends or
// doubled, and |.
func Write(out io.Writer, r Record) error {
	var b strings.Builder
	b.WriteString("erc:\n")
	kernel := []Element{{"who", r.Who}, {"what", r.What}, {"when", r.When}, {"where", r.Where}}
	for i := range kernel {
		if kernel[i].Value == "" {
			kernel[i].Value = Unknown
		}
	}
	for _, e := range append(kernel, r.More...) {
		if strings.TrimSpace(e.Label) != e.Label || e.Label == "" || !utf8.ValidString(e.Label) {
			return fmt.Errorf("%w: label %q", ErrText, e.Label)
		}
		if !utf8.ValidString(e.Value) {
			return fmt.Errorf("%w: value of %q is not UTF-8", ErrText, e.Label)
		}
		fold(&b, encodeLabel(e.Label)+":", encode(e.Value))
	}
	if b.Len() > maxInput {
		return fmt.Errorf("%w: more than %d bytes", ErrText, maxInput)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

const foldAt = 72

// fold writes a value in lines of about foldAt bytes, broken at single blanks; the continuation is indented by a tab.
func fold(b *strings.Builder, label, value string) {
	b.WriteString(label)
	column := len(label)
	for word := range strings.SplitSeq(value, " ") {
		switch {
		case word == "" && column == len(label):
		case column > len(label) && column+1+len(word) > foldAt:
			b.WriteString("\n\t" + word)
			column = len(label) + 1 + len(word)
		default:
			b.WriteString(" " + word)
			column += 1 + len(word)
		}
	}
	b.WriteString("\n")
}

// encode leaves single blanks between words, the only positions where a value can be folded.
func encode(value string) string {
	var b strings.Builder
	last := len(value)
	for i, c := range value {
		size := utf8.RuneLen(c)
		blank := c == ' ' && (i == 0 || i+size == last || value[i-1] == ' ')
		if blank || c == '%' || c == '|' || unicode.IsControl(c) || (c != ' ' && unicode.IsSpace(c)) {
			for _, octet := range []byte(string(c)) {
				fmt.Fprintf(&b, "%%%02X", octet)
			}
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

func encodeLabel(label string) string {
	label = strings.ReplaceAll(encode(label), ":", "%3A")
	if label[0] == '#' {
		return "%23" + label[1:]
	}
	return label
}

// decode undoes percent-encoding. It keeps a percent sign without two hex digits, and one that would make the text
// invalid UTF-8: people type records.
func decode(value string) string {
	if !strings.Contains(value, "%") {
		return value
	}
	out := make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		if value[i] == '%' && i+2 < len(value) {
			high, low := unhex(value[i+1]), unhex(value[i+2])
			if high >= 0 && low >= 0 {
				out = append(out, byte(high<<4|low))
				i += 2
				continue
			}
		}
		out = append(out, value[i])
	}
	if !utf8.Valid(out) {
		return value
	}
	return string(out)
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
