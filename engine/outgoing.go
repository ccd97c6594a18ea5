package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
)

// How many messages of a topic are delivered at once, and how long those of one receiver may delay others.
const (
	mostDeliveries = 16              // with one receiver
	mostOfReceiver = 8               // of each of several
	mostInHand     = 64              // with several: being delivered, or waiting for others to the same receiver
	fewestTaken    = 4               // a search of the outbox is for at least so many, unless there are none in hand
	slowDelivery   = time.Second     // the messages that wait for a receiver that takes longer are put back
	messageLease   = 2 * time.Minute // of a message that was taken; its delivery may take half of it
)

// outgoing delivers the messages of some topics. One goroutine uses it.
type outgoing struct {
	engine   *Engine
	take     job.Taking
	receiver Receiver // nil: one for all
	lanes    map[string]*lane
	inHand   int
	ended    chan delivered
	results  []job.Message // to be settled
}

// lane has the messages to one receiver. After a delivery that was slow and failed, it is closed for a while; then one
// delivery at a time is tried until one succeeds.
type lane struct {
	running  map[string]delivering // by key of the message
	waiting  []*job.Message
	failures int
	closed   time.Time // no delivery before
}

// delivering is a delivery that runs.
type delivering struct {
	topic string
	began time.Time
}

type delivered struct {
	lane    string
	message *job.Message
}

func (e *Engine) newOutgoing(take job.Taking, receiver Receiver) *outgoing {
	take.Lease = messageLease
	return &outgoing{engine: e, take: take, receiver: receiver, lanes: map[string]*lane{},
		ended: make(chan delivered, mostInHand)}
}

// run delivers until ctx ends; post wakes it. It returns the messages whose deliveries still run.
func (o *outgoing) run(ctx context.Context, post chan struct{}) []string {
	for more := true; ; {
		if more && (o.inHand == 0 || o.space() >= fewestTaken) {
			more = o.search(ctx)
			o.settle(ctx)
			continue
		}
		slow, stop := o.slowTimer()
		select {
		case <-ctx.Done():
			stop()
			return o.giveBack(ctx)
		case <-post:
			more = true
		case one := <-o.ended:
			o.end(ctx, one)
			for len(o.ended) > 0 {
				o.end(ctx, <-o.ended)
			}
		case <-slow:
		}
		stop()
		o.putBackSlow()
		o.settle(ctx)
	}
}

// space is for how many more messages there is space.
func (o *outgoing) space() int {
	if o.receiver == nil {
		return mostDeliveries - o.inHand
	}
	return mostInHand - o.inHand
}

// search takes due messages and reports whether there may be more.
func (o *outgoing) search(ctx context.Context) (more bool) {
	if ctx.Err() != nil {
		return false
	}
	o.take.N, o.take.Now = min(o.space(), mostDeliveries), o.engine.clock.Now()
	messages, err := o.engine.store.Take(ctx, o.take)
	if err != nil {
		if ctx.Err() == nil {
			o.engine.log.Error("outbox", "error", err)
		}
		return false
	}
	for i := range messages {
		o.add(ctx, &messages[i])
	}
	return len(messages) == o.take.N
}

// add begins a delivery, or lets the message wait for others to its receiver.
func (o *outgoing) add(ctx context.Context, m *job.Message) {
	name := ""
	if o.receiver != nil {
		name = o.receiver(*m)
	}
	l, now := o.lanes[name], o.engine.clock.Now()
	if l == nil {
		l = &lane{running: map[string]delivering{}}
		o.lanes[name] = l
	}
	if l.has(m.Key) {
		return // its lease ended before its delivery, whose result settles it
	}
	o.inHand++
	switch {
	case now.Before(l.closed):
		o.putBack(m, l.closed)
	case len(l.running) < o.most(l):
		o.begin(ctx, name, l, m)
	case l.slow(now):
		o.putBack(m, o.later(now))
	default:
		l.waiting = append(l.waiting, m)
	}
}

// most is how many deliveries to a receiver may run at once.
func (o *outgoing) most(l *lane) int {
	switch {
	case o.receiver == nil:
		return mostDeliveries
	case l.failures > 0:
		return 1
	}
	return mostOfReceiver
}

// has reports whether the delivery of a message runs or waits.
func (l *lane) has(key string) bool {
	_, runs := l.running[key]
	return runs || slices.ContainsFunc(l.waiting, func(m *job.Message) bool { return m.Key == key })
}

