package scheduler

import (
	"cmp"

	"github.com/stagepost/stagepost/job"
)

// age is the time at which an entry came into its state, ties broken by number. The zero age means none: numbers
// begin with 1.
type age struct{ at, number int64 }

func (a age) less(b age) bool { return a.compare(b) < 0 }

func (a age) compare(b age) int {
	if c := cmp.Compare(a.at, b.at); c != 0 {
		return c
	}
	return cmp.Compare(a.number, b.number)
}

// ages is a heap, oldest first. Entries are never removed from its middle: those that left the state are dropped at
// the top, or when they are the majority. Most entries are added in order of age, which costs one comparison.
type ages[T any] []aged[T]

type aged[T any] struct {
	age
	of T
}

func (h *ages[T]) push(a age, of T) {
	*h = append(*h, aged[T]{a, of})
	all := *h
	for i := len(all) - 1; i > 0; {
		up := (i - 1) / 2
		if !all[i].less(all[up].age) {
			return
		}
		all[i], all[up] = all[up], all[i]
		i = up
	}
}

// pop removes the oldest.
func (h *ages[T]) pop() {
	all := *h
	last := len(all) - 1
	all[0] = all[last]
	all[last] = aged[T]{}
	all = all[:last]
	*h = all
	for i := 0; ; {
		least := i
		for _, down := range [...]int{2*i + 1, 2*i + 2} {
			if down < last && all[down].less(all[least].age) {
				least = down
			}
		}
		if least == i {
			return
		}
		all[i], all[least] = all[least], all[i]
		i = least
	}
}

// crowded reports whether most entries of the heap have left the state, if n are in it.
func (h ages[T]) crowded(n int) bool { return len(h) > 2*n+32 }

func (e *entry) age() age { return age{e.entered, e.number} }

// file adds a ready entry to its lane's order of age, unless it is in it.
func (l *lane) file(e *entry) {
	if !e.filed {
		if l.elders.crowded(len(l.ready)) {
			l.refile()
		}
		if !e.filed {
			e.filed = true
			l.elders.push(e.age(), e)
		}
	}
	if a := e.age(); l.filed == (age{}) || a.less(l.filed) {
		l.filed = a
		l.lot.file(l)
	}
}

// refile keeps only ready entries in the order.
func (l *lane) refile() {
	l.home.state.q.visits += int64(len(l.elders))
	for _, a := range l.elders {
		if a.of.lane == l {
			a.of.filed = false
		}
	}
	clear(l.elders)
	l.elders = l.elders[:0]
	for _, e := range l.ready {
		e.filed = true
		l.elders.push(e.age(), e)
	}
}

// oldest returns the ready entry of the lane that came into the state first, or nil.
func (l *lane) oldest() *entry {
	for len(l.elders) > 0 {
		l.home.state.q.visits++
		top := l.elders[0]
		e := top.of
		here := e.lane == l && e.age() == top.age
		if here && e.slot >= 0 {
			return e
		}
		if here {
			e.filed = false // claimed or delayed: it is filed again when it is ready
		}
		l.elders.pop()
	}
	return nil
}

// file adds a lane to its lot's order of age, by l.filed: no entry of the lane is older.
func (o *lot) file(l *lane) {
	if o.elders.crowded(len(o.lanes)) {
		o.refile() // l is among its lanes
	} else {
		o.elders.push(l.filed, l)
	}
	if o.slot >= 0 {
		o.state.file(o, l.filed)
	}
}

// refile keeps only lanes with ready entries in the order.
func (o *lot) refile() {
	o.state.q.visits += int64(len(o.elders) + len(o.lanes))
	for _, a := range o.elders {
		if a.of.lot == o && a.of.slot < 0 {
			a.of.filed = age{}
		}
	}
	clear(o.elders)
	o.elders = o.elders[:0]
	for _, l := range o.lanes {
		if l.filed != (age{}) {
			o.elders.push(l.filed, l)
		}
	}
}

// oldest returns the lane of the entry that waits longest, or nil. It is the first in o.elders.
func (o *lot) oldest() *lane {
	for len(o.elders) > 0 {
		o.state.q.visits++
		top := o.elders[0]
		l := top.of
		if l.lot != o || l.filed != top.age {
			o.elders.pop() // it moved, or has another position in the order too
			continue
		}
		e := l.oldest()
		if e != nil && e.age() == top.age {
			return l
		}
		o.elders.pop()
		l.filed = age{}
		if e != nil {
			l.filed = e.age()
			o.elders.push(l.filed, l)
		}
	}
	return nil
}

// ageing reports whether the job that waited longest has its turn: Share-1 jobs of the states were granted since the
// last time.
func (q *Queue) ageing(c *job.Claim) bool {
	if c.Ageing.Share <= 0 {
		return false
	}
	given := 0
	for _, k := range c.From {
		if p := q.kindStates[k]; p != nil {
			given += p.given
		}
	}
	return given+1 >= c.Ageing.Share
}

// eldest returns the entry that waited longest of those that may be granted, if it came into its state before the
// time; otherwise nil.
func (q *Queue) eldest(from []*state, before int64) *entry {
	for {
		var first *lane
		q.visits += int64(len(from))
		for _, s := range from {
			if l := s.oldest(); l != nil && (first == nil || l.filed.less(first.filed)) {
				first = l
			}
		}
		if first == nil || first.filed.at >= before {
			return nil
		}
		if e := first.oldest(); q.grantable(first, e) {
			return e
		}
	}
}
