// Package remote has what workers in other processes exchange with an engine: they claim jobs, renew their claims and
// report. A report can do what a step does by its return value and by the methods of its run.
package remote

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Workers is the side of an engine that remote workers use. A zero lease means the default of the engine.
type Workers interface {
	// Claim claims jobs for a worker in the states it names, under the same limits as the engine's own claims. States
	// and jobs that require labels which the worker does not have are left out.
	Claim(ctx context.Context, c Claim) ([]job.Job, error)
	// Renew renews claims of a worker and returns those that are over.
	Renew(ctx context.Context, worker string, leases []job.Lease, lease time.Duration) ([]job.Lease, error)
	// Report commits what a worker reports. Each report succeeds or fails alone. A report that is repeated because its
	// answer was lost succeeds again and changes nothing. records are the jobs as the caller read them, in the order of
	// the reports.
	Report(ctx context.Context, worker string, records []job.Job, reports []Report) ([]job.Result, error)
}

// Server is what a remote worker requests of its server in the middle of the work on a job.
type Server interface {
	// Update commits a report that leaves the claim as it is (Keep). It repeats the request until it has an answer.
	Update(ctx context.Context, r Report) error
	// Read returns the record and the tasks of a job that the worker has claimed, or kind Stale.
	Read(ctx context.Context, l job.Lease) (job.Job, []job.Task, error)
}

// Claim requests up to N jobs for a worker.
type Claim struct {
	Worker string
	From   []job.KindState
	N      int
	Lease  time.Duration
	Labels []string // that the worker has
}

// Report is a worker's report about a job that it claimed: an outcome as a step returns it, and what a step sets by the
// methods of its run. At most one of Event, Wait, Retry, Fail and Yield is set; without them the outcome is success.
type Report struct {
	Job   job.ID
	Epoch int64
	Event lifecycle.Event // a named event; empty: the state's success event, or one of the below
	Wait  *job.Blocker
	Retry string        // the error
	After time.Duration // Retry: at least this pause
	Fail  string        // the error
	Cause string        // of Retry or Fail
	Yield bool          // the worker stops: the job returns to its queue, and no attempt is counted
	// the job waits until all its children have ended; the rest of the report applies after that
	Children bool
	Again    bool // the worker claims the next state in the same commit, where a claim would be granted
	// restricts Again to some of the states; nil: it is not restricted
	To    func(lifecycle.State) bool
	Lease time.Duration // of the claim by Again; 0: that of the engine
	Keep  bool          // the worker continues under its claim: the report has no outcome

	Data     json.RawMessage // replaces the job's data
	Merge    json.RawMessage // is merged into the job's data (RFC 7396); not together with Data
	Message  *string         // for the user
	Priority *int
	Tags     []string // that holds and limits can name, besides the group; nil: unchanged
	Words    []string // texts by whose words people find the job; nil: unchanged
	Bytes    *int64
	Deadline *time.Time // when the job must have ended, counted from the state that the report leads to
	Advanced bool       // earlier claims without a report no longer count towards poison
	Tasks    []job.Task
	Messages []Message
	Log      []Line
	Progress *job.Progress
	Spawn    *Spawn
}

// Message is a message for the outbox. Key must follow from the work alone; the job's id becomes its prefix.
type Message struct {
	Topic string
	Key   string
	Body  json.RawMessage
}

// Line is a line for the job's log. A line whose number is not higher than that of an earlier line of the claim is a
// repetition and is ignored.
type Line struct {
	Number int64 // from 1; 0: repetitions are written too
	Level  slog.Level
	Text   string
	Attrs  map[string]any
}

// Spawn creates children. Their ids follow from the parent and their number, so that a repetition creates only those
// that are missing. Jobs may be spread over several reports.
type Spawn struct {
	Expected int // children in all
	From     int // number of the first of Jobs, from 1
	Jobs     []Child
}

// Child asks for a child to be created. It has the owner of its parent.
type Child struct {
	Kind     job.Kind
	Priority *int // nil: job.DefaultPriority
	Group    string
	Owner    string // empty, or that of the parent
	Key      string // idempotency key
	Tags     []string
	Words    []string // texts by whose words people find it
	Requires []string // labels that a worker must have to claim it
	Bytes    int64
	Due      time.Time
	Deadline time.Time
	Spec     any // encoded as JSON
	Actor    string
	Note     string // why; part of the history's first entry
}
