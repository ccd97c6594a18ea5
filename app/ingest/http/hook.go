package ingesthttp

import (
	"cmp"
	"context"
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/hooks"
	"github.com/stagepost/stagepost/server/problem"
)

// Hooks are the notifications of an application; *ingest.App has them.
type Hooks interface {
	hooks.Log
	Ping(ctx context.Context, profile, hook, actor, note string) ([]ingest.Ping, error)
}

func (s *Handlers) hookLog() (Hooks, error) {
	if s.Options.Hooks == nil {
		return nil, problem.Absent("ingest", "this server sends no notifications", "module ingest")
	}
	return s.Options.Hooks, nil
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
