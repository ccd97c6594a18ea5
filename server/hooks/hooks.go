// Package hooks serves the delivery logs of applications (package engine/hooklog) over HTTP.
package hooks

import (
	"cmp"
	"context"
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/engine/hooklog"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/openapi"
)

// Log is the delivery log of an application. *hooklog.Log implements it.
type Log interface {
	Deliveries(ctx context.Context, q hooklog.Query) ([]api.Hook, error)
	Delivery(ctx context.Context, key string) (api.Hook, error)
	Replay(ctx context.Context, r api.ReplayHooks) ([]string, error)
}

// Routes lists the routes of a log below a path. log gives the log, or the refusal of a server without the application.
func Routes(path string, log func() (Log, error)) []server.Route {
	h := handlers{log}
	return []server.Route{
		{Method: http.MethodGet, Pattern: path, Who: server.Operator, Doc: "A page of notifications, the " +
			"newest first: job, status (pending, delivered, abandoned), after, limit.", Handle: h.list,
			IO: openapi.IO{Out: api.Hooks{}, Query: openapi.Query("job", "status", "after", "limit")}},
		{Method: http.MethodGet, Pattern: path + "/{key...}", Who: server.Operator,
			Doc: "One notification with its payload and its last tries.", Handle: h.one,
			IO: openapi.IO{Out: api.Hook{}}},
		{Method: http.MethodPost, Pattern: path + "/replay", Who: server.Operator, Doc: "Sends notifications " +
			"again: keys, or failed and since; note (why) is required; actor.", Handle: h.replay,
			IO: openapi.IO{In: api.ReplayHooks{}, Out: api.ReplayedHooks{}, Once: true}},
	}
}

type handlers struct{ log func() (Log, error) }

// list answers with the shape of api.Hooks.
func (h handlers) list(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	q := hooklog.Query{Job: job.ID(p.Text("job")),
		Status: p.Choice("status", hooklog.Pending, hooklog.Delivered, hooklog.Abandoned)}
	q.Before, q.Limit = p.PageFrom() // the newest come first
	if err := p.Err(); err != nil {
		return err
	}
	log, err := h.log()
	if err != nil {
		return err
	}
	all, err := log.Deliveries(r.Context(), q)
	if err != nil {
		return err
	}
	answer := api.Hooks{Hooks: append([]api.Hook{}, all...)}
	if n := len(all); n > 0 {
		answer.Next = server.NextPage(n, cmp.Or(q.Limit, 50), all[n-1].Number)
	}
	return server.Reply(w, answer)
}

// one answers with the shape of api.Hook.
func (h handlers) one(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	log, err := h.log()
	if err != nil {
		return err
	}
	one, err := log.Delivery(r.Context(), r.PathValue("key"))
	if err != nil {
		return err
	}
	return server.Reply(w, one)
}

// replay answers with the shape of api.ReplayedHooks.
func (h handlers) replay(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	log, err := h.log()
	if err != nil {
		return err
	}
	b, err := server.Decode[api.ReplayHooks](r, true)
	if err != nil {
		return err
	}
	_, actor, err := server.ActorOf(r, "", b.Actor)
	if err != nil {
		return err
	}
	b.Actor = cmp.Or(actor, "operator")
	keys, err := log.Replay(r.Context(), b)
	if err != nil {
		return err
	}
	return server.Reply(w, api.ReplayedHooks{Keys: keys})
}
