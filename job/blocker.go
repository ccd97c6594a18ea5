package job

import (
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// Blocker is one thing that keeps a job from moving.
type Blocker struct {
	Code     string    `json:"code"`
	Sentence string    `json:"sentence"`
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"`   // when it ends by itself or is examined again
	Holder   string    `json:"holder,omitempty"` // who or what can end it
	Remedy   string    `json:"remedy,omitempty"` // what the reader can do that is no command

	Remedies []Remedy `json:"remedies,omitempty"` // what the reader can do, as commands and operations
}

// Progress reports how far the work of a running job has come. It is shown, not stored.
type Progress struct {
	State lifecycle.State `json:"state"`
	Done  int64           `json:"done"`
	Total int64           `json:"total,omitempty"` // 0: not known
	Unit  string          `json:"unit"`            // "bytes", "files"
	At    time.Time       `json:"at"`
}
