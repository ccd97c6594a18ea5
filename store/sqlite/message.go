package sqlite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

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
	err = s.read(ctx, "outbox", q.Job, func(r *reader) (err error) {
		newer := r.view.messages()
		page, err = r.list(&q, q.PageSize()+len(newer)) // so many may be older versions
		if err == nil && len(newer) > 0 {
			page, err = merge(page, newer, &q)
		}
		return err
	})
	return orNone(page, err)
}

// list returns up to n messages of the database, newest first.
func (r *reader) list(q *job.MessageQuery, n int) ([]job.Message, error) {
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
	stmt.Int(4, int64(n))
	return messages(stmt, showDamage)
}

// merge replaces messages of the database by newer versions, adds those that it lacks, and returns a page.
func merge(page []job.Message, newer map[string]job.Message, q *job.MessageQuery) ([]job.Message, error) {
	page = slices.DeleteFunc(page, func(m job.Message) bool { _, is := newer[m.Key]; return is })
	for _, m := range newer {
		if !q.Matches(&m) {
			continue
		}
		if err := ownMessage(&m); err != nil {
			return nil, err
		}
		page = append(page, m)
	}
	slices.SortFunc(page, func(a, b job.Message) int { return cmp.Compare(b.Number, a.Number) })
	return page[:min(len(page), q.PageSize())], nil
}

// ownMessage makes a message share no memory with others and have the form in which it is read from the database.
func ownMessage(m *job.Message) error {
	m.Body, m.Created, m.Due = ownBytes(m.Body), stored(m.Created), stored(m.Due)
	if len(m.Tried) == 0 {
		m.Tried = nil
		return nil
	}
	text, err := json.Marshal(m.Tried)
	if err != nil {
		return err
	}
	m.Tried = nil
	return json.Unmarshal(text, &m.Tried)
}
