package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/internal/log"
	"github.com/stagepost/stagepost/store/sqlite/internal/rowlog"
)

// logName is the directory of the log in front of the database.
const logName = "store-log"

// mostReplayed bounds the bytes of records that one transaction of a replay applies.
const mostReplayed = 16 << 20

// replay compares database, log and head file, and writes the rows of the log that the database lacks. The dictionaries
// are loaded.
func (s *Store) replay() error {
	db, err := headOf(s.records.c)
	if err != nil {
		return err
	}
	batches, last, damage, err := s.readLog(db.logged)
	if err != nil {
		return err
	}
	if err := s.settleHead(last, damage); err != nil || len(batches) == 0 {
		return err
	}
	a, err := newApplier(s)
	if err != nil {
		return err
	}
	for _, g := range batches {
		if err := a.replay(g); err != nil {
			return s.replayError(err)
		}
	}
	if err := s.names.load(s.records.c); err != nil {
		return err
	}
	return s.records.findNext(s.records.c)
}

// replayError is the error of a start that cannot write the rows of the log to the database.
func (s *Store) replayError(err error) error {
	if faultOf(err) == conn.Full {
		return s.fullError()
	}
	return err
}

// readLog returns the records after a number as generations of bounded size, and the last number. damage states that
// the log is damaged after these, "" that it is not.
func (s *Store) readLog(after uint64) (batches []*generation, last uint64, damage string, err error) {
	var g *generation
	dir := filepath.Join(s.dir, logName)
	last, err = log.Read(dir, s.installation, after, func(number uint64, content []byte) error {
		if g == nil || g.bytes+len(content) > mostReplayed {
			g = &generation{}
			batches = append(batches, g)
		}
		g.contents, g.bytes, g.last = append(g.contents, content), g.bytes+len(content), number
		return nil
	})
	var d *log.Damage
	if errors.As(err, &d) {
		return batches, last, d.Error(), nil
	}
	return batches, last, "", err
}

// replay applies records at the start.
func (a *applier) replay(g *generation) error {
	images, err := rowlog.Latest(g.contents)
	if err != nil {
		return err
	}
	for _, m := range images {
		if m.Kind == rowlog.Numbers {
			if err := m.Bind(&numbersOf{&g.numbers}); err != nil {
				return err
			}
		}
	}
	if err := a.commit(images, g.numbers, g.last); err != nil {
		return fmt.Errorf("apply the records up to %d of %s: %w", g.last, logName, err)
	}
	return nil
}

// numbersOf binds the numbers of a record.
type numbersOf struct{ to *numbers }

// Int is part of rowlog.Binder.
func (n numbersOf) Int(i int, v int64) {
	switch i {
	case 1:
		n.to.rows = v
	case 2:
		n.to.entries = v
	case 3:
		n.to.audits = v
	}
}

// Null is part of rowlog.Binder.
func (n numbersOf) Null(int) {}

// Text is part of rowlog.Binder.
func (n numbersOf) Text(int, string) {}

// Blob is part of rowlog.Binder.
func (n numbersOf) Blob(_ int, v []byte) { copy(n.to.auditHash[:], v) }

// startLog begins the log and its applier, or removes a log that is not used any more. On a full disk the store starts
// without, and each commit is a transaction of the database until there is space for the log.
func (s *Store) startLog() error {
	if s.options.NoLog {
		return log.Delete(filepath.Join(s.dir, logName))
	}
	c, err := s.connect(conn.ReadWrite, "PRAGMA query_only = ON")
	if err != nil {
		return err
	}
	s.records.front, err = newFront(c, s.overlay)
	if err != nil {
		return err
	}
	if s.applier, err = newApplier(s); err != nil {
		s.applier = nil
		return err
	}
	go s.applier.run()
	return s.beginLog()
}

// logAgain is the time between attempts to make a log on a full disk.
const logAgain = 10 * time.Second

// beginLog makes the log unless it exists, the disk is full, or it was tried just before.
func (s *Store) beginLog() error {
	f := s.records.front
	if f == nil || f.log != nil || time.Since(s.triedLog) < logAgain {
		return nil
	}
	s.triedLog = time.Now()
	l, err := log.Create(filepath.Join(s.dir, logName), s.records.head.logged+1, log.Options{
		Installation: s.installation, FirstSize: s.options.logSize, Before: s.options.logTap})
	if faultOf(err) == conn.Full {
		return nil
	}
	if err == nil {
		f.log = l
	}
	return err
}
