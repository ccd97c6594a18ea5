package postgres

import (
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
)

// enteredLane is a lane that jobs have entered, with the lowest keys of those.
type enteredLane struct {
	id             laneID
	key            *laneKey // nil: the lane exists
	waiting        bool
	priority, n    int64
	entered, elder int64
}

// enter adds a job to the lanes that were entered; c is nil if it cannot be claimed now.
func enter(all map[laneID]*enteredLane, id laneID, key *laneKey, c *candidate) {
	l := all[id]
	if l == nil {
		l = &enteredLane{id: id}
		all[id] = l
	}
	if key != nil {
		l.key = key
	}
	if c == nil {
		return
	}
	if !l.waiting || c.priority < l.priority || c.priority == l.priority && c.n < l.n {
		l.priority, l.n = c.priority, c.n
	}
	if !l.waiting || c.entered < l.entered || c.entered == l.entered && c.n < l.elder {
		l.entered, l.elder = c.entered, c.n
	}
	l.waiting = true
}

// enter notes the lane that a job has entered, or in which it can be claimed now.
func (f *final) enter(all map[laneID]*enteredLane) {
	r := &f.after
	if r.lane == (laneID{}) {
		return
	}
	same := f.before != nil && f.before.lane == r.lane
	var c *candidate
	if r.waits == waitsTurn {
		now := newChanged(&r.job, r.n, r.crowd, r.job.Changed).candidate
		if same && f.before.waits == waitsTurn && f.before.job.Priority <= r.job.Priority &&
			!r.job.Entered.Before(f.before.job.Entered) {
			return
		}
		c = &now
	}
	if c != nil || !same {
		enter(all, r.lane, laneOf(&r.job, r.crowd), c)
	}
}

// lanes returns the lanes that jobs have entered, without those of which a transaction assumes that they exist, if that
// is enough.
func (b *batch) lanes(list []*final) map[laneID]*enteredLane {
	all := map[laneID]*enteredLane{}
	for _, f := range list {
		f.enter(all)
	}
	for id, l := range all {
		b.entered = append(b.entered, id)
		if b.assumed != nil && !l.waiting && b.s.memory.lanes[id] {
			b.assumed.lanes = append(b.assumed.lanes, id)
			delete(all, id)
		}
	}
	return all
}

const (
	shareLanes = "SELECT pg_advisory_xact_lock_shared($1, b) FROM unnest($2::int[]) b"
	putLanes   = `INSERT INTO lane (id, kind, state, grp, owner, tags, crowd, suspect, waiting, priority, turn, first,
  entered, eldest, requires)
SELECT v.id, v.kind, v.state, v.grp, v.owner, v.tags, v.crowd, v.suspect, v.waiting, v.priority, coalesce(t.at, 0),
  v.first, v.entered, v.eldest, v.requires
FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bool[], $9::bool[],
  $10::text[], $11::bigint[], $12::bigint[], $13::bigint[], $14::bigint[])
  AS v (id, kind, state, grp, owner, tags, crowd, suspect, waiting, requires, priority, first, entered, eldest)
LEFT JOIN turn t ON t.owner = v.owner
WHERE NOT EXISTS (SELECT FROM lane l WHERE l.id = v.id AND (NOT v.waiting OR l.waiting AND
  (l.priority, l.first) <= (v.priority, v.first) AND (l.entered, l.eldest) <= (v.entered, v.eldest)))
ORDER BY v.id
ON CONFLICT (id) DO UPDATE SET waiting = lane.waiting OR excluded.waiting,
 turn = CASE WHEN excluded.waiting THEN greatest(lane.turn, excluded.turn) ELSE lane.turn END,
 first = CASE WHEN NOT excluded.waiting THEN lane.first
  WHEN NOT lane.waiting OR excluded.priority < lane.priority THEN excluded.first
  WHEN excluded.priority = lane.priority THEN least(lane.first, excluded.first) ELSE lane.first END,
 priority = CASE WHEN NOT excluded.waiting THEN lane.priority
  WHEN NOT lane.waiting THEN excluded.priority ELSE least(lane.priority, excluded.priority) END,
 eldest = CASE WHEN NOT excluded.waiting THEN lane.eldest
  WHEN NOT lane.waiting OR excluded.entered < lane.entered THEN excluded.eldest
  WHEN excluded.entered = lane.entered THEN least(lane.eldest, excluded.eldest) ELSE lane.eldest END,
 entered = CASE WHEN NOT excluded.waiting THEN lane.entered
  WHEN NOT lane.waiting THEN excluded.entered ELSE least(lane.entered, excluded.entered) END`
	lowerLanes = `UPDATE lane l SET turn = CASE WHEN l.waiting THEN l.turn ELSE 0 END,
 first = CASE WHEN NOT l.waiting OR v.priority < l.priority THEN v.first
  WHEN v.priority = l.priority THEN least(l.first, v.first) ELSE l.first END,
 priority = CASE WHEN NOT l.waiting THEN v.priority ELSE least(l.priority, v.priority) END,
 eldest = CASE WHEN NOT l.waiting OR v.entered < l.entered THEN v.eldest
  WHEN v.entered = l.entered THEN least(l.eldest, v.eldest) ELSE l.eldest END,
 entered = CASE WHEN NOT l.waiting THEN v.entered ELSE least(l.entered, v.entered) END, waiting = true
FROM (SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[])
  AS u (id, priority, first, entered, eldest) ORDER BY id) v
WHERE l.id = v.id`
)

