package sqlite

import "github.com/stagepost/stagepost/internal/conn"

// transacting are the statements of every transaction.
type transacting struct{ begin, commit, head *conn.Stmt }

// target is where a transaction reads records and writes rows.
type target struct {
	reads  *reading
	writes *writing
}

// reading are the loop's prepared statements that read.
type reading struct{ byID, highest, keyed, message, due, topic, pending *conn.Stmt }

// statement is a prepared statement that writes rows of one kind, or adds them to a record of the log.
type statement interface {
	Int(i int, v int64)
	Null(i int)
	Text(i int, v string)
	TextOrNull(i int, v string)
	JSON(i int, v []byte)
	Blob(i int, v []byte)
	Run() error
}

// writing are the loop's statements that write.
type writing struct {
	made, requires, words, insert, update, data, noData, key, event, task, hold, dropHold, post, word, move statement

	audit   statement
	audited statement // audit with the address of a sender
}

func (r *reading) prepare(c *conn.Conn) error {
	return prepare(c, map[**conn.Stmt]string{
		&r.byID:    selectRow + "WHERE m.id = ?",
		&r.highest: "SELECT max(id) FROM job_made WHERE id >= ?1 AND id < ?2",
		&r.keyed: "SELECT m.id FROM job_key k JOIN job_made m ON m.n = k.n WHERE k.key = ? AND k.kind = ? AND " +
			"k.owner = ?",
		&r.message: selectMessage + "WHERE key = ?",
		&r.due: selectMessage +
			"INDEXED BY message_due WHERE settled IS NULL AND topic = ?1 AND due <= ?2 ORDER BY due, m LIMIT ?3",
		&r.topic: "SELECT topic FROM message INDEXED BY message_due WHERE settled IS NULL AND topic > ?1 " +
			"ORDER BY topic LIMIT 1",
		&r.pending: "SELECT key FROM message WHERE job = ? AND settled IS NULL ORDER BY m LIMIT 1",
	})
}

// The statements that write, but those of the record itself.
const (
	putRequires = "UPDATE job_made SET requires = ?2 WHERE n = ?1"
	putWords    = "UPDATE job_made SET words = ?2 WHERE n = ?1"
	putData     = "INSERT OR REPLACE INTO job_data (n, data) VALUES (?, ?)"
	dropData    = "DELETE FROM job_data WHERE n = ?"
	insertKey   = "INSERT INTO job_key (key, kind, owner, n) VALUES (?, ?, ?, ?)"
	insertEvent = `INSERT INTO event (e, job, back, seq, move, at, epoch, actor, cause, note, address, worked)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	eventColumns = 12
	// as earlier versions wrote it into the log
	insertFormer = `INSERT INTO event (e, job, back, seq, move, at, epoch, actor, cause, note)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	insertSent = `INSERT INTO event (e, job, back, seq, move, at, epoch, actor, cause, note, address)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	putTask = `INSERT OR REPLACE INTO task (job, name, kind, state, epoch, attempts, done, total, message, data, changed, sum)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	// ?11 is the version of a hold in the log of an earlier program, whose checksum is over it too
	putHold = `INSERT OR REPLACE INTO hold (scope, kind, state, grp, owner, job, who, why, since, until, tag, sum)
 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?12, iif(?11 IS NULL, ?13, NULL))`
	dropHold   = "DELETE FROM hold WHERE scope = ?"
	putMessage = `INSERT INTO message (key, job, topic, body, created, due, attempts, error, settled, tried, m, sum)
 VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (m) DO UPDATE SET key = excluded.key, job = excluded.job,
 topic = excluded.topic, body = excluded.body, created = excluded.created, due = excluded.due, attempts = excluded.attempts,
 error = excluded.error, settled = excluded.settled, tried = excluded.tried, sum = excluded.sum`
	insertWord = "INSERT INTO word (w, text) VALUES (?, ?)"
	insertMove = "INSERT INTO move (m, event, from_state, to_state, outcome, actor) VALUES (?, ?, ?, ?, ?, ?)"
)

func (w *writing) prepare(c *conn.Conn) error {
	for to, sql := range map[*statement]string{
		&w.made: insertMade, &w.requires: putRequires, &w.words: putWords, &w.insert: insertNow, &w.update: updateNow,
		&w.data: putData, &w.noData: dropData, &w.key: insertKey, &w.event: insertEvent, &w.task: putTask,
		&w.hold: putHold, &w.dropHold: dropHold, &w.post: putMessage, &w.word: insertWord, &w.move: insertMove,
		&w.audit: insertAudit, &w.audited: insertAudited,
	} {
		s, err := c.Prepare(sql)
		if err != nil {
			return err
		}
		*to = s
	}
	return nil
}

func prepare(c *conn.Conn, statements map[**conn.Stmt]string) (err error) {
	for s, sql := range statements {
		if *s, err = c.Prepare(sql); err != nil {
			return err
		}
	}
	return nil
}
