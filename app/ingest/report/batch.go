package report

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Batch is the report about a batch. It follows from the records alone: every server makes the same one. Its JSON is
// what the files of reports hold and what the API answers: files of older versions are still read, so that a name in it
// never changes.
type Batch struct {
	api.BatchReport
	// Merritt gives failed.json and completed.json, the attachments of mails, the keys of Merritt.
	Merritt bool `json:"-"`
	// Configurations of the jobs, for the same.
	Configurations map[job.ID]*Configuration `json:"-"`
}

// Job is the report about one object.
type Job = api.JobReport

// Conclude settles the status and its message when the jobs are in and counted; those that are expected and not there
// count as pending. failure is why the batch made no jobs, or not all of them, else "".
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

// Bad reports whether an object of the batch is not stored.
func (r *Batch) Bad() bool { return r.Failed > 0 || r.Pending > 0 }

// Digest identifies what the report has about the jobs, to find out whether anything changed. A retry that failed in
// the same way again is no news, and the plain words follow from the rest. Records keep it, so that it must stay the
// same from one version of the program to the next.
func (r *Batch) Digest() (string, error) {
	jobs := slices.Clone(r.Jobs)
	for i := range jobs {
		jobs[i] = facts(jobs[i])
	}
	text, err := json.Marshal(jobs)
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
