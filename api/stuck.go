package api

import (
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Stuck is the answer about stuck jobs: those that are open and should not be, worst first.
type Stuck struct {
	At       time.Time     `json:"at"`
	Stuck    []StuckJob    `json:"stuck"`
	Found    int           `json:"found"` // with those that are beyond the limit
	Looked   int           `json:"looked"`
	Cut      []string      `json:"cut,omitempty"` // what was not searched to its end
	Messages []job.Message `json:"messages"`      // abandoned, the newest first; without their bodies
}

// StuckJob is a job that is stuck.
type StuckJob struct {
	Job      job.ID          `json:"job"`
	Kind     job.Kind        `json:"kind"`
	State    lifecycle.State `json:"state"`
	Group    string          `json:"group,omitempty"`
	Owner    string          `json:"owner,omitempty"`
	Worker   string          `json:"worker,omitempty"`
	Since    time.Time       `json:"since"`         // in the state
	Seconds  int64           `json:"seconds"`       // in the state
	Usual    int64           `json:"usual_seconds"` // what nearly all jobs stay below in the state
	Basis    string          `json:"basis"`         // where Usual comes from: "p95 of 1000 stays", or a default
	Reasons  []StuckReason   `json:"reasons"`       // why it counts as stuck: slow, overdue, silent, held, old-batch
	Blockers []job.Blocker   `json:"blockers"`      // the first of why
}

// StuckReason is why a job counts as stuck.
type StuckReason struct {
	Code     string `json:"code"`
	Sentence string `json:"sentence"`
}
