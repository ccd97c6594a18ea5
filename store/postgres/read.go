package postgres

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/internal/rules"
)

// reader is a transaction that reads: all its statements find the same state.
type reader struct {
	ctx context.Context
	s   *Store
	q   querier
}

// read runs f in a transaction. It is tried again if the connection was lost.
func (s *Store) read(ctx context.Context, op string, id job.ID, f func(*reader) error) error {
	began, wait := time.Now(), s.options.RetryAfter
	for {
		err := s.tryRead(ctx, f)
		var e *job.Error
		if err == nil || errors.As(err, &e) {
			return err
		}
		if !temporary(err) || ctx.Err() != nil || time.Since(began) > s.options.Patience {
			err := wrapped(op, err)
			if errors.As(err, &e) {
				e.ID = id
			}
			return err
		}
		s.noteFailure(err)
		select {
		case <-s.closing:
			return &job.Error{Op: op, Kind: job.Unavailable, ID: id, Err: errClosed}
		case <-ctx.Done():
		case <-time.After(wait):
			wait = min(2*wait, time.Second)
		}
	}
}

func (s *Store) tryRead(ctx context.Context, f func(*reader) error) error {
	select {
	case <-s.closing:
		return &job.Error{Op: "read", Kind: job.Unavailable, Err: errClosed}
	default:
	}
	return s.pool.AcquireFunc(ctx, func(c *pgxpool.Conn) error {
		return pgx.BeginTxFunc(ctx, c, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly},
			func(tx pgx.Tx) error {
				if err := s.scannedNow(ctx, tx, -1); err != nil {
					return err
				}
				if err := f(&reader{ctx, s, tx}); err != nil {
					return err
				}
				return s.scannedNow(ctx, tx, 1)
			})
	})
}

// collect reads all rows and counts them.
func collect[T any](s *Store, rows pgx.Rows, scan func(pgx.CollectableRow) (T, error)) ([]T, error) {
	list, err := pgx.CollectRows(rows, scan)
	s.touched.Add(int64(len(list)))
	return list, err
}

// all returns the rows of a statement.
func all[T any](r *reader, scan func(pgx.CollectableRow) (T, error), statement string, args ...any) ([]T, error) {
	rows, err := r.q.Query(r.ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	return collect(r.s, rows, scan)
}

// record returns a record by a statement that begins with selectRecord, or kind NotFound.
func (r *reader) record(id job.ID, where string, args ...any) (*record, error) {
	list, err := all(r, scanRecord, selectRecord+where, args...)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, job.Errorf(job.NotFound, "get", id, "there is no such job")
	}
	return list[0], nil
}

// Get is part of job.Store.
func (s *Store) Get(ctx context.Context, id job.ID) (j job.Job, err error) {
	err = s.read(ctx, "get", id, func(r *reader) error {
		found, err := r.record(id, "WHERE m.id = $1", pg.Stored(string(id)))
		if err == nil {
			j = found.job
		}
		return err
	})
	return j, err
}

// Numbered is part of job.Store.
func (s *Store) Numbered(ctx context.Context, kind job.Kind, number int64) (j job.Job, err error) {
	err = s.read(ctx, "find", "", func(r *reader) error {
		list, err := all(r, scanRecord, selectRecord+"WHERE m.kind = $1 AND m.number = $2", pg.Stored(string(kind)),
			number)
		if err == nil && len(list) == 0 {
			err = job.Errorf(job.NotFound, "find", "", "there is no %s with number %d", kind, number)
		}
		if err == nil {
			j = list[0].job
		}
		return err
	})
	return j, err
}

// Count is part of job.Store.
func (s *Store) Count(ctx context.Context) (tallies []job.Tally, err error) {
	err = s.read(ctx, "count", "", func(r *reader) error {
		tallies, err = all(r, func(row pgx.CollectableRow) (t job.Tally, err error) {
			err = row.Scan((*string)(&t.Kind), (*string)(&t.State), &t.Group, &t.Jobs, &t.Claimed, &t.Bytes)
			t.Kind, t.State = job.Kind(pg.Original(string(t.Kind))), lifecycle.State(pg.Original(string(t.State)))
			t.Group = pg.Original(t.Group)
			return t, err
		}, `SELECT kind, state, grp, sum(jobs)::bigint, sum(claimed)::bigint,
 least(sum(bytes), 9223372036854775807)::bigint FROM tally
 GROUP BY kind, state, grp HAVING sum(jobs) <> 0`)
		return err
	})
	return tallies, err
}

