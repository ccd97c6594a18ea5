package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/internal/transfer"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/rules"
)

// content is the store as a migration reads and writes it.
type content struct{ s *Store }

// Content returns the content of the store for a migration to another kind of store, or from one. The store is opened
// with [Options].Migrates.
func (s *Store) Content() transfer.Target { return content{s} }

// Rows is part of transfer.Source.
func (c content) Rows(ctx context.Context) (n transfer.Rows, err error) {
	err = c.s.read(ctx, "count", "", func(r *reader) error {
		return r.q.QueryRow(r.ctx, `SELECT (SELECT count(*) FROM job_made), (SELECT count(*) FROM event),
 (SELECT count(*) FROM task), (SELECT count(*) FROM message), (SELECT count(*) FROM audit), (SELECT count(*) FROM hold)`).
			Scan(&n.Jobs, &n.Entries, &n.Tasks, &n.Messages, &n.Audits, &n.Holds)
	})
	return n, err
}

// pageJobs and pageRows bound the jobs of a page, and the entries of their histories. A job with a longer history is a
// page of its own.
const (
	pageJobs = 200
	pageRows = 20_000
)

// Jobs is part of transfer.Source.
func (c content) Jobs(ctx context.Context, after int64) (page []transfer.Job, err error) {
	err = c.s.read(ctx, "copy", "", func(r *reader) (err error) {
		page, err = r.jobs(after)
		return err
	})
	return page, err
}

// jobs reads a page of jobs by four statements.
func (r *reader) jobs(after int64) (page []transfer.Job, err error) {
	list, err := r.page(after)
	if err != nil {
		return nil, err
	}
	counts, err := r.countTasks(list)
	if err != nil {
		return nil, err
	}
	list = together(list, func(one *record) int64 { return counts[one.n] })
	histories, err := r.histories(list)
	if err != nil {
		return nil, err
	}
	tasks, err := r.tasksOf(list)
	for _, one := range list {
		page = append(page, transfer.Job{Row: one.n, Record: one.job, History: histories[one.n].events,
			Tasks: tasks[one.n]})
	}
	return page, err
}

// countTasks counts the tasks of records, by their rows.
func (r *reader) countTasks(of []*record) (map[int64]int64, error) {
	rows, err := r.q.Query(r.ctx, "SELECT job, count(*) FROM task WHERE job = ANY ($1) GROUP BY job", rowsOf(of))
	if err != nil {
		return nil, err
	}
	counts := map[int64]int64{}
	var row, n int64
	_, err = pgx.ForEachRow(rows, []any{&row, &n}, func() error {
		counts[row] = n
		return nil
	})
	return counts, err
}

// Messages is part of transfer.Source.
func (c content) Messages(ctx context.Context, after int64, n int) (list []job.Message, err error) {
	err = c.s.read(ctx, "copy", "", func(r *reader) error {
		list, err = all(r, scanMessage, selectMessage+"WHERE m > $1 ORDER BY m LIMIT $2", after, n)
		return err
	})
	return list, err
}

// Audit is part of transfer.Source.
func (c content) Audit(ctx context.Context, after int64, n int) ([]job.Audit, error) {
	return c.s.Audit(ctx, after, n)
}

// Holds is part of transfer.Source.
func (c content) Holds(ctx context.Context) ([]job.Hold, error) { return c.s.Holds(ctx) }

// Once is part of transfer.Source.
func (c content) Once(ctx context.Context) (o transfer.Once, err error) {
	if o.Clock, err = c.s.KeptClock(ctx); err != nil {
		return o, err
	}
	err = c.s.read(ctx, "copy", "", func(r *reader) error {
		o.Numbers = map[job.Kind]int64{}
		if err := r.q.QueryRow(r.ctx, "SELECT id FROM installation").Scan(&o.Installation); err != nil {
			return err
		}
		b := batch{}
		b.known.Numbers = o.Numbers
		rows, err := r.q.Query(r.ctx, "SELECT what, n, hash FROM given")
		if err != nil {
			return err
		}
		var g counter
		_, err = pgx.ForEachRow(rows, []any{&g.name, &g.n, &g.hash}, func() error {
			b.count(g.name, g.n, g.hash)
			return nil
		})
		k := b.known.Counters
		o.Posted, o.Audits, o.Sealed = k.Posted, k.Audits, k.Sealed
		return err
	})
	return o, err
}

