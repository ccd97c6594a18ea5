package ingest

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// notify is the step of Notify. The commit that completes the job writes the callback into the outbox
// ([App.announceEnd]). Where the profile requires the callback, the job waits here for its delivery. Then the work
// directory goes.
func (t *task) notify(ctx context.Context) error {
	p, err := t.app.profile(t.spec.Profile)
	if err != nil {
		return err
	}
	if p.Callback != nil && p.Callback.Required {
		if err := t.awaitCallback(ctx, p); err != nil {
			return err
		}
	}
	t.conclude()
	t.app.room.spend(t.Job().ID, 0)
	return t.app.tree.Discard(t.Job().Parent, t.Job().ID)
}

// awaitCallback writes the required callback into the outbox, with the commit that lets the job wait, and returns nil
// once it was delivered.
func (t *task) awaitCallback(ctx context.Context, p *profile.Profile) error {
	j, now := t.Job(), t.Now()
	key := callbackKey(&j, record.Completed)
	sent, err := t.app.message(ctx, j.ID, key)
	if err != nil {
		return err
	}
	host, since, until := hostOf(p.Callback.URL), now, now.Add(t.app.pause())
	sentence := fmt.Sprintf("the callback to %s was not delivered yet", host)
	switch {
	case sent == nil:
		call, err := t.callback(&j, p)
		if err != nil {
			return err
		}
		if err := t.Send(callbackTopic, key, call); err != nil {
			return err
		}
	case sent.Settled == job.Delivered:
		return nil
	case sent.Settled == job.GivenUp:
		return fail(CauseCallback, "the callback was not delivered: %s", sent.Error)
	default:
		if since = sent.Created; sent.Error != "" {
			sentence += ": " + sent.Error
		}
		if sent.Due.Sub(now) > maxDelivery {
			until = sent.Due.Add(t.app.pause())
		}
	}
	return engine.Wait(job.Blocker{
		Code: CauseCallback, Sentence: sentence, Since: since, Until: until, Holder: host,
	})
}

// callback makes the required callback of a job that completes once it was delivered.
func (t *task) callback(j *job.Job, p *profile.Profile) (called, error) {
	after := *j
	after.State, after.Cause, after.Message = record.Completed, "", remark(&t.data)
	return newCalled(p, &end{job: &after, spec: &t.spec, data: &t.data, at: t.Now()})
}

// maxDelivery is how long an attempt at a delivery may take. A message that is due later than that is between two
// attempts: before the next one nothing becomes of it.
const maxDelivery = 2 * time.Minute

// message gives a job's message in the outbox by its key, or nil.
func (a *App) message(ctx context.Context, id job.ID, key string) (*job.Message, error) {
	all, err := a.engine.Store().Outbox(ctx, job.OutboxCall{Job: id})
	if err != nil && job.KindOf(err) != job.NotFound {
		return nil, err
	}
	for i := range all {
		if all[i].Key == key {
			return &all[i], nil
		}
	}
	return nil, nil
}

// hostOf gives the host of a URL, which may be shown where the rest may be secret.
func hostOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.Host
}
