package scheduler

import (
	"container/heap"

	"github.com/stagepost/stagepost/job"
)

// state has the lanes of the jobs of one state of one kind that require the same labels, in lots. The home lot of a
// lane has those of the same group and tags, so that limits and holds on these close all of them at once. A lane that a
// limit or hold on its owner or batch blocks moves to a lot of that limit's share, or of that hold. No claim visits the
// lanes of a closed lot; the event that ends the block opens it. So a claim visits a lane at most once for each event
// that concerns its owner or batch.
type state struct {
	job.KindState
	requires *tagSet
	q        *Queue
	homes    map[homeKey]*lot
	guards   []*share // of limits on all jobs of the state
	open     []*lot   // heap of the lots with ready jobs that are not known to be closed
	elders   ages[*lot]
}

// homeKey is what the lanes of a home lot have in common. Suspects have lots of their own: some claims exclude them.
type homeKey struct {
	group   string
	tags    *tagSet
	suspect bool
}

// lot is a set of lanes of one state.
type lot struct {
	homeKey // of a home; of another, only suspect is set
	state   *state
	shares  []*share // each closes the lot while it is full
	holds   []*hold  // each closes the lot while it is in force
	size    int      // of a home: its lanes, wherever they are
	lanes   []*lane  // with ready jobs
	elders  ages[*lane]
	slot    int   // index in the state's heap, or -1
	key     order // as of its last position in the heap
	filed   age   // under which the state has the lot in its order of age; zero: it does not have it
}

// few is the number of lanes up to which a lot that opens is dissolved.
const few = 8

// closed reports whether no lane of the lot can be granted now. A share that closes it notes that.
func (o *lot) closed() bool {
	if o.suspect && o.state.q.excluding {
		return true
	}
	for _, s := range o.shares {
		if s.full() {
			s.block()
			return true
		}
	}
	for _, h := range o.holds {
		if h.on {
			return true
		}
	}
	return false
}

// full reports whether a limit on all jobs of the state forbids one more.
func (s *state) full() bool {
	for _, g := range s.guards {
		if g.full() {
			return true
		}
	}
	return false
}

// enter adds a new lane to its home lot.
func (s *state) enter(l *lane) {
	key := homeKey{l.group, l.tags, l.suspect}
	o := s.homes[key]
	if o == nil {
		o = &lot{homeKey: key, state: s, slot: -1}
		s.homes[key] = o
		s.q.cover(o)
	}
	o.size++
	l.lot, l.home = o, o
	for _, m := range l.members {
		m.guard(o)
	}
}

// leave removes a lane without jobs from its home lot.
func (s *state) leave(l *lane) {
	o := l.home
	if o.size--; o.size > 0 {
		return
	}
	delete(s.homes, o.homeKey)
	for _, one := range o.shares {
		delete(one.lots, o)
	}
	for _, h := range o.holds {
		delete(h.lots, o)
	}
}

// Len and the methods below are for package heap only.
func (o *lot) Len() int           { return len(o.lanes) }
func (o *lot) Less(i, j int) bool { return o.lanes[i].key.less(o.lanes[j].key) }
func (o *lot) Swap(i, j int) {
	o.lanes[i], o.lanes[j] = o.lanes[j], o.lanes[i]
	o.lanes[i].slot, o.lanes[j].slot = i, j
}

// Push is for package heap only.
func (o *lot) Push(x any) {
	l := x.(*lane)
	l.slot = len(o.lanes)
	o.lanes = append(o.lanes, l)
}

// Pop is for package heap only.
func (o *lot) Pop() any {
	last := len(o.lanes) - 1
	l := o.lanes[last]
	o.lanes[last] = nil
	o.lanes, l.slot = o.lanes[:last], -1
	return l
}

// first returns the next lane, or nil. Turns only increase, so a lane with an old key can only move back.
func (o *lot) first() *lane {
	for len(o.lanes) > 0 {
		o.state.q.visits++
		l := o.lanes[0]
		if key := l.now(); key != l.key {
			o.state.q.rekey(l)
			l.key = key
			heap.Fix(o, 0)
			continue
		}
		return l
	}
	return nil
}

