package web

import (
	"net/http"
	"slices"

	"github.com/stagepost/stagepost/server"
	"github.com/stagepost/stagepost/server/openapi"
	"github.com/stagepost/stagepost/web/plain"
	"github.com/stagepost/stagepost/web/recent"
)

// handlers are the pages of every server.
type handlers struct {
	*Pages
	recent *recent.Result[attention]
}

// Part gives the pages of every server. A nil server is enough to list the routes.
func Part(s *server.Server) server.Part {
	h := &handlers{&Pages{s, own}, recent.New[attention]()}
	return server.Part{
		Routes: slices.Concat(h.workRoutes(), h.jobRoutes(), h.controlRoutes(), h.recordRoutes()), Assets: files,
		Pages: server.Pages{Home: h.home, Fail: h.refuse, Links: links, Plain: plain.Waits}, Close: h.recent.Close,
	}
}

// links are the entries of the navigation that every server has.
var links = []server.Link{
	{Section: "Work", Title: "Overview", Path: "/", Who: server.Operator},
	{Section: "Work", Title: "My work", Path: "/mine", Who: server.Own},
	{Section: "Work", Title: "Jobs", Path: "/jobs", Who: server.Own},
	{Section: "Work", Title: "Queues", Path: "/queues", Who: server.Operator},
	{Section: "Control", Title: "Holds", Path: "/holds", Who: server.Operator},
	{Section: "Control", Title: "Locks", Path: "/locks", Who: server.Operator},
	{Section: "Control", Title: "Workers", Path: "/workers", Who: server.Operator},
	{Section: "Control", Title: "Messages", Path: "/outbox", Who: server.Operator},
	{Section: "Records", Title: "Storage and fixity", Path: "/fixity", Who: server.Operator},
	{Section: "Records", Title: "Audit log", Path: "/audit", Who: server.Operator},
	{Section: "Records", Title: "Lifecycles", Path: "/lifecycles", Who: server.Shared},
}

// formReason is why the routes of forms check no reason.
const formReason = "the operation of the API that the form is sent to checks it"

// PageRoute is a route that shows a page.
func PageRoute(pattern string, who server.Role, doc string, query []openapi.Parameter,
	handle func(http.ResponseWriter, *http.Request) error) server.Route {
	if query == nil {
		handle = bare(handle)
	}
	return server.Route{Method: http.MethodGet, Pattern: pattern, Who: who, Doc: doc, Handle: handle,
		IO: openapi.IO{Media: openapi.HTML, Query: query, Also: map[int]any{http.StatusSeeOther: nil}}}
}

// WithinGroups opens a route to people who are limited to groups: the operations that its handler asks limit what it
// shows and does.
func WithinGroups(r server.Route) server.Route {
	r.Grouped = true
	return r
}

// bare refuses every parameter before the handler of a page that reads none.
func bare(handle func(http.ResponseWriter, *http.Request) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := server.Params(r).Err(); err != nil {
			return err
		}
		return handle(w, r)
	}
}

// FormRoute is a route that takes a form and answers with a redirect.
func FormRoute(pattern string, who server.Role, doc string,
	handle func(http.ResponseWriter, *http.Request) error) server.Route {
	return server.Route{Method: http.MethodPost, Pattern: pattern, Who: who, Doc: doc, Handle: handle,
		NoReason: formReason, IO: openapi.IO{Takes: []string{"application/x-www-form-urlencoded"},
			Media: openapi.HTML, Status: http.StatusSeeOther}}
}

// workRoutes lists the pages about work: the lists and the search.
func (h *handlers) workRoutes() []server.Route {
	return []server.Route{
		WithinGroups(PageRoute("/mine", server.Own,
			"A page with the jobs of the user: what needs attention, what is in progress, what ended.",
			nil, h.Show("mine.html", h.mine))),
		WithinGroups(PageRoute("/jobs", server.Own,
			"A page with jobs and their filters, as the list of the API has them.", openapi.Filters("parent", "brief"),
			h.jobs)),
		WithinGroups(PageRoute("/search", server.Own,
			"Opens the page of the job that a name means, or lists the jobs that it may mean.",
			openapi.Query("name"), h.search)),
		PageRoute("/queues", server.Operator, "A page with the number of jobs by kind and state, and the open batches.",
			nil, h.Show("queues.html", h.queues)),
		FormRoute("/theme", server.Anyone, "Chooses the colors of the pages: auto, light, dark or contrast.", h.theme),
	}
}

