package mem

import (
	"context"
	"slices"

	"github.com/stagepost/stagepost/job"
)

// Outbox is part of job.Store.
func (s *Store) Outbox(ctx context.Context, call job.OutboxCall) ([]job.Message, error) {
	return do(s, ctx, func() ([]job.Message, error) {
		if call.List != nil {
			return s.messagesOf(call.List), nil
		}
		return s.ledger.Outbox((*records)(s), &call)
	})
}

// messagesOf returns a page of messages, newest first.
func (s *Store) messagesOf(q *job.MessageQuery) []job.Message {
	var page []job.Message
	for _, k := range slices.Backward(s.posted) {
		if m := s.messages[k]; q.Matches(m) && len(page) < q.PageSize() {
			page = append(page, *m)
		}
	}
	return page
}

func (r *records) Message(k string) (*job.Message, error) {
	m := r.messages[k]
	if m == nil {
		return nil, nil
	}
	copied := *m
	return &copied, nil
}

func (r *records) Messages(c *job.OutboxCall, id job.ID) ([]job.Message, error) {
	var found []job.Message
	for _, k := range r.posted {
		m := r.messages[k]
		wanted := m.Job == id
		if id == "" {
			wanted = m.Settled == job.Pending && !m.Due.After(c.Now) && c.Selects(m.Topic)
		}
		if wanted {
			found = append(found, *m)
		}
	}
	if id == "" {
		slices.SortStableFunc(found, func(a, b job.Message) int { return a.Due.Compare(b.Due) })
		found = found[:min(c.Take, len(found))]
	}
	return found, nil
}

func (r *records) PutMessage(m *job.Message) error {
	if r.messages[m.Key] == nil {
		r.posted = append(r.posted, m.Key)
	}
	copied := *m
	r.messages[m.Key] = &copied
	return nil
}
