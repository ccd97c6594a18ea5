package scheduler

import "container/heap"

// lane is the queue of jobs with the same properties.
type lane struct {
	laneKey
	home    *lot // see [state]
	lot     *lot // in which it is: home, or that of what blocks it
	turn    *turn
	times   *times // of the kind
	members []member
	ready   []*entry // heap by priority, then number
	size    int      // jobs in all: ready, delayed, claimed
	claimed int
	slot    int   // index in the lot's heap, or -1
	key     order // as of its last position in the heap
	elders  ages[*entry]
	filed   age    // under which the lot has the lane: no ready entry is older; zero if the lot does not have it
	tally   *tally // while jobs are loaded
	next    *lane  // in which a job that left this one came last; it may be dropped
	dropped bool   // the queue does not have it any more
}

// turn is when an owner was last served.
type turn struct {
	at    int64
	lanes int // of the owner
}

// order is the sort key of the lanes of a state.
type order struct {
	priority int
	served   int64 // the owner's last turn
	number   int64
}

func (a order) less(b order) bool {
	switch {
	case a.priority != b.priority:
		return a.priority < b.priority
	case a.served != b.served:
		return a.served < b.served
	}
	return a.number < b.number
}

func (l *lane) Len() int { return len(l.ready) }
func (l *lane) Less(i, j int) bool {
	a, b := l.ready[i], l.ready[j]
	if a.priority != b.priority {
		return a.priority < b.priority
	}
	return a.number < b.number
}
func (l *lane) Swap(i, j int) {
	l.ready[i], l.ready[j] = l.ready[j], l.ready[i]
	l.ready[i].slot, l.ready[j].slot = int32(i), int32(j)
}

// Push and Pop are for package heap only.
func (l *lane) Push(x any) {
	e := x.(*entry)
	e.slot = int32(len(l.ready))
	l.ready = append(l.ready, e)
}

func (l *lane) Pop() any {
	last := len(l.ready) - 1
	e := l.ready[last]
	l.ready[last] = nil
	l.ready, e.slot = l.ready[:last], -1
	return e
}

func (l *lane) push(e *entry) {
	heap.Push(l, e)
	l.settle()
	l.file(e)
}

func (l *lane) remove(e *entry) {
	heap.Remove(l, int(e.slot))
	l.settle()
}

// now computes the lane's order; it must not be empty.
func (l *lane) now() order {
	return order{int(l.ready[0].priority), l.turn.at, l.ready[0].number}
}

// settle moves the lane to its position in its lot after its first entry may have changed.
func (l *lane) settle() {
	l.home.state.q.visits++
	switch {
	case len(l.ready) == 0:
		if l.slot < 0 {
			return
		}
		heap.Remove(l.lot, l.slot)
	case l.slot < 0:
		l.lot.state.q.rekey(l)
		l.key = l.now()
		heap.Push(l.lot, l)
	default:
		key := l.now()
		if key == l.key {
			return
		}
		l.lot.state.q.rekey(l)
		l.key = key
		heap.Fix(l.lot, l.slot)
	}
	l.lot.settle()
}

// moveTo moves a lane with ready jobs to another lot.
func (l *lane) moveTo(o *lot) {
	heap.Remove(l.lot, l.slot)
	l.lot.settle()
	l.lot, l.filed = o, age{}
	l.settle()
	if e := l.oldest(); e != nil {
		l.filed = e.age()
		o.file(l)
	}
}

// resize counts n more jobs of the lane, and claim n more claimed ones, also for the limits.
func (l *lane) resize(n int) {
	l.size += n
	for _, m := range l.members {
		if m.occupies {
			m.add(n)
		}
	}
}

func (l *lane) claim(n int) {
	l.claimed += n
	for _, m := range l.members {
		if !m.occupies {
			m.add(n)
		}
	}
}
