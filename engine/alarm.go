package engine

import (
	"container/heap"
	"time"
)

// alarms is a heap of the times at which jobs of this engine become due. It may have more entries than there are jobs.
// Beyond mostAlarms no times are added; the sweep finds these jobs.
type alarms []time.Time

const mostAlarms = 100_000

func (a alarms) Len() int           { return len(a) }
func (a alarms) Less(i, j int) bool { return a[i].Before(a[j]) }
func (a alarms) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }

// Push and Pop are for package heap only.
func (a *alarms) Push(x any) { *a = append(*a, x.(time.Time)) }

func (a *alarms) Pop() any {
	last := len(*a) - 1
	t := (*a)[last]
	*a = (*a)[:last]
	return t
}

// alarm wakes the dispatcher when a job becomes due, or a hold ends.
func (e *Engine) alarm(due time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.alarmAt(due)
}

// alarmAt is alarm for a caller that holds mu.
func (e *Engine) alarmAt(due time.Time) {
	if !e.open.Load() || len(e.alarms) >= mostAlarms {
		return
	}
	heap.Push(&e.alarms, due)
	if e.alarms[0].Equal(due) {
		e.arm()
	}
}

// arm sets the timer for the first alarm. The caller holds mu.
func (e *Engine) arm() {
	if e.alarmTimer != nil {
		e.alarmTimer.Stop()
	}
	if len(e.alarms) > 0 && e.open.Load() {
		e.alarmTimer = time.AfterFunc(max(e.alarms[0].Sub(e.clock.Now()), 0), e.ring)
	}
}

// ring is called by the timer. It removes the times that have passed and wakes the dispatcher.
func (e *Engine) ring() {
	e.mu.Lock()
	now := e.clock.Now()
	for len(e.alarms) > 0 && !e.alarms[0].After(now) {
		heap.Pop(&e.alarms)
	}
	e.arm()
	e.mu.Unlock()
	e.wakeDispatcher()
}
