package api

import (
	"time"
)

// Fixity is the state of the fixity checks of the stored objects of all applications.
type Fixity struct {
	Locations []FixityLocation `json:"locations"`
	Faults    []FixityFault    `json:"faults"` // at most 10,000 of each application
	Count     int              `json:"count"`  // of all faults
}

// FixityLocation is a storage location with copies. A copy is what a check reads at a time: a version of an object, or
// a file of an archive. Storage roots of archives are named objects/NAME.
type FixityLocation struct {
	Application string       `json:"application"`
	Location    string       `json:"location"`
	Reason      string       `json:"reason,omitempty"` // why it cannot be read; empty: it can
	Copies      int64        `json:"copies"`
	Oldest      time.Time    `json:"oldest,omitzero"` // the check of a copy that is the longest ago
	Next        time.Time    `json:"next,omitzero"`   // when the first check is due; without it: only on request
	Overdue     int64        `json:"overdue"`         // copies whose check is due
	Damaged     int64        `json:"damaged"`         // copies with a fault that were not healed
	Healed      int64        `json:"healed"`          // copies that were replaced or repaired from a good one, ever
	Check       *FixityCheck `json:"check,omitempty"` // that was requested last
}

// FixityCheck is a check of all copies in a storage location that a person requested.
type FixityCheck struct {
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended,omitzero"`
	Failure string    `json:"failure,omitempty"` // why it ended early
	Copies  int64     `json:"copies"`            // that were read
	Files   int64     `json:"files"`
	Bytes   int64     `json:"bytes"`
}

// FixityFault is a stored file that was not as it should be when it was last read.
type FixityFault struct {
	Application string    `json:"application"`
	Location    string    `json:"location"`
	Object      string    `json:"object"`            // ARK, the job of an archive, or the id of an OCFL object
	Version     int       `json:"version,omitempty"` // of the object
	Job         string    `json:"job"`               // that stored it
	Path        string    `json:"path"`              // in the object; "." is the whole object
	Kind        string    `json:"kind"`              // changed, missing, extra or unreadable
	Algorithm   string    `json:"algorithm,omitempty"`
	Expected    string    `json:"expected,omitempty"` // digest
	Found       string    `json:"found,omitempty"`    // digest
	Detail      string    `json:"detail,omitempty"`
	Since       time.Time `json:"since"` // the check that found it; of archives the last check
}

// FixityObject sums up the copies of a stored object.
type FixityObject struct {
	Application string    `json:"application"`
	Object      string    `json:"object"` // ARK, or the job of an archive
	Copies      int64     `json:"copies"`
	Locations   []string  `json:"locations"`
	Checked     time.Time `json:"checked,omitzero"` // the check of a copy that is the longest ago
	Overdue     int64     `json:"overdue"`          // copies whose check is due
	Damaged     int64     `json:"damaged"`          // copies with a fault that were not healed
	Healed      int64     `json:"healed"`           // copies that were replaced or repaired, ever
}

// FixityObjects is a page of the report of fixity checks.
type FixityObjects struct {
	Objects []FixityObject `json:"objects"`
	Next    string         `json:"next,omitempty"` // after of the next page
}

// FixityQuery selects objects of the report: all that match every filter given.
type FixityQuery struct {
	Application string `json:"application,omitempty"`
	Location    string `json:"location,omitempty"` // objects with a copy there; only those copies are summed up
	Damaged     bool   `json:"damaged,omitempty"`
	Overdue     bool   `json:"overdue,omitempty"`
	After       string `json:"after,omitempty"`
	Limit       int    `json:"limit,omitempty"` // 1 to 1000; defaults to 100
}

// CheckFixity is the body that requests a check.
type CheckFixity struct {
	Application string `json:"application,omitempty"` // defaults to all
	Location    string `json:"location,omitempty"`    // defaults to all
	Actor       string `json:"actor,omitempty"`
	Note        string `json:"note,omitempty"`
}
