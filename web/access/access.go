// Package access is the pages about who has access: tokens of the API, and sessions of browsers.
package access

import (
	"embed"

	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/web"
)

//go:embed pages
var files embed.FS

type handlers struct{ *web.Pages }

// Part gives the pages. A nil server is enough to list the routes.
func Part(s *server.Server) server.Part {
	h := &handlers{web.New(s, files)}
	return server.Part{Routes: h.routes(), Pages: server.Pages{Links: []server.Link{
		{Section: "Records", Title: "Tokens", Path: "/tokens", Who: server.Own},
		{Section: "Records", Title: "Sessions", Path: "/sessions", Who: server.Admin},
	}}}
}

func (h *handlers) routes() []server.Route {
	return []server.Route{
		web.WithinGroups(web.PageRoute("/tokens", server.Own,
			"A page with the tokens of the reader and their last uses; admins and auditors see all.", nil,
			h.Show("tokens.html", h.tokens))),
		web.WithinGroups(web.FormRoute("/tokens/revoke", server.Own, "Revokes a token as the form of the page asks.",
			h.Post(h.revokeToken))),
		web.PageRoute("/sessions", server.Admin, "A page with the sessions of browsers.", nil,
			h.Show("sessions.html", h.sessions)),
		web.FormRoute("/sessions/end", server.Admin, "Ends a session as the form of the page asks.",
			h.Post(h.endSession)),
	}
}
