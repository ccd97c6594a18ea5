package server

import (
	"net/http"
	"slices"
)

// Role is who may use a route. With tokens it is checked, in admit; without, whoever reaches the server may do everything.
type Role string

// The roles.
const (
	Anyone   Role = "anyone"
	Person   Role = "person" // user, operator or admin; the {id} is a job, of which a user sees its own. Without {id} it is not for users
	Own      Role = "own"    // as Person; the handler binds what is listed or made to the user
	Shared   Role = "shared" // as Person; what it shows is nobody's
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

// The methods of most routes, as short as a table needs them.
const (
	get  = http.MethodGet
	post = http.MethodPost
	del  = http.MethodDelete
)

// Routes lists the whole API, area by area.
func Routes() []Route {
	return slices.Concat(
		serverRoutes(),
		jobRoutes(),
		controlRoutes(),
		overviewRoutes(),
		ingestRoutes(),
		hookRoutes(),
		flowRoutes(),
		computeRoutes(),
		tesRoutes(),
		workerRoutes(),
		adminRoutes(),
	)
}

// serverRoutes are for the server itself.
func serverRoutes() []Route {
	return []Route{
		{get, "/{$}", Anyone, "A short index of the API.", (*Server).index, false},
		{get, "/healthz", Anyone, "Whether the store answers and the engine works.", (*Server).health, false},
		{get, "/metrics", Operator, "What Prometheus reads: jobs, stages, claims, outbox, commits, requests.", (*Server).metrics, false},
	}
}

// jobRoutes are for jobs of all kinds.
func jobRoutes() []Route {
	return []Route{
		{get, "/api/jobs", Own, "A page of jobs: kind, state, outcome, cause (each may be repeated), group, owner, parent, key, worker, tag, ended, order=oldest, after, limit.", (*Server).jobs, false},
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
		{http.MethodPut, "/api/jobs/{id}/priority", Operator, "Moves it in its queue: priority, version, actor, note.", (*Server).priority, false},
	}
}

// controlRoutes are for holds, locks and bulks.
func controlRoutes() []Route {
	return []Route{
		{get, "/api/holds", Operator, "All holds.", (*Server).holds, false},
		{http.MethodPut, "/api/holds", Operator, "Keeps the jobs of a scope from being worked on: kind, state, group, owner, tag, job or everything; who, why, until.", (*Server).hold, false},
		{del, "/api/holds", Operator, "Ends the hold of a scope: kind, state, group, owner, tag, job, or everything=true; who, why.", (*Server).release, false},
		{get, "/api/locks", Operator, "All locks: of objects, of their entries in the inventory, of local ids; with holder, token and who waits.", (*Server).locks, false},
		{del, "/api/locks", Operator, "Breaks a lock: kind, name, note (why), actor. What its holder writes under it afterwards is refused.", (*Server).breakLock, false},
		{get, "/api/counts", Operator, "How many jobs there are by kind, state and group.", (*Server).counts, false},

		{post, "/api/bulk", Operator, "Does one thing to all jobs that match: filters, event, note, expect (their number), confirm, priority; with dry=true only tells what it would meet.", (*Server).startBulk, false},
		{get, "/api/bulk/{id}", Operator, "What a bulk did: done, refused and why, changed meanwhile.", (*Server).bulkResult, false},
	}
}

// overviewRoutes are for what operators look at, and the lifecycles.
func overviewRoutes() []Route {
	return []Route{
		{get, "/api/queue", Operator, "How many jobs and bytes there are by collection and state, with totals: kind, group, open.", (*Server).queue, false},
		{get, "/api/queue/batches", Operator, "Batches by age with their jobs by outcome, the oldest first: group, all (those that ended well, too), after, limit.", (*Server).queueBatches, false},
		{get, "/api/queue/holds", Operator, "What is held: holds with the number of open jobs they concern, and jobs that were put aside.", (*Server).queueHolds, false},
		{get, "/api/stuck", Operator, "Open jobs that stay longer than usual, are overdue or held for long, or whose worker is silent, worst first: kind, factor, limit.", (*Server).stuck, false},
		{get, "/api/storage", Operator, "Storage locations: directory, owner, whether they may be used and why not.", (*Server).storageLocations, false},
		{post, "/api/storage", Admin, "Gives a storage location to this installation: dir, note (why), actor.", (*Server).adoptLocation, false},
		{get, "/api/fixity", Operator, "Stored files that had a fault when they were last read, and how old the checks of each storage location are.", (*Server).fixity, false},
		{post, "/api/fixity", Operator, "Checks all stored files in the background: location (empty: all), note, actor. A check that is under way goes on.", (*Server).checkFixity, false},
		{get, "/api/orphans", Operator, "What belongs to nothing: files, directories, locks, versions, messages.", (*Server).orphans, false},
		{post, "/api/orphans", Operator, "Removes the deletable orphans with level FAIL: expect (their number), note, actor.", (*Server).fixOrphans, false},
		{get, "/api/audit", Operator, "What people did: after (going forward) or last (the newest so many); actor, job, event.", (*Server).audit, false},

		{get, "/api/lifecycles", Anyone, "The lifecycles that this server knows.", (*Server).lifecycles, false},
		{get, "/api/lifecycles/{name}", Anyone, "One lifecycle as JSON; with .svg, .mmd or .dot behind the name as a drawing.", (*Server).lifecycle, false},
	}
}

// ingestRoutes are for ingest, packages of what is stored, profiles and the outbox.
func ingestRoutes() []Route {
	return []Route{
		{post, "/api/ingest/submissions", Own, "Hands in a payload: multipart/form-data with a part `submission` (JSON) or single fields, then the part `payload`.", (*Server).submit, true},
		{get, "/api/ingest/batches/{id}/report", Person, "The report about a batch: format=json, text, html, csv-completed or csv-failed, else what Accept asks for.", (*Server).report, false},
		{get, "/batches/{id}", Person, "A page for the depositor of a batch: how it stands, what failed and why; refresh=off keeps it still.", (*Server).batchPage, false},
		{get, "/assets/{name}", Anyone, "What the pages need: style sheets and scripts.", (*Server).asset, false},
		{get, "/api/ingest/batches/{id}/submission", Person, "What was handed in with a batch.", (*Server).submission, false},
		{get, "/api/ingest/jobs/{id}/manifest", Person, "The manifest of a job or batch as it was received.", (*Server).manifest, false},
		{get, "/api/ingest/jobs/{id}/files", Person, "A page of the files of a job with digests and where they come from: wanted, fetched or stored; after, limit.", (*Server).jobFiles, false},
		{get, "/api/ingest/jobs/{id}/metadata", Person, "ERC and Dublin Core of a job's object.", (*Server).metadata, false},
		{get, "/api/ingest/objects", Own, "Stored objects, for users those that they may update: ark, local_id, owner, digest, after, limit.", (*Server).objects, false},
		{post, "/api/access", Own, "Asks for an object, a version or a list of files as a package: object, or local_id and owner; version, files, format (zip, tar, bag-zip, bag-tar), name, requester, key. Answers 202 with a token.", (*Server).requestAccess, false},
		{get, "/api/access/{token}", Anyone, "What became of the request of a token: status (200 ready, 201 queued, 202 not ready, 500 failed), words, progress, expiry.", (*Server).accessStatus, false},
		{get, "/api/access/{token}/content", Anyone, "The package of a token, whole or in ranges; 409 while it is not ready, 410 when it has expired.", (*Server).accessContent, false},
		{get, "/api/ingest/profiles", Shared, "The profiles in short, and how their directory stands.", (*Server).profiles, false},
		{get, "/api/ingest/profiles/schema", Anyone, "The JSON Schema of profile files.", (*Server).profileSchema, false},
		{get, "/api/ingest/profiles/{id}", Operator, "Every value of a profile, defaults included, and where it came from; secrets are stars.", (*Server).profile, false},
		{post, "/api/ingest/profiles/reload", Operator, "Reads the profile directory again: actor, note. A broken one changes nothing.", (*Server).reloadProfiles, false},
		{get, "/api/outbox", Operator, "Messages that leave or have left, without what they say, newest first: job, topic, status, before, limit.", (*Server).outbox, false},
		{post, "/api/outbox/replay", Operator, "Delivers messages again, all or none: keys, note, actor.", (*Server).replay, false},
	}
}

// hookRoutes are for notifications.
func hookRoutes() []Route {
	return []Route{
		{get, "/api/hooks", Operator, "A page of notifications, the newest first: job, status (pending, delivered, given-up), before, limit.", (*Server).hooks, false},
		{get, "/api/hooks/{key...}", Operator, "One notification with its payload and its last tries.", (*Server).oneHook, false},
		{post, "/api/hooks/replay", Operator, "Sends notifications again: keys, or failed and since; note (why) is required; actor.", (*Server).replayHooks, false},
		{post, "/api/hooks/ping", Operator, "Sends a notification of type ping to the webhooks of a profile: profile, hook, note, actor.", (*Server).pingHooks, false},
	}
}

// flowRoutes are for flows.
func flowRoutes() []Route {
	return []Route{
		{post, "/api/flows", Own, "Creates a flow, a graph of tasks: file (text of a flow file) or factory and args; inputs, defer_reverts, never_resolve, revert_errors, workers, key, priority, group, owner, due, deadline, note, actor.", (*Server).submitFlow, true},
		{get, "/api/flows/{id}", Person, "A flow with its outline and the states, times, attempts and failures of its tasks; values=true adds what they gave, large values cut.", (*Server).showFlow, false},
		{post, "/api/flows/{id}/mark-reverted", Person, "Says that a person has rolled back a task of a flow in FAILURE by hand: task, note, actor. The rest is rolled back when the flow is run again or cancelled.", (*Server).markReverted, false},
		{post, "/api/flows/{id}/signal", Person, "Sends a signal to a flow: name, value, note, actor. It is kept for who waits for it later. To suspend, run (resume) and reset a flow are events of its job.", (*Server).signalFlow, false},
		{get, "/api/flows/{id}/{name}", Person, "A drawing of a flow with the states of its tasks: graph.svg, graph.dot, graph.mmd or timeline.svg; without an ending what Accept asks for. version has no meaning but to make the address a new one.", (*Server).drawFlow, false},
		{get, "/flows/{id}", Person, "A page about a flow with its graph and its times that follows it; refresh=off keeps it still.", (*Server).flowPage, false},
	}
}

// computeRoutes are for compute jobs and the agents that run them.
func computeRoutes() []Route {
	return []Route{
		{post, "/api/compute/jobs", Own, "Runs files: multipart/form-data with the part `order` (JSON) first and the files behind it, or JSON alone: service, command or a file run.sh, name, env, limits, labels, inputs, priority, key, uploads (ids), files (inline), owner, note, actor.", (*Server).submitCompute, true},
		{get, "/api/compute/jobs", Own, "A page of compute jobs, the newest first: service, state, outcome, cause, label (each may be repeated), number (there is one at most), owner, name, ended, after, limit.", (*Server).listCompute, false},
		{get, "/api/compute/jobs/{id}", Person, "One compute job: order, place in the queue, agent, attempts, ending, limits, times, links.", (*Server).showCompute, false},
		{del, "/api/compute/jobs/{id}", Person, "Calls it off, as cancel does; one that has ended stays as it is (clean removes its files): version, note, actor.", (*Server).deleteCompute, false},
		{post, "/api/compute/jobs/{id}/cancel", Person, "Calls it off: version, note, actor. A queued job ends at once; one at an agent is Killing until the agent has ended it or has not answered for ten minutes (message says what happens next); one that has ended stays as it is.", (*Server).cancelCompute, false},
		{post, "/api/compute/jobs/{id}/clean", Person, "Removes the files of one that has ended, before they are kept long enough: version, note, actor. The record stays.", (*Server).cleanCompute, false},
		{post, "/api/compute/jobs/{id}/retry", Person, "Makes a new job of one that has ended, with nothing changed: key, confirm (although it completed), note, actor.", (*Server).retryCompute, false},
		{post, "/api/compute/jobs/{id}/clone", Person, "Makes a new job of its files with changes: service, name, env, limits, labels, priority, key, note, actor.", (*Server).cloneCompute, false},
		{get, "/api/compute/jobs/{id}/events", Person, "Its changes as they happen (server-sent events), after Last-Event-ID.", (*Server).eventsCompute, false},
		{get, "/api/compute/jobs/{id}/logs", Person, "What it writes, as text or as server-sent events: stream (stdout, stderr, both), offset, follow.", (*Server).logsCompute, false},
		{get, "/api/compute/jobs/{id}/files", Person, "Its inputs and the entries of its results: after, limit.", (*Server).filesCompute, false},
		{get, "/api/compute/jobs/{id}/files/{path...}", Person, "One file of its results or inputs, whole or in ranges: from (results, inputs).", (*Server).fileCompute, false},
		{get, "/api/compute/jobs/{id}/results", Person, "Its results as a ZIP, whole or in ranges.", (*Server).resultsCompute, false},
		{get, "/api/compute/jobs/{id}/partial", Person, "What it has made so far, as a ZIP.", (*Server).partialCompute, false},
		{get, "/api/compute/services", Shared, "The services with their quotas, limits, and how many jobs run and wait.", (*Server).computeServices, false},
		{get, "/api/compute/agents", Operator, "The agents: whether they answer, services, slots, load, sandbox.", (*Server).computeAgents, false},
		{post, "/api/compute/agents/{name}/drain", Operator, "Has an agent get no new jobs from this server, until resume: note, actor. What it has goes on.", (*Server).drainCompute, false},
		{post, "/api/compute/agents/{name}/resume", Operator, "Has a drained agent get jobs again: note, actor.", (*Server).resumeCompute, false},
		{get, "/api/compute/usage", Own, "What owners use: jobs, files, bytes, and what runs and waits by service: owner.", (*Server).computeUsage, false},
		{http.MethodOptions, "/api/compute/uploads", Own, "What resumable uploads can do (tus 1.0.0).", (*Server).resumable, true},
		{post, "/api/compute/uploads", Own, "Makes a resumable upload (tus 1.0.0): Upload-Length, Upload-Metadata with filename. An order takes it by its id.", (*Server).resumable, true},
		{http.MethodOptions, "/api/compute/uploads/{upload}", Own, "What resumable uploads can do (tus 1.0.0).", (*Server).resumable, true},
		{get, "/api/compute/uploads/{upload}", Own, "With HEAD: how far an upload has come.", (*Server).resumable, true},
		{post, "/api/compute/uploads/{upload}", Own, "With X-HTTP-Method-Override: what its clients cannot send otherwise.", (*Server).resumable, true},
		{http.MethodPatch, "/api/compute/uploads/{upload}", Own, "Sends the next bytes of an upload from Upload-Offset on.", (*Server).resumable, true},
		{del, "/api/compute/uploads/{upload}", Own, "Ends an upload.", (*Server).resumable, true},

		{get, "/api/compute/tunnel", Worker, "Upgrades to a connection through which the server reaches an agent that nobody can dial: agent.", (*Server).tunnelCompute, false},
	}
}

// tesRoutes are for tasks of GA4GH TES.
func tesRoutes() []Route {
	return []Route{
		{get, "/ga4gh/tes/v1/service-info", Shared, "What this service is (GA4GH TES 1.1).", (*Server).tesInfo, false},
		{get, "/ga4gh/tes/v1/tasks", Own, "A page of tasks (GA4GH TES 1.1), the newest first: name_prefix, state, tag_key and tag_value (each may be repeated), page_size, page_token, view.", (*Server).tesTasks, false},
		{post, "/ga4gh/tes/v1/tasks", Own, "Makes a task, which is a compute job (GA4GH TES 1.1). Inputs behind URLs are fetched when the job exists.", (*Server).tesCreateTask, false},
		{get, "/ga4gh/tes/v1/tasks/{task}", Own, "One task: view (MINIMAL, BASIC, FULL).", (*Server).tesTask, false},
		{post, "/ga4gh/tes/v1/tasks/{task}", Own, "With :cancel behind the task's id: calls it off.", (*Server).tesAct, false},
		{get, "/v1/service-info", Shared, "As /ga4gh/tes/v1/service-info, for clients that leave the beginning away.", (*Server).tesInfo, false},
		{get, "/v1/tasks", Own, "As /ga4gh/tes/v1/tasks, for clients that leave the beginning away.", (*Server).tesTasks, false},
		{post, "/v1/tasks", Own, "As /ga4gh/tes/v1/tasks, for clients that leave the beginning away.", (*Server).tesCreateTask, false},
		{get, "/v1/tasks/{task}", Own, "As /ga4gh/tes/v1/tasks/{task}, for clients that leave the beginning away.", (*Server).tesTask, false},
		{post, "/v1/tasks/{task}", Own, "As /ga4gh/tes/v1/tasks/{task}, for clients that leave the beginning away.", (*Server).tesAct, false},
	}
}

// workerRoutes are for workers outside.
func workerRoutes() []Route {
	return []Route{
		{post, "/api/worker/claim", Worker, "Takes up to n jobs for a worker: worker (with tokens its owner), from (kind and state, which the token names), n, lease and wait in seconds. States that the server works on itself are refused.", (*Server).claim, false},
		{post, "/api/worker/renew", Worker, "Prolongs leases and gives those that are over.", (*Server).renew, false},
		{post, "/api/worker/report", Worker, "Says how the work on jobs went; each report stands or falls alone.", (*Server).reports, false},
	}
}

// adminRoutes are for who looks after the data.
func adminRoutes() []Route {
	return []Route{
		{post, "/api/admin/verify", Admin, "Checks histories against records: chains of hashes, replay.", (*Server).verify, false},
		{post, "/api/admin/fsck", Admin, "Checks what the store derives from the records; with repair it is made anew: repair, note, actor.", (*Server).fsck, false},
		{get, "/api/admin/clock", Admin, "Whether the server trusts the clock of its machine; in doubt nothing is removed by its age.", (*Server).clock, false},
		{post, "/api/admin/clock", Admin, "Trusts the clock as it is now: note (why), actor. Refused when it is not in doubt.", (*Server).confirmClock, false},
		{post, "/api/admin/backup", Admin, "Makes a backup of the data directory while the server works, in its backup directory: name, without (compute, storage), note, actor.", (*Server).backup, false},
	}
}
