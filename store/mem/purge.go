package mem

import (
	"slices"

	"github.com/stagepost/stagepost/job"
)

// children counts the jobs whose parent is a job, up to a number.
func (r *records) children(parent job.ID, most int) (n int) {
	for _, j := range r.jobs {
		r.rows++
		if j.Parent == parent {
			n++
		}
		if n == most {
			break
		}
	}
	return n
}

// purge leaves the job's position in the order empty, so that cursors stay valid.
func (r *records) purge(j *job.Job) {
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
}
