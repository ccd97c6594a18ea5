package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/stagepost/stagepost/internal/printable"
	"github.com/stagepost/stagepost/lifecycle"
)

// Text gives the report as the body of the mail, after Merritt's: its first line is empty, and the counters stand
// behind tabs. Then it states in plain words what happened, what there is to do, what is new, and what became of each
// object.
func (r *Batch) Text() string { return r.text(math.MaxInt) }

// text names at most so many objects of each list.
func (r *Batch) text(most int) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	r.head(line)
	line("")
	line("What happened: %s", r.Summary)
	line("What there is to do: %s", r.Next)
	if c := r.Changes; c != nil {
		line("")
		line("What is new since the last report:")
		for _, s := range sentences(c) {
			line("\t%s", s)
		}
	}
	for _, list := range r.lists() {
		if len(list.jobs) == 0 {
			continue
		}
		line("")
		line("%s (%d):", list.title, len(list.jobs))
		for i := range list.jobs[:min(most, len(list.jobs))] {
			writeJob(&list.jobs[i], line)
		}
		if more := len(list.jobs) - most; more > 0 {
			line("")
			line("... and %d more.", more)
		}
	}
	return b.String()
}

// head is what Merritt's mail has.
func (r *Batch) head(line func(string, ...any)) {
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
	line("User agent: %s", printable.Shown(r.Submitter))
	line("Submission date: %s", r.Submitted.Format(time.RFC3339))
	if !r.Ended.IsZero() {
		line("Completion date: %s", r.Ended.Format(time.RFC3339))
	}
	line("Status: %s", r.Status)
	line("Status Message: %s", printable.Shown(r.Message))
}

// list is one heading with the jobs below it.
type list struct {
	title string
	jobs  []Job
}

// lists sorts the jobs by what became of them. What needs attention comes first.
func (r *Batch) lists() []list {
	all := []list{{title: "Not stored"}, {title: "Not done yet"}, {title: "Stored"},
		{title: "Taken out of the submission"}}
	for _, j := range r.Jobs {
		i := 0
		switch {
		case j.State == stateDeleted:
			i = 3
		case j.Outcome == lifecycle.OK:
			i = 2
		case j.Outcome == lifecycle.None:
			i = 1
		}
		all[i].jobs = append(all[i].jobs, j)
	}
	return all
}

func writeJob(j *Job, line func(string, ...any)) {
	line("")
	line("%s %s", j.State, printable.Shown(NameOf(j)))
	line("\tJob: %s", j.Job)
	if j.ARK != "" {
		line("\tPrimary ID: %s", printable.Shown(j.ARK))
	}
	if len(j.LocalIDs) > 0 {
		line("\tLocal ID(s): %s", printable.Shown(strings.Join(j.LocalIDs, "; ")))
	}
	if j.Version > 0 {
		line("\tVersion: %d (%d files, %d bytes)", j.Version, j.Files, j.Bytes)
	}
	if j.Reason != "" {
		line("\tReason: %s", j.Reason)
	}
	if j.FailedIn != "" {
		line("\tFailed in %s: %s [%s]", j.FailedIn, printable.Shown(j.Message), j.Cause)
	} else if j.Message != "" {
		line("\t%s", printable.Shown(j.Message))
	}
	for _, w := range j.Warnings {
		line("\tWarning: %s", printable.Shown(w))
	}
	if j.Next != "" {
		line("\t%s", j.Next)
	}
}

// NameOf is what a depositor would call the object of a job.
func NameOf(j *Job) string {
	for _, s := range []string{j.Title, j.Filename, j.URL} {
		if s != "" {
			return s
		}
	}
	return "payload"
}
