package durable

import (
	"encoding/json"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Data is what lists of flows show besides the record: the Data of the job.
type Data struct {
	Name    string                  `json:"name"`
	Counts  map[lifecycle.State]int `json:"counts,omitempty"`  // atoms by state; none before it is run
	Suspend *Suspension             `json:"suspend,omitempty"` // a user needs it to pause, or to stay so
	End     *Ending                 `json:"end,omitempty"`     // a user or a program ended it, or asked for that
	// it is RUNNING because a person ran it from this state, and no worker has begun
	Again lifecycle.State `json:"again,omitempty"`
}

// Suspension states who needs a flow to pause.
type Suspension struct {
	Actor string    `json:"actor,omitempty"`
	Note  string    `json:"note,omitempty"`
	At    time.Time `json:"at,omitzero"`
}

// DataOf decodes the data of a job; there is none before it is first run, suspended or reset.
func DataOf(j *job.Job) (Data, error) {
	var d Data
	if len(j.Data) == 0 {
		return d, nil
	}
	if err := json.Unmarshal(j.Data, &d); err != nil {
		return d, job.Errorf(job.Internal, "decode", j.ID, "data: %w", err)
	}
	return d, nil
}

// sentence reports who it was.
func (s *Suspension) sentence() string {
	text := "it is suspended"
	if s == nil {
		return text
	}
	if s.Actor != "" {
		text += " by " + s.Actor
	}
	if s.Note != "" {
		text += ": " + s.Note
	}
	return text
}
