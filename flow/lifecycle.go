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

// Life is the whole life of a flow: TaskFlow's table of 17 changes, the two resets of a flow that failed or pauses,
// which TaskFlow's documents promise and its table lacks, and the ends that a person asks for. Its ends but DELETED can
// be run again. A flow that reverts is RUNNING; there is no state for it, because some of its parts may still go
// forward.
var Life = lifecycle.Must("flow",
	lifecycle.OnQueue(Pending, "A new flow stands here, or one that was reset; a worker takes it.",
		onPass(Run, Running, byWorker, "Its graph is sound and everything its tasks need is provided."),
		on(Cancel, Reverted, byPerson, "It is cancelled; it has done nothing that has to be rolled back."),
		onFail(Halt, FailureState, byPerson, "It is stopped before it began; it can be run again."),
	).Bounded("TaskFlow's table lets no flow fail before it runs; after max_attempts it waits for a person"),
	lifecycle.OnWork(Running, "A worker executes its tasks, reverts them, or both.",
		onPass(eventFinish, Success, byWorker, "Every task succeeded or was ignored."),
		onFail(Fail, FailureState, byWorker|byTimer,
			"A task failed and not everything could be reverted, or it was stopped."),
		on(eventRevert, Reverted, byWorker,
			"A task failed, it was cancelled or its deadline passed, and what had to be reverted was."),
		onLoop(Cancel, byPerson, "It is to end: its worker starts nothing new and rolls back what was done.").Asks(),
		onLoop(Halt, byPerson, "It is to end: its worker starts nothing new and keeps what was done.").Asks(),
		on(Suspend, Suspending, byPerson, "Somebody wants it to pause; nothing new is started.").Asks(),
		on(eventResume, Resuming, byWorker, "It is loaded after the program that ran it died.").Within("max_starts"),
	),
	lifecycle.OnEnd(Success, lifecycle.OK, "Everything it had to do is done; it can be run again, or reset and run "+
		"from the beginning.",
		on(Reset, Pending, byPerson, "All results are put away; it starts from the beginning.").Restarts(),
		on(Run, Running, byPerson, "Run again, so that tasks added meanwhile get their turn.").Restarts(),
		onDelete(),
	).Again(),
	lifecycle.OnEnd(FailureState, lifecycle.Failed, "It failed and is not fully reverted; it can be run again.",
		on(Run, Running, byPerson, "Run again, from where it stands.").Restarts(),
		on(Cancel, Running, byPerson, "What remains is rolled back.").Restarts(),
		on(Reset, Pending, byPerson,
			"All results are put away, in the same commit; it starts from the beginning.").Restarts(),
		onDelete(),
	).Again(),
	lifecycle.OnEnd(Reverted, lifecycle.Failed,
		"It failed or was cancelled, and its effects are rolled back; a reset makes it ready to run again.",
		on(Reset, Pending, byPerson, "All results are put away; it starts from the beginning.").Restarts(),
		onDelete(),
	).Again(),
	lifecycle.OnWork(Suspending, "A request to pause brings it here; its worker waits for the tasks that are active.",
		onPass(eventFinish, Success, byWorker, "The tasks that were active were the last, and all succeeded."),
		onFail(Fail, FailureState, byWorker|byTimer,
			"A task failed meanwhile and not everything could be reverted, or its time is up."),
		on(eventRevert, Reverted, byWorker, "It was reverting, and the last task was reverted meanwhile."),
		onLoop(Cancel, byPerson, "It is to end: its worker starts nothing new and rolls back what was done.").Asks(),
		onLoop(Halt, byPerson, "It is to end: its worker starts nothing new and keeps what was done.").Asks(),
		onPass(Park, Suspended, byWorker, "Nothing is active any more and every result is saved."),
		on(eventResume, Resuming, byWorker, "It is loaded after the program that ran it died.").Within("max_starts"),
	),
	lifecycle.OnWait(Suspended, "It pauses with every result saved, until somebody runs it or the worker that just "+
		"loaded it goes on.",
		onPass(Run, Running, byWorker|byPerson, "It goes on from where it stands."),
		on(Cancel, Running, byPerson, "It is to end: a worker rolls back what was done."),
		on(Halt, Running, byPerson, "It is to end: a worker settles what was begun and keeps what was done."),
		on(Reset, Pending, byPerson,
			"All results are put away, in the same commit; it starts from the beginning.").Restarts(),
	),
	lifecycle.OnWork(Resuming, "A worker brings it here while it loads what a dead program left.",
		onPass(Park, Suspended, byWorker, "Storage is ready, and what was active is marked to be done again."),
		onLoop(Cancel, byPerson, "It is to end: its worker starts nothing new and rolls back what was done.").Asks(),
		onLoop(Halt, byPerson, "It is to end: its worker starts nothing new and keeps what was done.").Asks(),
	).Enduring("loading reads the store only, and is repeated until the store answers"),
	lifecycle.OnEnd(Deleted, lifecycle.None, "It was deleted; its record is purged some time later, with its values."),
)

