package postgres

import (
	"maps"
	"math"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
)

// sourceKey identifies the lanes of a state in one order.
type sourceKey struct {
	job.KindState
	requires string // as stored
	suspect  bool
	order    order
}

// source reads the lanes of a state as far as they are needed. Lanes are read in the order of their stored ranks, which
// are lower bounds: the first job of the lanes that were read is the first of all if its rank is not above the last
// one that was read.
type source struct {
	sourceKey
	lanes []*laneState
	last  rank   // stored, of the last lane that was read
	id    laneID // of that lane
	ended bool   // no lane is left
	shut  bool   // lanes were left out because of limits
}

// How many lanes and jobs of each are read at once.
const (
	firstLanes = 16
	mostLanes  = 512
	fewJobs    = 4
	mostJobs   = 100
)

// first returns the first job in an order that the claim may be granted.
func (v *view) first(t *terms, o order) (best grant, err error) {
	sources, err := v.readied(t, o)
	if err != nil {
		return best, err
	}
	for {
		best = grant{}
		var at rank
		offer := func(l *laneState) error {
			if !v.open(t, l.key) {
				return nil
			}
			c, err := v.head(t, l, o)
			if c == nil || err != nil {
				return err
			}
			if r := o.rank(c, v.turns[l.key.owner]); best.candidate == nil || r.less(at) {
				best, at = grant{c, l}, r
			}
			return nil
		}
		for _, l := range v.fresh {
			if t.fits(l.key) {
				if err := offer(l); err != nil {
					return best, err
				}
			}
		}
		for _, s := range sources {
			for _, l := range s.lanes {
				if err := offer(l); err != nil {
					return best, err
				}
			}
		}
		var more []*source
		for _, s := range sources {
			if !s.ended && (best.candidate == nil || !at.less(s.last)) {
				more = append(more, s)
			}
		}
		if len(more) == 0 {
			return best, nil
		}
		if err := v.extend(t, more); err != nil {
			return best, err
		}
	}
}

// readied returns the sources of a claim, each with its first lanes. What was left out because of limits is read again
// if a limit may have become free since.
func (v *view) readied(t *terms, o order) (all []*source, err error) {
	v.dropShut(t)
	var missing []*source
	for _, place := range t.order {
		sets, err := v.sets(t, place)
		if err != nil {
			return nil, err
		}
		for _, requires := range sets {
			for _, suspect := range []bool{false, true} {
				if suspect && t.Suspects == job.NoSuspects || !suspect && t.Suspects == job.OnlySuspects {
					continue
				}
				key := sourceKey{place, requires, suspect, o}
				s := v.sources[key]
				if s == nil {
					s = newSource(key)
					missing = append(missing, s)
					v.sources[key] = s
				}
				all = append(all, s)
			}
		}
	}
	if err := v.extend(t, missing); err != nil {
		return nil, err
	}
	return all, v.readTurns(t)
}

// dropShut lets the sources be read again that left lanes out because of limits, if the limits of their kind are others
// now, or count fewer jobs.
func (v *view) dropShut(t *terms) {
	again := map[job.Kind]bool{}
	for kind, same := range t.same {
		if v.released[kind] || v.shut[kind] != same {
			again[kind] = true
		}
		delete(v.released, kind)
		v.shut[kind] = same
	}
	if len(again) > 0 {
		maps.DeleteFunc(v.sources, func(k sourceKey, s *source) bool { return s.shut && again[k.Kind] })
	}
}

const selectTurns = "SELECT owner, at FROM turn WHERE owner = ANY ($1)"

// readTurns reads the turns of the owners of changed jobs.
func (v *view) readTurns(t *terms) error {
	var missing []string
	for _, l := range v.fresh {
		if _, known := v.turns[l.key.owner]; !known && t.fits(l.key) {
			missing = append(missing, l.key.owner)
		}
	}
	if len(missing) == 0 || v.single(t) {
		return nil
	}
	rows, err := v.q.Query(v.ctx, selectTurns, storedAll(missing))
	if err != nil {
		return err
	}
	return v.setTurns(rows, missing)
}

