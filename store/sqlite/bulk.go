package sqlite

import (
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/rules"
)

// Read is part of ledger.Records. Most records are in the cache.
func (r *records) Read(n *rules.Needs, k *rules.Known) error {
	for _, id := range n.Jobs {
		r.know(k, id, rules.Key{})
	}
	for _, key := range n.Keys {
		id, err := r.keyed(key.Kind, key.Owner, key.Key)
		if err != nil {
			return err
		}
		if id != "" {
			r.know(k, id, key)
		}
	}
	for _, key := range n.Messages {
		m, err := r.message(key)
		if err != nil {
			return err
		}
		if m != nil {
			k.AddMessage(*m)
		}
	}
	for _, id := range n.Unsent {
		key, err := r.pending(id)
		if err != nil {
			return err
		}
		if key != "" {
			k.AddUnsent(id, key)
		}
	}
	for _, id := range n.Children {
		count, err := r.children(id, n.Most)
		if err != nil {
			return err
		}
		k.AddChildren(id, count)
	}
	return nil
}

// know adds a job to what is known: its record in the cache, which does not change before the writes are made.
func (r *records) know(k *rules.Known, id job.ID, key rules.Key) {
	if key == (rules.Key{}) && k.Has(id) {
		return
	}
	e, err := r.find(id)
	switch {
	case err != nil:
		k.AddUnreadable(id, key, err)
	case e != nil:
		k.Add(&e.job)
	}
}

// Write is part of ledger.Records. After the first error, the transaction cannot be committed.
func (r *records) Write(w *rules.Writes) error {
	for _, j := range w.Jobs {
		if err := r.write(w, j); err != nil {
			return err
		}
	}
	for i := range w.Messages {
		if err := r.putMessage(&w.Messages[i]); err != nil {
			return err
		}
	}
	for i := range w.Audits {
		if err := r.enter(&w.Audits[i]); err != nil {
			return err
		}
	}
	for i := range w.Put {
		if err := r.putHold(&w.Put[i]); err != nil {
			return err
		}
	}
	for _, scope := range w.Released {
		if err := r.dropHold(scope); err != nil {
			return err
		}
	}
	return nil
}

// write writes a record with its history entry and tasks.
func (r *records) write(w *rules.Writes, j *rules.JobWrite) error {
	if j.After == nil {
		return r.purgeJob(j.Before, lastNumbers{w.Number(j.Before.Kind), w.Counters.Posted})
	}
	if j.Before == nil {
		if err := r.insertJob(j.After); err != nil {
			return err
		}
	}
	if j.Event != nil {
		if err := r.appendEvent(j.Event); err != nil {
			return err
		}
	}
	for i := range j.Tasks {
		if err := r.putTask(j.After.ID, &j.Tasks[i]); err != nil {
			return err
		}
	}
	if j.Before == nil {
		return nil
	}
	return r.update(j.Before, j.After)
}
