package storetest

import "github.com/stagepost/stagepost/lifecycle"

// States of the two small lifecycles that the contract's tests use.
const (
	waiting   lifecycle.State = "Waiting"
	running   lifecycle.State = "Running"
	checking  lifecycle.State = "Checking"
	parked    lifecycle.State = "Parked"
	done      lifecycle.State = "Done"
	failed    lifecycle.State = "Failed"
	late      lifecycle.State = "Late"
	stopped   lifecycle.State = "Stopped"
	deleted   lifecycle.State = "Deleted"
	gathering lifecycle.State = "Gathering"
	reported  lifecycle.State = "Reported"
)

const people = lifecycle.Operator | lifecycle.Owner

// Step is the life of a job with every kind of stage, class of transition and outcome.
var Step = lifecycle.Must("storetest.step",
	lifecycle.OnQueue(waiting, "Created here; a worker takes it.",
		lifecycle.OnPass("begin", running, lifecycle.Worker, "Nothing speaks against it."),
		lifecycle.On("hold", parked, lifecycle.Operator, "Put aside."),
		lifecycle.On("cancel", stopped, people, "Withdrawn.").Sets(lifecycle.Cancelled),
	).Bounded("after its attempts it waits for a person"),
	lifecycle.OnWork(running, "A worker works on it.",
		lifecycle.OnPass("next", checking, lifecycle.Worker, "The work is done."),
		lifecycle.OnFail("fail", failed, lifecycle.Worker|lifecycle.Operator, "The work failed."),
		lifecycle.OnFail("expire", late, lifecycle.Timer, "It took too long.").Sets(lifecycle.TimedOut),
		lifecycle.On("cancel", stopped, people, "Withdrawn.").Sets(lifecycle.Cancelled),
	),
	lifecycle.OnWork(checking, "A worker checks the result.",
		lifecycle.OnPass("finish", done, lifecycle.Worker, "It is as it should be."),
		lifecycle.OnFail("fail", failed, lifecycle.Worker, "It is not."),
		lifecycle.OnFail("expire", late, lifecycle.Timer, "It took too long.").Sets(lifecycle.TimedOut),
	),
	lifecycle.OnWait(parked, "An operator brings it here and takes it away.",
		lifecycle.On("release", waiting, lifecycle.Operator, "It may go on."),
	),
	lifecycle.OnEnd(done, lifecycle.OK, "All is well.", purge()),
	lifecycle.OnEnd(failed, lifecycle.Failed, "It did not work; a person may try again.",
		lifecycle.OnReenter("retry", people, "Back to where it failed.", running, checking), purge()),
	lifecycle.OnEnd(late, lifecycle.TimedOut, "Its time ran out.", purge()),
	lifecycle.OnEnd(stopped, lifecycle.Cancelled, "It is not needed.", purge()),
	lifecycle.OnEnd(deleted, lifecycle.None, "A tombstone."),
)

// Batch is the life of a job with children: it is reported when all of them have ended.
var Batch = lifecycle.Must("storetest.batch",
	lifecycle.OnQueue(waiting, "Created here; a worker makes its jobs.",
		lifecycle.OnPass("begin", gathering, lifecycle.Worker, "Its jobs exist."),
		lifecycle.OnFail("fail", failed, lifecycle.Worker, "It has no jobs."),
	),
	lifecycle.OnWork(gathering, "Its jobs run; the engine takes it on when the last one ends.",
		lifecycle.OnPass("report", reported, lifecycle.Engine, "All its jobs have ended."),
		lifecycle.OnFail("fail", failed, lifecycle.Worker|lifecycle.Timer, "It took too long."),
	),
	lifecycle.OnEnd(reported, lifecycle.OK, "Told.", purge()),
	lifecycle.OnEnd(failed, lifecycle.Failed, "It did not work.", purge()),
	lifecycle.OnEnd(deleted, lifecycle.None, "A tombstone."),
)

func purge() lifecycle.Transition {
	return lifecycle.On("delete", deleted, lifecycle.Operator|lifecycle.Timer, "Retention is over.")
}
