package scheduler

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Claim picks up to c.N jobs by the rules of [job.Store], in order, and counts them as claimed. The caller must Put
// the claimed records afterwards, or discard the whole index.
func (q *Queue) Claim(c *job.Claim) []job.ID {
	q.begin(c.Now, c.From, c.Limits, c.Suspects == job.NoSuspects)
	return ids(q.claim(c))
}

// Peek returns what the claim would pick, and what keeps it from picking the job. It changes nothing.
func (q *Queue) Peek(c *job.Claim, id job.ID) job.Forecast {
	e, from := q.entries[id], c.From
	if e != nil && e.claimed {
		e = nil
	}
	if e != nil && !slices.ContainsFunc(from, func(k job.KindState) bool { return k.Kind == e.lane.Kind }) {
		from = append(slices.Clip(from), e.lane.KindState) // the limits of its kind are those of this claim too
	}
	q.begin(c.Now, from, c.Limits, c.Suspects == job.NoSuspects)
	var f job.Forecast
	if e != nil {
		f.Limits = q.guards(e.lane)
		h := q.holdOf(e.lane)
		if h == nil {
			h = q.holdOn(e)
		}
		if h != nil {
			one := h.Hold
			f.Hold = &one
		}
	}
	q.undo = &undo{turn: q.turn}
	picked := q.claim(c)
	f.Next = ids(picked)
	q.takeBack(picked)
	return f
}

// claim picks up to c.N jobs and counts them as claimed.
func (q *Queue) claim(c *job.Claim) []*entry {
	var picked []*entry
	from := q.statesOf(c.From, c.Labels)
	for len(picked) < c.N {
		e := q.pick(c, from)
		if e == nil {
			break
		}
		q.give(e)
		picked = append(picked, e)
	}
	return picked
}

func ids(entries []*entry) []job.ID {
	ids := make([]job.ID, len(entries))
	for i, e := range entries {
		ids[i] = e.id
	}
	return ids
}

// Chain is Put for a job that has not ended and whose worker requests the claim of its next state. It reports whether
// the worker may have it; the caller then calls Granted. In between the claim that it had keeps its position.
func (q *Queue) Chain(before, after *job.Job, c *job.Chain, now time.Time) bool {
	q.chaining = true
	q.Put(before, after)
	q.chaining = false
	e := q.entry(after.ID)
	if q.canChain(e, before == nil, c, now) {
		return true
	}
	if !e.claimed {
		q.dropClaim(e)
	}
	return false
}

// Granted applies the claim that Chain allowed.
func (q *Queue) Granted(claimed *job.Job) {
	e := q.entry(claimed.ID)
	q.tallied(tallyKey{e.lane.KindState, e.lane.group}).claimed++
	q.move(e, claimed)
}

// canChain reports whether a job, which waits in its lane, may be claimed out of turn by the worker that moved it: no
// hold or limit applies, the worker has the labels, and no job of better priority could be granted; with inTurn, no
// other job at all.
func (q *Queue) canChain(e *entry, inTurn bool, c *job.Chain, now time.Time) bool {
	if e.claimed {
		return false
	}
	from := []job.KindState{e.lane.KindState}
	q.begin(now, from, c.Limits, false)
	if e.slot < 0 || !e.isDue(q.now) || len(job.Lacking(e.lane.requires.all(), c.Labels)) > 0 || e.lane.full() != nil ||
		q.holdOf(e.lane) != nil || q.holdOn(e) != nil {
		return false
	}
	first := q.next(q.statesOf(from, c.Labels))
	return first == e || first != nil && !inTurn && first.priority >= e.priority
}

// begin prepares a claim: what is due waits in its lane, and limits and holds are those of the claim. Jobs that are not
// due wait there too if they were due for a claim or peek with a later time: see grantable.
func (q *Queue) begin(now time.Time, from []job.KindState, limits []job.Limit, excluding bool) {
	q.holdAt(now)
	q.now = micro(now)
	q.promote()
	q.limitAll(from, limits)
	q.excluding = excluding
	if !excluding {
		q.visits += int64(len(q.excluded))
		for o := range q.excluded {
			delete(q.excluded, o)
			o.openAgain()
		}
	}
}

// give counts a picked entry as claimed.
func (q *Queue) give(e *entry) {
	l := e.lane
	q.turn++
	if q.undo != nil {
		q.undo.turns = append(q.undo.turns, wasTurn{l.turn, l.turn.at})
	}
	l.turn.at = q.turn
	p := q.kindStates[l.KindState]
	q.setGiven(p, p.given+1)
	l.remove(e)
	delete(q.suspect, e)
	e.claimed = true
	l.claim(1)
}

