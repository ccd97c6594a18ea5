// Package scheduler is the index of jobs that a store keeps in memory: the order of claims, the counts, and the timers.
// It is derived from the records. A store loads it at the start and updates it with every change.
//
// Jobs with the same properties (kind, state, group, owner, tags, required labels) wait in one lane, ordered by
// priority and number. The lanes of a state take turns: best priority first, then the owner that was served longest
// ago. A pick costs O(log n) with n waiting jobs. Jobs that require other labels than the worker has are not visited.
// Lanes and states also order their jobs by the time at which they came into the state, for [job.Ageing].
//
// A Queue is not safe for concurrent use: it belongs to the store's commit loop.
package scheduler

import (
	"cmp"
	"container/heap"
	"maps"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/sizes"
)

// Queue is the index. The zero value is not usable; call New.
type Queue struct {
	entries    map[job.ID]*entry // jobs that have not ended
	kindStates map[job.KindState]*kindState
	states     map[*state]struct{} // all that kindStates have
	asked      []*state            // those of the last claim
	lanes      map[laneKey]*lane
	ofKind     map[job.Kind]map[*lane]struct{} // the same, by kind
	now        int64                           // of the last claim or peek, microseconds since 1970
	delayed    byTime                          // unclaimed, not due yet, as far as is known
	times      map[job.Kind]*times             // those that are claimed or expire, by kind
	workers    claimIndex                      // those that are claimed, by worker
	turns      map[string]*turn                // by owner
	turn       int64                           // number of jobs granted
	tally      map[tallyKey]*tally
	sets       map[string]*tagSet  // by their text
	suspect    map[*entry]struct{} // unclaimed suspects, all in lanes of suspects
	last       *entry              // that was found last, or nil
	chaining   bool                // the claim of the job that is put may go on
	limits     map[job.Kind][]*limit
	given      map[job.Kind]*givenLimits // of the last claim with limits of the kind
	claims     int64                     // number of claims and chains

	holds  []*hold
	wide   []*hold            // of these, those on no single job or batch
	onJobs map[job.ID][]*hold // on a job and its batch
	sure   bool               // whether a hold is in force is known, for times
	from   time.Time          // not before this one,
	until  time.Time          // and before this one; zero: for all later ones

	excluding bool              // the last claim excludes suspects
	excluded  map[*lot]struct{} // lots of suspects that may have been closed by that
	undo      *undo             // of a dry claim, or nil
	loading   loading
	visits    int64 // see Visits
}

type laneKey struct {
	job.KindState
	group, owner string
	tags         *tagSet // nil: none
	requires     *tagSet // labels; nil: none
	batch        job.ID  // if it is a large one
	suspect      bool    // see [job.Job.Suspect]
}

type tallyKey struct {
	job.KindState
	group string
}

type tally struct {
	jobs, claimed int64
	bytes         sizes.Sum
}

// add counts a job n times.
func (t *tally) add(j *job.Job, n int64) {
	t.jobs += n
	t.bytes.Add(n * j.Bytes)
	if j.Claimed() {
		t.claimed += n
	}
}

// entry is one waiting, claimed or delayed job. There is one for each job that has not ended: it has no gaps.
type entry struct {
	id       job.ID
	parent   job.ID
	number   int64
	entered  int64 // when it came into its state, microseconds since 1970
	due      int64 // 0: at once
	timer    int64 // 0: none
	until    int64 // of the claim
	ends     int64 // by which the claimed ones are ordered: until, or an earlier end that the claim had
	lane     *lane
	claims   *workerClaims // that it is among, or nil
	aside    *hold         // by which the entry is set aside, or nil
	slot     int32         // index in the lane's heap, or -1
	late     int32         // index in delayed, or -1
	held     int32         // index in the claimed ones of the lane's times, or -1
	tick     int32         // index in their timers, or -1
	children int32         // that came in while the job was there
	priority int16
	claimed  bool
	filed    bool // in the lane's order of age
}

