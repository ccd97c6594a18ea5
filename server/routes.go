package server

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/server/openapi"
)

// Role is who may use a route. With authentication it is checked, in admit; without, each client may do everything.
// An auditor may use routes that change nothing, except those of workers; an admin may use all. A [Right] limits more.
type Role string

// The roles.
const (
	Anyone Role = "anyone"
	// depositor, operator, auditor or admin; the {id} is a job, of which a depositor sees its own. Without {id} it is
	// not for depositors
	Person   Role = "person"
	Own      Role = "own"    // as Person; the handler binds what is listed or made to the depositor
	Shared   Role = "shared" // as Person; what it shows has no owner
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

	Handle  func(http.ResponseWriter, *http.Request) error
	Right   Right // that its sender needs to the work of its job; without {id} the handler checks it
	Reads   bool  // it changes nothing, whatever its method
	Grouped bool  // the handler limits it to the groups of identities that have some

	Upload bool // the handler bounds the body by itself
	// answers refusals in the form of another program; an error that it returns is answered as a problem
	Fault func(http.ResponseWriter, *http.Request, error) error
	Basic bool // the token may be the password of Basic authentication, for programs that know no other

	IO openapi.IO // what it reads and answers, for the description

	// NoReason is why a route that changes something takes no reason, or needs none, where staff must give reasons.
	NoReason string
	// Preview reports whether a request with a query and a body changes nothing. It defaults to never.
	Preview func(url.Values, map[string]json.RawMessage) bool
}

// NewWork is the NoReason of routes that create jobs.
const NewWork = "new work is no action on that of others; submissions, flows and orders may have a note"

const workersAct = "workers act there, not people"

// Routes lists the routes that every server has. Applications bring theirs as [Part]s.
func Routes() []Route { return (*Server)(nil).routes() }

func (s *Server) routes() []Route {
	return slices.Concat(s.serverRoutes(), s.jobRoutes(), s.controlRoutes(), s.overviewRoutes(), s.workerRoutes(),
		s.adminRoutes())
}

