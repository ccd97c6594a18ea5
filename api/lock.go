package api

import (
	"time"

	"github.com/stagepost/stagepost/job"
)

// Lock is a claim of one job on an object, on its entry in the inventory, or on a local id.
type Lock struct {
	Kind     string    `json:"kind"` // object, inventory, local-id
	Name     string    `json:"name"`
	Holder   job.ID    `json:"holder"`
	Epoch    int64     `json:"epoch"`               // of the holder's claim under which it was taken
	State    string    `json:"state"`               // held, or left: by a job that ended
	JobState string    `json:"job_state,omitempty"` // of the holder; empty when it does not exist
	Since    time.Time `json:"since"`
	Token    int64     `json:"token"` // fencing token: rises with every acquisition
	Note     string    `json:"note,omitempty"`
	Waiting  []job.ID  `json:"waiting"` // who waits for it, the next one first
}

// Locks is the answer about locks: all that there are, by kind and name.
type Locks struct {
	Locks []Lock `json:"locks"`
}
