// Package ratelimit limits how often something happens by token buckets, one for each key.
package ratelimit

import (
	"crypto/sha256"
	"maps"
	"slices"
	"sync"
	"time"
)

// Bounds of the memory. When there are more buckets, those that are full again are removed, and if none is, some that
// have the most left. A key that is longer is kept as its SHA-256.
const (
	mostKeys = 100_000
	longest  = 128 // bytes of a key
)

// short returns a key that is not long.
func short(key string) string {
	if len(key) <= longest {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return string(sum[:])
}

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
	key = short(key)
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
	key = short(key)
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

// forget removes buckets that are full again, and else a tenth of all: those that are full soonest, so that keys that a
// client invents do not free those that it has used up. The caller has locked mu.
func (l *Limit) forget(now time.Time) {
	for key, full := range l.buckets {
		if !full.After(now) {
			delete(l.buckets, key)
		}
	}
	if len(l.buckets) < mostKeys {
		return
	}
	keys := slices.SortedFunc(maps.Keys(l.buckets), func(a, b string) int {
		return l.buckets[a].Compare(l.buckets[b])
	})
	for _, key := range keys[:len(keys)/10] {
		delete(l.buckets, key)
	}
}
