// Package ratelimit limits how often something happens by token buckets, one for each key.
package ratelimit

import (
	"sync"
	"time"
)

// mostKeys bounds the buckets. When there are more, those that are full again are removed, and if none is, all.
const mostKeys = 100_000

// Limit allows a burst, and then a rate, for each key. It is safe for concurrent use.
type Limit struct {
	every time.Duration // between two, in the long run
	burst int
	now   func() time.Time

	mu      sync.Mutex           // guards buckets
	buckets map[string]time.Time // when each bucket is full again
}

// New returns a limit of burst at once and then one every so often. now is the clock.
func New(every time.Duration, burst int, now func() time.Time) *Limit {
	return &Limit{every: every, burst: burst, now: now, buckets: map[string]time.Time{}}
}

// Allow counts one more of a key. If there are too many it counts nothing and returns after which time one is allowed.
func (l *Limit) Allow(key string) (wait time.Duration, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	full := l.buckets[key]
	if full.Before(now) {
		full = now
	}
	full = full.Add(l.every)
	if wait = full.Sub(now) - time.Duration(l.burst)*l.every; wait > 0 {
		return wait, false
	}
	if _, known := l.buckets[key]; !known && len(l.buckets) >= mostKeys {
		l.forget(now)
	}
	l.buckets[key] = full
	return 0, true
}

// Return cancels the count of one of a key that was allowed at a time, such as an attempt that was no failure. The
// others stay counted: time from then until now frees nothing twice.
func (l *Limit) Return(key string, allowed time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	full, counted := l.buckets[key]
	left := l.every - now.Sub(allowed)
	if !counted || left <= 0 {
		return
	}
	if full = full.Add(-left); full.After(now) {
		l.buckets[key] = full
	} else {
		delete(l.buckets, key)
	}
}

// forget removes buckets that are full again. The caller has locked mu.
func (l *Limit) forget(now time.Time) {
	for key, full := range l.buckets {
		if !full.After(now) {
			delete(l.buckets, key)
		}
	}
	if len(l.buckets) >= mostKeys {
		clear(l.buckets)
	}
}
