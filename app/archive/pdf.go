package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/workdir"
	"github.com/stagepost/stagepost/job"
)

// Words of the setting content.pdf.
const (
	PDFOff      = "off"
	PDFOn       = "on"       // an attempt that cannot be printed has its HTML file alone
	PDFRequired = "required" // an attempt that cannot be printed fails the job
)

// Names of the attempts in a unit, and of the files that were added to an attempt.
const (
	attemptsName    = "attempts/"
	attachmentsName = "/attachments/"
	htmlEnding      = ".html"
	pdfEnding       = ".pdf"
)

// maxWaits is the number of waits after which the next ones are not longer.
const maxWaits = 4

// pdfItem is the prefix of the items of PDF files in a ledger: pdf:DIGEST:NAME of the HTML file. The PDF file of an
// HTML file that has changed since is another item.
const pdfItem = "pdf:"

// Printer orders PDF files. *pdf.App is one.
type Printer interface {
	// Order gives the job that prints a document. A repetition gives the same job.
	Order(ctx context.Context, parent job.ID, owner, file string, p pdf.Page, document io.Reader) (job.Job, error)
	Result(j *job.Job) (io.ReadCloser, pdf.Result, error)
	// Remove cancels the jobs of an archive job that are not printed yet, and removes the files of all.
	Remove(ctx context.Context, parent job.ID) error
}

// printError is an attempt that was not printed, although content.pdf is required.
type printError struct{ file, cause, message string }

func (e *printError) Error() string {
	return fmt.Sprintf("content.pdf is required, and there is no PDF file of %s: %s", e.file, e.message)
}
func (e *printError) Cause() string { return e.cause }

// Temporary is false: the job of the PDF file has had its attempts.
func (e *printError) Temporary() bool { return false }

// prints reports whether attempts get PDF files.
func (t *task) prints() bool {
	return t.data.Settings.Content.PDF == PDFOn || t.data.Settings.Content.PDF == PDFRequired
}

// documents are the names of the documents of persons besides attempts, by the directory in which each has a folder.
var documents = map[string]string{"submissions": "submission.html", "discussions": "discussion.html"}

// printable reports whether a file of a unit is the report of an attempt, a submission with its feedback, or a
// discussion, not a file that a person uploaded.
func printable(unit string, f *workdir.File) bool {
	name := strings.TrimPrefix(f.Name, unit+"/")
	folder, base := path.Split(name)
	if want := documents[path.Dir(path.Clean(folder))]; want != "" {
		return base == want
	}
	return strings.HasPrefix(name, attemptsName) && path.Ext(name) == htmlEnding &&
		!strings.Contains(name, attachmentsName)
}

// print puts a PDF file beside each HTML file of an attempt. While jobs print, it gives [waiting]; a repetition adds
// the files that are complete since. waits is how often it waited before. Warnings name the files that are not printed.
func (t *task) print(ctx context.Context, u *workdir.Unit, unit string, waits int) (warnings []string, err error) {
	files := u.Files()
	wanted := map[string]bool{}
	for _, f := range files {
		if printable(unit, &f) {
			wanted[pdfItemOf(&f)] = true
		}
	}
	if slices.ContainsFunc(files, func(f workdir.File) bool { return isPDF(f.Item) && !wanted[f.Item] }) {
		if err := u.Prune(func(item string) bool { return !isPDF(item) || wanted[item] }); err != nil {
			return nil, err
		}
	}
	open := 0
	for _, f := range files {
		if !printable(unit, &f) || u.Done(pdfItemOf(&f)) {
			continue
		}
		warning, done, err := t.printOne(ctx, u, unit, &f)
		switch {
		case err != nil:
			return nil, err
		case !done:
			open++
		case warning != "":
			warnings = append(warnings, warning)
		}
	}
	if open > 0 {
		return nil, t.awaitPrints(open, waits)
	}
	return warnings, nil
}

// printOne orders the PDF file of one HTML file, and adds it to the unit if it is complete.
func (t *task) printOne(
	ctx context.Context, u *workdir.Unit, unit string, f *workdir.File,
) (warning string, done bool, err error) {
	p := t.app.options.PDF
	if p == nil {
		return "", false, job.Errorf(job.Invalid, "archive", t.Job().ID, "content.pdf is %s, and no worker prints: "+
			"set archive.pdf.workers", t.data.Settings.Content.PDF)
	}
	document, err := t.dir.Root.Open(path.Join(workdir.ContentName, f.Name))
	if err != nil {
		return "", false, err
	}
	j, err := p.Order(ctx, t.Job().ID, t.Job().Owner, strings.TrimPrefix(f.Name, unit+"/"), pdf.Page{}, document)
	err = errors.Join(err, document.Close())
	switch {
	case err != nil:
		return "", false, err
	case j.State == pdf.Rendering:
		return "", false, nil
	case j.State == pdf.Rendered:
		return "", true, t.keepPDF(ctx, u, unit, f, &j)
	}
	reason := j.Message
	if reason == "" {
		reason = fmt.Sprintf("its job %s is %s", j.ID, j.State)
	}
	if t.data.Settings.Content.PDF == PDFRequired {
		return "", false, &printError{f.Name, j.Cause, reason}
	}
	return fmt.Sprintf("there is no PDF file of %s: %s", f.Name, reason), true, nil
}

// keepPDF copies a PDF file beside its HTML file.
func (t *task) keepPDF(ctx context.Context, u *workdir.Unit, unit string, f *workdir.File, j *job.Job) error {
	from, r, err := t.app.options.PDF.Result(j)
	if err != nil {
		return err
	}
	item := pdfItemOf(f)
	name := strings.TrimSuffix(strings.TrimPrefix(f.Name, unit+"/"), htmlEnding) + pdfEnding
	origin := source.Origin{Type: "application/pdf", Person: f.Origin.Person}
	err = u.Item(item, nil).Put(ctx, name, &origin, func(w io.Writer) error {
		sum := sha256.New()
		if _, err := io.Copy(io.MultiWriter(w, sum), from); err != nil {
			return err
		}
		if got := hex.EncodeToString(sum.Sum(nil)); got != r.SHA256 {
			return fmt.Errorf("the PDF file of %s has the SHA-256 %s, not %s", f.Name, got, r.SHA256)
		}
		return nil
	})
	if err = errors.Join(err, from.Close()); err != nil {
		return err
	}
	return u.Finish(item)
}

// awaitPrints waits for jobs that print: 5 s at first, at most a minute.
func (t *task) awaitPrints(open, waits int) error {
	return waiting{Blocker: job.Blocker{
		Code: "pdf", Sentence: fmt.Sprintf("%d PDF files are being printed", open),
		Until: t.Now().Add(min(5*time.Second<<min(waits, maxWaits), time.Minute)), Holder: string(pdf.Kind),
		Remedy: "nothing: it goes on when workers have printed them",
	}}
}

func pdfItemOf(f *workdir.File) string { return pdfItem + f.SHA256 + ":" + f.Name }

func isPDF(item string) bool { return strings.HasPrefix(item, pdfItem) }
