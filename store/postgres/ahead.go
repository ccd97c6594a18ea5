package postgres

import (
	"maps"
	"math"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
)

// entering is a state in which jobs may be claimed.
type entering struct {
	job.KindState
	job   job.ID // that enters the state, of which the store may remember kind and owner
	owner string // of a new job
	n     int    // how many jobs may be claimed
}

// The first lanes of several sources, as selectByTurn and selectByAge read them, with the number of the source.
const (
	selectManyByTurn = `SELECT v.i, ` + laneColumns + manyLanes + `ORDER BY priority, turn, first, id LIMIT $5) l
LEFT JOIN turn t ON t.owner = l.owner
LEFT JOIN LATERAL (SELECT j.n, m.id, m.parent, j.priority, j.entered, j.due FROM job_now j JOIN job_made m ON m.n = j.n
  WHERE j.lane = l.id AND j.waits = 1 AND (j.priority, j.n) >= (l.priority, l.first)
  ORDER BY j.priority, j.n LIMIT $6) h ON true
ORDER BY v.i, l.priority, l.turn, l.first, l.id, h.priority, h.n`
	selectManyByAge = `SELECT v.i, ` + laneColumnsByAge + manyLanes + `ORDER BY entered, eldest, id LIMIT $5) l
LEFT JOIN turn t ON t.owner = l.owner
LEFT JOIN LATERAL (SELECT j.n, m.id, m.parent, j.priority, j.entered, j.due FROM job_now j JOIN job_made m ON m.n = j.n
  WHERE j.lane = l.id AND j.waits = 1 AND (j.entered, j.n) >= (l.entered, l.eldest)
  ORDER BY j.entered, j.n LIMIT $6) h ON true
ORDER BY v.i, l.entered, l.eldest, l.id, h.entered, h.n`

	manyLanes = `
FROM unnest($1::text[], $2::text[], $3::text[], $4::boolean[])
  WITH ORDINALITY AS v (kind, state, requires, suspect, i)
CROSS JOIN LATERAL (SELECT * FROM lane WHERE kind = v.kind AND state = v.state AND requires = v.requires AND
  suspect = v.suspect AND waiting AND NOT held `
)

// readAhead reads what claims of the operations need, as far as no limit decides that, in the same round trip as their
// records. What it leaves out is read when a claim needs it.
func (b *batch) readAhead(p *pgx.Batch, ops []*operation) {
	owners, jobs, index := map[string]bool{}, fewJobs, map[job.KindState]int{}
	var all []job.KindState
	for _, o := range ops {
		for _, at := range o.entering {
			if at.job != "" {
				of := b.s.recent.get(at.job)
				if of == nil {
					continue
				}
				at.Kind, at.owner = of.job.Kind, of.job.Owner
			}
			if at.owner != "" {
				owners[at.owner] = true
			}
			if jobs = max(jobs, min(at.n+1, mostJobs)); index[at.KindState] == 0 {
				all = append(all, at.KindState)
				index[at.KindState] = len(all)
			}
		}
	}
	if len(all) == 0 {
		return
	}
	var sources []*source
	for _, state := range all {
		for _, suspect := range []bool{false, true} {
			sources = append(sources, newSource(sourceKey{state, "", suspect, byTurn}))
		}
	}
	b.queueMany(p, sources, jobs)
	if len(owners) > 0 {
		names := slices.Sorted(maps.Keys(owners))
		p.Queue(selectTurns, storedAll(names)).Query(func(rows pgx.Rows) error { return b.setTurns(rows, names) })
	}
}

// queueMany adds a statement that reads the first lanes of sources of one order, and some jobs of each lane.
func (v *view) queueMany(p *pgx.Batch, of []*source, jobs int) {
	statement := selectManyByTurn
	if of[0].order == byAge {
		statement = selectManyByAge
	}
	suspects := make([]bool, len(of))
	for i, s := range of {
		suspects[i] = s.suspect
	}
	p.Queue(statement, values(of, func(s **source) string { return pg.Stored(string((*s).Kind)) }),
		values(of, func(s **source) string { return pg.Stored(string((*s).State)) }),
		values(of, func(s **source) string { return (*s).requires }), suspects, firstLanes, jobs).Query(
		func(rows pgx.Rows) error {
			_, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (bool, error) {
				var i int
				var r laneRow
				if err := r.scan(row, &i); err != nil {
					return false, err
				}
				return v.addLane(of[i-1], &r, jobs), nil
			})
			for _, s := range of {
				s.ended = len(s.lanes) < firstLanes
				v.sources[s.sourceKey] = s // now: what reads the holds before clears them
			}
			return err
		})
}

// newSource returns a source that has read nothing.
func newSource(key sourceKey) *source {
	return &source{sourceKey: key, last: rank{math.MinInt64, 0, 0}}
}
