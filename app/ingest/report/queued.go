package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/stagepost/stagepost/internal/printable"
	"github.com/stagepost/stagepost/job"
)

// Queued is the mail about the start of a batch: it was read and is queued, or it could not be read.
// Its JSON waits in the outbox.
type Queued struct {
	Batch     job.ID    `json:"batch"`
	Filename  string    `json:"filename,omitempty"`
	Profile   string    `json:"profile"`
	Submitter string    `json:"submitter,omitempty"`
	Submitted time.Time `json:"submitted"`
	Bytes     int64     `json:"bytes"`
	Files     int       `json:"files,omitempty"` // that were handed in, if there are several; Filename is the first
	Objects   int       `json:"objects,omitempty"`
	Cause     string    `json:"cause,omitempty"` // why it could not be queued
	Failure   string    `json:"failure,omitempty"`
}

// received describes what was submitted.
func (q *Queued) received() string {
	name := q.file()
	if name != "" {
		name += ", "
	}
	return fmt.Sprintf("We received your submission: %s%d bytes.", name, q.Bytes)
}

// file names what was handed in: the file, or the first of several and how many there are.
func (q *Queued) file() string {
	name := printable.Shown(q.Filename)
	switch {
	case q.Files < 2:
		return name
	case name == "":
		return fmt.Sprintf("%d files", q.Files)
	}
	return fmt.Sprintf("%s and %d more, %d files", name, q.Files-1, q.Files)
}

func (q *Queued) happened() string {
	if q.Failure == "" {
		return fmt.Sprintf("It holds %s. They wait for their turn to be stored.", objects(q.Objects))
	}
	j := Job{Cause: q.Cause}
	why, _ := failure(&j)
	return "It could not be read, and nothing of it was stored: " + why + "."
}

func (q *Queued) next() string {
	if q.Failure == "" {
		return "There is nothing for you to do. A report follows when everything has been worked on."
	}
	j := Job{Cause: q.Cause}
	if _, remedy := failure(&j); remedy == RemedyStaff {
		return "Please ask the staff of the archive what can be done, and then hand it in again, as a new submission."
	}
	return nextSteps[RemedyNew]
}

func (q *Queued) state() string {
	if q.Failure == "" {
		return "Your submission was queued."
	}
	return "Your submission could not be queued: " + printable.Shown(oneLine(q.Failure))
}

// Body makes the mail. link is the address of the batch's page, or empty.
func (q *Queued) Body(link string) (Body, error) {
	html, err := q.page(link).render()
	return Body{Text: q.text(), HTML: html}, err
}

func (q *Queued) text() string {
	return fmt.Sprintf("\nSubmission ID: %s\nFile: %s\nProfile: %s\nUser agent: %s\nSubmission date: "+
		"%s\n\n%s\n\nWhat we received: %s\nWhat happened: %s\nWhat there is to do: %s\n",
		q.Batch, q.file(), printable.Shown(q.Profile), printable.Shown(q.Submitter),
		q.Submitted.Format(time.RFC3339), q.state(), q.received(), q.happened(), q.next())
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
