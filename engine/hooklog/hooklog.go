// Package hooklog has the delivery logs of applications: which notifications of a topic of the outbox were sent, and
// those to be sent again.
package hooklog

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// Statuses of a delivery.
const (
	Pending   = "pending" // it will be tried, or tried again
	Delivered = "delivered"
	Abandoned = "abandoned"
)

// Log is the delivery log of a topic. All fields are required.
type Log struct {
	Topic  string
	Engine func() *engine.Engine // nil until the engine is made: requests then are of kind Unavailable
	// Describe reads the body of a message. It completes what the log shows: type, receiver, host and payload. A body
	// that cannot be read is shown without them.
	Describe func(body json.RawMessage, into *api.Hook)
}

// Query selects deliveries, the newest first. Empty fields do not restrict.
type Query struct {
	Job    job.ID
	Status string
	Before int64 // Number of the last one of the page before
	Limit  int   // 0 means 50, at most 1000
}

func (l *Log) engine() (*engine.Engine, error) {
	if e := l.Engine(); e != nil {
		return e, nil
	}
	return nil, job.Errorf(job.Unavailable, "hooks", "", "the engine does not run yet")
}

// Deliveries lists notifications without their payloads. An unknown status is of kind Invalid.
func (l *Log) Deliveries(ctx context.Context, q Query) ([]api.Hook, error) {
	e, err := l.engine()
	if err != nil {
		return nil, err
	}
	list := job.MessageQuery{Job: q.Job, Topic: l.Topic, Before: q.Before, Limit: q.Limit}
	if q.Status != "" {
		settled := job.Settled(q.Status)
		switch q.Status {
		case Pending:
			settled = job.Pending
		case Delivered, Abandoned:
		default:
			return nil, job.Errorf(job.Invalid, "hooks", "",
				"status must be pending, delivered or abandoned, not %.40q", q.Status)
		}
		list.Settled = &settled
	}
	messages, err := e.Store().Messages(ctx, list)
	if err != nil {
		return nil, err
	}
	all := []api.Hook{}
	for i := range messages {
		one := l.view(&messages[i])
		one.Payload = nil
		all = append(all, one)
	}
	return all, nil
}

func (l *Log) view(m *job.Message) api.Hook {
	one := api.Hook{
		Number: m.Number, Key: m.Key, Job: m.Job, Created: m.Created, Due: m.Due, Attempts: m.Attempts,
		Status: Pending, Error: m.Error, Tried: m.Tried,
	}
	l.Describe(m.Body, &one)
	if m.Settled != job.Pending {
		one.Status, one.Due = string(m.Settled), time.Time{}
	}
	return one
}

// Delivery gives one notification with its payload. An unknown key is of kind NotFound.
func (l *Log) Delivery(ctx context.Context, key string) (api.Hook, error) {
	e, err := l.engine()
	if err != nil {
		return api.Hook{}, err
	}
	id, _, _ := strings.Cut(key, "/")
	messages, err := job.MessagesOf(ctx, e.Store(), job.ID(id))
	if err != nil && job.KindOf(err) != job.NotFound {
		return api.Hook{}, err
	}
	for i := range messages {
		if m := &messages[i]; m.Key == key && m.Topic == l.Topic {
			return l.view(m), nil
		}
	}
	return api.Hook{}, job.Errorf(job.NotFound, "hooks", "", "there is no notification %.200s", key)
}

// most bounds one replay by keys.
const most = 1000

// Replay makes notifications due that were delivered or abandoned, with all their attempts, and returns their keys.
// Nothing is replayed if one of the keys is wrong. Those that failed are replayed 1,000 at a time: after an error the
// pages before it are due, its text has their number, and a repeated call replays the others. Errors: Invalid;
// NotFound; Refused for one that is still being tried.
func (l *Log) Replay(ctx context.Context, r api.ReplayHooks) ([]string, error) {
	switch {
	case strings.TrimSpace(r.Note) == "":
		return nil, job.Errorf(job.Invalid, "replay", "", "a replay needs a reason: it is entered in the audit log")
	case r.Failed == (len(r.Keys) > 0):
		return nil, job.Errorf(job.Invalid, "replay", "", "either keys or those that failed")
	case len(r.Keys) > most:
		return nil, job.Errorf(job.Invalid, "replay", "", "at most %d keys", most)
	case !r.Failed && !r.Since.IsZero():
		return nil, job.Errorf(job.Invalid, "replay", "", "since is for those that failed")
	}
	e, err := l.engine()
	if err != nil {
		return nil, err
	}
	keys := r.Keys
	if r.Failed {
		keys, err = l.failed(ctx, r.Since)
	} else {
		err = l.replayable(ctx, keys)
	}
	if err != nil || len(keys) == 0 {
		return []string{}, err
	}
	for from := 0; from < len(keys); from += most {
		err := e.Operator().Replay(ctx, keys[from:min(from+most, len(keys))], r.Actor, r.Note)
		if err != nil && from > 0 {
			err = job.Errorf(job.KindOf(err), "replay", "", "%d of %d notifications are due again, and the others are "+
				"not: repeat the replay of those that failed: %w", from, len(keys), err)
		}
		if err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// replayable requires that every key is that of a notification which is not pending. Other topics cannot be replayed
// here.
func (l *Log) replayable(ctx context.Context, keys []string) error {
	for _, key := range keys {
		one, err := l.Delivery(ctx, key)
		if err != nil {
			return err
		}
		if one.Status == Pending {
			return job.Errorf(job.Refused, "replay", one.Job, "%s is still being tried, next at %s", key,
				one.Due.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

// failed lists the keys of abandoned notifications that were written at a time or later.
func (l *Log) failed(ctx context.Context, since time.Time) (keys []string, err error) {
	q := Query{Status: Abandoned, Limit: 1000}
	for {
		page, err := l.Deliveries(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range page {
			if page[i].Created.Before(since) {
				return keys, nil
			}
			keys = append(keys, page[i].Key)
		}
		if len(page) < q.Limit {
			return keys, nil
		}
		q.Before = page[len(page)-1].Number
	}
}
