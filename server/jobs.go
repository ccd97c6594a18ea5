package server

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/joblog"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

func (s *Server) jobs(w http.ResponseWriter, r *http.Request) error {
	p := read(r)
	q := p.query()
	if err := p.done(); err != nil {
		return err
	}
	return s.page(w, r, q)
}

func (s *Server) children(w http.ResponseWriter, r *http.Request) error {
	p := read(r)
	q := p.query()
	if q.Parent != "" {
		p.wrong("the parent stands in the path")
	}
	if err := p.done(); err != nil {
		return err
	}
	q.Parent = id(r)
	if _, err := s.store.Get(r.Context(), q.Parent); err != nil {
		return err
	}
	return s.page(w, r, q)
}

func (s *Server) page(w http.ResponseWriter, r *http.Request, q job.Query) error {
	if owner := boundTo(r.Context()); owner != "" {
		if q.Owner != "" && q.Owner != owner {
			return refuse(http.StatusForbidden, job.Refused, "a user sees its own jobs only")
		}
		q.Owner = owner
	}
	if err := s.names(r.Context(), &q); err != nil {
		return err
	}
	page, err := s.store.List(r.Context(), q)
	if err != nil {
		return err
	}
	if page.Jobs == nil {
		page.Jobs = []job.Job{}
	}
	for i := range page.Jobs {
		page.Jobs[i] = s.redact(page.Jobs[i])
	}
	return reply(w, client.Page{Jobs: page.Jobs, Next: page.Next})
}

func id(r *http.Request) job.ID { return job.ID(r.PathValue("id")) }

func (s *Server) job(w http.ResponseWriter, r *http.Request) error {
	if err := read(r).done(); err != nil {
		return err
	}
	j, err := s.store.Get(r.Context(), id(r))
	if err != nil {
		return err
	}
	v := s.view(j)
	if v.Undelivered, err = s.undelivered(r.Context(), j.ID); err != nil {
		return err
	}
	return reply(w, v)
}

// view is a record with what can be done about it.
func (s *Server) view(j job.Job) client.Job {
	self := "/api/jobs/" + url.PathEscape(string(j.ID))
	v := client.Job{Job: s.redact(j), Can: map[string][]lifecycle.Event{}, Links: map[string]string{
		"self": self, "history": self + "/history", "tasks": self + "/tasks", "log": self + "/log", "why": self + "/why",
		"diagram": self + "/diagram.svg", "events": self + "/events",
	}}
	if j.Parent != "" {
		v.Links["parent"] = "/api/jobs/" + url.PathEscape(string(j.Parent))
	}
	if j.Children.Expected > 0 {
		v.Links["children"] = self + "/children"
	}
	if life := s.Engine.Life(j.Kind); life != nil {
		for _, by := range []lifecycle.Actor{lifecycle.Operator, lifecycle.Owner} {
			can := life.Can(j.Position, by)
			if can == nil {
				can = []lifecycle.Event{}
			}
			v.Can[by.String()] = can
		}
		v.Links["lifecycle"] = "/api/lifecycles/" + url.PathEscape(string(j.Kind))
	}
	if p, ok := s.Engine.Progress(j.ID); ok {
		v.Progress = (*client.Progress)(&p)
	}
	return v
}

// history answers with the shape of client.History, whose entries differ from job.Event only in how their actor is read.
func (s *Server) history(w http.ResponseWriter, r *http.Request) error {
	p := read(r)
	after, limit := p.number("after", 0, 1<<62), p.number("limit", 1, 10_000)
	if err := p.done(); err != nil {
		return err
	}
	if limit == 0 {
		limit = 1000
	}
	h, err := s.store.History(r.Context(), id(r), after, int(limit))
	if err != nil {
		return err
	}
	if h == nil {
		h = []job.Event{}
	}
	return reply(w, struct {
		History []job.Event `json:"history"`
	}{h})
}

func (s *Server) tasks(w http.ResponseWriter, r *http.Request) error {
	if err := read(r).done(); err != nil {
		return err
	}
	if _, err := s.store.Get(r.Context(), id(r)); err != nil {
		return err
	}
	t, err := s.store.Tasks(r.Context(), id(r))
	if err != nil {
		return err
	}
	if t == nil {
		t = []job.Task{}
	}
	return reply(w, client.Tasks{Tasks: t})
}

func (s *Server) log(w http.ResponseWriter, r *http.Request) error {
	p := read(r)
	offset, limit := p.number("offset", 0, 1<<62), p.number("limit", 1, 10_000)
	if err := p.done(); err != nil {
		return err
	}
	if _, err := s.store.Get(r.Context(), id(r)); err != nil {
		return err
	}
	if s.Logs == nil {
		return reply(w, joblog.Chunk{Lines: []joblog.Line{}})
	}
	c, err := s.Logs.Read(id(r), offset, int(limit))
	if err != nil {
		return err
	}
	return reply(w, c)
}

func (s *Server) why(w http.ResponseWriter, r *http.Request) error {
	p := read(r)
	at := p.time("at")
	if err := p.done(); err != nil {
		return err
	}
	x, err := s.Engine.Why(r.Context(), id(r), at)
	if err != nil {
		return err
	}
	if at.IsZero() {
		if err := errors.Join(s.explain(r.Context(), &x), s.whyUndelivered(r.Context(), &x)); err != nil {
			return err
		}
	}
	if x.Blockers == nil {
		x.Blockers = []engine.Blocker{}
	}
	if x.Not == nil {
		x.Not = []string{}
	}
	if x.Moves == nil {
		x.Moves = []engine.Exit{}
	}
	return reply(w, x)
}

func (s *Server) counts(w http.ResponseWriter, r *http.Request) error {
	if err := read(r).done(); err != nil {
		return err
	}
	c, err := s.store.Count(r.Context())
	if err != nil {
		return err
	}
	if c == nil {
		c = []job.Tally{}
	}
	return reply(w, client.Counts{Counts: c})
}
