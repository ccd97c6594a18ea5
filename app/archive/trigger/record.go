package trigger

import (
	"time"

	"github.com/stagepost/stagepost/app/archive/catalog"
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
type Mark string

// The marks.
const (
	MarkRunning Mark = "RUNNING" // the comparison of a course begins
	MarkArchive Mark = "ARCHIVE" // an archive job is started: the activity is missing or changed
	MarkForce   Mark = "FORCE"   // an archive job is started although the activity did not change
	MarkSkip    Mark = "SKIP"    // no archive is needed now, or another attempt is not due yet
	MarkIgnore  Mark = "IGNORE"  // the activity or course cannot be archived
)

// Decision is what a run decided about an activity, or about a whole course.
type Decision struct {
	Mark     Mark          `json:"mark"`
	Course   string        `json:"course"`
	Activity string        `json:"activity,omitempty"` // empty: all of the course
	Module   string        `json:"module,omitempty"`
	Name     string        `json:"name,omitempty"`
	State    catalog.State `json:"state,omitempty"`
	Reason   string        `json:"reason"`
	Wait     *Wait         `json:"wait,omitempty"` // the activity failed before, and the pause is not over
	Job      job.ID        `json:"job,omitempty"`  // the archive job; empty in a dry run
}

// Wait is why an activity is not tried again yet.
type Wait struct {
	Failures int       `json:"failures"` // with the content that it has
	Last     time.Time `json:"last"`
	Until    time.Time `json:"until"`
	Cause    string    `json:"cause"` // of the last failure
}

// maxDecisions is the number of decisions that a record keeps. All are in the log of the run.
const maxDecisions = 500

// Record is what a run did. It is the data of the run.
type Record struct {
	Courses   []string     `json:"courses"`        // ids of all courses of the run
	Next      int          `json:"next,omitempty"` // index of the course that follows
	Counts    map[Mark]int `json:"counts"`         // of all decisions
	Jobs      []job.ID     `json:"jobs,omitempty"` // that were started; at most maxDecisions
	Started   int          `json:"started"`        // number of jobs
	Unread    int          `json:"unread,omitempty"`
	Waiting   int          `json:"waiting,omitempty"`   // activities that failed before, and whose pause is not over
	Decisions []Decision   `json:"decisions,omitempty"` // at most maxDecisions; starts are kept before the others
	Omitted   int          `json:"omitted,omitempty"`
}

// note adds a decision.
func (r *Record) note(d Decision) {
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

// started adds a job.
func (r *Record) started(id job.ID) {
	r.Started++
	if len(r.Jobs) < maxDecisions {
		r.Jobs = append(r.Jobs, id)
	}
}