// serverRoutes are for the server itself.
func (s *Server) serverRoutes() []Route {
	return []Route{
		{Method: http.MethodGet, Pattern: "/{$}", Who: Anyone,
			Doc:    "The pages of the server for browsers, a short index of the API for others.",
			Handle: s.index, IO: openapi.IO{Media: slices.Concat(openapi.HTML, openapi.Text),
				Also: map[int]any{http.StatusSeeOther: nil}}},
		{Method: http.MethodGet, Pattern: "/healthz", Who: Anyone,
			Doc: "Whether the store answers and the engine works.", Handle: s.health,
			IO: openapi.IO{Out: api.Health{}, Also: map[int]any{503: api.Health{}}}},
		{Method: http.MethodGet, Pattern: "/metrics", Who: Operator,
			Doc: "What Prometheus reads: jobs, stages, claims, outbox, commits, requests.", Handle: s.metrics,
			IO: openapi.IO{Media: openapi.Text}},
		{Method: http.MethodGet, Pattern: "/assets/{name}", Who: Anyone,
			Doc: "What the pages need: style sheets, scripts and their icon.", Handle: s.asset,
			IO: openapi.IO{Media: []string{"text/css", "text/javascript", "image/svg+xml"}}},
		{Method: http.MethodGet, Pattern: "/api/v1/openapi.json", Who: Anyone,
			Doc: "The description of all operations (OpenAPI 3.1).", Handle: s.openAPI,
			IO: openapi.IO{Out: json.RawMessage{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/docs", Who: Anyone,
			Doc: "The description as a page.", Handle: s.apiDocs, IO: openapi.IO{Media: openapi.HTML}},
	}
}

// jobRoutes are for jobs of all kinds.
func (s *Server) jobRoutes() []Route {
	return []Route{
		{Method: http.MethodGet, Pattern: "/api/v1/jobs", Who: Own, Grouped: true,
			Doc: "A page of jobs: kind, state, outcome, cause (each may be repeated), group, owner, parent, " +
				"key, worker, tag, ended, order=oldest, after, limit; brief=true leaves out specs and data.",
			Handle: s.jobs,
			IO:     openapi.IO{Out: api.Page{}, Query: openapi.Filters("parent", "brief")}},
		{Method: http.MethodGet, Pattern: "/api/v1/lookup", Who: Own, Grouped: true,
			Doc: "The jobs that a person may mean by a name: an id or the beginning or end of one, a " +
				"number, KIND/NUMBER, or a name" +
				" that an application gave it, such as an ARK. At most 11; none is not found: name.", Handle: s.lookup,
			IO: openapi.IO{Out: api.Page{}, Query: openapi.Query("name")}},
		{Method: http.MethodPost, Pattern: "/api/v1/jobs", Who: Own, Grouped: true,
			Doc: "Creates a job of a kind that has no operation of its own for that: kind, spec, key, " +
				"priority, group, owner, tags, bytes, due, deadline, note, actor.", Handle: s.create, NoReason: NewWork,
			IO: openapi.IO{In: api.Order{}, Out: api.Job{},
				Status: http.StatusCreated, Also: map[int]any{200: api.Job{}}}},
		{Method: http.MethodGet, Pattern: "/api/v1/jobs/{id}", Who: Person,
			Doc: "One job: the record, its progress, the legal events of operator and owner, links.", Handle: s.job,
			IO: openapi.IO{Out: api.Job{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/jobs/{id}/history", Who: Person,
			Doc: "The entries of its history, oldest first: after, limit.", Handle: s.history,
			IO: openapi.IO{Out: api.History{}, Query: openapi.Query("after", "limit")}},
		{Method: http.MethodGet, Pattern: "/api/v1/jobs/{id}/tasks", Who: Person,
			Doc: "Its tasks, and which of them may be tried again on their own now.", Handle: s.tasks,
			IO: openapi.IO{Out: api.Tasks{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/jobs/{id}/tasks/retry", Who: Person,
			Doc:    "Has a task tried again on its own, while the job goes on: task, version, actor, note, as.",
			Handle: s.retryTask, IO: openapi.IO{In: api.TaskRetry{}, Out: api.Job{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/jobs/{id}/children", Who: Person,
			Doc:    "A page of the jobs of a batch; it has the filters of the list of jobs, except parent.",
			Handle: s.children,
			IO:     openapi.IO{Out: api.Page{}, Query: openapi.Filters("brief")}},
		{Method: http.MethodGet, Pattern: "/api/v1/jobs/{id}/log", Who: Person,
			Doc: "Lines of its log from the byte `offset` on, or the last ones: tail.", Handle: s.log,
			IO: openapi.IO{Out: api.Log{}, Query: openapi.Query("offset", "limit", "tail")}},
		{Method: http.MethodGet, Pattern: "/api/v1/jobs/{id}/why", Who: Person,
			Doc: "What it waits for and what would move it, now or at the time `at`.", Handle: s.why,
			IO: openapi.IO{Out: api.Explanation{}, Query: openapi.Query("at")}},
		{Method: http.MethodGet, Pattern: "/api/v1/jobs/{id}/expected", Who: Person,
			Doc: "When it should end, from the durations of others of its kind; a batch by the pace of its own jobs. " +
				"What is not known is missing.", Handle: s.expected, IO: openapi.IO{Out: api.Expected{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/jobs/{id}/diagram.svg", Who: Person,
			Doc: "Its lifecycle as a drawing, with its path and its state, now or at the time `at`.", Handle: s.diagram,
			IO: openapi.IO{Media: openapi.SVG, Query: openapi.Query("at")}},
		{Method: http.MethodGet, Pattern: "/api/v1/jobs/{id}/events", Who: Person,
			Doc: "Its changes as they happen, and those of its jobs' counts (server-sent events). With offset also " +
				"the length of its log whenever that is larger.", Handle: s.Events,
			IO: openapi.IO{Events: append(openapi.JobEvents, openapi.LogGrown),
				Query: openapi.Query("after", "offset")}},
		{Method: http.MethodPost, Pattern: "/api/v1/jobs/{id}/events/{event}", Who: Person,
			Doc: "Causes an event: note, version, confirm, actor, as (operator or owner).", Handle: s.act,
			IO: openapi.IO{In: api.Act{}, Out: api.Job{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/jobs/{id}/{event}", Who: Person,
			Doc: "The same, shorter: /hold, /release, /retry, /cancel, /stop, /delete, ...", Handle: s.act,
			IO: openapi.IO{In: api.Act{}, Out: api.Job{}}},
		{Method: http.MethodPut, Pattern: "/api/v1/jobs/{id}/priority", Who: Operator, Grouped: true,
			Doc: "Moves it in its queue: priority, version, actor, note.", Handle: s.priority,
			IO: openapi.IO{In: api.Priority{}, Out: api.Job{}}},
	}
}

// controlRoutes are for holds, locks and bulks.
func (s *Server) controlRoutes() []Route {
	return []Route{
		{Method: http.MethodGet, Pattern: "/api/v1/holds", Who: Operator, Doc: "All holds.", Handle: s.holds,
			IO: openapi.IO{Out: api.Holds{}}},
		{Method: http.MethodPut, Pattern: "/api/v1/holds", Who: Operator,
			Doc: "Keeps the jobs of a scope from being worked on: kind, state, group, owner, tag, job or " +
				"everything; who, why, until.", Handle: s.hold,
			IO: openapi.IO{In: api.Hold{}, Out: api.Holds{}}},
		{Method: http.MethodDelete, Pattern: "/api/v1/holds", Who: Operator,
			Doc:    "Ends the hold of a scope: kind, state, group, owner, tag, job, or everything=true; who, why.",
			Handle: s.release,
			IO: openapi.IO{Out: api.Holds{},
				Query: openapi.Single("kind", "state", "group", "owner", "job", "tag", "everything", "who", "why")}},
		{Method: http.MethodGet, Pattern: "/api/v1/workers", Who: Operator,
			Doc: "The workers that are known to this server (its own, those that claim over the API, and agents), " +
				"those that the other servers of the store announce, and all others that have jobs, with the number " +
				"of their jobs and of those whose lease has expired.",
			Handle: s.workers, IO: openapi.IO{Out: api.Workers{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/workers/{name}/drain", Who: Operator,
			Doc:    "Lets a worker finish its jobs and take no new ones, until it is resumed: note, actor.",
			Handle: s.drainWorker, IO: openapi.IO{In: api.WorkerDrain{}, Out: api.Workers{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/workers/{name}/resume", Who: Operator,
			Doc:    "Lets a drained worker take jobs again: note, actor.",
			Handle: s.resumeWorker, IO: openapi.IO{In: api.WorkerDrain{}, Out: api.Workers{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/locks", Who: Operator,
			Doc: "All locks: of objects, of their entries in the inventory, of local ids; with holder, " +
				"token and who waits.", Handle: s.locks,
			IO: openapi.IO{Out: api.Locks{}}},
		{Method: http.MethodDelete, Pattern: "/api/v1/locks", Who: Operator,
			Doc: "Breaks a lock: kind, name, note (why), actor. What its holder writes under it afterwards " +
				"is refused.", Handle: s.breakLock,
			IO: openapi.IO{Out: api.Lock{}, Query: openapi.Single("kind", "name", "note", "actor")}},
		{Method: http.MethodGet, Pattern: "/api/v1/fixity", Who: Operator,
			Doc: "Stored files that had a fault when they were last read, and how old the checks of each storage " +
				"location are: application.", Handle: s.fixity,
			IO: openapi.IO{Out: api.Fixity{}, Query: openapi.Single("application")}},
		{Method: http.MethodPost, Pattern: "/api/v1/fixity", Who: Operator,
			Doc: "Checks all stored files in the background: application and location (empty: all), note, actor. " +
				"A check that is in progress continues.", Handle: s.checkFixity,
			IO: openapi.IO{In: api.CheckFixity{}, Out: api.Fixity{}, Status: http.StatusAccepted}},
		{Method: http.MethodGet, Pattern: "/api/v1/fixity/objects", Who: Operator,
			Doc: "Stored objects with the number of their copies, the oldest check, and how many copies are overdue, " +
				"damaged and healed: application, location, damaged, overdue, after, limit.", Handle: s.fixityObjects,
			IO: openapi.IO{Out: api.FixityObjects{},
				Query: openapi.Single("application", "location", "damaged", "overdue", "after", "limit")}},
		{Method: http.MethodGet, Pattern: "/api/v1/counts", Who: Operator,
			Doc: "How many jobs there are by kind, state and group.", Handle: s.counts,
			IO: openapi.IO{Out: api.Counts{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/throughput", Who: Operator,
			Doc:    "How many jobs of each kind ended in each of the last 24 hours, and with which outcome.",
			Handle: s.throughput, IO: openapi.IO{Out: api.Throughput{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/outbox", Who: Operator,
			Doc: "Messages that leave or have left, without their bodies, newest first: job, topic, " +
				"status, after, limit.", Handle: s.outbox,
			IO: openapi.IO{Out: api.Outbox{}, Query: openapi.Query("job", "topic", "after", "limit", "status")}},
		{Method: http.MethodPost, Pattern: "/api/v1/outbox/replay", Who: Operator,
			Doc: "Delivers messages again, all or none: keys, note, actor.", Handle: s.replay,
			IO: openapi.IO{In: api.Replay{}, Out: api.Replay{}, Once: true}},
	}
}

// overviewRoutes are the overviews of operators, and the lifecycles.
func (s *Server) overviewRoutes() []Route {
	return []Route{
		{Method: http.MethodGet, Pattern: "/api/v1/queue", Who: Operator,
			Doc:    "How many jobs and bytes there are by collection and state, with totals: kind, group, ended.",
			Handle: s.queue,
			IO:     openapi.IO{Out: api.Queue{}, Query: openapi.Query("kind", "group", "ended")}},
		{Method: http.MethodGet, Pattern: "/api/v1/queue/batches", Who: Operator,
			Doc: "Batches by age with their jobs by outcome, the oldest first: group, all (those that ended " +
				"well, too), after, limit.", Handle: s.queueBatches,
			IO: openapi.IO{Out: api.QueueBatches{}, Query: openapi.Query("group", "after", "limit", "all")}},
		{Method: http.MethodGet, Pattern: "/api/v1/queue/holds", Who: Operator,
			Doc:    "What is held: holds with the number of open jobs they concern, and jobs that were put aside.",
			Handle: s.queueHolds,
			IO:     openapi.IO{Out: api.QueueHolds{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/stuck", Who: Operator,
			Doc: "Open jobs that stay longer than usual, are overdue or held for long, or whose worker is " +
				"silent, worst first: kind, factor, limit.", Handle: s.stuck,
			IO: openapi.IO{Out: api.Stuck{}, Query: openapi.Query("kind", "limit", "factor")}},
		{Method: http.MethodGet, Pattern: "/api/v1/audit", Who: Operator,
			Doc: "What people did: the newest entries, or with after those that follow, going forward; " +
				"limit, actor, address, job, event.", Handle: s.audit,
			IO: openapi.IO{Out: api.Audits{}, Query: openapi.Query("actor", "address", "job", "event", "after",
				"limit")}},
		{Method: http.MethodGet, Pattern: "/api/v1/lifecycles", Who: Anyone,
			Doc: "The lifecycles of this server.", Handle: s.lifecycles,
			IO: openapi.IO{Out: api.Lifecycles{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/lifecycles/{name}", Who: Anyone,
			Doc: "One lifecycle as JSON; with .svg, .mmd or .dot behind the name as a drawing.", Handle: s.lifecycle,
			IO: openapi.IO{Out: json.RawMessage{}, Media: openapi.Drawings}},
	}
}

// workerRoutes are for workers outside.
func (s *Server) workerRoutes() []Route {
	return []Route{
		{Method: http.MethodPost, Pattern: "/api/v1/worker/claim", Who: Worker,
			Doc: "Takes up to n jobs for a worker: worker (with tokens its owner), from (kind and state, " +
				"which the token names), n, lease and wait in seconds. States that the server works on " +
				"itself are refused.", Handle: s.claim, NoReason: workersAct,
			IO: openapi.IO{In: api.Claim{}, Out: api.Claimed{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/worker/renew", Who: Worker,
			Doc: "Prolongs leases and gives those that are over.", Handle: s.renew, NoReason: workersAct,
			IO: openapi.IO{In: api.Renewal{}, Out: api.Renewed{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/worker/report", Who: Worker,
			Doc: "Reports how the work on jobs went, with data, tasks, messages, log lines and children; " +
				"each report succeeds or fails alone, and may be repeated.", Handle: s.reports, NoReason: workersAct,
			IO: openapi.IO{In: api.Reports{}, Out: api.Results{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/worker/update", Who: Worker,
			Doc:    "Reports in the middle of the work, as a report without an outcome: the worker keeps its claims.",
			Handle: s.updates, NoReason: workersAct,
			IO: openapi.IO{In: api.Reports{}, Out: api.Results{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/worker/job", Who: Worker,
			Doc:    "Reads a job that the worker has claimed, as it is now, with its tasks: worker, job, epoch.",
			Handle: s.workerJob, NoReason: workersAct,
			IO: openapi.IO{In: api.WorkerLease{}, Out: api.WorkerJob{}}},
	}
}

// adminRoutes are for the maintenance of the data.
func (s *Server) adminRoutes() []Route {
	return []Route{
		{Method: http.MethodPost, Pattern: "/api/v1/admin/verify", Who: Admin, Reads: true,
			Doc: "Checks histories against records: chains of hashes, replay.", Handle: s.verify,
			NoReason: "it only reads",
			IO:       openapi.IO{In: api.Verify{}, Out: api.Checkup{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/admin/export", Who: Admin,
			Doc: "All histories and the audit log, with their anchors and time stamps, as a ZIP file that stagepost " +
				"verify checks.", Handle: s.export,
			IO: openapi.IO{Media: []string{"application/zip"}}},
		{Method: http.MethodPost, Pattern: "/api/v1/admin/fsck", Who: Admin,
			Doc:    "Checks what the store derives from the records; with repair it is made anew: repair, note, actor.",
			Handle: s.fsck, Preview: fsckPreview,
			IO: openapi.IO{In: api.Fsck{}, Out: api.Checkup{}}},
		{Method: http.MethodGet, Pattern: "/api/v1/admin/clock", Who: Admin,
			Doc:    "Whether the server trusts the clock of its machine; in doubt nothing is removed by its age.",
			Handle: s.clock,
			IO:     openapi.IO{Out: api.Clock{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/admin/clock", Who: Admin,
			Doc:    "Trusts the clock as it is now: note (why), actor. Refused when it is not in doubt.",
			Handle: s.confirmClock,
			IO:     openapi.IO{In: api.ConfirmClock{}, Out: api.Clock{}}},
		{Method: http.MethodPost, Pattern: "/api/v1/admin/backup", Who: Admin,
			Doc: "Makes a backup of the data directory while the server works, in its backup directory: " +
				"name, without (compute, storage), note, actor.", Handle: s.backup,
			IO: openapi.IO{In: api.Backup{}, Out: api.BackedUp{}, Once: true}},
	}
}
