package api

import (
	"encoding/json"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Page is one page of a list of jobs.
type Page struct {
	Jobs []job.Job `json:"jobs"`
	Next string    `json:"next,omitempty"` // cursor; empty on the last page
}

// Job is a record with what can be done about it.
type Job struct {
	job.Job
	Progress *job.Progress                `json:"progress,omitempty"` // of the step that runs now
	Can      map[string][]lifecycle.Event `json:"can"`                // the legal events of operator and owner
	Links    map[string]string            `json:"links"`

	// of one job, for staff: messages whose last attempt failed or that were abandoned, without their bodies
	Undelivered []job.Message `json:"undelivered,omitempty"`
}

// Line is one line of a job's log.
type Line struct {
	Time  time.Time       `json:"time"`
	Level string          `json:"level"`
	Msg   string          `json:"msg"`
	Epoch int64           `json:"epoch,omitempty"` // of the claim under which it was logged; 0: by the log itself
	State lifecycle.State `json:"state,omitempty"`
	Attrs json.RawMessage `json:"attrs,omitempty"`
}

// Log is a part of a job's log.
type Log struct {
	Lines []Line `json:"lines"`
	Next  int64  `json:"next"` // the offset to continue from
	More  bool   `json:"more"` // there is more to read at once
}

// LogSize is the message about a log that has grown.
type LogSize struct {
	Size int64 `json:"size"` // in bytes
}

// History is the answer about a job's history.
type History struct {
	History []job.Event `json:"history"`
	Next    string      `json:"next,omitempty"`
}

// Tasks is the answer about a job's tasks.
type Tasks struct {
	Tasks []job.Task `json:"tasks"`
	Retry []string   `json:"retry,omitempty"` // names of those that the sender may have tried again on their own now
}

// TaskRetry is the body by which a person has a task tried again on its own.
type TaskRetry struct {
	Task    string `json:"task"`
	As      string `json:"as,omitempty"` // operator or owner
	Actor   string `json:"actor,omitempty"`
	Note    string `json:"note,omitempty"`
	Version int64  `json:"version,omitempty"` // of the record that was seen; 0: the current one
}

// Counts is the answer about how many jobs there are by kind, state and group.
type Counts struct {
	Counts []job.Tally `json:"counts"`
}
