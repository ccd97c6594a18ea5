package scheduler

import (
	"cmp"
	"container/heap"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Claimed is a claimed job.
type Claimed struct {
	ID     job.ID
	Number int64
}

// claimIndex finds the claims of a worker.
type claimIndex struct {
	byKey map[claimsKey]*workerClaims
	all   []*workerClaims // by worker and kind; in any order while jobs are loaded
	last  *workerClaims   // that was found last, or nil
	most  int             // length of all from which workers without claims are forgotten
}

type claimsKey struct {
	worker string
	kind   job.Kind
}

// workerClaims has the claims of a worker of one kind.
type workerClaims struct {
	claimsKey
	// in order of number, in parts of up to mostPart; at least one part, and none is empty if there are several
	parts [][]*entry
}

// mostPart bounds the claims that one that begins or ends moves in memory.
const mostPart = 256

// compare is the order by worker and kind.
func (k claimsKey) compare(o claimsKey) int {
	return cmp.Or(cmp.Compare(k.worker, o.worker), cmp.Compare(k.kind, o.kind))
}

// of returns the claims of a worker of one kind, and adds them if there are none. sorted: the index is in order, and
// remains so.
func (s *claimIndex) of(k claimsKey, sorted bool) *workerClaims {
	if s.last != nil && s.last.claimsKey == k {
		return s.last
	}
	w := s.byKey[k]
	if w == nil {
		if len(s.all) > s.most {
			s.forget()
		}
		w = &workerClaims{claimsKey: k, parts: make([][]*entry, 1)}
		s.byKey[k] = w
		at := len(s.all)
		if sorted {
			at = s.find(k)
		}
		s.all = slices.Insert(s.all, at, w)
	}
	s.last = w
	return w
}

// find returns the index of the first claims that are not before a key.
func (s *claimIndex) find(k claimsKey) int {
	return sort.Search(len(s.all), func(i int) bool { return s.all[i].compare(k) >= 0 })
}

// sort puts the index in order after a load.
func (s *claimIndex) sort() {
	slices.SortFunc(s.all, func(a, b *workerClaims) int { return a.compare(b.claimsKey) })
}

// forget drops workers without claims. They are kept until they are many: most workers claim again.
func (s *claimIndex) forget() {
	s.last = nil
	s.all = slices.DeleteFunc(s.all, func(w *workerClaims) bool {
		gone := len(w.parts[0]) == 0
		if gone {
			delete(s.byKey, w.claimsKey)
		}
		return gone
	})
	s.most = 2*len(s.all) + 1024
}

// each calls f for the claims of workers whose names begin with worker, by worker and kind.
func (s *claimIndex) each(worker string, f func(*workerClaims)) {
	for i := s.find(claimsKey{worker: worker}); i < len(s.all) && strings.HasPrefix(s.all[i].worker, worker); i++ {
		f(s.all[i])
	}
}

// find returns where the first claim is, or would be, whose number is not below another.
func (w *workerClaims) find(number int64) (part, at int) {
	part = sort.Search(len(w.parts), func(i int) bool {
		p := w.parts[i]
		return len(p) > 0 && p[len(p)-1].number >= number
	})
	if part < len(w.parts) {
		p := w.parts[part]
		at = sort.Search(len(p), func(i int) bool { return p[i].number >= number })
	}
	return part, at
}

// add adds a claim. Most are the last ones.
func (w *workerClaims) add(e *entry) {
	part, at := w.find(e.number)
	if part == len(w.parts) {
		part--
		if at = len(w.parts[part]); at == mostPart {
			w.parts = append(w.parts, nil)
			part, at = part+1, 0
		}
	}
	p := slices.Insert(w.parts[part], at, e)
	w.parts[part] = p
	if half := len(p) / 2; len(p) > mostPart {
		w.parts = slices.Insert(w.parts, part+1, slices.Clone(p[half:]))
		clear(p[half:])
		w.parts[part] = p[:half]
	}
}

// drop removes a claim, and joins two parts that are small.
func (w *workerClaims) drop(e *entry) {
	part, at := w.find(e.number)
	w.parts[part] = slices.Delete(w.parts[part], at, at+1)
	if part == len(w.parts)-1 {
		part--
	}
	if part < 0 {
		return
	}
	a, b := w.parts[part], w.parts[part+1]
	if len(a) == 0 || len(b) == 0 || len(a)+len(b) <= mostPart/2 {
		w.parts[part] = append(a, b...)
		w.parts = slices.Delete(w.parts, part+1, part+2)
	}
}

// from appends up to n claims from a number on, upwards (step 1) or downwards (step -1).
func (w *workerClaims) from(all []Claimed, number int64, step, n int) []Claimed {
	part, at := w.find(number)
	if step < 0 && (part == len(w.parts) || w.parts[part][at].number > number) {
		at-- // the last one below
	}
	for n > 0 {
		switch {
		case at < 0:
			if part--; part < 0 {
				return all
			}
			at = len(w.parts[part]) - 1
		case part == len(w.parts):
			return all
		case at == len(w.parts[part]):
			part, at = part+1, 0
		default:
			e := w.parts[part][at]
			all = append(all, Claimed{e.id, e.number})
			at, n = at+step, n-1
		}
	}
	return all
}

// addClaim adds an entry to the claims of a worker. Loaded puts those in order that are loaded.
func (q *Queue) addClaim(e *entry, worker string) {
	e.claims = q.workers.of(claimsKey{worker, e.lane.Kind}, q.loading.entries == nil)
	e.claims.add(e)
	if q.loading.entries != nil {
		e.lane.times.claimed.Push(e)
	} else {
		heap.Push(&e.lane.times.claimed, e)
	}
}

// dropClaim removes an entry from the claims. A claim that is only picked is not among them.
func (q *Queue) dropClaim(e *entry) {
	if e.claims == nil {
		return
	}
	heap.Remove(&e.lane.times.claimed, int(e.held))
	e.claims.drop(e)
	e.claims = nil
}

// renewClaim applies a change of a claim: it was picked, extended, or has another worker.
func (q *Queue) renewClaim(e *entry, until int64, worker string) {
	switch {
	case e.claims != nil && e.claims.worker == worker && e.until == until:
		return
	case e.claims != nil && e.claims.worker == worker:
		if e.until = until; until < e.ends { // a later end is of interest when the earlier one has come: see Overdue
			e.ends = until
			heap.Fix(&e.lane.times.claimed, int(e.held))
		}
		return
	}
	q.dropClaim(e)
	e.until, e.ends = until, until
	q.addClaim(e, worker)
}

// ClaimKinds returns the kinds of the jobs that are claimed by workers whose names begin with worker, in order.
func (q *Queue) ClaimKinds(worker string) (kinds []job.Kind) {
	q.workers.each(worker, func(w *workerClaims) {
		q.visits++
		if len(w.parts[0]) > 0 {
			kinds = append(kinds, w.kind)
		}
	})
	slices.Sort(kinds)
	return slices.Compact(kinds)
}

// ClaimedBy returns up to n jobs of a kind that are claimed by workers whose names begin with worker, in order of
// number: from a number on, upwards (step 1) or downwards (step -1).
func (q *Queue) ClaimedBy(worker string, kind job.Kind, from int64, step, n int) (all []Claimed) {
	parts := 0
	q.workers.each(worker, func(w *workerClaims) {
		q.visits++
		if before := len(all); w.kind == kind {
			all = w.from(all, from, step, n)
			q.visits += int64(len(all) - before)
			parts++
		}
	})
	if parts > 1 {
		slices.SortFunc(all, func(a, b Claimed) int { return step * cmp.Compare(a.Number, b.Number) })
		all = all[:min(len(all), max(0, n))]
	}
	return all
}

// Overdue returns up to n jobs of the kinds (none: of all) whose claim or time in their state had ended at a time. It
// visits no job of another kind.
func (q *Queue) Overdue(now time.Time, kinds []job.Kind, n int) (ids []job.ID) {
	at := micro(now)
	lost := func(e *entry) bool { return e.claims != nil && e.until != 0 && e.until <= at }
	add := func(e *entry, is bool) (more bool) {
		if len(ids) >= n {
			return false
		}
		q.visits++
		if is {
			ids = append(ids, e.id)
		}
		return true
	}
	of := func(t *times) {
		var extended []*entry
		t.claimed.each(at, func(e *entry) bool {
			if e.until > at {
				extended = append(extended, e)
			}
			return add(e, lost(e))
		})
		for _, e := range extended {
			e.ends = e.until
			heap.Fix(&t.claimed, int(e.held))
		}
		t.timers.each(at, func(e *entry) bool { return add(e, !lost(e)) })
	}
	if len(kinds) == 0 {
		for _, t := range q.times {
			of(t)
		}
		return ids
	}
	for i, k := range kinds {
		if t := q.times[k]; t != nil && !slices.Contains(kinds[:i], k) {
			of(t)
		}
	}
	return ids
}
