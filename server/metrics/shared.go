package metrics

import "sync"

// shared lets readers that come at the same time share one reading. Those that come while a reading is under way wait
// for the next one: what a reader gets is never older than its request, and one reading is under way at most, however
// many readers there are.
type shared[F any] struct {
	from func() (F, error)

	mu   sync.Mutex  // guards next and busy
	next *reading[F] // that has not begun
	busy bool        // a goroutine reads
}

// reading is what several readers get.
type reading[F any] struct {
	done     chan struct{} // closed when the rest is set
	families F
	err      error
}

// share makes a prometheus.Gatherer of the method of another one.
func share[F any](from func() (F, error)) *shared[F] { return &shared[F]{from: from} }

// Gather is part of prometheus.Gatherer. Callers must not change what they get.
func (s *shared[F]) Gather() (F, error) {
	r := s.join()
	<-r.done
	return r.families, r.err
}

// join returns the next reading.
func (s *shared[F]) join() *reading[F] {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.next == nil {
		s.next = &reading[F]{done: make(chan struct{})}
	}
	if !s.busy {
		s.busy = true
		go s.read()
	}
	return s.next
}

// read makes readings as long as a caller waits for one.
func (s *shared[F]) read() {
	for r := s.take(); r != nil; r = s.take() {
		r.families, r.err = s.from()
		close(r.done)
	}
}

// take takes the next reading; nil if no caller waits for one.
func (s *shared[F]) take() *reading[F] {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.next
	s.next, s.busy = nil, r != nil
	return r
}
