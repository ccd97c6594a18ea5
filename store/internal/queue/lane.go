package queue

import "container/heap"

// lane is the queue of jobs with the same properties.
type lane struct {
	laneKey
	place   *stateLanes
	ready   []*entry // heap by priority, then number
	size    int      // jobs in all: ready, delayed, claimed
	claimed int
	slot    int   // index in the state's heap, or -1
	key     order // as of its last position in the heap
	elders  ages[*entry]
	filed   age // under which the state has the lane: no ready entry is older; zero if the state does not have it
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
	l.ready[i].slot, l.ready[j].slot = i, j
}

// Push and Pop are for package heap only.
func (l *lane) Push(x any) {
	e := x.(*entry)
	e.slot = len(l.ready)
	l.ready = append(l.ready, e)
}

func (l *lane) Pop() any {
	last := len(l.ready) - 1
	e := l.ready[last]
	l.ready[last] = nil
	l.ready, e.slot = l.ready[:last], -1
	return e
}

func (l *lane) push(e *entry, q *Queue) {
	heap.Push(l, e)
	l.settle(q)
	l.file(e)
}

func (l *lane) remove(e *entry, q *Queue) {
	heap.Remove(l, e.slot)
	l.settle(q)
}

// now computes the lane's order; it must not be empty.
func (l *lane) now(q *Queue) order {
	return order{l.ready[0].priority, q.served[l.owner], l.ready[0].number}
}

// settle moves the lane to its position in its state after its head may have changed.
func (l *lane) settle(q *Queue) {
	switch {
	case len(l.ready) == 0:
		if l.slot >= 0 {
			heap.Remove(l.place, l.slot)
		}
	case l.slot < 0:
		l.key = l.now(q)
		heap.Push(l.place, l)
	default:
		if key := l.now(q); key != l.key {
			l.key = key
			heap.Fix(l.place, l.slot)
		}
	}
}

// stateLanes is the heap of lanes with ready jobs in one state of one kind.
type stateLanes struct {
	q      *Queue
	lanes  []*lane
	elders ages[*lane]
	given  int // jobs granted since the last one that was granted by age
}

func (p *stateLanes) Len() int           { return len(p.lanes) }
func (p *stateLanes) Less(i, j int) bool { return p.lanes[i].key.less(p.lanes[j].key) }
func (p *stateLanes) Swap(i, j int) {
	p.lanes[i], p.lanes[j] = p.lanes[j], p.lanes[i]
	p.lanes[i].slot, p.lanes[j].slot = i, j
}

// Push and Pop are for package heap only.
func (p *stateLanes) Push(x any) {
	l := x.(*lane)
	l.slot = len(p.lanes)
	p.lanes = append(p.lanes, l)
}

func (p *stateLanes) Pop() any {
	last := len(p.lanes) - 1
	l := p.lanes[last]
	p.lanes[last] = nil
	p.lanes, l.slot = p.lanes[:last], -1
	return l
}

// first returns the next lane. Turns only increase, so a lane with an old key can only move back.
func (p *stateLanes) first() *lane {
	for len(p.lanes) > 0 {
		l := p.lanes[0]
		if key := l.now(p.q); key != l.key {
			l.key = key
			heap.Fix(p, 0)
			continue
		}
		return l
	}
	return nil
}

// byTime is a heap of entries by one of their times.
type byTime struct {
	entries []*entry
	key     func(*entry) int64
	at      func(*entry) *int
}

func (b *byTime) Len() int           { return len(b.entries) }
func (b *byTime) Less(i, j int) bool { return b.key(b.entries[i]) < b.key(b.entries[j]) }
func (b *byTime) Swap(i, j int) {
	b.entries[i], b.entries[j] = b.entries[j], b.entries[i]
	*b.at(b.entries[i]), *b.at(b.entries[j]) = i, j
}

// Push and Pop are for package heap only.
func (b *byTime) Push(x any) {
	e := x.(*entry)
	*b.at(e) = len(b.entries)
	b.entries = append(b.entries, e)
}

func (b *byTime) Pop() any {
	last := len(b.entries) - 1
	e := b.entries[last]
	b.entries[last] = nil
	b.entries = b.entries[:last]
	*b.at(e) = -1
	return e
}

// each calls f for the due entries, until f returns false. It visits only the due part of the heap.
func (b *byTime) each(now int64, f func(*entry) bool) {
	todo := []int{0}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if i >= len(b.entries) || b.key(b.entries[i]) > now {
			continue
		}
		if !f(b.entries[i]) {
			return
		}
		todo = append(todo, 2*i+1, 2*i+2)
	}
}
