package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/rules"
)

// Hold is part of job.Store.
func (s *Store) Hold(ctx context.Context, h job.Hold) ([]job.Hold, error) {
	return s.changeHolds(ctx, "hold", func(w *rules.Writes) error { return rules.PutHold(w, h) })
}

// Release is part of job.Store.
func (s *Store) Release(ctx context.Context, h job.Hold) ([]job.Hold, error) {
	return s.changeHolds(ctx, "release", func(w *rules.Writes) error { return rules.Release(w, h) })
}

func (s *Store) changeHolds(ctx context.Context, name string, change func(*rules.Writes) error) ([]job.Hold,
	error) {
	var all []job.Hold
	o := &operation{needs: func(n *rules.Needs) { n.Hold() }, holds: exclusive}
	o.apply = func(b *batch) error {
		if err := change(b.writes); err != nil {
			return err
		}
		b.setHolds(b.writes.Holds)
		all = append([]job.Hold(nil), b.writes.Holds...)
		return nil
	}
	if err := s.do(ctx, name, o); err != nil {
		return nil, err
	}
	return all, nil
}

// Note is part of job.Store.
func (s *Store) Note(ctx context.Context, a job.Audit) error {
	o := &operation{needs: func(n *rules.Needs) { n.Note() }}
	o.apply = func(b *batch) error { return rules.Note(b.writes, a) }
	return s.do(ctx, "note", o)
}

// Take is part of job.Store.
func (s *Store) Take(ctx context.Context, t job.Taking) ([]job.Message, error) {
	var taken []job.Message
	o := &operation{}
	o.apply = func(b *batch) error {
		mine := t
		mine.Now = b.at(t.Now)
		due, err := b.due(&mine)
		if err != nil {
			return err
		}
		rules.Take(b.writes, &mine, due)
		taken = ownedMessages(due)
		return nil
	}
	if t.N <= 0 {
		return nil, nil
	}
	if err := s.do(ctx, "take", o); err != nil {
		return nil, err
	}
	return taken, nil
}

// Settle is part of job.Store.
func (s *Store) Settle(ctx context.Context, results ...job.Message) error {
	o := &operation{needs: func(n *rules.Needs) { n.Settle(results) }}
	o.apply = func(b *batch) error { return rules.Settle(b.writes, results) }
	return s.do(ctx, "settle", o)
}

// Replay is part of job.Store.
func (s *Store) Replay(ctx context.Context, now time.Time, keys ...string) ([]job.Message, error) {
	var again []job.Message
	o := &operation{needs: func(n *rules.Needs) { n.Replay(keys) }}
	o.apply = func(b *batch) error {
		list, err := rules.Replay(b.writes, b.at(now), keys)
		again = ownedMessages(list)
		return err
	}
	if err := s.do(ctx, "replay", o); err != nil {
		return nil, err
	}
	return again, nil
}

func ownedMessages(list []job.Message) []job.Message {
	all := make([]job.Message, len(list))
	for i := range list {
		all[i] = list[i]
		all[i].Own()
	}
	return all
}

const selectMessage = `SELECT m, key, job, topic, body, created, due, attempts, error, settled, tried FROM message `

func scanMessage(row pgx.CollectableRow) (m job.Message, err error) {
	var created, due int64
	var body []byte
	var tried string
	err = row.Scan(&m.Number, &m.Key, (*string)(&m.Job), &m.Topic, &body, &created, &due, &m.Attempts, &m.Error,
		(*string)(&m.Settled), &tried)
	if err != nil {
		return m, err
	}
	m.Key, m.Job, m.Topic, m.Error = pg.Original(m.Key), job.ID(pg.Original(string(m.Job))), pg.Original(m.Topic),
		pg.Original(m.Error)
	m.Body, m.Created, m.Due = body, moment(created), moment(due)
	if tried != "" {
		if err := json.Unmarshal([]byte(tried), &m.Tried); err != nil {
			return m, damaged(m.Job, "message %q: its deliveries: %v", m.Key, err)
		}
	}
	return m, nil
}

// triedText is the stored form of deliveries.
func triedText(tried []job.Attempt) string {
	if len(tried) == 0 {
		return ""
	}
	text, _ := json.Marshal(tried) // it has no marshal errors
	return string(text)
}

