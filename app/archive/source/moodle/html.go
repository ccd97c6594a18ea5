package moodle

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/stagepost/stagepost/app/archive/source"
)

// document is a page that needs nothing but itself: no script, no request to the Moodle.
type document struct {
	Title string
	Facts [][2]string // shown as a table; rows without a value are left out
	Parts []string    // HTML as the Moodle gave it
	Files []string    // relative paths
}

var page = template.Must(template.New("page").Parse(`<!DOCTYPE html>
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

// putPage writes a document. Images of the Moodle become part of it.
func (s *Source) putPage(ctx context.Context, out source.Out, name string, o source.Origin, d document) error {
	var clean struct {
		Title string
		Facts [][2]string
		Parts []template.HTML
		Files []string
	}
	clean.Title, clean.Facts = plainText(d.Title), d.Facts
	for _, part := range d.Parts {
		text, err := s.selfContained(ctx, part)
		if err != nil {
			return err
		}
		clean.Parts = append(clean.Parts, template.HTML(text)) //nolint:gosec // it was cleaned
	}
	for _, f := range d.Files {
		clean.Files = append(clean.Files, (&url.URL{Path: f}).String())
	}
	var text bytes.Buffer
	if err := page.Execute(&text, clean); err != nil {
		return err
	}
	return putBytes(ctx, out, name, "text/html; charset=utf-8", o, text.Bytes())
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
func (s *Source) selfContained(ctx context.Context, text string) (string, error) {
	root := &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div}
	nodes, err := html.ParseFragment(strings.NewReader(text), root)
	if err != nil {
		return "", &source.Error{Op: "HTML", Err: err}
	}
	var out bytes.Buffer
	for _, n := range nodes {
		root.AppendChild(n)
	}
	if err := s.clean(ctx, root); err != nil {
		return "", err
	}
	for n := root.FirstChild; n != nil; n = n.NextSibling {
		if err := html.Render(&out, n); err != nil {
			return "", &source.Error{Op: "HTML", Err: err}
		}
	}
	return out.String(), nil
}

func (s *Source) clean(ctx context.Context, parent *html.Node) error {
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
			if err := s.attributes(ctx, n); err != nil {
				return err
			}
			if err := s.clean(ctx, n); err != nil {
				return err
			}
		}
		n = next
	}
	return nil
}

// attributes keeps what shows something, makes images part of the page, and leaves links to read only.
func (s *Source) attributes(ctx context.Context, n *html.Node) error {
	var out []html.Attribute
	for _, a := range n.Attr {
		switch {
		case !slices.Contains(shown, a.Key) || a.Namespace != "":
		case a.Key == "src":
			data, err := s.image(ctx, a.Val)
			if err != nil {
				return err
			}
			if data == "" {
				out = append(out, html.Attribute{Key: "data-src", Val: a.Val})
				break
			}
			out = append(out, html.Attribute{Key: "src", Val: data})
		case a.Key == "href":
			u, err := s.c.base.Parse(a.Val)
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

const maxImage = 32 << 20

// image gives an image of the Moodle as a data URL. It gives nothing for images of other servers and for missing ones.
func (s *Source) image(ctx context.Context, raw string) (string, error) {
	if strings.HasPrefix(raw, "data:image/") {
		return raw, nil
	}
	u, err := s.c.fileURL(raw)
	if err != nil || !strings.Contains(u.Path, "pluginfile.php") {
		return "", nil
	}
	var body bytes.Buffer
	var f file
	err = repeat(func() (err error) {
		body.Reset()
		f, err = s.c.download(ctx, raw, &limitedWriter{w: &body, left: maxImage})
		return err
	})
	var failed *source.Error
	switch {
	case errors.As(err, &failed) && !failed.Transient:
		return "", nil // the page shows its alternative text, and its address remains in data-src
	case err != nil:
		return "", err
	case !strings.HasPrefix(f.Type, "image/"):
		return "", nil
	}
	return "data:" + f.Type + ";base64," + base64.StdEncoding.EncodeToString(body.Bytes()), nil
}

type limitedWriter struct {
	w    io.Writer
	left int
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, &source.Error{Op: "image", Err: fmt.Errorf("it has more than %d bytes", maxImage)}
	}
	return l.w.Write(p)
}

// withoutClasses removes the elements that have one of the classes.
func withoutClasses(text string, classes []string) string {
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
		if slices.ContainsFunc(classes, func(c string) bool { return hasClass(n, c) }) {
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

// plainText gives the text of HTML.
func plainText(text string) string {
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

func htmlEscape(text string) string { return template.HTMLEscapeString(text) }

// when writes a time; nothing for none.
func when(seconds int64) string {
	if seconds <= 0 {
		return ""
	}
	return stamp(seconds).Format(time.RFC3339)
}

// text writes a value of JSON for people.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// safePath makes a relative path of a file's path and name.
func safePath(dir, name string) string {
	var out []string
	for part := range strings.SplitSeq(dir, "/") {
		if part != "" {
			out = append(out, source.SafeName(part))
		}
	}
	return path.Join(append(out, source.SafeName(name))...)
}