// enterLanes adds lanes and lowers their keys, under the shared locks of their buckets: no transaction raises keys
// meanwhile.
func (b *batch) enterLanes(p *pgx.Batch, entered map[laneID]*enteredLane) {
	if len(entered) == 0 {
		return
	}
	buckets := map[int32]bool{}
	var put, lower []enteredLane
	for id, l := range entered {
		buckets[id.bucket()] = true
		if l.key == nil {
			lower = append(lower, *l)
		} else {
			put = append(put, *l)
		}
	}
	p.Queue(shareLanes, int32(lockLanes), slices.Sorted(maps.Keys(buckets)))
	ids := func(l *enteredLane) pgtype.UUID { return l.id.uuid() }
	keys := func(rows []enteredLane) []any {
		return []any{values(rows, func(l *enteredLane) int64 { return l.priority }),
			values(rows, func(l *enteredLane) int64 { return l.n }),
			values(rows, func(l *enteredLane) int64 { return l.entered }),
			values(rows, func(l *enteredLane) int64 { return l.elder })}
	}
	if len(lower) > 0 {
		p.Queue(lowerLanes, append([]any{values(lower, ids)}, keys(lower)...)...)
	}
	if len(put) == 0 {
		return
	}
	args := []any{values(put, ids), values(put, func(l *enteredLane) string { return pg.Stored(string(l.key.Kind)) }),
		values(put, func(l *enteredLane) string { return pg.Stored(string(l.key.State)) }),
		values(put, func(l *enteredLane) string { return pg.Stored(l.key.group) }),
		values(put, func(l *enteredLane) string { return pg.Stored(l.key.owner) }),
		values(put, func(l *enteredLane) string { return l.key.tags }),
		values(put, func(l *enteredLane) string { return pg.Stored(string(l.key.crowd)) }),
		values(put, func(l *enteredLane) bool { return l.key.suspect }),
		values(put, func(l *enteredLane) bool { return l.waiting }),
		values(put, func(l *enteredLane) string { return l.key.requires })}
	p.Queue(putLanes, append(args, keys(put)...)...)
}

