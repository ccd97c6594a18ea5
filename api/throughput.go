package api

import (
	"time"

	"github.com/stagepost/stagepost/job"
)

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