// Change is a change of state, whatever the event.
type statePair struct{ From, To lifecycle.State }

// ignored are the changes of a flow that are asked for by late or repeated requests and change nothing.
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

// additions are the changes that TaskFlow's table does not have: two that only a reset makes, in one commit with its
// tasks, the end of a flow that never began, and the deletion of one that has ended.
var additions = []statePair{
	{FailureState, Pending}, {Suspended, Pending}, {Pending, Reverted}, {Pending, FailureState},
	{Success, Deleted}, {FailureState, Deleted}, {Reverted, Deleted},
}

// Allowed reports whether a flow may be asked to change so: one of the 17 changes of TaskFlow's table. [Life] has seven
// more, for events of people and of time.
func (c statePair) allowed() bool {
	if slices.Contains(additions, c) {
		return false
	}
	stage, _ := Life.Stage(c.From)
	return slices.ContainsFunc(stage.Transitions, func(a lifecycle.Transition) bool {
		return a.Class != lifecycle.Loop && a.To == c.To
	})
}

// Ignored reports whether a flow asked to change so quietly stays as it is: no error, nothing saved, no one notified. A
// change to the same state is always one. Every other change that is not [Change.Allowed] is an error.
func (c statePair) ignored() bool {
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

// TaskLife is the life of a task in a flow: 10 changes. What a flow does not need stays ignored; what was done can be
// reverted; what was reverted can be done again.
var TaskLife = lifecycle.Must("flow.task", atom()...)

// RetryLife is the life of a retry controller: a task's, with RETRYING between one attempt and the next; 12 changes.
var RetryLife = lifecycle.Must("flow.retry", atom(
	lifecycle.OnQueue(Retrying, "Its part of the flow was reverted; the controller is about to be run again.",
		onPass(eventStart, Running, byWorker, "Everything it governs is ready for another attempt."),
	).Bounded(ofFlow),
)...)

// ofFlow is what bounds the attempts of what waits in a flow: it has no step of its own.
const ofFlow = "the step that starts it is its flow's, whose attempts are bounded"

// atom makes the stages of a task, or of a retry when it is given the stage that only retries have.
func atom(retrying ...lifecycle.Stage) []lifecycle.Stage {
	succeeded := []lifecycle.Transition{
		on(eventRevert, Reverting, byEngine, "Something in the flow failed, and this is to be taken back.").Restarts(),
	}
	if len(retrying) > 0 {
		succeeded = append(succeeded,
			on(eventRetry, Retrying, byEngine, "Its part of the flow failed, was reverted and is to run again.").
				Restarts().Within(controllerAttempts))
	}
	return append([]lifecycle.Stage{
		lifecycle.OnQueue(Pending, "The flow brings it here and starts it once everything before it is done.",
			onPass(eventStart, Running, byWorker, "All that it depends on has succeeded or is ignored."),
			on(eventIgnore, Ignore, byWorker|byEngine, "A decider before it says that it is not needed."),
		).Bounded(ofFlow),
		lifecycle.OnWork(Running, "A worker executes it; after a crash it is executed once more.",
			onPass(eventFinish, Success, byWorker, "It returned, and its result is saved."),
			onFail(Fail, FailureState, byWorker|byTimer, "It failed or took too long; the failure is saved."),
		),
		lifecycle.OnEnd(Success, lifecycle.OK, "Executed; reverted only if something else in the flow fails.",
			succeeded...).Again(),
		lifecycle.OnEnd(FailureState, lifecycle.Failed, "Execution failed; the flow reverts it to tidy up.",
			on(eventRevert, Reverting, byEngine, "What it did before it failed is to be taken back.").Restarts(),
		).Again(),
		lifecycle.OnWork(Reverting, "A worker takes its effects back; after a crash once more.",
			onPass(eventReverted, Reverted, byWorker, "Its effects are taken back."),
			onFail(Fail, RevertFailure, byWorker|byTimer,
				"Its effects could not be taken back, or that took too long."),
		),
		lifecycle.OnEnd(Reverted, lifecycle.Failed,
			"Taken back; done again only when the flow is run again or its part retried.", onReset()).Again(),
		lifecycle.OnEnd(RevertFailure, lifecycle.Failed,
			"Could not be taken back; nothing before it is reverted, and a person has to look."),
		lifecycle.OnEnd(Ignore, lifecycle.None, "Not needed in this run.", onReset()).Again(),
	}, retrying...)
}

func onReset() lifecycle.Transition {
	return on(Reset, Pending, byPerson|byEngine,
		"The flow, or its part of it, is to run again.").Restarts().Within(controllerAttempts)
}
