package postgres

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/rules"
	"github.com/stagepost/stagepost/store/internal/sizes"
)

// final is a job as the transaction leaves it, with what is written for it.
type final struct {
	before *record // nil: it is new
	after  record
	events []entry
	tasks  map[string]job.Task
	at     int // index of its last write
}

// outcome is what a transaction writes about jobs.
type outcome struct {
	jobs   map[job.ID]*final
	purged []*record
}

// outcome sums up the writes of each job.
func (b *batch) outcome() *outcome {
	o := &outcome{jobs: make(map[job.ID]*final, len(b.writes.Jobs))}
	for i, w := range b.writes.Jobs {
		if w.After == nil {
			f := o.jobs[w.Before.ID]
			if r := b.rows[w.Before.ID]; f == nil || f.before != nil {
				o.purged = append(o.purged, r)
			}
			delete(o.jobs, w.Before.ID)
			continue
		}
		f := o.jobs[w.After.ID]
		if f == nil {
			f = new(final)
			if w.Before != nil {
				f.before = b.rows[w.After.ID]
			}
			o.jobs[w.After.ID] = f
		}
		c := b.changed[w.After.ID]
		f.after.job, f.at, f.after.n, f.after.lane = *w.After, i, c.n, c.lane
		if w.Event != nil {
			f.events = append(f.events, entry{n: c.n, event: w.Event})
		}
		for _, t := range w.Tasks {
			if f.tasks == nil {
				f.tasks = map[string]job.Task{}
			}
			f.tasks[t.Name] = t
		}
	}
	for id, f := range o.jobs {
		if f.before != nil {
			f.after.crowd = f.before.crowd
		} else {
			f.after.crowd = b.crowds[id]
		}
		f.after.waits = waits(&f.after.job)
	}
	return o
}

// waits returns what a job waits for. A job with a time waits for that even if it has passed: a claim finds out.
func waits(j *job.Job) int64 {
	switch {
	case j.Ended || j.Claimed():
		return waitsNot
	case !j.Due.IsZero():
		return waitsDue
	}
	return waitsTurn
}

// ordered returns the jobs in the order of their rows.
func (o *outcome) ordered() []*final {
	return slices.SortedFunc(maps.Values(o.jobs), func(a, b *final) int { return cmp.Compare(a.after.n, b.after.n) })
}

// flush writes everything and commits.
func (b *batch) flush(seq int64) error {
	var p pgx.Batch
	var s statement
	o := b.outcome()
	b.result = o
	list := o.ordered()
	entered := b.lanes(list)
	b.raise()
	if b.assumed != nil {
		b.beginAssumed(&p, seq)
		b.checkAssumed(&s)
	}
	b.checkTrusted(&p, o)
	b.writePurged(&p, o.purged)
	b.writeJobs(&s, &p, list)
	b.writeTallies(&s, o)
	s.queue(&p)
	b.writeMessages(&p)
	insertRows(&p, &audits, pointers(b.writes.Audits))
	b.writeHolds(&p)
	b.writeGiven(&p)
	b.writeClock(&p)
	b.writeTurns(&p)
	b.enterLanes(&p, entered)
	b.holdLanes(&p)
	b.raiseLanes(&p)
	b.markLanes(&p)
	b.s.scanned(&p, 1)
	p.Queue("COMMIT")
	return b.conn.SendBatch(b.ctx, &p).Close()
}

func insertRows[T any](p *pgx.Batch, t *table[T], rows []*T) {
	if len(rows) > 0 {
		p.Queue(t.insert(), t.args(rows)...)
	}
}

func (b *batch) writePurged(p *pgx.Batch, purged []*record) {
	if len(purged) == 0 {
		return
	}
	var rows []int64
	var ids []string
	for _, r := range purged {
		rows, ids = append(rows, r.n), append(ids, pg.Stored(string(r.job.ID)))
	}
	for _, of := range []string{"job_made WHERE n", "job_now WHERE n", "event WHERE job", "task WHERE job"} {
		p.Queue("DELETE FROM "+of+" = ANY ($1)", rows)
	}
	p.Queue(removeTags, tagRows(purged)...)
	queueWords(p, removeWords, purged)
	p.Queue("DELETE FROM message WHERE job = ANY ($1)", ids)
}

const removeTags = `DELETE FROM job_tag t USING unnest($1::bigint[], $2::text[]) AS v (n, tag)
 WHERE t.tag = v.tag AND t.n = v.n`

// tagRows are the rows of the tags of records, as two arguments.
func tagRows(of []*record) []any {
	rows, tags := []int64{}, []string{}
	for _, r := range of {
		for _, t := range slices.Compact(slices.Clone(r.job.Tags)) {
			rows, tags = append(rows, r.n), append(tags, pg.Stored(t))
		}
	}
	return []any{rows, tags}
}

