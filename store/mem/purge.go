package mem

import (
	"slices"

	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/store/internal/ledger"
)

func (r *records) HasJobs(parent *job.Job) (bool, error) {
	for _, j := range r.jobs {
		r.rows++
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
	if at, found := slices.BinarySearch(r.ids, j.ID); found {
		r.ids = slices.Delete(r.ids, at, at+1)
	}
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
