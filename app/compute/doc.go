// Package compute runs users' scripts: a user uploads files with a run.sh and orders a service to run it, an executor
// runs it, and its results are kept as a ZIP file. docs/compute.md is for its users, [JobLife] the lifecycle of a job,
// [PayloadLife] that of the same job at its agent.
//
//	an order      order.go, upload.go   the files are on disk before the job's record is committed
//	its quota     promise.go, usage.go  bytes of an owner, also where several servers share the store
//	Queued        begin.go, inputs.go   inputs behind URLs; loads.go bounds how many are fetched at once
//	Processing    send.go, call.go      an executor gets the parcel; registry.go and line.go select it
//	at work       query.go              Submitted, Prepared, Running and Unknown, as the executor reports
//	Retrieving    fetch.go              the results are fetched; result.go serves them
//	Killing       kill.go, cancel.go    the executor is requested to end the payload
//	afterwards    callback.go, clean.go, repeat.go
//
// An [Executor] runs a payload once for each [Ticket], however often it is handed over. Package agent is Stagepost's
// own, package slurm that of a cluster; package orchestrator adds those of job-orchestrator. How a payload ended and
// whether its results could be fetched are recorded apart.
//
// Its routes are in app/compute/http, tasks of GA4GH TES in app/compute/tes, the services file in
// app/compute/serviceconfig. directory.go lists what is on disk.
package compute
