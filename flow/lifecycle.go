package flow

import (
	"slices"

	"github.com/stagepost/stagepost/lifecycle"
)

// The states of flows, tasks and retries, in capitals as TaskFlow writes them.
const (
	Pending       lifecycle.State = "PENDING"
	Running       lifecycle.State = "RUNNING"
	Success       lifecycle.State = "SUCCESS"
	FailureState  lifecycle.State = "FAILURE"
	Reverting     lifecycle.State = "REVERTING" // tasks and retries only
	Reverted      lifecycle.State = "REVERTED"
	RevertFailure lifecycle.State = "REVERT_FAILURE" // tasks and retries only
	Ignore        lifecycle.State = "IGNORE"         // tasks and retries only
	Retrying      lifecycle.State = "RETRYING"       // retries only
	Suspending    lifecycle.State = "SUSPENDING"     // flows only
	Suspended     lifecycle.State = "SUSPENDED"      // flows only
	Resuming      lifecycle.State = "RESUMING"       // flows only
	Deleted       lifecycle.State = "DELETED"        // flows only
)

// The events of the three lifecycles. Where a state or a type has the same word, the constant ends in Event, that of a
// state in State.
const (
	Run         lifecycle.Event = "run"
	eventFinish lifecycle.Event = "finish"
	Fail        lifecycle.Event = "fail"
	eventRevert lifecycle.Event = "revert"
	Suspend     lifecycle.Event = "suspend"
	Park        lifecycle.Event = "park"
	eventResume lifecycle.Event = "resume"
	Reset       lifecycle.Event = "reset"

	Cancel lifecycle.Event = "cancel" // ends a flow and rolls back what it did
	Halt   lifecycle.Event = "stop"   // ends a flow and keeps what it did
	Delete lifecycle.Event = "delete"

	eventStart    lifecycle.Event = "start"
	eventIgnore   lifecycle.Event = "ignore"
	eventReverted lifecycle.Event = "reverted"
	eventRetry    lifecycle.Event = "retry"
)

// Short words for the tables below.
const (
	byWorker = lifecycle.Worker
	byTimer  = lifecycle.Timer
	byPerson = lifecycle.Operator | lifecycle.Owner
	byEngine = lifecycle.Engine

	controllerAttempts = "the retry controller's attempts"
)

var (
	onPass = lifecycle.OnPass
	onFail = lifecycle.OnFail
	on     = lifecycle.On
	onLoop = lifecycle.OnLoop
)

