package trigger

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/quantity"
)

// mostPerMinute is the default of [Receiver.MostPerMinute].
const mostPerMinute = 60

// whileDown is after which time a sender may send an event again while the source cannot be read.
const whileDown = time.Minute

// LaterError refuses an event for now. The sender sends it again, with the same id, after a time.
type LaterError struct {
	After time.Duration
	Many  bool // there were too many events; else the source cannot be read
	err   error
}

// Error is for the sender.
func (e *LaterError) Error() string { return e.err.Error() }

// Unwrap gives an error of kind Unavailable.
func (e *LaterError) Unwrap() error { return e.err }

// received is what is known of the events of a receiver.
type received struct {
	left  float64   // events that are accepted at once
	at    time.Time // of left
	since time.Time // since when events are refused because the source cannot be read; zero: they are not
	err   error     // of the last one
	count int       // of those that were refused
}

// limit counts an event with a valid signature. It refuses one that is over the limit of its receiver.
func (a *App) limit(name string, r *Receiver) error {
	most, now := float64(cmp.Or(r.MostPerMinute, mostPerMinute)), a.now()
	a.mu.Lock()
	defer a.mu.Unlock()
	one := a.received[name]
	if one == nil {
		one = &received{left: most, at: now}
		a.received[name] = one
	}
	one.left = min(most, one.left+max(now.Sub(one.at), 0).Minutes()*most)
	one.at = now
	if one.left >= 1 {
		one.left--
		return nil
	}
	after := time.Duration((1-one.left)/most*float64(time.Minute)).Truncate(time.Second) + time.Second
	return &LaterError{after, true, job.Errorf(job.Unavailable, "event", "",
		"more than %d events in a minute: send it again in %s", int(most), quantity.FormatDuration(after))}
}

// down notes that the source of a receiver cannot be read, and gives the refusal.
func (a *App) down(name string, r *Receiver, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if one := a.received[name]; one != nil {
		if one.since.IsZero() {
			one.since, one.count = a.now(), 0
		}
		one.err = err
		one.count++
	}
	a.options.Log.Warn("event refused until the source can be read", "receiver", name, "source", r.Source, "error", err)
	return &LaterError{whileDown, false, job.Errorf(job.Unavailable, "event", "",
		"source %s cannot be read now: send the event again with the same webhook-id: %w", r.Source, err)}
}

// up notes that the source of a receiver can be read.
func (a *App) up(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if one := a.received[name]; one != nil {
		one.since, one.err = time.Time{}, nil
	}
}

// Warn lists the receivers that refuse events because their source cannot be read.
func (a *App) Warn() (all []string) {
	known := a.options.Receivers()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(a.received)) {
		if one := a.received[name]; known[name] != nil && !one.since.IsZero() {
			all = append(all, fmt.Sprintf("archive receiver %s: %d events refused since %s: %v", name, one.count,
				stamp(one.since), one.err))
		}
	}
	return all
}
