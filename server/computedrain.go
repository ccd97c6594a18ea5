package server

import (
	"net/http"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/client"
)

// drainCompute has an agent get no new jobs from this server.
func (s *Server) drainCompute(w http.ResponseWriter, r *http.Request) error {
	return s.setDrain(w, r, true)
}

// resumeCompute has it get jobs again.
func (s *Server) resumeCompute(w http.ResponseWriter, r *http.Request) error {
	return s.setDrain(w, r, false)
}

func (s *Server) setDrain(w http.ResponseWriter, r *http.Request, on bool) error {
	if err := read(r).done(); err != nil {
		return err
	}
	app, err := s.compute()
	if err != nil {
		return err
	}
	a, err := decode[client.Act](r, false)
	if err != nil {
		return err
	}
	_, actor, err := identity(r, a.As, a.Actor)
	if err != nil {
		return err
	}
	if err := tooLong("note", a.Note, mostNote); err != nil {
		return err
	}
	now, err := app.Drain(r.Context(), r.PathValue("name"), on, actor, a.Note)
	if err != nil {
		return err
	}
	return reply(w, viewAgent(&now))
}

// viewAgent makes what operators see of an agent.
func viewAgent(a *compute.Agent) client.ComputeAgent {
	v := client.ComputeAgent{
		Name: a.Name, Kind: a.Kind, Up: a.Up, Since: a.Since, Error: a.Error, Services: a.Services, Slots: a.Slots, Free: a.Free, Waiting: a.Waiting, Reserved: a.Reserved,
		Load: a.Load, Draining: a.Draining, Sandbox: a.Sandbox, Detail: a.Detail, Memory: a.Memory, Cores: a.Cores, Drain: (*client.ComputeDrain)(a.Drain), Jobs: a.Jobs,
	}
	if v.Services == nil {
		v.Services = []string{}
	}
	return v
}
