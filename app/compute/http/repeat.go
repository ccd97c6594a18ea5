package computehttp

import (
	"context"
	"maps"
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
)

// retryCompute makes a new job of one that has ended, with nothing changed. The old one stays what it is.
func (s *Handlers) retryCompute(w http.ResponseWriter, r *http.Request) error {
	return s.repeatCompute(w, r, func(j *job.Job, asked *api.ComputeRepeat) error {
		switch {
		case asked.Service != "" || asked.Name != "" || asked.Env != nil || asked.Labels != nil ||
			asked.Requires != nil || asked.Priority != nil || asked.Callback != nil ||
			asked.Limits != (api.ComputeLimits{}):
			return job.Errorf(job.Invalid, "retry", j.ID, "a retry changes nothing; clone makes a job with changes")
		case j.State == compute.Completed && !asked.Confirm:
			return job.Errorf(job.Refused, "retry", j.ID, "it has completed: confirm that it is to run again")
		}
		return s.Compute.Repeatable(j)
	})
}

// cloneCompute makes a new job of the files of another one, in whatever state that is, with changes.
func (s *Handlers) cloneCompute(w http.ResponseWriter, r *http.Request) error {
	return s.repeatCompute(w, r, func(j *job.Job, asked *api.ComputeRepeat) error {
		if len(asked.Env) > 0 && !s.Owns(r.Context(), j.Owner) {
			return problem.Refuse(http.StatusForbidden, job.Refused,
				"env: variables can have run.sh print files, which are for their owner and for admins; "+
					"clone it without changing variables")
		}
		return nil
	})
}

func (s *Handlers) repeatCompute(w http.ResponseWriter, r *http.Request,
	may func(*job.Job, *api.ComputeRepeat) error) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, j, err := s.computeJob(r)
	if err != nil {
		return err
	}
	asked, err := server.Decode[api.ComputeRepeat](r, false)
	if err != nil {
		return err
	}
	if err := may(&j, &asked); err != nil {
		return err
	}
	if err := checkRepeat(&asked); err != nil {
		return err
	}
	if asked.Service != "" {
		if err := server.CheckGroup(r.Context(), asked.Service); err != nil {
			return err
		}
	}
	by, actor, err := server.ActorOf(r, asked.As, asked.Actor)
	if err != nil {
		return err
	}
	key, err := server.KeyOf(r, asked.Key, asked)
	if err != nil {
		return err
	}
	again, err := app.Repeat(context.WithoutCancel(r.Context()), j.ID, func(o *compute.Order) {
		o.Key, o.By, o.Actor, o.Note = key, by, actor, asked.Note
		change(o, &asked)
	})
	if err != nil {
		return err
	}
	w.Header().Set("Location", computePath(again.ID))
	return s.replyCompute(w, r, app, &again, server.Made(w, r))
}

func checkRepeat(asked *api.ComputeRepeat) error {
	o := api.ComputeOrder{Service: "-", Name: asked.Name, Env: asked.Env, Labels: asked.Labels,
		Requires: asked.Requires, Limits: asked.Limits, Priority: asked.Priority, Note: asked.Note}
	if asked.Service != "" {
		o.Service = asked.Service
	}
	return checkCompute(&o)
}

// change lays what a clone asks for over what the other job had.
func change(o *compute.Order, asked *api.ComputeRepeat) {
	if asked.Service != "" {
		o.Service = asked.Service
	}
	if asked.Name != "" {
		o.Name = asked.Name
	}
	if asked.Labels != nil {
		o.Labels = asked.Labels
	}
	if asked.Requires != nil {
		o.Requires = asked.Requires
	}
	if asked.Priority != nil {
		o.Priority = asked.Priority
	}
	if asked.Callback != nil {
		o.Callback = *asked.Callback
	}
	o.Limits = limitsOf(asked.Limits).Over(o.Limits)
	if len(asked.Env) == 0 {
		return
	}
	env := maps.Clone(o.Env)
	if env == nil {
		env = map[string]string{}
	}
	for name, value := range asked.Env {
		if env[name] = value; value == "" {
			delete(env, name)
		}
	}
	o.Env = env
}
