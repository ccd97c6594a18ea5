package api

import (
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Queue is the answer about the jobs of collections: by collection and state, with totals. It costs the same with a
// thousand jobs and a million.
type Queue struct {
	At     time.Time    `json:"at"`
	Rows   []job.Tally  `json:"rows"`   // by group, kind, and state in the order of its lifecycle
	States []QueueTotal `json:"states"` // totals by kind and state
	Total  QueueTotal   `json:"total"`
}

// QueueTotal counts jobs.
type QueueTotal struct {
	Kind    job.Kind        `json:"kind,omitempty"`
	State   lifecycle.State `json:"state,omitempty"`
	Jobs    int64           `json:"jobs"`
	Claimed int64           `json:"claimed"` // of these, held by a worker
	Bytes   int64           `json:"bytes"`   // of these, as far as it is known
}

// QueueBatches is a page of batches by age, the oldest first.
type QueueBatches struct {
	At      time.Time    `json:"at"`
	Batches []QueueBatch `json:"batches"`
	Next    string       `json:"next,omitempty"`
}

// QueueBatch is a batch with its jobs by outcome.
type QueueBatch struct {
	Job      job.ID            `json:"job"`
	Kind     job.Kind          `json:"kind"`
	State    lifecycle.State   `json:"state"`
	Outcome  lifecycle.Outcome `json:"outcome,omitempty"`
	Group    string            `json:"group,omitempty"`
	Owner    string            `json:"owner,omitempty"`
	Created  time.Time         `json:"created"`
	Seconds  int64             `json:"seconds"` // its age
	Bytes    int64             `json:"bytes"`
	Children job.Children      `json:"children"`
	Level    string            `json:"level,omitempty"` // FAIL: it failed; WARN: open and older than a day
	Message  string            `json:"message,omitempty"`
}

// QueueHolds is the answer about what is held.
type QueueHolds struct {
	Holds []QueueHold `json:"holds"`
	Held  []job.Tally `json:"held"` // jobs in states that wait for a person
}

// QueueHold is a hold with the number of open jobs that it concerns.
type QueueHold struct {
	job.Hold
	Jobs int64 `json:"jobs"`
	More bool  `json:"more,omitempty"` // there are more than were counted
}

// Throughput is the answer about the jobs that ended in the last hours.
type Throughput struct {
	Since time.Time        `json:"since"` // jobs that ended earlier are not counted, or not yet
	Hours []ThroughputHour `json:"hours"` // the oldest first, also those without jobs
}

// ThroughputHour counts the jobs that ended in one hour.
type ThroughputHour struct {
	Start time.Time        `json:"start"`
	Kinds []ThroughputKind `json:"kinds"` // by kind
}

// ThroughputKind counts the jobs of one kind, all and by outcome.
type ThroughputKind struct {
	Kind      job.Kind `json:"kind"`
	Jobs      int64    `json:"jobs"`
	OK        int64    `json:"ok,omitempty"`
	Failed    int64    `json:"failed,omitempty"`
	TimedOut  int64    `json:"timed_out,omitempty"`
	Cancelled int64    `json:"cancelled,omitempty"`
}
