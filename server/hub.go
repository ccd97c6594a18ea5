package server

import (
	"sync"
	"sync/atomic"

	"github.com/stagepost/stagepost/job"
)

// hub hands the store's hints to those who wait for them: event streams by job, long polls by place. A hint only wakes; who wakes reads
// the record. So a slow reader never makes a queue.
type hub struct {
	busy atomic.Int64 // how many wait; 0 lets hear return at once

	mu     sync.Mutex // guards the rest
	jobs   map[job.ID][]chan struct{}
	places map[job.KindState][]chan struct{}
	done   chan struct{}
	closed bool
}

func newHub() *hub {
	return &hub{jobs: map[job.ID][]chan struct{}{}, places: map[job.KindState][]chan struct{}{}, done: make(chan struct{})}
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.closed {
		h.closed = true
		close(h.done)
	}
}

// WatchJob gives a channel that a change of the job fills. The caller calls stop once.
func (s *Server) WatchJob(id job.ID) (changed <-chan struct{}, stop func()) { return s.hub.watch(id) }

// Closing is closed when the server closes: streams end then.
func (s *Server) Closing() <-chan struct{} { return s.hub.done }

// hear is called by the store and must not block.
func (h *hub) hear(hints []job.Hint) {
	if h.busy.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, hint := range hints {
		for _, c := range h.jobs[hint.Job] {
			wake(c)
		}
		if !hint.Free {
			continue
		}
		for _, c := range h.places[job.KindState{Kind: hint.Kind, State: hint.State}] {
			if wake(c) {
				break // one job, one worker
			}
		}
	}
}

// wake tells whether c slept.
func wake(c chan struct{}) bool {
	select {
	case c <- struct{}{}:
		return true
	default:
		return false
	}
}

// watch gives a channel that a change of the job fills. The caller calls stop once.
func (h *hub) watch(id job.ID) (c chan struct{}, stop func()) {
	c = make(chan struct{}, 1)
	add(h, h.jobs, id, c)
	return c, func() { remove(h, h.jobs, id, c) }
}

// await gives a channel that a free job in one of the places fills. The caller calls stop once.
func (h *hub) await(places []job.KindState) (c chan struct{}, stop func()) {
	c = make(chan struct{}, 1)
	for _, p := range places {
		add(h, h.places, p, c)
	}
	return c, func() {
		for _, p := range places {
			remove(h, h.places, p, c)
		}
	}
}

func add[K comparable](h *hub, m map[K][]chan struct{}, k K, c chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m[k] = append(m[k], c)
	h.busy.Add(1)
}

func remove[K comparable](h *hub, m map[K][]chan struct{}, k K, c chan struct{}) {
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