// markLanes marks the lanes that were read and are held, so that they are not read again. It is done under the lock of
// the holds, and waits for nothing. A hold that ends by itself marks none.
func (b *batch) markLanes(p *pgx.Batch) {
	endless := slices.DeleteFunc(slices.Clone(b.view.holds), func(h job.Hold) bool { return !h.Until.IsZero() })
	if len(endless) == 0 {
		return
	}
	var ids []laneID
	for _, s := range b.sources {
		for _, l := range s.lanes {
			if l.key.held(endless, b.clock, nil) != nil {
				ids = append(ids, l.id)
			}
		}
	}
	if len(ids) > 0 {
		p.Queue(`UPDATE lane SET held = true WHERE id = ANY (ARRAY (SELECT id FROM lane WHERE id = ANY ($1)
 FOR UPDATE SKIP LOCKED))`, values(ids, func(id *laneID) pgtype.UUID { return pgtype.UUID{Bytes: *id, Valid: true} }))
	}
}

// holdLanes marks the lanes of new holds, and no others any more if a hold was released or replaced.
func (b *batch) holdLanes(p *pgx.Batch) {
	w := b.writes
	ends := len(w.Released) > 0
	for i := range w.Put {
		ends = ends || slices.ContainsFunc(b.known.Holds, func(h job.Hold) bool { return h.Scope == w.Put[i].Scope })
	}
	if ends {
		p.Queue("UPDATE lane SET held = false WHERE held")
	}
	for i := range w.Holds {
		h := &w.Holds[i]
		added := slices.ContainsFunc(w.Put, func(put job.Hold) bool { return put.Scope == h.Scope })
		if added && h.Until.IsZero() && h.Tag == "" && h.Job == "" && h.Group+h.Owner != "" {
			p.Queue(`UPDATE lane SET held = true WHERE waiting AND NOT held AND ($1 = '' OR kind = $1) AND
 ($2 = '' OR state = $2) AND ($3 = '' OR grp = $3) AND ($4 = '' OR owner = $4)`, pg.Stored(string(h.Kind)),
				pg.Stored(string(h.State)), pg.Stored(h.Group), pg.Stored(h.Owner))
		}
	}
}

// raiseLanes raises the keys of lanes whose first jobs are gone, unless another transaction changes lanes of their
// buckets: the keys are lower bounds, and may stay. Two statements, because the second one must see all jobs that
// were committed before the locks were taken.
func (b *batch) raiseLanes(p *pgx.Batch) {
	lanes := b.raised()
	if len(lanes) == 0 {
		return
	}
	buckets := map[int32]bool{}
	for _, id := range lanes {
		buckets[id.bucket()] = true
	}
	p.Queue(`SELECT set_config('stagepost.buckets', coalesce((SELECT string_agg(b::text, ',') FROM unnest($2::int[]) b
 WHERE pg_try_advisory_xact_lock($1, b)), ''), true)`, int32(lockLanes), slices.Sorted(maps.Keys(buckets)))
	p.Queue(`UPDATE lane l SET waiting = h.n IS NOT NULL, priority = coalesce(h.priority, l.priority),
 first = coalesce(h.n, l.first), turn = coalesce(t.at, l.turn), entered = coalesce(e.entered, l.entered),
 eldest = coalesce(e.n, l.eldest)
FROM unnest($1::uuid[], $2::int[]) AS v (id, bucket) JOIN lane k ON k.id = v.id
LEFT JOIN turn t ON t.owner = k.owner
LEFT JOIN LATERAL (SELECT priority, n FROM job_now j WHERE lane = v.id AND waits = 1 AND
  (j.priority, j.n) >= (k.priority, k.first) ORDER BY priority, n LIMIT 1) h ON true
LEFT JOIN LATERAL (SELECT entered, n FROM job_now j WHERE lane = v.id AND waits = 1 AND
  (j.entered, j.n) >= (k.entered, k.eldest) ORDER BY entered, n LIMIT 1) e ON true
WHERE l.id = v.id AND v.bucket = ANY (string_to_array(current_setting('stagepost.buckets'), ',')::int[])`,
		values(lanes, func(id *laneID) pgtype.UUID { return pgtype.UUID{Bytes: *id, Valid: true} }),
		values(lanes, func(id *laneID) int32 { return id.bucket() }))
}
