package queue

import (
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
)

// setAside removes a ready entry from its lane if a hold on a job or batch applies to it. It stays aside as long as
// that hold is in force, so that a batch of many held jobs slows down one claim, and not every claim.
func (q *Queue) setAside(e *entry, by job.Scope) {
	e.lane.remove(e, q)
	held := q.aside[by]
	if held == nil {
		held = map[*entry]struct{}{}
		q.aside[by] = held
	}
	held[e] = struct{}{}
	e.aside = held
}

// recall returns the entries whose hold is no longer in force to their lanes.
func (q *Queue) recall(holds []job.Hold, now time.Time) {
	for by, held := range q.aside {
		if slices.ContainsFunc(holds, func(h job.Hold) bool { return h.Scope == by && h.On(now) }) {
			continue
		}
		delete(q.aside, by)
		for e := range held {
			e.aside = nil
			e.lane.push(e, q)
		}
	}
}
