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

// The statements of a reader for lists of messages, newest first.
const (
	listMessages = selectMessage + "WHERE m < ?1 ORDER BY m DESC LIMIT ?2"
	oneMessage   = selectMessage + "WHERE m = ?1"
	listOfJob    = selectMessage + "WHERE job = ?1 AND (?2 IS NULL OR topic = ?2) AND " +
		"(?3 IS NULL OR coalesce(settled, '') = ?3) AND m < ?4 ORDER BY m DESC LIMIT ?5"
	findMessages = "SELECT m FROM message INDEXED BY message_list " +
		"WHERE topic = ?1 AND settled IS ?2 AND m < ?3 ORDER BY m DESC LIMIT ?4"
	findTopic = "SELECT topic FROM message INDEXED BY message_list WHERE topic > ?1 ORDER BY topic LIMIT 1"
)

// messageLists are the prepared statements.
type messageLists struct{ all, one, ofJob, find, topic *conn.Stmt }

// topicsOf returns topics in order by a statement that gives the next one after its parameter. Its cost is that of a
// search for each.
func topicsOf(next *conn.Stmt) ([]string, error) {
	all := []string{""} // which no search gives
	for {
		next.Text(1, all[len(all)-1])
		row, err := next.Step()
		if err != nil {
			return nil, err
		}
		if !row {
			return all, nil
		}
		all = append(all, next.GetText(0))
		next.Reset()
	}
}

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
func (r *reader) list(q *job.MessageQuery, n int) (found []job.Message, err error) {
	before := q.Before
	if before <= 0 {
		before = math.MaxInt64
	}
	switch stmt := r.messages.all; {
	case q.Job != "":
		stmt = r.messages.ofJob
		stmt.Text(1, string(q.Job))
		stmt.TextOrNull(2, q.Topic)
		stmt.Null(3)
		if q.Settled != nil {
			stmt.Text(3, settledText(*q.Settled))
		}
		stmt.Int(4, before)
		stmt.Int(5, int64(n))
		return messages(stmt, showDamage)
	case q.Topic == "" && q.Settled == nil:
		stmt.Int(1, before)
		stmt.Int(2, int64(n))
		return messages(stmt, showDamage)
	}
	err = r.inSnapshot(func() error {
		found, err = r.listBy(q, before, n)
		return err
	})
	return found, err
}

// listBy is list for messages of a topic, settled in some way, or both. It merges the newest of each topic and way.
func (r *reader) listBy(q *job.MessageQuery, before int64, n int) (found []job.Message, err error) {
	topics, ways := []string{q.Topic}, []job.Settled{job.Pending, job.Delivered, job.Abandoned}
	if q.Topic == "" {
		if topics, err = topicsOf(r.messages.topic); err != nil {
			return nil, err
		}
	}
	if q.Settled != nil {
		ways = []job.Settled{*q.Settled}
	}
	var newest []int64
	for _, topic := range topics {
		for _, way := range ways {
			stmt := r.messages.find
			stmt.Text(1, topic)
			stmt.TextOrNull(2, settledText(way))
			stmt.Int(3, before)
			stmt.Int(4, int64(n))
			for {
				row, err := stmt.Step()
				if err != nil {
					return nil, err
				}
				if !row {
					break
				}
				newest = append(newest, stmt.GetInt(0))
			}
		}
	}
	slices.SortFunc(newest, func(a, b int64) int { return cmp.Compare(b, a) })
	for _, m := range newest[:min(n, len(newest))] {
		r.messages.one.Int(1, m)
		one, err := messages(r.messages.one, showDamage)
		if err != nil {
			return nil, err
		}
		found = append(found, one...)
	}
	return found, nil
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
