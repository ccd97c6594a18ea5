package trigger

import (
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// Order asks for a run of a schedule. It is the spec of the run.
type Order struct {
	Name     string    `json:"name"`
	Schedule Schedule  `json:"schedule"`          // as it was then
	At       time.Time `json:"at"`                // the time of the schedule that the run is for
	Since    time.Time `json:"since,omitzero"`    // earlier times after this one were missed
	Begins   bool      `json:"begins,omitempty"`  // nothing is archived: the times of the schedule count from At on
	ByHand   bool      `json:"by_hand,omitempty"` // a person started it; At is when
}

// observes reports whether later runs count from the time of this one.
func (o *Order) observes() bool { return !o.ByHand || !o.Schedule.DryRun }

// Mark is a decision about an activity.
type Mark = api.ArchiveMark

// The marks.
const (
	MarkRunning Mark = "RUNNING" // the comparison of a course begins
	MarkArchive Mark = "ARCHIVE" // an archive job is started: the activity is missing or changed
	MarkForce   Mark = "FORCE"   // an archive job is started although the activity did not change
	MarkSkip    Mark = "SKIP"    // no archive is needed now, or another attempt is not due yet
	MarkIgnore  Mark = "IGNORE"  // the activity or course cannot be archived
)

// Record is what a run did: the data of the run.
type Record = api.ArchiveRun

// Decision is what a run decided about an activity, or about a whole course.
type Decision = api.ArchiveDecision

// maxDecisions is the number of decisions and jobs that a record keeps. All are in the log of the run.
const maxDecisions = 500

// note adds a decision to a record. Decisions that start a job are kept before the others.
func note(r *Record, d Decision) {
	if r.Counts == nil {
		r.Counts = map[Mark]int{}
	}
	r.Counts[d.Mark]++
	if d.Wait != nil {
		r.Waiting++
	}
	if len(r.Decisions) < maxDecisions {
		r.Decisions = append(r.Decisions, d)
		return
	}
	r.Omitted++
	if d.Mark != MarkArchive && d.Mark != MarkForce {
		return
	}
	for i := len(r.Decisions) - 1; i >= 0; i-- {
		if m := r.Decisions[i].Mark; m != MarkArchive && m != MarkForce {
			r.Decisions = append(append(r.Decisions[:i:i], r.Decisions[i+1:]...), d)
			return
		}
	}
}

// started adds a job to a record.
func started(r *Record, id job.ID) {
	r.Started++
	if len(r.Jobs) < maxDecisions {
		r.Jobs = append(r.Jobs, id)
	}
}
