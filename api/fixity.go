package api

import (
	"time"
)

// Fixity is the state of the checks of stored files.
type Fixity struct {
	Locations []FixityLocation `json:"locations"`
	Faults    []FixityFault    `json:"faults"` // at most 10,000
	Count     int              `json:"count"`  // of all faults
}

// FixityLocation is a storage location with versions.
type FixityLocation struct {
	Dir    string       `json:"dir"`
	Reason string       `json:"reason,omitempty"` // why it cannot be read; empty: it can
	Oldest time.Time    `json:"oldest"`           // the check of a version that is the longest ago
	Check  *FixityCheck `json:"check,omitempty"`  // that was asked for last
}

// FixityCheck is a check of all files in a storage location that a person asked for.
type FixityCheck struct {
	Began    time.Time `json:"began"`
	Ended    time.Time `json:"ended,omitzero"`
	Failure  string    `json:"failure,omitempty"` // why it ended early
	Versions int       `json:"versions"`          // that were read
	Files    int       `json:"files"`
	Bytes    int64     `json:"bytes"`
}

// FixityFault is a stored file that was not as it should be when it was last read.
type FixityFault struct {
	Location  string    `json:"location"`
	ARK       string    `json:"ark"`
	Version   int       `json:"version"`
	Job       string    `json:"job"`  // that stored the version
	Path      string    `json:"path"` // relative to the object; "." is the whole object
	Kind      string    `json:"kind"` // changed, missing, extra or unreadable
	Algorithm string    `json:"algorithm,omitempty"`
	Expected  string    `json:"expected,omitempty"` // digest
	Found     string    `json:"found,omitempty"`    // digest
	Detail    string    `json:"detail,omitempty"`
	Since     time.Time `json:"since"`
}

// CheckFixity is the body that asks for a check.
type CheckFixity struct {
	Location string `json:"location,omitempty"` // empty: all
	Actor    string `json:"actor,omitempty"`
	Note     string `json:"note,omitempty"`
}
