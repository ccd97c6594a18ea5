// Package queue is the index of jobs that a store keeps in memory: the order of claims, the counts, and the timers.
// It is derived from the records. A store loads it at the start and updates it with every change.
//
// Jobs with the same properties (kind, state, group, owner, tags) wait in one lane, ordered by priority and number.
// The lanes of a state take turns: best priority first, then the owner that was served longest ago. A pick costs
// O(log n) with n waiting jobs. Lanes and states also order their jobs by the time at which they came into the state,
// for [job.Ageing].
//
// A Queue is not safe for concurrent use: it belongs to the store's commit loop.
package queue

import (
	"container/heap"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Queue is the index. The zero value is not usable; call New.
type Queue struct {
	entries map[job.ID]*entry // jobs that have not ended
	places  map[job.KindState]*stateLanes
	lanes   map[laneKey]*lane
	delayed byTime // unclaimed, not due yet
	timers  byTime // by Expires
	claimed map[job.ID]*entry
	served  map[string]int64 // per owner: the turn in which it was last served
	turn    int64
	tally   map[tallyKey]*tally
	sets    map[string]*tagSet                // by their text
	aside   map[job.Scope]map[*entry]struct{} // ready except for a hold on their job or batch, by the hold
	suspect map[*entry]struct{}               // unclaimed suspects
}

type laneKey struct {
	job.KindState
	group, owner string
	tags         *tagSet // nil: none
	suspect      bool    // see [job.Job.Suspect]
}

type tallyKey struct {
	job.KindState
	group string
}

type tally struct{ jobs, claimed, bytes int64 }

// entry is one waiting, claimed or delayed job.
type entry struct {
	id       job.ID
	parent   job.ID
	number   int64
	entered  int64 // when it came into its state, microseconds since 1970
	due      int64 // 0: at once
	timer    int64 // 0: none
	until    int64 // of the claim
	worker   string
	lane     *lane
	priority int
	claimed  bool
	filed    bool                // in the lane's order of age
	slot     int                 // index in the lane's heap, or -1
	late     int                 // index in delayed, or -1
	tick     int                 // index in timers, or -1
	aside    map[*entry]struct{} // that the entry is in, or nil
}

// New returns an empty index.
func New() *Queue {
	return &Queue{
		entries: map[job.ID]*entry{}, places: map[job.KindState]*stateLanes{}, lanes: map[laneKey]*lane{},
		delayed: byTime{key: func(e *entry) int64 { return e.due }, at: func(e *entry) *int { return &e.late }},
		timers:  byTime{key: func(e *entry) int64 { return e.timer }, at: func(e *entry) *int { return &e.tick }},
		claimed: map[job.ID]*entry{}, served: map[string]int64{}, tally: map[tallyKey]*tally{},
		sets: map[string]*tagSet{}, aside: map[job.Scope]map[*entry]struct{}{},
		suspect: map[*entry]struct{}{},
	}
}

// Put applies a change of a record to the index. before is nil for a new job.
func (q *Queue) Put(before, after *job.Job) {
	if before != nil {
		q.count(before, -1)
	}
	q.count(after, 1)
	e := q.entries[after.ID]
	if e != nil {
		q.leave(e)
	}
	if after.Ended {
		if e != nil {
			delete(q.entries, after.ID)
		}
		return
	}
	if e == nil {
		e = &entry{id: after.ID, parent: after.Parent, number: after.Number, slot: -1, late: -1, tick: -1}
		q.entries[after.ID] = e
	}
	q.enter(e, after)
}

// AddEnded counts ended jobs that are not loaded individually.
func (q *Queue) AddEnded(n job.Tally) {
	t := q.tallied(tallyKey{job.KindState{Kind: n.Kind, State: n.State}, n.Group})
	t.jobs += n.Jobs
	t.bytes += n.Bytes
}

// Drop removes a job that has ended from the counts: its record was purged.
func (q *Queue) Drop(j *job.Job) { q.count(j, -1) }

func (q *Queue) enter(e *entry, j *job.Job) {
	key := laneKey{job.KindState{Kind: j.Kind, State: j.State}, j.Group, j.Owner, q.tagSet(j.Tags), j.Suspect()}
	l := q.lanes[key]
	if l == nil {
		l = &lane{laneKey: key, place: q.lanesOf(key.KindState), slot: -1}
		q.lanes[key] = l
	}
	l.size++
	entered := micro(j.Entered)
	e.filed = e.filed && e.lane == l && e.entered == entered
	e.lane, e.entered, e.priority, e.due, e.until = l, entered, j.Priority, micro(j.Due), micro(j.Until)
	e.timer = micro(j.Expires)
	e.claimed, e.worker = j.Claimed(), j.Worker
	if key.suspect && !e.claimed {
		q.suspect[e] = struct{}{}
	}
	switch {
	case e.claimed:
		l.claimed++
		q.claimed[e.id] = e
	case e.due != 0:
		heap.Push(&q.delayed, e)
	default:
		l.push(e, q)
	}
	if e.timer != 0 {
		heap.Push(&q.timers, e)
	}
}

// leave removes the entry from everything except the map of entries.
func (q *Queue) leave(e *entry) {
	l := e.lane
	delete(q.suspect, e)
	l.size--
	if e.claimed {
		l.claimed--
		delete(q.claimed, e.id)
	}
	if e.slot >= 0 {
		l.remove(e, q)
	}
	if e.aside != nil {
		delete(e.aside, e)
		e.aside = nil
	}
	if e.late >= 0 {
		heap.Remove(&q.delayed, e.late)
	}
	if e.tick >= 0 {
		heap.Remove(&q.timers, e.tick)
	}
	if l.size == 0 {
		delete(q.lanes, l.laneKey)
	}
}

func (q *Queue) lanesOf(p job.KindState) *stateLanes {
	pl := q.places[p]
	if pl == nil {
		pl = &stateLanes{q: q}
		q.places[p] = pl
	}
	return pl
}

// promote moves jobs that have become due into their lanes.
func (q *Queue) promote(now int64) {
	for len(q.delayed.entries) > 0 && q.delayed.entries[0].due <= now {
		e := heap.Pop(&q.delayed).(*entry)
		e.due = 0
		e.lane.push(e, q)
	}
}

// NextDue returns the time at which the next delayed job becomes due or the next timer fires; zero if there is none.
func (q *Queue) NextDue() time.Time {
	var at int64
	if len(q.delayed.entries) > 0 {
		at = q.delayed.entries[0].due
	}
	if len(q.timers.entries) > 0 {
		at = earlier(at, q.timers.entries[0].timer)
	}
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMicro(at)
}

// Claimed returns up to n jobs that match a query and are claimed by workers whose names start with its Worker.
func (q *Queue) Claimed(wanted *job.Query, n int) []job.ID {
	var ids []job.ID
	for _, e := range q.claimed {
		if len(ids) < n && strings.HasPrefix(e.worker, wanted.Worker) && e.wanted(wanted) {
			ids = append(ids, e.id)
		}
	}
	return ids
}

// Overdue returns up to n jobs that match a query and whose claim or time in their state had ended by its Overdue.
func (q *Queue) Overdue(wanted *job.Query, n int) []job.ID {
	at := micro(wanted.Overdue)
	var ids []job.ID
	for _, e := range q.claimed {
		if e.until <= at && len(ids) < n && e.wanted(wanted) {
			ids = append(ids, e.id)
		}
	}
	q.timers.each(at, func(e *entry) bool {
		if len(ids) < n && !(e.claimed && e.until <= at) && e.wanted(wanted) {
			ids = append(ids, e.id)
		}
		return len(ids) < n
	})
	return ids
}

// wanted reports whether a query selects the entry by the fields of the index; the caller checks the others.
func (e *entry) wanted(q *job.Query) bool {
	k := e.lane.laneKey
	return (len(q.Kinds) == 0 || slices.Contains(q.Kinds, k.Kind)) &&
		(len(q.States) == 0 || slices.Contains(q.States, k.State)) &&
		(q.Group == "" || q.Group == k.group) && (q.Owner == "" || q.Owner == k.owner) &&
		(q.Parent == "" || q.Parent == e.parent) &&
		(q.Tag == "" || k.tags.has(q.Tag))
}

func (q *Queue) tallied(k tallyKey) *tally {
	t := q.tally[k]
	if t == nil {
		t = &tally{}
		q.tally[k] = t
	}
	return t
}

func (q *Queue) count(j *job.Job, n int64) {
	k := tallyKey{job.KindState{Kind: j.Kind, State: j.State}, j.Group}
	t := q.tallied(k)
	t.jobs += n
	t.bytes += n * j.Bytes
	if j.Claimed() {
		t.claimed += n
	}
	if t.jobs == 0 {
		delete(q.tally, k)
	}
}

// Tally counts all jobs by kind, state and group, unordered.
func (q *Queue) Tally() []job.Tally {
	all := make([]job.Tally, 0, len(q.tally))
	for k, t := range q.tally {
		all = append(all, job.Tally{Kind: k.Kind, State: k.State, Group: k.group, Jobs: t.jobs, Claimed: t.claimed,
			Bytes: t.bytes})
	}
	return all
}

// Live returns the number of jobs that have not ended.
func (q *Queue) Live() int { return len(q.entries) }

func micro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

// earlier returns the smaller of two times of which 0 means none.
func earlier(a, b int64) int64 {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}

// matches reports whether a hold applies to the entry.
func (e *entry) matches(h *job.Hold) bool {
	k := e.lane.laneKey
	return h.Scope.Matches(&job.Job{
		ID: e.id, Parent: e.parent, Kind: k.Kind, Group: k.group, Owner: k.owner, Tags: k.tags.all(),
		Position: lifecycle.Position{State: k.State},
	})
}
