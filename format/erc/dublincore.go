package erc

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// Namespaces of simple Dublin Core as OAI-PMH carries it.
const (
	oaiNamespace = "http://www.openarchives.org/OAI/2.0/oai_dc/"
	dcNamespace  = "http://purl.org/dc/elements/1.1/"
)

// Elements15 are the elements of simple Dublin Core (DCMES 1.1), in the order in which they are written.
var Elements15 = []string{
	"title", "creator", "subject", "description", "publisher", "contributor", "date", "type",
	"format", "identifier", "source", "language", "relation", "coverage", "rights",
}

// DublinCore is a simple Dublin Core record: elements of Elements15, each any number of times. Reading keeps their
// order.
type DublinCore []Element

// All returns the values of an element.
func (d DublinCore) All(element string) []string {
	var values []string
	for _, e := range d {
		if e.Label == element {
			values = append(values, e.Value)
		}
	}
	return values
}

// ERC returns who, what, when and where of the record: creators (else contributors, else publishers), title, date and
// identifier.
func (d DublinCore) ERC() Record {
	who := d.All("creator")
	for _, other := range []string{"contributor", "publisher"} {
		if len(who) == 0 {
			who = d.All(other)
		}
	}
	first := func(element string) string {
		if all := d.All(element); len(all) > 0 {
			return all[0]
		}
		return ""
	}
	return Record{Who: strings.Join(who, "; "), What: first("title"), When: first("date"), Where: first("identifier")}
}

// ReadDublinCore reads the Dublin Core elements of an XML document of one record, at any depth and below any root
// element: depositors write oai_dc:dc, metadata, qualifieddc and more. Other elements and blank values are ignored.
func ReadDublinCore(in io.Reader) (DublinCore, error) {
	var record DublinCore
	err := eachText(in, takeDublinCore(&record, func(string) bool { return false }))
	if err != nil {
		return nil, err
	}
	return record, nil
}

// takeDublinCore returns the function that adds elements to a record. other reports whether elements of another
// namespace are accepted.
func takeDublinCore(into *DublinCore, other func(space string) bool) func([]xml.Name, []xml.Attr, string) {
	return func(path []xml.Name, _ []xml.Attr, value string) {
		name := path[len(path)-1]
		if value == "" || !slices.Contains(Elements15, name.Local) {
			return
		}
		if name.Space == dcNamespace || other(name.Space) {
			*into = append(*into, Element{name.Local, value})
		}
	}
}

// WriteDublinCore writes an oai_dc document, elements in their order. ErrText: an element is not one of Elements15,
// or a value is blank or has characters that XML 1.0 cannot carry.
func WriteDublinCore(out io.Writer, record DublinCore) error {
	var b strings.Builder
	b.WriteString(xml.Header)
	b.WriteString(`<oai_dc:dc xmlns:oai_dc="` + oaiNamespace + `" xmlns:dc="` + dcNamespace + `">` + "\n")
	for _, e := range record {
		if !slices.Contains(Elements15, e.Label) {
			return fmt.Errorf("%w: %q is not an element of simple Dublin Core", ErrText, e.Label)
		}
		if !xmlText(e.Value) || strings.TrimSpace(e.Value) == "" {
			return fmt.Errorf("%w: value of %s", ErrText, e.Label)
		}
		b.WriteString("  <dc:" + e.Label + ">")
		if err := xml.EscapeText(&b, []byte(e.Value)); err != nil {
			return err
		}
		b.WriteString("</dc:" + e.Label + ">\n")
	}
	b.WriteString("</oai_dc:dc>\n")
	if b.Len() > maxInput || len(record) >= maxElements {
		return fmt.Errorf("%w: more than %d bytes or %d elements", ErrText, maxInput, maxElements-1)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// xmlText reports whether s has only characters of XML 1.0 section 2.2.
func xmlText(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool {
		return c < 0x20 && c != '\t' && c != '\n' && c != '\r' || c == 0xFFFE || c == 0xFFFF
	})
}

const maxXMLDepth = 64

// eachText calls found for every element with its path, attributes and own text, trimmed, at the element's end. It
// refuses document types (and with them entities), other encodings than UTF-8, deep nesting and several roots.
func eachText(in io.Reader, found func(path []xml.Name, attrs []xml.Attr, text string)) error {
	data, err := readAll(in)
	if err != nil {
		return err
	}
	w := &xmlWalk{found: found}
	return w.walk(string(data))
}

// walk parses a document.
func (w *xmlWalk) walk(text string) error {
	w.path, w.attrs, w.texts, w.roots, w.elements = nil, nil, nil, 0, 0
	dec := xml.NewDecoder(strings.NewReader(text))
	dec.CharsetReader = w.charset
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		if err := w.token(token); err != nil {
			return err
		}
	}
	if w.roots != 1 {
		return fmt.Errorf("%w: %d root elements, not one", ErrFormat, w.roots)
	}
	return nil
}

type xmlWalk struct {
	found   func(path []xml.Name, attrs []xml.Attr, text string)
	charset func(label string, in io.Reader) (io.Reader, error) // for other encodings than UTF-8; nil refuses them
	// called for a document type, which is ignored; nil refuses it
	doctype  func()
	path     []xml.Name
	attrs    [][]xml.Attr
	texts    [][]byte
	roots    int
	elements int
}

func (w *xmlWalk) token(token xml.Token) error {
	switch t := token.(type) {
	case xml.Directive:
		if w.doctype != nil {
			w.doctype()
			return nil
		}
		return fmt.Errorf("%w: document types and entities are refused", ErrFormat)
	case xml.StartElement:
		if len(w.path) == 0 {
			w.roots++
		}
		if w.elements++; len(w.path) == maxXMLDepth || w.elements > maxElements {
			return fmt.Errorf("%w: more than %d elements, or nested deeper than %d", ErrFormat, maxElements,
				maxXMLDepth)
		}
		w.path = append(w.path, t.Name)
		w.attrs = append(w.attrs, slices.Clone(t.Attr))
		w.texts = append(w.texts, nil)
	case xml.CharData:
		if n := len(w.texts); n > 0 {
			w.texts[n-1] = append(w.texts[n-1], t...)
		} else if strings.TrimSpace(string(t)) != "" && string(t) != "\ufeff" {
			return fmt.Errorf("%w: text outside the root element", ErrFormat)
		}
	case xml.EndElement:
		n := len(w.path) - 1
		w.found(w.path, w.attrs[n], strings.TrimSpace(string(w.texts[n])))
		w.path, w.attrs, w.texts = w.path[:n], w.attrs[:n], w.texts[:n]
	}
	return nil
}
