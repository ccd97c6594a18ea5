package api

import (
	"encoding/json"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Claim is the body by which a worker asks for jobs.
type Claim struct {
	Worker string          `json:"worker"`
	From   []job.KindState `json:"from"`
	N      int             `json:"n"`               // at most 1000
	Lease  float64         `json:"lease,omitempty"` // seconds; 0: the server's default
	Wait   float64         `json:"wait,omitempty"`  // seconds to wait for a job if there is none; at most 60
}

// Leased is a claimed job, as much of it as a worker needs.
type Leased struct {
	ID       job.ID          `json:"id"`
	Kind     job.Kind        `json:"kind"`
	State    lifecycle.State `json:"state"`
	Epoch    int64           `json:"epoch"`
	Until    time.Time       `json:"until"`
	Attempts int             `json:"attempts,omitempty"`
	Starts   int             `json:"starts,omitempty"`
	Retries  int             `json:"retries,omitempty"`
	Expires  time.Time       `json:"expires,omitzero"`
	Parent   job.ID          `json:"parent,omitempty"`
	Group    string          `json:"group,omitempty"`
	Owner    string          `json:"owner,omitempty"`
	Spec     json.RawMessage `json:"spec,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
}

// Claimed is the answer to a claim.
type Claimed struct {
	Jobs []Leased `json:"jobs"`
}

// Renewal is the body by which a worker prolongs its leases.
type Renewal struct {
	Worker string      `json:"worker"`
	Leases []job.Lease `json:"leases"`
	Lease  float64     `json:"lease,omitempty"` // seconds; 0: the server's default
}

// Renewed is the answer to a renewal.
type Renewed struct {
	Lost []job.Lease `json:"lost"` // what the worker must stop working on
}

// Report is what a worker reports of a job. At most one of Event, Wait, Retry and Fail is set; none means success. An
// update, which leaves the claim as it is, has none of them and neither Children nor Again.
type Report struct {
	Job   job.ID          `json:"job"`
	Epoch int64           `json:"epoch"`
	Event lifecycle.Event `json:"event,omitempty"`
	Wait  *job.Blocker    `json:"wait,omitempty"`
	Retry string          `json:"retry,omitempty"`
	After float64         `json:"after,omitempty"` // seconds to wait at least before the retry
	Fail  string          `json:"fail,omitempty"`
	Cause string          `json:"cause,omitempty"`
	// the job waits until all its children have ended; only then the rest holds
	Children bool `json:"children,omitempty"`
	Again    bool `json:"again,omitempty"` // claim the next state for this worker

	Data     json.RawMessage `json:"data,omitempty"`  // replaces the job's data
	Merge    json.RawMessage `json:"merge,omitempty"` // is merged into the job's data (RFC 7396)
	Message  *string         `json:"message,omitempty"`
	Priority *int            `json:"priority,omitempty"`
	Tags     []string        `json:"tags,omitempty"`
	Bytes    *int64          `json:"bytes,omitempty"`
	Advanced bool            `json:"advanced,omitempty"` // claims whose workers crashed before do not count any more
	// created or replaced by name; epoch and changed are the server's
	Tasks    []job.Task    `json:"tasks,omitempty"`
	Messages []Letter      `json:"messages,omitempty"`
	Log      []LogEntry    `json:"log,omitempty"`
	Progress *WorkProgress `json:"progress,omitempty"`
	Spawn    *Spawn        `json:"spawn,omitempty"`
}

// Letter is a message for the outbox. The topic is one that the kind allows; a message whose key was used before is
// left out.
type Letter struct {
	Topic string          `json:"topic"`
	Key   string          `json:"key"` // the id of the job is put in front of it
	Body  json.RawMessage `json:"body,omitempty"`
}

// LogEntry is a line for the log of a job. A line whose number is not higher than an earlier one of the claim is a
// repetition and is left out.
type LogEntry struct {
	N     int64          `json:"n,omitempty"`     // from 1; 0: the line is written however often it comes
	Level string         `json:"level,omitempty"` // debug, info, warn or error; info when left out
	Text  string         `json:"text"`
	Attrs map[string]any `json:"attrs,omitempty"`
}

// WorkProgress is how far the work of a state has come. It is shown as long as the claim lasts, and not stored.
type WorkProgress struct {
	Done  int64  `json:"done"`
	Total int64  `json:"total,omitempty"` // 0: not known
	Unit  string `json:"unit"`
}

// Spawn creates children of a job, at most 500 in one report. Their ids follow from their numbers: a repetition
// creates what is missing.
type Spawn struct {
	Expected int     `json:"expected"`       // children in all
	From     int     `json:"from,omitempty"` // number of the first of Jobs, from 1
	Jobs     []Order `json:"jobs,omitempty"`
}

// Order is a job to be created.
type Order struct {
	Kind     job.Kind        `json:"kind"`
	Priority *int            `json:"priority,omitempty"` // 0 to 99, lower first; 50 when left out
	Group    string          `json:"group,omitempty"`
	Owner    string          `json:"owner,omitempty"`
	Key      string          `json:"key,omitempty"` // a second order with the same key gives the same job
	Tags     []string        `json:"tags,omitempty"`
	Bytes    int64           `json:"bytes,omitempty"`
	Due      time.Time       `json:"due,omitzero"`
	Deadline time.Time       `json:"deadline,omitzero"`
	Spec     json.RawMessage `json:"spec,omitempty"`
	Note     string          `json:"note,omitempty"`
	Actor    string          `json:"actor,omitempty"`
}

// Reports is the body by which a worker reports.
type Reports struct {
	Worker  string   `json:"worker"`
	Reports []Report `json:"reports"`
}

// Reported is the result of one report. With Again, Held means that the job stays with the worker: under Epoch, in
// State.
type Reported struct {
	Job     job.ID            `json:"job"`
	State   lifecycle.State   `json:"state,omitempty"`
	Outcome lifecycle.Outcome `json:"outcome,omitempty"`
	Ended   bool              `json:"ended,omitempty"`
	Held    bool              `json:"held,omitempty"`
	Epoch   int64             `json:"epoch,omitempty"`
	Until   time.Time         `json:"until,omitzero"`
	Problem *Problem          `json:"problem,omitempty"` // this report failed; the others are not affected
}

// Results is the answer to reports, in their order.
type Results struct {
	Results []Reported `json:"results"`
}

// Workers is the answer about the workers that have jobs.
type Workers struct {
	At      time.Time    `json:"at"`
	Workers []WorkerJobs `json:"workers"`       // those with expired leases first, then by name
	Cut     bool         `json:"cut,omitempty"` // only the first 10,000 claimed jobs were counted
}

// WorkerJobs is one worker with its jobs.
type WorkerJobs struct {
	Worker  string     `json:"worker"`
	Jobs    int        `json:"jobs"`
	Expired int        `json:"expired,omitempty"` // of these, jobs whose lease has expired
	Kinds   []job.Kind `json:"kinds"`
	Oldest  time.Time  `json:"oldest"` // when the first of its jobs entered its state
	Until   time.Time  `json:"until"`  // when the first of its leases expires
	Sample  job.ID     `json:"sample"` // one of its jobs
}

// Throughput is the answer about the jobs that ended in the last hours.
type Throughput struct {
	Since time.Time        `json:"since"` // when this server began to count
	Hours []ThroughputHour `json:"hours"` // the oldest first, also those without jobs
}

// ThroughputHour counts the jobs that ended in one hour.
type ThroughputHour struct {
	Start time.Time        `json:"start"`
	Kinds []ThroughputKind `json:"kinds"` // by kind
}

// ThroughputKind counts the jobs of one kind.
type ThroughputKind struct {
	Kind job.Kind `json:"kind"`
	Jobs int64    `json:"jobs"`
}
