package job

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// ID identifies a job permanently: a prefix for its kind and a ULID, "ing_01J9Z3...".
type ID string

// Kind names the lifecycle of a job: the name of its table.
type Kind string

// LastNumber is the highest number of a job: JSON readers that use floating-point numbers represent all numbers up to
// it exactly.
const LastNumber int64 = 1<<53 - 1

// Unlimited and Off are values of options whose zero is a default: a duration, a number or a size without a bound, and
// what is not done or not kept.
const (
	Unlimited = -1
	Off       = -2
)

// MostName is how many bytes a key or a name has at most: an idempotency key, an owner, a group, an actor, a worker.
const MostName = 255

// MostText is how many bytes a text by which stores find records has at most: the id, parent, key, owner, group, cause
// and each tag of a job, the worker of a claim, the name of a task, the key, topic and job of a message, and the texts
// of a scope. A kind and a state have at most [MostName]. MostScope bounds the texts of a scope together.
const (
	MostText  = 800
	MostScope = 2400
)

// MostBytes bounds the size of one job, 1 PiB: the tally of 8,000 such jobs still fits.
const MostBytes = 1 << 50

// MostCount bounds counts that only grow by one: the starts, attempts and retries of a job, the attempts of a task and
// of a message. They are at least 0.
const MostCount = 1_000_000_000

// Priorities are 0 to 99; lower goes first.
const (
	FirstPriority   = 0
	DefaultPriority = 50
	LastPriority    = 99
)

// Job is the record of one job, which is authoritative.
type Job struct {
	ID ID `json:"id"`
	// small, unique within its kind, increasing with creation, for wire formats that need a number
	Number int64 `json:"number"`
	Kind   Kind  `json:"kind"`
	lifecycle.Position
	Ended bool `json:"ended,omitempty"` // the state is an end
	Gone  bool `json:"gone,omitempty"`  // the state is a tombstone

	Priority int    `json:"priority"`
	Parent   ID     `json:"parent,omitempty"`
	Group    string `json:"group,omitempty"` // used by holds and limits: collection, course, service
	Owner    string `json:"owner,omitempty"`
	// further names for holds and limits, "queue=access-large", "place=main"; see [Tagged]
	Tags []string `json:"tags,omitempty"`
	// labels that a worker must have to claim it, sorted, each once; they never change
	Requires []string `json:"requires,omitempty"`
	// of the work, as far as known; summed in the tallies; a larger size than 1 PiB counts as 1 PiB
	Bytes int64  `json:"bytes,omitempty"`
	Key   string `json:"key,omitempty"` // idempotency key, unique within kind and owner
	// words of its title, names and identifiers, by which people find it; see [CheckWords]. Answers of the API do not
	// have them
	Words string `json:"-"`

	Version int64     `json:"version"` // incremented by every change of the record except a renewal
	Epoch   int64     `json:"epoch"`   // fencing token: incremented by every claim and by every transition without one
	Worker  string    `json:"worker,omitempty"`
	Until   time.Time `json:"until,omitzero"` // end of the claim; Worker is empty if there is none

	Starts   int `json:"starts,omitempty"`   // claims since the last report of a worker
	Attempts int `json:"attempts,omitempty"` // backoffs in this state
	Retries  int `json:"retries,omitempty"`  // number of retries after a failure

	Due time.Time `json:"due,omitzero"` // not claimed before
	// when the whole job must have ended; the engine derives Expires from it
	Deadline time.Time `json:"deadline,omitzero"`
	Expires  time.Time `json:"expires,omitzero"` // when a timer moves the job out of the state
	Entered  time.Time `json:"entered,omitzero"` // when it entered the state
	Created  time.Time `json:"created"`
	Changed  time.Time `json:"changed"`

	Definition string          `json:"definition"` // hash of the table with which it was created
	Spec       json.RawMessage `json:"spec,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
	Message    string          `json:"message,omitempty"` // status for the user
	Title      string          `json:"title,omitempty"`   // for people: a title or a file name. The server fills it in from the application; stores have none
	Object     string          `json:"object,omitempty"`  // for people: the public name of what it is about, such as an ARK. As Title
	Cause      string          `json:"cause,omitempty"`   // word or code for why it failed or waits

	Children Children `json:"children,omitzero"`
	Seq      int64    `json:"seq"`  // number of history entries
	Head     Hash     `json:"head"` // hash of the last one
}

// Tagged returns tags in the order of records: sorted, unique, none empty. Nil stays nil.
func Tagged(tags ...string) []string {
	all := slices.DeleteFunc(slices.Clone(tags), func(t string) bool { return t == "" })
	slices.Sort(all)
	return slices.Compact(all)
}

// Claimed reports whether a worker has a claim on the job, current or expired.
func (j *Job) Claimed() bool { return j.Worker != "" }

// Children counts the jobs of a batch by outcome.
type Children struct {
	Expected  int `json:"expected"` // total number; set before the first is created
	Open      int `json:"open"`
	OK        int `json:"ok"`
	Failed    int `json:"failed"`
	TimedOut  int `json:"timed_out"`
	Cancelled int `json:"cancelled"`
	Deleted   int `json:"deleted"`
}

// Created returns the number of children that exist or have existed.
func (c Children) Created() int {
	return c.Open + c.OK + c.Failed + c.TimedOut + c.Cancelled + c.Deleted
}

// Settled reports whether all expected children exist and none is open.
func (c Children) Settled() bool { return c.Open == 0 && c.Created() == c.Expected }

// Add adds n to the count for the position of job j.
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

// Own replaces what the record shares with other copies of it, so that a caller may change Spec, Data,
// Tags and Requires. Stores call it on what they are given and on what they return.
func (j *Job) Own() {
	j.Tags, j.Requires = slices.Clone(j.Tags), slices.Clone(j.Requires)
	n := len(j.Spec)
	if n+len(j.Data) == 0 {
		return
	}
	both := append(append(make([]byte, 0, n+len(j.Data)), j.Spec...), j.Data...)
	if j.Spec != nil {
		j.Spec = both[:n:n]
	}
	if j.Data != nil {
		j.Data = both[n:]
	}
}

// Own replaces what the message shares with other copies of it: Body and Tried. Stores call it as [Job.Own].
func (m *Message) Own() {
	m.Body, m.Tried = slices.Clone(m.Body), slices.Clone(m.Tried)
}
