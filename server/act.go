package server

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server/problem"
)

// act causes an event. Every event of every lifecycle comes this way; the lifecycle decides.
func (s *Server) act(w http.ResponseWriter, r *http.Request) error {
	a, err := Body[api.Act](r, false)
	if err != nil {
		return err
	}
	by, actor, err := ActorOf(r, a.As, a.Actor)
	if err != nil {
		return err
	}
	if a.Version, err = VersionOf(r, a.Version); err != nil {
		return err
	}
	j, err := s.Engine.Do(r.Context(), operator.Act{
		Job: JobID(r), Event: lifecycle.Event(r.PathValue("event")), By: by,
		Actor: cmp.Or(actor, by.String()), Note: a.Note,
		Version: a.Version, Confirm: a.Confirm, Now: a.Now,
	})
	if err != nil {
		return s.ExplainRefusal(r, err, lifecycle.Event(r.PathValue("event")), by)
	}
	return ReplyJob(w, r, http.StatusOK, j.Version, s.View(j))
}

// ExplainRefusal adds to a refusal the events that are legal instead, without those that a rule refuses now.
func (s *Server) ExplainRefusal(r *http.Request, err error, e lifecycle.Event, by lifecycle.Actor) error {
	var illegal *lifecycle.Illegal
	if kind := job.KindOf(err); (kind != job.Refused && kind != job.Conflict) || errors.As(err, &illegal) {
		return err
	}
	x, unknown := s.explainer.Why(r.Context(), JobID(r), time.Time{})
	if unknown != nil {
		return err
	}
	if j, unknown := s.Store.Get(r.Context(), x.Job); unknown == nil {
		s.offer(r.Context(), &x, j.Owner)
	}
	at := lifecycle.Illegal{Table: string(x.Kind), Position: x.Position, Event: e, By: by,
		Why: "a rule of its application"}
	for _, m := range x.Moves {
		if m.By&by != 0 && m.Refused == "" {
			at.Can = append(at.Can, m.Event)
		}
	}
	return problem.With(err, at)
}

// retryTask has a task tried again on its own.
func (s *Server) retryTask(w http.ResponseWriter, r *http.Request) error {
	a, err := Body[api.TaskRetry](r, false)
	if err != nil {
		return err
	}
	by, actor, err := ActorOf(r, a.As, a.Actor)
	if err != nil {
		return err
	}
	if _, err := s.Store.Get(r.Context(), JobID(r)); err != nil {
		return err // that there is none goes before a mistake in the body
	}
	if a.Task == "" {
		return job.Errorf(job.Invalid, "retry-task", JobID(r), "task is missing")
	}
	if a.Version, err = VersionOf(r, a.Version); err != nil {
		return err
	}
	j, err := s.Engine.Operator().RetryTask(r.Context(), operator.Act{Job: JobID(r), By: by, Actor: actor,
		Note: a.Note, Version: a.Version}, a.Task)
	if err != nil {
		return err
	}
	return ReplyJob(w, r, http.StatusOK, j.Version, s.View(j))
}

func (s *Server) priority(w http.ResponseWriter, r *http.Request) error {
	p, err := Body[api.Priority](r, true)
	if err != nil {
		return err
	}
	_, actor, err := ActorOf(r, "", p.Actor)
	if err != nil {
		return err
	}
	if p.Priority == nil {
		return job.Errorf(job.Invalid, "priority", JobID(r), "priority is missing")
	}
	if p.Version, err = VersionOf(r, p.Version); err != nil {
		return err
	}
	j, err := s.Engine.Operator().SetPriority(r.Context(), JobID(r), p.Version, *p.Priority,
		cmp.Or(actor, "operator"), p.Note)
	if err != nil {
		return err
	}
	return ReplyJob(w, r, http.StatusOK, j.Version, s.View(j))
}
