package sqlite

import (
	"errors"
	"runtime"
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

// loader builds the memory of a store from the records.
type loader struct {
	size   int64 // rows of a part
	names  *names
	ledger *ledger.Ledger
	lines  *lines                  // nil if they exist already
	batch  map[int64]job.ID        // jobs that have jobs, by row
	ended  map[endedKey]endedCount // jobs that are only counted
	last   map[uint32]int64        // highest number by kind

	damaged map[job.ID]error // jobs that are only counted: their records are not usable
	recent  recent           // what is newer than the database
}

// load reads all records, by several connections at once, which see the same state of the database. into may be nil.
// Jobs whose records are known to be damaged are not queued. newer is what the overlay has, without lines.
func load(
	cs []*conn.Conn, n *names, into *lines, damaged map[job.ID]error, newer recent,
) (*ledger.Ledger, error) {
	return loadBy(partRows, cs, n, into, damaged, newer)
}

func loadBy(
	size int64, cs []*conn.Conn, n *names, into *lines, damaged map[job.ID]error, newer recent,
) (*ledger.Ledger, error) {
	l := newLoader(size, n, into, damaged, newer)
	if err := l.records(cs); err != nil {
		return nil, err
	}
	return l.ledger, l.rest(cs[0])
}

func newLoader(size int64, n *names, into *lines, damaged map[job.ID]error, newer recent) *loader {
	return &loader{
		size: size, names: n, ledger: ledger.New(), lines: into, damaged: damaged, recent: newer,
		batch: map[int64]job.ID{}, ended: map[endedKey]endedCount{}, last: map[uint32]int64{},
	}
}

// rest reads what is not in the records of jobs.
func (l *loader) rest(c *conn.Conn) error {
	if err := l.given(c); err != nil {
		return err
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
	return err
}

const selectHolds = "SELECT kind, state, grp, owner, job, who, why, since, until, tag, sum FROM hold"

// getHold reads a hold under the cursor of selectHolds.
func getHold(s *conn.Stmt) job.Hold {
	return job.Hold{
		Scope: job.Scope{
			Kind: job.Kind(s.GetText(0)), State: lifecycle.State(s.GetText(1)), Group: s.GetText(2),
			Owner: s.GetText(3),
			Job:   job.ID(s.GetText(4)), Tag: s.GetText(9),
		},
		Who: s.GetText(5), Why: s.GetText(6), Since: unixMicro(s.GetInt(7)), Until: getTime(s, 8, 0),
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

// rowRange returns the first row and the one after the last.
func rowRange(c *conn.Conn) (first, below int64, err error) {
	const sql = `SELECT min(n), max(n) FROM (SELECT min(n) AS n FROM job_made UNION ALL SELECT min(n) FROM job_now
 UNION ALL SELECT max(n) FROM job_made UNION ALL SELECT max(n) FROM job_now)`
	err = each(c, sql, func(s *conn.Stmt) error {
		if !s.IsNull(0) {
			first, below = s.GetInt(0), s.GetInt(1)+1
		}
		return nil
	})
	return first, below, err
}

// records reads the records of all jobs.
func (l *loader) records(cs []*conn.Conn) error {
	for row, e := range l.recent.rows { // their jobs may be in the database
		if e.job.Children != (job.Children{}) {
			l.batch[row] = e.job.ID
		}
	}
	first, below, err := rowRange(cs[0])
	if err != nil {
		return err
	}
	var readers []*partReader
	for _, c := range cs {
		r, err := newPartReader(c, l.names, l.damaged)
		defer r.close()
		if err != nil {
			return err
		}
		r.newer = l.recent.rows
		readers = append(readers, r)
	}
	if err := parts(readers, first, below, l.size, l.add); err != nil {
		return err
	}
	for _, e := range l.recent.rows {
		l.entry(e)
	}
	l.ledger.Loaded()
	for k, count := range l.ended {
		at, group := l.names.ended(k)
		l.ledger.LoadEnded(at, group, count.jobs, count.bytes)
	}
	for kind, last := range l.last {
		l.ledger.LoadNumber(job.Kind(l.names.words.value(int64(kind))), last)
	}
	return nil
}

// add adds a part.
func (l *loader) add(p *part) {
	if l.lines != nil {
		l.lines.load(p.lines)
	}
	for _, b := range p.batches {
		l.batch[b.row] = b.id
	}
	for i := range p.live {
		j := &p.live[i]
		if j.parent != 0 {
			j.job.Parent = l.batch[j.parent]
		}
		l.ledger.Load(&j.job)
	}
	for k, count := range p.ended {
		n := l.ended[k]
		n.jobs += count.jobs
		n.bytes.Join(count.bytes)
		l.ended[k] = n
	}
	for kind, last := range p.last {
		l.last[kind] = max(l.last[kind], last)
	}
}

// entry adds a record of the overlay.
func (l *loader) entry(e *entry) {
	j := e.job
	v := l.names.line(&j, 0)
	l.last[v.kind] = max(l.last[v.kind], j.Number)
	if j.Ended || l.damaged[j.ID] != nil {
		k := endedKey{kind: v.kind, state: v.state, group: v.group}
		if v.group == unnumbered {
			k.text = j.Group
		}
		l.ended[k] = l.ended[k].add(j.Bytes)
		return
	}
	l.ledger.Load(&j)
}

// manyRows is the number of rows from which a start reads by several connections.
const manyRows = 4 * partRows

// loadAll loads the store at the start, when nothing writes to the database.
func (s *Store) loadAll(writer *conn.Conn) (l *ledger.Ledger, err error) {
	first, below, err := rowRange(writer)
	if err != nil || below-first < manyRows {
		return load([]*conn.Conn{writer}, s.names, s.lines, nil, recent{})
	}
	var cs []*conn.Conn // they are closed with their caches
	defer func() {
		for _, c := range cs {
			err = errors.Join(err, c.Close())
		}
	}()
	for range min(runtime.GOMAXPROCS(0), 4) {
		c, err := s.connect(conn.ReadWrite, "PRAGMA query_only = ON")
		if err != nil {
			return nil, err
		}
		cs = append(cs, c)
	}
	return load(cs, s.names, s.lines, nil, recent{})
}
