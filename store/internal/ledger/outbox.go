package ledger

import (
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Take implements job.Store.
func (l *Ledger) Take(r Records, t *job.Taking) ([]job.Message, error) {
	taken, err := r.Due(t)
	if err != nil {
		return nil, err
	}
	for i := range taken {
		taken[i].Attempts++
		taken[i].Due = t.Now.Add(t.Lease)
		if err := r.PutMessage(&taken[i]); err != nil {
			return nil, err
		}
	}
	return taken, nil
}

// Settle implements job.Store.
func (l *Ledger) Settle(r Records, messages []job.Message) error {
	for i := range messages {
		s := &messages[i]
		m, err := r.Message(s.Key)
		if err != nil {
			return err
		}
		if m == nil || m.Settled != job.Pending {
			continue
		}
		m.Settled, m.Error, m.Due = s.Settled, s.Error, s.Due
		if s.Tried != nil {
			m.Tried = slices.Clone(s.Tried[max(0, len(s.Tried)-job.MostTried):])
		}
		if err := r.PutMessage(m); err != nil {
			return err
		}
	}
	return nil
}

// Replay implements job.Store.
func (l *Ledger) Replay(r Records, now time.Time, keys []string) ([]job.Message, error) {
	again := make([]job.Message, 0, len(keys))
	for _, key := range keys {
		m, err := r.Message(key)
		switch {
		case err != nil:
			return nil, err
		case m == nil:
			return nil, job.Errorf(job.NotFound, "replay", "", "no message %q", key)
		case m.Settled == job.Pending:
			return nil, job.Errorf(job.Conflict, "replay", m.Job, "message %q is still pending", key)
		}
		m.Settled, m.Attempts, m.Due = job.Pending, 0, now
		again = append(again, *m)
	}
	for i := range again {
		if err := r.PutMessage(&again[i]); err != nil {
			return nil, err
		}
	}
	return again, nil
}

// post adds messages and ignores those whose key exists.
func (l *Ledger) post(r Records, messages []job.Message) error {
	for i := range messages {
		old, err := r.Message(messages[i].Key)
		if err != nil {
			return err
		}
		if old != nil {
			continue
		}
		m := messages[i]
		m.Own()
		m.Number = l.posted + 1
		if err := r.PutMessage(&m); err != nil {
			return err
		}
		l.posted++
	}
	return nil
}
