package queue

import (
	"container/heap"
	"maps"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Claim picks up to c.N jobs by the rules of [job.Store]. It removes them from their lanes. The caller must Put the
// claimed records afterwards, or discard the whole index. A dry claim changes nothing.
func (q *Queue) Claim(c *job.Claim, holds []job.Hold) []job.ID {
	q.promote(micro(c.Now))
	q.recall(holds, c.Now)
	if c.Dry {
		defer q.restore(c.From)()
	}
	s := &selection{q: q, holds: inForce(holds, c.Now), limits: c.Limits, suspects: c.Suspects}
	var ids []job.ID
	for len(ids) < c.N {
		e := s.pick(c)
		if e == nil {
			break
		}
		q.serve(e)
		e.lane.place.given++
		ids = append(ids, e.id)
		s.take(e)
	}
	if c.Dry {
		s.back = s.picked
	}
	s.putBack()
	return ids
}

// CanChain reports whether the job, which waits in its lane, may be claimed out of turn by the worker that moved it:
// no hold or limit applies, and no job of better priority waits; with inTurn, no other job precedes it at all.
func (q *Queue) CanChain(id job.ID, inTurn bool, limits []job.Limit, holds []job.Hold, now time.Time) bool {
	q.promote(micro(now))
	q.recall(holds, now)
	e := q.entries[id]
	if e == nil || e.claimed || e.slot < 0 {
		return false
	}
	s := &selection{q: q, holds: inForce(holds, now), limits: limits}
	if s.held(e) || s.full(e.lane) {
		return false
	}
	first := e.lane.place.first()
	if inTurn {
		return first == nil || first.ready[0] == e
	}
	return first == nil || first.ready[0].priority >= e.priority
}

// serve records the turn of the owner and removes the entry from its lane.
func (q *Queue) serve(e *entry) {
	q.turn++
	q.served[e.lane.owner] = q.turn
	e.lane.remove(e, q)
	if len(q.served) > 2*len(q.lanes)+1024 {
		q.forget()
	}
}

// restore returns the function that undoes the turns since its call.
func (q *Queue) restore(from []job.KindState) func() {
	turn, served := q.turn, maps.Clone(q.served)
	given := make([]int, len(from))
	for i, p := range from {
		if pl := q.places[p]; pl != nil {
			given[i] = pl.given
		}
	}
	return func() {
		q.turn, q.served = turn, served
		for i, p := range from {
			if pl := q.places[p]; pl != nil {
				pl.given = given[i]
			}
		}
		q.reorder(from)
	}
}

// reorder sorts the lanes of the states again, after turns were undone.
func (q *Queue) reorder(from []job.KindState) {
	for _, p := range from {
		if pl := q.places[p]; pl != nil {
			for _, l := range pl.lanes {
				l.key = l.now(q)
			}
			heap.Init(pl)
		}
	}
}

// forget drops the turns of owners without jobs.
func (q *Queue) forget() {
	known := make(map[string]int64, len(q.lanes))
	for k := range q.lanes {
		if turn, ok := q.served[k.owner]; ok {
			known[k.owner] = turn
		}
	}
	q.served = known
}

// selection is the state of one pick: what was set aside because it is held or over a limit.
type selection struct {
	q      *Queue
	holds  []job.Hold
	limits []job.Limit

	suspects job.Suspects

	lanes  []*lane // set aside: full or held as a whole
	passed []*lane // removed from their states' order of age
	picked []*entry
	back   []*entry // of those picked: to be put back

	counts  map[share]int // active jobs by the limits
	counted []bool        // by limit: whether its counts are computed
}

// pick returns the next entry, or nil: by age if it is time for that and some entry has waited long enough, otherwise
// by priority.
func (s *selection) pick(c *job.Claim) *entry {
	if s.suspects == job.OnlySuspects {
		return s.firstSuspect(c.From)
	}
	if s.ageing(c) {
		if e := s.eldest(c.From, micro(c.Now.Add(-c.Ageing.Patience))); e != nil {
			for _, p := range c.From {
				if pl := s.q.places[p]; pl != nil {
					pl.given = 0
				}
			}
			e.lane.place.given = -1 // it is not counted itself
			return e
		}
	}
	return s.next(c.From)
}

// next returns the next entry in any of the states, or nil.
func (s *selection) next(from []job.KindState) *entry {
	for {
		var best *lane
		for _, p := range from {
			pl := s.q.places[p]
			if pl == nil {
				continue
			}
			if l := pl.first(); l != nil && (best == nil || l.key.less(best.key)) {
				best = l
			}
		}
		if best == nil {
			return nil
		}
		e := best.ready[0]
		switch {
		case s.unwanted(best) || s.full(best) || s.heldLane(e):
			s.putAside(best)
		case s.held(e):
			s.q.setAside(e, s.hold(e))
		default:
			return e
		}
	}
}

// unwanted reports whether the lane has suspects and the claim excludes them.
func (s *selection) unwanted(l *lane) bool { return l.suspect && s.suspects == job.NoSuspects }

// firstSuspect returns the ready suspect of the best priority that came first, or nil. There are few: no more than
// workers had at once.
func (s *selection) firstSuspect(from []job.KindState) *entry {
	var first *entry
	for e := range s.q.suspect {
		better := first == nil || e.priority < first.priority || e.priority == first.priority && e.number < first.number
		if better && e.slot >= 0 && slices.Contains(from, e.lane.KindState) && !s.full(e.lane) && !s.held(e) {
			first = e
		}
	}
	return first
}

// putAside removes a lane from its state during the selection.
func (s *selection) putAside(l *lane) {
	heap.Remove(l.place, l.slot)
	s.lanes = append(s.lanes, l)
}

func (s *selection) putBack() {
	for _, e := range s.back {
		heap.Push(e.lane, e)
	}
	for _, l := range s.lanes {
		l.settle(s.q)
	}
	for _, e := range s.back {
		e.lane.settle(s.q)
	}
	for _, l := range s.passed { // when all lanes are back in their states
		l.place.elders.push(l.filed, l)
	}
	for _, e := range s.back {
		e.lane.file(e)
	}
}

func (s *selection) held(e *entry) bool {
	return slices.ContainsFunc(s.holds, func(h job.Hold) bool { return e.matches(&h) })
}

// hold returns the scope of the hold that applies to the entry.
func (s *selection) hold(e *entry) job.Scope {
	return s.holds[slices.IndexFunc(s.holds, func(h job.Hold) bool { return e.matches(&h) })].Scope
}

// heldLane reports whether a hold applies to all jobs of the entry's lane.
func (s *selection) heldLane(e *entry) bool {
	return slices.ContainsFunc(s.holds, func(h job.Hold) bool { return h.Job == "" && e.matches(&h) })
}

func inForce(holds []job.Hold, now time.Time) []job.Hold {
	if len(holds) == 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(holds), func(h job.Hold) bool { return !h.On(now) })
}
