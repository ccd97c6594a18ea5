package api

import (
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Explanation is why a job is in its state, and what it waits for.
type Explanation struct {
	Job      job.ID             `json:"job"`
	Kind     job.Kind           `json:"kind"`
	Title    string             `json:"title,omitempty"`  // as in the record
	Object   string             `json:"object,omitempty"` // as in the record
	At       time.Time          `json:"at"`
	Position lifecycle.Position `json:"position"`
	Blockers []job.Blocker      `json:"blockers"`
	Not      []string           `json:"not"`
	Unknown  []string           `json:"unknown,omitempty"` // of a past moment: what is not recorded
	Entered  time.Time          `json:"entered,omitzero"`  // when it entered the state
	Moves    []Move             `json:"moves"`
	Chain    []job.Event        `json:"chain,omitempty"`
	// what the next sweep does, whatever else keeps the job: its lease has expired, or its time in the state has ended
	Next string `json:"next,omitempty"`
	// of an ended job: the transition that ended it, and what happened
	Rule     string `json:"rule,omitempty"`
	Attempts string `json:"attempts"`

	Queue *QueuePosition `json:"queue,omitempty"` // of a past moment at which it was in a queue
}

// QueuePosition is an estimate of the position of a job in its queue at a past moment.
type QueuePosition struct {
	Ahead    int64  `json:"ahead"`             // jobs of its kind and state that were before it
	More     bool   `json:"more,omitempty"`    // there may have been more
	Unknown  string `json:"unknown,omitempty"` // why the data has no answer; Ahead is 0 then
	Sentence string `json:"sentence"`
}

// Expected states when an open job should end, from what was measured of others. What is not known is missing.
type Expected struct {
	Job    job.ID    `json:"job"`
	At     time.Time `json:"at"`
	StepMS int64     `json:"step_ms,omitempty"` // how long jobs usually stay in its state
	Finish time.Time `json:"finish,omitzero"`   // when it should end, at the present pace
	Longer bool      `json:"longer,omitempty"`  // it stays in its state for longer than 95 of 100 jobs
}

// Move is a legal event with those who may cause it.
type Move struct {
	Event lifecycle.Event `json:"event"`
	To    lifecycle.State `json:"to"`
	By    lifecycle.Actor `json:"by"`
	Doc   string          `json:"doc"`

	Refused string      `json:"refused,omitempty"` // why a person may not do it now, although the lifecycle has it
	Remedy  *job.Remedy `json:"remedy,omitempty"`  // how a person does it now
}