// jobRoutes lists the pages about one job.
func (h *handlers) jobRoutes() []server.Route {
	return []server.Route{
		PageRoute("/jobs/{id}", server.Person,
			"A page about a job: state, reasons, what can be done, timeline, tasks, log, "+
				"history; entry shows it as it was after an entry of its history, text the lines of the log with it.",
			openapi.Query("entry", "text"),
			h.Show("job.html", h.job)),
		PageRoute("/jobs/{id}/log", server.Person,
			"A page with the log of a job: offset, or the last lines: tail, and text that lines must contain.",
			openapi.Query("offset", "tail", "text"), h.Show("log.html", h.log)),
		{Method: http.MethodGet, Pattern: "/jobs/{id}/log.txt", Who: server.Person, Doc: "The log of a job as text.",
			Handle: h.logText, IO: openapi.IO{Media: openapi.Text}},
		PageRoute("/jobs/{id}/files", server.Person, "A page with the files of a job and their digests: after.",
			openapi.Query("after"), h.Show("files.html", h.files)),
		FormRoute("/jobs/{id}/events/{event}", server.Person, "Causes an event as the form of the page asks.",
			h.Post(h.act)),
		FormRoute("/jobs/{id}/tasks/retry", server.Person, "Has a task tried again as the form of the page asks.",
			h.Post(h.retryTask)),
		WithinGroups(FormRoute("/jobs/{id}/reorder", server.Operator,
			"Changes the priority as the form of the page asks.", h.Post(h.priority))),
	}
}

// controlRoutes lists the pages by which operators control work.
func (h *handlers) controlRoutes() []server.Route {
	return []server.Route{
		PageRoute("/holds", server.Operator, "A page with the holds, and a form that puts one.", nil,
			h.Show("holds.html", h.holds)),
		FormRoute("/holds", server.Operator, "Puts a hold.", h.hold),
		FormRoute("/holds/release", server.Operator, "Ends a hold.", h.Post(h.release)),
		PageRoute("/locks", server.Operator, "A page with the locks.", nil, h.Show("locks.html", h.locks)),
		FormRoute("/locks/break", server.Operator, "Breaks a lock.", h.Post(h.breakLock)),
		PageRoute("/workers", server.Operator, "A page with the workers and their jobs.", nil,
			h.Show("workers.html", h.workers)),
		PageRoute("/outbox", server.Operator, "A page with messages that leave or have left, and their deliveries.",
			openapi.Query("job", "topic", "after", "limit", "status"), h.Show("outbox.html", h.outbox)),
		FormRoute("/outbox/replay", server.Operator, "Delivers messages again.", h.Post(h.replay)),
	}
}

// recordRoutes lists the pages about what is recorded.
func (h *handlers) recordRoutes() []server.Route {
	return []server.Route{
		PageRoute("/fixity", server.Operator, "A page with the storage locations, their fixity checks and faults.", nil,
			h.Show("fixity.html", h.fixity)),
		FormRoute("/fixity/check", server.Operator, "Requests a fixity check.", h.Post(h.checkFixity)),
		PageRoute("/audit", server.Operator, "A page with what people did: the filters of the audit log.",
			openapi.Query("actor", "address", "job", "event", "after", "limit"), h.Show("audit.html", h.audit)),
		PageRoute("/lifecycles", server.Shared, "A page with the lifecycles of this server.", nil,
			h.Show("lifecycles.html", h.lifecycles)),
		PageRoute("/lifecycles/{name}", server.Shared, "A page about one lifecycle: its diagram and its table.", nil,
			h.Show("lifecycle.html", h.lifecycle)),
	}
}
