package server

import (
	"cmp"
	"context"
	"net/http"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/job"
)

// Hooks are the notifications of an application; *ingest.App has them.
type Hooks interface {
	Deliveries(ctx context.Context, q ingest.DeliveryQuery) ([]ingest.Delivery, error)
	Delivery(ctx context.Context, key string) (ingest.Delivery, error)
	Replay(ctx context.Context, r ingest.Replay) ([]string, error)
	Ping(ctx context.Context, profile, hook, actor, note string) ([]ingest.Ping, error)
}

func (s *Server) hookKeeper() (Hooks, error) {
	if s.Options.Hooks == nil {
		return nil, job.Errorf(job.Refused, "hooks", "", "this server sends no notifications")
	}
	return s.Options.Hooks, nil
}

// hooks answers with the shape of client.Hooks.
func (s *Server) hooks(w http.ResponseWriter, r *http.Request) error {
	p := read(r)
	q := ingest.DeliveryQuery{
		Job: job.ID(p.text("job")), Status: p.text("status"), Before: p.number("before", 1, 1<<62), Limit: int(p.number("limit", 1, 1000)),
	}
	if err := p.done(); err != nil {
		return err
	}
	k, err := s.hookKeeper()
	if err != nil {
		return err
	}
	all, err := k.Deliveries(r.Context(), q)
	if err != nil {
		return err
	}
	answer := client.Hooks{Hooks: []client.Hook{}}
	for i := range all {
		answer.Hooks = append(answer.Hooks, client.Hook(all[i]))
	}
	if len(all) == cmp.Or(q.Limit, 50) { // a full page: there may be more
		answer.Next = all[len(all)-1].Number
	}
	return reply(w, answer)
}

func (s *Server) oneHook(w http.ResponseWriter, r *http.Request) error {
	if err := read(r).done(); err != nil {
		return err
	}
	k, err := s.hookKeeper()
	if err != nil {
		return err
	}
	d, err := k.Delivery(r.Context(), r.PathValue("key"))
	if err != nil {
		return err
	}
	return reply(w, client.Hook(d))
}

func (s *Server) replayHooks(w http.ResponseWriter, r *http.Request) error {
	if err := read(r).done(); err != nil {
		return err
	}
	b, err := decode[client.ReplayHooks](r, true)
	if err != nil {
		return err
	}
	_, actor, err := identity(r, "", b.Actor)
	if err != nil {
		return err
	}
	k, err := s.hookKeeper()
	if err != nil {
		return err
	}
	if actor == "" {
		actor = "operator"
	}
	keys, err := k.Replay(r.Context(), ingest.Replay{Keys: b.Keys, Failed: b.Failed, Since: b.Since, Actor: actor, Note: b.Note})
	if err != nil {
		return err
	}
	return reply(w, client.ReplayedHooks{Keys: keys})
}

func (s *Server) pingHooks(w http.ResponseWriter, r *http.Request) error {
	if err := read(r).done(); err != nil {
		return err
	}
	b, err := decode[client.PingHooks](r, true)
	if err != nil {
		return err
	}
	_, actor, err := identity(r, "", b.Actor)
	if err != nil {
		return err
	}
	k, err := s.hookKeeper()
	if err != nil {
		return err
	}
	if actor == "" {
		actor = "operator"
	}
	unhurried(w)
	all, err := k.Ping(r.Context(), b.Profile, b.Hook, actor, b.Note)
	if err != nil {
		return err
	}
	answer := client.PingedHooks{Pings: []client.Ping{}}
	for _, one := range all {
		answer.Pings = append(answer.Pings, client.Ping(one))
	}
	return reply(w, answer)
}