// large is the number of jobs from which a batch has lanes of its own, so that a hold on it blocks these.
const large = 64

// New returns an empty index.
func New() *Queue {
	return &Queue{
		entries: map[job.ID]*entry{}, kindStates: map[job.KindState]*kindState{}, states: map[*state]struct{}{},
		lanes: map[laneKey]*lane{}, ofKind: map[job.Kind]map[*lane]struct{}{},
		delayed: byTime{key: func(e *entry) int64 { return e.due }, at: func(e *entry) *int32 { return &e.late }},
		times:   map[job.Kind]*times{},
		workers: claimIndex{byKey: map[claimsKey]*workerClaims{}},
		turns:   map[string]*turn{}, tally: map[tallyKey]*tally{},
		sets: map[string]*tagSet{}, suspect: map[*entry]struct{}{}, limits: map[job.Kind][]*limit{},
		given:  map[job.Kind]*givenLimits{},
		onJobs: map[job.ID][]*hold{}, excluded: map[*lot]struct{}{},
	}
}

// Put applies a change of a record to the index. before is nil for a new job.
func (q *Queue) Put(before, after *job.Job) {
	q.recount(before, after)
	e := q.entry(after.ID)
	if after.Ended {
		if e != nil {
			q.leave(e)
			q.dropClaim(e)
			q.setTimer(e, 0)
			q.forget(e)
		}
		return
	}
	if e == nil {
		e = &entry{id: after.ID, parent: after.Parent, number: after.Number, slot: -1, late: -1, held: -1, tick: -1}
		q.entries[after.ID] = e
		if batch := q.entries[after.Parent]; batch != nil {
			batch.children++
		}
		q.enter(e, q.laneOf(q.key(e, after)), after)
		return
	}
	q.move(e, after)
}

// move puts an entry into the lane of its job.
func (q *Queue) move(e *entry, j *job.Job) {
	key, from := q.key(e, j), e.lane
	if from.laneKey == key {
		q.stay(e, j)
		return
	}
	q.leave(e)
	to := from.next
	if to == nil || to.dropped || to.laneKey != key {
		to = q.laneOf(key)
		if !from.dropped { // dropped lanes hold on to no others
			from.next = to
		}
	}
	q.enter(e, to, j)
}

// entry returns the entry of a job that has not ended, or nil. Most operations ask for the same job several times.
func (q *Queue) entry(id job.ID) *entry {
	if q.last == nil || q.last.id != id {
		q.last = q.entries[id]
	}
	return q.last
}

// forget removes the entry of a job that has ended.
func (q *Queue) forget(e *entry) {
	delete(q.entries, e.id)
	q.last = nil
}

// stay applies a change of a job that stays in its lane.
func (q *Queue) stay(e *entry, j *job.Job) {
	if e.claimed && j.Claimed() {
		q.renew(e, j)
		return
	}
	q.remove(e)
	if entered := micro(j.Entered); e.entered != entered {
		e.entered, e.filed = entered, false
	}
	q.put(e, e.lane, j)
	q.arrange(e, j)
}

// key gives the lane of a job.
func (q *Queue) key(e *entry, j *job.Job) laneKey {
	if e.parent == "" {
		return q.keyIn(nil, j)
	}
	return q.keyIn(q.entries[e.parent], j)
}

// keyIn gives the lane of a job of a batch; nil for no batch.
func (q *Queue) keyIn(batch *entry, j *job.Job) laneKey {
	k := laneKey{
		KindState: job.KindState{Kind: j.Kind, State: j.State}, group: j.Group, owner: j.Owner,
		tags: q.tagSet(j.Tags), requires: q.tagSet(j.Requires), suspect: j.Suspect(),
	}
	if batch != nil && batch.children > large {
		k.batch = batch.id
	}
	return k
}

