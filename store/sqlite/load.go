package sqlite

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

// each runs a statement and calls row for every row.
func each(c *conn.Conn, sql string, row func(*conn.Stmt) error) error {
	s, err := c.Prepare(sql)
	if err != nil {
		return err
	}
	defer s.Close()
	return rows(s, row)
}

// rows steps a statement to its end.
func rows(s *conn.Stmt, row func(*conn.Stmt) error) error {
	for {
		more, err := s.Step()
		if !more || err != nil {
			return err
		}
		if err := row(s); err != nil {
			s.Reset()
			return err
		}
	}
}

// loadMade and loadNow are read in parallel: both tables have one row per job, in the same order. Columns that a
// queue does not need (spec, data, hashes) are not read.
const (
	loadMade = "SELECT n, kind, number, owner, created, parent, id FROM job_made ORDER BY n"
	loadNow  = `SELECT n, state, outcome, ended, grp, changed, priority, version, epoch, worker, until, starts, attempts, retries,
 due, deadline, expires, entered, children, cause, tags, bytes FROM job_now ORDER BY n`
)

// loader builds the store's memory from the records.
type loader struct {
	names  *names
	ledger *ledger.Ledger
	lines  *lines                  // nil if they exist already
	batch  map[int64]job.ID        // jobs that have children
	ended  map[job.Tally]job.Tally // by their properties, with no jobs
	last   map[job.Kind]int64      // highest number of ended jobs

	damaged map[job.ID]error // only counted: they are not usable
	recent  recent           // what is newer than the database
}

// load reads all records. into may be nil. Jobs whose records are known to be damaged are not queued. newer is what
// the overlay has; it has no lines.
func load(c *conn.Conn, n *names, into *lines, damaged map[job.ID]error, newer recent) (*ledger.Ledger, error) {
	l := &loader{
		names: n, ledger: ledger.New(), lines: into, recent: newer,
		batch: map[int64]job.ID{}, ended: map[job.Tally]job.Tally{}, last: map[job.Kind]int64{}, damaged: damaged,
	}
	if err := l.records(c); err != nil {
		return nil, err
	}
	for _, t := range l.ended {
		l.ledger.LoadTally(t, l.last[t.Kind])
	}
	if err := l.given(c); err != nil {
		return nil, err
	}
	err := each(c, selectHolds, func(s *conn.Stmt) error {
		h := getHold(s)
		if _, newer := l.recent.holds[h.Scope]; !newer {
			l.ledger.LoadHold(h) // in force even if it is damaged, which Verify reports
		}
		return nil
	})
	for _, h := range l.recent.holds {
		if h != nil {
			l.ledger.LoadHold(*h)
		}
	}
	return l.ledger, err
}

const selectHolds = "SELECT kind, state, grp, owner, job, who, why, since, until, version, tag, sum FROM hold ORDER " +
	"BY since, version"

// getHold reads a hold under the cursor of selectHolds.
func getHold(s *conn.Stmt) job.Hold {
	return job.Hold{
		Scope: job.Scope{
			Kind: job.Kind(s.GetText(0)), State: lifecycle.State(s.GetText(1)), Group: s.GetText(2),
			Owner: s.GetText(3),
			Job:   job.ID(s.GetText(4)), Tag: s.GetText(10),
		},
		Who: s.GetText(5), Why: s.GetText(6), Since: unixMicro(s.GetInt(7)), Until: getTime(s, 8, 0),
		Version: s.GetInt(9),
	}
}

// given reads which numbers are not reused, and the end of the audit log.
func (l *loader) given(c *conn.Conn) error {
	err := each(c, "SELECT what, n FROM given UNION ALL SELECT '"+givenMessage+"', max(m) FROM message",
		func(s *conn.Stmt) error {
			what, n := s.GetText(0), s.GetInt(1)
			if kind, of := strings.CutPrefix(what, givenNumber); of {
				l.ledger.LoadNumber(job.Kind(kind), n)
			} else if what == givenMessage {
				l.ledger.LoadPosted(n)
			}
			return nil
		})
	if err != nil {
		return err
	}
	l.ledger.LoadPosted(l.recent.posted)
	if n := l.recent.numbers; n != nil {
		l.ledger.LoadAudit(n.audits, n.auditHash)
		return nil
	}
	seq, hash, err := lastAudit(c)
	l.ledger.LoadAudit(seq, hash)
	return err
}

