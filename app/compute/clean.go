package compute

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/explain"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
)

// Topics of the outbox.
const (
	forgetTopic = "compute-forget" // an executor may forget a payload, and ends it if it runs
	cleanTopic  = "compute-clean"  // the files of a job may go
)

// forgotten is what the message to an executor holds.
type forgotten struct {
	Agent  string `json:"agent"`
	Handle Handle `json:"handle"`
	Live   bool   `json:"live,omitempty"` // it may run there yet: it is to be ended first
}

// announce gives the messages that a job's end brings with it. They are part of the same commit: an executor learns of
// every end, however it came about, and files go only after the record reports it (reliability holes J14, J16, J17).
func (a *App) announce(j *job.Job, c *job.Change) []job.Message {
	switch {
	case c.Event == Clean:
		return []job.Message{{Key: fmt.Sprintf("%s/clean", j.ID), Job: j.ID, Topic: cleanTopic, Created: c.At,
			Due: c.At}}
	case !c.Ended || j.Ended:
		return nil
	}
	data := j.Data
	if c.Set.Data != nil {
		data = c.Set.Data
	}
	var d Data
	if json.Unmarshal(data, &d) != nil || d.Agent == "" || d.Attempt == 0 {
		return nil
	}
	body, err := json.Marshal(forgotten{Agent: d.Agent, Handle: d.Handle,
		Live: d.Notice == nil || d.Notice.Standing != Ended})
	if err != nil {
		return nil
	}
	return []job.Message{{Key: fmt.Sprintf("%s/forget/%d", j.ID, d.Attempt), Job: j.ID, Topic: forgetTopic, Body: body,
		Created: c.At, Due: c.At}}
}

// deliverForget notifies an executor that the server has everything.
func (a *App) deliverForget(ctx context.Context, m job.Message) error {
	var f forgotten
	if err := json.Unmarshal(m.Body, &f); err != nil {
		return engine.Fail("unreadable", err)
	}
	x, _ := a.registry.get(f.Agent)
	if x == nil {
		return fmt.Errorf("the agent %s is not known to this server", f.Agent)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*a.options.Answer)
	defer cancel()
	if f.Live {
		if err := x.executor.Kill(ctx, f.Handle); err != nil && !errors.Is(err, ErrNoPayload) {
			return engine.Retry(err)
		}
	}
	switch err := x.executor.Forget(ctx, f.Handle); {
	case err == nil, errors.Is(err, ErrNoPayload):
		return nil
	default: // also a refusal because it has not ended yet: it is asked again
		return engine.Retry(err)
	}
}

// deliverClean removes the files of a job whose record reports that they are gone.
func (a *App) deliverClean(ctx context.Context, m job.Message) error {
	j, err := a.engine.Store().Get(ctx, m.Job)
	switch {
	case err != nil && job.KindOf(err) != job.NotFound:
		return engine.Retry(err)
	case err == nil && j.State != Cleaned:
		return engine.Fail("live", fmt.Errorf("it is %s, not cleaned: its files stay", j.State))
	}
	a.loads.end(m.Job)
	return a.remove(dirOf(m.Job))
}

// Clean makes the time end for which the files of an ended job are kept: the timer's transition is taken at once, and
// the files go as they do after Options.Keep. Who wanted it stands in the history and in the audit list. The owner has
// the space again when it returns; a download that is being read is not cut. A job that was cleaned stays as it is, and
// no error. Refused, with what can be done instead: it has not ended.
func (a *App) Clean(ctx context.Context, id job.ID, w Request) (job.Job, error) {
	j, err := a.engine.Store().Get(ctx, id)
	switch {
	case err != nil:
		return j, err
	case j.Kind != JobKind:
		return job.Job{}, job.Errorf(job.NotFound, "clean", id, "there is no such compute job")
	case !j.Ended:
		return j, job.Errorf(job.Refused, "clean", id,
			"cannot clean while %s: it has not ended; cancel it first, or wait for its end", j.State)
	}
	j, err = a.engine.Operator().Discard(ctx, operator.Act{
		Job: id, By: w.By, Actor: cmp.Or(w.Actor, w.By.String(), "somebody"),
		Note: w.Note, Version: w.Version,
	})
	if err == nil {
		a.usage.record(&j)
	}
	return j, err
}

