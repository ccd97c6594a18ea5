package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/internal/newest"
)

const selectEntry = `SELECT job, seq, event, from_state, to_state, outcome, actor, who, cause, note, epoch, at, hash, e,
 address, began, form FROM event `

// knownForm is the highest form of entries, of histories and of the audit log, whose fields this program has all. It
// writes no other.
const knownForm = 0

// scanEntry reads the entry under the cursor of selectEntry, without the id of its job.
func scanEntry(row pgx.CollectableRow) (entry, error) {
	n, e := entry{}, &job.Event{}
	var by, at, began, form int64
	var hash []byte
	err := row.Scan(&n.n, &e.Seq, (*string)(&e.Event), (*string)(&e.From), (*string)(&e.To), (*string)(&e.Outcome),
		&by, &e.Actor, &e.Cause, &e.Note, &e.Epoch, &at, &hash, &n.number, &e.Address, &began, &form)
	e.By, e.At, e.Began, e.Newer = lifecycle.Actor(by), moment(at), moment(began), form > knownForm
	e.Event, e.From = lifecycle.Event(pg.Original(string(e.Event))), lifecycle.State(pg.Original(string(e.From)))
	e.To, e.Outcome = lifecycle.State(pg.Original(string(e.To))), lifecycle.Outcome(pg.Original(string(e.Outcome)))
	e.Actor, e.Cause, e.Note = pg.Original(e.Actor), pg.Original(e.Cause), pg.Original(e.Note)
	e.Address = pg.Original(e.Address)
	copy(e.Hash[:], hash)
	n.event = e
	return n, err
}

// past is the history of a job, with the numbers of its entries.
type past struct {
	events  []job.Event
	numbers []int64
}

// histories reads the histories of records, by their rows.
func (r *reader) histories(of []*record) (map[int64]*past, error) {
	ids, found := map[int64]job.ID{}, make(map[int64]*past, len(of))
	for _, one := range of {
		ids[one.n], found[one.n] = one.job.ID, &past{}
	}
	list, err := all(r, scanEntry, selectEntry+"WHERE job = ANY ($1) ORDER BY job, seq", rowsOf(of))
	for _, e := range list {
		p := found[e.n]
		e.event.Job = ids[e.n]
		if n := len(p.events); n > 0 {
			e.event.Prev = p.events[n-1].Hash
		}
		p.events, p.numbers = append(p.events, *e.event), append(p.numbers, e.number)
	}
	return found, err
}

func rowsOf(list []*record) []int64 { return values(list, func(r **record) int64 { return (*r).n }) }

// page reads the records after row n, in the order of creation, whose histories can be read together.
func (r *reader) page(after int64) ([]*record, error) {
	list, err := all(r, scanRecord, selectRecord+"WHERE m.n > $1 ORDER BY m.n LIMIT $2", after, pageJobs)
	return together(list, func(one *record) int64 { return one.job.Seq }), err
}

// together returns the first records whose rows of another table can be read together: one at least.
func together(list []*record, count func(*record) int64) []*record {
	n := int64(0)
	for i, one := range list {
		if n += count(one); i > 0 && n > pageRows {
			return list[:i]
		}
	}
	return list
}

// Histories calls yield with every job, its history and the numbers of the entries (see [Store.Entries]), in order of
// creation, while the store continues. No entry is damaged in a way that it cannot be read.
func (s *Store) Histories(
	ctx context.Context, yield func(j *job.Job, entries []job.Event, numbers []int64, damage error) error,
) error {
	for last := int64(0); ; {
		var list []*record
		var found map[int64]*past
		err := s.read(ctx, "history", "", func(r *reader) (err error) {
			if list, err = r.page(last); err == nil {
				found, err = r.histories(list)
			}
			return err
		})
		if err != nil || len(list) == 0 {
			return err
		}
		for _, one := range list {
			p := found[one.n]
			if err := yield(&one.job, p.events, p.numbers, nil); err != nil {
				return err
			}
			last = one.n
		}
	}
}

// selectSeries is different for each copy of the table that was restored, and for each replica that took over: after
// either, numbers can be given again.
const selectSeries = `SELECT system_identifier || '-' || timeline_id || '-' || 'event'::regclass::oid
 FROM pg_control_system(), pg_control_checkpoint()`

// selectLast is the number that the sequence gave last.
const selectLast = "SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM entry"