// settle moves the lot to its position in its state after its first lane may have changed, or it was opened.
func (o *lot) settle() {
	s := (*openLots)(o.state)
	switch {
	case len(o.lanes) == 0 || o.slot < 0 && o.closed():
		if o.slot >= 0 {
			heap.Remove(s, o.slot)
		}
		o.exclude()
	case o.slot < 0:
		o.key = o.lanes[0].key
		heap.Push(s, o)
		o.fileAgain()
	default:
		if key := o.lanes[0].key; key != o.key {
			o.key = key
			heap.Fix(s, o.slot)
		}
	}
}

// exclude notes that the lot may be closed because the claim excludes suspects. The next one may include them.
func (o *lot) exclude() {
	if o.suspect && len(o.lanes) > 0 {
		o.state.q.excluded[o] = struct{}{}
	}
}

// openAgain enters the lot into the orders of its state after the end of a block. The lanes of a small one return to
// their homes.
func (o *lot) openAgain() {
	o.state.q.visits++
	if o.closed() || len(o.lanes) == 0 {
		if o.state.q.excluding { // the next claim may include suspects
			o.exclude()
		}
		return
	}
	if o.size == 0 && len(o.lanes) <= few { // it is no home
		for len(o.lanes) > 0 {
			l := o.lanes[len(o.lanes)-1]
			l.moveTo(l.home)
		}
		return
	}
	o.settle()
	o.fileAgain() // it may be among the open ones still
}

// fileAgain enters the lot into its state's order of age.
func (o *lot) fileAgain() {
	if l := o.oldest(); l != nil {
		o.state.file(o, l.filed)
	}
}

// openLots is a state as the heap of its open lots. Its methods are for package heap only.
type openLots state

func (s *openLots) Len() int           { return len(s.open) }
func (s *openLots) Less(i, j int) bool { return s.open[i].key.less(s.open[j].key) }
func (s *openLots) Swap(i, j int) {
	s.open[i], s.open[j] = s.open[j], s.open[i]
	s.open[i].slot, s.open[j].slot = i, j
}

func (s *openLots) Push(x any) {
	o := x.(*lot)
	o.slot = len(s.open)
	s.open = append(s.open, o)
}

func (s *openLots) Pop() any {
	last := len(s.open) - 1
	o := s.open[last]
	s.open[last] = nil
	s.open, o.slot = s.open[:last], -1
	return o
}

// first returns the next lane of the open lots, or nil. It may be blocked by what was not known yet.
func (s *state) first() *lane {
	for len(s.open) > 0 && !s.full() {
		s.q.visits++
		o := s.open[0]
		if o.closed() {
			heap.Pop((*openLots)(s))
			o.exclude()
			continue
		}
		l := o.first()
		if l.key == o.key {
			return l
		}
		o.key = l.key
		heap.Fix((*openLots)(s), 0)
	}
	return nil
}

// oldest returns the lane of the open lots with the job that waits longest, or nil.
func (s *state) oldest() *lane {
	for len(s.elders) > 0 && !s.full() {
		s.q.visits++
		top := s.elders[0]
		o := top.of
		if o.filed != top.age {
			s.elders.pop() // it has another position in the order too
			continue
		}
		var l *lane
		if o.closed() {
			o.exclude()
		} else {
			l = o.oldest()
		}
		if l != nil && l.filed == top.age {
			return l
		}
		s.elders.pop()
		o.filed = age{}
		if l != nil {
			o.filed = l.filed
			s.elders.push(o.filed, o)
		}
	}
	return nil
}

// file adds a lot to the order of age, if no position of the lot in it is as early.
func (s *state) file(o *lot, a age) {
	if o.filed != (age{}) && !a.less(o.filed) {
		return
	}
	o.filed = a
	if s.elders.crowded(len(s.open)) {
		s.refile()
	}
	s.elders.push(a, o)
}

// refile keeps only open lots in the order.
func (s *state) refile() {
	s.q.visits += int64(len(s.elders))
	kept := s.elders[:0:0]
	for _, a := range s.elders {
		if a.of.filed == a.age && a.of.slot >= 0 {
			kept.push(a.age, a.of)
		} else if a.of.filed == a.age {
			a.of.filed = age{}
		}
	}
	s.elders = kept
}