// renew applies a change of a claimed job that stays claimed in its lane.
func (q *Queue) renew(e *entry, j *job.Job) {
	e.priority = int16(j.Priority)
	q.renewClaim(e, micro(j.Until), j.Worker)
	if entered := micro(j.Entered); e.entered != entered {
		e.entered, e.filed = entered, false
	}
	q.setTimer(e, micro(j.Expires))
}

// setTimer sets the time at which the state of a job ends; zero: never.
func (q *Queue) setTimer(e *entry, at int64) {
	timers := &e.lane.times.timers
	switch was := e.timer; {
	case was == at && (e.tick >= 0) == (at != 0):
	case e.tick >= 0 && at != 0:
		e.timer = at
		heap.Fix(timers, int(e.tick))
	case e.tick >= 0:
		heap.Remove(timers, int(e.tick))
		e.timer = 0
	default:
		e.timer = at
		heap.Push(timers, e)
	}
}

// AddEnded counts ended jobs that are not loaded individually, with the sum of their sizes.
func (q *Queue) AddEnded(at job.KindState, group string, jobs int64, bytes sizes.Sum) {
	t := q.tallied(tallyKey{at, group})
	t.jobs += jobs
	t.bytes.Join(bytes)
}

// Drop removes a job that has ended from the counts: its record was purged.
func (q *Queue) Drop(j *job.Job) { q.count(j, -1) }

func (q *Queue) enter(e *entry, l *lane, j *job.Job) {
	e.filed = e.filed && e.lane == l && e.entered == micro(j.Entered)
	l.resize(1)
	q.put(e, l, j)
	q.arrange(e, j)
}

// arrange adds an entry to what its lane and its times order. A claim that goes on, as that of a job in its next state,
// keeps its position among the claims.
func (q *Queue) arrange(e *entry, j *job.Job) {
	switch {
	case e.claimed:
		e.lane.claim(1)
		q.renewClaim(e, micro(j.Until), j.Worker)
	case !q.chaining:
		q.dropClaim(e)
	}
	switch {
	case e.claimed:
	case e.due != 0:
		heap.Push(&q.delayed, e)
	default:
		e.lane.push(e)
	}
	q.setTimer(e, micro(j.Expires))
}

// put gives an entry the properties of its job, without the end of the claim, by which claims are ordered.
func (q *Queue) put(e *entry, l *lane, j *job.Job) {
	e.lane, e.entered, e.priority = l, micro(j.Entered), int16(j.Priority)
	e.due = micro(j.Due)
	e.claimed = j.Claimed()
	if l.suspect && !e.claimed {
		q.suspect[e] = struct{}{}
	}
}

// leave removes the entry from everything except the map of entries, the timers and the claims.
func (q *Queue) leave(e *entry) {
	l := e.lane
	l.resize(-1)
	q.remove(e)
	if l.size == 0 {
		q.drop(l)
	}
}

// remove removes the entry from what its lane and its times order, except the timers and the claims.
func (q *Queue) remove(e *entry) {
	l := e.lane
	if l.suspect {
		delete(q.suspect, e)
	}
	if e.claimed {
		l.claim(-1)
	}
	if e.slot >= 0 {
		l.remove(e)
	}
	if e.aside != nil {
		delete(e.aside.aside, e)
		e.aside = nil
	}
	if e.late >= 0 {
		heap.Remove(&q.delayed, int(e.late))
	}
}

// laneOf returns the lane of a key, and adds it if there is none.
func (q *Queue) laneOf(key laneKey) *lane {
	if l := q.lanes[key]; l != nil {
		return l
	}
	return q.newLane(key)
}

// newLane adds a lane.
func (q *Queue) newLane(key laneKey) *lane {
	s := q.stateOf(key)
	t := q.turns[key.owner]
	if t == nil {
		t = &turn{}
		q.turns[key.owner] = t
	}
	t.lanes++
	l := &lane{laneKey: key, turn: t, times: q.timesOf(key.Kind), slot: -1}
	q.lanes[key] = l
	if q.ofKind[key.Kind] == nil {
		q.ofKind[key.Kind] = map[*lane]struct{}{}
	}
	q.ofKind[key.Kind][l] = struct{}{}
	q.join(l)
	s.enter(l)
	return l
}

