package api

import (
	"time"

	"github.com/stagepost/stagepost/job"
)

// Checkup is the result of a check of all records.
type Checkup struct {
	Jobs     int      `json:"jobs"`     // checked
	Entries  int      `json:"entries"`  // of histories, checked
	Faults   []string `json:"faults"`   // what is wrong, one sentence each
	Repaired int      `json:"repaired"` // faults mended
	Sound    bool     `json:"sound"`    // nothing is wrong (any more)
	Objects  int      `json:"objects"`  // of the inventory compared with storage, by fsck
	Versions int      `json:"versions"` // of these
}

// Verify is the body that asks for histories to be checked against records.
type Verify struct {
	Job job.ID `json:"job,omitempty"` // only this one
}

// Fsck is the body that asks for derived data to be checked against the records.
type Fsck struct {
	Repair bool   `json:"repair,omitempty"`
	Note   string `json:"note,omitempty"` // with Repair: why
	Actor  string `json:"actor,omitempty"`
}

// Backup is the body that asks for a backup.
type Backup struct {
	Name    string   `json:"name,omitempty"`    // in the server's backup directory; empty: by the time
	Without []string `json:"without,omitempty"` // parts to leave out: compute, storage
	Actor   string   `json:"actor,omitempty"`
	Note    string   `json:"note,omitempty"`
}

// Location is a storage location outside the data directory that a backup refers to and does not contain.
type Location struct {
	Path string `json:"path"`
	What string `json:"what"`
}

// BackedUp is the answer about a backup.
type BackedUp struct {
	Dir          string    `json:"dir"` // on the server's machine
	ID           string    `json:"id"`
	Installation string    `json:"installation"`
	Moment       time.Time `json:"moment"` // whose state it has
	Frozen       string    `json:"frozen"` // how long commits waited for it
	Files        int64     `json:"files"`
	Bytes        int64     `json:"bytes"`
	Without      []string  `json:"without"` // parts that were left out
	// entries of the data directory that are not Stagepost's: they were left out
	Unknown []string   `json:"unknown"`
	Outside []Location `json:"outside"` // what it refers to and does not have
}

// Health is the answer about the server itself.
type Health struct {
	Status   string   `json:"status"` // "ok", else what is wrong
	Version  string   `json:"version"`
	Store    string   `json:"store"`
	Durable  bool     `json:"durable"`
	Location string   `json:"location,omitempty"` // of a store that servers share
	Leader   string   `json:"leader,omitempty"`   // the server that leads those that share the store
	Engine   string   `json:"engine"`
	Kinds    []string `json:"kinds"`

	// the public key that verifies checkpoints of the histories, which this server signs when it leads
	CheckpointKey string `json:"checkpoint_key,omitempty"`

	// what confines the users' scripts that the server runs itself: native, bwrap or none
	Sandbox  string   `json:"sandbox,omitempty"`
	Warnings []string `json:"warnings,omitempty"` // what is wrong without keeping it from its work
	// what ingest cannot follow in the nodes of a Merritt system, of which Warnings has the first
	Findings []string `json:"findings,omitempty"`
}

// Session is who sends a request.
type Session struct {
	Authenticated bool   `json:"authenticated"` // the server authenticates; if not, every client may do everything
	SignedIn      bool   `json:"signed_in"`
	Name          string `json:"name,omitempty"`  // the owner of jobs, the actor in histories
	Shown         string `json:"shown,omitempty"` // the name to show
	Role          string `json:"role,omitempty"`
	Way           string `json:"way,omitempty"` // how it is authenticated: token, session, proxy or certificate
}

// Sessions lists the sessions of browsers, the latest first.
type Sessions struct {
	Sessions []OpenSession `json:"sessions"`
}

// OpenSession is the session of a browser.
type OpenSession struct {
	Key   string    `json:"key"` // the SHA-256 of its cookie
	Name  string    `json:"name"`
	Role  string    `json:"role"`
	How   string    `json:"how"`  // how it began: password, token or oidc
	From  string    `json:"from"` // the address of the browser
	Begun time.Time `json:"begun"`
	Used  time.Time `json:"used"` // the last use, to the minute
}
