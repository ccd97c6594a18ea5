package mem

import (
	"slices"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
	"github.com/stagepost/stagepost/store/internal/rules"
)

// records is the store as its ledger uses it. All methods are called under the lock.
type records Store

var _ ledger.Records = (*records)(nil)

// Read is part of ledger.Records.
func (r *records) Read(n *rules.Needs, k *rules.Known) error {
	for _, id := range n.Jobs {
		r.read(id, k)
	}
	for _, of := range n.Keys {
		if id, found := r.keys[key{of.Kind, of.Owner, of.Key}]; found {
			r.read(id, k)
		}
	}
	for _, text := range n.Messages {
		r.rows++
		if m := r.messages[text]; m != nil {
			k.AddMessage(*m)
		}
	}
	for _, of := range n.Unsent {
		if text := r.unsent(of); text != "" {
			k.AddUnsent(of, text)
		}
	}
	for _, of := range n.Children {
		k.AddChildren(of, r.children(of, n.Most))
	}
	return nil
}

func (r *records) read(id job.ID, k *rules.Known) {
	if k.Has(id) {
		return
	}
	if j, err := r.job(id); err == nil {
		k.Add(&j)
	}
}

// Write is part of ledger.Records.
func (r *records) Write(w *rules.Writes) error {
	for _, j := range w.Jobs {
		switch {
		case j.After == nil:
			r.purge(j.Before)
			continue
		case j.Before == nil:
			r.insert(j.After)
		default:
			r.update(j.After)
		}
		if j.Event != nil {
			r.append(j.Event)
		}
		for i := range j.Tasks {
			r.putTask(j.After.ID, &j.Tasks[i])
		}
	}
	for i := range w.Messages {
		r.putMessage(&w.Messages[i])
	}
	r.rows += int64(len(w.Audits))
	r.audit = append(r.audit, w.Audits...)
	for i := range w.Audits {
		if w.Audits[i].OfHold() {
			r.held = append(r.held, w.Audits[i])
		}
	}
	return nil // the ledger has the holds
}

func (r *records) job(id job.ID) (job.Job, error) {
	r.rows++
	j, ok := r.jobs[id]
	if !ok {
		return j, job.Errorf(job.NotFound, "get", id, "there is no such job")
	}
	return j, nil
}

func (r *records) insert(j *job.Job) {
	r.rows++
	r.jobs[j.ID] = *j
	r.lastRow++
	r.place[j.ID] = r.lastRow
	r.order = append(r.order, row{r.lastRow, j.ID})
	r.words.replace(int64(r.lastRow), "", j.Words)
	r.ends.Replace(nil, j, int64(r.lastRow))
	at, _ := slices.BinarySearch(r.ids, j.ID)
	r.ids = slices.Insert(r.ids, at, j.ID)
	if j.Parent != "" {
		if r.family[j.Parent] == nil {
			r.family[j.Parent] = map[job.ID]struct{}{}
		}
		r.family[j.Parent][j.ID] = struct{}{}
	}
	r.numbers[number{j.Kind, j.Number}] = j.ID
	if j.Key != "" {
		r.keys[key{j.Kind, j.Owner, j.Key}] = j.ID
	}
}

func (r *records) update(after *job.Job) {
	r.rows++
	before, row := r.jobs[after.ID], int64(r.place[after.ID])
	r.words.replace(row, before.Words, after.Words)
	r.ends.Replace(&before, after, row)
	r.jobs[after.ID] = *after
}

func (r *records) append(e *job.Event) {
	r.rows++
	r.history[e.Job] = append(r.history[e.Job], *e)
}

func (r *records) putTask(id job.ID, t *job.Task) {
	r.rows++
	if r.tasks[id] == nil {
		r.tasks[id] = map[string]job.Task{}
	}
	one := *t
	one.Data = slices.Clone(t.Data)
	r.tasks[id][t.Name] = one
}
