package computehttp

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/server"
)

// drainCompute has an agent get no new jobs from this server.
func (s *Handlers) drainCompute(w http.ResponseWriter, r *http.Request) error {
	return s.setDrain(w, r, true)
}

// resumeCompute has it get jobs again.
func (s *Handlers) resumeCompute(w http.ResponseWriter, r *http.Request) error {
	return s.setDrain(w, r, false)
}

func (s *Handlers) setDrain(w http.ResponseWriter, r *http.Request, on bool) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	app, err := s.compute()
	if err != nil {
		return err
	}
	a, err := server.Decode[api.Act](r, false)
	if err != nil {
		return err
	}
	_, actor, err := server.ActorOf(r, a.As, a.Actor)
	if err != nil {
		return err
	}
	if err := server.CheckText("note", a.Note, server.MostNote); err != nil {
		return err
	}
	others, err := s.elsewhere(r.Context())
	if err != nil {
		return err
	}
	now, err := app.Drain(r.Context(), r.PathValue("name"), on, actor, a.Note, others...)
	if err != nil {
		return err
	}
	return server.Reply(w, viewAgent(&now))
}

// agentsName is the name under which servers announce their agents to each other.
const agentsName = "compute.agents"

// elsewhere returns the agents of the other servers of the store.
func (s *Handlers) elsewhere(ctx context.Context) (all []compute.Elsewhere, err error) {
	err = s.Announced(ctx, agentsName, func(name string, text []byte, age time.Duration) {
		one := compute.Elsewhere{Server: name, Age: age}
		if json.Unmarshal(text, &one.Agents) == nil { // else it is of another version
			all = append(all, one)
		}
	})
	return all, err
}

// viewAgent makes what operators see of an agent.
func viewAgent(a *compute.Agent) api.ComputeAgent {
	v := api.ComputeAgent{
		Name: a.Name, Kind: a.Kind, Up: a.Up, Since: a.Since, Error: a.Error, Services: a.Services, Labels: a.Labels,
		Slots: a.Slots, Free: a.Free, Waiting: a.Waiting, Reserved: a.Reserved,
		Load: a.Load, Draining: a.Draining, Sandbox: a.Sandbox, Detail: a.Detail, Memory: a.Memory, Cores: a.Cores,
		Drain: (*api.ComputeDrain)(a.Drain), Jobs: a.Jobs, Server: a.Server,
	}
	if v.Services == nil {
		v.Services = []string{}
	}
	if v.Labels == nil {
		v.Labels = []string{}
	}
	return v
}
