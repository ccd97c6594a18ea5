package page

import (
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Form is a form of a page, with what a browser would send of it. Buttons are kept apart: a browser sends only one.
type Form struct {
	Action  string
	Fields  url.Values
	Boxes   map[string]string // values of check boxes that a person can change
	Buttons map[string]string
}

// FormWith finds the form that has a field of a name.
func FormWith(doc *html.Node, name string) *Form {
	for n := range doc.Descendants() {
		if n.DataAtom != atom.Form {
			continue
		}
		if Find(n, func(f *html.Node) bool { return Attr(f, "name") == name }) != nil {
			return readForm(n)
		}
	}
	return nil
}

func readForm(form *html.Node) *Form {
	f := &Form{
		Action: Attr(form, "action"), Fields: url.Values{}, Boxes: map[string]string{}, Buttons: map[string]string{},
	}
	for n := range form.Descendants() {
		name := Attr(n, "name")
		if name == "" || hasAttr(n, "disabled") {
			continue
		}
		switch n.DataAtom {
		case atom.Input:
			f.input(n, name)
		case atom.Textarea:
			f.Fields.Set(name, Text(n))
		case atom.Select:
			chosen := Find(n, func(o *html.Node) bool { return o.DataAtom == atom.Option && hasAttr(o, "selected") })
			if chosen == nil {
				chosen = Find(n, func(o *html.Node) bool { return o.DataAtom == atom.Option })
			}
			if chosen != nil {
				f.Fields.Set(name, Attr(chosen, "value"))
			}
		}
	}
	return f
}

func (f *Form) input(n *html.Node, name string) {
	value := Attr(n, "value")
	switch strings.ToLower(Attr(n, "type")) {
	case "submit", "button", "image", "reset":
		f.Buttons[name] = value
	case "checkbox":
		if !hasAttr(n, "value") {
			value = "on"
		}
		f.Boxes[name] = value
		if hasAttr(n, "checked") {
			f.Fields.Set(name, value) // replaces that of the hidden field before it
		}
	case "radio":
		if hasAttr(n, "checked") {
			f.Fields.Set(name, value)
		}
	case "file":
	default:
		f.Fields.Set(name, value)
	}
}

// Find gives the first element below root for which is reports true, or nil.
func Find(root *html.Node, is func(*html.Node) bool) *html.Node {
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && is(n) {
			return n
		}
	}
	return nil
}

// Attr gives the value of an attribute, which is empty if there is none.
func Attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key && a.Namespace == "" {
			return a.Val
		}
	}
	return ""
}

// hasAttr reports whether an element has an attribute.
func hasAttr(n *html.Node, key string) bool {
	return slices.ContainsFunc(n.Attr, func(a html.Attribute) bool { return a.Key == key })
}

// HasClass reports whether an element has a class.
func HasClass(n *html.Node, class string) bool {
	return slices.Contains(strings.Fields(Attr(n, "class")), class)
}

// Text gives the text below a node, with single blanks.
func Text(root *html.Node) string {
	var out strings.Builder
	for n := range root.Descendants() {
		if n.Type == html.TextNode {
			out.WriteString(n.Data)
		}
	}
	return strings.Join(strings.Fields(out.String()), " ")
}
