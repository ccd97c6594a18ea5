// Package printing puts PDF files beside the HTML files of an archive job: of attempts, submissions and discussions.
package printing

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/app/archive/pdf"
	"github.com/stagepost/stagepost/app/archive/source"
	"github.com/stagepost/stagepost/app/archive/workdir"
	"github.com/stagepost/stagepost/job"
)

// Names of the attempts in a unit, and of the files that were added to an attempt.
const (
	attemptsName    = "attempts/"
	attachmentsName = "/attachments/"
	htmlEnding      = ".html"
	pdfEnding       = ".pdf"
)

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

// Prints adds the PDF files of one archive job.
type Prints struct {
	Printer  Printer // nil: a file that is to be printed is an error
	Job      job.ID  // the archive job
	Owner    string
	Dir      *os.Root // the working directory of the job
	Required bool     // a file that cannot be printed is an error, not a warning
}

// printError is an attempt that was not printed, although content.pdf is required.
type printError struct{ file, cause, message string }

func (e *printError) Error() string {
	return fmt.Sprintf("content.pdf is required, and there is no PDF file of %s: %s", e.file, e.message)
}
func (e *printError) Cause() string { return e.cause }

// Temporary is false: the job of the PDF file has had its attempts.
func (e *printError) Temporary() bool { return false }

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

// Add puts a PDF file beside each HTML file of a unit that is printed. open is the number of files whose jobs have not
// ended: a repetition adds those that are complete since. Warnings name the files that cannot be printed; if they are
// required, that is an error.
func (p *Prints) Add(ctx context.Context, u *workdir.Unit, unit string) (open int, warnings []string, err error) {
	files := u.Files()
	wanted := map[string]bool{}
	for _, f := range files {
		if printable(unit, &f) {
			wanted[itemOf(&f)] = true
		}
	}
	if slices.ContainsFunc(files, func(f workdir.File) bool { return IsPDF(f.Item) && !wanted[f.Item] }) {
		if err := u.Prune(func(item string) bool { return !IsPDF(item) || wanted[item] }); err != nil {
			return 0, nil, err
		}
	}
	for _, f := range files {
		if !printable(unit, &f) || u.Done(itemOf(&f)) {
			continue
		}
		warning, done, err := p.add(ctx, u, unit, &f)
		switch {
		case err != nil:
			return 0, nil, err
		case !done:
			open++
		case warning != "":
			warnings = append(warnings, warning)
		}
	}
	return open, warnings, nil
}

// add orders the PDF file of one HTML file, and adds it to the unit if it is complete.
func (p *Prints) add(
	ctx context.Context, u *workdir.Unit, unit string, f *workdir.File,
) (warning string, done bool, err error) {
	if p.Printer == nil {
		return "", false, job.Errorf(job.Invalid, "archive", p.Job, "content.pdf requests PDF files, and no worker "+
			"prints: set archive.pdf.workers")
	}
	document, err := p.Dir.Open(path.Join(workdir.ContentName, f.Name))
	if err != nil {
		return "", false, err
	}
	j, err := p.Printer.Order(ctx, p.Job, p.Owner, strings.TrimPrefix(f.Name, unit+"/"), pdf.Page{}, document)
	err = errors.Join(err, document.Close())
	switch {
	case err != nil:
		return "", false, err
	case j.State == pdf.Rendering:
		return "", false, nil
	case j.State == pdf.Rendered:
		return "", true, p.keep(ctx, u, unit, f, &j)
	}
	reason := j.Message
	if reason == "" {
		reason = fmt.Sprintf("its job %s is %s", j.ID, j.State)
	}
	if p.Required {
		return "", false, &printError{f.Name, j.Cause, reason}
	}
	return fmt.Sprintf("there is no PDF file of %s: %s", f.Name, reason), true, nil
}

// keep copies a PDF file beside its HTML file.
func (p *Prints) keep(ctx context.Context, u *workdir.Unit, unit string, f *workdir.File, j *job.Job) error {
	from, r, err := p.Printer.Result(j)
	if err != nil {
		return err
	}
	item := itemOf(f)
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

func itemOf(f *workdir.File) string { return pdfItem + f.SHA256 + ":" + f.Name }

// IsPDF reports whether an item of a unit is a PDF file that was added.
func IsPDF(item string) bool { return strings.HasPrefix(item, pdfItem) }
