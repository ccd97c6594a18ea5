package flow

import (
	"sync"
	"time"

	"github.com/stagepost/stagepost/lifecycle"
)

// mailbox passes messages from other goroutines to the one that runs the flow.
type mailbox struct {
	mu      sync.Mutex // guards parcels
	parcels []parcel
	wake    chan struct{} // with a buffer of one
}

// parcel is one message: the outcome of a task, progress, or a signal.
type parcel struct {
	done       *outcome
	atom       int32 // of progress
	progress   float64
	details    any
	isProgress bool            // it is progress
	state      lifecycle.State // in which the progress was made; likewise attempt
	attempt    int
	generation int // of an outcome or progress: see Runner.generation
	signal     string
	id         string // of the signal
	value      any
}

func newMailbox() *mailbox { return &mailbox{wake: make(chan struct{}, 1)} }

func (m *mailbox) post(p parcel) {
	m.mu.Lock()
	m.parcels = append(m.parcels, p)
	m.mu.Unlock()
	m.wakeUp()
}

// wakeUp makes the Runner read the mail.
func (m *mailbox) wakeUp() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// removeAll removes all messages and returns them in order.
func (m *mailbox) removeAll() []parcel {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.parcels
	m.parcels = nil
	return all
}

// timer is the time at which a waiting atom continues.
type timer struct {
	at   time.Time
	atom int32
}

// timers is a heap, the earliest first.
type timers []timer

// Len is part of heap.Interface.
func (t timers) Len() int { return len(t) }

// Less is part of heap.Interface.
func (t timers) Less(i, j int) bool {
	if !t[i].at.Equal(t[j].at) {
		return t[i].at.Before(t[j].at)
	}
	return t[i].atom < t[j].atom
}

// Swap is part of heap.Interface.
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }

// Push is part of heap.Interface.
func (t *timers) Push(v any) { *t = append(*t, v.(timer)) }

// Pop is part of heap.Interface.
func (t *timers) Pop() any {
	last := (*t)[len(*t)-1]
	*t = (*t)[:len(*t)-1]
	return last
}