func (b *batch) writeJobs(s *statement, p *pgx.Batch, list []*final) {
	var added, changed, transited []*record
	var before [2][]*record // of changed and transited
	entries := make([]*entry, 0, len(list))
	var work []*taskOf
	var untagged, tagged, had, has []*record // the last two: before and after new words
	for _, f := range list {
		switch {
		case f.before == nil:
			added = append(added, &f.after)
		case f.before.stays(&f.after):
			transited, before[1] = append(transited, &f.after), append(before[1], f.before)
		default:
			changed, before[0] = append(changed, &f.after), append(before[0], f.before)
		}
		if f.before == nil || !slices.Equal(f.before.job.Tags, f.after.job.Tags) {
			tagged = append(tagged, &f.after)
			if f.before != nil {
				untagged = append(untagged, f.before)
			}
		}
		if f.before != nil && f.before.job.Words != f.after.job.Words {
			had, has = append(had, f.before), append(has, &f.after)
		}
		for i := range f.events {
			entries = append(entries, &f.events[i])
		}
		for _, t := range f.tasks {
			work = append(work, &taskOf{f.after.n, t})
		}
	}
	b.writeMade(s, p, added)
	insertInto(s, &now, added)
	update(s, &now, changed, versions(before[0]))
	update(s, &transition, transited, versions(before[1]))
	insertInto(s, &events, entries)
	if len(work) > 0 {
		p.Queue(putTasks, tasks.args(work)...)
	}
	if args := tagRows(untagged); len(args[0].([]int64)) > 0 {
		p.Queue(removeTags, args...)
	}
	if args := tagRows(tagged); len(args[0].([]int64)) > 0 {
		p.Queue("INSERT INTO job_tag (n, tag) SELECT DISTINCT * FROM unnest($1::bigint[], $2::text[])", args...)
	}
	b.writeWords(p, had, has)
}

var (
	putTasks    = tasks.put("job, name")
	putMessages = messages.put("key")
)

// writeMessages writes each message once, as it is after the last write.
func (b *batch) writeMessages(p *pgx.Batch) {
	last := map[string]int{}
	for i := range b.writes.Messages {
		last[b.writes.Messages[i].Key] = i
	}
	var rows []job.Message
	for i := range b.writes.Messages {
		if m := &b.writes.Messages[i]; last[m.Key] == i && !b.purges(m) {
			rows = append(rows, *m)
		}
	}
	if len(rows) > 0 {
		p.Queue(putMessages, messages.args(pointers(rows))...)
	}
}

// purges reports whether the job of a message was purged after the message was settled, by an operation of the same
// transaction.
func (b *batch) purges(m *job.Message) bool {
	c, known := b.changed[m.Job]
	return known && c.purged && m.Settled != job.Pending
}

func (b *batch) writeHolds(p *pgx.Batch) {
	w := b.writes
	if len(w.Put)+len(w.Released) == 0 {
		return
	}
	gone := make([]job.Hold, 0, len(w.Put)+len(w.Released))
	gone = append(gone, w.Put...)
	for _, s := range w.Released {
		gone = append(gone, job.Hold{Scope: s})
	}
	scope := holds.columns[:6]
	args := make([]any, len(scope))
	for i := range scope {
		args[i] = scope[i].args(pointers(gone))
	}
	p.Queue(`DELETE FROM hold h USING unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[])
 AS v (kind, state, grp, owner, tag, job) WHERE (h.kind, h.state, h.grp, h.owner, h.tag, h.job) =
 (v.kind, v.state, v.grp, v.owner, v.tag, v.job)`, args...)
	insertRows(p, &holds, slices.DeleteFunc(pointers(w.Holds), func(h *job.Hold) bool {
		return !slices.ContainsFunc(gone, func(g job.Hold) bool { return g.Scope == h.Scope })
	}))
}

// counter is a row of the table given.
type counter struct {
	name string
	n    int64
	hash []byte
}

func byCounter(a, b counter) int { return cmp.Compare(a.name, b.name) }

// raise finds out which counters the transaction raises.
func (b *batch) raise() {
	k, c := &b.known, b.writes.Counters
	var all []counter
	last := map[job.Kind]rules.KindNumber{}
	for _, n := range b.writes.Numbers() { // of each kind several, if several operations created jobs
		last[n.Kind] = n
	}
	for _, n := range last {
		all = append(all, counter{countNumbers + pg.Stored(string(n.Kind)), n.Number, []byte{}})
	}
	if len(b.news) > 0 {
		all = append(all, counter{countRows, b.row, []byte{}})
	}
	if c.Posted != k.Posted {
		all = append(all, counter{countMessages, c.Posted, []byte{}})
	}
	if c.Audits != k.Audits {
		all = append(all, counter{countAudit, c.Audits, bytes.Clone(c.Sealed[:])})
	}
	b.higher = all
}

