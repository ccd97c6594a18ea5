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

	Labels  []string `json:"labels,omitempty"`  // that states can require, such as gpu or zone=b
	Host    string   `json:"host,omitempty"`    // the machine, for people
	Version string   `json:"version,omitempty"` // of the worker's program, for people
	Slots   int      `json:"slots,omitempty"`   // jobs that it works on at once, for people
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

	Definition string        `json:"definition,omitempty"` // hash of the lifecycle with which it was created
	Tags       []string      `json:"tags,omitempty"`
	Requires   []string      `json:"requires,omitempty"` // labels that its workers must have
	Deadline   time.Time     `json:"deadline,omitzero"`
	Children   *job.Children `json:"children,omitempty"` // of a batch
}

// LeasedOf returns what a worker gets of a record.
func LeasedOf(j *job.Job) Leased {
	l := Leased{
		ID: j.ID, Kind: j.Kind, State: j.State, Epoch: j.Epoch, Until: j.Until, Attempts: j.Attempts, Starts: j.Starts,
		Retries: j.Retries, Expires: j.Expires, Parent: j.Parent, Group: j.Group, Owner: j.Owner, Spec: j.Spec,
		Data: j.Data, Definition: j.Definition, Tags: j.Tags, Requires: j.Requires, Deadline: j.Deadline,
	}
	if j.Children.Expected > 0 {
		l.Children = &j.Children
	}
	return l
}

// Record returns the record of a job that a worker has claimed, with what the claim has of it.
func (l *Leased) Record(worker string) job.Job {
	j := job.Job{
		ID: l.ID, Kind: l.Kind, Epoch: l.Epoch, Worker: worker, Until: l.Until, Attempts: l.Attempts, Starts: l.Starts,
		Retries: l.Retries, Expires: l.Expires, Parent: l.Parent, Group: l.Group, Owner: l.Owner, Spec: l.Spec,
		Data: l.Data, Definition: l.Definition, Tags: l.Tags, Requires: l.Requires, Deadline: l.Deadline,
	}
	j.State = l.State
	if l.Children != nil {
		j.Children = *l.Children
	}
	return j
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

// Report is what a worker reports of a job. At most one of Event, Wait, Retry, Fail and Yield is set; none means
// success. An update, which leaves the claim as it is, has none of them and neither Children nor Again.
type Report struct {
	Job   job.ID          `json:"job"`
	Epoch int64           `json:"epoch"`
	Event lifecycle.Event `json:"event,omitempty"`
	Wait  *job.Blocker    `json:"wait,omitempty"`
	Retry string          `json:"retry,omitempty"`
	After float64         `json:"after,omitempty"` // seconds to wait at least before the retry
	Fail  string          `json:"fail,omitempty"`
	Cause string          `json:"cause,omitempty"`
	Yield bool            `json:"yield,omitempty"` // the worker stops: the job returns to its queue, no attempt is counted
	// the job waits until all its children have ended; only then the rest holds
	Children bool `json:"children,omitempty"`
	Again    bool `json:"again,omitempty"` // claim the next state for this worker, if a claim would be granted

	Data     json.RawMessage `json:"data,omitempty"`  // replaces the job's data
	Merge    json.RawMessage `json:"merge,omitempty"` // is merged into the job's data (RFC 7396)
	Message  *string         `json:"message,omitempty"`
	Priority *int            `json:"priority,omitempty"`
	Tags     []string        `json:"tags,omitempty"`
	Words    []string        `json:"words,omitempty"` // texts by whose words people find the job, such as a title
	Bytes    *int64          `json:"bytes,omitempty"`
	Deadline *time.Time      `json:"deadline,omitempty"` // when the whole job must have ended
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
	Words    []string        `json:"words,omitempty"`    // texts by whose words people find the job, such as a title
	Requires []string        `json:"requires,omitempty"` // labels that a worker must have to claim it, such as gpu
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
	Lease   float64  `json:"lease,omitempty"` // seconds, of claims by Again; the answer then has these jobs. 0: the server's default
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
	Leased  *Leased           `json:"leased,omitempty"`  // with Held, if the reports had a lease: as a claim has it, without spec
	Problem *Problem          `json:"problem,omitempty"` // this report failed; the others are not affected
}

// Results is the answer to reports, in their order.
type Results struct {
	Results []Reported `json:"results"`
}

// WorkerLease is the body by which a worker reads a job that it has claimed.
type WorkerLease struct {
	Worker string `json:"worker"`
	Job    job.ID `json:"job"`
	Epoch  int64  `json:"epoch"`
}

// WorkerJob is a claimed job as it is now, with its tasks.
type WorkerJob struct {
	Job   Leased     `json:"job"`
	Tasks []job.Task `json:"tasks"`
}

// States of workers.
const (
	WorkerIdle     = "idle"     // it takes jobs and has none
	WorkerBusy     = "busy"     // it has jobs
	WorkerDraining = "draining" // it takes no jobs, by stagepost workers drain
	WorkerSilent   = "silent"   // it has sent no request for longer than its requests are apart
)

// Workers is the list of the workers that are known to the server, and of those that have jobs.
type Workers struct {
	At      time.Time    `json:"at"`
	Workers []WorkerInfo `json:"workers"`
	Cut     bool         `json:"cut,omitempty"` // only the first 10,000 claimed jobs were read
}

// WorkerInfo is a worker: of this server, or elsewhere.
type WorkerInfo struct {
	Name  string `json:"name"`
	State string `json:"state"`
	// server, also another one of the store; api (it claims over the API), agent or elsewhere: it has jobs of the
	// store and is not known here
	Where   string          `json:"where"`
	Host    string          `json:"host,omitempty"`
	Version string          `json:"version,omitempty"`
	Slots   int             `json:"slots,omitempty"`
	Running []job.ID        `json:"running"`           // jobs that it has claimed, at most 100
	Jobs    int             `json:"jobs"`              // how many it has claimed; of an agent, how many it runs
	Tag     string          `json:"tag,omitempty"`     // of the jobs of an agent, which its server has claimed
	Expired int             `json:"expired,omitempty"` // of these, jobs whose lease has expired
	Kinds   []job.Kind      `json:"kinds,omitempty"`   // of the jobs that it has claimed
	Oldest  time.Time       `json:"oldest,omitzero"`   // when the first of its jobs entered its state
	Until   time.Time       `json:"until,omitzero"`    // when the first of its leases expires
	From    []job.KindState `json:"from"`
	Labels  []string        `json:"labels"`
	Seen    time.Time       `json:"seen,omitzero"` // its last request
	Drain   *job.Hold       `json:"drain,omitempty"`
}

// WorkerDrain is the body by which a worker is drained or resumed.
type WorkerDrain struct {
	Note  string `json:"note,omitempty"` // why
	Actor string `json:"actor,omitempty"`
}
