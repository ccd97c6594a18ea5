package api

import (
	"time"

	"github.com/stagepost/stagepost/job"
)

// Hold is the body that puts a hold on a scope.
type Hold struct {
	job.Scope
	Everything bool      `json:"everything,omitempty"` // must be true for the empty scope
	Who        string    `json:"who,omitempty"`
	Why        string    `json:"why"`
	Until      time.Time `json:"until,omitzero"` // zero: until it is released
}

// Holds is the answer about holds: all that there are, oldest first.
type Holds struct {
	Holds []job.Hold `json:"holds"`
}
