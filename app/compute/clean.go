package compute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/stagepost/stagepost/engine"
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

// announce gives the messages that a job's end brings with it. They are part of the same commit: an executor hears of every end, however it came about, and files go only
// after the record says so (reliability holes J14, J16, J17).
func (a *App) announce(j *job.Job, c *job.Change) []job.Message {
	switch {
	case c.Event == Clean:
		return []job.Message{{Key: fmt.Sprintf("%s/clean", j.ID), Job: j.ID, Topic: cleanTopic, Created: c.At, Due: c.At}}
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
	body, err := json.Marshal(forgotten{Agent: d.Agent, Handle: d.Handle, Live: d.Notice == nil || d.Notice.Standing != Ended})
	if err != nil {
		return nil
	}
	return []job.Message{{Key: fmt.Sprintf("%s/forget/%d", j.ID, d.Attempt), Job: j.ID, Topic: forgetTopic, Body: body, Created: c.At, Due: c.At}}
}

// deliverForget tells an executor that the server has everything.
func (a *App) deliverForget(ctx context.Context, m job.Message) error {
	var f forgotten
	if err := json.Unmarshal(m.Body, &f); err != nil {
		return engine.Fail("unreadable", err)
	}
	x, _ := a.roster.get(f.Agent)
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

// deliverClean removes the files of a job whose record says that they are gone.
func (a *App) deliverClean(ctx context.Context, m job.Message) error {
	j, err := a.engine.Store().Get(ctx, m.Job)
	switch {
	case err != nil && job.KindOf(err) != job.NotFound:
		return engine.Retry(err)
	case err == nil && j.State != Cleaned:
		return engine.Fail("live", fmt.Errorf("it is %s, not cleaned: its files stay", j.State))
	}
	return a.remove(dirOf(m.Job))
}

// Clear removes what else belongs to a job whose record is about to be purged.
func (a *App) Clear(_ context.Context, j *job.Job) error {
	if j.Kind != JobKind {
		return nil
	}
	return a.remove(dirOf(j.ID))
}

// explain completes what `why` says of a job that waits at an executor.
func (a *App) explain(j *job.Job, b *engine.Blocker) {
	d, err := DataOf(j)
	if err != nil || !strings.HasPrefix(b.Code, "agent") && b.Code != blockAbsent {
		return
	}
	switch b.Code {
	case blockFull:
		b.Holder, b.Remedy = "the agents of the service "+j.Group, "wait for a slot; an operator can start another agent or raise its slots"
	case blockBackup, blockAbsent:
		b.Holder, b.Remedy = "the agents of the service "+j.Group, "start an agent that serves "+j.Group+", or wait for the next attempt"
	case blockSilent:
		b.Holder, b.Remedy = d.Agent, "see to the agent "+d.Agent+"; the job is asked for again by itself"
	case blockAgent:
		b.Holder, b.Remedy = d.Agent, "wait, or cancel it"
	}
}