// Entries returns the number of the newest history entry of all jobs, and the series that it belongs to. Numbers of one
// job increase. An entry with this number or a lower one is committed when Entries returns, or never will be. In
// another series a number can occur again.
func (s *Store) Entries(ctx context.Context) (last int64, series string, err error) {
	err = pg.Repeat(ctx, s.options.Patience, func() error {
		conn, err := s.connect(ctx)
		if err != nil {
			return err
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }() // nothing is left to be committed
		if err := set(ctx, conn, writerSettings); err != nil {
			return err
		}
		if err := conn.QueryRow(ctx, selectLast).Scan(&last); err != nil {
			return err
		}
		if err := conn.QueryRow(ctx, selectSeries).Scan(&series); err != nil {
			return err
		}
		return awaitWriters(ctx, conn)
	})
	return last, series, wrapped("history", err)
}

// awaitWriters waits for the transaction of each server that writes at the moment: each has locked the row of its
// writer from before it gives numbers until its commit. The locks are commits here, so that the numbers that were given
// are on disk, and are not given again after a crash of the database.
func awaitWriters(ctx context.Context, conn *pgx.Conn) error {
	rows, err := conn.Query(ctx, "SELECT id FROM writer")
	if err != nil {
		return err
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	for _, id := range ids {
		if _, err := conn.Exec(ctx, "SELECT FROM writer WHERE id = $1 FOR SHARE", id); err != nil {
			return fmt.Errorf("a server that writes: %w", err)
		}
	}
	return err
}

// selectNewest has the number of the newest entry of each job last. That entry is missing only if it was removed.
const selectNewest = `SELECT m.id, j.seq, j.head, coalesce((SELECT l.e FROM event l
  WHERE l.job = j.n AND l.seq = j.seq), 9223372036854775807)
 FROM (SELECT DISTINCT job FROM event WHERE e > $1 AND e <= $2) g JOIN job_made m ON m.n = g.job
  JOIN job_now j ON j.n = g.job ORDER BY m.n`

// Newest calls yield with number and hash of the newest history entry of each job that has an entry after number after
// and up to number through, once for each job. The newest one may be later than through. It reads only these entries,
// page by page.
func (s *Store) Newest(
	ctx context.Context, after, through int64, yield func(id job.ID, seq int64, hash job.Hash) error,
) error {
	return newest.Each(ctx, newest.Page, after, through, s.newest(ctx), yield)
}

// newest reads the newest entries of the jobs that have entries after one number and up to another one.
func (s *Store) newest(ctx context.Context) func(after, end int64) ([]newest.Entry, error) {
	return func(after, end int64) (list []newest.Entry, err error) {
		err = s.read(ctx, "history", "", func(r *reader) error {
			list, err = all(r, scanNewest, selectNewest, after, end)
			return err
		})
		return list, err
	}
}

func scanNewest(row pgx.CollectableRow) (e newest.Entry, err error) {
	var id string
	var hash []byte
	err = row.Scan(&id, &e.Seq, &hash, &e.Number)
	e.Job = job.ID(pg.Original(id))
	copy(e.Hash[:], hash)
	return e, err
}

const selectMoved = `SELECT m.kind, e.from_state, e.to_state, e.outcome, e.at / 3600000000, count(*)
 FROM event e JOIN job_made m ON m.n = e.job WHERE e.e > $1 AND e.e <= $2 GROUP BY 1, 2, 3, 4, 5`

// Moved counts the history entries after number after and up to number through. It reads them, so the caller bounds
// their number.
func (s *Store) Moved(ctx context.Context, after, through int64) (counted []job.Moved, err error) {
	err = s.read(ctx, "history", "", func(r *reader) error {
		counted, err = all(r, scanMoved, selectMoved, after, through)
		return err
	})
	return counted, err
}

func scanMoved(row pgx.CollectableRow) (m job.Moved, err error) {
	var kind, from, to, outcome string
	var hour int64
	err = row.Scan(&kind, &from, &to, &outcome, &hour, &m.Entries)
	m.Kind, m.From, m.To = job.Kind(pg.Original(kind)), lifecycle.State(pg.Original(from)),
		lifecycle.State(pg.Original(to))
	m.Outcome, m.Hour = lifecycle.Outcome(pg.Original(outcome)), time.Unix(hour*3600, 0).UTC()
	return m, err
}
