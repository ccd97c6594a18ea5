package report

import (
	"embed"
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"github.com/stagepost/stagepost/internal/printable"
)

//go:embed templates/mail.html
var templates embed.FS

// mailPage is the HTML form of all mails. It escapes all it is given, and loads nothing from anywhere.
var mailPage = template.Must(template.ParseFS(templates, "templates/mail.html"))

// page is what a mail shows in HTML.
type page struct {
	Title    string
	Received string
	Happened string
	Next     string
	Facts    []fact
	Changes  []string
	Lists    []shownList
	Notes    []string
	Link     string // of the batch's page; empty if depositors cannot reach the server
}

type fact struct{ Name, Value string }

type shownList struct {
	Title string
	All   int
	More  int // that are not shown
	Jobs  []shownJob
}

type shownJob struct {
	Name  string
	State string
	Facts []fact
}

func (p *page) render() (string, error) {
	var b strings.Builder
	if err := mailPage.Execute(&b, p); err != nil {
		return "", fmt.Errorf("mail as HTML: %w", err)
	}
	return b.String(), nil
}

func (p *page) fact(name, value string) {
	if value != "" {
		p.Facts = append(p.Facts, fact{name, printable.Shown(value)})
	}
}

// HTML gives the whole report as one page that needs nothing else.
func (r *Batch) HTML() (string, error) { return r.page(math.MaxInt, "").render() }

// page names at most so many objects of each list.
func (r *Batch) page(most int, link string) *page {
	p := &page{Title: "Report about your submission", Happened: r.Summary, Next: r.Next, Link: link}
	if r.Changes != nil {
		p.Title, p.Changes = "New report about your submission", sentences(r.Changes)
	}
	p.fact("Submission", string(r.Batch))
	p.fact("File", r.Filename)
	p.fact("Collection", r.Profile)
	p.fact("Handed in by", r.Submitter)
	p.fact("Handed in", r.Submitted.Format(time.RFC1123))
	if !r.Ended.IsZero() {
		p.fact("Ended", r.Ended.Format(time.RFC1123))
	}
	p.fact("Note", r.Note)
	for _, l := range r.lists() {
		if len(l.jobs) == 0 {
			continue
		}
		shown := shownList{Title: l.title, All: len(l.jobs), More: max(0, len(l.jobs)-most)}
		for i := range l.jobs[:len(l.jobs)-shown.More] {
			shown.Jobs = append(shown.Jobs, showJob(&l.jobs[i]))
		}
		p.Lists = append(p.Lists, shown)
	}
	return p
}

func showJob(j *Job) shownJob {
	s := shownJob{Name: printable.Shown(NameOf(j)), State: string(j.State)}
	add := func(name, value string) {
		if value != "" {
			s.Facts = append(s.Facts, fact{name, printable.Shown(value)})
		}
	}
	add("Identifier", j.ARK)
	add("Your identifiers", strings.Join(j.LocalIDs, "; "))
	if j.Version > 0 {
		add("Stored as", fmt.Sprintf("version %d, %d files, %d bytes", j.Version, j.Files, j.Bytes))
	}
	add("Why", j.Reason)
	add("Details", j.Message)
	for _, w := range j.Warnings {
		add("Warning", w)
	}
	add("What to do", j.Next)
	return s
}

// page is the HTML form of a mail about a batch's beginning.
func (q *Queued) page(link string) *page {
	p := &page{Title: "Your submission was received", Received: q.received(), Happened: q.happened(), Next: q.next(),
		Link: link}
	if q.Failure != "" {
		p.Title = "Your submission could not be read"
	}
	p.fact("Submission", string(q.Batch))
	p.fact("File", q.file())
	p.fact("Collection", q.Profile)
	p.fact("Handed in by", q.Submitter)
	p.fact("Handed in", q.Submitted.Format(time.RFC1123))
	p.fact("Details", oneLine(q.Failure))
	return p
}
