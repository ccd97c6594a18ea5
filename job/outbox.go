package job

import (
	"context"
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

// Taking selects the messages that [Outbox.Take] takes.
type Taking struct {
	N      int
	Topics []string // only messages of these topics; empty: of all
	Others bool     // only messages of other topics than Topics
	Lease  time.Duration
	Now    time.Time // see [Claim]
}

// Selects reports whether messages of the topic are taken.
func (t *Taking) Selects(topic string) bool {
	return len(t.Topics) == 0 || slices.Contains(t.Topics, topic) != t.Others
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

// MessagesOf returns all messages of a job, oldest first.
func MessagesOf(ctx context.Context, o Outbox, id ID) ([]Message, error) {
	q := MessageQuery{Job: id, Limit: mostPage}
	var all []Message
	for {
		page, err := o.Messages(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < q.Limit {
			slices.Reverse(all)
			return all, nil
		}
		q.Before = page[len(page)-1].Number
	}
}
