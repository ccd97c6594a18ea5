package ingesthttp

import (
	"cmp"
	"context"
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/problem"
)

// Hooks are the notifications of an application; *ingest.App has them.
type Hooks interface {
	Deliveries(ctx context.Context, q ingest.DeliveryQuery) ([]ingest.Delivery, error)
	Delivery(ctx context.Context, key string) (ingest.Delivery, error)
	Replay(ctx context.Context, r ingest.Replay) ([]string, error)
	Ping(ctx context.Context, profile, hook, actor, note string) ([]ingest.Ping, error)
}

func (s *Handlers) hookLog() (Hooks, error) {
	if s.Options.Hooks == nil {
		return nil, problem.Absent("ingest", "this server sends no notifications", "module ingest")
	}
	return s.Options.Hooks, nil
}

// hooks answers with the shape of api.Hooks.
func (s *Handlers) hooks(w http.ResponseWriter, r *http.Request) error {
	p := server.Params(r)
	q := ingest.DeliveryQuery{Job: job.ID(p.Text("job")),
		Status: p.Choice("status", ingest.HookPending, ingest.HookDelivered, ingest.HookAbandoned)}
	q.Before, q.Limit = p.PageFrom() // the newest come first
	if err := p.Err(); err != nil {
		return err
	}
	k, err := s.hookLog()
	if err != nil {
		return err
	}
	all, err := k.Deliveries(r.Context(), q)
	if err != nil {
		return err
	}
	answer := api.Hooks{Hooks: append([]api.Hook{}, all...)}
	if n := len(all); n > 0 {
		answer.Next = server.NextPage(n, cmp.Or(q.Limit, 50), all[n-1].Number)
	}
	return server.Reply(w, answer)
}

func (s *Handlers) oneHook(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	k, err := s.hookLog()
	if err != nil {
		return err
	}
	d, err := k.Delivery(r.Context(), r.PathValue("key"))
	if err != nil {
		return err
	}
	return server.Reply(w, d)
}

func (s *Handlers) replayHooks(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	k, err := s.hookLog()
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
	keys, err := k.Replay(r.Context(), b)
	if err != nil {
		return err
	}
	return server.Reply(w, api.ReplayedHooks{Keys: keys})
}

func (s *Handlers) pingHooks(w http.ResponseWriter, r *http.Request) error {
	if err := server.Params(r).Err(); err != nil {
		return err
	}
	k, err := s.hookLog()
	if err != nil {
		return err
	}
	b, err := server.Decode[api.PingHooks](r, true)
	if err != nil {
		return err
	}
	_, actor, err := server.ActorOf(r, "", b.Actor)
	if err != nil {
		return err
	}
	server.ExtendDeadline(w)
	all, err := k.Ping(r.Context(), b.Profile, b.Hook, cmp.Or(actor, "operator"), b.Note)
	if err != nil {
		return err
	}
	return server.Reply(w, api.PingedHooks{Pings: all})
}
