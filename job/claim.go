package job

import (
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// KindState is a state of a kind, the unit by which jobs are claimed and counted.
type KindState struct {
	Kind  Kind            `json:"kind"`
	State lifecycle.State `json:"state"`
}

// Claim requests jobs to work on. A store grants one job after another. The next one is, of the jobs in the states
// From that are due, not claimed, not held and not over a limit, and that require no label ([Job.Requires]) that is not
// among Labels:
//
//   - by age, if it is time for that: see [Ageing];
//   - otherwise one of the best priority; of these, one of the owner whose last grant is longest ago, an owner without
//     a grant first; of the jobs of this owner, that with the lowest number of its kind. The same number decides
//     between owners without a grant. Between jobs of different kinds any order is allowed.
//
// A grant is a job of a claim, in whatever state and by whatever order; chains are none. A store may forget the grants
// of owners without jobs, and all of them when it is opened. Of several servers that share one store, each may count
// its own grants only: then owners take turns with each server.
//
// Now is the time of the caller: jobs with a later Due are not due, and the lease begins. A store that several servers
// share uses its own time instead, so that clocks that differ neither shorten a lease nor grant one twice.
type Claim struct {
	Worker string
	From   []KindState // the states the worker has steps for
	Labels []string    // that the worker has
	N      int         // maximum number of jobs
	Lease  time.Duration
	Now    time.Time
	Limits []Limit
	Ageing Ageing

	Suspects Suspects
}

// Suspects is the treatment of suspects ([Job.Suspect]) by a claim.
type Suspects int

// The treatments of suspects.
const (
	SuspectsToo  Suspects = iota // granted like others
	NoSuspects                   // not granted
	OnlySuspects                 // no other job is granted; ordered by priority and number, without turns or [Ageing]
)

// SuspectStarts is the number of consecutive claims that must have ended without a report of their workers for a job
// to be a suspect: it may have crashed them.
const SuspectStarts = 2

// Suspect reports whether the job may have crashed its workers: its last claims all ended without a report.
func (j *Job) Suspect() bool { return !j.Ended && j.Starts >= SuspectStarts }

// Ageing prevents a stream of better priorities from starving other jobs. Of every Share jobs that the store grants
// from the states of the claim, one is the job that has waited longest in its state, if it has waited longer than
// Patience. Zero Share: only priorities decide.
//
// A store counts the grants of each state since the last one by age from it. When the counts of the states of a claim
// sum up to Share-1 or more, the next grant is the job that may be granted and that entered its state first, the lowest
// number first of those that entered at once (to the microsecond). Then the counts of these states begin at zero. If
// that job has not waited longer than Patience, the order of [Claim] decides, and the next grant asks again. Counts may
// be lost when the store is opened, and each of several servers may count its own.
type Ageing struct {
	Share    int
	Patience time.Duration
}

// Limit bounds the number of active jobs. It applies to claims of its Kind in the states Guard (all states if empty).
// Active are the claimed jobs in guarded states and all jobs in the states Occupy, claimed or not.
type Limit struct {
	Name     string // its name in `why`: "max_concurrent_jobs"
	Kind     Kind
	Guard    []lifecycle.State
	Occupy   []lifecycle.State
	Group    string // only jobs of this group; empty for all
	Owner    string // only jobs of this owner; empty for all
	Tag      string // only jobs with this tag; empty for all
	PerGroup bool   // counted separately for each group
	PerOwner bool   // counted separately for each owner
	Max      int
}

// Lease identifies a claim: a job and the epoch of its worker.
type Lease struct {
	Job   ID    `json:"job"`
	Epoch int64 `json:"epoch"`
}

// Forecast is what a claim would do ([Claims.Peek]).
type Forecast struct {
	Next   []ID       // the jobs that it would grant, in order
	Hold   *Hold      // a hold in force on the job
	Limits []LimitUse // those of the claim that must let the job pass: they guard its state and do not count it yet
}

// LimitUse is a limit with the number of active jobs that it counts.
type LimitUse struct {
	Limit
	Active int
}

// Full reports whether the limit lets no further job pass.
func (u *LimitUse) Full() bool { return u.Active >= u.Max }
