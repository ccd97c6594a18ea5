// Package flow runs task graphs. It executes tasks when their dependencies are done, reverts executed tasks after a
// failure, retries parts of the graph, and suspends and resumes the whole, also after a crash. It is for users of
// OpenStack's TaskFlow and has the same tables of states. The package needs no server.
//
// A [Flow] consists of items, each a [Task] or a Flow, in a pattern ([Linear], [Unordered], [Graph]). A [Retry]
// controller governs a flow. A [Runner] runs one flow:
//
//	                 +------------- Runner (the goroutine of Run or Advance) -------------+
//	Linear/Graph --> | plan: one graph    gauge: what is ready, by counters               |
//	                 |                                                                    |
//	  Storage  <-----| records --> ready? --> RUNNING ----> queue or Pool ----> outcome   |
//	  (the truth)    |    ^                      |                               |        |
//	                 |    |                      v commit, then report             |        |
//	  Listeners <----|    +------ state, result, decision: one commit <----------+        |
//	                 +--------------------------------------------------------------------+
//
// [Func0] and its variants make tasks from functions, so that the compiler checks arguments and results. [Wait],
// [Sleep] and [Await] wait without holding a goroutine. [Attempts] repeats one task after a failure, and [Task].Timeout
// bounds it. [Runner.Advance] runs any number of flows in one goroutine.
//
// # Stored records
//
// The [Storage] has one record for each atom (a task or a retry controller) and the state of the flow. A decision and
// all its changes are one [Commit]. Listeners are notified and tasks are started after the commit. An atom has a state
// (what happened to it) and an intention (what the flow does with it next). A new Runner needs nothing else to
// continue. Tasks are executed at least once: after a crash, an interrupted task is executed again with the same
// [Call.Key].
//
// # Failures
//
// A failed task is first repeated by itself, if it has Attempts. Then the nearest retry controller decides: it retries
// its part, reverts its part, or reverts the whole flow. Without a controller the whole flow is reverted: all tasks
// that succeeded or failed are reverted in reverse order, and the flow ends REVERTED. Waiting tasks fail with type
// [TypeCancelled]; running tasks end first. A failed revert ends the flow in FAILURE and leaves everything before it
// unchanged; the next run repeats that revert. An error of the flow itself (a decider, a hook, a missing value) ends it
// in FAILURE and reverts nothing, unless [Options].RevertErrors is set. A state that is not in the tables ends it in
// FAILURE with a [StateError]. If the Storage fails, the Runner starts and reports nothing more, and Run returns the
// error. If the context of Run ends, the flow stays RUNNING, and the next run continues.
//
// # Improvements on TaskFlow
//
// TaskFlow 5 and 6 have each of these problems:
//
//  1. A flow suspended with queued tasks ended REVERTED and repeated everything. Here queued tasks return to PENDING,
//     and the flow is SUSPENDED.
//  2. After a failed revert, a run from FAILURE ended REVERTED. Here the failed revert is repeated first.
//  3. A reset of a failed or suspended flow destroyed its atoms and was then refused. Here it is one commit.
//  4. Of two simultaneous failures, the second was stored as a failed revert. Here every revert gets both, in
//     [Call.Failures].
//  5. A crash lost the results of a serial batch, and scheduling was quadratic or worse. Here each result is stored at
//     once, and counters find ready atoms.
//  6. Errors of the engine left tasks RUNNING and reverted nothing. Here Options.RevertErrors reverts them, and a run
//     from FAILURE continues.
//  7. Job boards returned the lowest or newest job first. Here a flow of the server is a job of its queue, ordered by
//     priority and age. The library has no board.
//  8. Claims never expired, and some changes were not transactions. Here claims have leases that the server renews, and
//     [Storage.Save] refuses a commit after the lease is lost.
//  9. Documents and code differed about Times, REVERTED and RESUMING. Here [Times] of n is n executions, and the tables
//     in the documents are generated from [Life].
//  10. Versions were stored but never compared, and Ctrl-C left everything RUNNING. Here [Options].Upgrade decides
//     about each [Difference], and the next run continues from RUNNING.
//  11. After a reset of a successful flow its controllers kept the attempts of the previous run. Here a reset removes
//     them.
//  12. Failures of earlier runs were raised again. Here a failure is removed when its atom is reset or succeeds.
//
// # Terms
//
// States, intentions, decisions and depths have TaskFlow's names. These terms differ:
//
//	requires, rebind, inject      Args{Requires, Rebind, Inject}; nothing is inferred from a signature: see Func0
//	optional arguments            Args.Optional, with default values; [Key.Or]
//	revert_requires, _rebind      Task.Undo
//	provides                      Task.Result: a [Result] with Name ([One]), Names or Keys
//	pre_execute, post_execute     Task.BeforeExecute, AfterExecute, and likewise for revert
//	flow_failures, result         Call.Failures, Call.Result and Call.Failure
//	on_failure                    Retry.Decide
//	decider_depth                 [Depth], with [Flow.LinkIf]
//	set_target                    [Flow.Target]
//	engine (serial, parallel)     [Runner], without or with Options.Workers
//	run_iter                      [Runner.Advance], which returns when no task is active, not after each step
//	notifier, atom_notifier       Options.Listeners: one [Listener] gets both
//	update_progress               [Call.Progress]
//	storage.fetch, fetch_all      [Runner.Value], [Runner.Values], [Get]
//	WrappedFailure                [Failures]; a [Failure] is itself an error
//	logbook, flow detail, atom detail   Storage, [Snapshot], [Record]
//	FAILURE                       [FailureState]: Failure is a type
//	store=, storage.inject        Options.Inject, [Runner.Inject]
//	FunctorTask, MapFunctorTask   a Task with Execute; [Func1] and its variants
//	flow factory, load_from_factory     a Factory of package durable, by name
//	LoggingListener, DynamicLoggingListener   [Logging]
//	CaptureListener, DurationListener   Capture and Timing of package flowtest
//	jobboard, conductor, claim    package durable on an engine: jobs, workers, leases
//	worker-based engine           workers of an engine share a store; one flow's tasks run in one process
//
// An intention is a [Record] field, never a state. [ToRevert], [ToRetry] and [ToIgnore] are stored as REVERT, RETRY and
// IGNORE.
package flow
