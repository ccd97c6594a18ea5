package computehttp

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/app/compute/tes"
	"github.com/stagepost/stagepost/engine/repeat"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
)

func (s *Handlers) tes() (Compute, *tes.Adapter, error) {
	app, err := s.compute()
	if err == nil && s.TES == nil {
		err = problem.Absent("tes", "this server takes no tasks of GA4GH TES", "setting compute.tes.images")
	}
	return app, s.TES, err
}

// tesInfo reports what the service is.
func (s *Handlers) tesInfo(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	_, adapter, err := s.tes()
	if err != nil {
		return err
	}
	return server.Reply(w, adapter.Info(s.Version, base(r)))
}

// base gives the address under which a request came.
func base(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// tesCreateTask makes a job of a task. The answer does not wait for its inputs: they are fetched when the job exists.
func (s *Handlers) tesCreateTask(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, adapter, err := s.tes()
	if err != nil {
		return err
	}
	t, err := server.DecodeAs[tes.Task](r, true, tes.Standard)
	if err != nil {
		return err
	}
	plan, err := adapter.Plan(t)
	if err != nil {
		return err
	}
	o := plan.Order
	if o.Key, err = server.KeyOf(r, "", t); err != nil {
		return err
	}
	if o.By, o.Actor, err = server.ActorOf(r, "", ""); err != nil {
		return err
	}
	o.Owner = computeOwner(r, "")
	first, err := s.keptUnder(r.Context(), o.Owner, o.Key)
	if err != nil {
		return err
	}
	if first != nil {
		return s.tesAgain(w, r, first, &o)
	}
	j, err := s.tesMake(r.Context(), app, plan, o)
	if err != nil {
		return err
	}
	server.Replayed(w, r)
	return server.Reply(w, tes.Created{ID: string(j.ID)})
}

// tesMake makes the job of a task.
func (s *Handlers) tesMake(ctx context.Context, app Compute, plan *tes.Plan, o compute.Order) (job.Job, error) {
	u, err := app.Begin(ctx)
	if err != nil {
		return job.Job{}, err
	}
	defer u.Discard()
	u.For(o.Owner)
	if err := s.TES.Fill(u, plan); err != nil {
		return job.Job{}, err
	}
	return u.Commit(ctx, o)
}

// tesAgain answers a task whose key made a job already.
func (s *Handlers) tesAgain(w http.ResponseWriter, r *http.Request, first *job.Job, o *compute.Order) error {
	if err := compute.SameOrder(first, o); err != nil {
		return err
	}
	if err := repeat.Again(r.Context(), s.Store, first); err != nil {
		return err
	}
	server.Replayed(w, r)
	return server.Reply(w, tes.Created{ID: string(first.ID)})
}

// tesJob gives the job of a task that a request names. Any other job, and that of another owner, is as unknown as none.
func (s *Handlers) tesJob(r *http.Request, id string) (app Compute, j job.Job, err error) {
	if app, _, err = s.tes(); err != nil {
		return nil, j, err
	}
	unknown := job.Errorf(job.NotFound, "tes", "", "there is no task %.60q", id)
	j, err = s.Store.Get(r.Context(), job.ID(id))
	if kind := job.KindOf(err); kind == job.NotFound || kind == job.Gone {
		return nil, j, unknown
	}
	if err != nil {
		return nil, j, err
	}
	if j.Kind != compute.JobKind {
		return nil, job.Job{}, unknown
	}
	if owner := server.UserOf(r.Context()); owner != "" && owner != j.Owner {
		return nil, job.Job{}, server.Foreign(unknown)
	}
	_, ok, err := tes.TaskOf(&j)
	if err == nil && !ok {
		err = unknown
	}
	return app, j, err
}

// tesTask shows a task.
func (s *Handlers) tesTask(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	view, err := tes.ParseView(p.Text("view"))
	if err != nil {
		p.Wrong("%v", err)
	}
	if err := p.Err(); err != nil {
		return err
	}
	app, j, err := s.tesJob(r, r.PathValue("task"))
	if err != nil {
		return err
	}
	t, err := s.tesShow(r, app, &j, view)
	if err != nil {
		return err
	}
	return server.Reply(w, t)
}

// tesShow makes a task of a job.
func (s *Handlers) tesShow(r *http.Request, app Compute, j *job.Job, v tes.View) (tes.Task, error) {
	stands, err := s.tesStands(r, j)
	if err != nil {
		return tes.Task{}, err
	}
	return tes.Show(r.Context(), app, j, stands, v, func(name string) string {
		u := url.URL{Path: computePath(j.ID) + "/files/" + name}
		return base(r) + u.EscapedPath()
	})
}

// tesStands reports how a job stands; of one that was cleaned how it stood before.
func (s *Handlers) tesStands(r *http.Request, j *job.Job) (tes.Standing, error) {
	stands := tes.Standing{State: j.State, Cause: j.Cause, Sentence: j.Message}
	if j.State == compute.Cleaned {
		history, err := s.Store.History(r.Context(), j.ID, 0, 0)
		if err != nil {
			return stands, err
		}
		stands.State, stands.Cause, stands.Sentence = tes.Last(history)
	}
	if stands.State != compute.Completed {
		return stands, nil
	}
	t, _, err := tes.TaskOf(j)
	if err != nil || !t.Copies() {
		return stands, err
	}
	messages, err := s.Store.Messages(r.Context(), job.MessageQuery{Job: j.ID, Topic: tes.Topic})
	return tes.Settle(stands, messages), err
}

// tesAct does what stands behind the colon of a task's address: cancel is all there is.
func (s *Handlers) tesAct(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	if _, _, err := s.tes(); err != nil {
		return err
	}
	id, cancels := strings.CutSuffix(r.PathValue("task"), ":cancel")
	if !cancels {
		return job.Errorf(job.NotFound, "tes", "",
			"a task can be cancelled by POST to its address with :cancel behind it, and nothing else")
	}
	if _, err := server.Decode[struct{}](r, false); err != nil {
		return err
	}
	app, j, err := s.tesJob(r, id)
	if err != nil {
		return err
	}
	by, actor, err := server.ActorOf(r, "", "")
	if err != nil {
		return err
	}
	if _, err := app.Cancel(r.Context(), j.ID, compute.Request{By: by, Actor: actor}); err != nil {
		return err
	}
	return server.Reply(w, tes.Cancelled{})
}
