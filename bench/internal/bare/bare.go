// Package bare is a group-commit loop on SQLite without anything else: no lifecycle, no queue, no claims, no engine. It
// writes the rows that a transition of a job writes, one record and one history entry, and syncs them. Benchmarks
// measure Stagepost against it in the same run, so that what is compared is the work above the disk and not the
// machine.
package bare

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/internal/conn"
)

// Row is what one commit writes: the record of a job, inserted if it is new, and one history entry.
type Row struct {
	Job     int64 // row number, from 1
	New     bool
	ID      string
	Spec    string // written once
	State   int64
	Version int64
	Head    [32]byte
	At      int64 // microseconds since the job was created
	Actor   int64
}

// Options of Open.
type Options struct {
	Single bool // one transaction per commit instead of one for all that wait
}

// Loop is an open database with its writer. Call Open.
type Loop struct {
	c       *conn.Conn
	single  bool
	in      chan *call
	stopped chan struct{}

	begin, commit, insertMade, insertNow, update, event *conn.Stmt
	waiting                                             atomic.Int32
	close                                               func() error
}

type call struct {
	row  Row
	err  error
	done chan struct{}
}

// The rows have the columns of the store's, most of them as empty as theirs.
const schema = `
PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 4000; PRAGMA cache_size = -65536;
CREATE TABLE made (n INTEGER PRIMARY KEY, id TEXT NOT NULL, kind INTEGER NOT NULL, number INTEGER NOT NULL, parent INTEGER,
  owner ANY, definition ANY, created INTEGER NOT NULL, key TEXT, spec TEXT) STRICT;
CREATE UNIQUE INDEX made_id ON made (id);
CREATE TABLE now (n INTEGER PRIMARY KEY, state INTEGER NOT NULL, last_ok INTEGER, origin INTEGER, outcome INTEGER,
  ended INTEGER NOT NULL, priority INTEGER NOT NULL, grp ANY, version INTEGER NOT NULL, epoch INTEGER NOT NULL, worker ANY,
  until INTEGER, starts INTEGER NOT NULL, attempts INTEGER NOT NULL, retries INTEGER NOT NULL, due INTEGER, deadline INTEGER,
  expires INTEGER, entered INTEGER, changed INTEGER, message TEXT, cause ANY, children TEXT, seq INTEGER NOT NULL,
  last INTEGER NOT NULL, head BLOB NOT NULL) STRICT;
CREATE TABLE event (e INTEGER PRIMARY KEY, job INTEGER NOT NULL, back INTEGER, seq INTEGER NOT NULL, move INTEGER NOT NULL,
  at INTEGER NOT NULL, epoch INTEGER NOT NULL, actor ANY, cause ANY, note TEXT) STRICT;`

const (
	insertMade = `INSERT INTO made (n, id, kind, number, parent, owner, definition, created, key, spec)
 VALUES (?1, ?2, 1, ?1, NULL, 2, 3, ?3, NULL, ?4)`
	insertNow = `INSERT INTO now (n, state, last_ok, origin, outcome, ended, priority, grp, version, epoch, worker, until, starts,
 attempts, retries, due, deadline, expires, entered, changed, message, cause, children, seq, last, head)
 VALUES (?1, ?2, 0, 0, 0, 0, 50, 4, ?3, ?3, NULL, NULL, 0, 0, 0, NULL, NULL, NULL, ?4, ?4, NULL, NULL, NULL, ?3, ?3, ?5)`
	updateNow = `UPDATE now SET state = ?2, last_ok = 0, origin = 0, outcome = 0, ended = 0, priority = 50, grp = 4, version = ?3,
 epoch = ?3, worker = NULL, until = NULL, starts = 0, attempts = 0, retries = 0, due = NULL, deadline = NULL, expires = NULL,
 entered = ?4, changed = ?4, message = NULL, cause = NULL, children = NULL, seq = ?3, last = ?3, head = ?5 WHERE n = ?1`
	insertEvent = `INSERT INTO event (job, back, seq, move, at, epoch, actor, cause, note)
 VALUES (?1, 1, ?2, ?3, ?4, ?2, ?5, NULL, NULL)`
)

// Open makes the database in dir.
func Open(dir string, options Options) (*Loop, error) {
	file := filepath.Join(dir, "bare.db")
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	c, err := conn.Open(file, conn.Create, "")
	if err != nil {
		return nil, err
	}
	l := &Loop{c: c, single: options.Single, in: make(chan *call, 8192), stopped: make(chan struct{})}
	if err := l.prepare(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	l.close = sync.OnceValue(func() error {
		close(l.in)
		<-l.stopped
		return c.Close()
	})
	go l.loop()
	return l, nil
}

func (l *Loop) prepare() (err error) {
	if err := l.c.Exec(schema); err != nil {
		return err
	}
	for s, sql := range map[**conn.Stmt]string{
		&l.begin:      "BEGIN IMMEDIATE",
		&l.commit:     "COMMIT",
		&l.insertMade: insertMade,
		&l.insertNow:  insertNow,
		&l.update:     updateNow,
		&l.event:      insertEvent,
	} {
		if *s, err = l.c.Prepare(sql); err != nil {
			return err
		}
	}
	return nil
}

// Close carries out what waits. No Commit may follow.
func (l *Loop) Close() error { return l.close() }

// Commit writes the row; it is on disk when Commit returns nil.
func (l *Loop) Commit(row Row) error {
	c := &call{row: row, done: make(chan struct{})}
	l.waiting.Add(1)
	l.in <- c
	<-c.done
	return c.err
}

func (l *Loop) loop() {
	defer close(l.stopped)
	var batch []*call
	for c := range l.in {
		batch = l.gather(append(batch[:0], c), len(batch))
		err := l.write(batch)
		for _, c := range batch {
			c.err = err
			close(c.done)
		}
	}
}

// gather takes what waits; after a batch of several it lingers, as the store does.
func (l *Loop) gather(batch []*call, last int) []*call {
	if l.single {
		l.waiting.Add(-1)
		return batch
	}
	if last > 1 {
		for begin := time.Now(); int(l.waiting.Load()) < last && time.Since(begin) < 40*time.Microsecond; {
			runtime.Gosched()
		}
	}
	for len(batch) < 4096 {
		select {
		case c, ok := <-l.in:
			if ok {
				batch = append(batch, c)
				continue
			}
		default:
		}
		break
	}
	l.waiting.Add(-int32(len(batch)))
	return batch
}

func (l *Loop) write(batch []*call) error {
	if err := l.begin.Run(); err != nil {
		return err
	}
	for _, c := range batch {
		if err := l.row(&c.row); err != nil {
			return errors.Join(err, l.c.Exec("ROLLBACK"))
		}
	}
	return l.commit.Run()
}

func (l *Loop) row(r *Row) error {
	s := l.update
	if r.New {
		m := l.insertMade
		m.Int(1, r.Job)
		m.Text(2, r.ID)
		m.Int(3, r.At)
		m.Text(4, r.Spec)
		if err := m.Run(); err != nil {
			return err
		}
		s = l.insertNow
	}
	s.Int(1, r.Job)
	s.Int(2, r.State)
	s.Int(3, r.Version)
	s.Int(4, r.At)
	s.Blob(5, r.Head[:])
	if err := s.Run(); err != nil {
		return err
	}
	e := l.event
	e.Int(1, r.Job)
	e.Int(2, r.Version)
	e.Int(3, r.State)
	e.Int(4, r.At)
	e.Int(5, r.Actor)
	return e.Run()
}
