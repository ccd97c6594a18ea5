package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/edge/collect"
	"github.com/stagepost/stagepost/edge/sandbox"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// CauseStopped is the cause of a payload that was running when its agent was stopped in an orderly way and the grace
// was over.
const CauseStopped = "agent-stopped"

var errHalted = errors.New("the agent stops")

// trial is the one run of a payload, from before it is moved to Running until its results are kept.
type trial struct {
	id      job.ID
	spec    *Spec
	started time.Time
	cancel  context.CancelCauseFunc // of the run; the results are still kept
	done    chan struct{}           // closed when it is over
	held    *held                   // opened before it began
	outputs map[string]*stream      // the agent's mu guards it; nil until they are open
}

// trial gives the run of a payload that is under way, or nil.
func (a *App) trial(id job.ID) *trial {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.trials[id]
}

// running lists the runs under way.
func (a *App) running() []*trial {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := make([]*trial, 0, len(a.trials))
	for _, t := range a.trials {
		all = append(all, t)
	}
	return all
}

// begin notes that a payload is about to run; nil if nothing is started any more.
func (a *App) begin(t *trial) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.halted {
		return false
	}
	a.trials[t.id] = t
	return true
}

// end notes that a run is over, with all that belongs to it.
func (a *App) end(t *trial) {
	a.mu.Lock()
	delete(a.trials, t.id)
	a.mu.Unlock()
	a.room.give(t.id)
	close(t.done)
	signal(a.freed)
	a.cleaned.notify(t.id) // one that was cleaned meanwhile keeps its files up to here
	a.hub.notify(t.id)
}

// start is the step for Prepared. It moves the payload to Running and runs it in the same call, so that a later call of
// the step for Running finds that it was begun.
func (a *App) start(ctx context.Context, r *engine.Run) error {
	var s Spec
	if err := r.Spec(&s); err != nil {
		return engine.Fail(compute.CauseRejected, err)
	}
	j := r.Job()
	service, ok := a.service(s.Service)
	if !ok {
		return a.reject(r, "the agent does not serve "+s.Service+" any more")
	}
	h, err := a.open(&j)
	if err != nil {
		return a.reject(r, "its files are gone")
	}
	defer h.drop()
	if why := a.unfit(&j, h, &service); why != "" {
		return a.reject(r, why)
	}
	if b := a.room.take(&j, need{s.Limits.Memory, s.Limits.Cores}, r.Now()); b != nil {
		return engine.Wait(*b)
	}
	run, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &trial{id: j.ID, spec: &s, started: r.Now(), cancel: cancel, done: make(chan struct{}), held: h}
	if !a.begin(t) {
		a.room.give(j.ID)
		return engine.Wait(job.Blocker{Code: "stopping", Sentence: "the agent stops: it is run after its next start",
			Until: r.Now().Add(time.Second)})
	}
	defer a.end(t)
	signal(a.freed) // the next in line may have capacity besides
	if err := a.moveToRun(ctx, r, h); err != nil {
		return err
	}
	ending, err := a.execute(run, r, t, &service)
	if err != nil {
		return err
	}
	return a.conclude(ctx, r, &s, h, ending)
}

// moveToRun makes the outputs and records which files the payload begins with.
func (a *App) moveToRun(ctx context.Context, r *engine.Run, h *held) error {
	if err := h.makeOutputs(); err != nil {
		return engine.Retry(unavailable(r.Job().ID, err))
	}
	if err := r.SetData(Data{Inodes: h.inodes()}); err != nil {
		return err
	}
	err := r.Move(ctx, compute.Run)
	if err != nil { // it has not run: nothing reports that it has
		for _, name := range []string{stdoutName, stderrName} {
			_ = h.above().Remove(name)
		}
	}
	return err
}

// reject ends a payload that can never run.
func (a *App) reject(r *engine.Run, why string) error {
	ending := &compute.Ending{Exit: -1, Cause: compute.CauseRejected, Sentence: why, Finished: timeOf(r.Now())}
	return errors.Join(engine.Fail(compute.CauseRejected, errors.New(why)), r.SetData(Data{Ending: ending}))
}

