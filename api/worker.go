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

// Report is what a worker says of a job. At most one of Event, Wait, Retry and Fail is set; none means success.
type Report struct {
	Job   job.ID          `json:"job"`
	Epoch int64           `json:"epoch"`
	Event lifecycle.Event `json:"event,omitempty"`
	Wait  *Blocker        `json:"wait,omitempty"`
	Retry string          `json:"retry,omitempty"`
	Fail  string          `json:"fail,omitempty"`
	Cause string          `json:"cause,omitempty"`
	Data  json.RawMessage `json:"data,omitempty"`
	Again bool            `json:"again,omitempty"` // go straight on with the next state
}

// Reports is the body by which a worker reports.
type Reports struct {
	Worker  string   `json:"worker"`
	Reports []Report `json:"reports"`
}

// Reported is what became of one report. With Again, Held says that the job stays with the worker: under Epoch, in State.
type Reported struct {
	Job     job.ID            `json:"job"`
	State   lifecycle.State   `json:"state,omitempty"`
	Outcome lifecycle.Outcome `json:"outcome,omitempty"`
	Ended   bool              `json:"ended,omitempty"`
	Held    bool              `json:"held,omitempty"`
	Epoch   int64             `json:"epoch,omitempty"`
	Until   time.Time         `json:"until,omitzero"`
	Problem *Problem          `json:"problem,omitempty"` // this report failed, the others stand
}

// Results is the answer to reports, in their order.
type Results struct {
	Results []Reported `json:"results"`
}
