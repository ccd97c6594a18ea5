package server

import (
	"cmp"
	"context"
	"slices"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
)

// Bounds of a list of workers: the pages of jobs that it reads, and the jobs that it names of one worker.
const (
	claimPages  = 10
	mostRunning = 100
)

// addClaims adds to a list of workers what each has claimed, by the records, and the workers that are known by their
// claims only: those of other servers of the store, and those that have not sent a request since this server began.
func (s *Server) addClaims(ctx context.Context, answer *api.Workers) error {
	found := map[string]*api.WorkerInfo{}
	for i := range answer.Workers {
		w := &answer.Workers[i]
		if w.Where != "agent" { // the jobs of agents are claimed by their server
			w.Jobs, w.Running = 0, []job.ID{}
			found[w.Name] = w
		}
	}
	q, any, err := s.claimed(ctx)
	if err != nil || !any {
		return err
	}
	var others []*api.WorkerInfo
	for range claimPages {
		page, err := s.Store.List(ctx, q)
		if err != nil {
			return err
		}
		for i := range page.Jobs {
			j := &page.Jobs[i]
			if !j.Claimed() {
				continue
			}
			w := found[j.Worker]
			if w == nil {
				w = &api.WorkerInfo{Name: j.Worker, State: api.WorkerBusy, Where: "elsewhere", Running: []job.ID{},
					From: []job.KindState{}, Labels: []string{}}
				found[j.Worker] = w
				others = append(others, w)
			}
			addClaim(w, j, answer)
		}
		q.After, answer.Cut = page.Next, page.Next != ""
		if !answer.Cut {
			break
		}
	}
	for _, w := range others {
		if w.Expired > 0 {
			w.State = api.WorkerSilent
		}
		answer.Workers = append(answer.Workers, *w)
	}
	slices.SortStableFunc(answer.Workers, func(a, b api.WorkerInfo) int { return cmp.Compare(b.Expired, a.Expired) })
	return nil
}

// claimed is the query for the jobs of all states that have claimed ones; any reports whether there are some.
func (s *Server) claimed(ctx context.Context) (q job.Query, any bool, err error) {
	tallies, err := s.Store.Count(ctx)
	q = job.Query{Limit: MostPage, Oldest: true}
	for _, t := range tallies {
		if t.Claimed == 0 {
			continue
		}
		any = true
		if !slices.Contains(q.Kinds, t.Kind) {
			q.Kinds = append(q.Kinds, t.Kind)
		}
		if !slices.Contains(q.States, t.State) {
			q.States = append(q.States, t.State)
		}
	}
	return q, any, err
}

// addClaim adds a claimed job to its worker.
func addClaim(w *api.WorkerInfo, j *job.Job, answer *api.Workers) {
	if w.Jobs++; len(w.Running) < mostRunning {
		w.Running = append(w.Running, j.ID)
	}
	if !j.Until.After(answer.At) {
		w.Expired++
	}
	if !slices.Contains(w.Kinds, j.Kind) {
		w.Kinds = append(w.Kinds, j.Kind)
		slices.Sort(w.Kinds)
	}
	if w.Oldest.IsZero() || j.Entered.Before(w.Oldest) {
		w.Oldest = j.Entered
	}
	if w.Until.IsZero() || j.Until.Before(w.Until) {
		w.Until = j.Until
	}
}