// setTurns takes the turns of owners over; those without a row have none.
func (v *view) setTurns(rows pgx.Rows, of []string) error {
	for _, owner := range of {
		v.turns[owner] = max(v.turns[owner], 0)
	}
	var owner string
	var at int64
	_, err := pgx.ForEachRow(rows, []any{&owner, &at}, func() error {
		name := pg.Original(owner)
		v.turns[name] = max(v.turns[name], at)
		return nil
	})
	return err
}

// laneColumns are the columns of a laneRow. The rank is that of the order by turn.
const laneColumns = `l.id, l.grp, l.owner, l.tags, l.crowd, l.priority, l.turn, l.first, coalesce(t.at, 0),
  h.n, h.id, h.parent, h.priority, h.entered, h.due`

// laneColumnsByAge are those with the rank of the order by age.
const laneColumnsByAge = `l.id, l.grp, l.owner, l.tags, l.crowd, l.entered, l.eldest, 0::bigint, coalesce(t.at, 0),
  h.n, h.id, h.parent, h.priority, h.entered, h.due`

// The lanes of a state after a rank, each with the turn of its owner and its first jobs: a row for each job, and one
// for a lane without jobs.
const (
	selectByTurn = `SELECT ` + laneColumns + `
FROM (SELECT * FROM lane WHERE kind = $1 AND state = $2 AND requires = $12 AND suspect = $3 AND waiting AND NOT held AND
  (priority, turn, first, id) > ($4, $5, $6, $7) AND NOT owner = ANY ($8) AND NOT grp = ANY ($9)
  ORDER BY priority, turn, first, id LIMIT $10) l
LEFT JOIN turn t ON t.owner = l.owner
LEFT JOIN LATERAL (SELECT j.n, m.id, m.parent, j.priority, j.entered, j.due FROM job_now j JOIN job_made m ON m.n = j.n
  WHERE j.lane = l.id AND j.waits = 1 AND (j.priority, j.n) >= (l.priority, l.first)
  ORDER BY j.priority, j.n LIMIT $11) h ON true
ORDER BY l.priority, l.turn, l.first, l.id, h.priority, h.n`
	selectByAge = `SELECT ` + laneColumnsByAge + `
FROM (SELECT * FROM lane WHERE kind = $1 AND state = $2 AND requires = $12 AND suspect = $3 AND waiting AND NOT held AND
  (entered, eldest, id) > ($4, $5, $7) AND $6::bigint IS NOT NULL AND NOT owner = ANY ($8) AND NOT grp = ANY ($9)
  ORDER BY entered, eldest, id LIMIT $10) l
LEFT JOIN turn t ON t.owner = l.owner
LEFT JOIN LATERAL (SELECT j.n, m.id, m.parent, j.priority, j.entered, j.due FROM job_now j JOIN job_made m ON m.n = j.n
  WHERE j.lane = l.id AND j.waits = 1 AND (j.entered, j.n) >= (l.entered, l.eldest)
  ORDER BY j.entered, j.n LIMIT $11) h ON true
ORDER BY l.entered, l.eldest, l.id, h.entered, h.n`
)

// extend reads the next lanes of sources, in one round trip.
func (v *view) extend(t *terms, sources []*source) error {
	p := &pgx.Batch{}
	if len(sources) > fewPlaces {
		sources = v.queueFirst(p, t, sources)
	}
	for _, s := range sources {
		v.queueNext(p, t, s)
	}
	if p.Len() == 0 {
		return nil
	}
	return v.q.SendBatch(v.ctx, p).Close()
}

// queueFirst adds a statement that reads the first lanes of sources, of those for which nothing is left out. It returns
// the other sources.
func (v *view) queueFirst(p *pgx.Batch, t *terms, sources []*source) (rest []*source) {
	var first []*source
	for _, s := range sources {
		owners, groups, closed := v.leftOut(t, s)
		if len(s.lanes) > 0 || s.order == byPriority || len(owners)+len(groups) > 0 || closed {
			rest = append(rest, s)
		} else {
			first = append(first, s)
		}
	}
	if len(first) > 0 {
		v.queueMany(p, first, max(fewJobs, min(t.N+1, mostJobs)))
	}
	return rest
}

