package mem

import (
	"slices"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

func (r *records) HasJobs(parent *job.Job) (bool, error) {
	for _, j := range r.jobs {
		if j.Parent == parent.ID {
			return true, nil
		}
	}
	return false, nil
}

// Purge leaves the job's position in the order empty, so that cursors stay valid.
func (r *records) Purge(j *job.Job, _ ledger.Numbers) error {
	r.order[r.place[j.ID]] = ""
	delete(r.place, j.ID)
	delete(r.jobs, j.ID)
	delete(r.numbers, number{j.Kind, j.Number})
	delete(r.history, j.ID)
	delete(r.tasks, j.ID)
	if j.Key != "" {
		delete(r.keys, key{j.Kind, j.Owner, j.Key})
	}
	r.posted = slices.DeleteFunc(r.posted, func(k string) bool {
		if r.messages[k].Job != j.ID {
			return false
		}
		delete(r.messages, k)
		return true
	})
	return nil
}