// Life is the lifecycle of a flow: TaskFlow's table of 17 changes, two resets (of a failed and of a suspended flow),
// and the endings that a person requests. TaskFlow's documents promise the resets, but its table lacks them. Every
// final state except DELETED can be run again. A flow that reverts is RUNNING: other parts of it may still execute.
var Life = lifecycle.Must("flow",
	lifecycle.OnQueue(Pending, "The flow is new or was reset; it waits for a worker.",
		onPass(Run, Running, byWorker, "Its graph is valid, and every required value is provided."),
		on(Cancel, Reverted, byPerson, "It is cancelled; nothing was executed, and nothing is rolled back."),
		onFail(Halt, FailureState, byPerson, "It is stopped before it started; it can be run again."),
	).Bounded("TaskFlow's table lets no flow fail before it runs; after max_attempts it waits for a person"),
	lifecycle.OnWork(Running, "A worker executes its tasks, reverts them, or both.",
		onPass(eventFinish, Success, byWorker, "Every task succeeded or was ignored."),
		onFail(Fail, FailureState, byWorker|byTimer,
			"A task failed and not everything could be reverted, or it was stopped."),
		on(eventRevert, Reverted, byWorker,
			"A task failed, or it was cancelled, or its deadline passed; its effects are rolled back."),
		onLoop(Cancel, byPerson, "It is cancelled: its worker starts nothing new and rolls back its effects.").Asks(),
		onLoop(Halt, byPerson, "It is stopped: its worker starts nothing new and keeps all results.").Asks(),
		on(Suspend, Suspending, byPerson, "A person suspends it; nothing new is started.").Asks(),
		on(eventResume, Resuming, byWorker, "A worker loads it after a crash of its last worker.").Within("max_starts"),
	),
	lifecycle.OnEnd(Success, lifecycle.OK, "All its tasks are done; it can be run again, or reset and run from the "+
		"beginning.",
		on(Reset, Pending, byPerson, "All results are removed; it starts from the beginning.").Restarts(),
		on(Run, Running, byPerson, "It is run again and executes the tasks that were added meanwhile.").Restarts(),
		onDelete(),
	).Again(),
	lifecycle.OnEnd(FailureState, lifecycle.Failed, "It failed and is not fully reverted; it can be run again.",
		on(Run, Running, byPerson, "It is run again and continues from its present state.").Restarts(),
		on(Cancel, Running, byPerson, "It is cancelled; its remaining effects are rolled back.").Restarts(),
		on(Reset, Pending, byPerson,
			"All results are removed, in the same commit; it starts from the beginning.").Restarts(),
		onDelete(),
	).Again(),
	lifecycle.OnEnd(Reverted, lifecycle.Failed,
		"It failed or was cancelled, and its effects are rolled back; a reset makes it ready to run again.",
		on(Reset, Pending, byPerson, "All results are removed; it starts from the beginning.").Restarts(),
		onDelete(),
	).Again(),
	lifecycle.OnWork(Suspending, "It is being suspended; its worker waits for the active tasks.",
		onPass(eventFinish, Success, byWorker, "The active tasks were the last ones, and all succeeded."),
		onFail(Fail, FailureState, byWorker|byTimer,
			"A task failed meanwhile and not everything could be reverted, or its time is up."),
		on(eventRevert, Reverted, byWorker, "It was reverting, and the last task was reverted meanwhile."),
		onLoop(Cancel, byPerson, "It is cancelled: its worker starts nothing new and rolls back its effects.").Asks(),
		onLoop(Halt, byPerson, "It is stopped: its worker starts nothing new and keeps all results.").Asks(),
		onPass(Park, Suspended, byWorker, "No task is active, and every result is saved."),
		on(eventResume, Resuming, byWorker, "A worker loads it after a crash of its last worker.").Within("max_starts"),
	),
	lifecycle.OnWait(Suspended, "It waits with every result saved, until a person runs it or the worker that "+
		"loaded it continues.",
		onPass(Run, Running, byWorker|byPerson, "It continues from its present state."),
		on(Cancel, Running, byPerson, "It is cancelled: a worker rolls back its effects."),
		on(Halt, Running, byPerson, "It is stopped: a worker closes the started tasks and keeps all results."),
		on(Reset, Pending, byPerson,
			"All results are removed, in the same commit; it starts from the beginning.").Restarts(),
	),
	lifecycle.OnWork(Resuming, "A worker loads the records that a crashed worker left.",
		onPass(Park, Suspended, byWorker, "The records are loaded; active tasks are marked to be executed again."),
		onLoop(Cancel, byPerson, "It is cancelled: its worker starts nothing new and rolls back its effects.").Asks(),
		onLoop(Halt, byPerson, "It is stopped: its worker starts nothing new and keeps all results.").Asks(),
	).Enduring("loading reads the store only, and is repeated until the store answers"),
	lifecycle.OnEnd(Deleted, lifecycle.None, "It was deleted; its record and its values are purged later."),
)

// statePair is a change of state, by any event.
type statePair struct{ From, To lifecycle.State }

// ignored are the changes that late or repeated requests ask for. They leave the flow as it is.
var ignored = []statePair{
	{Pending, Suspending}, {Pending, Suspended}, {Pending, Resuming},
	{FailureState, Suspending}, {FailureState, Suspended}, {FailureState, Resuming},
	{Success, Suspending}, {Success, Suspended}, {Success, Resuming},
	{Suspended, Suspending}, {Suspended, Resuming},
	{Reverted, Suspending}, {Reverted, Suspended}, {Reverted, Resuming},
}

func onDelete() lifecycle.Transition {
	return on(Delete, Deleted, byPerson|byTimer, "A person deletes it, or its retention ends.")
}

// additions are the changes that TaskFlow's table does not have: two resets, each in one commit with the tasks; the
// end of a flow that never started; the deletion of a flow that has ended.
var additions = []statePair{
	{FailureState, Pending}, {Suspended, Pending}, {Pending, Reverted}, {Pending, FailureState},
	{Success, Deleted}, {FailureState, Deleted}, {Reverted, Deleted},
}

