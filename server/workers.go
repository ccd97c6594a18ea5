package server

import (
	"cmp"
	"net/http"
	"slices"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// workerPages bounds what one list of workers reads: 10,000 jobs.
const workerPages = 10

// workers lists who has jobs: of the states in which jobs are claimed, the jobs are read.
func (s *Server) workers(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	tallies, err := s.Store.Count(r.Context())
	if err != nil {
		return err
	}
	answer := api.Workers{At: s.Engine.Clock().Now(), Workers: []api.WorkerJobs{}}
	claimed := map[job.KindState]bool{}
	q := job.Query{Limit: MostPage, Oldest: true}
	for _, t := range tallies {
		at := job.KindState{Kind: t.Kind, State: t.State}
		if t.Claimed == 0 || claimed[at] {
			continue
		}
		claimed[at] = true
		if !slices.Contains(q.Kinds, t.Kind) {
			q.Kinds = append(q.Kinds, t.Kind)
		}
		if !slices.Contains(q.States, t.State) {
			q.States = append(q.States, t.State)
		}
	}
	if len(claimed) == 0 {
		return Reply(w, answer)
	}
	found := map[string]*api.WorkerJobs{}
	for range workerPages {
		page, err := s.Store.List(r.Context(), q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			addWorker(found, &page.Jobs[i], &answer)
		}
		q.After, answer.Cut = page.Next, page.Next != ""
		if !answer.Cut {
			break
		}
	}
	for _, one := range found {
		slices.Sort(one.Kinds)
		answer.Workers = append(answer.Workers, *one)
	}
	slices.SortFunc(answer.Workers, func(a, b api.WorkerJobs) int {
		return cmp.Or(cmp.Compare(b.Expired, a.Expired), cmp.Compare(a.Worker, b.Worker))
	})
	return Reply(w, answer)
}

func addWorker(found map[string]*api.WorkerJobs, j *job.Job, answer *api.Workers) {
	if !j.Claimed() {
		return
	}
	one := found[j.Worker]
	if one == nil {
		one = &api.WorkerJobs{Worker: j.Worker, Sample: j.ID, Oldest: j.Entered, Until: j.Until}
		found[j.Worker] = one
	}
	one.Jobs++
	if !j.Until.After(answer.At) {
		one.Expired++
		one.Sample = j.ID
	}
	if !slices.Contains(one.Kinds, j.Kind) {
		one.Kinds = append(one.Kinds, j.Kind)
	}
	if j.Entered.Before(one.Oldest) {
		one.Oldest = j.Entered
	}
	if j.Until.Before(one.Until) {
		one.Until = j.Until
	}
}