const (
	selectDue = selectMessage + `WHERE settled = '' AND topic = $1 AND due <= $2 AND NOT key = ANY ($3)
 ORDER BY due, m LIMIT $4 FOR UPDATE SKIP LOCKED`
	listMessages = selectMessage + `WHERE m < $1 ORDER BY m DESC LIMIT $2`
	listOfJob    = selectMessage + `WHERE job = $1 AND ($2 = '' OR topic = $2) AND ($3::text IS NULL OR settled = $3)
 AND m < $4 ORDER BY m DESC LIMIT $5`
	// the newest of each topic and way of settling are merged: one search of an index each
	listBy = selectMessage + `JOIN (SELECT found.m FROM unnest($1::text[]) AS t (topic) CROSS JOIN
 unnest($2::text[]) AS w (settled) CROSS JOIN LATERAL (SELECT m FROM message AS n WHERE n.topic = t.topic AND
 n.settled = w.settled AND n.m < $3 ORDER BY n.m DESC LIMIT $4) AS found ORDER BY found.m DESC LIMIT $4) AS page
 USING (m) ORDER BY m DESC`
)

// selectTopics returns a statement for the topics of messages, one search of an index each.
func selectTopics(where string) string {
	next := "SELECT topic FROM message WHERE " + where + " %s ORDER BY topic LIMIT 1"
	return "WITH RECURSIVE t AS ((" + fmt.Sprintf(next, "AND topic >= ''") + ") UNION ALL SELECT (" +
		fmt.Sprintf(next, "AND topic > t.topic") + ") FROM t WHERE topic IS NOT NULL) " +
		"SELECT topic FROM t WHERE topic IS NOT NULL"
}

// the topics of pending messages, and those of all
var selectPendingTopics, selectAllTopics = selectTopics("settled = ''"), selectTopics("true")

// due returns the pending messages that are taken, in the order of Due. Those that the transaction changed already are
// taken by another call.
func (b *batch) due(t *job.Taking) ([]job.Message, error) {
	if t.N <= 0 {
		return nil, nil
	}
	topics := storedAll(t.Topics)
	if len(topics) == 0 || t.Others {
		rows, err := b.q.Query(b.ctx, selectPendingTopics)
		if err != nil {
			return nil, err
		}
		if topics, err = collect(b.s, rows, pgx.RowTo[string]); err != nil {
			return nil, err
		}
		topics = slices.DeleteFunc(topics, func(topic string) bool { return !t.Selects(pg.Original(topic)) })
	}
	changed := []string{}
	for i := range b.writes.Messages {
		changed = append(changed, pg.Stored(b.writes.Messages[i].Key))
	}
	slices.Sort(topics)
	var found []job.Message
	for _, topic := range slices.Compact(topics) {
		rows, err := b.q.Query(b.ctx, selectDue, topic, micro(t.Now), changed, t.N)
		if err != nil {
			return nil, err
		}
		due, err := collect(b.s, rows, scanMessage)
		if err != nil {
			return nil, err
		}
		found = append(found, due...)
	}
	slices.SortFunc(found, func(a, b job.Message) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Number, b.Number))
	})
	return found[:min(t.N, len(found))], nil
}

// Messages is part of job.Store.
func (s *Store) Messages(ctx context.Context, q job.MessageQuery) (page []job.Message, err error) {
	before := q.Before
	if before <= 0 {
		before = math.MaxInt64
	}
	err = s.read(ctx, "outbox", q.Job, func(r *reader) (err error) {
		switch {
		case q.Job != "":
			var settled *string
			if q.Settled != nil {
				settled = new(string(*q.Settled))
			}
			page, err = all(r, scanMessage, listOfJob, pg.Stored(string(q.Job)), pg.Stored(q.Topic), settled, before,
				q.PageSize())
		case q.Topic == "" && q.Settled == nil:
			page, err = all(r, scanMessage, listMessages, before, q.PageSize())
		default:
			page, err = r.messagesBy(&q, before)
		}
		return err
	})
	return page, err
}

// messagesBy returns a page of messages of a topic, settled in some way, or both.
func (r *reader) messagesBy(q *job.MessageQuery, before int64) (page []job.Message, err error) {
	topics := []string{pg.Stored(q.Topic)}
	if q.Topic == "" {
		if topics, err = all(r, pgx.RowTo[string], selectAllTopics); err != nil {
			return nil, err
		}
	}
	ways := []string{string(job.Pending), string(job.Delivered), string(job.Abandoned)}
	if q.Settled != nil {
		ways = []string{string(*q.Settled)}
	}
	return all(r, scanMessage, listBy, topics, ways, before, q.PageSize())
}
