package sqlite

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// selectRow reads whole records; getRow has its columns. The caller adds WHERE.
const selectRow = `SELECT m.n, m.id, m.kind, m.number, p.id, m.owner, m.definition, m.created, m.key, m.spec,
 j.state, j.last_ok, j.origin, j.outcome, j.ended, j.priority, j.grp, j.version, j.epoch, j.worker, j.until,
 j.starts, j.attempts, j.retries, j.due, j.deadline, j.expires, j.entered, j.changed, j.message, j.cause, j.children,
 j.seq, j.last, j.head, d.data, j.tags, j.bytes, j.sum, m.requires, m.words
FROM job_made m JOIN job_now j ON j.n = m.n LEFT JOIN job_data d ON d.n = m.n LEFT JOIN job_made p ON p.n = m.parent `

// getRow reads the record under the statement's cursor. A damaged one is an error with the job's id, see isDamage.
func (n *names) getRow(s *conn.Stmt) (*entry, error) {
	e, err := n.readRow(s)
	if err == nil && !sumIs(s, 38, e.sumRecord()) {
		return nil, mismatch(e.job.ID, "the record")
	}
	return e, err
}

// readRow reads the record regardless of its checksum.
func (n *names) readRow(s *conn.Stmt) (*entry, error) {
	e := &entry{n: s.GetInt(0), last: s.GetInt(33)}
	j := &e.job
	j.ID, j.Kind, j.Number = job.ID(s.GetText(1)), job.Kind(n.getName(s, 2)), s.GetInt(3)
	j.Parent, j.Owner, j.Definition = job.ID(s.GetText(4)), n.getWord(s, 5), n.getWord(s, 6)
	created := s.GetInt(7)
	j.Created = unixMicro(created)
	j.Key, j.Spec, j.Words = s.GetText(8), s.GetBytes(9), s.GetText(40)
	j.State, j.LastOK = lifecycle.State(n.getName(s, 10)), lifecycle.State(n.getName(s, 11))
	j.Origin, j.Outcome = lifecycle.State(n.getName(s, 12)), lifecycle.Outcome(n.getName(s, 13))
	ended := s.GetInt(14)
	j.Ended, j.Gone = ended > 0, ended == 2
	j.Priority, j.Group = int(s.GetInt(15)), n.getWord(s, 16)
	j.Version, j.Epoch, j.Worker = s.GetInt(17), s.GetInt(18), n.getWord(s, 19)
	j.Starts, j.Attempts, j.Retries = int(s.GetInt(21)), int(s.GetInt(22)), int(s.GetInt(23))
	j.Until, j.Due, j.Deadline = getTime(s, 20, created), getTime(s, 24, created), getTime(s, 25, created)
	j.Expires, j.Entered, j.Changed = getTime(s, 26, created), getTime(s, 27, created), getTime(s, 28, created)
	j.Message, j.Cause = s.GetText(29), n.getWord(s, 30)
	if err := getChildren(s.GetText(31), &j.Children); err != nil {
		return nil, damaged(j.ID, "the record: %v", err)
	}
	j.Seq = s.GetInt(32)
	if copy(j.Head[:], s.GetBytes(34)) != len(j.Head) {
		return nil, damaged(j.ID, "the record: its hash is cut off")
	}
	j.Data, j.Bytes = s.GetBytes(35), s.GetInt(37)
	tags, err := n.getTags(s, 36)
	j.Tags = slices.Clone(tags)
	if err != nil {
		return nil, damaged(j.ID, "the record: %v", err)
	}
	requires, err := n.getTags(s, 39)
	j.Requires = slices.Clone(requires)
	if err != nil {
		return nil, damaged(j.ID, "the record: its required labels: %v", err)
	}
	e.made, e.data = sumMade(e.n, j), sumData(j.Data)
	return e, nil
}

