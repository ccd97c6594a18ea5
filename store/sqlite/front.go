package sqlite

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/internal/log"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/sqlite/internal/rowlog"
)

// front is the log in front of the database, as the commit loop uses it. An operation runs as it does in a
// transaction; only the statements that write rows are replaced by ones that add them to a record of the log, and
// reads find rows first in the open record, then in the overlay, then in the database.
type front struct {
	log     *log.Log   // nil while the disk has no space for one
	c       *conn.Conn // reads of the loop: the applier has the other connection
	target  target
	group   rowlog.Group
	pending *generation // rows of the open record; the entries are those of the cache, which has all of them
	view    statement   // adds a view
	ends    statement   // adds the numbers
	overlay *overlay

	// The reads of one record see the same state of the database, so that SQLite locks it once.
	newer             view // the overlay as it was before that state; zero: nothing was read yet
	snapshot, release *conn.Stmt
}

func newFront(c *conn.Conn, o *overlay) (*front, error) {
	f := &front{c: c, overlay: o, pending: newGeneration()}
	row := func(k rowlog.Kind) statement { return f.group.Row(k) }
	f.target = target{&reading{}, &writing{
		made: row(rowlog.Made), requires: row(rowlog.Requires), words: row(rowlog.Words),
		insert: row(rowlog.Now), update: row(rowlog.Now),
		data: row(rowlog.Data), noData: row(rowlog.NoData), key: row(rowlog.Key), event: row(rowlog.Entry),
		task: row(rowlog.Task), hold: row(rowlog.Hold), dropHold: row(rowlog.DropHold), post: row(rowlog.Message),
		word: row(rowlog.Word), move: row(rowlog.Move), audit: row(rowlog.Audit),
		audited: row(rowlog.Audited),
	}}
	f.view, f.ends = row(rowlog.View), row(rowlog.Numbers)
	err := prepare(c, map[**conn.Stmt]string{&f.snapshot: "BEGIN", &f.release: "COMMIT"})
	return f, errors.Join(err, f.target.reads.prepare(c))
}

// read begins the reads of the open record.
func (f *front) read() (*view, error) {
	if f.newer.overlay != nil {
		return &f.newer, nil
	}
	f.newer = f.overlay.view()
	return &f.newer, f.snapshot.Run()
}

// readAll ends them.
func (f *front) readAll() error {
	if f.newer.overlay == nil {
		return nil
	}
	f.newer.close()
	return f.release.Run()
}

func (f *front) close() error {
	err := f.c.Close()
	if f.log != nil {
		err = errors.Join(err, f.log.Close())
	}
	return err
}

// usable reports whether transactions can end in the log.
func (f *front) usable() bool { return f != nil && f.log != nil }

// lost reports whether it is unknown what the disk has of the log.
func (f *front) lost() bool { return f.usable() && f.log.Lost() != nil }

// logging returns the front if the open transaction ends in the log, or nil.
func (r *records) logging() *front {
	if r.front != nil && r.target == r.front.target {
		return r.front
	}
	return nil
}

// beginRecord begins a transaction that ends in the log.
func (r *records) beginRecord() error {
	r.failed, r.target = nil, r.front.target
	return r.names.begin()
}

// commitRecord appends the record and publishes its rows; afterwards they are on disk. audits and hash are of the last
// entry of the audit log. It returns the bytes of all records that are not applied.
func (r *records) commitRecord(audits int64, hash job.Hash) (waiting int, err error) {
	f := r.front
	if err := f.readAll(); err != nil || f.group.Empty() { // everything was refused
		return 0, err
	}
	n := r.numbers(audits, hash)
	f.ends.Int(1, n.rows)
	f.ends.Int(2, n.entries)
	f.ends.Int(3, n.audits)
	f.ends.Blob(4, n.auditHash[:])
	if err := f.ends.Run(); err != nil {
		return 0, err
	}
	content := f.group.Content()
	number, err := f.log.Append(content)
	if err != nil {
		if lost := f.log.Lost(); lost != nil {
			return 0, &commitError{lost}
		}
		return 0, err
	}
	waiting = f.overlay.publish(f.pending, content, number, n)
	f.group.Clear()
	f.pending.clear()
	r.cache.age()
	r.names.committed()
	return waiting, r.noteLogged(number)
}

// noteLogged writes the number of the newest record into the head file, without a sync. During a commit of the
// database it does nothing: the next record is soon enough.
func (r *records) noteLogged(number uint64) error {
	if !r.headLock.TryLock() {
		return nil
	}
	defer r.headLock.Unlock()
	r.head.logged = number
	return r.headFile.confirm(&r.head)
}

// dropRecord drops the rows of the open record.
func (f *front) dropRecord() error {
	f.group.Clear()
	f.pending.clear()
	return f.readAll()
}

// entry finds a record in the overlay; the cache has those of the open record. A nil entry is none.
func (f *front) entry(id job.ID) (*entry, error) {
	v, err := f.read()
	if err != nil {
		return nil, err
	}
	return v.job(id), nil
}

// keyed finds a job by its key in the open record and in the overlay, "" for none.
func (f *front) keyed(kind job.Kind, owner, key string) (job.ID, error) {
	if id := f.pending.key(kind, owner, key); id != "" {
		return id, nil
	}
	v, err := f.read()
	if err != nil {
		return "", err
	}
	return v.keyed(kind, owner, key), nil
}

// message finds a message there, nil for none.
func (f *front) message(key string) (*job.Message, error) {
	if m, found := f.pending.messages[key]; found {
		return &m, nil
	}
	v, err := f.read()
	if err != nil {
		return nil, err
	}
	if m, found := v.message(key); found {
		return &m, nil
	}
	return nil, nil
}

// touched notes an entry that the open record changes.
func (r *records) touched(e *entry) {
	if f := r.logging(); f != nil && !e.open {
		e.open = true
		f.pending.touched = append(f.pending.touched, e)
	}
}

// errNotLogged is the error of an operation that the log does not support: the store runs it in the database.
var errNotLogged = fmt.Errorf("this operation needs the database: %w", errors.ErrUnsupported)

// faultOf is [conn.FaultOf] for errors of files too.
func faultOf(err error) conn.Fault {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return conn.Full
	}
	return conn.FaultOf(err)
}
