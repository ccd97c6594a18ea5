package job

import (
	"encoding/json"
	"slices"
	"time"
)

// Message is a message to an external system: a mail, a callback. It is written with the commit and delivered at
// least once, always with the same key.
type Message struct {
	Number int64 `json:"number"` // in order of creation, assigned by the store
	// deterministic, such as "ing_01J.../report/1"; a second message with the key is ignored
	Key      string          `json:"key"`
	Job      ID              `json:"job"`
	Topic    string          `json:"topic"` // selects the delivery: "mail", "callback"
	Body     json.RawMessage `json:"body,omitempty"`
	Created  time.Time       `json:"created"`
	Due      time.Time       `json:"due"` // not delivered before; during a delivery: when another may begin
	Attempts int             `json:"attempts"`
	Error    string          `json:"error,omitempty"` // of the last attempt
	Settled  Settled         `json:"settled,omitempty"`
	Tried    []Attempt       `json:"tried,omitempty"` // the last deliveries, oldest first; at most [MostTried]
}

// Attempt is one delivery of a message.
type Attempt struct {
	At    time.Time `json:"at"`
	Took  int64     `json:"took_ms"`         // milliseconds
	Error string    `json:"error,omitempty"` // empty: delivered
}

// MostTried bounds the deliveries that a message records.
const MostTried = 16

// Settled is the final result of a message.
type Settled string

// The final results of a message.
const (
	Pending   Settled = ""
	Delivered Settled = "delivered"
	Abandoned Settled = "abandoned"
)

// OutboxCall settles messages and takes due ones, in one commit. Taken messages are not taken again during Lease.
type OutboxCall struct {
	Settle []Message // by Key: Settled, Error, Due and Tried are copied; a nil Tried keeps that of the message
	Take   int
	Topics []string // take only messages of these topics; empty: of all
	Others bool     // take only messages of other topics than Topics
	Lease  time.Duration
	Now    time.Time
	Job    ID // if set: list the messages of this job, settled or not, without taking any

	List *MessageQuery // if set: list messages, without taking any
	// Replay are keys of settled messages to be delivered again, with all attempts: all or none. An unknown key is
	// NotFound, a pending message Conflict. The result is these messages, unless messages are taken.
	Replay []string
}

// Selects reports whether the call takes messages of a topic.
func (c *OutboxCall) Selects(topic string) bool {
	return len(c.Topics) == 0 || slices.Contains(c.Topics, topic) != c.Others
}

// MessageQuery selects messages, newest first. Empty fields do not restrict.
type MessageQuery struct {
	Job     ID
	Topic   string
	Settled *Settled
	Before  int64 // cursor: Number of the last message of the previous page
	Limit   int   // 0 means 50, at most 1000
}

// Matches reports whether the query selects message m.
func (q *MessageQuery) Matches(m *Message) bool {
	return (q.Job == "" || q.Job == m.Job) && (q.Topic == "" || q.Topic == m.Topic) &&
		(q.Settled == nil || *q.Settled == m.Settled) && (q.Before <= 0 || m.Number < q.Before)
}

// PageSize returns the number of messages on a page: Limit within its bounds.
func (q *MessageQuery) PageSize() int { return pageSize(q.Limit) }
