package flowhttp

import (
	"net/http"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/openapi"
	"github.com/stagepost/stagepost/web"
)

// routes lists the routes of flows.
func (s *Handlers) routes() []server.Route {
	return []server.Route{
		{Method: http.MethodPost, Pattern: "/api/v1/flows", Who: server.Own,
			Doc: "Creates a flow, a graph of tasks: file (text of a flow file) or factory and args; inputs, " +
				"defer_reverts, never_resolve, revert_errors, workers, key, priority, group, owner, due, deadline, " +
				"note, actor.", Handle: s.submitFlow, Upload: true, NoReason: server.NewWork,
			IO: openapi.IO{In: api.FlowOrder{}, Out: api.Job{},
				Status: http.StatusCreated, Also: map[int]any{200: api.Job{}}}},
		{Method: http.MethodGet, Pattern: "/api/v1/flows/{id}", Who: server.Person,
			Doc: "A flow with its outline and the states, times, attempts and failures of its tasks; values=true " +
				"adds what they gave, large values cut.", Handle: s.showFlow,
			IO: openapi.IO{Out: api.Flow{}, Query: openapi.Query("values")}},
		{Method: http.MethodPost, Pattern: "/api/v1/flows/{id}/mark-reverted", Who: server.Person,
			Doc: "Records that a person has manually rolled back a task of a flow in FAILURE: task, note, actor. The " +
				"rest is rolled back when the flow is run again or cancelled.", Handle: s.markReverted,
			IO: openapi.IO{In: api.FlowMark{}, Out: api.Job{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/flows/{id}/signal", Who: server.Person,
			Doc: "Sends a signal to a flow: name, value, note, actor. It is kept for a task that waits for it later. " +
				"To " +
				"suspend, run (resume) and reset a flow are events of its job.", Handle: s.signalFlow,
			IO: openapi.IO{In: api.FlowSignal{}, Out: api.Job{}, Once: true}},
		{Method: http.MethodGet, Pattern: "/api/v1/flows/{id}/{name}", Who: server.Person,
			Doc: "A drawing of a flow with the states of its tasks: graph.svg, graph.dot, graph.mmd or timeline.svg; " +
				"without an ending what Accept asks for. version has no meaning but to make the address a new one.",
			Handle: s.drawFlow,
			IO:     openapi.IO{Media: openapi.Drawings, Query: openapi.Query("version")}},
		web.PageRoute("/flows/{id}", server.Person, "Leads to the page about the job, which shows the flow.", nil,
			s.flowPage),
		web.FormRoute("/jobs/{id}/signal", server.Person, "Sends a signal to a flow as the form of the page asks.",
			s.pages.Post(s.signalForm)),
		web.FormRoute("/jobs/{id}/reverted", server.Person, "Notes that a task was rolled back manually.",
			s.pages.Post(s.markForm)),
	}
}
