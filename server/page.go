package server

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Pages are for depositors: they are made here, whole, and work without scripts. All that comes from strangers goes through html/template, which
// escapes it, and through shown, which makes visible what could turn the direction of writing.

//go:embed pages
var pages embed.FS

var pageTemplates = template.Must(template.New("").Funcs(template.FuncMap{
	"shown": shown, "when": func(t time.Time) string { return t.UTC().Format("2 January 2006, 15:04 UTC") },
	"join": func(list []string) string { return strings.Join(list, "; ") }, "clock": func(t time.Time) string { return t.UTC().Format("15:04:05 UTC") },
}).ParseFS(pages, "pages/*.html"))

// Policies of HTML answers. Pages load our style sheet and nothing else; a report as HTML carries its style in itself.
const (
	pagePolicy = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	mailPolicy = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox"
)

// refreshEvery is the pause, in seconds, after which a page of a batch that is not done asks again.
const refreshEvery = 30

// mostRows is the number of objects that a table of a page shows; the lists as files have all.
const mostRows = 500

// batchView is what the page about a batch shows.
type batchView struct {
	client.BatchReport
	Refresh int // seconds; 0 keeps the page still
	Still   bool
	Open    bool
	Done    int
	Percent int
	Lists   []batchList
}

type batchList struct {
	Title  string
	Failed bool
	Jobs   []client.JobReport
	All    int
	File   string // format of the report that has all of them
}

// batchPage tells a depositor how a batch stands.
func (s *Server) batchPage(w http.ResponseWriter, r *http.Request) error {
	p := read(r)
	refresh := p.text("refresh")
	if refresh != "" && refresh != "off" {
		p.wrong("refresh must be off, not %.40q", refresh)
	}
	err := p.done()
	var v batchView
	if err == nil {
		v, err = s.viewBatch(r)
	}
	if err != nil {
		return s.failPage(w, r, err)
	}
	v.Still = refresh == "off"
	if v.Open && !v.Still {
		v.Refresh = refreshEvery
	}
	return replyPage(w, http.StatusOK, "batch.html", &v)
}

func (s *Server) viewBatch(r *http.Request) (batchView, error) {
	var v batchView
	j, err := s.store.Get(r.Context(), id(r))
	if err != nil {
		return v, err
	}
	app, err := s.ingest()
	if err != nil {
		return v, err
	}
	done, err := s.mayMake(r)
	if err != nil {
		return v, err
	}
	defer done()
	report, err := app.Report(r.Context(), j.ID)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(report.JSON, &v.BatchReport); err != nil {
		return v, job.Errorf(job.Internal, "page", j.ID, "the report: %w", err)
	}
	v.Open = !j.Ended || v.Pending > 0
	v.Done = v.Completed + v.Failed + v.Deleted
	if v.Expected > 0 {
		v.Percent = 100 * v.Done / v.Expected
	}
	v.Lists = listJobs(v.Jobs)
	return v, nil
}

// listJobs sorts the jobs into the tables of the page; what needs attention comes first.
func listJobs(jobs []client.JobReport) []batchList {
	all := []batchList{
		{Title: "Not stored", Failed: true, File: "csv-failed"}, {Title: "Not done yet"}, {Title: "Stored", File: "csv-completed"},
		{Title: "Taken out of the submission"},
	}
	for i := range jobs {
		l := &all[0]
		switch j := &jobs[i]; {
		case j.State == "Deleted":
			l = &all[3]
		case j.Outcome == lifecycle.None:
			l = &all[1]
		case j.Outcome == lifecycle.OK:
			l = &all[2]
		}
		if l.All++; len(l.Jobs) < mostRows {
			l.Jobs = append(l.Jobs, jobs[i])
		}
	}
	return all
}

// failPage tells a browser in plain words what is wrong; other clients get the problem as everywhere.
func (s *Server) failPage(w http.ResponseWriter, r *http.Request, err error) error {
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		return err
	}
	p := problemOf(err)
	says := "Something went wrong on our side. Please try again later."
	switch p.Kind {
	case job.NotFound:
		says = "There is no submission with this number. Please compare it with the one in your mail."
	case job.Invalid:
		says = "This address does not name a submission."
	case job.Unavailable:
		says = "This cannot be shown just now. Please try again later."
	}
	if p.Kind == job.Internal {
		s.Log.Error("page", "path", r.URL.Path, "error", err)
	}
	return replyPage(w, p.Status, "error.html", struct{ Says string }{says})
}

func replyPage(w http.ResponseWriter, status int, name string, view any) error {
	return replyPageUnder(w, status, name, view, pagePolicy)
}

// replyPageUnder is replyPage under another policy.
func replyPageUnder(w http.ResponseWriter, status int, name string, view any, policy string) error {
	var b bytes.Buffer
	if err := pageTemplates.ExecuteTemplate(&b, name, view); err != nil {
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
var assetTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}

// asset gives a style sheet or a script.
func (s *Server) asset(w http.ResponseWriter, r *http.Request) error {
	if err := read(r).done(); err != nil {
		return err
	}
	name := r.PathValue("name")
	text, err := pages.ReadFile("pages/" + name)
	media := assetTypes[path.Ext(name)]
	if err != nil || media == "" {
		return job.Errorf(job.NotFound, "asset", "", "there is no asset %.100q", name)
	}
	w.Header().Set("Content-Type", media)
	_, _ = w.Write(text)
	return nil
}

// Class is how the page looks: a batch that could not even be read has failed, though none of its objects has; one that was withdrawn is no success.
func (v *batchView) Class() string {
	switch {
	case v.Open || v.State == "Deleted":
		return "open"
	case v.Failed > 0 || v.State != "Completed":
		return "failed"
	}
	return "done"
}

// Name is what a depositor would call the object.
func (l batchList) Name(j client.JobReport) string {
	for _, s := range []string{j.Title, j.Filename, j.URL} {
		if s != "" {
			return s
		}
	}
	return "payload"
}

// shown makes a stranger's text safe to read: what is not printed is shown by its number, and a very long text is cut with an ellipsis.
func shown(text string) string {
	const most = 300
	var b strings.Builder
	n := 0
	for _, r := range strings.ToValidUTF8(text, "\ufffd") {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "<U+%04X>", r)
		}
	}
	return b.String()
}
