package openapi

import (
	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// Media types that several operations have.
var (
	Text     = []string{"text/plain"}
	HTML     = []string{"text/html"}
	SVG      = []string{"image/svg+xml"}
	Drawings = []string{"image/svg+xml", "text/plain"}
	Any      = []string{"*/*"}
)

// JobEvents are the messages of the stream of a job.
var JobEvents = []Event{
	{"history", job.Event{}, "An entry of the history. Its number is the id of the message."},
	{"job", api.Job{}, "The record, when it has changed."},
}

// LogGrown is a message of that stream too.
var LogGrown = Event{"log", api.LogSize{}, "The length of its log, when that has grown. It has no id."}
