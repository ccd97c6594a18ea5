package flow

import (
	"slices"
	"sync"
)

// Pool runs tasks in a bounded number of goroutines. Any number of flows may share it. It has no idle goroutines.
type Pool struct {
	mu    sync.Mutex // guards the rest
	free  int
	queue []*slot // from head on
	head  int
}

// slot is a task that runs or waits in the pool.
type slot struct {
	run       func()
	begun     bool
	cancelled bool // before it started
}

// NewPool makes a pool of n goroutines, at least one.
func NewPool(n int) *Pool { return &Pool{free: max(n, 1)} }

// submit runs a function as soon as a goroutine is free. cancel removes the function if it has not started, and reports
// whether it did.
func (p *Pool) submit(run func()) (cancel func() bool) {
	s := &slot{run: run}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.free > 0 {
		p.free--
		s.begun = true
		go p.work(s)
	} else {
		if p.head > len(p.queue)/2 { // the queue of a pool that is never idle stays bounded
			p.queue, p.head = slices.Delete(p.queue, 0, p.head), 0
		}
		p.queue = append(p.queue, s)
	}
	return func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		if s.begun {
			return false
		}
		s.cancelled = true
		return true
	}
}

// work runs a task and then queued tasks until the queue is empty.
func (p *Pool) work(s *slot) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if s := p.next(); s != nil { // a task called runtime.Goexit: another goroutine replaces this one
			go p.work(s)
		}
	}()
	for s != nil {
		s.run()
		s = p.next()
	}
	returned = true
}

func (p *Pool) next() *slot {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.head < len(p.queue) {
		s := p.queue[p.head]
		p.queue[p.head] = nil
		p.head++
		if !s.cancelled {
			s.begun = true
			return s
		}
	}
	p.queue, p.head = p.queue[:0], 0
	p.free++
	return nil
}
