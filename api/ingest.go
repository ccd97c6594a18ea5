package api

import (
	"time"
)

// Submission describes a payload for ingest.
type Submission struct {
	// empty: found out; file, container, object-manifest, batch-manifest, ...
	Type         string   `json:"type,omitempty"`
	Profile      string   `json:"profile,omitempty"`
	Submitter    string   `json:"submitter,omitempty"`
	Title        string   `json:"title,omitempty"`
	Creator      string   `json:"creator,omitempty"`
	Date         string   `json:"date,omitempty"`
	Filename     string   `json:"filename,omitempty"`
	PrimaryID    string   `json:"primary_id,omitempty"`
	LocalIDs     []string `json:"local_ids,omitempty"`
	DigestType   string   `json:"digest_type,omitempty"`
	DigestValue  string   `json:"digest_value,omitempty"`
	Notification string   `json:"notification,omitempty"`
	Note         string   `json:"note,omitempty"`
	Key          string   `json:"key,omitempty"` // idempotency key
	Update       bool     `json:"update,omitempty"`
	Priority     *int     `json:"priority,omitempty"`

	DublinCore   map[string][]string `json:"dublin_core,omitempty"`   // values by element of DCMES 1.1, such as subject
	ResourceType string              `json:"resource_type,omitempty"` // resourceTypeGeneral of DataCite, such as Dataset
	Embargo      string              `json:"embargo,omitempty"`       // when it ends: a date, or none
	RetainTarget bool                `json:"retain_target,omitempty"` // the target at EZID stays as it is
}

// ObjectQuery selects stored objects; empty fields do not restrict.
type ObjectQuery struct {
	ARK     string
	LocalID string
	Owner   string
	Digest  string // sha256 or sha512 in hex, of one of its files
	After   string // the ARK after which to continue
	Limit   int
}

// Objects is a page of stored objects, in order of their ARKs.
type Objects struct {
	Objects []Object `json:"objects"`
	Next    string   `json:"next,omitempty"` // after for the next page
}

// Object is a stored object with all its versions.
type Object struct {
	ARK        string          `json:"ark"`
	Owner      string          `json:"owner"`
	Collection string          `json:"collection"`
	Profile    string          `json:"profile"`
	Title      string          `json:"title"`
	Creator    string          `json:"creator"`
	Date       string          `json:"date"`
	LocalIDs   []string        `json:"local_ids,omitempty"`
	Head       int             `json:"head"` // number of the newest version
	Created    time.Time       `json:"created"`
	Changed    time.Time       `json:"changed"`
	Versions   []ObjectVersion `json:"versions"` // oldest first
}

// ObjectVersion is one version of an object.
type ObjectVersion struct {
	Number    int           `json:"number"`
	Job       string        `json:"job"`
	Batch     string        `json:"batch"`
	Submitter string        `json:"submitter"`
	Note      string        `json:"note,omitempty"`
	Files     int           `json:"files"`
	Bytes     int64         `json:"bytes"`
	Created   time.Time     `json:"created"`
	Places    []ObjectPlace `json:"places"`
}

// ObjectPlace is where a version is kept.
type ObjectPlace struct {
	Dir  string `json:"dir"`  // the storage root, as the profile names it
	Name string `json:"name"` // of the version in that location: "v3"
}
