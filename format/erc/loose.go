package erc

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Loose reads records with tolerance. What the other readers refuse, it reads as far as possible or omits, and notes
// as a sentence about the file. Its methods return an error only if the input is unreadable. The zero Loose is ready;
// it is for one file.
type Loose struct {
	Notes []string
}

// maxNotes bounds the notes on one file.
const maxNotes = 5

func (l *Loose) note(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); len(l.Notes) < maxNotes && !slices.Contains(l.Notes, text) {
		l.Notes = append(l.Notes, text)
	}
}

// ERC reads an ERC, as Read does. Malformed lines are ignored, and the line "erc:" may be missing.
func (l *Loose) ERC(in io.Reader) (Record, error) {
	data, err := readAll(in)
	if errors.Is(err, ErrFormat) {
		l.note("it is not read: %s", err)
		return Record{}, nil
	}
	if err != nil {
		return Record{}, err
	}
	text, encoding := Text(data)
	if encoding != "" {
		l.note("it is %s, not UTF-8", encoding)
	}
	if strings.TrimSpace(text) == "" {
		l.note("it is empty")
		return Record{}, nil
	}
	elements, err := readElements(text, func(line int, problem string) error {
		l.note("line %d %s and is ignored", line, problem)
		return nil
	})
	if err != nil {
		l.note("it is not read: %s", err)
		return Record{}, nil
	}
	if len(elements) > 0 && strings.EqualFold(elements[0].Label, "erc") {
		return recordOf(elements), nil
	}
	l.note(`it does not begin with "erc:"`)
	return recordOf(append([]Element{{Label: "erc"}}, elements...)), nil
}

// DublinCore reads Dublin Core, as ReadDublinCore does. Elements without a namespace are accepted as well.
func (l *Loose) DublinCore(in io.Reader) (DublinCore, error) {
	var record DublinCore
	ok, err := l.xml(in, func() func([]xml.Name, []xml.Attr, string) {
		record = nil
		return takeDublinCore(&record, func(space string) bool {
			if space == "" || space == "dc" {
				l.note("its elements have no Dublin Core namespace")
				return true
			}
			return false
		})
	})
	if !ok {
		return nil, err
	}
	return record, nil
}

// DataCite reads DataCite, as ReadDataCite does. The root element may lack its namespace.
func (l *Loose) DataCite(in io.Reader) (DataCite, error) {
	var r *dataciteReader
	ok, err := l.xml(in, func() func([]xml.Name, []xml.Attr, string) {
		r = &dataciteReader{anySpace: true}
		return r.element
	})
	switch {
	case !ok:
		return DataCite{}, err
	case !r.isDataCite:
		l.note("it is not read: the root element is not a DataCite resource")
		return DataCite{}, nil
	case r.noSpace:
		l.note("it has no DataCite namespace")
	}
	return r.done(), nil
}

// xml parses a document in any encoding that Text detects. It calls begin before each attempt. A document type is
// ignored: no declaration of it is used, and nothing is fetched. ok is false if the document is unreadable.
func (l *Loose) xml(in io.Reader, begin func() func([]xml.Name, []xml.Attr, string)) (ok bool, err error) {
	data, err := readAll(in)
	if err != nil {
		if errors.Is(err, ErrFormat) {
			l.note("it is not read: %s", err)
			err = nil
		}
		return false, err
	}
	text, encoding := string(data), ""
	if wide, name := Text(data); strings.HasPrefix(name, "UTF-16") {
		text, encoding = wide, name
	}
	if strings.TrimSpace(text) == "" {
		l.note("it is empty")
		return false, nil
	}
	declared := ""
	w := &xmlWalk{doctype: func() { l.note("it has a document type, which is not read") }}
	w.charset = func(label string, in io.Reader) (io.Reader, error) {
		declared = label
		if encoding != "" {
			return in, nil // converted to UTF-8 already
		}
		switch strings.ToLower(label) {
		case "iso-8859-1", "latin1", "iso8859-1", "us-ascii", "ascii", "windows-1252", "cp1252":
			encoding = label
			rest, err := readAll(in)
			return strings.NewReader(latin1(rest)), err
		}
		return nil, fmt.Errorf("encoding %q", label)
	}
	w.found = begin()
	err = w.walk(text)
	if err != nil && declared == "" && !utf8.ValidString(text) {
		encoding = "ISO-8859-1"
		w.found = begin()
		err = w.walk(latin1(data))
	}
	if encoding != "" {
		l.note("it is %s, not UTF-8", encoding)
	}
	if err != nil {
		l.note("it is not read: %s", err)
	}
	return err == nil, nil
}

// Text returns a text as UTF-8 without byte order mark, and its original encoding, empty for UTF-8. A byte order mark
// identifies UTF-16; anything else that is not UTF-8 is read as ISO-8859-1 with the printable characters of
// Windows-1252.
func Text(data []byte) (text, encoding string) {
	switch {
	case len(data) >= 2 && data[0] == 0xff && data[1] == 0xfe:
		return wide(data[2:], 1, 0), "UTF-16LE"
	case len(data) >= 2 && data[0] == 0xfe && data[1] == 0xff:
		return wide(data[2:], 0, 1), "UTF-16BE"
	case utf8.Valid(data):
		return strings.TrimPrefix(string(data), "\ufeff"), ""
	}
	return latin1(data), "ISO-8859-1"
}

func wide(data []byte, high, low int) string {
	units := make([]uint16, len(data)/2)
	for i := range units {
		units[i] = uint16(data[2*i+high])<<8 | uint16(data[2*i+low])
	}
	return string(utf16.Decode(units))
}

// windows1252 has the characters for 0x80 to 0x9f; 0 for an unassigned code.
var windows1252 = [32]rune{
	'€', 0, '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', 0, 'Ž', 0,
	0, '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', 0, 'ž', 'Ÿ',
}

func latin1(data []byte) string {
	var b strings.Builder
	for _, c := range data {
		r := rune(c)
		if c >= 0x80 && c < 0xa0 && windows1252[c-0x80] != 0 {
			r = windows1252[c-0x80]
		}
		b.WriteRune(r)
	}
	return b.String()
}
