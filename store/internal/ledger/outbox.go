package ledger

import (
	"slices"

	"github.com/stagepost/stagepost/job"
)

// Outbox implements job.Store except for lists of all jobs' messages, which a store implements itself.
func (l *Ledger) Outbox(r Records, c *job.OutboxCall) ([]job.Message, error) {
	if c.Job != "" {
		return r.Messages(c, c.Job)
	}
	again, err := replay(r, c)
	if err != nil {
		return nil, err
	}
	if err := settle(r, c.Settle); err != nil {
		return nil, err
	}
	for i := range again {
		if err := r.PutMessage(&again[i]); err != nil {
			return nil, err
		}
	}
	if c.Take == 0 {
		return again, nil
	}
	taken, err := r.Messages(c, "")
	if err != nil {
		return nil, err
	}
	for i := range taken {
		taken[i].Attempts++
		taken[i].Due = c.Now.Add(c.Lease)
		if err := r.PutMessage(&taken[i]); err != nil {
			return nil, err
		}
	}
	return taken, nil
}

// settle records the results of messages. It ignores a message that is settled.
func settle(r Records, messages []job.Message) error {
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

// replay returns the messages to be delivered again, as they are to be written.
func replay(r Records, c *job.OutboxCall) ([]job.Message, error) {
	var again []job.Message
	for _, key := range c.Replay {
		m, err := r.Message(key)
		switch {
		case err != nil:
			return nil, err
		case m == nil:
			return nil, job.Errorf(job.NotFound, "replay", "", "no message %q", key)
		case m.Settled == job.Pending:
			return nil, job.Errorf(job.Conflict, "replay", m.Job, "message %q is still pending", key)
		}
		m.Settled, m.Attempts, m.Due = job.Pending, 0, c.Now
		again = append(again, *m)
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
		m.Number = l.posted + 1
		if err := r.PutMessage(&m); err != nil {
			return err
		}
		l.posted++
	}
	return nil
}
