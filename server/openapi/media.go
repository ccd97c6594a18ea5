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
	{"history", job.Event{}, "An entry of the history. The id of the message begins with its number."},
	{"job", api.Job{}, "The record, when it has changed."},
	{"restored", api.Job{}, "The record, first in a stream, if the history no longer has the entry of Last-Event-ID, " +
		"as after the restore of a backup. All entries received before are invalid; those that it has now follow."},
}

// LogGrown is a message of that stream too.
var LogGrown = Event{"log", api.LogSize{}, "The length of its log, when that has grown. It has no id."}