// queueNext adds the statement that reads the next lanes of a source.
func (v *view) queueNext(p *pgx.Batch, t *terms, s *source) {
	owners, groups, closed := v.leftOut(t, s)
	s.shut = s.shut || closed || len(owners)+len(groups) > 0
	if closed {
		s.ended = true
		return
	}
	statement, lanes, jobs := selectByTurn, min(max(firstLanes, 2*len(s.lanes)), mostLanes), min(t.N+1, mostJobs)
	switch s.order {
	case byAge:
		statement, jobs = selectByAge, fewJobs
	case byPriority:
		lanes = math.MaxInt32 // there are few suspects
	}
	jobs = max(jobs, fewJobs)
	q := p.Queue(statement, pg.Stored(string(s.Kind)), pg.Stored(string(s.State)), s.suspect, s.last.a, s.last.b,
		s.last.c, pgtype.UUID{Bytes: s.id, Valid: true}, owners, groups, lanes, jobs, s.requires)
	q.Query(func(rows pgx.Rows) error {
		read := 0
		_, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (bool, error) {
			var r laneRow
			if err := r.scan(row); err != nil {
				return false, err
			}
			if v.addLane(s, &r, jobs) {
				read++
			}
			return true, nil
		})
		s.ended = read < lanes
		return err
	})
}

// laneRow is a lane with one of its first jobs, or without any.
type laneRow struct {
	id                        pgtype.UUID
	key                       laneKey
	rank                      rank
	turn                      int64
	n, priority, entered, due *int64
	job, parent               *string
}

// scan reads a row. Its first columns go to before.
func (r *laneRow) scan(row pgx.CollectableRow, before ...any) error {
	k := &r.key
	return row.Scan(append(before, &r.id, &k.group, &k.owner, &k.tags, (*string)(&k.crowd), &r.rank.a, &r.rank.b,
		&r.rank.c, &r.turn, &r.n, &r.job, &r.parent, &r.priority, &r.entered, &r.due)...)
}

// addLane adds a row to a source; asked is how many jobs of a lane were asked for. It reports whether the lane is not
// that of the row before.
func (v *view) addLane(s *source, r *laneRow, asked int) (another bool) {
	v.visits++
	if another = len(s.lanes) == 0 || s.id != r.id.Bytes; another {
		k := r.key
		k.KindState, k.suspect, k.requires = s.KindState, s.suspect, s.requires
		k.original()
		s.lanes = append(s.lanes, &laneState{id: r.id.Bytes, key: &k, rank: r.rank, asked: asked})
		s.last, s.id = r.rank, r.id.Bytes
		v.turns[k.owner] = max(v.turns[k.owner], r.turn)
	}
	if l := s.lanes[len(s.lanes)-1]; r.n != nil {
		l.jobs = append(l.jobs, &candidate{job.ID(pg.Original(*r.job)), job.ID(pg.Original(*r.parent)), *r.n,
			*r.priority, *r.entered, *r.due})
	}
	return another
}

// leftOut returns the owners and groups whose lanes of a state are not read, because of limits and of holds that end by
// themselves; closed means that none are.
func (v *view) leftOut(t *terms, s *source) (owners, groups []string, closed bool) {
	o := omitted{owners: []string{}, groups: []string{}}
	for _, l := range t.limits[s.Kind] {
		any := laneKey{KindState: s.KindState, group: l.Group, owner: l.Owner}
		if l.Tag == "" && any.guards(&l.Limit) && !(l.PerGroup && l.PerOwner) {
			o.limit(l)
		}
	}
	for i := range v.holds {
		h := &v.holds[i]
		here := (h.Kind == "" || h.Kind == s.Kind) && (h.State == "" || h.State == s.State)
		marks := h.Until.IsZero() && h.Group+h.Owner != "" // its lanes are marked
		if here && !marks && h.On(t.now) && h.Tag == "" && h.Job == "" {
			o.hold(h)
		}
	}
	return o.owners, o.groups, o.closed
}

// omitted are the lanes of a state that are not read.
type omitted struct {
	owners, groups []string
	closed         bool // all lanes
}