// drop removes a lane without jobs. The turns of owners without jobs are kept until they are many.
func (q *Queue) drop(l *lane) {
	delete(q.lanes, l.laneKey)
	if delete(q.ofKind[l.Kind], l); len(q.ofKind[l.Kind]) == 0 {
		delete(q.ofKind, l.Kind)
	}
	l.dropped, l.next = true, nil
	l.home.state.leave(l)
	l.part()
	l.turn.lanes--
	if len(q.turns) > 2*len(q.lanes)+1024 {
		q.visits += int64(len(q.turns))
		maps.DeleteFunc(q.turns, func(_ string, t *turn) bool { return t.lanes == 0 })
	}
}

// promote moves jobs that have become due into their lanes.
func (q *Queue) promote() {
	for len(q.delayed.entries) > 0 && q.delayed.entries[0].due <= q.now {
		q.visits++
		e := heap.Pop(&q.delayed).(*entry)
		e.lane.push(e)
	}
}

// NextDue returns the time at which the next delayed job becomes due or the next timer fires; zero if there is none.
func (q *Queue) NextDue() time.Time {
	var at int64
	if len(q.delayed.entries) > 0 {
		at = q.delayed.entries[0].due
	}
	for _, t := range q.times {
		if len(t.timers.entries) > 0 {
			at = earlier(at, t.timers.entries[0].timer)
		}
	}
	if at == 0 {
		return time.Time{}
	}
	return time.UnixMicro(at)
}

func (q *Queue) tallied(k tallyKey) *tally {
	t := q.tally[k]
	if t == nil {
		t = &tally{}
		q.tally[k] = t
	}
	return t
}

// recount counts a change of a record. before is nil for a new job.
func (q *Queue) recount(before, after *job.Job) {
	if before == nil {
		q.count(after, 1)
		return
	}
	if before.State != after.State || before.Kind != after.Kind || before.Group != after.Group {
		q.count(before, -1)
		q.count(after, 1)
		return
	}
	if before.Claimed() != after.Claimed() || before.Bytes != after.Bytes {
		t := q.tallied(tallyKey{job.KindState{Kind: after.Kind, State: after.State}, after.Group})
		t.add(before, -1)
		t.add(after, 1)
	}
}

func (q *Queue) count(j *job.Job, n int64) {
	k := tallyKey{job.KindState{Kind: j.Kind, State: j.State}, j.Group}
	t := q.tallied(k)
	t.add(j, n)
	if t.jobs == 0 {
		delete(q.tally, k)
	}
}

// Tally counts all jobs by kind, state and group, unordered.
func (q *Queue) Tally() []job.Tally {
	q.visits += int64(len(q.tally))
	all := make([]job.Tally, 0, len(q.tally))
	for k, t := range q.tally {
		all = append(all, job.Tally{Kind: k.Kind, State: k.State, Group: k.group, Jobs: t.jobs, Claimed: t.claimed,
			Bytes: t.bytes.Int64()})
	}
	return all
}

// Visits returns the number of lanes, lots, holds and jobs that the index has visited so far: a measure of the cost of
// operations that does not depend on the machine.
func (q *Queue) Visits() int64 { return q.visits }

// Live returns the number of jobs that have not ended.
func (q *Queue) Live() int { return len(q.entries) }

// micro returns microseconds since 1970, 0 for the zero time. 1970-01-01T00:00:00Z counts as a microsecond earlier.
func micro(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return cmp.Or(t.UnixMicro(), -1)
}

// earlier returns the smaller of two times of which 0 means none.
func earlier(a, b int64) int64 {
	if a == 0 || (b != 0 && b < a) {
		return b
	}
	return a
}
