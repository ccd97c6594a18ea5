// Package flow runs task graphs: what is ready is done, what was done is reverted when something fails, part of it is
// tried again, and all of it can be suspended, and goes on after a crash. It is built for those who know OpenStack's
// TaskFlow, and holds its tables of states; nothing here needs a server.
//
// A [Flow] is made of items, [Task] or Flow, in a pattern ([Linear], [Unordered], [Graph]); a [Retry] governs a flow. A
// [Runner] runs one flow:
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
// [Func0] and its kin make tasks of functions whose arguments and results the compiler checks. [Wait], [Sleep] and
// [Await] wait without holding a goroutine; [Attempts] let a task be tried again by itself, [Task].Timeout ends it.
// [Runner.Advance] runs any number of flows in one goroutine.
//
// # What is the truth
//
// The records in the [Storage], one for each atom (a task or a retry controller), and the state of the flow. A decision
// and all that it changes are one [Commit]. Listeners are reported after it, tasks are begun after it. An atom has a
// state (what happened to it) and an intention (what is to become of it): both together are all that a new Runner needs
// to go on. Tasks are executed at least once: what a crash interrupted is done again, with the same [Call.Key].
//
// # What happens on failure
//
// A task that fails is first tried again by itself, if it has Attempts. Then the nearest retry controller is asked: it
// tries its part again, stops trying its part, or stops trying the flow. Without one the whole flow is reverted: what
// succeeded, and what failed, is reverted against the order in which it was done, and the flow ends REVERTED. What
// waits is ended with type [TypeCancelled]; what is being executed ends first. A revert that fails ends the flow in
// FAILURE, with everything before it as it was; the next run tries that revert again. An error of the flow itself (a
// decider, a hook, a value that is not there) ends it in FAILURE with nothing reverted, unless [Options].RevertErrors
// states otherwise. A state that the tables do not know ends it in FAILURE with a [StateError]. If the Storage fails,
// nothing more is begun or notified, and the error is that of Run. If the context of Run ends, the flow stays RUNNING,
// and the next run goes on.
//
// # What is better than in TaskFlow
//
// Each of these goes wrong in TaskFlow 5 and 6:
//
//  1. A flow suspended while tasks are queued ended REVERTED and did everything again. Here queued tasks go back to PENDING, and the flow is SUSPENDED.
//  2. A run from FAILURE called a flow REVERTED whose revert had failed. Here the failed revert is tried again, and REVERTED is stated of what was reverted.
//  3. A reset of a failed or suspended flow destroyed its atoms and was refused then. Here it is one commit: whole, or not at all.
//  4. Of two failures at once the second was filed among the failed reverts. Here every revert sees both, in [Call.Failures].
//  5. Results of a serial batch were lost in a crash, and scheduling was quadratic or worse. Here each result is stored when it is there, and readiness is counted.
//  6. Errors of the engine left tasks RUNNING and nothing reverted. Here Options.RevertErrors reverts them, and a run from FAILURE goes on.
//  7. Boards of jobs gave the lowest or newest first. Here a flow of the server is a job of its queue, by priority and age; the library has no board.
//  8. Claims never expired, and some changes were no transactions. Here they have leases, renewed by the server, and [Storage.Save] refuses who lost his.
//  9. Documents and code differed about Times, REVERTED and RESUMING. Here [Times] of n is n executions, and the tables in the documents are made from [Life].
//  10. Versions were stored and never examined; Ctrl-C left everything RUNNING. Here [Options].Upgrade is asked about each [Difference], and the next run goes on from RUNNING.
//  11. After a reset of a flow that had succeeded its controllers had attempts left of the run before. Here a reset leaves nothing.
//  12. Failures of earlier runs were raised with later ones. Here a failure is forgotten when its atom is reset or succeeds.
//
// # Words
//
// States, intentions, decisions and depths have TaskFlow's names. These differ:
//
//	requires, rebind, inject      Args{Requires, Rebind, Inject}; nothing is inferred from a signature: see Func0
//	optional arguments            Args.Optional, with what they are otherwise; [Key.Or]
//	revert_requires, _rebind      Task.Undo
//	provides                      Task.Result: a [Result] with Name ([One]), Names or Keys
//	pre_execute, post_execute     Task.BeforeExecute, AfterExecute, and so for revert
//	flow_failures, result         Call.Failures, Call.Result and Call.Failure
//	on_failure                    Retry.Decide
//	decider_depth                 [Depth], with [Flow.LinkIf]
//	set_target                    [Flow.Target]
//	engine (serial, parallel)     [Runner], without or with Options.Workers
//	run_iter                      [Runner.Advance], which rests when nothing is being done and not after each step
//	notifier, atom_notifier       Options.Listeners: one [Listener] is reported both
//	update_progress               [Call.Progress]
//	storage.fetch, fetch_all      [Runner.Value], [Runner.Values], [Get]
//	WrappedFailure                [Failures]; a [Failure] is an error itself
//	logbook, flow detail, atom detail   Storage, [Snapshot], [Record]
//	FAILURE                       [FailureState]: Failure is a type
//	store=, storage.inject        Options.Inject, [Runner.Inject]
//	FunctorTask, MapFunctorTask   a Task with Execute; [Func1] and its kin
//	flow factory, load_from_factory     a Factory of package durable, by name
//	LoggingListener, DynamicLoggingListener, CaptureListener, DurationListener   [Logging]; Capture and Timing of package flowtest
//	jobboard, conductor, claim    package durable on an engine: jobs, workers, leases
//	worker-based engine           workers of an engine share a store; one flow's tasks run in one process
//
// An intention is a [Record] field, never a state. [ToRevert], [ToRetry] and [ToIgnore] are stored as REVERT, RETRY and
// IGNORE.
package flow
