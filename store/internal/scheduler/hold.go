package scheduler

import (
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// hold is a hold, in force or not.
type hold struct {
	job.Hold
	on    bool
	lots  map[*lot]struct{}   // that it closes
	aside map[*entry]struct{} // ready except for this hold on their job or small batch
}

// SetHolds replaces the holds.
func (q *Queue) SetHolds(all []job.Hold) {
	kept := map[job.Scope]*hold{}
	for _, h := range q.holds {
		kept[h.Scope] = h
	}
	q.holds, q.wide, q.onJobs = nil, nil, map[job.ID][]*hold{}
	for _, one := range all {
		h := kept[one.Scope]
		if h == nil {
			h = &hold{Hold: one, lots: map[*lot]struct{}{}}
			q.coverAll(h)
		}
		delete(kept, one.Scope)
		h.Hold = one
		q.holds = append(q.holds, h)
		if one.Scope.Job != "" {
			q.onJobs[one.Scope.Job] = append(q.onJobs[one.Scope.Job], h)
		} else {
			q.wide = append(q.wide, h)
		}
	}
	for _, gone := range kept {
		gone.end()
		for o := range gone.lots {
			o.holds = slices.DeleteFunc(o.holds, func(h *hold) bool { return h == gone })
		}
	}
	q.sure = false
}

// holdAt puts the holds in force that are on at a time, and ends the others.
func (q *Queue) holdAt(now time.Time) {
	if q.sure && !now.Before(q.from) && (q.until.IsZero() || now.Before(q.until)) {
		return
	}
	q.sure, q.from, q.until = true, time.Time{}, time.Time{}
	q.visits += int64(len(q.holds))
	for _, h := range q.holds {
		on := h.On(now)
		switch {
		case on && !h.Until.IsZero() && (q.until.IsZero() || h.Until.Before(q.until)):
			q.until = h.Until
		case !on && h.Until.After(q.from):
			q.from = h.Until
		}
		if h.on && !on {
			h.end()
		}
		h.on = on
	}
}

// end returns what the hold kept to where it is claimed.
func (h *hold) end() {
	h.on = false
	for o := range h.lots {
		o.openAgain()
	}
	aside := h.aside
	h.aside = nil
	for e := range aside { // each is visited by settle
		e.aside = nil
		e.lane.push(e)
	}
}

// holdOf returns the hold in force on all jobs of the lane, or nil.
func (q *Queue) holdOf(l *lane) *hold {
	if len(q.holds) == 0 {
		return nil
	}
	as := &job.Job{
		ID: l.batch, Kind: l.Kind, Group: l.group, Owner: l.owner, Tags: l.tags.all(),
		Position: lifecycle.Position{State: l.State},
	}
	if l.batch != "" {
		if h := matching(q.onJobs[l.batch], as); h != nil {
			return h
		}
	}
	return matching(q.wide, as)
}

// holdOn returns the hold in force on a job or its batch, or nil.
func (q *Queue) holdOn(e *entry) *hold {
	if len(q.onJobs) == 0 {
		return nil
	}
	k := &e.lane.laneKey
	as := &job.Job{
		ID: e.id, Parent: e.parent, Kind: k.Kind, Group: k.group, Owner: k.owner, Tags: k.tags.all(),
		Position: lifecycle.Position{State: k.State},
	}
	if h := matching(q.onJobs[e.id], as); h != nil || e.parent == "" {
		return h
	}
	return matching(q.onJobs[e.parent], as)
}

func matching(all []*hold, as *job.Job) *hold {
	i := slices.IndexFunc(all, func(h *hold) bool { return h.on && h.Matches(as) })
	if i < 0 {
		return nil
	}
	return all[i]
}

// covers reports whether the hold is on all jobs of a home lot, whatever their owner and batch.
func (h *hold) covers(o *lot, k job.KindState) bool {
	return h.Owner == "" && h.Job == "" && h.Matches(&job.Job{
		Kind: k.Kind, Group: o.group, Tags: o.tags.all(), Position: lifecycle.Position{State: k.State},
	})
}

// coverAll lets a new hold close the home lots that it covers; cover, a new home lot by the holds that cover it.
func (q *Queue) coverAll(h *hold) {
	if h.Owner != "" || h.Job != "" {
		return // it covers none
	}
	for s := range q.states {
		q.visits += int64(len(s.homes))
		for _, o := range s.homes {
			if h.covers(o, s.KindState) {
				o.holds = append(o.holds, h)
				h.lots[o] = struct{}{}
			}
		}
	}
}

func (q *Queue) cover(o *lot) {
	for _, h := range q.wide {
		if h.covers(o, o.state.KindState) {
			o.holds = append(o.holds, h)
			h.lots[o] = struct{}{}
		}
	}
}

// lotFor returns the lot of the lane while the hold blocks it.
func (h *hold) lotFor(l *lane) *lot {
	if _, ok := h.lots[l.home]; ok {
		return l.home
	}
	for o := range h.lots {
		if o.state == l.home.state && o.suspect == l.suspect {
			return o
		}
	}
	o := &lot{homeKey: homeKey{suspect: l.suspect}, state: l.home.state, holds: []*hold{h}, slot: -1}
	h.lots[o] = struct{}{}
	return o
}

// setAside removes a ready entry from its lane until the hold on its job or batch ends.
func (h *hold) setAside(e *entry) {
	e.lane.remove(e)
	if h.aside == nil {
		h.aside = map[*entry]struct{}{}
	}
	h.aside[e] = struct{}{}
	e.aside = h
}
