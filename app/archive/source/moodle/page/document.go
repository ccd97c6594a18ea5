// Package page has the HTML of a Moodle: documents that need nothing but themselves, and the forms of its pages.
package page

import (
	"bytes"
	"context"
	"html/template"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// Document is a page that needs nothing but itself: no script, no request to the Moodle.
type Document struct {
	Title string
	Facts [][2]string // shown as a table; rows without a value are left out
	Parts []string    // HTML as the Moodle gave it
	Files []string    // relative paths
}

var layout = template.Must(template.New("layout").Parse(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{{.Title}}</title>
<style>
body { font: 1rem/1.5 sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #111; background: #fff }
table { border-collapse: collapse; margin: 1rem 0 } th, td { border: 1px solid #888;
padding: .25rem .5rem; text-align: left }
article { border: 1px solid #888; padding: 0 1rem; margin: 1rem 0; overflow-wrap: anywhere } img { max-width: 100% }
.accesshide, .sr-only { font-weight: bold; font-size: 1rem }
.info { background: #eee; padding: .25rem .5rem; margin: 1rem 0 } .info > *
{ display: inline-block; margin: 0 1rem 0 0 }
.outcome { background: #f4f4e8; padding: .25rem .5rem; margin: 1rem 0 } fieldset { border: 0; padding: 0 }
</style>
</head>
<body>
<h1>{{.Title}}</h1>
{{with .Facts}}<table>
{{range .}}{{if index . 1}}<tr><th scope="row">{{index . 0}}</th><td>{{index . 1}}</td></tr>
{{end}}{{end}}</table>
{{end}}{{range .Parts}}<article>
{{.}}
</article>
{{end}}{{with .Files}}<h2>Files</h2>
<ul>
{{range .}}<li><a href="{{.}}">{{.}}</a></li>
{{end}}</ul>
{{end}}</body>
</html>
`))

// Renderer makes documents.
type Renderer struct {
	Base *url.URL // of relative addresses
	// Image gives an image as a data URL, or nothing for one that cannot be part of a page.
	Image func(ctx context.Context, address string) (data string, err error)
}

// Render makes the HTML of a document. Images become part of it. Its error is that of Image.
func (r *Renderer) Render(ctx context.Context, d Document) ([]byte, error) {
	var clean struct {
		Title string
		Facts [][2]string
		Parts []template.HTML
		Files []string
	}
	clean.Title, clean.Facts = PlainText(d.Title), d.Facts
	for _, part := range d.Parts {
		text, err := r.selfContained(ctx, part)
		if err != nil {
			return nil, err
		}
		clean.Parts = append(clean.Parts, template.HTML(text)) //nolint:gosec // it was cleaned
	}
	for _, f := range d.Files {
		clean.Files = append(clean.Files, (&url.URL{Path: f}).String())
	}
	var text bytes.Buffer
	err := layout.Execute(&text, clean)
	return text.Bytes(), err
}

// dropped are elements that load or run something; their content goes with them. unwrapped lose the element only.
// shown are the attributes that stay.
var (
	dropped = []atom.Atom{atom.Script, atom.Style, atom.Link, atom.Meta, atom.Iframe, atom.Object, atom.Embed,
		atom.Applet, atom.Base, atom.Noscript, atom.Template, atom.Frame, atom.Frameset, atom.Svg, atom.Math}
	unwrapped = []atom.Atom{atom.Form, atom.Html, atom.Head, atom.Body}
	shown     = strings.Fields("alt title class id for type value name checked disabled selected colspan rowspan " +
		"scope href src lang dir role width height datetime start cols rows readonly multiple")
)

// selfContained makes a fragment of HTML that needs no other file and runs nothing.
func (r *Renderer) selfContained(ctx context.Context, text string) (string, error) {
	root := &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div}
	nodes, err := html.ParseFragment(strings.NewReader(text), root)
	if err != nil {
		return "", err
	}
	var out bytes.Buffer
	for _, n := range nodes {
		root.AppendChild(n)
	}
	if err := r.clean(ctx, root); err != nil {
		return "", err
	}
	for n := root.FirstChild; n != nil; n = n.NextSibling {
		if err := html.Render(&out, n); err != nil {
			return "", err
		}
	}
	return out.String(), nil
}

func (r *Renderer) clean(ctx context.Context, parent *html.Node) error {
	for n := parent.FirstChild; n != nil; {
		next := n.NextSibling
		switch {
		case n.Type == html.TextNode:
		case n.Type != html.ElementNode || slices.Contains(dropped, n.DataAtom) || n.Namespace != "":
			parent.RemoveChild(n)
		case slices.Contains(unwrapped, n.DataAtom):
			first := n.FirstChild
			for c := first; c != nil; {
				after := c.NextSibling
				n.RemoveChild(c)
				parent.InsertBefore(c, n)
				c = after
			}
			parent.RemoveChild(n)
			if first != nil {
				next = first
			}
		default:
			if err := r.attributes(ctx, n); err != nil {
				return err
			}
			if err := r.clean(ctx, n); err != nil {
				return err
			}
		}
		n = next
	}
	return nil
}

// attributes keeps what shows something, makes images part of the page, and leaves links to read only.
func (r *Renderer) attributes(ctx context.Context, n *html.Node) error {
	var out []html.Attribute
	for _, a := range n.Attr {
		switch {
		case !slices.Contains(shown, a.Key) || a.Namespace != "":
		case a.Key == "src":
			data, err := r.image(ctx, a.Val)
			if err != nil {
				return err
			}
			if data == "" {
				out = append(out, html.Attribute{Key: "data-src", Val: a.Val})
				break
			}
			out = append(out, html.Attribute{Key: "src", Val: data})
		case a.Key == "href":
			u, err := r.Base.Parse(a.Val)
			if err == nil && slices.Contains([]string{"http", "https", "mailto"}, u.Scheme) {
				out = append(out, html.Attribute{Key: "href", Val: u.String()})
			}
		default:
			out = append(out, a)
		}
	}
	if slices.Contains([]atom.Atom{atom.Input, atom.Textarea, atom.Select, atom.Button}, n.DataAtom) {
		if !slices.ContainsFunc(out, func(a html.Attribute) bool { return a.Key == "disabled" }) {
			out = append(out, html.Attribute{Key: "disabled"})
		}
	}
	n.Attr = out
	return nil
}

// WithoutClasses removes the elements that have one of the classes.
func WithoutClasses(text string, classes []string) string {
	root := &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div}
	nodes, err := html.ParseFragment(strings.NewReader(text), root)
	if err != nil || len(classes) == 0 {
		return text
	}
	for _, n := range nodes {
		root.AppendChild(n)
	}
	var drop []*html.Node
	for n := range root.Descendants() {
		if slices.ContainsFunc(classes, func(c string) bool { return HasClass(n, c) }) {
			drop = append(drop, n)
		}
	}
	for _, n := range drop {
		n.Parent.RemoveChild(n)
	}
	var out bytes.Buffer
	for n := range root.ChildNodes() {
		if html.Render(&out, n) != nil {
			return text
		}
	}
	return out.String()
}

// PlainText gives the text of HTML.
func PlainText(text string) string {
	div := &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div}
	nodes, err := html.ParseFragment(strings.NewReader(text), div)
	if err != nil {
		return text
	}
	var out strings.Builder
	for _, root := range nodes {
		if root.Type == html.TextNode {
			out.WriteString(root.Data)
		}
		for n := range root.Descendants() {
			if n.Type == html.TextNode {
				out.WriteString(n.Data)
			}
		}
	}
	return strings.Join(strings.Fields(out.String()), " ")
}

// image gives an image as a data URL.
func (r *Renderer) image(ctx context.Context, address string) (string, error) {
	if strings.HasPrefix(address, "data:image/") || r.Image == nil {
		return map[bool]string{true: address}[strings.HasPrefix(address, "data:image/")], nil
	}
	return r.Image(ctx, address)
}