// removed reports that the files of a job are gone; now is its record, or empty if that is gone as well.
func removed(op string, id job.ID, now *job.Job) error {
	if now.State != Cleaned {
		return job.Errorf(job.Gone, op, id, "its files were removed")
	}
	return job.Errorf(job.Gone, op, id, "its files were removed at %s", now.Entered.UTC().Format(time.RFC3339))
}

// Clear removes what else belongs to a job whose record is about to be purged.
func (a *App) Clear(_ context.Context, j *job.Job) error {
	if j.Kind != JobKind {
		return nil
	}
	a.loads.end(j.ID)
	return a.remove(dirOf(j.ID))
}

// explain completes what `why` reports of a job that waits at an executor.
func (a *App) explain(j *job.Job, b *job.Blocker) {
	cancel := job.Causing("cancel", j.ID, false, "withdraws it")
	if b.Code == explain.BlockEnded {
		b.Remedies = append(a.remedies(j), b.Remedies...)
		return
	}
	if b.Code == blockInputs {
		b.Remedy, b.Remedies = "wait, or cancel it", []job.Remedy{cancel}
		if progress := a.loads.progress(j.ID); progress != "" {
			b.Sentence, b.Holder = progress, "the servers of its inputs"
		}
		return
	}
	d, err := DataOf(j)
	if err != nil || !strings.HasPrefix(b.Code, "agent") && b.Code != blockAbsent {
		return
	}
	switch b.Code {
	case blockFull:
		b.Holder, b.Remedy = "the agents of the service "+j.Group,
			"wait for a slot; an operator can start another agent or raise its slots"
	case blockDrain:
		b.Holder, b.Remedy = "the operator who drains them", "wait, or start another agent that serves "+j.Group
		b.Remedies = []job.Remedy{job.Running("compute agent resume NAME", "ends the drain of an agent")}
	case blockStart:
		b.Holder, b.Remedy = "the agents of the service "+j.Group, "wait a moment: nothing is lost by it"
	case blockSmall:
		b.Holder, b.Remedy = "its owner, or an operator", "let it ask for less, or start an agent that has as much"
		b.Remedies = []job.Remedy{cancel, job.Running("compute clone "+string(j.ID)+" --limit memory=SIZE",
			"makes it again as a new job that asks for less")}
	case blockLabels:
		b.Holder = "its owner, or an operator"
		b.Remedy = "give the labels to an agent whose machine has what they name: in the file of compute.services, " +
			"by compute agent --labels, or by the setting labels to the agent in this server"
		b.Remedies = []job.Remedy{cancel, job.Running("compute agents", "lists the agents with their labels"),
			job.Running("compute clone "+string(j.ID)+" --requires LABEL",
				"makes it again as a new job that requires another label")}
	case blockSpace:
		b.Holder, b.Remedy = "the disks of the agents of the service "+j.Group,
			"free space there, or start another agent; the job is tried again by itself"
	case blockBackup, blockAbsent:
		b.Holder, b.Remedy = "the agents of the service "+j.Group, "start an agent that serves "+j.Group+
			", or wait for the next attempt"
	case blockSilent:
		if d.Silent > 0 {
			b.Since = d.Heard
		}
		b.Holder, b.Remedy = d.Agent, "repair the agent "+d.Agent+"; the server asks for the job again by itself"
		b.Remedies = []job.Remedy{cancel}
		if j.State == Killing {
			b.Remedy, b.Remedies = "nothing: it ends by itself; or repair the agent "+d.Agent, nil
		}
	case blockAgent:
		b.Since = j.Entered // not of the last check of it
		b.Holder, b.Remedy, b.Remedies = d.Agent, "wait, or cancel it", []job.Remedy{cancel}
	}
}
