package sqlite

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/internal/dirowner"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

// Store is a job.Store in a directory. Call Open, and Close at the end.
type Store struct {
	dir          string
	options      Options
	owner        *dirowner.Owner
	installation string
	names        *names
	lines        *lines
	readers      *readers
	inbox        inbox
	freeOps      freeOps
	watch        watch
	overlay      *overlay // nothing is in it without a log
	applier      *applier // nil without a log

	// Used by the loop only.
	synced      time.Duration // how long the last commit took
	unsaved     int           // bytes in the log that the database lacked after the last record
	records     *records
	ledger      *ledger.Ledger
	checkpoints *checkpointer
	full        bool      // the disk was full
	tried       time.Time // when a full disk was last tested
	triedLog    time.Time // when a log was last made or tried to

	writer sync.Mutex // held while the connection of records has a transaction: the loop's or the applier's

	fullSince atomic.Pointer[time.Time] // nil: the disk is not full
	reported  sync.Map                  // jobs whose damaged record was reported

	dead    atomic.Pointer[deadStore]
	deaths  chan error
	stopped chan struct{} // closed when the loop has ended

	checks    sync.RWMutex // read-locked by the checks that run
	closeOnce func() error
}

var (
	_ job.Store = (*Store)(nil)
)

// InUse is the error of [Open] for a directory that another process has open. Its kind is Unavailable.
type InUse = dirowner.InUse

// Open opens the store in dir, which it creates if necessary. Kinds of error: Unavailable (another process has it, no
// access), Internal (the database is missing, damaged, or from a newer version), Invalid (dir is empty).
func Open(dir string, options Options) (*Store, error) {
	if dir == "" {
		return nil, job.Errorf(job.Invalid, "open", "", "the store needs a directory")
	}
	s := &Store{
		dir: dir, options: options.withDefaults(), names: newNames(), lines: &lines{},
		overlay: &overlay{fresh: newGeneration()}, deaths: make(chan error, 1), stopped: make(chan struct{}),
	}
	s.inbox.wake = make(chan struct{}, 1)
	if err := s.lock(); err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		s.release()
		if conn.FaultOf(err) == conn.Full {
			return nil, s.fullError()
		}
		return nil, openError(dir, err)
	}
	s.closeOnce = sync.OnceValue(s.release)
	go s.loop()
	return s, nil
}

func openError(dir string, err error) error {
	var e *job.Error
	if errors.As(err, &e) {
		return err
	}
	kind := job.Internal
	switch conn.FaultOf(err) {
	case conn.IO, conn.Full, conn.Busy:
		kind = job.Unavailable
	case conn.Corrupt:
		err = fmt.Errorf("%w: the file is damaged; restore a backup (stagepost admin restore)", err)
	}
	return &job.Error{Op: "open", Kind: kind, Err: fmt.Errorf("%s: %w", filepath.Join(dir, database), err)}
}

// lock makes the directory ready and locks it.
func (s *Store) lock() (err error) {
	if err := prepareDir(s.dir); err != nil {
		return openError(s.dir, err)
	}
	s.owner, err = dirowner.Take(s.dir, s.options.OnLock)
	return err
}

func (s *Store) open() error {
	writer, err := s.connect(conn.ReadWrite, "PRAGMA cache_size = -65536")
	if err != nil {
		return err
	}
	writer.CountFrames()
	if err := migrate(writer); err != nil {
		return errors.Join(err, writer.Close())
	}
	if s.installation, err = identify(writer); err != nil {
		return errors.Join(err, writer.Close())
	}
	if err := s.refuseMarked(writer); err != nil {
		return errors.Join(err, writer.Close())
	}
	if err := mark(s.dir); err != nil {
		return errors.Join(err, writer.Close())
	}
	if s.records, err = newRecords(writer, s.names, s.lines, s.options.CacheJobs); err != nil {
		return errors.Join(err, writer.Close())
	}
	if err := s.names.load(writer); err != nil {
		return err
	}
	if err := s.records.findNext(s.records.c); err != nil {
		return err
	}
	if err := s.replay(); err != nil {
		return err
	}
	if s.ledger, err = s.loadAll(writer); err != nil {
		return err
	}
	copier, err := s.connect(conn.ReadWrite, "")
	if err != nil {
		return err
	}
	s.checkpoints = startCheckpointer(copier)
	if s.readers, err = openReaders(s); err != nil {
		return err
	}
	return s.startLog()
}

