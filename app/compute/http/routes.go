package computehttp

import (
	"net/http"
	"slices"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/compute/tes"
	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/openapi"
)

// routes lists the routes of the server's own API.
func (s *Handlers) routes() []server.Route {
	return slices.Concat(s.jobRoutes(), s.fileRoutes(), s.agentRoutes(), s.uploadRoutes())
}

// jobRoutes lists the routes that make, show and change jobs.
func (s *Handlers) jobRoutes() []server.Route {
	return []server.Route{
		{Method: http.MethodPost, Pattern: "/api/v1/compute/jobs", Who: server.Own, Grouped: true,
			Doc: "Runs files: multipart/form-data with the part `order` (JSON) first and the files behind it, or " +
				"JSON alone: service, command or a file run.sh, name, env, limits, labels, inputs, priority, key, " +
				"uploads (ids), files (inline), owner, note, actor.", Handle: s.submitCompute, Upload: true,
			NoReason: server.NewWork,
			IO: openapi.IO{In: api.ComputeOrder{}, Parts: map[string]any{"order": api.ComputeOrder{}},
				Out:    api.ComputeJob{},
				Status: http.StatusCreated, Also: map[int]any{200: api.ComputeJob{}}}},
		{Method: http.MethodGet, Pattern: "/api/v1/compute/jobs", Who: server.Own, Grouped: true,
			Doc: "A page of compute jobs, the newest first: service, state, outcome, cause, label (each may be " +
				"repeated), number (there is one at most), owner, name, ended, after, limit.", Handle: s.listCompute,
			IO: openapi.IO{Out: api.ComputePage{},
				Query: openapi.Query("service", "name", "label", "owner", "cause", "ended", "number", "after",
					"limit", "state", "outcome")}},
		{Method: http.MethodGet, Pattern: "/api/v1/compute/jobs/{id}", Who: server.Person,
			Doc:    "One compute job: order, position in the queue, agent, attempts, ending, limits, times, links.",
			Handle: s.showCompute,
			IO:     openapi.IO{Out: api.ComputeJob{}}},
		{Method: http.MethodDelete, Pattern: "/api/v1/compute/jobs/{id}", Who: server.Person,
			Doc: "Cancels the job; one that has ended stays as it is (clean removes its files): " +
				"version, note, actor.", Handle: s.deleteCompute,
			IO: openapi.IO{Out: api.ComputeJob{}, Query: openapi.Query("note", "actor", "as", "version")}},
		{Method: http.MethodPost, Pattern: "/api/v1/compute/jobs/{id}/cancel", Who: server.Person,
			Doc: "Cancels the job: version, note, actor. A queued job ends at once; one at an agent is Killing until " +
				"the agent has ended it or has not answered for ten minutes (the message is what happens next); one " +
				"that has ended stays as it is.", Handle: s.cancelCompute,
			IO: openapi.IO{In: api.Act{}, Out: api.ComputeJob{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/compute/jobs/{id}/clean", Who: server.Person,
			Right: server.Deletion,
			Doc: "Removes the files of one that has ended, before they are kept long enough: version, note, actor. " +
				"The record stays.", Handle: s.cleanCompute,
			IO: openapi.IO{In: api.Act{}, Out: api.ComputeJob{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/compute/jobs/{id}/retry", Who: server.Person,
			Doc: "Makes a new job of one that has ended, with nothing changed: key, confirm (although it completed), " +
				"note, actor.", Handle: s.retryCompute,
			IO: openapi.IO{In: api.ComputeRepeat{}, Out: api.ComputeJob{},
				Status: http.StatusCreated, Also: map[int]any{200: api.ComputeJob{}}}},
		{Method: http.MethodPost, Pattern: "/api/v1/compute/jobs/{id}/clone", Who: server.Person,
			Doc: "Makes a new job of its files with changes: service, name, env, limits, labels, priority, key, " +
				"note, actor.", Handle: s.cloneCompute,
			IO: openapi.IO{In: api.ComputeRepeat{}, Out: api.ComputeJob{},
				Status: http.StatusCreated, Also: map[int]any{200: api.ComputeJob{}}}},
	}
}

// fileRoutes lists the routes of what a job writes: events, output, files and results.
func (s *Handlers) fileRoutes() []server.Route {
	return []server.Route{
		{Method: http.MethodGet, Pattern: "/api/v1/compute/jobs/{id}/events", Who: server.Person,
			Doc: "Its changes as they happen (server-sent events), after Last-Event-ID.", Handle: s.eventsCompute,
			IO: openapi.IO{Events: openapi.JobEvents, Query: openapi.Query("after")}},
		{Method: http.MethodGet, Pattern: "/api/v1/compute/jobs/{id}/logs", Who: server.Person,
			Doc:    "What it writes, as text or as server-sent events: stream (stdout, stderr, both), offset, follow.",
			Handle: s.logsCompute,
			IO: openapi.IO{Media: openapi.Text, Events: outputEvents,
				Query: openapi.Query("stream", "offset", "follow")}},
		{Method: http.MethodGet, Pattern: "/api/v1/compute/jobs/{id}/files", Who: server.Person,
			Doc: "Its inputs and the entries of its results: after, limit.", Handle: s.filesCompute,
			IO: openapi.IO{Out: api.ComputeFiles{}, Query: openapi.Query("after", "limit")}},
		{Method: http.MethodGet, Pattern: "/api/v1/compute/jobs/{id}/files/{path...}", Who: server.Person,
			Right:  server.Content,
			Doc:    "One file of its results or inputs, whole or in ranges: from (results, inputs).",
			Handle: s.fileCompute,
			IO:     openapi.IO{Media: openapi.Any, Also: map[int]any{206: nil}, Query: openapi.Query("from")}},
		{Method: http.MethodGet, Pattern: "/api/v1/compute/jobs/{id}/results", Who: server.Person,
			Right: server.Content, Doc: "Its results as a ZIP, whole or in ranges.", Handle: s.resultsCompute,
			IO: openapi.IO{Media: openapi.Any, Also: map[int]any{206: nil}}},
		{Method: http.MethodGet, Pattern: "/api/v1/compute/jobs/{id}/partial", Who: server.Person,
			Right: server.Content, Doc: "What it has made so far, as a ZIP.", Handle: s.partialCompute,
			IO: openapi.IO{Media: openapi.Any}},
	}
}

// agentRoutes lists the routes of services, agents and usage.
func (s *Handlers) agentRoutes() []server.Route {
	return []server.Route{
		{Method: http.MethodGet, Pattern: "/api/v1/compute/services", Who: server.Shared,
			Doc: "The services with their quotas, limits, and how many jobs run and wait; depositors see the numbers " +
				"of their own jobs.", Handle: s.computeServices,
			IO: openapi.IO{Out: api.ComputeServices{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/compute/agents", Who: server.Operator,
			Doc:    "The agents of all servers of the store: whether they answer, services, slots, load, sandbox.",
			Handle: s.computeAgents,
			IO:     openapi.IO{Out: api.ComputeAgents{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/compute/agents/{name}/drain", Who: server.Operator,
			Doc: "Has an agent get no new jobs from any server of the store, until resume: note, actor. What it has " +
				"goes on.",
			Handle: s.drainCompute,
			IO:     openapi.IO{In: api.Act{}, Out: api.ComputeAgent{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/compute/agents/{name}/resume", Who: server.Operator,
			Doc: "Has a drained agent get jobs again: note, actor.", Handle: s.resumeCompute,
			IO: openapi.IO{In: api.Act{}, Out: api.ComputeAgent{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/compute/tunnel", Who: server.Worker,
			Doc:    "Upgrades to a connection through which the server reaches an agent that cannot be dialled: agent.",
			Handle: s.tunnelCompute,
			IO:     openapi.IO{Status: http.StatusSwitchingProtocols, Query: openapi.Query("agent")}},
		{Method: http.MethodGet, Pattern: "/api/v1/compute/usage", Who: server.Own, Grouped: true,
			Doc:    "What owners use: jobs, files, bytes, and what runs and waits by service: owner.",
			Handle: s.computeUsage,
			IO:     openapi.IO{Out: api.ComputeUsage{}, Query: openapi.Query("owner")}},
	}
}

// uploadRoutes lists the routes of resumable uploads. An upload has no group: the order that takes it has one.
func (s *Handlers) uploadRoutes() []server.Route {
	return []server.Route{
		{Method: http.MethodOptions, Pattern: "/api/v1/compute/uploads", Who: server.Own, Grouped: true,
			Doc: "What resumable uploads can do (tus 1.0.0).", Handle: s.resumable, Upload: true,
			IO: openapi.IO{Status: http.StatusNoContent}},
		{Method: http.MethodPost, Pattern: "/api/v1/compute/uploads", Who: server.Own, Grouped: true,
			Doc: "Makes a resumable upload (tus 1.0.0): Upload-Length, Upload-Metadata with filename. An order takes " +
				"it by its id.", Handle: s.resumable, Upload: true, NoReason: partOfOrder,
			IO: openapi.IO{Status: http.StatusCreated}},
		{Method: http.MethodOptions, Pattern: "/api/v1/compute/uploads/{upload}", Who: server.Own, Grouped: true,
			Doc: "What resumable uploads can do (tus 1.0.0).", Handle: s.resumable, Upload: true,
			IO: openapi.IO{Status: http.StatusNoContent}},
		{Method: http.MethodGet, Pattern: "/api/v1/compute/uploads/{upload}", Who: server.Own, Grouped: true,
			Doc: "With HEAD: how far an upload has come.", Handle: s.resumable, Upload: true},
		{Method: http.MethodPost, Pattern: "/api/v1/compute/uploads/{upload}", Who: server.Own, Grouped: true,
			Doc: "With X-HTTP-Method-Override: what its clients cannot send otherwise.", Handle: s.resumable,
			Upload: true, NoReason: partOfOrder,
			IO: openapi.IO{Status: http.StatusNoContent}},
		{Method: http.MethodPatch, Pattern: "/api/v1/compute/uploads/{upload}", Who: server.Own, Grouped: true,
			Doc: "Sends the next bytes of an upload from Upload-Offset on.", Handle: s.resumable, Upload: true,
			NoReason: partOfOrder,
			IO:       openapi.IO{Takes: []string{"application/offset+octet-stream"}, Status: http.StatusNoContent}},
		{Method: http.MethodDelete, Pattern: "/api/v1/compute/uploads/{upload}", Who: server.Own, Grouped: true,
			Doc: "Ends an upload.", Handle: s.resumable, Upload: true, NoReason: partOfOrder,
			IO: openapi.IO{Status: http.StatusNoContent}},
	}
}

// tesRoutes lists the routes of GA4GH TES, each also without the beginning of its path.
func (s *Handlers) tesRoutes() []server.Route {
	routes := []server.Route{
		{Method: http.MethodGet, Pattern: "/ga4gh/tes/v1/service-info", Who: server.Shared,
			Doc: "What this service is (GA4GH TES 1.1).", Handle: s.tesInfo,
			IO: openapi.IO{Out: tes.Info{}}},
		{Method: http.MethodGet, Pattern: "/ga4gh/tes/v1/tasks", Who: server.Own,
			Doc: "A page of tasks (GA4GH TES 1.1), the newest first: name_prefix, state, tag_key and tag_value (each " +
				"may be repeated), page_size, page_token, view.", Handle: s.tesTasks,
			IO: openapi.IO{Out: tes.Page{},
				Query: openapi.Query("name_prefix", "state", "tag_key", "tag_value", "view", "page_size",
					"page_token")}},
		{Method: http.MethodPost, Pattern: "/ga4gh/tes/v1/tasks", Who: server.Own,
			Doc: "Makes a task, which is a compute job (GA4GH TES 1.1). Inputs behind URLs are fetched when the job " +
				"exists.", Handle: s.tesCreateTask, NoReason: server.NewWork,
			IO: openapi.IO{In: tes.Task{}, Out: tes.Created{}, Keyed: true}},
		{Method: http.MethodGet, Pattern: "/ga4gh/tes/v1/tasks/{task}", Who: server.Own,
			Doc: "One task: view (MINIMAL, BASIC, FULL).", Handle: s.tesTask,
			IO: openapi.IO{Out: tes.Task{}, Query: openapi.Query("view")}},
		{Method: http.MethodPost, Pattern: "/ga4gh/tes/v1/tasks/{task}", Who: server.Own,
			Doc: "With :cancel after the task's id: cancels the task.", Handle: s.tesAct, NoReason: noField,
			IO: openapi.IO{Out: tes.Cancelled{}}},
	}
	for _, r := range slices.Clone(routes) {
		r.Doc = "As " + r.Pattern + ", for clients that leave the beginning away."
		r.Pattern = strings.TrimPrefix(r.Pattern, "/ga4gh/tes")
		routes = append(routes, r)
	}
	return routes
}

// Why routes take no reason.
const (
	partOfOrder = "it is a part of an order to come"
	noField     = "GA4GH TES has no field for a reason"
)

// outputEvents are the messages of the stream of a job's output.
var outputEvents = []openapi.Event{
	{Name: "output", Data: api.ComputeOutput{},
		Doc: "A piece of the output. The id of the message is the position in both streams. If a stream begins " +
			"anew, as with another attempt, its next piece has the offset 0."},
	{Name: "end", Doc: "The job has ended and all of its output was sent."},
}
