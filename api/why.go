package api

import (
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Explanation answers why a job stands where it does.
type Explanation struct {
	Job      job.ID             `json:"job"`
	Kind     job.Kind           `json:"kind"`
	Title    string             `json:"title,omitempty"`  // as in the record
	Object   string             `json:"object,omitempty"` // as in the record
	At       time.Time          `json:"at"`
	Position lifecycle.Position `json:"position"`
	Blockers []Blocker          `json:"blockers"`
	Not      []string           `json:"not"`
	Moves    []Move             `json:"moves"`
	Chain    []Event            `json:"chain,omitempty"`
	Rule     string             `json:"rule,omitempty"` // of an ended job: the transition that ended it, and what happened
	Attempts string             `json:"attempts"`
}

// Blocker is one thing that keeps a job from moving.
type Blocker struct {
	Code     string    `json:"code"`
	Sentence string    `json:"sentence"`
	Since    time.Time `json:"since,omitzero"`
	Until    time.Time `json:"until,omitzero"`
	Holder   string    `json:"holder,omitempty"`
	Remedy   string    `json:"remedy,omitempty"` // what the reader can do that is no command

	Remedies []job.Remedy `json:"remedies,omitempty"` // what the reader can do, as commands and operations
}

// Move is a legal event with those who may cause it.
type Move struct {
	Event lifecycle.Event `json:"event"`
	To    lifecycle.State `json:"to"`
	By    []string        `json:"by"`
	Doc   string          `json:"doc"`

	Refused string      `json:"refused,omitempty"` // why a person may not do it now, although the lifecycle has it
	Remedy  *job.Remedy `json:"remedy,omitempty"`  // how a person does it now
}