// undo has what a claim that is only forecast changed.
type undo struct {
	turn  int64
	turns []wasTurn
	given []wasGiven
	lanes []*lane // whose keys changed
}

type wasTurn struct {
	of *turn
	at int64
}

type wasGiven struct {
	of *kindState
	n  int
}

// rekey notes that the key of a lane changes.
func (q *Queue) rekey(l *lane) {
	if q.undo != nil {
		q.undo.lanes = append(q.undo.lanes, l)
	}
}

// takeBack undoes a claim.
func (q *Queue) takeBack(picked []*entry) {
	u := q.undo
	q.undo = nil
	for _, g := range slices.Backward(u.given) {
		g.of.given = g.n
	}
	q.turn = u.turn
	for _, t := range slices.Backward(u.turns) {
		t.of.at = t.at
	}
	q.visits += int64(len(u.lanes))
	for _, l := range u.lanes { // turns went back, and so do lanes
		if l.slot >= 0 {
			l.key = l.now()
			heap.Fix(l.lot, l.slot)
			l.lot.settle()
		}
	}
	for _, e := range picked {
		e.claimed = false
		e.lane.claim(-1)
		if e.lane.suspect {
			q.suspect[e] = struct{}{}
		}
		e.lane.push(e)
	}
}

// pick returns the next entry, or nil: by age if it is time for that and some entry has waited long enough, otherwise
// by priority.
func (q *Queue) pick(c *job.Claim, from []*state) *entry {
	if c.Suspects == job.OnlySuspects {
		return q.firstSuspect(from)
	}
	if q.ageing(c) {
		if e := q.eldest(from, micro(c.Now.Add(-c.Ageing.Patience))); e != nil {
			for _, k := range c.From {
				q.setGiven(q.kindStates[k], 0)
			}
			q.setGiven(q.kindStates[e.lane.KindState], -1) // it is not counted itself
			return e
		}
	}
	return q.next(from)
}

func (q *Queue) setGiven(p *kindState, n int) {
	if p == nil {
		return
	}
	if q.undo != nil {
		q.undo.given = append(q.undo.given, wasGiven{p, p.given})
	}
	p.given = n
}

// next returns the next entry in any of the states, or nil.
func (q *Queue) next(from []*state) *entry {
	for {
		var best *lane
		q.visits += int64(len(from))
		for _, s := range from {
			if l := s.first(); l != nil && (best == nil || l.key.less(best.key)) {
				best = l
			}
		}
		if best == nil {
			return nil
		}
		if e := best.ready[0]; q.grantable(best, e) {
			return e
		}
	}
}

// grantable reports whether an entry of a lane is due and nothing blocks it. What is blocked is moved out of the way:
// the lane, if that blocks all its jobs, or the entry.
func (q *Queue) grantable(l *lane, e *entry) bool {
	if s := l.full(); s != nil {
		l.moveTo(s.lotFor(l))
		return false
	}
	if h := q.holdOf(l); h != nil {
		l.moveTo(h.lotFor(l))
		return false
	}
	if h := q.holdOn(e); h != nil {
		h.setAside(e)
		return false
	}
	if !e.isDue(q.now) {
		l.remove(e)
		heap.Push(&q.delayed, e)
		return false
	}
	return true
}

// isDue reports whether a job may be claimed at a time, which may be before 1970: it is due since then, or at any time.
func (e *entry) isDue(at int64) bool { return e.due == 0 || e.due <= at }

// compareSuspects is the order of suspects. A peek and the claim that follows it agree on jobs of different kinds too.
func (e *entry) compareSuspects(other *entry) int {
	return cmp.Or(cmp.Compare(e.priority, other.priority), cmp.Compare(e.number, other.number),
		cmp.Compare(e.lane.Kind, other.lane.Kind))
}

// firstSuspect returns the ready suspect of the best priority that came first, or nil. There are few: no more than
// workers had at once.
func (q *Queue) firstSuspect(from []*state) *entry {
	var first *entry
	q.visits += int64(len(q.suspect))
	for e := range q.suspect {
		better := first == nil || e.compareSuspects(first) < 0
		if better && e.slot >= 0 && e.isDue(q.now) && slices.Contains(from, e.lane.home.state) &&
			e.lane.full() == nil && q.holdOf(e.lane) == nil && q.holdOn(e) == nil {
			first = e
		}
	}
	return first
}
