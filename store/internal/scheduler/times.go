package scheduler

import (
	"container/heap"

	"github.com/stagepost/stagepost/job"
)

// times order the jobs of a kind by the ends of their claims, and by those of their times in their states.
type times struct {
	claimed byTime // those that are claimed, by the end of the claim or an earlier one that it had
	timers  byTime // by Expires
}

// timesOf returns the times of a kind, and adds them if there are none. They are kept: there are few kinds.
func (q *Queue) timesOf(k job.Kind) *times {
	t := q.times[k]
	if t == nil {
		t = &times{
			claimed: byTime{key: func(e *entry) int64 { return e.ends }, at: func(e *entry) *int32 { return &e.held }},
			timers:  byTime{key: func(e *entry) int64 { return e.timer }, at: func(e *entry) *int32 { return &e.tick }},
		}
		q.times[k] = t
	}
	return t
}

// init orders both after a load.
func (t *times) init() {
	heap.Init(&t.claimed)
	heap.Init(&t.timers)
}

// byTime is a heap of entries by one of their times.
type byTime struct {
	entries []*entry
	key     func(*entry) int64
	at      func(*entry) *int32
}

func (b *byTime) Len() int           { return len(b.entries) }
func (b *byTime) Less(i, j int) bool { return b.key(b.entries[i]) < b.key(b.entries[j]) }
func (b *byTime) Swap(i, j int) {
	b.entries[i], b.entries[j] = b.entries[j], b.entries[i]
	*b.at(b.entries[i]), *b.at(b.entries[j]) = int32(i), int32(j)
}

// Push and Pop are for package heap only.
func (b *byTime) Push(x any) {
	e := x.(*entry)
	*b.at(e) = int32(len(b.entries))
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