// writeGiven writes the counters, which are locked, unless [batch.beginAssumed] did.
func (b *batch) writeGiven(p *pgx.Batch) {
	if len(b.higher) == 0 || b.assumed != nil {
		return
	}
	p.Queue(`UPDATE given g SET n = v.n, hash = v.hash
 FROM unnest($1::text[], $2::bigint[], $3::bytea[]) AS v (what, n, hash) WHERE g.what = v.what`,
		values(b.higher, func(c *counter) string { return c.name }),
		values(b.higher, func(c *counter) int64 { return c.n }),
		values(b.higher, func(c *counter) []byte { return c.hash }))
}

func (b *batch) writeClock(p *pgx.Batch) {
	if k := b.kept; k != nil {
		p.Queue(putClock, micro(k.Trusted), micro(k.Latest), micro(k.Confirmed))
	}
}

const putClock = `INSERT INTO clock VALUES (1, $1, $2, $3) ON CONFLICT (one) DO UPDATE SET
 (trusted, latest, confirmed) = ROW (excluded.trusted, excluded.latest, excluded.confirmed)`

// tallied are the counts of a kind, state and group.
type tallied struct {
	kind, state, group  string // as stored
	slot, jobs, claimed int64
	amount              sizes.Sum
}

var tallies = table[tallied]{"tally", "tally_row", false, []column[tallied]{
	{name: "kind", plain: func(t *tallied) string { return t.kind }},
	{name: "state", plain: func(t *tallied) string { return t.state }},
	{name: "grp", plain: func(t *tallied) string { return t.group }},
	{name: "slot", int: func(t *tallied) int64 { return t.slot }},
	{name: "jobs", int: func(t *tallied) int64 { return t.jobs }},
	{name: "claimed", int: func(t *tallied) int64 { return t.claimed }},
	{name: "bytes", plain: func(t *tallied) string { return t.amount.Big().String() }},
}}

func (b *batch) writeTallies(s *statement, o *outcome) {
	sums := map[[3]string]*tallied{}
	add := func(j *job.Job, n int64) {
		key := [3]string{pg.Stored(string(j.Kind)), pg.Stored(string(j.State)), pg.Stored(j.Group)}
		t := sums[key]
		if t == nil {
			t = &tallied{kind: key[0], state: key[1], group: key[2], slot: int64(b.s.slot)}
			sums[key] = t
		}
		t.jobs += n
		t.amount.Add(n * j.Bytes)
		if j.Claimed() {
			t.claimed += n
		}
	}
	for _, r := range o.purged {
		add(&r.job, -1)
	}
	for _, f := range o.jobs {
		if f.before != nil {
			add(&f.before.job, -1)
		}
		add(&f.after.job, 1)
	}
	var rows []*tallied
	for _, t := range sums {
		if t.jobs != 0 || t.claimed != 0 || t.amount != (sizes.Sum{}) {
			rows = append(rows, t)
		}
	}
	if len(rows) == 0 {
		return
	}
	slices.SortFunc(rows, func(a, b *tallied) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.state, b.state), cmp.Compare(a.group, b.group))
	})
	s.part(`INSERT INTO tally AS t (kind, state, grp, slot, jobs, claimed, bytes)
 SELECT v.kind, v.state, v.grp, v.slot, v.jobs, v.claimed, v.bytes::numeric FROM unnest(` +
		s.param(array[tallied]{t: &tallies, rows: rows}) + `::tally_row[]) AS v
 ON CONFLICT (kind, state, grp, slot) DO UPDATE SET jobs = t.jobs + excluded.jobs,
  claimed = t.claimed + excluded.claimed, bytes = t.bytes + excluded.bytes`)
}

func (b *batch) writeTurns(p *pgx.Batch) {
	if len(b.granted) == 0 {
		return
	}
	owners := slices.Sorted(maps.Keys(b.granted))
	p.Queue(`INSERT INTO turn AS t (owner, at) SELECT * FROM unnest($1::text[], $2::bigint[])
 ON CONFLICT (owner) DO UPDATE SET at = greatest(t.at, excluded.at)`, storedAll(owners),
		values(owners, func(o *string) int64 { return b.turns[*o] }))
}

// hints are those of the jobs that were changed, with their records, in the order of the last write of each, one of the
// holds that were released, and one of each hold that ends by itself.
func (b *batch) hints() []job.Hint {
	all := make([]job.Hint, 0, len(b.writes.Jobs)+1)
	for i, w := range b.writes.Jobs {
		if w.After == nil {
			continue
		}
		if f := b.result.jobs[w.After.ID]; f != nil && f.at == i {
			all = append(all, job.HintOf(w.After))
		}
	}
	if len(b.writes.Released) > 0 {
		all = append(all, job.Hint{Released: true})
	}
	for i := range b.writes.Put {
		if until := b.writes.Put[i].Until; !until.IsZero() {
			all = append(all, job.Hint{Until: until})
		}
	}
	return all
}
