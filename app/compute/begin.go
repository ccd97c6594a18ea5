package compute

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
	"github.com/stagepost/stagepost/lifecycle"
)

// Codes of what jobs wait for ([job.Blocker]).
const (
	blockFull   = "agents-full"     // capacity at an agent
	blockDrain  = "agents-drained"  // an operator who drains them
	blockStart  = "agents-starting" // the first answer of agents after the server's start
	blockSmall  = "agents-small"    // an agent that has as much as the job may use
	blockLabels = "agents-labels"   // an agent that has the labels that the job requires
	blockAbsent = "no-agent"        // an agent that can be reached
	blockAgent  = "agent"           // the next report of the agent that has it
	blockSilent = "agent-silent"    // an answer of an agent that does not answer
	blockBackup = "agent-backoff"   // its time to be handed over again
	blockDisk   = "disk"            // space on this server's disk
	blockSpace  = "agent-space"     // space on the disk of its agent
	blockInputs = "inputs"          // inputs that are fetched
)

// WaitsForInputs is the cause of a job that waits in Queued for its inputs.
const WaitsForInputs = blockInputs

// atAgent are the states in which an executor has, or may have, a job.
var atAgent = []lifecycle.State{Processing, Submitted, Prepared, Running, Retrieving, Unknown, Killing}

// begin is the step of Queued: the claim found that the quotas have space; it finds an executor that has.
func (a *App) begin(ctx context.Context, r *engine.Run) error {
	r.Changed() // capacity that is freed during the search is not missed
	j := r.Job()
	spec, d, err := RecordOf(&j)
	if err != nil {
		return engine.Fail(CauseRejected, err)
	}
	if spec.Imported != nil {
		return a.beginImported(r, &spec)
	}
	switch why, err := a.runnable(&j, &spec); {
	case err != nil:
		return engine.Retry(err)
	case why != "":
		return engine.Fail(CauseRejected, errors.New(why))
	}
	switch why, err := a.promiseKept(ctx, &j); {
	case err != nil:
		return engine.Retry(err)
	case why != "":
		return engine.Fail(CauseRejected, errors.New(why))
	}
	if err := a.load(ctx, r, &spec, &d); err != nil {
		return err
	}
	may, err := a.services[spec.Service].Effective(spec.Limits)
	if err != nil { // the service is another one than a moment ago
		return engine.Retry(err)
	}
	demands := demandOf(&j, &spec, &d)
	c := a.registry.choose(&j, demands, may, d.Tried)
	switch {
	case c.lacks != "": // it costs no attempt: an agent that is large enough, or has the labels, may come
		return engine.Wait(job.Blocker{Code: c.lacks, Sentence: c.reason, Until: r.Now().Add(30 * time.Second)})
	case c.waits != "":
		// it is called; the time is for calls that are lost, and such that a long line does not keep the store busy
		waiting := a.registry.line(&j, demands, c.waits)
		pause := time.Minute
		if c.soon {
			pause = 500 * time.Millisecond
		}
		return engine.Wait(job.Blocker{Code: c.waits, Sentence: c.reason,
			Until: r.Now().Add(pause + time.Duration(waiting)*20*time.Millisecond)})
	case c.member == nil:
		return a.again(ctx, r, &d, "", errors.New(c.reason))
	}
	d.Handle = Handle{Ticket: Ticket{Job: j.ID, Attempt: d.Attempt + 1, Secret: rand.Text()}, Instance: c.instance}
	d.Agent, d.Sent, d.Notice, d.Silent, d.Fetches, d.Killed = c.member.name, false, nil, 0, 0, false
	d.Began, d.Over = time.Time{}, time.Time{}
	r.SetTags(AgentTag(d.Agent))
	if err := r.SetData(d); err != nil {
		a.registry.settle(ctx, c.member, false)
		return err
	}
	if err := r.Move(ctx, Begin); err != nil {
		a.registry.settle(ctx, c.member, false)
		return err
	}
	return a.hand(ctx, r, &spec, &d, c.member, true)
}

// runnable reports why a job can never run, or nothing.
func (a *App) runnable(j *job.Job, spec *Spec) (why string, err error) {
	service := a.services[spec.Service]
	if service == nil {
		return fmt.Sprintf("there is no service %q any more", spec.Service), nil
	}
	if _, err := service.Effective(spec.Limits); err != nil {
		return err.Error(), nil
	}
	if !slices.ContainsFunc(spec.Files, func(f File) bool { return f.Name == Script }) {
		return "there is no " + Script + " among its files", nil
	}
	f, err := a.root.Open(path.Join(inputsOf(j.ID), Script))
	if errors.Is(err, fs.ErrNotExist) {
		return "its files are not on this server's disk any more", nil
	}
	if err != nil {
		return "", err
	}
	verdict, err := a.options.Check.Check(f)
	if err = errors.Join(err, f.Close()); err == nil && verdict.Refused {
		why = Script + " is refused: " + verdict.Reason
	}
	return why, err
}

// Environ merges variables. Those of a later layer replace those of an earlier one.
func Environ(layers ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, layer := range layers {
		maps.Copy(all, layer)
	}
	return all
}

