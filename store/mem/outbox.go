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
		var found []*job.Message
		if q.Job != "" {
			for _, k := range s.letters[q.Job] {
				found = append(found, s.messages[k])
			}
			found = slices.DeleteFunc(found, func(m *job.Message) bool { return !q.Matches(m) })
		} else {
			for p, all := range s.posted {
				if (q.Topic == "" || q.Topic == p.topic) && (q.Settled == nil || *q.Settled == p.settled) {
					found = append(found, newest(all, &q)...)
				}
			}
		}
		s.rows += int64(len(found))
		slices.SortFunc(found, func(a, b *job.Message) int { return cmp.Compare(b.Number, a.Number) })
		var page []job.Message
		for _, m := range found[:min(len(found), q.PageSize())] {
			page = append(page, *m)
		}
		return ledger.OwnedMessages(page, nil)
	})
}

// newest returns those of a list that may be on a page.
func newest(all []*job.Message, q *job.MessageQuery) []*job.Message {
	end := len(all)
	if q.Before > 0 {
		end, _ = slices.BinarySearchFunc(all, &job.Message{Number: q.Before}, byNumber)
	}
	return all[max(0, end-q.PageSize()):end]
}

func byNumber(a, b *job.Message) int { return cmp.Compare(a.Number, b.Number) }

func byDue(a, b *job.Message) int { return cmp.Or(a.Due.Compare(b.Due), byNumber(a, b)) }

// Due is part of ledger.Records.
func (r *records) Due(t *job.Taking) ([]job.Message, error) {
	var found []*job.Message
	for topic, all := range r.due {
		if t.Selects(topic) {
			end, _ := slices.BinarySearchFunc(all, t.Now, func(m *job.Message, now time.Time) int {
				if m.Due.After(now) {
					return 1
				}
				return -1
			})
			found = append(found, all[:min(end, t.N)]...)
		}
	}
	r.rows += int64(len(found))
	slices.SortFunc(found, byDue)
	due := make([]job.Message, min(len(found), t.N))
	for i := range due {
		due[i] = *found[i]
	}
	return due, nil
}

// enter adds a message to the lists that it belongs to.
func (r *records) enter(m *job.Message) {
	insert(r.posted, post{m.Topic, m.Settled}, m, byNumber)
	if m.Settled == job.Pending {
		insert(r.due, m.Topic, m, byDue)
	}
}

// leave removes a message from them.
func (r *records) leave(m *job.Message) {
	remove(r.posted, post{m.Topic, m.Settled}, m, byNumber)
	if m.Settled == job.Pending {
		remove(r.due, m.Topic, m, byDue)
	}
}

func insert[K comparable](lists map[K][]*job.Message, k K, m *job.Message, order func(a, b *job.Message) int) {
	at, _ := slices.BinarySearchFunc(lists[k], m, order)
	lists[k] = slices.Insert(lists[k], at, m)
}

func remove[K comparable](lists map[K][]*job.Message, k K, m *job.Message, order func(a, b *job.Message) int) {
	at, found := slices.BinarySearchFunc(lists[k], m, order)
	switch {
	case found && len(lists[k]) == 1:
		delete(lists, k)
	case found:
		lists[k] = slices.Delete(lists[k], at, at+1)
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
		r.leave(old)
	} else {
		r.letters[m.Job] = append(r.letters[m.Job], m.Key)
	}
	copied := *m
	r.messages[m.Key] = &copied
	r.enter(&copied)
}
