package scheduler

import (
	"container/heap"
	"slices"

	"github.com/stagepost/stagepost/job"
)

// loading are the jobs that Load added, until Loaded.
type loading struct {
	entries []*entry
	batches map[job.ID]*entry // of these, those that have jobs
}

// Load adds a job that has not ended to an index that is only being loaded; no other one has its ID. Batches come
// before their jobs. Call Loaded after the last one: it orders all jobs at once, which is quicker than Put for each.
func (q *Queue) Load(j *job.Job) {
	e := &entry{id: j.ID, parent: j.Parent, number: j.Number, slot: -1, late: -1, held: -1, tick: -1}
	q.loading.entries = append(q.loading.entries, e)
	if j.Children != (job.Children{}) {
		if q.loading.batches == nil {
			q.loading.batches = map[job.ID]*entry{}
		}
		q.loading.batches[j.ID] = e
	}
	var batch *entry
	if j.Parent != "" {
		if batch = q.loading.batches[j.Parent]; batch != nil {
			batch.children++
		}
	}
	key := q.keyIn(batch, j)
	l := q.laneOf(key)
	if l.tally == nil {
		l.tally = q.tallied(tallyKey{key.KindState, key.group})
	}
	l.tally.add(j, 1)
	l.resize(1)
	q.put(e, l, j)
	switch {
	case e.claimed:
		l.claim(1)
		e.until = micro(j.Until)
		e.ends = e.until
		q.addClaim(e, j.Worker)
	case e.due != 0:
		q.delayed.Push(e)
	default:
		l.Push(e)
		e.filed = true
		l.elders = append(l.elders, aged[*entry]{e.age(), e})
	}
	if e.timer = micro(j.Expires); e.timer != 0 {
		l.times.timers.Push(e)
	}
}

// Loaded ends the loading.
func (q *Queue) Loaded() {
	if len(q.entries) == 0 {
		q.entries = make(map[job.ID]*entry, len(q.loading.entries))
	}
	for _, e := range q.loading.entries {
		q.entries[e.id] = e
	}
	q.loading, q.last = loading{}, nil
	heap.Init(&q.delayed)
	for _, t := range q.times {
		t.init()
	}
	q.workers.sort()
	for _, l := range q.lanes {
		l.tally = nil
		if len(l.ready) == 0 || l.slot >= 0 {
			continue
		}
		heap.Init(l)
		slices.SortFunc(l.elders, func(a, b aged[*entry]) int { return a.compare(b.age) })
		l.settle()
		l.filed = l.elders[0].age
		l.lot.file(l)
	}
}
