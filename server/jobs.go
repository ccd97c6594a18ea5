package server

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

func (s *Server) jobs(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	q := p.query()
	q.Parent = job.ID(p.Text("parent"))
	brief := p.Flag("brief")
	if err := p.Err(); err != nil {
		return err
	}
	return s.page(w, r, q, brief != nil && *brief)
}

func (s *Server) children(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	q, brief := p.query(), p.Flag("brief")
	if err := p.Err(); err != nil {
		return err
	}
	q.Parent = JobID(r)
	if _, err := s.Store.Get(r.Context(), q.Parent); err != nil {
		return err
	}
	return s.page(w, r, q, brief != nil && *brief)
}

// page answers with a page of jobs; brief leaves out specs and data.
func (s *Server) page(w http.ResponseWriter, r *http.Request, q job.Query, brief bool) error {
	if err := limit(r.Context(), &q); err != nil {
		return err
	}
	if err := s.CheckQuery(r.Context(), &q); err != nil {
		return err
	}
	page, err := s.Store.List(r.Context(), q)
	if err != nil {
		return err
	}
	page.Jobs = listed(page.Jobs)
	for i := range page.Jobs {
		page.Jobs[i] = s.redact(page.Jobs[i])
		if brief {
			page.Jobs[i].Spec, page.Jobs[i].Data = nil, nil
		}
	}
	return Reply(w, api.Page{Jobs: page.Jobs, Next: page.Next})
}

func JobID(r *http.Request) job.ID { return job.ID(r.PathValue("id")) }

func (s *Server) job(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	j, err := s.Store.Get(r.Context(), JobID(r))
	if err != nil {
		return err
	}
	v := s.View(j)
	if v.Undelivered, err = s.undelivered(r.Context(), j.ID); err != nil {
		return err
	}
	return ReplyJob(w, r, http.StatusOK, j.Version, v)
}

// View is a record with what can be done about it.
func (s *Server) View(j job.Job) api.Job {
	self := "/api/v1/jobs/" + url.PathEscape(string(j.ID))
	record, page := s.presented(j)
	v := api.Job{Job: record, Can: map[string][]lifecycle.Event{}, Links: map[string]string{
		"self": self, "history": self + "/history", "tasks": self + "/tasks", "log": self + "/log", "why": self +
			"/why",
		"diagram": self + "/diagram.svg", "events": self + "/events",
	}}
	if page != "" {
		v.Links["page"] = page
	}
	if j.Parent != "" {
		v.Links["parent"] = "/api/v1/jobs/" + url.PathEscape(string(j.Parent))
	}
	if j.Children.Expected > 0 {
		v.Links["children"] = self + "/children"
	}
	if life := s.Engine.Life(j.Kind); life != nil {
		for _, by := range []lifecycle.Actor{lifecycle.Operator, lifecycle.Owner} {
			v.Can[by.String()] = listed(life.Can(j.Position, by))
		}
		v.Links["lifecycle"] = "/api/v1/lifecycles/" + url.PathEscape(string(j.Kind))
	}
	if p, ok := s.Engine.Progress(j.ID); ok {
		v.Progress = &p
	}
	return v
}

func (s *Server) history(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	after, limit := p.PageFrom()
	if err := p.Err(); err != nil {
		return err
	}
	limit = cmp.Or(limit, MostPage)
	h, err := s.Store.History(r.Context(), JobID(r), after, limit)
	if err != nil {
		return err
	}
	answer := api.History{History: append([]job.Event{}, h...)}
	withhold(r.Context(), answer.History)
	if n := len(h); n > 0 {
		answer.Next = NextPage(n, limit, h[n-1].Seq)
	}
	return Reply(w, answer)
}

func (s *Server) tasks(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	j, err := s.Store.Get(r.Context(), JobID(r))
	if err != nil {
		return err
	}
	t, err := s.Store.Tasks(r.Context(), JobID(r))
	if err != nil {
		return err
	}
	answer := api.Tasks{Tasks: listed(t)}
	by, _, err := ActorOf(r, "", "")
	if err != nil {
		return err
	}
	may := s.Permits(r, http.MethodPost, "/api/v1/jobs/{id}/tasks/retry")
	for i := range t {
		if _, err := s.Engine.Again(&j, &t[i], by); may && err == nil {
			answer.Retry = append(answer.Retry, t[i].Name)
		}
	}
	return Reply(w, answer)
}

func (s *Server) log(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	offset, limit, tail := p.Number("offset", 0, 1<<62), p.Number("limit", 1, 10_000), p.Number("tail", 1, 10_000)
	if tail > 0 && (offset > 0 || limit > 0) {
		p.Wrong("tail goes without offset and limit")
	}
	if err := p.Err(); err != nil {
		return err
	}
	if _, err := s.Store.Get(r.Context(), JobID(r)); err != nil {
		return err
	}
	if s.Logs == nil {
		return Reply(w, api.Log{Lines: []api.Line{}})
	}
	read := func() (api.Log, error) { return s.Logs.Read(JobID(r), offset, int(limit)) }
	if tail > 0 {
		read = func() (api.Log, error) { return s.Logs.Tail(JobID(r), int(tail)) }
	}
	c, err := read()
	if err != nil {
		return err
	}
	return Reply(w, c)
}

func (s *Server) why(w http.ResponseWriter, r *http.Request) error {
	p := Params(r)
	at := p.time("at")
	if err := p.Err(); err != nil {
		return err
	}
	x, err := s.explainer.Why(r.Context(), JobID(r), at)
	if err != nil {
		return err
	}
	if at.IsZero() {
		if err := errors.Join(s.explainParts(r.Context(), &x), s.whyUndelivered(r.Context(), &x)); err != nil {
			return err
		}
	}
	owner := ""
	if j, err := s.Store.Get(r.Context(), x.Job); err == nil {
		j = s.redact(j)
		owner, x.Title, x.Object = j.Owner, j.Title, j.Object
	}
	withhold(r.Context(), x.Chain)
	s.offer(r.Context(), &x, owner)
	x.Blockers = listed(x.Blockers)
	x.Not = listed(x.Not)
	x.Moves = listed(x.Moves)
	return Reply(w, x)
}

// expected answers when a job should end.
func (s *Server) expected(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	x, err := s.Expect(r.Context(), JobID(r))
	if err != nil {
		return err
	}
	return Reply(w, x)
}

// Expect states when a job should end, as far as that is known. Who may see the job is decided before.
func (s *Server) Expect(ctx context.Context, id job.ID) (api.Expected, error) {
	return s.explainer.Expect(ctx, id)
}

func (s *Server) counts(w http.ResponseWriter, r *http.Request) error {
	if err := Params(r).Err(); err != nil {
		return err
	}
	c, err := s.Store.Count(r.Context())
	if err != nil {
		return err
	}
	return Reply(w, api.Counts{Counts: listed(c)})
}
