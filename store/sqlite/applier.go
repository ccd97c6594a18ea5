package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/sqlite/internal/rowlog"
)

// How far the database may be behind the log.
const (
	applyAfter   = 200 * time.Millisecond // of the first record that is not applied
	manyUnsaved  = 8 << 20                // bytes of records: the applier begins at once
	mostUnsaved  = 64 << 20               // the loop waits for it
	againApplied = 250 * time.Millisecond // between attempts on a full disk
)

// applier writes the rows of the log to the database. One goroutine runs it; [applier.flush] may be called from any.
type applier struct {
	store   *Store
	stmts   map[rowlog.Kind]*conn.Stmt
	after   time.Duration // applyAfter
	rows    rowlog.Reduction
	many    *conn.Stmt     // writes eventsAtOnce history entries
	shifted shifted        // of many: a value in an interface would be allocated for each row
	some    []rowlog.Image // fewer than that: they are written together

	noSpace atomic.Bool // the disk was full: the loop refuses writes until it has space
	ended   error       // of the last attempt; set before stopped is closed

	begin   chan struct{} // something is to be applied; has capacity for one
	urgent  chan struct{} // at once; has capacity for one
	quit    chan struct{}
	stopped chan struct{}

	mu      sync.Mutex // guards all below
	flushes []chan error
}

// newApplier prepares the statements on the connection of the records.
func newApplier(s *Store) (*applier, error) {
	a := &applier{
		store: s, stmts: map[rowlog.Kind]*conn.Stmt{}, after: s.options.applyAfter, begin: make(chan struct{}, 1),
		urgent: make(chan struct{}, 1), quit: make(chan struct{}), stopped: make(chan struct{}),
	}
	for kind, sql := range map[rowlog.Kind]string{
		rowlog.Word: insertWord + " ON CONFLICT DO NOTHING", rowlog.Move: insertMove + " ON CONFLICT DO NOTHING",
		rowlog.Made: insertMade + " ON CONFLICT (n) DO NOTHING", rowlog.Now: replaceNow, rowlog.Data: putData,
		rowlog.NoData: dropData, rowlog.Key: insertKey + " ON CONFLICT DO NOTHING",
		rowlog.Entry: insertEvent + " ON CONFLICT DO NOTHING", rowlog.Task: putTask, rowlog.Hold: putHold,
		rowlog.DropHold: dropHold, rowlog.Message: putMessage, rowlog.Audit: insertAudit + " ON CONFLICT DO NOTHING",
		rowlog.Event: insertFormer + " ON CONFLICT DO NOTHING", rowlog.Requires: putRequires,
		rowlog.Words: putWords,
		rowlog.Sent:  insertSent + " ON CONFLICT DO NOTHING", rowlog.Audited: insertAudited + " ON CONFLICT DO NOTHING",
	} {
		stmt, err := s.records.c.Prepare(sql)
		if err != nil {
			return nil, err
		}
		a.stmts[kind] = stmt
	}
	row := insertEvent[strings.LastIndex(insertEvent, "("):]
	var err error
	a.many, err = s.records.c.Prepare(insertEvent + strings.Repeat(", "+row, eventsAtOnce-1) +
		" ON CONFLICT DO NOTHING")
	return a, err
}

// eventsAtOnce is how many history entries one statement writes: they are most of the rows.
const eventsAtOnce = 8

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}

// published is called by the loop after each record.
func (a *applier) published(waiting int) {
	signal(a.begin)
	if waiting >= manyUnsaved {
		signal(a.urgent)
	}
}

// run applies until close, and then once more.
func (a *applier) run() {
	defer close(a.stopped)
	for {
		ended := false
		select {
		case <-a.begin:
			ended = a.pause(a.after)
		case <-a.urgent:
		case <-a.quit:
			ended = true
		}
		waiting := a.waiting() // before the rows are taken: they have all that was published before the calls
		err := a.apply()
		for _, done := range waiting {
			done <- err
		}
		if ended {
			a.ended = err
			return
		}
		if err != nil && a.store.dead.Load() == nil {
			a.pause(againApplied)
			signal(a.urgent) // the pause may have taken the signal of a flush
		}
	}
}

// pause waits until something is urgent, at most for the time. It reports whether the applier has to end.
func (a *applier) pause(most time.Duration) (ended bool) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-a.urgent:
	case <-a.quit:
		return true
	}
	return false
}

// lacksSpace reports, once, that the disk was full.
func (a *applier) lacksSpace() bool { return a != nil && a.noSpace.Swap(false) }

// waiting returns the flushes that wait.
func (a *applier) waiting() []chan error {
	a.mu.Lock()
	defer a.mu.Unlock()
	waiting := a.flushes
	a.flushes = nil
	return waiting
}

