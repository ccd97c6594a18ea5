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
	Tag      string
	Causes   []string
	Ended    *bool
	Before   time.Time // Changed before
	Worker   string    // claimed by a worker whose name begins with it
	Words    []string  // that the job has, the last one as the beginning of a word; as words.Sought returns them
	Oldest   bool      // oldest first; the default is newest first
	After    string    // cursor: Page.Next of the previous page
	Limit    int       // page size; 0 means 50, at most 1000
}

// EndedQuery selects ended jobs of a kind by their age.
type EndedQuery struct {
	Kind   Kind
	States []lifecycle.State // in one of them; none: no job
	Before time.Time         // Changed before
	After  string            // cursor: Page.Next of the previous page
	Limit  int               // page size; 0 means 50, at most 1000
}

// Matches reports whether the query selects job j.
func (q *EndedQuery) Matches(j *Job) bool {
	return j.Ended && j.Kind == q.Kind && slices.Contains(q.States, j.State) && j.Changed.Before(q.Before)
}

// PageSize returns the number of jobs on a page: Limit within its bounds.
func (q *EndedQuery) PageSize() int { return pageSize(q.Limit) }

// Matches reports whether the query selects job j. Every store calls it, whatever index it used.
func (q *Query) Matches(j *Job) bool {
	return oneOf(q.Kinds, j.Kind) && oneOf(q.States, j.State) && oneOf(q.Outcomes, j.Outcome) &&
		(q.Group == "" || q.Group == j.Group) && (q.Owner == "" || q.Owner == j.Owner) &&
		(q.Parent == "" || q.Parent == j.Parent) && (q.Key == "" || q.Key == j.Key) &&
		(q.Tag == "" || slices.Contains(j.Tags, q.Tag)) && oneOf(q.Causes, j.Cause) &&
		(q.Ended == nil || *q.Ended == j.Ended) && (q.Before.IsZero() || j.Changed.Before(q.Before)) &&
		strings.HasPrefix(j.Worker, q.Worker) && q.HasWords(j)
}

// PageSize returns the number of jobs on a page: Limit within its bounds.
func (q *Query) PageSize() int { return pageSize(q.Limit) }

// mostPage bounds the rows of a page.
const mostPage = 1000

func pageSize(limit int) int {
	if limit <= 0 {
		return 50
	}
	return min(limit, mostPage)
}

// Overdue reports whether the job's claim, or its time in the state, had ended by the time.
func (j *Job) Overdue(at time.Time) bool {
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
	Bytes   int64           `json:"bytes"`   // of these, the sum of the known ones, at most 2^63-1
}