// History is part of job.Store.
func (s *Store) History(ctx context.Context, id job.ID, seq int64, n int) (events []job.Event, err error) {
	err = s.read(ctx, "history", id, func(r *reader) error {
		found, err := r.record(id, "WHERE m.id = $1", pg.Stored(string(id)))
		if err != nil || seq < 0 {
			return err
		}
		events, err = r.history(found, seq, n)
		return err
	})
	return events, err
}

// history reads entries after number seq. The hash before the first one is read too.
func (r *reader) history(of *record, seq int64, n int) ([]job.Event, error) {
	limit := any(nil)
	if n > 0 {
		limit = min(n, math.MaxInt-1) + 1
	}
	events, err := all(r, func(row pgx.CollectableRow) (job.Event, error) {
		e, err := scanEntry(row)
		e.event.Job = of.job.ID
		return *e.event, err
	}, selectEntry+"WHERE job = $1 AND seq >= $2 ORDER BY seq LIMIT $3", of.n, seq, limit)
	if err != nil {
		return nil, err
	}
	var prev job.Hash
	for i := range events {
		events[i].Prev = prev
		prev = events[i].Hash
	}
	if len(events) > 0 && events[0].Seq <= seq {
		events = events[1:]
	}
	if n > 0 {
		events = events[:min(n, len(events))]
	}
	return events, nil
}

// Tasks is part of job.Store.
func (s *Store) Tasks(ctx context.Context, id job.ID) (tasks []job.Task, err error) {
	err = s.read(ctx, "tasks", id, func(r *reader) error {
		tasks, err = r.tasks(id)
		return err
	})
	return tasks, err
}

const selectTask = `SELECT t.job, t.name, t.kind, t.state, t.epoch, t.attempts, t.done, t.total, t.message, t.data,
 t.changed FROM task t `

func scanTask(row pgx.CollectableRow) (of taskOf, err error) {
	t := &of.task
	var changed int64
	var data []byte
	err = row.Scan(&of.n, &t.Name, (*string)(&t.Kind), (*string)(&t.State), &t.Epoch, &t.Attempts, &t.Done, &t.Total,
		&t.Message, &data, &changed)
	t.Name, t.Kind = pg.Original(t.Name), job.Kind(pg.Original(string(t.Kind)))
	t.State, t.Message = lifecycle.State(pg.Original(string(t.State))), pg.Original(t.Message)
	t.Data, t.Changed = data, moment(changed)
	return of, err
}

// byName compares the names themselves: the order of their stored forms is another.
func byName(a, b taskOf) int { return strings.Compare(a.task.Name, b.task.Name) }

func (r *reader) tasks(of job.ID) (list []job.Task, err error) {
	rows, err := all(r, scanTask, selectTask+"JOIN job_made m ON m.n = t.job WHERE m.id = $1", pg.Stored(string(of)))
	slices.SortFunc(rows, byName)
	return values(rows, func(t *taskOf) job.Task { return t.task }), err
}

// tasksOf reads the tasks of records, by their rows.
func (r *reader) tasksOf(of []*record) (map[int64][]job.Task, error) {
	found := map[int64][]job.Task{}
	list, err := all(r, scanTask, selectTask+"WHERE t.job = ANY ($1)", rowsOf(of))
	slices.SortFunc(list, byName)
	for i := range list {
		found[list[i].n] = append(found[list[i].n], list[i].task)
	}
	return found, err
}

const selectHolds = `SELECT kind, state, grp, owner, tag, job, who, why, since, until FROM hold`

func scanHold(row pgx.CollectableRow) (h job.Hold, err error) {
	var since, until int64
	err = row.Scan((*string)(&h.Kind), (*string)(&h.State), &h.Group, &h.Owner, &h.Tag, (*string)(&h.Job), &h.Who,
		&h.Why, &since, &until)
	h.Kind, h.State = job.Kind(pg.Original(string(h.Kind))), lifecycle.State(pg.Original(string(h.State)))
	h.Group, h.Owner, h.Tag = pg.Original(h.Group), pg.Original(h.Owner), pg.Original(h.Tag)
	h.Job, h.Who, h.Why = job.ID(pg.Original(string(h.Job))), pg.Original(h.Who), pg.Original(h.Why)
	h.Since, h.Until = moment(since), moment(until)
	return h, err
}

