package postgres

import (
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// counted is a lane with its jobs that limits count. A count includes what the transaction changes so far.
type counted struct {
	*laneKey
	claimed int
	size    int // of jobs in all; complete only if the state is one of active.states
}

// active has the jobs of one kind that limits count.
type active struct {
	lanes  map[laneID]*counted
	states map[lifecycle.State]bool // whose jobs are all counted
	limits map[string]*limit
}

// limit is a limit with its counts. A count is that of a share: of all jobs, or those of one group, one owner or both.
type limit struct {
	job.Limit
	counts map[share]int
}

type share struct{ group, owner string }

func (l *limit) share(k *laneKey) (s share) {
	if l.PerGroup {
		s.group = k.group
	}
	if l.PerOwner {
		s.owner = k.owner
	}
	return s
}

// of returns how many jobs of a lane the limit counts.
func (l *limit) of(c *counted) int {
	switch {
	case !c.concerns(&l.Limit):
		return 0
	case slices.Contains(l.Occupy, c.State):
		return c.size
	case c.guarded(&l.Limit):
		return c.claimed
	}
	return 0
}

// full reports whether the limit forbids one more job of the lane.
func (l *limit) full(k *laneKey) bool { return k.guards(&l.Limit) && l.counts[l.share(k)] >= l.Max }

// identity is what limits that count alike have in common.
func identity(l *job.Limit) string {
	return fmt.Sprintf("%q %q %q %q %q %t %t", l.Guard, l.Occupy, l.Group, l.Owner, l.Tag, l.PerGroup, l.PerOwner)
}

// limited returns the limits of some kinds with their counts, by kind and in order.
func (v *view) limited(limits []job.Limit, of func(job.Kind) bool) (map[job.Kind][]*limit, error) {
	all := map[job.Kind][]*limit{}
	for i := range limits {
		if l := &limits[i]; of(l.Kind) {
			all[l.Kind] = append(all[l.Kind], &limit{Limit: *l})
		}
	}
	// first all counts: what is counted later would not be in those of limits
	if err := v.count(all); err != nil {
		return nil, err
	}
	for kind, some := range all {
		a := v.of(kind)
		for _, l := range some {
			key := identity(&l.Limit)
			m := a.limits[key]
			if m == nil {
				m = &limit{Limit: l.Limit, counts: map[share]int{}}
				for _, c := range a.lanes {
					if n := m.of(c); n != 0 {
						m.counts[m.share(c.laneKey)] += n
					}
				}
				a.limits[key] = m
			}
			l.counts = m.counts
		}
	}
	return all, nil
}

// of returns the jobs of a kind.
func (v *view) of(kind job.Kind) *active {
	a := v.actives[kind]
	if a == nil {
		a = &active{lanes: map[laneID]*counted{}, limits: map[string]*limit{}}
		v.actives[kind] = a
	}
	return a
}

const (
	selectClaimed = `SELECT l.kind, j.lane, l.state, l.grp, l.owner, l.tags, l.crowd, l.suspect, j.n FROM
 (SELECT lane, count(*) AS n FROM job_now WHERE kind = ANY ($1) AND worker <> '' GROUP BY lane) j
 JOIN lane l ON l.id = j.lane`
	// the condition on ended is that of no index: one of all jobs that have not ended would be read as a whole
	selectOccupied = `SELECT l.kind, j.lane, l.state, l.grp, l.owner, l.tags, l.crowd, l.suspect, j.n FROM
 (SELECT lane, count(*) AS n FROM job_now WHERE kind = $1 AND state = ANY ($2) AND ended + 0 = 0 GROUP BY lane) j
 JOIN lane l ON l.id = j.lane`
)

// count reads the claimed jobs of kinds and all jobs of the states that their limits occupy, unless that was done: in
// one round trip.
func (v *view) count(limits map[job.Kind][]*limit) error {
	var p pgx.Batch
	var kinds []string
	for kind, some := range limits {
		a := v.of(kind)
		if a.states == nil {
			a.states = map[lifecycle.State]bool{}
			kinds = append(kinds, pg.Stored(string(kind)))
			clear(a.limits)
		}
		var missing []lifecycle.State
		for _, l := range some {
			for _, s := range l.Occupy {
				if !a.states[s] {
					a.states[s] = true
					missing = append(missing, s)
				}
			}
		}
		if len(missing) > 0 {
			clear(a.limits)
			v.queueLanes(&p, func(c *counted, n int) { c.size += n }, selectOccupied, pg.Stored(string(kind)),
				storedAll(missing))
		}
	}
	if len(kinds) > 0 {
		v.queueLanes(&p, func(c *counted, n int) { c.claimed += n }, selectClaimed, kinds)
	}
	if p.Len() == 0 {
		return nil
	}
	return v.q.SendBatch(v.ctx, &p).Close()
}

// queueLanes adds a statement that adds counts.
func (v *view) queueLanes(p *pgx.Batch, add func(*counted, int), statement string, args ...any) {
	p.Queue(statement, args...).Query(func(rows pgx.Rows) error {
		var id pgtype.UUID
		var n int
		k := laneKey{}
		_, err := pgx.ForEachRow(rows, []any{(*string)(&k.Kind), &id, (*string)(&k.State), &k.group, &k.owner, &k.tags,
			(*string)(&k.crowd), &k.suspect, &n}, func() error {
			v.visits++
			key := k
			key.original()
			key.Kind = job.Kind(pg.Original(string(k.Kind)))
			add(v.of(key.Kind).lane(id.Bytes, &key), n)
			return nil
		})
		return err
	})
}

func (k *laneKey) original() {
	k.State, k.crowd = lifecycle.State(pg.Original(string(k.State))), job.ID(pg.Original(string(k.crowd)))
	k.group, k.owner = pg.Original(k.group), pg.Original(k.owner)
}

func (a *active) lane(id laneID, k *laneKey) *counted {
	c := a.lanes[id]
	if c == nil {
		c = &counted{laneKey: k}
		a.lanes[id] = c
	}
	return c
}

// shift counts more jobs of a lane, and more claimed ones.
func (v *view) shift(id laneID, k *laneKey, jobs, claimed int) {
	a := v.of(k.Kind)
	c := a.lane(id, k)
	for _, l := range a.limits {
		before := l.of(c)
		c.size, c.claimed = c.size+jobs, c.claimed+claimed
		if after := l.of(c); after != before {
			l.counts[l.share(k)] += after - before
			if after < before {
				v.released[k.Kind] = true
			}
		}
		c.size, c.claimed = c.size-jobs, c.claimed-claimed
	}
	c.size, c.claimed = c.size+jobs, c.claimed+claimed
}

// uses returns those of the limits that must let a job of the lane pass.
func uses(limits []*limit, k *laneKey) (all []job.LimitUse) {
	for _, l := range limits {
		if k.guards(&l.Limit) {
			all = append(all, job.LimitUse{Limit: l.Limit, Active: l.counts[l.share(k)]})
		}
	}
	return all
}
