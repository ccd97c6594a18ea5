package api

import (
	"time"

	"github.com/stagepost/stagepost/job"
)

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
	// server, api (it claims over the API), agent or elsewhere: it has jobs of the store and is not known
	// here, such as another server of the store
	Where   string          `json:"where"`
	Host    string          `json:"host,omitempty"`
	Version string          `json:"version,omitempty"`
	Slots   int             `json:"slots,omitempty"`
	Running []job.ID        `json:"running"`           // jobs that it has claimed, at most 100
	Jobs    int             `json:"jobs"`              // how many it has claimed
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