// limit omits the lanes for which a limit of the state grants no claim.
func (o *omitted) limit(l *limit) {
	switch {
	case l.Max <= 0 && l.Group == "" && l.Owner == "":
		o.closed = true
	case l.PerOwner && l.Group == "" || !l.PerGroup && l.Owner != "" && l.Group == "":
		for s, n := range l.counts {
			if n >= l.Max && (l.Owner == "" || s.owner == l.Owner || !l.PerOwner) {
				o.owners = append(o.owners, pg.Stored(pick(l.PerOwner, s.owner, l.Owner)))
			}
		}
	case l.PerGroup && l.Owner == "" || !l.PerOwner && l.Group != "" && l.Owner == "":
		for s, n := range l.counts {
			if n >= l.Max && (l.Group == "" || s.group == l.Group || !l.PerGroup) {
				o.groups = append(o.groups, pg.Stored(pick(l.PerGroup, s.group, l.Group)))
			}
		}
	case l.Group == "" && l.Owner == "":
		o.closed = o.closed || l.counts[share{}] >= l.Max
	}
}

// hold omits the lanes of a hold of the state.
func (o *omitted) hold(h *job.Hold) {
	switch {
	case h.Group == "" && h.Owner == "":
		o.closed = true
	case h.Group == "":
		o.owners = append(o.owners, pg.Stored(h.Owner))
	case h.Owner == "":
		o.groups = append(o.groups, pg.Stored(h.Group))
	}
}

func pick[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}

// head returns the first job of a lane in an order that the claim may be granted, nil if there is none. It passes over
// jobs that were promoted for a claim or peek with a later time.
func (v *view) head(t *terms, l *laneState, o order) (*candidate, error) {
	_, fresh := v.fresh[l.id]
	fresh = fresh && v.fresh[l.id] == l
	for {
		var best *candidate
		for _, c := range l.jobs {
			worse := best != nil && !o.rank(c, 0).less(o.rank(best, 0))
			if !worse && !t.taken[c.id] && c.isDue(t.now) && (fresh || v.changed[c.id] == nil) &&
				l.key.held(v.holds, t.now, c) == nil {
				best = c
			}
		}
		if best != nil || fresh || len(l.jobs) < l.asked {
			return best, nil
		}
		if err := v.deepen(l, o); err != nil {
			return nil, err
		}
	}
}

const (
	selectMoreByTurn = `SELECT j.n, m.id, m.parent, j.priority, j.entered, j.due
FROM job_now j JOIN job_made m ON m.n = j.n
WHERE j.lane = $1 AND j.waits = 1 AND (j.priority, j.n) > ($2, $3) ORDER BY j.priority, j.n LIMIT $4`
	selectMoreByAge = `SELECT j.n, m.id, m.parent, j.priority, j.entered, j.due
FROM job_now j JOIN job_made m ON m.n = j.n
WHERE j.lane = $1 AND j.waits = 1 AND (j.entered, j.n) > ($2, $3) ORDER BY j.entered, j.n LIMIT $4`
)

// deepen reads more jobs of a lane: as many as it has, so that the jobs after many held ones are reached soon.
func (v *view) deepen(l *laneState, o order) error {
	last := l.jobs[len(l.jobs)-1]
	statement, from := selectMoreByTurn, last.priority
	if o == byAge {
		statement, from = selectMoreByAge, last.entered
	}
	n := len(l.jobs)
	l.asked += n
	rows, err := v.q.Query(v.ctx, statement, pgtype.UUID{Bytes: l.id, Valid: true}, from, last.n, n)
	if err != nil {
		return err
	}
	more, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (*candidate, error) {
		v.visits++
		c := new(candidate)
		err := row.Scan(&c.n, (*string)(&c.id), (*string)(&c.parent), &c.priority, &c.entered, &c.due)
		c.id, c.parent = job.ID(pg.Original(string(c.id))), job.ID(pg.Original(string(c.parent)))
		return c, err
	})
	l.jobs = append(l.jobs, more...)
	return err
}

// single reports whether a claim chooses among the jobs of one lane, so that turns do not matter.
func (v *view) single(t *terms) bool {
	n := 0
	for _, s := range v.sources {
		if n += len(s.lanes); !s.ended {
			return false
		}
	}
	for _, l := range v.fresh {
		n += number(t.fits(l.key))
	}
	return n <= 1
}
