package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/engine/meter"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
)

// Deliver delivers one outbox message. It may be called again for a message that was delivered, with the same key.
// After an error that is not temporary ([cause.Temporary]), or [Fail], the message is abandoned. [RetryAfter] asks for
// a longer pause than the engine's own. It returns when ctx ends: at the stop of the engine a delivery that runs on for
// 10 seconds is left, and its message is delivered again later.
type Deliver func(ctx context.Context, m job.Message) error

// Receiver names who gets a message, such as the host of its address. Of the messages of a topic that has one, those to
// a receiver that is slow or does not answer wait, and those to other receivers do not.
type Receiver func(m job.Message) string

// ReceiverIn returns the text of a member of the bodies, which are JSON objects.
func ReceiverIn(member string) Receiver {
	return func(m job.Message) (name string) {
		var members map[string]json.RawMessage
		if json.Unmarshal(m.Body, &members) == nil {
			_ = json.Unmarshal(members[member], &name) // no text: no name
		}
		return name
	}
}

// deliveries delivers due messages until ctx ends. Each topic has a goroutine, so that a slow receiver delays no other
// topic. It returns the messages whose deliveries still run ([outgoing.giveBack]).
func (e *Engine) deliveries(ctx context.Context) []string {
	if len(e.topics) == 0 {
		return nil
	}
	topics := e.topics
	left := make([][]string, len(topics)+1)
	var all sync.WaitGroup
	for i := range topics {
		all.Go(func() {
			o := e.newOutgoing(job.Taking{Topics: topics[i : i+1]}, e.options.Receivers[topics[i]])
			left[i] = o.run(ctx, e.posts[i])
		})
	}
	// messages without a function are abandoned with an error
	all.Go(func() {
		o := e.newOutgoing(job.Taking{Topics: topics, Others: true}, nil)
		left[len(topics)] = o.run(ctx, e.posts[len(topics)])
	})
	all.Wait()
	return slices.Concat(left...)
}

// wakeDeliveries notifies the deliveries that there may be messages.
func (e *Engine) wakeDeliveries() {
	for _, post := range e.posts {
		signal(post)
	}
}

// postedBy is posted for a change and the children that it creates.
func (e *Engine) postedBy(c *job.Change) {
	e.posted(c.Outbox)
	e.postedWith(c.Spawn)
}

// postedWith is posted for new jobs.
func (e *Engine) postedWith(created []job.Created) {
	for i := range created {
		e.posted(created[i].Outbox)
	}
}

// posted wakes the deliveries of messages that were handed to the store, written or not. Most commits have none, and
// each search for due messages is an operation of the store. Messages of other engines are found by the sweep.
func (e *Engine) posted(messages []job.Message) {
	for i := range messages {
		at, known := slices.BinarySearch(e.topics, messages[i].Topic)
		if !known {
			at = len(e.topics)
		}
		signal(e.posts[at])
	}
}

// Replay is part of operator.Acts.
func (e operators) Replay(ctx context.Context, keys []string, actor, note string) error {
	if len(keys) == 0 {
		return job.Errorf(job.Invalid, "replay", "", "it needs the keys of messages")
	}
	if note == "" {
		return job.Errorf(job.Invalid, "replay", "", "it needs a note: the audit log records why")
	}
	what := fmt.Sprintf("%d messages, the first %s", len(keys), keys[0])
	if len(keys) == 1 {
		what = keys[0]
	}
	if err := e.Audit(ctx, operator.Entry{Actor: actor, Event: "replay", Object: what, Note: note}); err != nil {
		return err
	}
	_, err := e.store.Replay(ctx, e.clock.Now(), keys...)
	if err == nil {
		e.wakeDeliveries()
	}
	return err
}

// deliverOne delivers one message and records the result in it.
func (e *Engine) deliverOne(ctx context.Context, m *job.Message, limit time.Duration) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := e.clock.Now()
	err := e.callDeliver(limited, m)
	now := e.clock.Now()
	defer func() {
		e.meter.Delivered(meter.Delivery{Topic: m.Topic, Settled: m.Settled, Took: now.Sub(began),
			Lag: max(now.Sub(m.Created), 0)})
	}()
	remember(m, began, now, err)
	o := asOutcome(err)
	switch {
	case err == nil:
		m.Settled, m.Error = job.Delivered, ""
	case ctx.Err() != nil: // the engine stops: the message stays pending
		m.Error, m.Due = err.Error(), now
	case limited.Err() == nil && o.verdict == fails, m.Attempts >= e.options.Attempts:
		m.Settled, m.Error = job.Abandoned, err.Error()
		e.log.Error("message abandoned", "key", m.Key, "topic", m.Topic, "attempts", m.Attempts, "error", err)
	default:
		pause := Backoff{First: 5 * time.Second, Max: time.Hour}.Pause(m.Attempts, e.chance())
		m.Error, m.Due = err.Error(), now.Add(max(o.after, pause))
	}
}

// remember adds a delivery to its message, which keeps the last few.
func remember(m *job.Message, began, ended time.Time, err error) {
	one := job.Attempt{At: began, Took: ended.Sub(began).Milliseconds()}
	if err != nil {
		one.Error = err.Error()
	}
	m.Tried = append(m.Tried, one)
	m.Tried = m.Tried[max(0, len(m.Tried)-job.MostTried):]
}

func (e *Engine) callDeliver(ctx context.Context, m *job.Message) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the delivery of %s panicked: %v", m.Topic, p)
		}
	}()
	deliver := e.options.Deliver[m.Topic]
	if deliver == nil {
		return fmt.Errorf("this server does not deliver %q", m.Topic)
	}
	return deliver(ctx, *m)
}
