package job

import (
	"encoding/json"
	"slices"
	"time"
)

// Message is something that must leave the system after a commit: a mail, a callback. It is written with the commit and
// delivered at least once, always with the same key (reliability rule R9).
type Message struct {
	Number   int64           `json:"number"` // in order of creation, given by the store
	Key      string          `json:"key"`    // deterministic, such as "ing_01J.../report/1"; a second one with the key is ignored
	Job      ID              `json:"job"`
	Topic    string          `json:"topic"` // who delivers it: "mail", "callback"
	Body     json.RawMessage `json:"body,omitempty"`
	Created  time.Time       `json:"created"`
	Due      time.Time       `json:"due"` // not before; while it is being delivered: when it is given to another
	Attempts int             `json:"attempts"`
	Error    string          `json:"error,omitempty"` // of the last attempt
	Settled  Settled         `json:"settled,omitempty"`
	Tried    []Attempt       `json:"tried,omitempty"` // the last deliveries, oldest first; at most [MostTried]
}

// Attempt is one delivery of a message.
type Attempt struct {
	At    time.Time `json:"at"`
	Took  int64     `json:"took_ms"`         // milliseconds
	Error string    `json:"error,omitempty"` // empty: it was taken
}

// MostTried bounds the deliveries that a message remembers.
const MostTried = 16

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
	Settle []Message // by Key: Settled, Error, Due and Tried are taken over; a nil Tried leaves what the message has
	Take   int
	Topics []string // take only messages of these topics; none: of all
	Others bool     // take only messages of other topics than Topics
	Lease  time.Duration
	Now    time.Time
	Job    ID // if set: list the messages of this job, settled or not, taking none

	List *MessageQuery // if set: list messages, taking none
	// Replay are keys of settled messages that are to be delivered again, with all their attempts left: all or none. Unknown ones are NotFound,
	// pending ones Conflict. They are the answer unless messages are taken.
	Replay []string
}

// Wants tells whether the call takes messages of a topic.
func (c *OutboxCall) Wants(topic string) bool {
	return len(c.Topics) == 0 || slices.Contains(c.Topics, topic) != c.Others
}

// MessageQuery selects messages, the newest first. Empty fields do not restrict.
type MessageQuery struct {
	Job     ID
	Topic   string
	Settled *Settled
	Before  int64 // cursor: Number of the last one of the page before
	Limit   int   // 0 means 50, at most 1000
}

// Matches tells whether message m is one of those that the query wants.
func (q *MessageQuery) Matches(m *Message) bool {
	return (q.Job == "" || q.Job == m.Job) && (q.Topic == "" || q.Topic == m.Topic) &&
		(q.Settled == nil || *q.Settled == m.Settled) && (q.Before <= 0 || m.Number < q.Before)
}

// PageSize gives the number of messages on a page: Limit within its bounds.
func (q *MessageQuery) PageSize() int { return pageSize(q.Limit) }
