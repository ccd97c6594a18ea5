package job

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// ID identifies a job for ever: a prefix for its kind and a ULID, "ing_01J9Z3...".
type ID string

// Kind names the lifecycle a job lives by: the name of its table.
type Kind string

// LastNumber is the highest number that a job can have: JSON readers that know only floating-point numbers read all up to it as they are.
const LastNumber int64 = 1<<53 - 1

// MostName is how many bytes a key or a name has at most: an idempotency key, an owner, a group, an actor, a worker.
const MostName = 255

// Priorities are 0 to 99; lower goes first.
const (
	FirstPriority   = 0
	DefaultPriority = 50
	LastPriority    = 99
)

// Job is the record: the only truth about one job.
type Job struct {
	ID     ID    `json:"id"`
	Number int64 `json:"number"` // small, unique within its kind, rising with creation, for wire formats that need one
	Kind   Kind  `json:"kind"`
	lifecycle.Position
	Ended bool `json:"ended,omitempty"` // the state is an end
	Gone  bool `json:"gone,omitempty"`  // the state is a tombstone

	Priority int      `json:"priority"`
	Parent   ID       `json:"parent,omitempty"`
	Group    string   `json:"group,omitempty"` // what holds and limits name: collection, course, service
	Owner    string   `json:"owner,omitempty"`
	Tags     []string `json:"tags,omitempty"`  // what holds and limits name besides, "queue=access-large", "place=main"; see [Tagged]
	Bytes    int64    `json:"bytes,omitempty"` // of the work, as far as it is known; summed in the tallies
	Key      string   `json:"key,omitempty"`   // idempotency key, unique within kind and owner

	Version int64     `json:"version"` // raised by every change of the record but a renewal
	Epoch   int64     `json:"epoch"`   // fencing token: raised by every claim and by every move without one
	Worker  string    `json:"worker,omitempty"`
	Until   time.Time `json:"until,omitzero"` // end of the claim; Worker is empty when there is none

	Starts   int `json:"starts,omitempty"`   // claims since a worker last said how its work went
	Attempts int `json:"attempts,omitempty"` // backoffs in this state
	Retries  int `json:"retries,omitempty"`  // times it was sent back to where it failed

	Due      time.Time `json:"due,omitzero"`      // not claimed before
	Deadline time.Time `json:"deadline,omitzero"` // the whole job must have ended; the engine makes Expires of it
	Expires  time.Time `json:"expires,omitzero"`  // the state must have been left, or a timer moves the job
	Entered  time.Time `json:"entered,omitzero"`  // when it came into the state
	Created  time.Time `json:"created"`
	Changed  time.Time `json:"changed"`

	Definition string          `json:"definition"` // hash of the table it was created under
	Spec       json.RawMessage `json:"spec,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	Message    string          `json:"message,omitempty"` // what the user should know now
	Cause      string          `json:"cause,omitempty"`   // one word or code of why it failed or waits

	Children Children `json:"children,omitzero"`
	Seq      int64    `json:"seq"`  // number of history entries
	Head     Hash     `json:"head"` // hash of the last one
}

// Tagged gives tags in the order in which records have them: sorted, each once, none empty. Nil stays nil.
func Tagged(tags ...string) []string {
	all := slices.DeleteFunc(slices.Clone(tags), func(t string) bool { return t == "" })
	slices.Sort(all)
	return slices.Compact(all)
}

// Claimed tells whether a worker holds the job, however old the claim.
func (j *Job) Claimed() bool { return j.Worker != "" }

// Children counts the jobs of a batch by where they stand.
type Children struct {
	Expected  int `json:"expected"` // how many there will be; set before the first is created
	Open      int `json:"open"`
	OK        int `json:"ok"`
	Failed    int `json:"failed"`
	TimedOut  int `json:"timed_out"`
	Cancelled int `json:"cancelled"`
	Deleted   int `json:"deleted"`
}

// Created is how many children exist or have existed.
func (c Children) Created() int {
	return c.Open + c.OK + c.Failed + c.TimedOut + c.Cancelled + c.Deleted
}

// Settled tells whether all expected children exist and none is open (reliability rule R7).
func (c Children) Settled() bool { return c.Open == 0 && c.Created() == c.Expected }

// Add moves n children into the place where job j stands.
func (c *Children) Add(j *Job, n int) {
	switch {
	case j.Gone:
		c.Deleted += n
	case !j.Ended:
		c.Open += n
	case j.Outcome == lifecycle.OK:
		c.OK += n
	case j.Outcome == lifecycle.TimedOut:
		c.TimedOut += n
	case j.Outcome == lifecycle.Cancelled:
		c.Cancelled += n
	default:
		c.Failed += n
	}
}
