package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/stagepost/stagepost/internal/conn"
	"github.com/stagepost/stagepost/job"
)

const selectMessage = "SELECT key, job, topic, body, created, due, attempts, error, settled, tried, m, sum FROM " +
	"message "

// onDamage decides about a damaged message: nil keeps it, errLeaveOut omits it, and any other error ends the read.
type onDamage func(m *job.Message, err error) error

var errLeaveOut = errors.New("left out")

func refuse(_ *job.Message, err error) error { return err }

func leaveOut(*job.Message, error) error { return errLeaveOut }

// showDamage is for lists, which show damaged messages too.
func showDamage(m *job.Message, err error) error {
	m.Error = err.Error()
	return nil
}

// messages reads all rows of a statement that begins with selectMessage.
func messages(s *conn.Stmt, on onDamage) ([]job.Message, error) {
	var found []job.Message
	for {
		row, err := s.Step()
		if !row || err != nil {
			return found, err
		}
		m := getMessage(s)
		if err := wholeMessage(s, &m); err != nil {
			if err = on(&m, err); errors.Is(err, errLeaveOut) {
				continue
			}
			if err != nil {
				s.Reset()
				return nil, err
			}
		}
		found = append(found, m)
	}
}

// getMessage reads the message under the cursor of selectMessage, without its deliveries.
func getMessage(s *conn.Stmt) job.Message {
	return job.Message{
		Number: s.GetInt(10), Key: s.GetText(0), Job: job.ID(s.GetText(1)), Topic: s.GetText(2), Body: s.GetBytes(3),
		Created: unixMicro(s.GetInt(4)), Due: unixMicro(s.GetInt(5)),
		Attempts: int(s.GetInt(6)), Error: s.GetText(7), Settled: settledOf(s.GetText(8)),
	}
}

// wholeMessage reads a message's deliveries and its checksum.
func wholeMessage(s *conn.Stmt, m *job.Message) error {
	tried := s.GetBytes(9)
	if !sumIs(s, 11, sumMessage(m, tried)) {
		return mismatch(m.Job, fmt.Sprintf("message %q", m.Key))
	}
	if tried != nil {
		if err := json.Unmarshal(tried, &m.Tried); err != nil {
			return damaged(m.Job, "message %q: its deliveries: %v", m.Key, err)
		}
	}
	return nil
}

// abandoned is the text of job.Abandoned in the database and in checksums.
const abandoned = "given-up"

func settledText(s job.Settled) string {
	if s == job.Abandoned {
		return abandoned
	}
	return string(s)
}

func settledOf(text string) job.Settled {
	if text == abandoned {
		return job.Abandoned
	}
	return job.Settled(text)
}

// listMessages are a reader's statements for lists of messages, newest first. Parameters: topic or NULL, settled or
// NULL, cursor, page size, job. The statement for pending ones reads only those, of which there are few.
const (
	filterMessages = "(?1 IS NULL OR topic = ?1) AND (?2 IS NULL OR coalesce(settled, '') = ?2) AND m < ?3 "
	listMessages   = selectMessage + "WHERE " + filterMessages + "ORDER BY m DESC LIMIT ?4"
	listJobs       = selectMessage + "WHERE job = ?5 AND " + filterMessages + "ORDER BY m DESC LIMIT ?4"
	listPending    = selectMessage + "INDEXED BY message_pending WHERE settled IS NULL AND " + filterMessages +
		"ORDER BY m DESC LIMIT ?4"
	listAbandoned = selectMessage + "WHERE settled = '" + abandoned + "' AND " + filterMessages +
		"ORDER BY m DESC LIMIT ?4"
)

// messageLists are the prepared statements.
type messageLists struct{ all, ofJob, pending, abandoned *conn.Stmt }

// Messages is part of job.Store.
func (s *Store) Messages(ctx context.Context, q job.MessageQuery) (page []job.Message, err error) {
	if err := s.applier.flush(ctx); err != nil {
		return nil, err
	}
	err = s.readDatabase(ctx, "outbox", q.Job, func(r *reader) (err error) {
		stmt := r.messages.all
		switch {
		case q.Job != "":
			stmt = r.messages.ofJob
			stmt.Text(5, string(q.Job))
		case q.Settled != nil && *q.Settled == job.Pending:
			stmt = r.messages.pending
		case q.Settled != nil && *q.Settled == job.Abandoned:
			stmt = r.messages.abandoned
		}
		stmt.TextOrNull(1, q.Topic)
		stmt.Null(2)
		if q.Settled != nil {
			stmt.Text(2, settledText(*q.Settled))
		}
		before := q.Before
		if before <= 0 {
			before = math.MaxInt64
		}
		stmt.Int(3, before)
		stmt.Int(4, int64(q.PageSize()))
		page, err = messages(stmt, showDamage)
		return err
	})
	return orNone(page, err)
}