// connect opens another connection to the database.
func (s *Store) connect(flags conn.Flags, pragmas string) (*conn.Conn, error) {
	c, err := conn.Open(filepath.Join(s.dir, database), flags, s.options.vfs)
	if err != nil {
		return nil, err
	}
	err = c.Exec("PRAGMA busy_timeout = 10000; PRAGMA wal_autocheckpoint = 0; PRAGMA temp_store = MEMORY;" +
		"PRAGMA trusted_schema = OFF; PRAGMA synchronous = " + s.options.sync + ";" + pragmas)
	if err == nil {
		err = each(c, "PRAGMA journal_mode = WAL", func(mode *conn.Stmt) error {
			if got := mode.GetText(0); got != "wal" {
				return fmt.Errorf("the file system allows no write-ahead log (journal mode %s)", got)
			}
			return nil
		})
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// reload rebuilds the ledger from the disk and the overlay; the loop calls it after a rollback.
func (s *Store) reload() (err error) {
	r := s.records
	if r.front == nil {
		if s.ledger, err = load([]*conn.Conn{r.c}, s.names, nil, r.damaged, recent{}); err != nil {
			return err
		}
		return r.findNext(r.c)
	}
	c, v := r.front.c, s.overlay.view() // which has what the database lacks in the transaction that begins now
	defer v.close()
	if err := c.Exec("BEGIN"); err != nil {
		return err
	}
	newer := v.recent()
	s.ledger, err = load([]*conn.Conn{c}, s.names, nil, r.damaged, newer)
	if newer.numbers != nil {
		r.nextRow, r.nextEvent = newer.numbers.rows+1, newer.numbers.entries+1
	} else if err == nil {
		err = r.findNext(c)
	}
	return errors.Join(err, c.Exec("COMMIT"))
}

// findNext finds the numbers of the next job and the next history entry.
func (r *records) findNext(c *conn.Conn) error {
	const sql = `SELECT (SELECT coalesce(max(n), 0) FROM (SELECT max(n) AS n FROM job_made UNION ALL SELECT n FROM given WHERE what = '` + givenRow + `')),
 (SELECT coalesce(max(e), 0) FROM (SELECT max(e) AS e FROM event UNION ALL SELECT n FROM given WHERE what = '` + givenEvent + `'))`
	return each(c, sql, func(s *conn.Stmt) error {
		r.nextRow, r.nextEvent = s.GetInt(0)+1, s.GetInt(1)+1
		return nil
	})
}

// Close executes the waiting operations, closes the database and releases the directory. It may be called twice.
func (s *Store) Close() error {
	s.inbox.close()
	<-s.stopped
	return s.closeOnce()
}

func (s *Store) release() error {
	s.checks.Lock() // they end, because the loop has stopped
	defer s.checks.Unlock()
	var errs []error
	if s.applier != nil {
		errs = append(errs, s.applier.close())
	}
	if s.records != nil && s.records.front != nil {
		errs = append(errs, s.records.front.close())
	}
	if s.readers != nil {
		errs = append(errs, s.readers.close())
	}
	if s.checkpoints != nil {
		errs = append(errs, s.checkpoints.close())
	}
	if s.records != nil {
		errs = append(errs, s.records.c.Close())
		if s.records.headFile != nil {
			errs = append(errs, s.records.headFile.close())
		}
	}
	if s.owner != nil {
		errs = append(errs, s.owner.Close())
	}
	return errors.Join(errs...)
}

// Dead delivers the error that stopped the store, once.
func (s *Store) Dead() <-chan error { return s.deaths }
