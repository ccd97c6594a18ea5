package job

import (
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
	Ended    *bool
	Before   time.Time // Changed before
	Overdue  time.Time // claim or Expires ran out by then; ended jobs are never overdue. In no order, one page
	Worker   string    // claimed by a worker whose name starts so. In no order, one page
	Oldest   bool      // oldest first; the default is newest first
	After    string    // cursor: Page.Next of the page before
	Limit    int       // page size; 0 means 50, at most 1000
}

// Page is one page of a list. Next is empty on the last one.
type Page struct {
	Jobs []Job
	Next string
}

// Tally is a number of jobs that stand alike.
type Tally struct {
	Kind    Kind            `json:"kind"`
	State   lifecycle.State `json:"state"`
	Group   string          `json:"group"`
	Jobs    int64           `json:"jobs"`
	Claimed int64           `json:"claimed"` // of these, held by a worker
}
