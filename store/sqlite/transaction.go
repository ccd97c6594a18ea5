package sqlite

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/stagepost/stagepost/job"
)

// numbers are the highest numbers of a state of the store, for the head.
type numbers struct {
	rows, entries, audits int64
	auditHash             job.Hash // of the last entry of the audit log
}

// numbers returns the present ones; audits and hash are of the last entry of the audit log.
func (r *records) numbers(audits int64, hash job.Hash) numbers {
	return numbers{rows: r.nextRow - 1, entries: r.nextEvent - 1, audits: audits, auditHash: hash}
}

// begin opens the transaction.
func (r *records) begin() error {
	r.failed, r.changes, r.target = nil, r.c.Changes(), r.direct
	if err := r.stmts.begin.Run(); err != nil {
		return err
	}
	return r.names.begin()
}

// commit commits it; afterwards everything is on disk. audits and hash are of the last entry of the audit log.
func (r *records) commit(audits int64, hash job.Hash) error {
	if r.c.Changes() == r.changes { // everything was refused
		return r.stmts.commit.Run()
	}
	r.headLock.Lock()
	defer r.headLock.Unlock()
	if err := r.commitAs(r.numbers(audits, hash), r.applied); err != nil {
		return err
	}
	r.names.committed()
	return nil
}

// commitAs commits the open transaction of the connection with the numbers of its state. applied is the number of the
// last record of the log whose rows it contains. The caller holds headLock.
func (r *records) commitAs(n numbers, applied uint64) error {
	next := r.head
	next.begun++
	next.mark, next.at, next.numbers = rand.Int64(), time.Now(), n
	s := r.stmts.head
	s.Int(1, next.begun)
	s.Int(2, next.mark)
	s.Int(3, next.at.UnixMicro())
	s.Int(4, int64(applied))
	if err := s.Run(); err != nil {
		return err
	}
	before := r.head
	before.begun = next.begun
	if err := r.order(func() error { return r.headFile.begin(&before) }, r.stmts.commit.Run); err != nil {
		return err
	}
	next.seq = next.begun
	r.head, r.applied = next, applied
	return r.headFile.confirm(&r.head)
}

// inParallel syncs the head file and the log at the same time. If the disk is full, the head file lags behind; that
// is harmless.
func inParallel(head, commit func() error) error {
	done := make(chan error, 1)
	go func() { done <- head() }()
	err := commit()
	if failed := <-done; err == nil && !errors.Is(failed, syscall.ENOSPC) {
		err = failed
	}
	return err
}

// rollback rolls the transaction back and drops its state in memory. The caller then reloads the ledger.
func (r *records) rollback() error {
	r.names.rolledBack()
	r.cache.clear()
	clear(r.viewed)
	r.lines = r.lines[:0]
	if f := r.logging(); f != nil {
		return f.dropRecord()
	}
	if !r.c.InTransaction() {
		return nil // SQLite has rolled back on its own
	}
	return r.c.Exec("ROLLBACK")
}
