package server

import "net/http"

// Role is who may use a route. There is no authentication yet: the roles are what it will check.
type Role string

// The roles.
const (
	Anyone   Role = "anyone"
	Person   Role = "person" // owner or operator; an owner sees its own jobs
	Operator Role = "operator"
	Worker   Role = "worker"
	Admin    Role = "admin"
)

// Route is one line of the API.
type Route struct {
	Method  string
	Pattern string // of net/http.ServeMux
	Who     Role
	Doc     string // one sentence

	handle func(*Server, http.ResponseWriter, *http.Request) error
	upload bool // the handler bounds the body by itself
}

// Routes lists the whole API.
func Routes() []Route {
	const get, post, put, del = http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete
	return []Route{
		{get, "/{$}", Anyone, "A short index of the API.", (*Server).index, false},
		{get, "/healthz", Anyone, "Whether the store answers and the engine works.", (*Server).health, false},

		{get, "/api/jobs", Person, "A page of jobs: kind, state, outcome (each may be repeated), group, owner, parent, key, worker, ended, order=oldest, after, limit.", (*Server).jobs, false},
		{get, "/api/jobs/{id}", Person, "One job: the record, its progress, the legal events of operator and owner, links.", (*Server).job, false},
		{get, "/api/jobs/{id}/history", Person, "The entries of its history after number `after`, oldest first.", (*Server).history, false},
		{get, "/api/jobs/{id}/tasks", Person, "Its tasks.", (*Server).tasks, false},
		{get, "/api/jobs/{id}/children", Person, "A page of the jobs of a batch; takes what the list of jobs takes.", (*Server).children, false},
		{get, "/api/jobs/{id}/log", Person, "Lines of its log from the byte `offset` on.", (*Server).log, false},
		{get, "/api/jobs/{id}/why", Person, "What it waits for and what would move it, now or at the time `at`.", (*Server).why, false},
		{get, "/api/jobs/{id}/diagram.svg", Person, "Its lifecycle as a drawing, with its path and its place.", (*Server).diagram, false},
		{get, "/api/jobs/{id}/events", Person, "Its changes as they happen, and those of its jobs' counts (server-sent events).", (*Server).events, false},
		{post, "/api/jobs/{id}/events/{event}", Person, "Causes an event: note, version, confirm, actor, as (operator or owner).", (*Server).act, false},
		{post, "/api/jobs/{id}/{event}", Person, "The same, shorter: /hold, /release, /retry, /cancel, /stop, /delete, ...", (*Server).act, false},
		{put, "/api/jobs/{id}/priority", Operator, "Moves it in its queue: priority, version.", (*Server).priority, false},

		{get, "/api/holds", Person, "All holds.", (*Server).holds, false},
		{put, "/api/holds", Operator, "Keeps the jobs of a scope from being worked on: kind, state, group, owner, job or everything; who, why, until.", (*Server).hold, false},
		{del, "/api/holds", Operator, "Ends the hold of a scope: kind, state, group, owner, job, or everything=true.", (*Server).release, false},
		{get, "/api/counts", Operator, "How many jobs there are by kind, state and group.", (*Server).counts, false},

		{get, "/api/lifecycles", Anyone, "The lifecycles that this server knows.", (*Server).lifecycles, false},
		{get, "/api/lifecycles/{name}", Anyone, "One lifecycle as JSON; with .svg, .mmd or .dot behind the name as a drawing.", (*Server).lifecycle, false},

		{post, "/api/ingest/submissions", Person, "Hands in a payload: multipart/form-data with a part `submission` (JSON) or single fields, then the part `payload`.", (*Server).submit, true},
		{get, "/api/ingest/batches/{id}/report", Person, "The report about a batch, as JSON or as text.", (*Server).report, false},
		{get, "/api/ingest/objects", Person, "Stored objects: ark, local_id, owner, digest, after, limit.", (*Server).objects, false},

		{post, "/api/worker/claim", Worker, "Takes up to n jobs for a worker: worker, from (kind and state), n, lease and wait in seconds.", (*Server).claim, false},
		{post, "/api/worker/renew", Worker, "Prolongs leases and gives those that are over.", (*Server).renew, false},
		{post, "/api/worker/report", Worker, "Says how the work on jobs went; each report stands or falls alone.", (*Server).reports, false},

		{post, "/api/admin/verify", Admin, "Checks histories against records: chains of hashes, replay.", (*Server).verify, false},
		{post, "/api/admin/fsck", Admin, "Checks what the store derives from the records; with repair it is made anew.", (*Server).fsck, false},
		{post, "/api/admin/backup", Admin, "Copies the store while it works, into the server's backup directory.", (*Server).backup, false},
	}
}
