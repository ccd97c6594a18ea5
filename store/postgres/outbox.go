package postgres

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/stagepost/stagepost/internal/pg"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/rules"
)

// Hold is part of job.Store.
func (s *Store) Hold(ctx context.Context, h job.Hold) ([]job.Hold, error) {
	return s.changeHolds(ctx, "hold", func(w *rules.Writes) error { rules.PutHold(w, h); return nil })
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
	o.apply = func(b *batch) error { rules.Settle(b.writes, results); return nil }
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
	selectDue = selectMessage + `WHERE settled = '' AND due <= $1 AND ($2::text[] IS NULL OR topic = ANY ($2) <> $3)
 AND NOT key = ANY ($4) ORDER BY due, m LIMIT $5 FOR UPDATE SKIP LOCKED`
	listMessages = selectMessage + `WHERE m < $1 AND ($2 = '' OR topic = $2)`
)

// due returns the pending messages that are taken, in the order of Due. Those that the transaction changed already are
// taken by another call.
func (b *batch) due(t *job.Taking) ([]job.Message, error) {
	var topics []string
	if len(t.Topics) > 0 {
		topics = storedAll(t.Topics)
	}
	changed := []string{}
	for i := range b.writes.Messages {
		changed = append(changed, pg.Stored(b.writes.Messages[i].Key))
	}
	rows, err := b.q.Query(b.ctx, selectDue, micro(t.Now), topics, t.Others, changed, t.N)
	if err != nil {
		return nil, err
	}
	return collect(b.s, rows, scanMessage)
}

// Messages is part of job.Store.
func (s *Store) Messages(ctx context.Context, q job.MessageQuery) (page []job.Message, err error) {
	before := q.Before
	if before <= 0 {
		before = math.MaxInt64
	}
	statement, args := listMessages, []any{before, pg.Stored(q.Topic), q.PageSize()}
	if q.Job != "" {
		args = append(args, pg.Stored(string(q.Job)))
		statement += " AND job = $4"
	}
	if q.Settled != nil { // as text, so that the partial indexes fit
		switch *q.Settled {
		case job.Pending:
			statement += " AND settled = ''"
		case job.Abandoned:
			statement += " AND settled = 'abandoned' AND settled <> 'delivered'"
		default:
			args = append(args, pg.Stored(string(*q.Settled)))
			statement += " AND settled = $" + string(rune('0'+len(args)))
		}
	}
	err = s.read(ctx, "outbox", q.Job, func(r *reader) error {
		page, err = all(r, scanMessage, statement+" ORDER BY m DESC LIMIT $3", args...)
		return err
	})
	return page, err
}
