package server

import (
	"bytes"
	"compress/gzip"
	"embed"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/stagepost/stagepost/internal/printable"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server/problem"
)

// Pages are for depositors: they are made here, whole, and work without scripts. All that comes from strangers goes
// through html/template, which escapes it, and through Shown, which makes visible what could turn the direction of
// writing.

//go:embed pages
var pages embed.FS

// Templates reads the files pages/*.html of an application, to be used with [ReplyPage]. It panics if one is wrong.
func Templates(files fs.FS) *template.Template {
	return template.Must(template.Must(pageTemplates.Clone()).ParseFS(files, "pages/*.html"))
}

var pageTemplates = template.Must(template.New("").Funcs(template.FuncMap{
	"shown": printable.Shown, "when": func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") },
	"join":  func(list []string) string { return strings.Join(list, "; ") },
	"clock": func(t time.Time) string { return t.UTC().Format("15:04:05 UTC") },
}).ParseFS(pages, "pages/*.html"))

// Policies of HTML answers. Pages load our style sheet, our icon and nothing else; a report as HTML carries its style
// in itself.
const (
	pagePolicy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; " +
		"frame-ancestors 'none'"
	MailPolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; " +
		"frame-ancestors 'none'; sandbox"
)

// FailPage shows a browser what is wrong in plain words; other clients get the problem as everywhere.
func (s *Server) FailPage(w http.ResponseWriter, r *http.Request, err error) error {
	if !ForPeople(r) {
		return err
	}
	p := problem.Of(err)
	text := "Something went wrong on our side. Please try again later."
	switch p.Kind {
	case job.NotFound:
		text = "There is no submission with this number. Please compare it with the one in your mail."
	case job.Invalid:
		text = "This address does not name a submission."
	case job.Unavailable:
		text = "This cannot be shown just now. Please try again later."
	}
	if p.Kind == job.Internal {
		s.Log.Error("page", "path", r.URL.Path, "error", err)
	}
	return ReplyPage(w, p.Status, pageTemplates, "error.html", struct{ Text string }{text})
}

// ForPeople reports whether a browser asks for a page: the others get text or JSON.
func ForPeople(r *http.Request) bool { return strings.Contains(r.Header.Get("Accept"), "text/html") }

// ReplyPage answers with a page that is made of a template.
func ReplyPage(w http.ResponseWriter, status int, t *template.Template, name string, view any) error {
	return ReplyPageUnder(w, status, t, name, view, pagePolicy)
}

// ReplyPageUnder is [ReplyPage] with another Content-Security-Policy.
func ReplyPageUnder(w http.ResponseWriter, status int, t *template.Template, name string, view any,
	policy string) error {
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, view); err != nil {
		return job.Errorf(job.Internal, "page", "", "%w", err)
	}
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Vary", "Accept")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute)) // it may have waited for its turn
	w.WriteHeader(status)
	_, _ = b.WriteTo(w) // who does not read on has gone
	return nil
}

// assetTypes are the kinds of files that are assets.
var assetTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".svg": "image/svg+xml"}

// asset returns a style sheet, a script or an icon.
func (s *Server) asset(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	name := r.PathValue("name")
	text, err := fs.ReadFile(pages, "pages/"+name)
	for _, p := range s.parts {
		if err != nil && p.Assets != nil {
			text, err = fs.ReadFile(p.Assets, "pages/"+name)
		}
	}
	media := assetTypes[path.Ext(name)]
	if err != nil || media == "" {
		return job.Errorf(job.NotFound, "asset", "", "there is no asset %.100q", name)
	}
	w.Header().Set("Content-Type", media)
	w.Header().Set("Vary", "Accept-Encoding")
	if takesGzip(r) {
		w.Header().Set("Content-Encoding", "gzip")
		text = s.compressed(name, text)
	}
	_, _ = w.Write(text)
	return nil
}

// takesGzip reports whether a client accepts gzip (RFC 9110, section 12.5.3).
func takesGzip(r *http.Request) bool {
	for _, one := range strings.Split(strings.Join(r.Header.Values("Accept-Encoding"), ","), ",") {
		coding, weight, weighted := strings.Cut(one, ";")
		_, q, _ := strings.Cut(weight, "=")
		if strings.EqualFold(strings.TrimSpace(coding), "gzip") {
			return !weighted || strings.Trim(q, " 0.") != ""
		}
	}
	return false
}

// compressed returns an asset in gzip, which is made once. Pages are not compressed: with the texts of strangers beside
// secrets their length would reveal these (BREACH).
func (s *Server) compressed(name string, text []byte) []byte {
	if made, ok := s.assets.Load(name); ok {
		return made.([]byte)
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(text) // a buffer takes all
	_ = z.Close()
	s.assets.Store(name, b.Bytes())
	return b.Bytes()
}