// flush waits until the database has all rows that were published before the call. It returns an error if it cannot
// get them now.
func (a *applier) flush(ctx context.Context) error {
	if a == nil || a.store.overlay.empty() {
		return nil
	}
	done := make(chan error, 1)
	a.mu.Lock()
	a.flushes = append(a.flushes, done)
	a.mu.Unlock()
	signal(a.urgent)
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return &job.Error{Op: "store", Kind: job.Unavailable, Err: ctx.Err()}
	case <-a.stopped:
		return a.last()
	}
}

// close applies what is left. Kind Unavailable, with a [job.Full] if the disk is full: rows are in the log alone.
func (a *applier) close() error {
	close(a.quit)
	<-a.stopped
	if a.store.dead.Load() != nil {
		return nil
	}
	return a.last()
}

// last is the result of a flush after the end of run.
func (a *applier) last() error {
	if a.store.overlay.empty() {
		return nil
	}
	const problem = "rows of the log are not in the database yet: the next start writes them"
	if a.ended == nil {
		return job.Errorf(job.Unavailable, "store", "", problem)
	}
	return fmt.Errorf(problem+": %w", a.ended)
}

// apply writes all published rows to the database. After an error of a full disk it may be called again; any other
// error stops the store.
func (a *applier) apply() error {
	s := a.store
	for again := true; again; {
		if s.dead.Load() != nil {
			return s.deadError()
		}
		var g *generation
		if g, again = s.overlay.take(); g == nil {
			return nil
		}
		err := a.write(g)
		if err == nil {
			s.overlay.applied()
			err = s.records.front.log.Release(g.last)
		}
		switch {
		case err == nil:
		case faultOf(err) == conn.Full:
			a.noSpace.Store(true)
			s.fullNow()
			return s.fullError()
		case faultOf(err) == conn.Busy:
			return &job.Error{Op: "store", Kind: job.Unavailable, Err: err}
		default:
			s.stop(err)
			return s.deadError()
		}
	}
	return nil
}

// write writes the rows of a generation in one transaction.
func (a *applier) write(g *generation) error {
	s := a.store
	s.writer.Lock()
	defer s.writer.Unlock()
	images, err := a.rows.Latest(g.contents)
	if err != nil {
		return err
	}
	if err := a.commit(images, g.numbers, g.last); err != nil {
		if s.records.c.InTransaction() {
			err = errors.Join(err, s.records.c.Exec("ROLLBACK"))
		}
		return err
	}
	s.checkpoint()
	return nil
}

// commit writes rows with the number of their last record.
func (a *applier) commit(images []rowlog.Image, n numbers, last uint64) error {
	r := a.store.records
	if err := r.stmts.begin.Run(); err != nil {
		return err
	}
	if err := a.rowsOf(images); err != nil {
		return err
	}
	r.headLock.Lock()
	defer r.headLock.Unlock()
	return r.commitAs(n, last)
}

// rowsOf writes rows, history entries after the others.
func (a *applier) rowsOf(images []rowlog.Image) error {
	a.some = a.some[:0]
	for _, m := range images {
		switch {
		case m.Kind != rowlog.Entry:
			if err := a.row(m); err != nil {
				return err
			}
		case len(a.some) < eventsAtOnce-1:
			a.some = append(a.some, m)
		default:
			if err := a.events(append(a.some, m)); err != nil {
				return err
			}
			a.some = a.some[:0]
		}
	}
	for _, m := range a.some {
		if err := a.row(m); err != nil {
			return err
		}
	}
	return nil
}

// events writes eventsAtOnce history entries.
func (a *applier) events(all []rowlog.Image) error {
	for i, m := range all {
		a.shifted = shifted{a.many, i * eventColumns}
		if err := m.Bind(&a.shifted); err != nil {
			return err
		}
	}
	return a.many.Run()
}

// shifted binds the values of a row to later parameters of a statement.
type shifted struct {
	*conn.Stmt
	by int
}

func (s *shifted) Int(i int, v int64)   { s.Stmt.Int(s.by+i, v) }
func (s *shifted) Null(i int)           { s.Stmt.Null(s.by + i) }
func (s *shifted) Text(i int, v string) { s.Stmt.Text(s.by+i, v) }
func (s *shifted) Blob(i int, v []byte) { s.Stmt.Blob(s.by+i, v) }

// row executes the statement of a row.
func (a *applier) row(m rowlog.Image) error {
	switch m.Kind {
	case rowlog.Numbers:
		return nil
	case rowlog.View:
		var kind oneText
		if err := m.Bind(&kind); err != nil {
			return err
		}
		return a.store.records.c.Exec(createView(job.Kind(kind.text)))
	}
	stmt := a.stmts[m.Kind]
	if err := m.Bind(stmt); err != nil {
		return err
	}
	return stmt.Run()
}

// oneText binds a row of one text.
type oneText struct{ text string }

func (t *oneText) Int(int, int64)       {}
func (t *oneText) Null(int)             {}
func (t *oneText) Text(_ int, v string) { t.text = v }
func (t *oneText) Blob(int, []byte)     {}
