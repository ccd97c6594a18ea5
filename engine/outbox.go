package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/stagepost/stagepost/engine/meter"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
)

// Deliver takes one outbox message out of the system. It may be called again for a message that was delivered, with the
// same key. An error that is not worth a retry ([cause.Temporary]), or [Fail], gives the message up at once;
// [RetryAfter] asks for a longer pause than the engine's own.
type Deliver func(ctx context.Context, m job.Message) error

// deliveries takes due messages and delivers them until ctx ends: those of each topic by themselves, so that a receiver
// that is slow delays no other topic.
func (e *Engine) deliveries(ctx context.Context) {
	if len(e.options.Deliver) == 0 {
		return
	}
	topics := slices.Sorted(maps.Keys(e.options.Deliver))
	var all sync.WaitGroup
	for i := range topics {
		all.Go(func() { e.deliverTopic(ctx, e.posts[i], job.OutboxCall{Topics: topics[i : i+1]}) })
	}
	// they are abandoned, and state that
	all.Go(func() { e.deliverTopic(ctx, e.posts[len(topics)], job.OutboxCall{Topics: topics, Others: true}) })
	all.Wait()
}

// deliverTopic delivers what the call takes until ctx ends; it is woken by post.
func (e *Engine) deliverTopic(ctx context.Context, post chan struct{}, take job.OutboxCall) {
	for {
		n, err := e.deliver(ctx, take)
		if err != nil && ctx.Err() == nil {
			e.log.Error("outbox", "error", err)
		}
		if n > 0 {
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-post:
		}
	}
}

// mailed notifies those who deliver that there may be messages.
func (e *Engine) mailed() {
	for _, post := range e.posts {
		signal(post)
	}
}

// deliver handles one handful of messages and gives their number.
func (e *Engine) deliver(ctx context.Context, take job.OutboxCall) (int, error) {
	const handful = 16
	take.Take, take.Lease, take.Now = handful, 2*time.Minute, e.clock.Now()
	messages, err := e.store.Outbox(ctx, take)
	if err != nil || len(messages) == 0 {
		return 0, err
	}
	var wg sync.WaitGroup
	for i := range messages {
		wg.Go(func() { e.hand(ctx, &messages[i], take.Lease/2) })
	}
	wg.Wait()
	_, err = e.store.Outbox(context.WithoutCancel(ctx), job.OutboxCall{Settle: messages, Now: e.clock.Now()})
	return len(messages), err
}

// Replay is part of operator.Acts.
func (e operators) Replay(ctx context.Context, keys []string, actor, note string) error {
	if len(keys) == 0 {
		return job.Errorf(job.Invalid, "replay", "", "it needs the keys of messages")
	}
	if note == "" {
		return job.Errorf(job.Invalid, "replay", "", "it needs a note: the audit list will say why")
	}
	what := fmt.Sprintf("%d messages, the first %s", len(keys), keys[0])
	if len(keys) == 1 {
		what = keys[0]
	}
	if err := e.Audit(ctx, operator.Entry{Actor: actor, Event: "replay", Object: what, Note: note}); err != nil {
		return err
	}
	_, err := e.store.Outbox(ctx, job.OutboxCall{Replay: keys, Now: e.clock.Now()})
	if err == nil {
		e.mailed()
	}
	return err
}

// hand delivers one message and notes in it what became of it.
func (e *Engine) hand(ctx context.Context, m *job.Message, limit time.Duration) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := e.clock.Now()
	err := e.handTo(limited, m)
	now := e.clock.Now()
	defer func() {
		e.meter.Delivered(meter.Delivery{Topic: m.Topic, Settled: m.Settled, Took: now.Sub(began),
			Lag: max(now.Sub(m.Created), 0)})
	}()
	remember(m, began, now, err)
	o := judge(err)
	switch {
	case err == nil:
		m.Settled, m.Error = job.Delivered, ""
	case ctx.Err() != nil: // the engine stops: that is no reason to stop trying
		m.Error, m.Due = err.Error(), now
	case limited.Err() == nil && o.verdict == fails, m.Attempts >= e.options.Attempts:
		m.Settled, m.Error = job.GivenUp, err.Error()
		e.log.Error("message given up", "key", m.Key, "topic", m.Topic, "attempts", m.Attempts, "error", err)
	default:
		pause := Backoff{First: 5 * time.Second, Max: time.Hour}.Pause(m.Attempts, e.chance())
		m.Error, m.Due = err.Error(), now.Add(max(o.after, pause))
	}
}

// remember notes a delivery in its message, which keeps the last ones.
func remember(m *job.Message, began, ended time.Time, err error) {
	one := job.Attempt{At: began, Took: ended.Sub(began).Milliseconds()}
	if err != nil {
		one.Error = err.Error()
	}
	m.Tried = append(m.Tried, one)
	m.Tried = m.Tried[max(0, len(m.Tried)-job.MostTried):]
}

func (e *Engine) handTo(ctx context.Context, m *job.Message) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the delivery of %s panicked: %v", m.Topic, p)
		}
	}()
	deliver := e.options.Deliver[m.Topic]
	if deliver == nil {
		return fmt.Errorf("nobody here delivers %q", m.Topic)
	}
	return deliver(ctx, *m)
}