// isAllowed reports whether a change is one of the 17 changes of TaskFlow's table. [Life] has seven more, for requests
// of people and for timers.
func (c statePair) isAllowed() bool {
	if slices.Contains(additions, c) {
		return false
	}
	stage, _ := Life.Stage(c.From)
	return slices.ContainsFunc(stage.Transitions, func(a lifecycle.Transition) bool {
		return a.Class != lifecycle.Loop && a.To == c.To
	})
}

// isIgnored reports whether a request for a change is ignored: no error, nothing saved, no notification. A change to
// the same state always is. Every other change that is not allowed is an error.
func (c statePair) isIgnored() bool {
	if c.From == c.To {
		_, known := Life.Stage(c.From)
		return known
	}
	for _, one := range ignored {
		if one == c {
			return true
		}
	}
	return false
}

// TaskLife is the lifecycle of a task in a flow: 10 changes. An executed task can be reverted, and a reverted task can
// be executed again.
var TaskLife = lifecycle.Must("flow.task", atomStages()...)

// RetryLife is the lifecycle of a retry controller: that of a task, and RETRYING between two attempts; 12 changes.
var RetryLife = lifecycle.Must("flow.retry", atomStages(
	lifecycle.OnQueue(Retrying, "Its part of the flow was reverted; the controller is about to run again.",
		onPass(eventStart, Running, byWorker, "Its part of the flow is ready for another attempt."),
	).Bounded(ofFlow),
)...)

// ofFlow states what bounds the attempts of an atom, which has no step of its own.
const ofFlow = "the step that starts it is its flow's, whose attempts are bounded"

// atomStages returns the stages of a task, or those of a retry controller if it gets the stage that only those have.
func atomStages(retrying ...lifecycle.Stage) []lifecycle.Stage {
	succeeded := []lifecycle.Transition{
		on(eventRevert, Reverting, byEngine, "Another part of the flow failed; this one is rolled back.").Restarts(),
	}
	if len(retrying) > 0 {
		succeeded = append(succeeded,
			on(eventRetry, Retrying, byEngine, "Its part of the flow failed, was reverted and is to run again.").
				Restarts().Within(controllerAttempts))
	}
	return append([]lifecycle.Stage{
		lifecycle.OnQueue(Pending, "The flow starts it when everything that it depends on is done.",
			onPass(eventStart, Running, byWorker, "Everything that it depends on succeeded or was ignored."),
			on(eventIgnore, Ignore, byWorker|byEngine, "A decider on a link to it skips it."),
		).Bounded(ofFlow),
		lifecycle.OnWork(Running, "A worker executes it; after a crash it is executed again.",
			onPass(eventFinish, Success, byWorker, "It returned, and its result is saved."),
			onFail(Fail, FailureState, byWorker|byTimer, "It failed or took too long; the failure is saved."),
		),
		lifecycle.OnEnd(Success, lifecycle.OK, "Executed; reverted only if something else in the flow fails.",
			succeeded...).Again(),
		lifecycle.OnEnd(FailureState, lifecycle.Failed, "Execution failed; the flow reverts what it did so far.",
			on(eventRevert, Reverting, byEngine, "What it did before it failed is rolled back.").Restarts(),
		).Again(),
		lifecycle.OnWork(Reverting, "A worker reverts its effects; after a crash it reverts them again.",
			onPass(eventReverted, Reverted, byWorker, "Its effects are reverted."),
			onFail(Fail, RevertFailure, byWorker|byTimer, "Its effects could not be reverted, or that took too long."),
		),
		lifecycle.OnEnd(Reverted, lifecycle.Failed, "Its effects are reverted; it is executed again only when the "+
			"flow is run again or its part of the flow is retried.", onReset()).Again(),
		lifecycle.OnEnd(RevertFailure, lifecycle.Failed,
			"Its effects could not be reverted; nothing before it is reverted, and a person has to act."),
		lifecycle.OnEnd(Ignore, lifecycle.None, "It was skipped in this run.", onReset()).Again(),
	}, retrying...)
}

func onReset() lifecycle.Transition {
	return on(Reset, Pending, byPerson|byEngine,
		"The flow runs again, or the part with this task is retried.").Restarts().Within(controllerAttempts)
}