// nowColumns are those of job_now in the order in which bindNow binds them, from parameter 2; the row number is
// parameter 1.
const (
	updateNow = `UPDATE job_now SET state = ?2, last_ok = ?3, origin = ?4, outcome = ?5, ended = ?6, priority = ?7, grp = ?8,
 version = ?9, epoch = ?10, worker = ?11, until = ?12, starts = ?13, attempts = ?14, retries = ?15, due = ?16, deadline = ?17,
 expires = ?18, entered = ?19, changed = ?20, message = ?21, cause = ?22, children = ?23, seq = ?24, last = ?25, head = ?26,
 tags = ?27, bytes = ?28, sum = ?29
 WHERE n = ?1`
	insertNow = `INSERT INTO job_now (n, state, last_ok, origin, outcome, ended, priority, grp, version, epoch, worker, until,
 starts, attempts, retries, due, deadline, expires, entered, changed, message, cause, children, seq, last, head, tags,
 bytes, sum)
 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26,
 ?27, ?28, ?29)`
	// replaceNow is insertNow for a row that may be there: an older version of the record is replaced, a newer one
	// stays.
	replaceNow = insertNow + ` ON CONFLICT (n) DO UPDATE SET state = excluded.state, last_ok = excluded.last_ok,
 origin = excluded.origin, outcome = excluded.outcome, ended = excluded.ended, priority = excluded.priority,
 grp = excluded.grp, version = excluded.version, epoch = excluded.epoch, worker = excluded.worker, until = excluded.until,
 starts = excluded.starts, attempts = excluded.attempts, retries = excluded.retries, due = excluded.due,
 deadline = excluded.deadline, expires = excluded.expires, entered = excluded.entered, changed = excluded.changed,
 message = excluded.message, cause = excluded.cause, children = excluded.children, seq = excluded.seq,
 last = excluded.last, head = excluded.head, tags = excluded.tags, bytes = excluded.bytes, sum = excluded.sum
 WHERE excluded.version >= job_now.version`
	insertMade = `INSERT INTO job_made (n, id, kind, number, parent, owner, definition, created, key, spec)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// bindNow binds the mutable fields of a job.
func (n *names) bindNow(s statement, e *entry) error {
	j := &e.job
	created := j.Created.UnixMicro()
	s.Int(1, e.n)
	for i, name := range [...]string{string(j.State), string(j.LastOK), string(j.Origin), string(j.Outcome)} {
		if err := n.bindName(s, 2+i, name); err != nil {
			return err
		}
	}
	s.Int(6, ended(j))
	s.Int(7, int64(j.Priority))
	if err := n.bindWord(s, 8, j.Group); err != nil {
		return err
	}
	s.Int(9, j.Version)
	s.Int(10, j.Epoch)
	if err := n.bindWord(s, 11, j.Worker); err != nil {
		return err
	}
	bindTime(s, 12, created, j.Until)
	s.Int(13, int64(j.Starts))
	s.Int(14, int64(j.Attempts))
	s.Int(15, int64(j.Retries))
	bindTime(s, 16, created, j.Due)
	bindTime(s, 17, created, j.Deadline)
	bindTime(s, 18, created, j.Expires)
	bindTime(s, 19, created, j.Entered)
	bindTime(s, 20, created, j.Changed)
	s.TextOrNull(21, j.Message)
	if err := n.bindWord(s, 22, j.Cause); err != nil {
		return err
	}
	s.TextOrNull(23, children(&j.Children))
	s.Int(24, j.Seq)
	s.Int(25, e.last)
	s.Blob(26, j.Head[:])
	if err := n.bindTags(s, 27, j.Tags); err != nil {
		return err
	}
	if j.Bytes == 0 {
		s.Null(28)
	} else {
		s.Int(28, j.Bytes)
	}
	s.Int(29, e.sumRecord())
	return nil
}

// bindMade binds the immutable fields of a job.
func (n *names) bindMade(s statement, row, parent int64, j *job.Job) error {
	s.Int(1, row)
	s.Text(2, string(j.ID))
	if err := n.bindName(s, 3, string(j.Kind)); err != nil {
		return err
	}
	s.Int(4, j.Number)
	if parent == 0 {
		s.Null(5)
	} else {
		s.Int(5, parent)
	}
	if err := n.bindWord(s, 6, j.Owner); err != nil {
		return err
	}
	if err := n.bindWord(s, 7, j.Definition); err != nil {
		return err
	}
	s.Int(8, j.Created.UnixMicro())
	s.TextOrNull(9, j.Key)
	s.JSON(10, j.Spec)
	return nil
}

// ended is the flag of a row: 1 for an ended job, 2 for a tombstone.
func ended(j *job.Job) int64 {
	switch {
	case j.Gone:
		return 2
	case j.Ended:
		return 1
	}
	return 0
}

// bindTime binds a time as microseconds since base, NULL for the zero time.
func bindTime(s statement, i int, base int64, t time.Time) {
	if t.IsZero() {
		s.Null(i)
	} else {
		s.Int(i, t.UnixMicro()-base)
	}
}

func getTime(s *conn.Stmt, i int, base int64) time.Time {
	if s.IsNull(i) {
		return time.Time{}
	}
	return unixMicro(base + s.GetInt(i))
}

// children formats a batch's counts, empty if there are none.
func children(c *job.Children) string {
	if *c == (job.Children{}) {
		return ""
	}
	return fmt.Sprintf("[%d,%d,%d,%d,%d,%d,%d]", c.Expected, c.Open, c.OK, c.Failed, c.TimedOut, c.Cancelled, c.Deleted)
}

func getChildren(text string, c *job.Children) error {
	if text == "" {
		return nil
	}
	var counts [7]int
	if err := json.Unmarshal([]byte(text), &counts); err != nil {
		return fmt.Errorf("counts of jobs: %w", err)
	}
	*c = job.Children{
		Expected: counts[0], Open: counts[1], OK: counts[2], Failed: counts[3],
		TimedOut: counts[4], Cancelled: counts[5], Deleted: counts[6],
	}
	return nil
}

func unixMicro(t int64) time.Time { return time.UnixMicro(t).UTC() }