// Holds is part of job.Store.
func (s *Store) Holds(ctx context.Context) (holds []job.Hold, err error) {
	err = s.read(ctx, "holds", "", func(r *reader) error {
		holds, err = r.holds()
		return err
	})
	return holds, err
}

func (r *reader) holds() ([]job.Hold, error) {
	list, err := all(r, scanHold, selectHolds)
	rules.SortHolds(list)
	return list, err
}

// Audit is part of job.Store.
func (s *Store) Audit(ctx context.Context, seq int64, n int) (entries []job.Audit, err error) {
	if n == 0 {
		return nil, nil
	}
	err = s.read(ctx, "audit", "", func(r *reader) error {
		entries, err = r.audit(seq, n)
		return err
	})
	return entries, err
}

// audit reads entries, and the one before the first for its hash.
func (r *reader) audit(seq int64, n int) ([]job.Audit, error) {
	first, most := max(seq, 0), int64(n)
	if n < 0 {
		var last int64
		err := r.q.QueryRow(r.ctx,
			"SELECT coalesce(max(a), 0) FROM audit WHERE $1::bigint <= 0 OR a < $1", seq).Scan(&last)
		if err != nil {
			return nil, err
		}
		back := min(-max(int64(n), -math.MaxInt64), last)
		first, most = last-back, back
	}
	entries, err := all(r, scanAudit, selectAudit+"a >= $1 ORDER BY a LIMIT $2", first, min(most, math.MaxInt64-1)+1)
	if err != nil {
		return nil, err
	}
	var prev job.Hash
	for i := range entries {
		entries[i].Prev = prev
		prev = entries[i].Hash
	}
	if len(entries) > 0 && entries[0].Seq <= first {
		entries = entries[1:]
	}
	return entries[:min(most, int64(len(entries)))], nil
}

// AuditHolds is part of job.Store.
func (s *Store) AuditHolds(ctx context.Context, seq int64, n int) (entries []job.Audit, err error) {
	err = s.read(ctx, "audit of holds", "", func(r *reader) error {
		entries, err = all(r, scanAudit, selectAudit+"a > $1 AND event IN ('hold', 'release') AND kind = ''"+
			" ORDER BY a LIMIT $2", seq, max(n, 0))
		return err
	})
	return entries, err
}

// selectAudit reads entries of the audit log for scanAudit.
const selectAudit = "SELECT a, at, actor, who, event, job, kind, from_state, to_state, object, note, seen, hash, " +
	"address, form FROM audit WHERE "

func scanAudit(row pgx.CollectableRow) (a job.Audit, err error) {
	var at, by, form int64
	var hash []byte
	err = row.Scan(&a.Seq, &at, &by, &a.Actor, (*string)(&a.Event), (*string)(&a.Job), (*string)(&a.Kind),
		(*string)(&a.From), (*string)(&a.To), &a.Object, &a.Note, &a.Seen, &hash, &a.Address, &form)
	a.At, a.By, a.Newer = moment(at), lifecycle.Actor(by), form > knownForm
	a.Actor, a.Event = pg.Original(a.Actor), lifecycle.Event(pg.Original(string(a.Event)))
	a.Job, a.Kind = job.ID(pg.Original(string(a.Job))), job.Kind(pg.Original(string(a.Kind)))
	a.From, a.To = lifecycle.State(pg.Original(string(a.From))), lifecycle.State(pg.Original(string(a.To)))
	a.Object, a.Note, a.Address = pg.Original(a.Object), pg.Original(a.Note), pg.Original(a.Address)
	copy(a.Hash[:], hash)
	return a, err
}

// KeptClock is part of job.ClockStore.
func (s *Store) KeptClock(ctx context.Context) (k job.KeptClock, err error) {
	err = s.read(ctx, "clock", "", func(r *reader) error {
		var trusted, latest, confirmed int64
		err := r.q.QueryRow(r.ctx, "SELECT trusted, latest, confirmed FROM clock").Scan(&trusted, &latest, &confirmed)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		k = job.KeptClock{Trusted: moment(trusted), Latest: moment(latest), Confirmed: moment(confirmed)}
		return err
	})
	return k, err
}

// KeepClock is part of job.ClockStore.
func (s *Store) KeepClock(ctx context.Context, k job.KeptClock) error {
	o := &operation{apply: func(b *batch) error {
		b.kept = &k
		return nil
	}}
	return s.do(ctx, "clock", o)
}
