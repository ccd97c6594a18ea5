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
	"github.com/stagepost/stagepost/server/problem"
)

// Lifecycles adds and removes lifecycles. *custom.App is one.
type Lifecycles interface {
	Add(ctx context.Context, text []byte, actor, note string) (*lifecycle.Table, error)
	Remove(ctx context.Context, name, actor, note string) (*lifecycle.Table, error)
	File(name string) (text []byte, hash string, err error)
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
		{Method: http.MethodGet, Pattern: "/api/v1/lifecycles/{name}/file", Who: server.Worker,
			Doc: "The file of a kind of jobs, for workers that run its commands. It has the commands' environment, " +
				"so a " +
				"worker's token must name the kind or one of its states.",
			Handle: h.file, IO: openapi.IO{Out: api.LifecycleFile{}}},
		{Method: http.MethodDelete, Pattern: "/api/v1/lifecycles/{name}", Who: server.Admin,
			Doc: "Removes a kind of jobs that was added; refused while jobs of it exist that are not " +
				"deleted: note, actor.",
			Handle: h.remove,
			IO:     openapi.IO{Out: api.Lifecycle{}, Query: openapi.Single("note", "actor")}},
	}}
}

func (h *Handlers) add(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	if h.Lifecycles == nil {
		return absent()
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
	return server.ReplyAs(w, http.StatusCreated, viewOf(t, true))
}

// file answers with the file of a lifecycle.
func (h *Handlers) file(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	if h.Lifecycles == nil {
		return absent()
	}
	name := r.PathValue("name")
	if err := server.MayWorkOn(r.Context(), "lifecycle", job.Kind(name)); err != nil {
		return err
	}
	text, hash, err := h.Lifecycles.File(name)
	if err != nil {
		return err
	}
	return server.Reply(w, api.LifecycleFile{Name: name, Hash: hash, File: string(text)})
}

func (h *Handlers) remove(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	note, actor := p.Text("note"), p.Text("actor")
	if err := p.Err(); err != nil {
		return err
	}
	if h.Lifecycles == nil {
		return absent()
	}
	_, actor, err := server.ActorOf(r, "", actor)
	if err != nil {
		return err
	}
	if err := server.CheckText("note", note, server.MostNote); err != nil {
		return err
	}
	t, err := h.Lifecycles.Remove(r.Context(), r.PathValue("name"), actor, note)
	if err != nil {
		return err
	}
	return server.Reply(w, viewOf(t, false))
}

func absent() error {
	return problem.Absent("lifecycle", "this server accepts no lifecycles", "module lifecycle")
}

// viewOf describes a lifecycle; jobs reports whether the server has jobs of it.
func viewOf(t *lifecycle.Table, jobs bool) api.Lifecycle {
	l := api.Lifecycle{Name: t.Name(), Hash: t.Hash(), Events: t.Events(), Jobs: jobs}
	for _, st := range t.Stages() {
		l.States = append(l.States, st.State)
	}
	return l
}
