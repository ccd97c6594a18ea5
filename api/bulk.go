package api

import (
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Bulk asks for one thing to be done to many jobs: to all that match every filter given, of which there must be one.
type Bulk struct {
	Kinds    []job.Kind          `json:"kinds,omitempty"`
	States   []lifecycle.State   `json:"states,omitempty"`
	Outcomes []lifecycle.Outcome `json:"outcomes,omitempty"`
	Group    string              `json:"group,omitempty"`
	Owner    string              `json:"owner,omitempty"`
	Parent   job.ID              `json:"parent,omitempty"`
	Tag      string              `json:"tag,omitempty"`
	Causes   []string            `json:"causes,omitempty"`
	Worker   string              `json:"worker,omitempty"` // claimed by a worker whose name begins with it
	Words    string              `json:"words,omitempty"`  // text whose words the jobs have, the last may be a beginning
	Ended    *bool               `json:"ended,omitempty"`  // no filter on its own
	Before   time.Time           `json:"before,omitzero"`  // last changed before

	Event    lifecycle.Event `json:"event"`
	Priority *int            `json:"priority,omitempty"` // 0..99, for the event priority and no other
	Note     string          `json:"note,omitempty"`     // reason; required except for a preview
	Actor    string          `json:"actor,omitempty"`    // the person
	Key      string          `json:"key,omitempty"`      // idempotency key
	Expect   *int            `json:"expect,omitempty"`   // number of jobs that match; required except for a preview
	Confirm  bool            `json:"confirm,omitempty"`  // the operator accepts what the event loses
}

// BulkFilters are the parameters of the list of jobs that a bulk has, too. The others are the idempotency key of a job,
// and those that do not select.
func BulkFilters() []string {
	return []string{"kind", "state", "outcome", "group", "owner", "parent", "tag", "cause", "worker", "words", "ended"}
}

// BulkPreview is what a bulk would meet.
type BulkPreview struct {
	Event  lifecycle.Event  `json:"event"`
	Count  int              `json:"count"`
	Bytes  int64            `json:"bytes"` // as far as known
	Legal  int              `json:"legal"` // number of jobs whose lifecycle has the event in their state
	States []BulkStateCount `json:"states"`
	Groups []BulkCount      `json:"groups"`
	Causes []BulkCount      `json:"causes"`
	Sample []BulkSample     `json:"sample"` // the oldest
	// of the sample: jobs whose lifecycle has the event, and which a rule of the application would refuse now
	Refused int `json:"refused"`
}

// BulkStateCount counts the matches in one state of one kind.
type BulkStateCount struct {
	Kind  job.Kind          `json:"kind"`
	State lifecycle.State   `json:"state"`
	Jobs  int               `json:"jobs"`
	Bytes int64             `json:"bytes"`
	Legal int               `json:"legal"` // of the jobs
	Can   []lifecycle.Event `json:"can"`   // events that are open to an operator
}

// BulkCount counts the matches of one group or cause.
type BulkCount struct {
	Name  string `json:"name"` // empty: jobs without one
	Jobs  int    `json:"jobs"`
	Bytes int64  `json:"bytes"`
}

// BulkSample is one of the matches.
type BulkSample struct {
	ID      job.ID          `json:"id"`
	Kind    job.Kind        `json:"kind"`
	State   lifecycle.State `json:"state"`
	Group   string          `json:"group,omitempty"`
	Owner   string          `json:"owner,omitempty"`
	Cause   string          `json:"cause,omitempty"`
	Message string          `json:"message,omitempty"`
	Refused string          `json:"refused,omitempty"` // why it would be refused now
}

// BulkResult is what a bulk did. While it runs, the numbers are those up to its last page.
type BulkResult struct {
	Matches  int           `json:"matches"` // as counted at the start
	Done     int           `json:"done"`
	Refused  int           `json:"refused"` // by a lifecycle or a rule
	Changed  int           `json:"changed"` // changed before the bulk reached them, so that they no longer matched
	Skipped  int           `json:"skipped"` // deleted and purged
	Refusals []BulkRefusal `json:"refusals,omitempty"`
}

// BulkRefusal is why some jobs refused.
type BulkRefusal struct {
	Reason string   `json:"reason"`
	Jobs   int      `json:"jobs"`
	Sample []job.ID `json:"sample,omitempty"` // some of them
	// the lifecycle has no such event in the state of the jobs; else a rule refused it
	Lifecycle bool `json:"lifecycle,omitempty"`
}
