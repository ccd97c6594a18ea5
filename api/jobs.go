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
	Progress *Progress                    `json:"progress,omitempty"` // of the step that runs now
	Can      map[string][]lifecycle.Event `json:"can"`                // the legal events of operator and owner
	Links    map[string]string            `json:"links"`

	Undelivered []job.Message `json:"undelivered,omitempty"` // of one job, for staff: what failed at the last attempt or was given up, without what it says
}

// Progress tells how far the work of a running step has come.
type Progress struct {
	State lifecycle.State `json:"state"`
	Done  int64           `json:"done"`
	Total int64           `json:"total,omitempty"` // 0: not known
	Unit  string          `json:"unit"`
	At    time.Time       `json:"at"`
}

// Event is an entry of a job's history.
type Event struct {
	job.Event
	By []string `json:"by"`
}

// Line is one line of a job's log.
type Line struct {
	Time  time.Time       `json:"time"`
	Level string          `json:"level"`
	Msg   string          `json:"msg"`
	Epoch int64           `json:"epoch,omitempty"`
	State lifecycle.State `json:"state,omitempty"`
	Attrs json.RawMessage `json:"attrs,omitempty"`
}

// Log is a part of a job's log.
type Log struct {
	Lines []Line `json:"lines"`
	Next  int64  `json:"next"`
	More  bool   `json:"more"`
}

// History is the answer about a job's history.
type History struct {
	History []Event `json:"history"`
	Next    string  `json:"next,omitempty"`
}

// Tasks is the answer about a job's tasks.
type Tasks struct {
	Tasks []job.Task `json:"tasks"`
}

// Counts is the answer about how many jobs stand where.
type Counts struct {
	Counts []job.Tally `json:"counts"`
}
