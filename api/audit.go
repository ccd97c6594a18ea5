package api

import (
	"github.com/stagepost/stagepost/job"
)

// Audits is a page of the audit log, oldest first.
type Audits struct {
	Entries []job.Audit `json:"entries"`
	Next    string      `json:"next,omitempty"` // going forward: where the next page begins; empty at the end
	Cut     bool        `json:"cut,omitempty"`  // the search ended before the list: few entries match the filters
}
