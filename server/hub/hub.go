// Package hub passes the store's hints on to the requests that wait for them.
package hub

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stagepost/stagepost/job"
)

// Hub wakes waiting requests: event streams by job, long polls by kind and state. A hint carries no data; the request
// that it wakes reads the record. So a slow reader causes no queue.
type Hub struct {
	busy     atomic.Int64         // waiting requests; if 0, Notify returns at once
	releases func(*job.Hint) bool // whether another job of the kind may have become claimable too

	mu     sync.Mutex // guards the rest
	jobs   map[job.ID][]chan struct{}
	states map[job.KindState][]chan struct{}
	done   chan struct{}
	closed bool
}

// New returns a hub in which no request waits. releases reports whether a change lets another job of its kind be
// claimed, because a limit counts one fewer.
func New(releases func(*job.Hint) bool) *Hub {
	return &Hub{releases: releases, jobs: map[job.ID][]chan struct{}{}, states: map[job.KindState][]chan struct{}{},
		done: make(chan struct{})}
}

// Close wakes all that wait on Done. It may be called again.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		close(h.done)
	}
}

// Done is closed by Close.
func (h *Hub) Done() <-chan struct{} { return h.done }

// Notify wakes the requests that the hints concern. The store calls it; it does not block.
func (h *Hub) Notify(hints []job.Hint) {
	if h.busy.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range hints {
		hint := &hints[i]
		if hint.Released {
			h.wakeClaims()
			continue
		}
		if !hint.Until.IsZero() {
			continue // the requests claim again at intervals
		}
		for _, c := range h.jobs[hint.Job] {
			wake(c)
		}
		if hint.Free {
			wakeOne(h.states[job.KindState{Kind: hint.Kind, State: hint.State}])
		}
		if len(h.states) > 0 && h.releases(hint) {
			h.wakeKind(hint.Kind)
		}
	}
}

// wakeKind wakes one request for each state of a kind, because a limit has no state in which a job waits. The
// caller holds mu.
func (h *Hub) wakeKind(kind job.Kind) {
	for at, waiting := range h.states {
		if at.Kind == kind {
			wakeOne(waiting)
		}
	}
}

// wakeClaims wakes all requests that wait for a state, because a hold may have kept any number of jobs. The caller
// holds mu.
func (h *Hub) wakeClaims() {
	for _, waiting := range h.states {
		for _, c := range waiting {
			wake(c)
		}
	}
}

// wakeOne wakes the first that waits: one job, one worker.
func wakeOne(waiting []chan struct{}) { _ = slices.ContainsFunc(waiting, wake) }

// wake reports whether c was waiting.
func wake(c chan struct{}) bool {
	select {
	case c <- struct{}{}:
		return true
	default:
		return false
	}
}

// Watch returns a channel that a change of the job fills. The caller calls stop once.
func (h *Hub) Watch(id job.ID) (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	add(h, h.jobs, id, c)
	return c, func() { remove(h, h.jobs, id, c) }
}

// Await returns a channel that a free job in one of the states fills. The caller calls stop once.
func (h *Hub) Await(states []job.KindState) (free <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	for _, p := range states {
		add(h, h.states, p, c)
	}
	return c, func() {
		for _, p := range states {
			remove(h, h.states, p, c)
		}
	}
}

func add[K comparable](h *Hub, m map[K][]chan struct{}, k K, c chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m[k] = append(m[k], c)
	h.busy.Add(1)
}

func remove[K comparable](h *Hub, m map[K][]chan struct{}, k K, c chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, other := range m[k] {
		if other == c {
			m[k] = append(m[k][:i], m[k][i+1:]...)
			h.busy.Add(-1)
			break
		}
	}
	if len(m[k]) == 0 {
		delete(m, k)
	}
}