// unfit reports why a payload cannot be run.
func (a *App) unfit(j *job.Job, h *held, service *Service) (why string) {
	root := h.directory()
	if root == nil {
		return "its files are gone"
	}
	info, err := root.Lstat(scriptName)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "there is no run.sh"
	case err != nil || !info.Mode().IsRegular():
		return "run.sh is not a regular file"
	}
	script, err := openPlain(root, scriptName)
	if err != nil {
		return "run.sh cannot be read"
	}
	defer script.Close()
	check := service.Check
	if check == nil {
		check = a.options.Check
	}
	verdict, err := check.Check(script)
	if err != nil {
		return "run.sh cannot be read"
	}
	if verdict.Reason != "" && !verdict.Refused {
		a.log.Warn("the script policy would refuse a script", "payload", j.ID, "reason", verdict.Reason)
	}
	if verdict.Refused {
		return "run.sh is refused by the script policy: " + verdict.Reason
	}
	return ""
}

// execute runs run.sh and leaves exit.json. It gives an error only if not even that could be written.
func (a *App) execute(ctx context.Context, r *engine.Run, t *trial, service *Service) (*compute.Ending, error) {
	ending := a.confine(ctx, t, service)
	switch changed, err := a.restore(t.id, t.held); {
	case err != nil:
		return nil, engine.Retry(unavailable(t.id, err))
	case changed:
		ending.Sentence = strings.TrimPrefix(ending.Sentence+
			"; it removed or exchanged its directory or its outputs, and what replaced them was not read", "; ")
	}
	if ending.Cause == compute.CauseKilled {
		a.attribute(ctx, r, ending)
	}
	ending.Started, ending.Finished, ending.Sandbox = timeOf(t.started), timeOf(r.Now()), a.options.Sandbox
	a.log.Info("a payload ended", "payload", t.id, "job", t.spec.Job, "exit", ending.Exit, "cause", ending.Cause)
	// before exit.json: after a power cut, one that is there reports that the output is, too
	err := collect.Sync(t.held.above())
	if err == nil {
		err = writeJSON(t.held.above(), exitName, ending)
	}
	if err != nil {
		return nil, engine.Retry(unavailable(t.id, err))
	}
	return ending, nil
}

// confine runs run.sh and reports how it ended.
func (a *App) confine(ctx context.Context, t *trial, service *Service) *compute.Ending {
	failed := func(err error) *compute.Ending {
		return &compute.Ending{Exit: -1, Cause: compute.CauseAgent,
			Sentence: "the agent could not run it: " + err.Error()}
	}
	outputs := map[string]*stream{}
	for _, name := range []string{stdoutName, stderrName} {
		s := newStream(t.held.output(name))
		defer s.end()
		outputs[name] = s
	}
	own, err := t.held.directory().Stat(".")
	if err != nil {
		return failed(err)
	}
	a.mu.Lock()
	t.outputs = outputs
	a.mu.Unlock()
	a.hub.notify(t.id)
	c := &sandbox.Command{
		Argv: []string{a.shell, scriptName}, Env: environment(t.id, t.spec, service), Dir: a.pathOf(t.id, jobName),
		Same: own, Binds: service.Binds, Network: service.Network,
		Stdout: outputs[stdoutName], Stderr: outputs[stderrName], Limits: a.limits(t.spec.Limits),
		Grace: a.options.Grace,
	}
	if c.Network == "" {
		c.Network = "none"
	}
	e, err := a.options.Runner.Run(ctx, c)
	if err != nil {
		if ctx.Err() != nil { // it was ended before it had begun
			return &compute.Ending{Exit: -1, Cause: compute.CauseKilled, Sentence: err.Error()}
		}
		if errors.Is(err, syscall.E2BIG) { // its own doing, not the agent's: execve(2)
			return &compute.Ending{Exit: -1, Cause: compute.CauseRejected,
				Sentence: "its environment is larger than this machine takes: " + err.Error()}
		}
		if _, ok := errors.AsType[*sandbox.Unacceptable](err); ok {
			// as it and its service are set up, no agent's life would help
			return &compute.Ending{Exit: -1, Cause: compute.CauseRejected,
				Sentence: "it cannot be run as it and its service ask: " + err.Error()}
		}
		return failed(err)
	}
	return endingOf(&e)
}

