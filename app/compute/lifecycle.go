package compute

import "github.com/stagepost/stagepost/lifecycle"

// The states of jobs and payloads.
const (
	Queued     lifecycle.State = "Queued"
	Processing lifecycle.State = "Processing"
	Submitted  lifecycle.State = "Submitted"
	Prepared   lifecycle.State = "Prepared"
	Running    lifecycle.State = "Running"
	Retrieving lifecycle.State = "Retrieving"
	Unknown    lifecycle.State = "Unknown"
	Killing    lifecycle.State = "Killing"
	Completed  lifecycle.State = "Completed"
	Failed     lifecycle.State = "Failed"
	Invalid    lifecycle.State = "Invalid"
	Killed     lifecycle.State = "Killed"
	Cleaned    lifecycle.State = "Cleaned"
)

// The events of both lifecycles. Where a state has the same word, the event's constant ends in Event.
const (
	Begin         lifecycle.Event = "begin"
	Sent          lifecycle.Event = "sent"
	Again         lifecycle.Event = "again"
	PreparedEvent lifecycle.Event = "prepared"
	Run           lifecycle.Event = "run"
	Fetch         lifecycle.Event = "fetch"
	Finish        lifecycle.Event = "finish"
	Fail          lifecycle.Event = "fail"
	Reject        lifecycle.Event = "reject"
	Lose          lifecycle.Event = "lose"
	Seen          lifecycle.Event = "seen"
	Timeout       lifecycle.Event = "timeout"
	Cancel        lifecycle.Event = "cancel"
	Kill          lifecycle.Event = "kill"
	KilledEvent   lifecycle.Event = "killed"
	Clean         lifecycle.Event = "clean"
)

// Short words for the tables below.
const (
	byWorker = lifecycle.Worker
	byTimer  = lifecycle.Timer
	byPerson = lifecycle.Operator | lifecycle.Owner
	byEngine = lifecycle.Engine

	timeLimit = "the job's time limit"
	retries   = "retries"
)

var (
	onPass    = lifecycle.OnPass
	onFail    = lifecycle.OnFail
	on        = lifecycle.On
	onReenter = lifecycle.OnReenter
)

// JobLife is the whole life of a compute job as the server sees it. What the agent last reported is the state; when the
// agent is silent the state is Unknown, and only the job's time limit turns silence into failure.
var JobLife = lifecycle.Must(
	"compute.job",
	lifecycle.OnQueue(Queued, "A user's upload brings it here; a worker takes it when quota and an agent are free.",
		onPass(Begin, Processing, byWorker, "The user and the service have a slot left, and an agent has capacity."),
		on(Cancel, Killed, byPerson, "Cancelled before it was sent anywhere.").Sets(lifecycle.Cancelled),
		onFail(Reject, Invalid, byWorker, "It can never run: no run.sh, no such service, an unsafe file."),
	),
	lifecycle.OnWork(Processing, "A worker packs the files and sends them to an agent.",
		onPass(Sent, Submitted, byWorker, "The agent has taken it and gave it an id."),
		on(Again, Queued, byWorker,
			"The agent could not be reached and attempts are left; another agent comes first next time.").
			Within(retries),
		onFail(Fail, Failed, byWorker|byTimer, "No agent took it within its attempts and its time."),
		on(Cancel, Killing, byPerson,
			"A person cancels it on its way; if it arrives after all, the agent is asked to end it."),
	),
	lifecycle.OnWait(Submitted, "An agent has it and has reported nothing since; its next report moves it.",
		onPass(PreparedEvent, Prepared, byWorker, "The agent has checked and unpacked it."),
		onPass(Run, Running, byWorker, "The agent has started it."),
		onLose(), onFetch(), onCancel(),
	),
	lifecycle.OnWait(Prepared, "The agent reports that it is ready to be started there.",
		onPass(Run, Running, byWorker, "The agent has started it."),
		onLose(), onFetch(), onCancel(),
		onFail(Fail, Failed, byWorker|byTimer, "The agent cannot start it, or has not in all the time it had."),
	),
	lifecycle.OnWait(Running, "The agent reports that run.sh is running.",
		onFetch(), onLose(), onCancel(),
		onFail(Timeout, Killing, byTimer, "It ran longer than it may; the agent is requested to end it."),
	),
	lifecycle.OnWork(Retrieving, "The job has ended at the agent; a worker fetches what it left.",
		onPass(Finish, Completed, byWorker, "The output is here, and run.sh ended with 0."),
		onFail(Fail, Failed, byWorker|byTimer,
			"run.sh ended badly or was ended, or its output cannot be had in time; what there is stays."),
		onFail(Lose, Unknown, byWorker, "The agent stopped answering while the output was fetched.").Within(timeLimit),
		on(Cancel, Killing, byPerson,
			"A person cancels it while its agent does not answer; output that can be had in time is kept."),
	),
	lifecycle.OnWait(Unknown,
		"The agent is silent; it is asked again and again until it answers or the time limit passes.",
		onReenter(Seen, byWorker, "The agent answers, and the job is still there.", Submitted, Prepared,
			Running).Within(timeLimit),
		onFetch(),
		onFail(Timeout, Failed, byTimer, "The agent was silent up to the time limit: the job counts as lost."),
		on(Cancel, Killing, byPerson, "A person cancels it; the agent is asked to end it when it answers."),
	),
	lifecycle.OnWait(Killing, "A person or the time limit brings it here; the agent was requested to end it.",
		on(KilledEvent, Killed, byWorker|byTimer,
			"The agent has ended it, or has not answered for longer than that can take: it may still be "+
				"running it.").Sets(lifecycle.Cancelled),
		onPass(Fetch, Retrieving, byWorker, "It had already ended by itself."),
	),
	lifecycle.OnEnd(
		Completed,
		lifecycle.OK,
		"The output can be downloaded until its files are removed.",
		onClean(),
	),
	lifecycle.OnEnd(
		Failed,
		lifecycle.Failed,
		"It failed; the output that exists can be downloaded until its files are removed.",
		onClean(),
	),
	lifecycle.OnEnd(Invalid, lifecycle.Failed, "It was refused before it ran, and the message has the reason.",
		onClean()),
	lifecycle.OnEnd(Killed, lifecycle.Cancelled, "It was ended on request or at its time limit.", onClean()),
	lifecycle.OnEnd(Cleaned, lifecycle.None, "Its files are gone; the record is purged later."),
)

