package mem

import (
	"cmp"
	"slices"

	"github.com/stagepost/stagepost/job"
)

// children counts the jobs whose parent is a job, up to a number.
func (r *records) children(parent job.ID, most int) int {
	r.rows++
	return min(len(r.family[parent]), most)
}

// fewEmptied is how many rows without a job are never removed.
const fewEmptied = 16

// disorder removes a job from the order. Its row stays, empty, until half of the rows are.
func (r *records) disorder(id job.ID) {
	at, _ := slices.BinarySearchFunc(r.order, r.place[id], func(o row, n int) int { return cmp.Compare(o.n, n) })
	r.order[at].id = ""
	delete(r.place, id)
	if r.emptied++; r.emptied > fewEmptied && r.emptied > len(r.order)/2 {
		left := make([]row, 0, len(r.order)-r.emptied)
		for _, o := range r.order {
			if o.id != "" {
				left = append(left, o)
			}
		}
		r.order, r.emptied = left, 0
	}
}

// purge removes a job and its messages.
func (r *records) purge(j *job.Job) {
	r.rows++
	before, row := r.jobs[j.ID], int64(r.place[j.ID])
	r.words.replace(row, before.Words, "")
	r.ends.Replace(&before, nil, row)
	r.disorder(j.ID)
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
