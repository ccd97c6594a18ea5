package api

import (
	"time"

	"github.com/stagepost/stagepost/job"
)

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
