package rules

import (
	"slices"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Take leases due messages to a sender. due are those that [job.Taking] selects, in order; they become the answer.
func Take(w *Writes, t *job.Taking, due []job.Message) {
	for i := range due {
		due[i].Attempts++
		due[i].Due = t.Now.Add(t.Lease)
		w.put(due[i])
	}
}

// Settle records the results of deliveries.
func Settle(w *Writes, results []job.Message) error {
	if err := checkMessages("settle", results); err != nil {
		return err
	}
	for i := range results {
		r := &results[i]
		old := w.message(r.Key)
		if old == nil || old.Settled != job.Pending {
			continue
		}
		m := *old
		m.Settled, m.Error, m.Due, m.Attempts = r.Settled, r.Error, r.Due, r.Attempts
		if r.Tried != nil {
			m.Tried = slices.Clone(r.Tried[max(0, len(r.Tried)-job.MostTried):])
		}
		w.put(m)
	}
	return nil
}

// Replay schedules settled messages for delivery again, all or none, and returns them in the order of the keys, each
// once.
func Replay(w *Writes, now time.Time, keys []string) ([]job.Message, error) {
	again := make([]job.Message, 0, len(keys))
	var seen index[string]
	for _, key := range keys {
		if seen.find(key) >= 0 {
			continue
		}
		seen.add(key)
		m := w.message(key)
		switch {
		case m == nil:
			return nil, job.Errorf(job.NotFound, "replay", "", "no message %q", key)
		case m.Settled == job.Pending:
			return nil, job.Errorf(job.Conflict, "replay", m.Job, "message %q is still pending", key)
		}
		again = append(again, *m)
		one := &again[len(again)-1]
		one.Settled, one.Attempts, one.Due = job.Pending, 0, now
	}
	for i := range again {
		w.put(again[i])
	}
	return again, nil
}

// post adds messages and ignores those whose key exists.
func (w *Writes) post(messages []job.Message) {
	for i := range messages {
		if w.message(messages[i].Key) != nil {
			continue
		}
		m := messages[i]
		m.Own()
		w.Counters.Posted++
		m.Number = w.Counters.Posted
		w.put(m)
	}
}
