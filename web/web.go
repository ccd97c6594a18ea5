package web

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
)

//go:embed pages
var files embed.FS

// policy is that of all pages: style sheets, scripts, pictures and requests of this server alone.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// Pages shows the pages of a part over the frame that all share.
type Pages struct {
	*server.Server
	templates map[string]*template.Template
}

// New reads the files pages/*.html of a part. Each defines the template "content", which gets [Frame.Body]. It panics
// if one is wrong.
func New(s *server.Server, of fs.FS) *Pages {
	p := &Pages{Server: s, templates: map[string]*template.Template{}}
	p.templates["refused.html"] = template.Must(template.Must(shared.Clone()).ParseFS(files, "pages/refused.html"))
	names, err := fs.Glob(of, "pages/*.html")
	if err != nil {
		panic(err)
	}
	for _, name := range names {
		if base := path.Base(name); base != "frame.html" && base != "parts.html" {
			p.templates[base] = template.Must(template.Must(shared.Clone()).ParseFS(of, name))
		}
	}
	return p
}

var shared = template.Must(template.New("").Funcs(functions).ParseFS(files, "pages/frame.html", "pages/parts.html"))

// own are the templates of the pages of every server.
var own = New(nil, files).templates

// Frame is what surrounds a page.
type Frame struct {
	Title string // of the page: its heading and, with the name of the server, that of the window
	Lead  string // a sentence below the heading; empty: none
	Up    server.Link
	Plain bool // the template has a heading of its own
	Body  any  // of the template

	Events  string   // path of an event stream that reports changes; empty: none
	Styles  []string // addresses of style sheets besides those of all pages
	Scripts []string // the same of scripts
	Refresh int      // seconds after which the script reads the page again; 0: never

	// the rest is filled in by Reply
	Sections []Section
	Here     string // path of the page
	Visitor  server.Visitor
	Theme    string
	Notice   string // what the form before has done
	Query    string // of the search field
}

// Section is a part of the navigation.
type Section struct {
	Name  string
	Links []server.Link
}

// Reply shows a page.
func (p *Pages) Reply(w http.ResponseWriter, r *http.Request, status int, name string, f *Frame) error {
	f.Sections, f.Here, f.Visitor = sections(p.Links(r.Context())), r.URL.Path, p.Visitor(r)
	f.Theme, f.Notice = themeOf(r), takeNotice(w, r)
	if f.Here == "/search" {
		f.Query = strings.TrimSpace(r.URL.Query().Get("name"))
	}
	var b bytes.Buffer
	if err := p.templates[name].ExecuteTemplate(&b, "frame", f); err != nil {
		return job.Errorf(job.Internal, "page", "", "%s: %w", name, err)
	}
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Vary", "Accept, Cookie")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)) // the operations may have waited
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // a reader that has gone needs no answer
	return nil
}

// Fragment makes a part of a page: the template "content" of a file, with its view.
func (p *Pages) Fragment(name string, view any) (template.HTML, error) {
	var b bytes.Buffer
	if err := p.templates[name].ExecuteTemplate(&b, "content", view); err != nil {
		return "", job.Errorf(job.Internal, "page", "", "%s: %w", name, err)
	}
	return template.HTML(b.String()), nil
}

// sections groups links by their sections, in the order in which these occur first.
func sections(links []server.Link) (all []Section) {
next:
	for _, l := range links {
		for i := range all {
			if all[i].Name == l.Section {
				all[i].Links = append(all[i].Links, l)
				continue next
			}
		}
		all = append(all, Section{l.Section, []server.Link{l}})
	}
	return all
}

// Show makes a handler of a function that asks the API and returns the frame of a page. A browser gets a refusal as a
// page, other clients as everywhere.
func (p *Pages) Show(name string, of func(r *http.Request) (*Frame, error)) func(http.ResponseWriter,
	*http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		f, err := of(r)
		if err != nil {
			return p.Fail(w, r, err)
		}
		return p.Reply(w, r, http.StatusOK, name, f)
	}
}

// Fail shows a browser what was refused and why; other clients get the problem as everywhere.
func (p *Pages) Fail(w http.ResponseWriter, r *http.Request, err error) error {
	return p.fail(w, r, err, nil)
}

// fail is Fail for a form with values; nil: there is none.
func (p *Pages) fail(w http.ResponseWriter, r *http.Request, err error, sent url.Values) error {
	if !server.ForPeople(r) {
		return err
	}
	if job.KindOf(err) == job.Internal {
		p.Log.Error("page", "path", r.URL.Path, "error", err)
	}
	return p.refuseForm(w, r, err, sent)
}

// Post makes a handler of a function that sends a form to the API. It returns the path of the page that shows the
// result, and what was done in a few words.
func (p *Pages) Post(of func(r *http.Request, form *Form) (to, done string, err error)) func(http.ResponseWriter,
	*http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		return p.Form(w, r, func(form *Form) error {
			to, done, err := of(r, form)
			if err != nil {
				return err
			}
			return p.Done(w, to, done)
		})
	}
}

// Form reads a form and calls a function that answers it. A refusal is shown as by [Pages.Fail], with the texts of the
// form.
func (p *Pages) Form(w http.ResponseWriter, r *http.Request, answer func(*Form) error) error {
	err := server.Params(r).Err()
	var form *Form
	var sent url.Values
	if err == nil {
		form, err = readForm(r)
	}
	if form != nil {
		sent = maps.Clone(form.values) // reading removes fields
	}
	if err == nil {
		err = answer(form)
	}
	if err != nil {
		return p.fail(w, r, err, sent)
	}
	return nil
}

// Done answers a form: it leads to the page that shows the result, with what was done in a few words.
func (p *Pages) Done(w http.ResponseWriter, to, done string) error {
	putNotice(w, done)
	w.Header().Set("Location", to)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(http.StatusSeeOther)
	_, _ = fmt.Fprintf(w, "<a href=\"%s\">See the result</a>\n", template.HTMLEscapeString(to)) // RFC 9110, 15.4.4
	return nil
}
