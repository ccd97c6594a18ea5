package api

import (
	"github.com/stagepost/stagepost/job"
)

// Audit is an entry of the audit list: what a person did.
type Audit struct {
	job.Audit
	By []string `json:"by"`
}

// Audits is a page of the audit list, oldest first.
type Audits struct {
	Entries []Audit `json:"entries"`
	Next    string  `json:"next,omitempty"` // going forward: where the next page begins; empty at the end
	Cut     bool    `json:"cut,omitempty"`  // the look ended before the list did: filters that fit rarely
}
