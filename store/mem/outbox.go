package mem

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

// Take is part of job.Store.
func (s *Store) Take(ctx context.Context, t job.Taking) ([]job.Message, error) {
	return do(s, ctx, func() ([]job.Message, error) { return ledger.OwnedMessages(s.ledger.Take((*records)(s), &t)) })
}

// Settle is part of job.Store.
func (s *Store) Settle(ctx context.Context, messages ...job.Message) error {
	_, err := do(s, ctx, func() (bool, error) { return true, s.ledger.Settle((*records)(s), messages) })
	return err
}

// Replay is part of job.Store.
func (s *Store) Replay(ctx context.Context, now time.Time, keys ...string) ([]job.Message, error) {
	return do(s, ctx, func() ([]job.Message, error) {
		return ledger.OwnedMessages(s.ledger.Replay((*records)(s), now, keys))
	})
}

// Messages is part of job.Store.
func (s *Store) Messages(ctx context.Context, q job.MessageQuery) ([]job.Message, error) {
	return do(s, ctx, func() ([]job.Message, error) {
		var page []job.Message
		for _, k := range slices.Backward(s.posted) {
			if len(page) == q.PageSize() {
				break
			}
			s.rows++
			if m := s.messages[k]; m != nil && q.Matches(m) {
				page = append(page, *m)
			}
		}
		return ledger.OwnedMessages(page, nil)
	})
}

// Due is part of ledger.Records.
func (r *records) Due(t *job.Taking) ([]job.Message, error) {
	var found []job.Message
	for _, m := range r.due {
		if m.Due.After(t.Now) || len(found) >= t.N {
			break
		}
		r.rows++
		if t.Selects(m.Topic) {
			found = append(found, *m)
		}
	}
	return found, nil
}

// schedule enters a pending message into the order of Due, or removes it.
func (r *records) schedule(m *job.Message, pending bool) {
	at, found := slices.BinarySearchFunc(r.due, m, func(a, b *job.Message) int {
		return cmp.Or(a.Due.Compare(b.Due), cmp.Compare(a.Number, b.Number))
	})
	switch {
	case pending && !found:
		r.due = slices.Insert(r.due, at, m)
	case !pending && found:
		r.due = slices.Delete(r.due, at, at+1)
	}
}

// unsent returns the key of a pending message of a job, or "".
func (r *records) unsent(id job.ID) string {
	for _, k := range r.letters[id] {
		r.rows++
		if m := r.messages[k]; m.Settled == job.Pending {
			return m.Key
		}
	}
	return ""
}

func (r *records) putMessage(m *job.Message) {
	r.rows++
	if old := r.messages[m.Key]; old != nil {
		r.schedule(old, false)
	} else {
		r.slots[m.Key] = len(r.posted)
		r.posted = append(r.posted, m.Key)
		r.letters[m.Job] = append(r.letters[m.Job], m.Key)
	}
	copied := *m
	r.messages[m.Key] = &copied
	if m.Settled == job.Pending {
		r.schedule(&copied, true)
	}
}
