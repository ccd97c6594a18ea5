package api

import (
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// JobFile is one file of an ingest job's object.
type JobFile struct {
	Path    string            `json:"path"`
	Size    int64             `json:"size"` // -1: not known
	Digests map[string]string `json:"digests,omitempty"`
	Type    string            `json:"type,omitempty"`
	// a URL, the payload, the container, an earlier version, stagepost
	From  string `json:"from,omitempty"`
	State string `json:"state"` // wanted, fetched, stored
}

// JobFiles is a page of them.
type JobFiles struct {
	Job   job.ID          `json:"job"`
	State lifecycle.State `json:"state"`
	// manifest, work, inventory: where the page was read; empty if there is nothing to read
	Source string    `json:"source"`
	Files  []JobFile `json:"files"`
	Next   string    `json:"next,omitempty"`
	Note   string    `json:"note,omitempty"` // what is not here any more, or not yet
}

// Metadata describes the object of an ingest job.
type Metadata struct {
	Job        job.ID `json:"job"`
	ARK        string `json:"ark,omitempty"`
	Version    int    `json:"version,omitempty"`
	Source     string `json:"source"` // submission, work or storage: where it was read
	ERC        string `json:"erc"`
	DublinCore string `json:"dublin_core"`       // XML
	Embargo    string `json:"embargo,omitempty"` // when it ends, in RFC 3339, or none; empty if none was given
	Note       string `json:"note,omitempty"`
}

// HandedFile is a file of a submission of several.
type HandedFile struct {
	Filename string `json:"filename"`
	Size     int64  `json:"size"` // in bytes
	SHA256   string `json:"sha256"`
}

// Handed is what was submitted with a batch.
type Handed struct {
	Batch      job.ID     `json:"batch"`
	Submission Submission `json:"submission"`
	Type       string     `json:"type,omitempty"` // as given or found out
	Size       int64      `json:"size"`           // of the payload
	SHA256     string     `json:"sha256"`         // of the payload
	// files of a submission of several, after the first
	More   []HandedFile `json:"more,omitempty"`
	Staged bool         `json:"staged"` // the payload is still there
	Jobs   int          `json:"jobs,omitempty"`
	Note   string       `json:"note,omitempty"`
}