// lastAudit returns the number and the hash of the last entry of the audit log.
func lastAudit(c *conn.Conn) (seq int64, hash job.Hash, err error) {
	err = each(c, "SELECT a, hash FROM audit ORDER BY a DESC LIMIT 1", func(s *conn.Stmt) error {
		seq = s.GetInt(0)
		copy(hash[:], s.GetBytes(1)) // Verify reports a damaged one
		return nil
	})
	return seq, hash, err
}

func (l *loader) records(c *conn.Conn) error {
	now, err := c.Prepare(loadNow)
	if err != nil {
		return err
	}
	defer now.Close()
	err = each(c, loadMade, func(made *conn.Stmt) error {
		more, err := now.Step()
		if err != nil {
			return err
		}
		if !more || now.GetInt(0) != made.GetInt(0) {
			return fmt.Errorf("job %s (row %d) has lost one half of its record", made.GetText(6), made.GetInt(0))
		}
		if e := l.recent.rows[made.GetInt(0)]; e != nil {
			l.entry(e)
			delete(l.recent.rows, e.n)
			return nil
		}
		l.record(made, now)
		return nil
	})
	if err != nil {
		return err
	}
	for _, n := range slices.Sorted(maps.Keys(l.recent.rows)) { // created since
		l.entry(l.recent.rows[n])
	}
	if more, err := now.Step(); more || err != nil {
		if err == nil {
			err = fmt.Errorf("row %d is half a record", now.GetInt(0))
		}
		return err
	}
	return nil
}

// entry adds a record of the overlay.
func (l *loader) entry(e *entry) {
	j := e.job
	if j.Children != (job.Children{}) {
		l.batch[e.n] = j.ID
	}
	if j.Ended || l.damaged[j.ID] != nil {
		l.count(&j)
		return
	}
	l.ledger.Load(&j)
}

// count counts a job that is not queued.
func (l *loader) count(j *job.Job) {
	stand := job.Tally{Kind: j.Kind, State: j.State, Group: j.Group}
	t, met := l.ended[stand]
	if !met {
		t = stand
	}
	t.Jobs++
	t.Bytes += j.Bytes
	l.ended[stand] = t
	l.last[j.Kind] = max(l.last[j.Kind], j.Number)
}

func (l *loader) record(made, now *conn.Stmt) {
	row, created := made.GetInt(0), made.GetInt(4)
	j := job.Job{Kind: job.Kind(l.names.getName(made, 1)), Number: made.GetInt(2), Owner: l.names.getWord(made, 3)}
	j.State, j.Outcome = lifecycle.State(l.names.getName(now, 1)), lifecycle.Outcome(l.names.getName(now, 2))
	j.Ended, j.Gone, j.Group = now.GetInt(3) > 0, now.GetInt(3) == 2, l.names.getWord(now, 4)
	j.Changed, j.Cause, j.Bytes = getTime(now, 5, created), l.names.getWord(now, 19), now.GetInt(21)
	j.Tags, _ = l.names.getTags(now, 20) // damaged ones are reported when the record is read
	if l.lines != nil {
		l.lines.set(row, l.names.line(&j, made.GetInt(5)))
	}
	if !now.IsNull(18) {
		l.batch[row] = job.ID(made.GetText(6))
	}
	j.ID = job.ID(made.GetText(6))
	if j.Ended || l.damaged[j.ID] != nil {
		l.count(&j)
		return
	}
	j.Created = unixMicro(created)
	if parent := made.GetInt(5); parent != 0 {
		j.Parent = l.batch[parent]
	}
	if !now.IsNull(18) {
		_ = getChildren(now.GetText(18), &j.Children) // a damaged one is reported when the record is read
	}
	j.Priority, j.Version, j.Epoch, j.Worker = int(now.GetInt(6)), now.GetInt(7), now.GetInt(8), l.names.getWord(now, 9)
	j.Until = getTime(now, 10, created)
	j.Starts, j.Attempts, j.Retries = int(now.GetInt(11)), int(now.GetInt(12)), int(now.GetInt(13))
	j.Due, j.Deadline = getTime(now, 14, created), getTime(now, 15, created)
	j.Expires, j.Entered = getTime(now, 16, created), getTime(now, 17, created)
	l.ledger.Load(&j)
}