// Clear is part of transfer.Target.
func (c content) Clear(ctx context.Context) error {
	return c.s.exclusively(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `TRUNCATE job_made, job_now, job_tag, job_word, event, task, hold, message, audit, given, tally, lane,
 turn, clock`)
		return err
	})
}

// Put is part of transfer.Target. The rows are written as those of operations are, with all that follows from them.
func (c content) Put(ctx context.Context, p *transfer.Part) error {
	if err := c.s.stillAlone(ctx); err != nil {
		return wrapped("migrate", err)
	}
	o := &operation{needs: func(n *rules.Needs) { needParents(n, p.Jobs) }}
	if len(p.Holds) > 0 {
		o.holds = exclusive
	}
	o.apply = func(b *batch) error {
		w := b.writes
		w.Messages = append(w.Messages, p.Messages...)
		w.Audits = append(w.Audits, p.Audit...)
		w.Put = append(w.Put, p.Holds...)
		w.Holds = append(slices.Clone(w.Holds), p.Holds...)
		for i := range p.Jobs {
			if err := b.putWhole(&p.Jobs[i]); err != nil {
				return err
			}
		}
		return nil
	}
	return c.s.do(ctx, "migrate", o)
}

// needParents adds the parents, whose number of jobs decides about lanes, and the counter of rows.
func needParents(n *rules.Needs, jobs []transfer.Job) {
	for i := range jobs {
		j := &jobs[i].Record
		n.Numbers = append(n.Numbers, j.Kind)
		if j.Parent != "" {
			n.Jobs = append(n.Jobs, j.Parent)
		}
	}
}

// putWhole adds a job with its history and tasks.
func (b *batch) putWhole(j *transfer.Job) error {
	from := len(b.writes.Jobs)
	b.writes.Jobs = append(b.writes.Jobs, &rules.JobWrite{After: &j.Record, Tasks: j.Tasks, At: j.Record.Changed})
	if err := b.schedule(from); err != nil {
		return err
	}
	for i := range j.History {
		b.writes.Jobs = append(b.writes.Jobs, &rules.JobWrite{Before: &j.Record, After: &j.Record, Event: &j.History[i],
			At: j.Record.Changed})
	}
	return nil
}

// PutOnce is part of transfer.Target.
func (c content) PutOnce(ctx context.Context, o *transfer.Once) error {
	all := []counter{{countMessages, o.Posted, []byte{}}, {countAudit, o.Audits, o.Sealed[:]}}
	for kind, n := range o.Numbers {
		all = append(all, counter{countNumbers + pg.Stored(string(kind)), n, []byte{}})
	}
	return c.s.exclusively(ctx, func(tx pgx.Tx) error {
		for _, g := range all {
			_, err := tx.Exec(ctx, `INSERT INTO given VALUES ($1, $2, $3)
 ON CONFLICT (what) DO UPDATE SET n = excluded.n, hash = excluded.hash`, g.name, g.n, g.hash)
			if err != nil {
				return err
			}
		}
		if o.Clock != (job.KeptClock{}) {
			if _, err := tx.Exec(ctx, putClock, micro(o.Clock.Trusted), micro(o.Clock.Latest),
				micro(o.Clock.Confirmed)); err != nil {
				return err
			}
		}
		_, err := tx.Exec(ctx, "UPDATE installation SET id = $1", o.Installation)
		return err
	})
}

// Mark is part of transfer.Marked.
func (c content) Mark(ctx context.Context) (m transfer.Mark, err error) {
	err = c.s.read(ctx, "mark", "", func(r *reader) error {
		m, err = markOf(r.ctx, r.q)
		return err
	})
	return m, err
}

// SetMark is part of transfer.Marked.
func (c content) SetMark(ctx context.Context, m transfer.Mark) error { return c.s.setMark(ctx, m) }
