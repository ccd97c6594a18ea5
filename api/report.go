package api

import (
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// BatchReport is the report on a batch, for its depositor first of all.
type BatchReport struct {
	Batch      job.ID          `json:"batch"`
	State      lifecycle.State `json:"state"`
	Status     string          `json:"status"`         // COMPLETED, Failed or Pending
	Message    string          `json:"status_message"` // Success, or that of the first failed job
	Profile    string          `json:"profile"`
	Type       string          `json:"type,omitempty"`
	Filename   string          `json:"filename,omitempty"`
	Submitter  string          `json:"submitter,omitempty"`
	Note       string          `json:"note,omitempty"`
	Submitted  time.Time       `json:"submitted"`
	Ended      time.Time       `json:"ended,omitzero"` // of its last job
	Generation int             `json:"generation"`     // 0 for the first report, 1 after the first update
	Expected   int             `json:"expected"`
	Pending    int             `json:"pending"`
	Completed  int             `json:"completed"`
	Failed     int             `json:"failed"`
	Deleted    int             `json:"deleted"`
	Summary    string          `json:"summary"` // what happened, in plain words
	Next       string          `json:"next"`    // the next step, in plain words
	Changes    *Changes        `json:"changes,omitempty"`
	Jobs       []JobReport     `json:"jobs"` // in the order of the manifest
}

// Changes are the differences from the previous report.
type Changes struct {
	Since     int      `json:"since"`             // generation of the report before
	Missing   bool     `json:"missing,omitempty"` // that report no longer exists: everything is reported again
	Succeeded []job.ID `json:"succeeded_since"`
	Newly     []job.ID `json:"newly_failed"` // or for another reason
	Failed    []job.ID `json:"still_failed"`
	Open      []job.ID `json:"still_open"` // tried again, running or held
	Deleted   []job.ID `json:"deleted_since"`
	Unchanged int      `json:"unchanged"`
}

// JobReport is the result of one object.
type JobReport struct {
	Job      job.ID            `json:"job"`
	State    lifecycle.State   `json:"state"`
	Outcome  lifecycle.Outcome `json:"outcome,omitempty"`
	Row      int               `json:"row,omitempty"`
	Filename string            `json:"filename,omitempty"`
	URL      string            `json:"url,omitempty"`
	ARK      string            `json:"ark,omitempty"`
	LocalIDs []string          `json:"local_ids,omitempty"`
	Title    string            `json:"title,omitempty"`
	Creator  string            `json:"creator,omitempty"`
	Date     string            `json:"date,omitempty"`
	Type     string            `json:"type,omitempty"` // of its payload: file, container or object-manifest
	Version  int               `json:"version,omitempty"`
	Files    int               `json:"files,omitempty"`
	Bytes    int64             `json:"bytes,omitempty"`
	FailedIn lifecycle.State   `json:"failed_in,omitempty"`
	Cause    string            `json:"cause,omitempty"`
	Message  string            `json:"message,omitempty"`
	// faults of the submission in spite of which the object was stored
	Warnings []string `json:"warnings,omitempty"`
	Retries  int      `json:"retries,omitempty"`
	Reason   string   `json:"reason,omitempty"` // why it failed, in plain words
	Remedy   Remedy   `json:"remedy,omitempty"`
	Next     string   `json:"next,omitempty"` // the same as a sentence
}

// Remedy is who can bring a failed object into storage.
type Remedy string

// Remedies.
const (
	RemedyStaff Remedy = "staff-retry"    // the staff of the archive, by a retry
	RemedyMend  Remedy = "mend-and-retry" // the depositor puts a file right where it lies, then the staff by a retry
	RemedyNew   Remedy = "new-submission" // the depositor, by handing in something else
)

// ReportFormats are the forms in which a report can be had.
func ReportFormats() []string {
	return []string{"text", "html", "json", "csv-completed", "csv-failed"}
}

// ShareOrder is the body that makes a link by which anyone who has it reads one batch.
type ShareOrder struct {
	Valid string `json:"valid,omitempty"` // for how long, such as 30d, which is the default; at most 365d
	Note  string `json:"note,omitempty"`  // for whom, or why
	Actor string `json:"actor,omitempty"` // who
}

// Share is a link to a batch. It shows this batch alone, and changes nothing.
type Share struct {
	ID      string    `json:"id"`
	Batch   job.ID    `json:"batch"`
	By      string    `json:"by,omitempty"`
	Note    string    `json:"note,omitempty"`
	Made    time.Time `json:"made"`
	Expires time.Time `json:"expires"`
	Path    string    `json:"path,omitempty"` // of the page, with the secret; only in the answer that makes it
}

// Shares are the links of a batch that are valid.
type Shares struct {
	Shares []Share `json:"shares"`
}