// attribute states in whose name a run was ended from outside: on request, because the agent stops, or because it lost
// its claim.
func (a *App) attribute(ctx context.Context, r *engine.Run, ending *compute.Ending) {
	select {
	case <-r.Stopping():
		stopped(ending)
		return
	default:
	}
	if errors.Is(context.Cause(ctx), errHalted) {
		stopped(ending)
		return
	}
	if j, err := a.engine.Store().Get(context.WithoutCancel(ctx), r.Job().ID); err == nil && j.State == compute.Killed {
		ending.Sentence = "it was ended on request"
		return
	}
	ending.Cause, ending.Sentence = compute.CauseAgent, "the agent lost its hold on it while it ran"
}

// stopped reports that a run was ended because the agent stops. A script that ends with 0 when it is requested to end
// was hardly done: its code is not shown as one of success.
func stopped(ending *compute.Ending) {
	ending.Cause, ending.Sentence = CauseStopped, "the agent was stopped while it ran"
	if ending.Exit == 0 && ending.Signal == "" {
		ending.Exit, ending.Sentence = -1, ending.Sentence+"; signalled to end, run.sh ended with 0"
	}
}

// resume is the step for Running of a payload that an earlier step began to run and did not conclude. It is never run
// again.
func (a *App) resume(ctx context.Context, r *engine.Run) error {
	var s Spec
	if err := r.Spec(&s); err != nil {
		return engine.Fail(compute.CauseAgent, err)
	}
	j := r.Job()
	id := j.ID
	if t := a.trial(id); t != nil { // the claim of that run is over, and it is being ended
		select {
		case <-t.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	h, err := a.open(&j)
	if errors.Is(err, fs.ErrNotExist) {
		h, err = &held{refs: 1}, nil
	}
	if err != nil {
		return engine.Retry(unavailable(id, err))
	}
	defer h.drop()
	if _, err := a.restore(id, h); err != nil {
		return engine.Retry(unavailable(id, err))
	}
	ending := h.exit()
	if ending == nil {
		ending = &compute.Ending{
			Exit: -1, Cause: compute.CauseAgent, Started: timeOf(r.Job().Entered), Finished: timeOf(r.Now()),
			Sandbox:  a.options.Sandbox,
			Sentence: "the agent ended while it ran; its processes were ended with it, and it is not run again",
		}
		if err := writeJSON(h.above(), exitName, ending); err != nil {
			return engine.Retry(unavailable(id, err))
		}
	}
	return a.conclude(ctx, r, &s, h, ending)
}

// conclude keeps the results and reports what became of the payload. The results of one whose claim is over (it was
// killed) are kept all the same.
func (a *App) conclude(ctx context.Context, r *engine.Run, s *Spec, h *held, ending *compute.Ending) error {
	if ctx.Err() != nil {
		select {
		case <-r.Stopping(): // the next start finishes it from exit.json
			return context.Cause(ctx)
		default:
		}
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	defer context.AfterFunc(a.life, stop)()
	results, err := a.results(life, s, h)
	if err != nil {
		a.log.Error("results", "payload", r.Job().ID, "error", err)
		if !r.Last() {
			return engine.Retry(err)
		}
		if ending.Cause == "" {
			ending.Cause, ending.Sentence = compute.CauseResults, "it ended well, but its results cannot be kept: "+
				err.Error()
		}
	}
	if err := r.SetData(Data{Ending: ending, Results: results}); err != nil {
		return engine.Retry(err)
	}
	if ending.Cause == "" {
		return engine.Go(compute.Finish)
	}
	return engine.Fail(ending.Cause, sentenceOf(ending))
}

func sentenceOf(e *compute.Ending) error {
	if e.Sentence != "" {
		return errors.New(e.Sentence)
	}
	return errors.New(e.Cause)
}
