package agent

import (
	"context"
	"os"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
)

// notice reports how a payload stands.
func (a *App) notice(j *job.Job) compute.Notice {
	n := compute.Notice{Remote: string(j.ID), Instance: a.memory.name, Place: a.options.Name}
	t := a.trial(j.ID)
	switch {
	case t != nil: // one that was killed, too, until its processes are gone and its results are kept
		n.Standing, n.Started = compute.Works, timeOf(t.started)
	case !j.Ended && j.State == compute.Prepared:
		n.Standing, n.Reason = compute.Waits, j.Message
	case !j.Ended:
		n.Standing, n.Reason = compute.Works, j.Message
	default:
		a.ended(j, &n)
	}
	return n
}

// ended completes the notice of a payload that ended. The files report what the record does not: of one that was
// killed, it has no record any more.
func (a *App) ended(j *job.Job, n *compute.Notice) {
	d := dataOf(j)
	n.Standing = compute.Ended
	if d.Ending == nil {
		if h, err := a.hold(j); err == nil {
			d.Ending = h.exit()
			h.drop()
		}
	}
	if d.Ending == nil {
		d.Ending = &compute.Ending{Exit: -1, Cause: compute.CauseKilled, Sentence: "it was ended on request",
			Finished: timeOf(j.Entered)}
		if j.State == compute.Failed {
			d.Ending.Cause, d.Ending.Sentence = compute.CauseAgent, j.Message
		}
		if j.State == compute.Invalid {
			d.Ending.Cause, d.Ending.Sentence = compute.CauseRejected, j.Message
		}
	}
	n.Ending, n.Started, n.Finished = d.Ending, d.Ending.Started, d.Ending.Finished
	if j.Gone {
		n.Reason = "its files are gone: the server had everything, or they were kept long enough"
		return
	}
	if d.Results == nil {
		if h, err := a.hold(j); err == nil {
			d.Results = h.packed()
			h.drop()
		}
	}
	switch {
	case d.Results != nil:
		n.HasResult, n.Bytes, n.SHA256, n.LeftOut = true, d.Results.Bytes, d.Results.SHA256, d.Results.LeftOut
	case a.ran(j.ID):
		n.HasResult, n.Bytes = true, -1
	}
}

// ran reports whether there is anything of a payload's run.
func (a *App) ran(id job.ID) bool {
	_, err := os.Lstat(a.pathOf(id, stdoutName))
	return err == nil
}

// find gives the payload of a handle. A secret that is not its own finds nothing.
func (a *App) find(ctx context.Context, h compute.Handle) (j job.Job, ok bool, err error) {
	if err := a.Fault(); err != nil {
		return j, false, err
	}
	j, err = a.engine.Store().Get(ctx, idOf(h.Ticket))
	if job.KindOf(err) == job.NotFound {
		return j, false, nil
	}
	if err != nil {
		return j, false, err
	}
	s, err := specOf(&j)
	return j, err == nil && s.matches(h.Secret), err
}

// Query reports how a payload stands: see [compute.Executor].
func (a *App) Query(ctx context.Context, h compute.Handle) (compute.Notice, error) {
	j, ok, err := a.find(ctx, h)
	switch {
	case err != nil:
		return compute.Notice{}, err
	case ok:
		return a.notice(&j), nil
	case h.Instance != "" && h.Instance != a.memory.name:
		return compute.Notice{
			Standing: compute.Lost, Instance: a.memory.name,
			Reason: "the agent's memory is another one than when it took the payload: it lost its data directory",
		}, nil
	}
	return compute.Notice{Standing: compute.Stranger, Instance: a.memory.name}, nil
}

// await is Query, and waits up to d for the payload to stand otherwise than as was seen, or to end.
func (a *App) await(ctx context.Context, h compute.Handle, seen compute.Standing, d time.Duration) (compute.Notice,
	error) {
	if d <= 0 {
		return a.Query(ctx, h)
	}
	changes := a.hub.listen()
	defer a.hub.leave(changes)
	wait, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	for {
		n, err := a.Query(ctx, h)
		if err != nil || n.Standing != compute.Waits && n.Standing != compute.Works ||
			seen != "" && n.Standing != seen {
			return n, err
		}
		if _, err := changes.next(wait, a.life); err != nil {
			return n, ctx.Err()
		}
	}
}

// Kill has a payload ended: TERM, then KILL for all its processes. It may return before they are gone; the payload
// works until they are. One that never came counts as ended: a parcel that comes afterwards is not run.
func (a *App) Kill(ctx context.Context, h compute.Handle) error {
	j, ok, err := a.find(ctx, h)
	if err != nil {
		return err
	}
	if !ok {
		return a.voidTicket(ctx, h, killNote)
	}
	return a.kill(ctx, &j, killNote)
}

const killNote = "the server ends it"

// Capacity reports how the agent stands: see [compute.Executor].
func (a *App) Capacity(ctx context.Context) (compute.Capacity, error) {
	tallies, err := a.engine.Store().Count(ctx)
	if err != nil {
		return compute.Capacity{}, err
	}
	waiting := 0
	for _, t := range tallies {
		if t.Kind == compute.PayloadKind && t.State == compute.Prepared {
			waiting += int(t.Jobs)
		}
	}
	busy := len(a.running())
	var space *int64
	if free, err := a.options.Disk(a.options.Dir); err == nil {
		free = max(0, free-a.options.Reserve)
		space = &free
	}
	return compute.Capacity{
		Instance: a.memory.name, Services: a.services(), Labels: a.options.Labels,
		Slots: a.options.Slots, Free: max(0, a.options.Slots-busy), Waiting: waiting,
		Memory: a.options.Memory, Cores: a.options.Cores, Load: a.load.percent(), Draining: a.Draining(),
		Kind: "agent", Space: space, Sandbox: a.options.Sandbox, Events: true,
	}, nil
}
