package api

import (
	"time"

	"github.com/stagepost/stagepost/job"
)

// Orphan is an orphaned file, lock or message, or a reference to an object that does not exist.
type Orphan struct {
	Rule      string    `json:"rule"`
	Name      string    `json:"name"` // path below the data directory, or id
	What      string    `json:"what"`
	Job       job.ID    `json:"job,omitempty"`
	Since     time.Time `json:"since"`
	Seconds   int64     `json:"seconds"` // its age
	Level     string    `json:"level"`   // FAIL when older than an hour, else WARN
	Deletable bool      `json:"deletable"`
}

// Orphans is the answer about orphans, FAIL before WARN and the oldest first.
type Orphans struct {
	At        time.Time `json:"at"`
	Orphans   []Orphan  `json:"orphans"`
	Deletable int       `json:"deletable"`     // of those with level FAIL: what fixing removes
	Cut       []string  `json:"cut,omitempty"` // what was not searched to its end
}

// FixOrphans is the body that removes the deletable orphans with level FAIL.
type FixOrphans struct {
	Expect *int   `json:"expect"` // how many these are; another number is a conflict
	Actor  string `json:"actor,omitempty"`
	Note   string `json:"note"` // why; is entered in the audit log
}

// FixedOrphans is the answer to that.
type FixedOrphans struct {
	Removed []Orphan          `json:"removed"`
	Failed  map[string]string `json:"failed,omitempty"` // by name: why it is still there
}
