package api

import (
	"encoding/json"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Hook is a notification with what became of it.
type Hook struct {
	Number   int64           `json:"number"`
	Key      string          `json:"key"` // its webhook-id
	Job      job.ID          `json:"job"`
	Type     string          `json:"type"`              // the event as profiles and configuration name it: "job.completed"
	Profile  string          `json:"profile,omitempty"` // empty for archives
	Hook     string          `json:"hook"`              // name of the receiver in the profile or configuration
	Host     string          `json:"host"`
	Created  time.Time       `json:"created"`
	Due      time.Time       `json:"due,omitzero"` // of the next try; zero when there will be none
	Attempts int             `json:"attempts"`
	Status   string          `json:"status"` // pending, delivered, abandoned
	Error    string          `json:"error,omitempty"`
	Tried    []job.Attempt   `json:"tried,omitempty"`   // the last tries, oldest first
	Payload  json.RawMessage `json:"payload,omitempty"` // what is sent; not in lists
}

// Hooks is a page of notifications. Next is empty on the last one.
type Hooks struct {
	Hooks []Hook `json:"hooks"`
	Next  string `json:"next,omitempty"`
}

// ReplayHooks is the body that asks for notifications to be sent again: those of the keys, or all abandoned ones.
type ReplayHooks struct {
	Keys   []string  `json:"keys,omitempty"`
	Failed bool      `json:"failed,omitempty"`
	Since  time.Time `json:"since,omitzero"` // with failed: written at that time or later
	Actor  string    `json:"actor,omitempty"`
	Note   string    `json:"note"` // why; required
}

// ReplayedHooks is the answer to that.
type ReplayedHooks struct {
	Keys []string `json:"keys"`
}

// PingHooks is the body that asks for the webhooks of a profile to be tried.
type PingHooks struct {
	Profile string `json:"profile"`
	Hook    string `json:"hook,omitempty"` // only this one
	Actor   string `json:"actor,omitempty"`
	Note    string `json:"note,omitempty"` // why
}

// PingArchiveHooks is the body that asks for the webhooks of archives to be tried.
type PingArchiveHooks struct {
	Hook  string `json:"hook,omitempty"` // only this one
	Actor string `json:"actor,omitempty"`
	Note  string `json:"note,omitempty"` // why
}

// Ping is what became of one try.
type Ping struct {
	Hook  string `json:"hook"`
	Host  string `json:"host"`
	ID    string `json:"id"` // webhook-id
	Took  int64  `json:"took_ms"`
	Error string `json:"error,omitempty"` // empty: it was taken
}

// PingedHooks is the answer to that.
type PingedHooks struct {
	Pings []Ping `json:"pings"`
}
