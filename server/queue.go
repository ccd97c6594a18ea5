package server

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// oldBatch is the age from which an open batch is worth a warning (document 003).
const oldBatch = 24 * time.Hour

// queue sums up the tallies: its cost does not depend on the number of jobs.
func (s *Server) queue(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	kinds, group, ended := p.kinds(), p.Text("group"), p.Flag("ended")
	if err := p.Err(); err != nil {
		return err
	}
	if err := s.CheckQuery(r.Context(), &job.Query{Kinds: kinds}); err != nil {
		return err
	}
	tallies, err := s.Store.Count(r.Context())
	if err != nil {
		return err
	}
	q := api.Queue{At: s.Engine.Clock().Now(), Rows: []job.Tally{}, States: []api.QueueTotal{}}
	for _, t := range tallies {
		if t.Jobs == 0 || len(kinds) > 0 && !slices.Contains(kinds, t.Kind) || group != "" && t.Group != group ||
			ended != nil && *ended != s.ended(t.Kind, t.State) {
			continue
		}
		q.Rows = append(q.Rows, t)
		i := slices.IndexFunc(q.States, func(o api.QueueTotal) bool { return o.Kind == t.Kind && o.State == t.State })
		if i < 0 {
			q.States = append(q.States, api.QueueTotal{Kind: t.Kind, State: t.State})
			i = len(q.States) - 1
		}
		for _, sum := range []*api.QueueTotal{&q.States[i], &q.Total} {
			sum.Jobs, sum.Claimed = sum.Jobs+t.Jobs, sum.Claimed+t.Claimed
			sum.Bytes += min(t.Bytes, math.MaxInt64-sum.Bytes)
		}
	}
	slices.SortFunc(q.Rows, func(a, b job.Tally) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), s.order(a.Kind, b.Kind, a.State, b.State))
	})
	slices.SortFunc(q.States, func(a, b api.QueueTotal) int { return s.order(a.Kind, b.Kind, a.State, b.State) })
	return Reply(w, q)
}

// ended reports whether a state is an end; of an unknown kind, none is.
func (s *Server) ended(k job.Kind, state lifecycle.State) bool {
	life := s.Life(k)
	return life != nil && life.Ended(state)
}

// order compares states by their kinds, then by their positions in the lifecycle.
func (s *Server) order(a, b job.Kind, of, with lifecycle.State) int {
	rank := func(state lifecycle.State) int {
		if life := s.Life(a); life != nil {
			return slices.IndexFunc(life.Stages(), func(st lifecycle.Stage) bool { return st.State == state })
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a, b), rank(of)-rank(with), cmp.Compare(of, with))
}

// queueBatches returns batches by age. Those that ended well, and tombstones, need no person: they are left out.
func (s *Server) queueBatches(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	q := job.Query{Group: p.Text("group"), Oldest: true}
	q.After, q.Limit = p.Page()
	all := p.Flag("all")
	if err := p.Err(); err != nil {
		return err
	}
	for _, k := range s.Engine.Kinds() {
		if !explain.IsBatch(k) {
			continue
		}
		q.Kinds = append(q.Kinds, k)
		for _, st := range s.Engine.Life(k).Stages() {
			over := st.Kind == lifecycle.End &&
				(st.Outcome == lifecycle.OK && (all == nil || !*all) || st.Outcome == lifecycle.None)
			if !over && !slices.Contains(q.States, st.State) {
				q.States = append(q.States, st.State)
			}
		}
	}
	answer := api.QueueBatches{At: s.Engine.Clock().Now(), Batches: []api.QueueBatch{}}
	if len(q.Kinds) == 0 {
		return Reply(w, answer)
	}
	page, err := s.Store.List(r.Context(), q)
	if err != nil {
		return err
	}
	for i := range page.Jobs {
		answer.Batches = append(answer.Batches, batchRow(&page.Jobs[i], answer.At))
	}
	answer.Next = page.Next
	return Reply(w, answer)
}

func batchRow(j *job.Job, now time.Time) api.QueueBatch {
	age := now.Sub(j.Created)
	b := api.QueueBatch{
		Job: j.ID, Kind: j.Kind, State: j.State, Outcome: j.Outcome, Group: j.Group, Owner: j.Owner, Created: j.Created,
		Seconds: int64(age / time.Second), Bytes: j.Bytes, Children: j.Children, Message: j.Message,
	}
	switch {
	case j.Outcome != lifecycle.None && j.Outcome != lifecycle.OK:
		b.Level = "FAIL"
	case !j.Ended && age > oldBatch:
		b.Level = "WARN"
	}
	return b
}

// queueHolds lists what is held: holds with the open jobs they concern, and jobs that were put aside.
func (s *Server) queueHolds(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	holds, err := s.Store.Holds(r.Context())
	if err != nil {
		return err
	}
	tallies, err := s.Store.Count(r.Context())
	if err != nil {
		return err
	}
	answer := api.QueueHolds{Holds: []api.QueueHold{}, Held: []job.Tally{}}
	for _, h := range holds {
		row := api.QueueHold{Hold: h}
		if row.Jobs, row.More, err = s.concerned(r, &h, tallies); err != nil {
			return err
		}
		answer.Holds = append(answer.Holds, row)
	}
	for _, t := range tallies {
		life := s.Engine.Life(t.Kind)
		if life == nil || t.Jobs == 0 {
			continue
		}
		if st, _ := life.Stage(t.State); st.Kind == lifecycle.Wait {
			answer.Held = append(answer.Held, t)
		}
	}
	slices.SortFunc(answer.Held, func(a, b job.Tally) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.State, b.State))
	})
	return Reply(w, answer)
}

// concerned counts the open jobs of a hold: by the tallies where these know its scope, else on one page of a list.
func (s *Server) concerned(r *http.Request, h *job.Hold, tallies []job.Tally) (n int64, more bool, err error) {
	if h.Owner == "" && h.Tag == "" && h.Job == "" {
		for _, t := range tallies {
			if (h.Kind == "" || h.Kind == t.Kind) && (h.State == "" || h.State == t.State) &&
				(h.Group == "" || h.Group == t.Group) && !s.ended(t.Kind, t.State) {
				n += t.Jobs
			}
		}
		return n, false, nil
	}
	live := false
	q := job.Query{Group: h.Group, Owner: h.Owner, Tag: h.Tag, Parent: h.Job, Ended: &live, Limit: 1000}
	if h.Kind != "" {
		q.Kinds = []job.Kind{h.Kind}
	}
	if h.State != "" {
		q.States = []lifecycle.State{h.State}
	}
	page, err := s.Store.List(r.Context(), q)
	if err != nil {
		return 0, false, err
	}
	n = int64(len(page.Jobs))
	if h.Job != "" {
		if j, err := s.Store.Get(r.Context(), h.Job); err == nil && !j.Ended && h.Matches(&j) {
			n++
		}
	}
	return n, page.Next != "", nil
}

// stuck answers with the stuck jobs.
func (s *Server) stuck(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	q := explain.StuckQuery{Kinds: p.kinds(), Limit: int(p.Number("limit", 1, MostPage))}
	if text := p.Text("factor"); text != "" {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || !(f >= 0.01 && f <= 1e6) {
			p.Wrong("factor must be a number from 0.01 to 1000000, not %.40q", text)
		}
		q.Factor = f
	}
	if err := p.Err(); err != nil {
		return err
	}
	report, err := s.explainer.Stuck(r.Context(), q)
	if err != nil {
		return err
	}
	return Reply(w, report)
}
