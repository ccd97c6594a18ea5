package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/sqlite/conn"
)

const selectMessage = "SELECT key, job, topic, body, created, due, attempts, error, settled, tried, m FROM message "

// messages reads all rows of a statement that begins with selectMessage.
func messages(s *conn.Stmt) ([]job.Message, error) {
	var found []job.Message
	for {
		row, err := s.Step()
		if !row || err != nil {
			return found, err
		}
		m := job.Message{
			Number: s.GetInt(10), Key: s.GetText(0), Job: job.ID(s.GetText(1)), Topic: s.GetText(2), Body: s.GetBytes(3),
			Created: unixMicro(s.GetInt(4)), Due: unixMicro(s.GetInt(5)),
			Attempts: int(s.GetInt(6)), Error: s.GetText(7), Settled: job.Settled(s.GetText(8)),
		}
		if tried := s.GetBytes(9); tried != nil {
			if err := json.Unmarshal(tried, &m.Tried); err != nil {
				s.Reset()
				return nil, fmt.Errorf("message %q: its deliveries: %w", m.Key, err)
			}
		}
		found = append(found, m)
	}
}

// listMessages are a reader's statements for lists of messages, the newest first. Parameters: topic or nothing, settled or nothing, cursor,
// page size, job. The one that asks for pending ones reads only those, of which there are few.
const (
	filterMessages = "(?1 IS NULL OR topic = ?1) AND (?2 IS NULL OR coalesce(settled, '') = ?2) AND m < ?3 "
	listMessages   = selectMessage + "WHERE " + filterMessages + "ORDER BY m DESC LIMIT ?4"
	listJobs       = selectMessage + "WHERE job = ?5 AND " + filterMessages + "ORDER BY m DESC LIMIT ?4"
	listPending    = selectMessage + "INDEXED BY message_pending WHERE settled IS NULL AND " + filterMessages + "ORDER BY m DESC LIMIT ?4"
	listGivenUp    = selectMessage + "WHERE settled = 'given-up' AND " + filterMessages + "ORDER BY m DESC LIMIT ?4"
)

// messageLists are the prepared ones.
type messageLists struct{ all, ofJob, pending, givenUp *conn.Stmt }

// messagesOf gives a page of messages.
func (s *Store) messagesOf(ctx context.Context, q *job.MessageQuery) (page []job.Message, err error) {
	err = s.read(ctx, "outbox", q.Job, func(r *reader) (err error) {
		stmt := r.messages.all
		switch {
		case q.Job != "":
			stmt = r.messages.ofJob
			stmt.Text(5, string(q.Job))
		case q.Settled != nil && *q.Settled == job.Pending:
			stmt = r.messages.pending
		case q.Settled != nil && *q.Settled == job.GivenUp:
			stmt = r.messages.givenUp
		}
		stmt.TextOrNull(1, q.Topic)
		stmt.Null(2)
		if q.Settled != nil {
			stmt.Text(2, string(*q.Settled))
		}
		before := q.Before
		if before <= 0 {
			before = math.MaxInt64
		}
		stmt.Int(3, before)
		stmt.Int(4, int64(q.PageSize()))
		page, err = messages(stmt)
		return err
	})
	return orNone(page, err)
}
