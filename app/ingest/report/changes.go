package report

import (
	"fmt"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Changes are what is new in a report since the one before. The lists hold jobs in the order of the manifest; together
// with the unchanged ones they are all of them.
type Changes = api.Changes

// Since compares the jobs with those of the report of an earlier generation; nil is a report that is gone.
func (r *Batch) Since(before *Batch, generation int) *Changes {
	c := &Changes{Since: generation, Succeeded: []job.ID{}, Newly: []job.ID{}, Failed: []job.ID{}, Open: []job.ID{},
		Deleted: []job.ID{}}
	then := map[job.ID]Job{}
	if before == nil {
		c.Missing = true
	} else {
		for _, j := range before.Jobs {
			then[j.Job] = j
		}
	}
	for i := range r.Jobs {
		now := &r.Jobs[i]
		was, known := then[now.Job]
		switch {
		case now.State == stateDeleted && was.State != stateDeleted:
			c.Deleted = append(c.Deleted, now.Job)
		case now.State == stateDeleted, known && now.Outcome == lifecycle.OK && was.Outcome == lifecycle.OK:
			c.Unchanged++
		case now.Outcome == lifecycle.OK:
			c.Succeeded = append(c.Succeeded, now.Job)
		case now.Outcome == lifecycle.None:
			c.Open = append(c.Open, now.Job)
		case known && was.Outcome != lifecycle.None && sameFailure(&was, now):
			c.Failed = append(c.Failed, now.Job)
		default:
			c.Newly = append(c.Newly, now.Job)
		}
	}
	return c
}

// facts is what a report has about a job, without what follows from it and without its number of attempts.
func facts(j Job) Job {
	j.Retries, j.Reason, j.Remedy, j.Next = 0, "", "", ""
	j.Creator, j.Date, j.Type = "", "", "" // older versions did not keep them
	return j
}

func sameFailure(j, k *Job) bool {
	return j.Outcome == k.Outcome && j.FailedIn == k.FailedIn && j.Cause == k.Cause && j.Message == k.Message
}

// sentences describe the changes to a depositor.
func sentences(c *Changes) []string {
	if c.Missing {
		return []string{"Our copy of the report before this one is gone, so this report does not list what is new: " +
			"it shows everything as it is now."}
	}
	var all []string
	say := func(n int, one, many string) {
		switch {
		case n == 1:
			all = append(all, "1 object "+one+".")
		case n > 1:
			all = append(all, fmt.Sprintf("%d objects %s.", n, many))
		}
	}
	say(len(c.Succeeded), "was stored that had not been stored before", "were stored that had not been stored before")
	say(len(c.Newly), "failed, or failed for another reason than before",
		"failed, or failed for another reason than before")
	say(len(c.Open), "is being worked on again or is on hold", "are being worked on again or are on hold")
	say(len(c.Deleted), "was taken out of the submission", "were taken out of the submission")
	say(len(c.Failed), "still could not be stored, as before", "still could not be stored, as before")
	say(c.Unchanged, "is as it was", "are as they were")
	return all
}
