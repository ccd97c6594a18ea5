package sqlite

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

// reader is a connection that reads, with its statements.
type reader struct {
	// rows that are newer than the database; empty if the read is of the database alone
	view view

	c                                                                                *conn.Conn
	byID, byRow, rowOf, idBegin, idPart, number, event, tasks, keyed, snapshot, done *conn.Stmt
	audit, auditBefore, auditHash, auditHolds                                        *conn.Stmt
	messages                                                                         messageLists
	words                                                                            wordStatements
}

// readers is a pool of them.
type readers struct {
	free chan *reader
	n    int
}

func openReaders(s *Store) (*readers, error) {
	p := &readers{free: make(chan *reader, s.options.Readers)}
	for range s.options.Readers {
		c, err := s.connect(conn.ReadWrite, "PRAGMA query_only = ON; PRAGMA cache_size = -8192")
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		r := &reader{c: c}
		p.free <- r
		p.n++
		err = prepare(c, map[**conn.Stmt]string{
			&r.byID:    selectRow + "WHERE m.id = ?",
			&r.byRow:   selectRow + "WHERE m.n = ?",
			&r.rowOf:   "SELECT n FROM job_made WHERE id = ?",
			&r.idBegin: selectIDBegin,
			&r.idPart:  selectIDPart,
			&r.number:  "SELECT number FROM job_made WHERE n = ?",
			&r.event: "SELECT back, seq, move, at, epoch, actor, cause, note, job, address, worked FROM event " +
				"WHERE e = ?",
			&r.keyed:       "SELECT n FROM job_key WHERE key = ? ORDER BY n",
			&r.audit:       selectAudit + "WHERE a > ? ORDER BY a LIMIT ?",
			&r.auditBefore: selectAudit + "WHERE a < ? ORDER BY a DESC LIMIT ?",
			&r.auditHash:   "SELECT hash FROM audit WHERE a = ?",
			&r.auditHolds: selectAudit + "INDEXED BY audit_hold WHERE a > ? AND event IN ('hold', 'release') AND " +
				"kind IS NULL ORDER BY a LIMIT ?",

			&r.messages.all: listMessages, &r.messages.one: oneMessage, &r.messages.ofJob: listOfJob,
			&r.messages.find: findMessages, &r.messages.topic: findTopic,

			&r.snapshot: "BEGIN",
			&r.done:     "COMMIT",
			&r.tasks:    selectTasks,
		})
		if err != nil {
			return nil, errors.Join(err, p.close())
		}
		if err := prepare(c, r.words.statements()); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	return p, nil
}

// close waits for reads to end.
func (p *readers) close() error {
	var errs []error
	for ; p.n > 0; p.n-- {
		errs = append(errs, (<-p.free).c.Close())
	}
	return errors.Join(errs...)
}

// read runs f with a reader, which sees what was synced when it begins: the rows of the overlay, and the database.
func (s *Store) read(ctx context.Context, op string, id job.ID, f func(*reader) error) error {
	return s.readDatabase(ctx, op, id, func(r *reader) error {
		if s.applier != nil {
			r.view = s.overlay.view()
			defer r.view.close()
		}
		return f(r)
	})
}

// readDatabase is read without the overlay. After a flush the database has all that was acknowledged before that.
func (s *Store) readDatabase(ctx context.Context, op string, id job.ID, f func(*reader) error) error {
	if s.dead.Load() != nil {
		return s.deadError()
	}
	var r *reader
	select {
	case <-ctx.Done():
		return &job.Error{Op: op, Kind: job.Unavailable, ID: id, Err: ctx.Err()}
	case <-s.stopped:
		return &job.Error{Op: op, Kind: job.Unavailable, ID: id, Err: errClosed}
	case r = <-s.readers.free:
	}
	defer func() { s.readers.free <- r }()
	err := f(r)
	var e *job.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	kind := job.Internal
	if conn.FaultOf(err) == conn.IO || conn.FaultOf(err) == conn.Busy {
		kind = job.Unavailable
	}
	return &job.Error{Op: op, Kind: kind, ID: id, Err: err}
}

// inSnapshot runs f in one read transaction.
func (r *reader) inSnapshot(f func() error) error {
	if err := r.snapshot.Run(); err != nil {
		return err
	}
	return errors.Join(f(), r.done.Run())
}

// row reads a record by a statement whose parameters are bound, nil if there is none.
func (s *Store) row(stmt *conn.Stmt) (*entry, error) {
	more, err := stmt.Step()
	if !more || err != nil {
		return nil, err
	}
	defer stmt.Reset()
	return s.names.getRow(stmt)
}

// Get is part of job.Store.
func (s *Store) Get(ctx context.Context, id job.ID) (j job.Job, err error) {
	err = s.read(ctx, "get", id, func(r *reader) error {
		e, err := s.entry(r, id)
		if err == nil {
			j = e.job
		}
		return err
	})
	return j, err
}

// byRow reads the record in a row, nil if there is none.
func (s *Store) byRow(r *reader, n int64) (*entry, error) {
	if e := r.view.row(n); e != nil {
		return e.own(), nil
	}
	r.byRow.Int(1, n)
	return s.row(r.byRow)
}

func (s *Store) entry(r *reader, id job.ID) (*entry, error) {
	if e := r.view.job(id); e != nil {
		return e.own(), nil
	}
	r.byID.Text(1, string(id))
	e, err := s.row(r.byID)
	if e == nil && err == nil {
		return nil, job.Errorf(job.NotFound, "get", id, "there is no such job")
	}
	return e, err
}

// Count is part of job.Store.
func (s *Store) Count(ctx context.Context) (all []job.Tally, err error) {
	err = s.do(ctx, true, func(l *ledger.Ledger) error {
		all = l.Tally()
		return nil
	})
	return orNone(all, err)
}

// History is part of job.Store.
func (s *Store) History(ctx context.Context, id job.ID, seq int64, n int) (events []job.Event, err error) {
	err = s.read(ctx, "history", id, func(r *reader) error {
		e, err := s.entry(r, id)
		if err != nil {
			return err
		}
		events, err = s.history(r, e)
		if n := len(events); err == nil && (n == 0 || events[n-1].Hash != e.job.Head) {
			err = damaged(id, "the history does not match the record: an entry was changed or damaged outside "+
				"Stagepost. The store has the hash of the last entry only: a backup or an export can show which")
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if seq < 0 || seq >= int64(len(events)) {
		return nil, nil
	}
	events = events[seq:]
	if n > 0 && n < len(events) {
		events = events[:n:n]
	}
	return events, nil
}

// history reads a job's entries from its last one back to the first, and then computes the hashes forward. Verify
// compares the last hash with the record.
func (s *Store) history(r *reader, of *entry) ([]job.Event, error) {
	events, _, err := s.numbered(r, of)
	return events, err
}

// numbered is history with the numbers of the rows.
func (s *Store) numbered(r *reader, of *entry) ([]job.Event, []int64, error) {
	events, numbers := make([]job.Event, of.job.Seq), make([]int64, of.job.Seq)
	at := of.last
	for i := len(events) - 1; i >= 0; i-- {
		back, err := s.event(r, of, at, &events[i])
		if err != nil {
			return nil, nil, err
		}
		if numbers[i] = at; events[i].Seq != int64(i+1) || (back == 0) != (i == 0) {
			return nil, nil, fmt.Errorf("history of %s: entry %d is missing", of.job.ID, i+1)
		}
		at -= back
	}
	var prev job.Hash
	for i := range events {
		events[i].Seal(prev)
		prev = events[i].Hash
	}
	return events, numbers, nil
}

// event reads entry number at, and the distance to the previous one.
func (s *Store) event(r *reader, of *entry, at int64, e *job.Event) (back int64, err error) {
	if row, found := r.view.event(at); found && row.job == of.n {
		*e = row.event
		e.At, e.Began = stored(e.At), stored(e.Began)
		return row.back, nil
	}
	r.event.Int(1, at)
	row, err := r.event.Step()
	if err != nil {
		return 0, err
	}
	if !row || r.event.GetInt(8) != of.n {
		r.event.Reset()
		return 0, fmt.Errorf("history of %s: row %d is missing", of.job.ID, at)
	}
	defer r.event.Reset()
	m := s.names.moves.value(r.event.GetInt(2))
	*e = job.Event{
		Job: of.job.ID, Seq: r.event.GetInt(1), Event: m.event, From: m.from, To: m.to, Outcome: m.outcome, By: m.by,
		At: unixMicro(of.job.Created.UnixMicro() + r.event.GetInt(3)), Epoch: r.event.GetInt(4),
		Actor: s.names.getWord(r.event, 5), Cause: s.names.getWord(r.event, 6), Note: r.event.GetText(7),
		Address: s.names.getWord(r.event, 9),
	}
	if !r.event.IsNull(10) {
		e.Began = unixMicro(e.At.UnixMicro() - r.event.GetInt(10))
	}
	return r.event.GetInt(0), nil
}

const selectTasks = `SELECT name, kind, state, epoch, attempts, done, total, message, data, changed, sum FROM task ` +
	`WHERE job = ? ORDER BY name`

// Tasks is part of job.Store.
func (s *Store) Tasks(ctx context.Context, id job.ID) (tasks []job.Task, err error) {
	err = s.read(ctx, "tasks", id, func(r *reader) error {
		e, err := s.entry(r, id)
		if job.KindOf(err) == job.NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		tasks, err = s.tasksOf(r, e)
		return err
	})
	return orNone(tasks, err)
}

func (s *Store) tasksOf(r *reader, e *entry) (tasks []job.Task, err error) {
	r.tasks.Int(1, e.n)
	err = rows(r.tasks, func(row *conn.Stmt) error {
		t := s.names.getTask(row)
		if !sumIs(row, 10, sumTask(e.n, &t)) {
			return mismatch(e.job.ID, fmt.Sprintf("task %q", t.Name))
		}
		tasks = append(tasks, t)
		return nil
	})
	return r.view.withTasks(e.n, tasks), err
}

// getTask reads a task under the cursor of selectTasks.
func (n *names) getTask(t *conn.Stmt) job.Task {
	return job.Task{
		Name: t.GetText(0), Kind: job.Kind(n.getName(t, 1)), State: lifecycle.State(n.getName(t, 2)),
		Epoch: t.GetInt(3), Attempts: int(t.GetInt(4)), Done: t.GetInt(5), Total: t.GetInt(6), Message: t.GetText(7),
		Data: t.GetBytes(8), Changed: getTime(t, 9, 0),
	}
}

// Properties is part of job.Store.
func (s *Store) Properties() job.Properties {
	return job.Properties{Name: "sqlite", Durable: true, Exclusive: true, Words: true}
}
