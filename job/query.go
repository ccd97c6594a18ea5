package job

import (
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Query selects jobs. Empty fields do not restrict.
type Query struct {
	Kinds    []Kind
	States   []lifecycle.State
	Outcomes []lifecycle.Outcome
	Group    string
	Owner    string
	Parent   ID
	Key      string
	Number   int64  // of the one kind in Kinds: at most one job has it, so there is no further page
	IDPart   string // begins the id; or ends it, and the job is among the newest 10,000. One page, newest first
	Tag      string
	Causes   []string
	Ended    *bool
	Before   time.Time // Changed before
	Overdue  time.Time // claim or Expires had ended by then; ended jobs are never overdue. Unordered, one page
	Worker   string    // claimed by a worker whose name has this prefix. Unordered, one page
	Oldest   bool      // oldest first; the default is newest first
	After    string    // cursor: Page.Next of the previous page
	Limit    int       // page size; 0 means 50, at most 1000
}

// Validate returns an error of kind Invalid if Number or IDPart cannot be used: numbers begin with 1, each kind has its
// own, and neither has a second page. Every store calls it first.
func (q *Query) Validate() error {
	switch {
	case q.IDPart != "" && q.After != "":
		return Errorf(Invalid, "list", "", "there is no further page of the ids with %q", q.IDPart)
	case q.Number == 0:
		return nil
	case q.Number < 0:
		return Errorf(Invalid, "list", "", "number %d is invalid: numbers begin with 1", q.Number)
	case len(q.Kinds) != 1:
		return Errorf(Invalid, "list", "", "number %d requires exactly one kind, got %d: each kind has its own numbers",
			q.Number, len(q.Kinds))
	case q.After != "":
		return Errorf(Invalid, "list", "", "there is no page after number %d", q.Number)
	}
	return nil
}

// Matches reports whether the query selects job j. Every store calls it, whatever index it used.
func (q *Query) Matches(j *Job) bool {
	return oneOf(q.Kinds, j.Kind) && oneOf(q.States, j.State) && oneOf(q.Outcomes, j.Outcome) &&
		(q.Group == "" || q.Group == j.Group) && (q.Owner == "" || q.Owner == j.Owner) &&
		(q.Parent == "" || q.Parent == j.Parent) && (q.Key == "" || q.Key == j.Key) &&
		(q.Number == 0 || q.Number == j.Number) &&
		(strings.HasPrefix(string(j.ID), q.IDPart) || strings.HasSuffix(string(j.ID), q.IDPart)) &&
		(q.Tag == "" || slices.Contains(j.Tags, q.Tag)) && oneOf(q.Causes, j.Cause) &&
		(q.Ended == nil || *q.Ended == j.Ended) && (q.Before.IsZero() || j.Changed.Before(q.Before)) &&
		(q.Overdue.IsZero() || j.overdue(q.Overdue)) && strings.HasPrefix(j.Worker, q.Worker)
}

// PageSize returns the number of jobs on a page: Limit within its bounds.
func (q *Query) PageSize() int { return pageSize(q.Limit) }

func pageSize(limit int) int {
	switch {
	case limit <= 0:
		return 50
	case limit > 1000:
		return 1000
	}
	return limit
}

// overdue reports whether the job's claim, or its time in the state, had ended by the time.
func (j *Job) overdue(at time.Time) bool {
	past := func(t time.Time) bool { return !t.IsZero() && !t.After(at) }
	return !j.Ended && ((j.Claimed() && past(j.Until)) || past(j.Expires))
}

func oneOf[T comparable](wanted []T, got T) bool {
	return len(wanted) == 0 || slices.Contains(wanted, got)
}

// Page is one page of a list. Next is empty on the last page.
type Page struct {
	Jobs []Job
	Next string
}

// Tally counts jobs with the same properties.
type Tally struct {
	Kind    Kind            `json:"kind"`
	State   lifecycle.State `json:"state"`
	Group   string          `json:"group"`
	Jobs    int64           `json:"jobs"`
	Claimed int64           `json:"claimed"` // of these, claimed by a worker
	Bytes   int64           `json:"bytes"`   // of these, the sum of the known ones
}
