package ingest

import (
	"fmt"
	"strings"
	"time"
)

// Text gives the report as the body of the mail, after Merritt's: its first line is empty, and the counters stand behind tabs. What became
// of each object follows.
func (r *BatchReport) Text() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("")
	line("Submission ID: %s", r.Batch)
	line("Job(s): ")
	line("")
	line("\t:Number of pending job(s): %d", r.Pending)
	line("\t:Number of completed job(s): %d", r.Completed)
	line("\t:Number of failed job(s): %d", r.Failed)
	if r.Deleted > 0 {
		line("\t:Number of deleted job(s): %d", r.Deleted)
	}
	line("")
	line("User agent: %s", r.Submitter)
	line("Submission date: %s", r.Submitted.Format(time.RFC3339))
	if !r.Ended.IsZero() {
		line("Completion date: %s", r.Ended.Format(time.RFC3339))
	}
	line("Status: %s", r.Status)
	line("Status Message: %s", r.Message)
	for i := range r.Jobs {
		r.Jobs[i].text(line)
	}
	return b.String()
}

func (j *JobReport) text(line func(string, ...any)) {
	line("")
	line("%s %s", j.State, j.name())
	line("\tJob: %s", j.Job)
	if j.ARK != "" {
		line("\tPrimary ID: %s", j.ARK)
	}
	if len(j.LocalIDs) > 0 {
		line("\tLocal ID(s): %s", strings.Join(j.LocalIDs, "; "))
	}
	if j.Version > 0 {
		line("\tVersion: %d (%d files, %d bytes)", j.Version, j.Files, j.Bytes)
	}
	if j.FailedIn != "" {
		line("\tFailed in %s: %s [%s]", j.FailedIn, j.Message, j.Cause)
	} else if j.Message != "" {
		line("\t%s", j.Message)
	}
}

// name is what a depositor would call the object.
func (j *JobReport) name() string {
	for _, s := range []string{j.Title, j.Filename, j.URL} {
		if s != "" {
			return s
		}
	}
	return payloadName
}
