package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/job"
)

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
}

// view is the queue as one transaction finds it: the rows of the database, and the jobs that the transaction changed
// so far and has not written. It decides which jobs a claim is granted.
type view struct {
	q       querier
	ctx     context.Context
	holds   []job.Hold
	actives map[job.Kind]*active
	given   map[job.KindState]int // grants since the last one by age
	turns   map[string]int64      // of owners, as far as known
	turn    int64                 // the last one that was given
	granted map[string]bool       // owners whose turn changed
	changed map[job.ID]*changed   // jobs that the transaction changed
	fresh   map[laneID]*laneState // lanes with such jobs that can be claimed
	sources map[sourceKey]*source
	fitting map[setsKey][]string
	shut    map[job.Kind]string // identity of the limits that sources left lanes out for
	// some limit of the kind counts fewer jobs than before: lanes that were left out may be free
	released map[job.Kind]bool
	visits   int64 // lanes that were visited
}

// changed is a job as the transaction leaves it.
type changed struct {
	candidate
	lane    laneID
	key     *laneKey // nil: it has ended
	claimed bool
	ready   bool
	purged  bool
}

func newView(ctx context.Context, q querier) *view {
	return &view{q: q, ctx: ctx, actives: map[job.Kind]*active{}, given: map[job.KindState]int{},
		turns: map[string]int64{}, granted: map[string]bool{}, changed: map[job.ID]*changed{},
		fresh: map[laneID]*laneState{}, sources: map[sourceKey]*source{}, fitting: map[setsKey][]string{},
		shut: map[job.Kind]string{}, released: map[job.Kind]bool{}}
}

// laneState is a lane with its next jobs.
type laneState struct {
	id    laneID
	key   *laneKey
	rank  rank // as stored: a lower bound
	jobs  []*candidate
	asked int // how many jobs were asked for
}

// follow makes the view follow the change of a job. before is the state in the database or after an earlier change.
func (v *view) follow(before *changed, after *changed) {
	if before != nil && before.key != nil {
		v.shift(before.lane, before.key, -1, -number(before.claimed))
		if l := v.fresh[before.lane]; l != nil {
			l.drop(before.id)
		}
	}
	if after.key != nil {
		v.shift(after.lane, after.key, 1, number(after.claimed))
		if after.ready {
			l := v.fresh[after.lane]
			if l == nil {
				l = &laneState{id: after.lane, key: after.key}
				v.fresh[after.lane] = l
			}
			l.jobs = append(l.jobs, &after.candidate)
		}
	}
	v.changed[after.id] = after
}

func number(is bool) int {
	if is {
		return 1
	}
	return 0
}

func (l *laneState) drop(id job.ID) {
	for i, c := range l.jobs {
		if c.id == id {
			l.jobs[i] = l.jobs[len(l.jobs)-1]
			l.jobs = l.jobs[:len(l.jobs)-1]
			return
		}
	}
}

// grant is a job that a claim is granted.
type grant struct {
	*candidate
	lane *laneState
}

// pick returns the jobs that a claim is granted, in order. The view counts them as claimed.
func (v *view) pick(t *terms) (all []grant, err error) {
	for len(all) < t.N {
		g, err := v.next(t)
		if err != nil {
			return nil, err
		}
		if g.candidate == nil {
			break
		}
		t.taken[g.id] = true
		v.turn++
		v.turns[g.lane.key.owner] = v.turn
		v.shift(g.lane.id, g.lane.key, 0, 1)
		all = append(all, g)
	}
	return all, nil
}

// putBack is the reverse of pick, except for turns.
func (v *view) putBack(t *terms, all []grant) {
	for _, g := range all {
		delete(t.taken, g.id)
		v.shift(g.lane.id, g.lane.key, 0, -1)
	}
}

// next returns the next job of a claim, by age if it is time for that and it has waited long enough.
func (v *view) next(t *terms) (g grant, err error) {
	if t.Suspects == job.OnlySuspects {
		g, err = v.first(t, byPriority)
	} else if g, err = v.eldest(t); g.candidate != nil || err != nil {
		return g, err
	} else {
		g, err = v.first(t, byTurn)
	}
	if g.candidate != nil {
		v.given[g.lane.key.KindState]++
	}
	return g, err
}

// eldest returns the job that has waited longest in its state, if it is time for that.
func (v *view) eldest(t *terms) (g grant, err error) {
	if t.Ageing.Share <= 0 {
		return g, nil
	}
	given := 1
	for _, place := range t.From {
		given += v.given[place]
	}
	if given < t.Ageing.Share {
		return g, nil
	}
	g, err = v.first(t, byAge)
	if g.candidate == nil || err != nil || g.entered >= micro(t.now.Add(-t.Ageing.Patience)) {
		return grant{}, err
	}
	for _, place := range t.From {
		delete(v.given, place)
	}
	return g, nil
}

// open reports whether nothing blocks all jobs of a lane.
func (v *view) open(t *terms, k *laneKey) bool {
	if t.Suspects == job.NoSuspects && k.suspect || t.Suspects == job.OnlySuspects && !k.suspect {
		return false
	}
	for _, l := range t.limits[k.Kind] {
		if l.full(k) {
			return false
		}
	}
	return k.held(v.holds, t.now, nil) == nil
}
