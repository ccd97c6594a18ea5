package api

import (
	"github.com/stagepost/stagepost/job"
)

// Outbox is a page of messages that leave the system or have left it, the newest first. Next is empty on the last one.
type Outbox struct {
	Messages []job.Message `json:"messages"` // without their bodies
	Next     string        `json:"next,omitempty"`
}

// Replay is the body that asks for messages to be delivered again.
type Replay struct {
	Keys  []string `json:"keys"`
	Note  string   `json:"note"` // why; is entered in the audit log
	Actor string   `json:"actor,omitempty"`
}
