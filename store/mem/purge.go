package mem

import (
	"slices"

	"github.com/stagepost/stagepost/job"
)

// children counts the jobs whose parent is a job, up to a number.
func (r *records) children(parent job.ID, most int) int {
	r.rows++
	return min(len(r.family[parent]), most)
}

// purge removes a job and its messages. It leaves its position in the order empty, so that cursors stay valid.
func (r *records) purge(j *job.Job) {
	r.rows++
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
	if delete(r.family[j.Parent], j.ID); len(r.family[j.Parent]) == 0 {
		delete(r.family, j.Parent)
	}
	for _, k := range r.letters[j.ID] {
		r.rows++
		r.leave(r.messages[k])
		delete(r.messages, k)
	}
	delete(r.letters, j.ID)
}
