package api

import (
	"time"

	"github.com/stagepost/stagepost/job"
)

// ShareOrder is the body that makes a link by which anyone who has it reads one batch.
type ShareOrder struct {
	Valid string `json:"valid,omitempty"` // for how long, such as 30d, which is the default; at most 365d
	Note  string `json:"note,omitempty"`  // for whom, or why
	Actor string `json:"actor,omitempty"` // who
}

// Share is a link to a batch. It shows this batch alone, and changes nothing.
type Share struct {
	ID      string    `json:"id"`
	Batch   job.ID    `json:"batch"`
	By      string    `json:"by,omitempty"`
	Note    string    `json:"note,omitempty"`
	Made    time.Time `json:"made"`
	Expires time.Time `json:"expires"`
	Path    string    `json:"path,omitempty"` // of the page, with the secret; only in the answer that makes it
}

// Shares are the links of a batch that are valid.
type Shares struct {
	Shares []Share `json:"shares"`
}
