package job

import (
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Place is a state of a kind: where claims are made and jobs are counted.
type Place struct {
	Kind  Kind            `json:"kind"`
	State lifecycle.State `json:"state"`
}

// Claim asks for jobs to work on. Granted jobs have their epoch and starts raised in the same commit.
type Claim struct {
	Worker string
	From   []Place // the states the worker has steps for
	N      int     // at most so many
	Until  time.Time
	Now    time.Time // jobs with a later Due are not due
	Limits []Limit
	Dry    bool // only tell which jobs would be given, claiming none
	Ageing Ageing

	Suspects Suspects
}

// Suspects says what a claim does with suspects ([Job.Suspect]).
type Suspects int

// What a claim does with suspects.
const (
	SuspectsToo  Suspects = iota // they are given like others
	NoSuspects                   // they are not given
	OnlySuspects                 // nothing else is given
)

// SuspectStarts is how many claims in a row must have ended without a report of their workers for a job to be a suspect: it may be what ended them.
const SuspectStarts = 2

// Suspect tells whether the job may have ended its workers: its last claims all ended without a report.
func (j *Job) Suspect() bool { return !j.Ended && j.Starts >= SuspectStarts }

// Ageing keeps a stream of better priorities from starving the others: of every Share jobs that the store gives out one is the job that has waited
// longest in its state among those that could be given, if it has waited longer than Patience. Zero Share: priorities alone decide.
type Ageing struct {
	Share    int
	Patience time.Duration
}

// Limit bounds how many jobs are under way. It guards claims from its Kind in the states Guard (all states if empty). Under way
// are the claimed jobs in guarded states and all jobs in the states Occupy, claimed or not.
type Limit struct {
	Name     string // what `why` calls it: "max_concurrent_jobs"
	Kind     Kind
	Guard    []lifecycle.State
	Occupy   []lifecycle.State
	Group    string // only jobs of this group; empty for all
	Owner    string // only jobs of this owner; empty for all
	Tag      string // only jobs with this tag; empty for all
	PerGroup bool   // counted for each group on its own
	PerOwner bool   // counted for each owner on its own
	Max      int
}

// Lease names a claim: a job and the epoch under which a worker holds it.
type Lease struct {
	Job   ID    `json:"job"`
	Epoch int64 `json:"epoch"`
}