// parcel makes what an executor gets. A [Refusal] reports that no one may have it; after any other error it is not
// whole now.
func (a *App) parcel(j *job.Job, spec *Spec, d *Data) (*Parcel, error) {
	service := a.services[spec.Service]
	if service == nil {
		return nil, &Refusal{Reason: fmt.Sprintf("there is no service %q any more", spec.Service)}
	}
	limits, err := service.Effective(spec.Limits)
	if err != nil {
		return nil, &Refusal{Reason: err.Error()}
	}
	p := &Parcel{Ticket: d.Ticket, Instance: d.Instance, Service: spec.Service, Owner: j.Owner, Files: spec.inputs(d),
		Limits: limits, Inputs: !service.LeaveInputs, Env: Environ(service.Env, spec.Env)}
	if spec.Inputs != nil {
		p.Inputs = *spec.Inputs
	}
	dir := inputsOf(j.ID)
	p.Open = func(name string) (io.ReadSeekCloser, error) { return a.root.Open(path.Join(dir, name)) }
	return p, nil
}

// again sends a job back to the queue after no one took it, or fails it when its attempts are used up. tried is the
// executor, if there was one.
func (a *App) again(ctx context.Context, r *engine.Run, d *Data, tried string, reason error) error {
	j, full := r.Job(), job.IsFull(reason)
	if full { // the executor may take it once there is space: that is no failed attempt
		d.Full++
	} else {
		d.Tries, d.Full = d.Tries+1, 0
	}
	if tried != "" && !slices.Contains(d.Tried, tried) {
		d.Tried = append(d.Tried, tried)
	}
	what := plain(reason)
	if tried != "" {
		what = tried + " did not take it: " + what
		// with its address, for operators
		r.Log().Warn("an agent did not take a job", "agent", tried, "attempt", d.Tries, "error", reason)
	}
	d.Attempts = append(d.Attempts[max(0, len(d.Attempts)-15):], Past{Agent: tried, Error: plain(reason),
		At: r.Now().UTC().Format(time.RFC3339)})
	d.Agent, d.Sent = "", false
	if !full && a.options.Retries > 0 && d.Tries >= a.options.Retries {
		return a.giveUp(ctx, r, d, what)
	}
	r.SetTags([]string{}...)
	if err := r.SetData(d); err != nil {
		return err
	}
	b := job.Blocker{
		Code: blockBackup, Until: r.Now().Add(a.pause(d.Tries)),
		Sentence: fmt.Sprintf("%s (attempt %d of %s)", what, d.Tries, a.attempts()),
	}
	if full {
		b.Code, b.Sentence, b.Until = blockSpace, what, r.Now().Add(a.pauseFull(d.Full))
	}
	if j.State == Queued {
		return engine.Wait(b)
	}
	return rest(ctx, r, Again, b)
}

// rest is Rest for a transition that stays valid whatever was reported to the job meanwhile.
func rest(ctx context.Context, r *engine.Run, e lifecycle.Event, b job.Blocker) error {
	for try := 1; ; try++ {
		err := r.Rest(ctx, e, b)
		if !errors.Is(err, errConflict) || try == 5 {
			return err
		}
		if err := r.Fresh(ctx); err != nil {
			return err
		}
	}
}

func (a *App) attempts() string {
	if a.options.Retries < 0 {
		return "any number"
	}
	return fmt.Sprint(a.options.Retries)
}

// pause is how long a job waits after its nth attempt to be handed over: all of them together take about RetryFor, each
// twice as long as the one before. With many attempts the first pauses are equal: none is too short to help.
func (a *App) pause(n int) time.Duration {
	if a.options.Retries < 0 {
		return min(a.options.RetryFor/64<<min(n, 6), a.options.RetryFor)
	}
	pauses := max(1, a.options.Retries-1)
	n = min(max(1, n), pauses)
	part := math.Exp2(float64(n-1-pauses)) / (1 - math.Exp2(float64(-pauses)))
	return max(time.Duration(float64(a.options.RetryFor)*part), a.options.RetryFor/time.Duration(16*pauses))
}

// mostFullPause is the longest pause before a job is handed over again that was refused for lack of space.
const mostFullPause = 5 * time.Minute

// pauseFull is how long a job waits after its nth refusal in a row for lack of space. Each attempt makes entries of the
// history, so the pauses double. An agent that reports its space gets nothing that does not fit (demand.fits).
func (a *App) pauseFull(n int) time.Duration {
	pause := max(a.options.RetryFor/16, time.Millisecond)
	for ; n > 1 && pause < mostFullPause; n-- {
		pause *= 2
	}
	return min(pause, mostFullPause)
}

// giveUp fails a job that no one took. From Queued it goes by Processing: the table lets no job fail that was never
// tried.
func (a *App) giveUp(ctx context.Context, r *engine.Run, d *Data, what string) error {
	if err := r.SetData(d); err != nil {
		return err
	}
	if r.Job().State == Queued {
		if err := r.Move(ctx, Begin); err != nil {
			return err
		}
	}
	return engine.Fail(CauseAgents, fmt.Errorf("no agent took it in %d attempts; the last: %s", d.Tries, what))
}

// shorten bounds an error that is kept in a record.
func shorten(text string) string { return cut(text, 500) }

// cut cuts a text to a number of bytes, between characters.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
