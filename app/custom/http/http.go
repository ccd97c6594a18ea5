// Package customhttp serves the lifecycles that people add over HTTP.
package customhttp

import (
	"context"
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/openapi"
)

// Lifecycles adds lifecycles. *custom.App is one.
type Lifecycles interface {
	Add(ctx context.Context, text []byte, actor, note string) (*lifecycle.Table, error)
}

// Handlers handle the requests.
type Handlers struct {
	*server.Server
	Lifecycles Lifecycles
}

// Part returns the routes for a server. A nil server suffices to list the routes; a nil application refuses requests.
func Part(s *server.Server, app Lifecycles) server.Part {
	h := &Handlers{s, app}
	return server.Part{Routes: []server.Route{
		{Method: http.MethodPost, Pattern: "/api/v1/lifecycles", Who: server.Admin,
			Doc:    "Adds a kind of jobs, or replaces one that was added: file (the text of a YAML file), note, actor.",
			Handle: h.add,
			IO:     openapi.IO{In: api.NewLifecycle{}, Out: api.Lifecycle{}, Status: http.StatusCreated}},
	}}
}

func (h *Handlers) add(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	if h.Lifecycles == nil {
		return job.Errorf(job.Refused, "lifecycle", "", "this server takes no lifecycles")
	}
	b, err := server.Decode[api.NewLifecycle](r, true)
	if err != nil {
		return err
	}
	_, actor, err := server.ActorOf(r, "", b.Actor)
	if err != nil {
		return err
	}
	if err := server.CheckText("note", b.Note, server.MostNote); err != nil {
		return err
	}
	t, err := h.Lifecycles.Add(r.Context(), []byte(b.File), actor, b.Note)
	if err != nil {
		return err
	}
	l := api.Lifecycle{Name: t.Name(), Hash: t.Hash(), Events: t.Events(), Jobs: true}
	for _, st := range t.Stages() {
		l.States = append(l.States, st.State)
	}
	return server.ReplyAs(w, http.StatusCreated, l)
}
