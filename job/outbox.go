package job

import (
	"encoding/json"
	"time"
)

// Message is something that must leave the system after a commit: a mail, a callback. It is written with the commit and
// delivered at least once, always with the same key (reliability rule R9).
type Message struct {
	Key      string          `json:"key"` // deterministic, such as "ing_01J.../report/1"; a second one with the key is ignored
	Job      ID              `json:"job"`
	Topic    string          `json:"topic"` // who delivers it: "mail", "callback"
	Body     json.RawMessage `json:"body"`
	Created  time.Time       `json:"created"`
	Due      time.Time       `json:"due"` // not before; while it is being delivered: when it is given to another
	Attempts int             `json:"attempts"`
	Error    string          `json:"error,omitempty"` // of the last attempt
	Settled  Settled         `json:"settled,omitempty"`
}

// Settled says what became of a message.
type Settled string

// What can become of a message.
const (
	Pending   Settled = ""
	Delivered Settled = "delivered"
	GivenUp   Settled = "given-up"
)

// OutboxCall settles messages and takes due ones, in one commit. Taken messages are not given to anybody else for Lease.
type OutboxCall struct {
	Settle []Message // by Key: Settled, Error and Due are taken over
	Take   int
	Lease  time.Duration
	Now    time.Time
	Job    ID // if set: list the messages of this job, settled or not, taking none
}
