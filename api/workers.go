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

// Workers is the list of the workers that are known to the server.
type Workers struct {
	Workers []WorkerInfo `json:"workers"`
}

// WorkerInfo is a worker: of the server itself, or elsewhere.
type WorkerInfo struct {
	Name    string          `json:"name"`
	State   string          `json:"state"`
	Where   string          `json:"where"` // server, api (it claims over the API) or agent
	Host    string          `json:"host,omitempty"`
	Version string          `json:"version,omitempty"`
	Slots   int             `json:"slots,omitempty"`
	Running []job.ID        `json:"running"` // jobs that it has claimed, as far as this server has seen
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
