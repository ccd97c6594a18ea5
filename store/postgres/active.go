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

// limited returns limits with their counts, in order.
func (v *view) limited(limits []job.Limit) ([]*limit, error) {
	for i := range limits { // what is counted later would not be in the counts of limits
		if err := v.count(limits[i].Kind, v.of(limits[i].Kind), limits[i].Occupy); err != nil {
			return nil, err
		}
	}
	all := make([]*limit, len(limits))
	for i := range limits {
		l := &limits[i]
		a, key := v.of(l.Kind), identity(l)
		m := a.limits[key]
		if m == nil {
			m = &limit{Limit: *l, counts: map[share]int{}}
			for _, c := range a.lanes {
				if n := m.of(c); n != 0 {
					m.counts[m.share(c.laneKey)] += n
				}
			}
			a.limits[key] = m
		}
		all[i] = &limit{Limit: *l, counts: m.counts}
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
	selectClaimed = `SELECT j.lane, l.state, l.grp, l.owner, l.tags, l.crowd, l.suspect, j.n FROM
 (SELECT lane, count(*) AS n FROM job_now WHERE kind = $1 AND worker <> '' GROUP BY lane) j
 JOIN lane l ON l.id = j.lane`
	// the condition on ended is that of no index: one of all jobs that have not ended would be read as a whole
	selectOccupied = `SELECT j.lane, l.state, l.grp, l.owner, l.tags, l.crowd, l.suspect, j.n FROM
 (SELECT lane, count(*) AS n FROM job_now WHERE kind = $1 AND state = ANY ($2) AND ended + 0 = 0 GROUP BY lane) j
 JOIN lane l ON l.id = j.lane`
)

// count reads the claimed jobs of a kind and all jobs of its states, unless that was done.
func (v *view) count(kind job.Kind, a *active, states []lifecycle.State) error {
	if a.states == nil {
		a.states = map[lifecycle.State]bool{}
		err := v.lanes(kind, a, func(c *counted, n int) { c.claimed += n }, selectClaimed, pg.Stored(string(kind)))
		if err != nil {
			return err
		}
		clear(a.limits)
	}
	var missing []lifecycle.State
	for _, s := range states {
		if !a.states[s] {
			a.states[s] = true
			missing = append(missing, s)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	clear(a.limits)
	return v.lanes(kind, a, func(c *counted, n int) { c.size += n }, selectOccupied, pg.Stored(string(kind)),
		storedAll(missing))
}

// lanes adds the counts of a statement.
func (v *view) lanes(kind job.Kind, a *active, add func(*counted, int), statement string, args ...any) error {
	rows, err := v.q.Query(v.ctx, statement, args...)
	if err != nil {
		return err
	}
	var id pgtype.UUID
	var n int
	k := laneKey{}
	_, err = pgx.ForEachRow(rows, []any{&id, (*string)(&k.State), &k.group, &k.owner, &k.tags, (*string)(&k.crowd),
		&k.suspect, &n}, func() error {
		v.visits++
		key := k
		key.original()
		key.Kind = kind
		add(a.lane(id.Bytes, &key), n)
		return nil
	})
	return err
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
			v.released = v.released || after < before
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