// onLose leaves it open what became of a job: an answer that did not come is no failure.
func onLose() lifecycle.Transition {
	return onFail(Lose, Unknown, byWorker|byTimer, "The agent does not answer, or not with this job.")
}

// onFetch takes over what an agent made, however it ended there.
func onFetch() lifecycle.Transition {
	return onPass(Fetch, Retrieving, byWorker, "The agent reports that it has ended, whatever its exit code.")
}

// onCancel has the agent end a job. It decides no outcome: the job may have ended well before the word arrives.
func onCancel() lifecycle.Transition {
	return on(Cancel, Killing, byPerson, "A person cancels it; the agent is requested to end it.")
}

// onClean removes the files of an ended job or payload.
func onClean() lifecycle.Transition {
	return on(Clean, Cleaned, byTimer, "compute.keep has passed since it ended; its files are removed.")
}

// PayloadLife is the life of a payload: the job as its agent sees it, in the agent's own store.
var PayloadLife = lifecycle.Must("compute.payload",
	lifecycle.OnQueue(Prepared, "A server's submission brings it here; the agent starts it when it has capacity.",
		onPass(Run, Running, byWorker, "The agent has capacity, and run.sh is there and safe."),
		onFail(Reject, Invalid, byWorker, "run.sh is missing or unsafe."),
		onKill(),
	),
	lifecycle.OnWork(Running, "The agent runs run.sh and waits for it.",
		onPass(Finish, Completed, byWorker, "run.sh ended with 0."),
		onFail(Fail, Failed, byWorker|byTimer,
			"run.sh ended with another code or a signal, or exceeded memory, disk or time."),
		onKill(),
	),
	lifecycle.OnEnd(Completed, lifecycle.OK, "It ended well; its output waits to be fetched.", onClean()),
	lifecycle.OnEnd(Failed, lifecycle.Failed, "It ended badly; what it wrote waits to be fetched.", onClean()),
	lifecycle.OnEnd(Invalid, lifecycle.Failed, "It could not be run at all.", onClean()),
	lifecycle.OnEnd(Killed, lifecycle.Cancelled, "The server had it ended.", onClean()),
	lifecycle.OnEnd(Cleaned, lifecycle.None, "Its files are gone."),
)

func onKill() lifecycle.Transition {
	return on(Kill, Killed, byPerson|byEngine, "The server ends it.").Sets(lifecycle.Cancelled)
}

// border is how a state of a job appears to others: the word that users' programs know it by, and whether the
// job holds a slot of its user's and its service's quota.
type border struct {
	word string
	slot bool
}

var borders = map[lifecycle.State]border{
	Queued:     {"Queued", false},
	Processing: {"Processing", true},
	Submitted:  {"Submitted", true},
	Prepared:   {"Prepared", true},
	Running:    {"Running", true},
	Retrieving: {"Running", true},
	Unknown:    {"Unknown", true},
	Killing:    {"Locked", true},
	Completed:  {"Completed", false},
	Failed:     {"Failed", false},
	Invalid:    {"Invalid", false},
	Killed:     {"Killed", false},
	Cleaned:    {"Cleaned", false},
}

// StatusOf gives the word for a state of [JobLife] in answers to users' programs. A state that the table lacks is
// Unknown.
func StatusOf(s lifecycle.State) string {
	if b, ok := borders[s]; ok {
		return b.word
	}
	return borders[Unknown].word
}

// Slot reports whether a job in the state counts against the quota of its user and its service.
func Slot(s lifecycle.State) bool { return borders[s].slot }

// SlotStates lists the states that hold a slot, in the table's order: what a quota counts.
func SlotStates() []lifecycle.State {
	var held []lifecycle.State
	for _, stage := range JobLife.Stages() {
		if Slot(stage.State) {
			held = append(held, stage.State)
		}
	}
	return held
}