// slow reports whether a delivery takes long.
func (l *lane) slow(now time.Time) bool {
	for _, d := range l.running {
		if now.Sub(d.began) >= slowDelivery {
			return true
		}
	}
	return false
}

func (o *outgoing) begin(ctx context.Context, name string, l *lane, m *job.Message) {
	l.running[m.Key] = delivering{m.Topic, o.engine.clock.Now()}
	go func() {
		o.engine.deliverOne(ctx, m, messageLease/2)
		o.ended <- delivered{name, m}
	}()
}

// end takes the result of a delivery, and begins what waited for it.
func (o *outgoing) end(ctx context.Context, one delivered) {
	l, now, m := o.lanes[one.lane], o.engine.clock.Now(), one.message
	took := now.Sub(l.running[m.Key].began)
	delete(l.running, m.Key)
	o.inHand--
	o.results = append(o.results, *m)
	switch {
	case o.receiver == nil || ctx.Err() != nil:
	case m.Settled != job.Delivered && took >= slowDelivery:
		l.failures++
		pause := Backoff{First: 5 * time.Second, Max: 5 * time.Minute}.Pause(l.failures, o.engine.chance())
		l.closed = now.Add(pause)
		o.putBackAll(l, l.closed)
	default: // the receiver answers
		l.failures, l.closed = 0, time.Time{}
	}
	for len(l.waiting) > 0 && len(l.running) < o.most(l) {
		o.begin(ctx, one.lane, l, l.waiting[0])
		l.waiting = l.waiting[1:]
	}
	if len(l.running) == 0 && l.failures == 0 {
		delete(o.lanes, one.lane)
	}
}

// putBack gives a message back that was not tried. It is due later, and the attempt is not counted.
func (o *outgoing) putBack(m *job.Message, due time.Time) {
	m.Attempts, m.Due = m.Attempts-1, due
	o.inHand--
	o.results = append(o.results, *m)
}

func (o *outgoing) putBackAll(l *lane, due time.Time) {
	for _, m := range l.waiting {
		o.putBack(m, due)
	}
	l.waiting = nil
}

// putBackSlow puts back what waits for slow receivers, so that messages to others can be taken.
func (o *outgoing) putBackSlow() {
	now := o.engine.clock.Now()
	for _, l := range o.lanes {
		if l.slow(now) {
			o.putBackAll(l, o.later(now))
		}
	}
}

// later is when a message to a slow receiver is due again: not all of many at the same time.
func (o *outgoing) later(now time.Time) time.Time {
	return now.Add(5*time.Second + time.Duration(o.engine.chance()*float64(25*time.Second)))
}

// slowTimer fires when a delivery that others wait for becomes slow.
func (o *outgoing) slowTimer() (fires <-chan time.Time, stop func()) {
	for _, l := range o.lanes {
		if len(l.waiting) > 0 {
			t := time.NewTimer(slowDelivery)
			return t.C, func() { t.Stop() }
		}
	}
	return nil, func() {}
}

// giveBack puts back what waits, and waits for the deliveries, whose contexts have ended, for lastCommits. It returns
// the messages whose deliveries still run: they are taken again when their leases end.
func (o *outgoing) giveBack(ctx context.Context) (left []string) {
	now := o.engine.clock.Now()
	for _, l := range o.lanes {
		o.putBackAll(l, now)
	}
	timer := time.NewTimer(lastCommits)
	defer timer.Stop()
	for late := false; o.inHand > 0 && !late; {
		select {
		case one := <-o.ended:
			o.end(ctx, one)
		case <-timer.C:
			late = true
		}
	}
	o.settle(ctx)
	for _, l := range o.lanes {
		for key, m := range l.running {
			left = append(left, fmt.Sprintf("%s (%s)", key, m.topic))
			o.engine.log.Error("the delivery still runs although its context has ended", "key", key, "topic", m.topic)
		}
	}
	return left
}

// settle writes the results. If it fails, the messages are taken again when their leases end.
func (o *outgoing) settle(ctx context.Context) {
	if len(o.results) == 0 {
		return
	}
	if err := o.engine.store.Settle(context.WithoutCancel(ctx), o.results...); err != nil && ctx.Err() == nil {
		o.engine.log.Error("outbox", "error", err)
	}
	clear(o.results)
	o.results = o.results[:0]
}
