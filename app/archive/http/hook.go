package archivehttp

import (
	"cmp"
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/hooks"
	"github.com/stagepost/stagepost/server/openapi"
)

// hookRoutes are for notifications to webhooks.
func (s *Handlers) hookRoutes() []server.Route {
	log := func() (hooks.Log, error) { return s.app() }
	return append(hooks.Routes(prefix+"/hooks", log), server.Route{
		Method: http.MethodPost, Pattern: prefix + "/hooks/ping", Who: server.Operator, Doc: "Sends a notification " +
			"of type ping to the webhooks of archives: hook, note, actor.", Handle: s.ping,
		IO: openapi.IO{In: api.PingArchiveHooks{}, Out: api.PingedHooks{}, Once: true},
	})
}

// ping answers with the shape of api.PingedHooks.
func (s *Handlers) ping(w http.ResponseWriter, r *http.Request) error {
	app, b, err := body[api.PingArchiveHooks](s, r, true)
	if err != nil {
		return err
	}
	if _, b.Actor, err = server.ActorOf(r, "", b.Actor); err != nil {
		return err
	}
	b.Actor = cmp.Or(b.Actor, "operator")
	server.ExtendDeadline(w)
	all, err := app.Ping(r.Context(), b)
	if err != nil {
		return err
	}
	return server.Reply(w, api.PingedHooks{Pings: all})
}
