package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Batch says what became of a batch. It follows from the records alone: whoever makes it, and however often, it is the same. Its JSON is what the
// files of reports hold and what the API answers: files of older versions are still read, so that a name in it never changes.
type Batch struct {
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
	Summary    string          `json:"summary"` // what happened, for the depositor
	Next       string          `json:"next"`    // what there is to do, for the depositor
	Changes    *Changes        `json:"changes,omitempty"`
	Jobs       []Job           `json:"jobs"` // in the order of the manifest
}

// Job says what became of one object.
type Job struct {
	Job      job.ID            `json:"job"`
	State    lifecycle.State   `json:"state"`
	Outcome  lifecycle.Outcome `json:"outcome,omitempty"`
	Row      int               `json:"row,omitempty"`
	Filename string            `json:"filename,omitempty"`
	URL      string            `json:"url,omitempty"`
	ARK      string            `json:"ark,omitempty"`
	LocalIDs []string          `json:"local_ids,omitempty"`
	Title    string            `json:"title,omitempty"`
	Version  int               `json:"version,omitempty"`
	Files    int               `json:"files,omitempty"`
	Bytes    int64             `json:"bytes,omitempty"`
	FailedIn lifecycle.State   `json:"failed_in,omitempty"`
	Cause    string            `json:"cause,omitempty"`
	Message  string            `json:"message,omitempty"`
	Warnings []string          `json:"warnings,omitempty"` // what was odd in what was handed in, and was stored all the same
	Retries  int               `json:"retries,omitempty"`
	Reason   string            `json:"reason,omitempty"` // why it failed, in plain words
	Remedy   Remedy            `json:"remedy,omitempty"` // who can bring it into storage after all
	Next     string            `json:"next,omitempty"`   // the same for the depositor, as a sentence
}

// Conclude settles the status and its message when the jobs are in and counted; those that are expected and not there count as pending. failure is
// why the batch made no jobs, or not all of them, else "".
func (r *Batch) Conclude(failure string) {
	r.Pending += max(0, r.Expected-r.Pending-r.Completed-r.Failed-r.Deleted)
	switch {
	case failure != "":
		r.Status, r.Message = "Failed", failure
	case r.Failed > 0:
		r.Status = "Failed"
	case r.Pending > 0 || r.Expected == 0:
		r.Status = "Pending"
	default:
		r.Status, r.Message = "COMPLETED", "Success"
	}
}

// Bad tells whether the batch is not all stored.
func (r *Batch) Bad() bool { return r.Failed > 0 || r.Pending > 0 }

// Digest names what the report says of the jobs, to see whether anything changed. A retry that failed in the same way again is no news, and
// the plain words follow from the rest. Records keep it, so that it must stay the same from one version of the program to the next.
func (r *Batch) Digest() (string, error) {
	facts := slices.Clone(r.Jobs)
	for i := range facts {
		facts[i] = facts[i].facts()
	}
	text, err := json.Marshal(facts)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// with gives the jobs that completed, or those that failed. Deleted ones are neither.
func (r *Batch) with(completed bool) []Job {
	all := []Job{}
	for _, j := range r.Jobs {
		if ok := j.Outcome == lifecycle.OK; ok == completed && j.Outcome != lifecycle.None && j.State != stateDeleted {
			all = append(all, j)
		}
	}
	return all
}
