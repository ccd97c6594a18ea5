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

// selectAhead reads the first lanes of several states as selectByTurn does, with the number of the state: those of jobs
// that require no labels.
const selectAhead = `SELECT v.i, s.suspect, ` + laneColumns + `
FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS v (kind, state, i)
CROSS JOIN unnest(ARRAY[false, true]) AS s (suspect)
CROSS JOIN LATERAL (SELECT * FROM lane WHERE kind = v.kind AND state = v.state AND requires = '' AND
  suspect = s.suspect AND waiting AND NOT held ORDER BY priority, turn, first, id LIMIT $3) l
LEFT JOIN turn t ON t.owner = l.owner
LEFT JOIN LATERAL (SELECT j.n, m.id, m.parent, j.priority, j.entered FROM job_now j JOIN job_made m ON m.n = j.n
  WHERE j.lane = l.id AND j.waits = 1 AND (j.priority, j.n) >= (l.priority, l.first)
  ORDER BY j.priority, j.n LIMIT $4) h ON true
ORDER BY v.i, s.suspect, l.priority, l.turn, l.first, l.id, h.priority, h.n`

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
	p.Queue(selectAhead, values(all, func(k *job.KindState) string { return pg.Stored(string(k.Kind)) }),
		values(all, func(k *job.KindState) string { return pg.Stored(string(k.State)) }), firstLanes, jobs).Query(
		func(rows pgx.Rows) error { return b.setAhead(rows, all, jobs) })
	if len(owners) > 0 {
		names := slices.Sorted(maps.Keys(owners))
		p.Queue(selectTurns, storedAll(names)).Query(func(rows pgx.Rows) error { return b.setTurns(rows, names) })
	}
}

// setAhead makes the view use the lanes that were read ahead.
func (v *view) setAhead(rows pgx.Rows, of []job.KindState, asked int) error {
	for _, state := range of {
		for _, suspect := range []bool{false, true} {
			s := newSource(sourceKey{state, "", suspect, byTurn})
			s.ended = true
			v.sources[s.sourceKey] = s
		}
	}
	_, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (bool, error) {
		var i int
		var suspect bool
		var r laneRow
		if err := r.scan(row, &i, &suspect); err != nil {
			return false, err
		}
		s := v.sources[sourceKey{of[i-1], "", suspect, byTurn}]
		v.addLane(s, &r, asked)
		s.ended = len(s.lanes) < firstLanes
		return true, nil
	})
	return err
}

// newSource returns a source that has read nothing.
func newSource(key sourceKey) *source {
	return &source{sourceKey: key, last: rank{math.MinInt64, 0, 0}}
}
