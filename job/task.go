package job

import (
	"encoding/json"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Task is a named part of one job's work, done under the claim of that job: a download, a storage task, a task of a
// flow.
type Task struct {
	Name     string          `json:"name"` // unique within the job
	Kind     Kind            `json:"kind"` // its lifecycle
	State    lifecycle.State `json:"state"`
	Epoch    int64           `json:"epoch"` // claim under which it last changed
	Attempts int             `json:"attempts,omitempty"`
	Done     int64           `json:"done,omitempty"`  // bytes or items done
	Total    int64           `json:"total,omitempty"` // bytes or items in all; 0 if unknown
	Message  string          `json:"message,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	Changed  time.Time       `json:"changed"`
}
