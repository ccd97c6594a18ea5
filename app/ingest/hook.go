package ingest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/app/ingest/record"
	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/cause"
	"github.com/stagepost/stagepost/engine/hooklog"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
)

// hookTopic is the outbox's topic for notifications.
const hookTopic = "webhook"

// origin is the source of the events of notifications and callbacks.
func (a *App) origin() webhook.Origin {
	return webhook.Origin{Installation: a.inventory.Installation(), Application: "ingest"}
}

// posted is a notification in the outbox. The address and the secrets stay in the profile: what waits goes to the hook
// of the name as it is when it is tried, and is signed with the secrets of then.
type posted struct {
	Profile string          `json:"profile"`
	Hook    string          `json:"hook"`
	Host    string          `json:"host"` // of the hook when it was written, for lists
	Type    string          `json:"type"` // the name of the event in the profile, such as "job.completed"
	Body    json.RawMessage `json:"body"` // what is sent, byte for byte at every try
}

// happened gives the types of event that a transition is. Most are none.
func happened(j *job.Job, c *job.Change) []string {
	kind := map[job.Kind]string{record.BatchKind: "batch", record.JobKind: "job"}[j.Kind]
	if kind == "" || c.To.State == j.State {
		return nil
	}
	switch to := c.To.State; {
	case to == record.Held:
		return []string{kind + ".held"}
	case to == record.Deleted:
		return []string{kind + ".deleted"}
	case j.State == record.Held:
		return []string{kind + ".released"}
	case kind == "batch" && j.State == record.Pending && to == record.Processing:
		return []string{"batch.queued"}
	case j.State == record.UpdateReporting && to == record.Completed:
		return []string{"batch.updated", "batch.completed"}
	case j.State == record.UpdateReporting:
		return []string{"batch.updated"}
	case to == record.Completed:
		return []string{kind + ".completed"}
	case to == record.Failed:
		return []string{kind + ".failed"}
	case c.Event == record.Retry:
		return []string{kind + ".retried"}
	}
	return nil
}

// announce gives the notifications of a transition and the callback of an end, for the outbox of its commit. The keys
// of notifications follow from the history entry that it makes, so that a transition which is tried again after a crash
// is reported once. For a job whose profile is gone there are none.
func (a *App) announce(j *job.Job, c *job.Change) []job.Message {
	types := happened(j, c)
	if len(types) == 0 {
		return nil
	}
	var spec struct {
		Profile string `json:"profile"`
	}
	if err := json.Unmarshal(j.Spec, &spec); err != nil {
		return nil // a job without a profile has no receivers
	}
	p, ok := a.options.Profiles.Get(spec.Profile)
	if !ok || len(p.Webhooks) == 0 && p.Callback == nil {
		return nil
	}
	after, _, err := job.Apply(*j, c)
	if err != nil {
		a.log.Warn("notification", "job", j.ID, "error", err) // the commit will be refused for the same reason
		return nil
	}
	var all []job.Message
	if m, err := a.announceEnd(p, j, c, &after); err != nil {
		a.log.Error("callback", "job", j.ID, "error", err)
	} else if m != nil {
		all = append(all, *m)
	}
	for _, typ := range types {
		for i := range p.Webhooks {
			w := &p.Webhooks[i]
			if !w.Selects(typ) {
				continue
			}
			m, err := a.hookMessage(p, w, &after, typ, c.At)
			if err != nil { // a record always has a form as JSON
				a.log.Error("notification", "job", j.ID, "type", typ, "error", err)
				continue
			}
			all = append(all, m)
		}
	}
	return all
}

// hookMessage makes the outbox message of a notification. Its data is the record after the event, as GET
// /api/v1/jobs/{id} gives it. Its key is the id of the event: without full stops, which part what is signed.
func (a *App) hookMessage(p *profile.Profile, w *profile.Webhook, after *job.Job, typ string,
	at time.Time) (job.Message, error) {
	key := fmt.Sprintf("%s/%d/%s/%s", after.ID, after.Seq, strings.ReplaceAll(typ, ".", "-"), w.Name)
	body, err := a.origin().Event(key, typ, string(after.ID), at, after)
	if err != nil {
		return job.Message{}, err
	}
	env, err := json.Marshal(posted{Profile: p.ID, Hook: w.Name, Host: hostOf(w.URL), Type: typ, Body: body})
	return job.Message{Key: key, Job: after.ID, Topic: hookTopic, Body: env, Created: at, Due: at}, err
}

// Causes for which a notification is abandoned at once.
const (
	CauseHookGone    = "hook-gone"    // the receiver answered 410: it accepts no more
	CauseHookRemoved = "hook-removed" // the profile has no hook of the name any more
)

// deliverHook sends a notification once. Every try has the same id and the same body; order is not promised.
func (a *App) deliverHook(ctx context.Context, m job.Message) error {
	var env posted
	if err := json.Unmarshal(m.Body, &env); err != nil {
		return engine.Fail(cause.Error, fmt.Errorf("notification %s: %w", m.Key, err))
	}
	pause := webhook.Pause(m.Attempts)
	p, ok := a.options.Profiles.Get(env.Profile)
	if !ok {
		return engine.RetryAfter(pause, fmt.Errorf("there is no profile %s", env.Profile))
	}
	w, ok := p.Webhook(env.Hook)
	if !ok {
		return engine.Fail(CauseHookRemoved, fmt.Errorf("profile %s has no webhook %s any more", env.Profile, env.Hook))
	}
	err := a.post(ctx, p, w, m.Key, env.Body)
	var e *webhook.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e) && e.Gone():
		return engine.Fail(CauseHookGone,
			fmt.Errorf("%w: the receiver accepts no more; remove the hook from profile %s", err, p.ID))
	case errors.As(err, &e):
		return engine.RetryAfter(max(pause, e.RetryAfter), err)
	}
	return err
}

// post sends to a hook of a profile, through the guard of addresses: to private networks only where the profile allows
// them.
func (a *App) post(ctx context.Context, p *profile.Profile, w *profile.Webhook, id string, body []byte) error {
	address, err := w.Address()
	if err != nil {
		return &webhook.Error{Err: err}
	}
	keys, err := w.Keys()
	if err != nil {
		return &webhook.Error{Err: err}
	}
	s := webhook.NewSender(webhook.Options{Transport: a.client(p).Transport(), Timeout: hookTimeout})
	return s.Send(ctx, address, id, a.engine.Clock().Wall(), body, keys...)
}

// hookTimeout bounds a try.
const hookTimeout = 10 * time.Second

// Delivery is a notification with what became of it.
type Delivery = api.Hook

// DeliveryQuery selects deliveries, the newest first.
type DeliveryQuery = hooklog.Query

// Replay asks for notifications to be sent again, under the ids they had.
type Replay = api.ReplayHooks

// Deliveries lists notifications.
func (a *App) Deliveries(ctx context.Context, q DeliveryQuery) ([]Delivery, error) {
	return a.hookLog().Deliveries(ctx, q)
}

// Delivery gives one notification with its payload.
func (a *App) Delivery(ctx context.Context, key string) (Delivery, error) {
	return a.hookLog().Delivery(ctx, key)
}

// Replay makes notifications due that were delivered or abandoned (see [hooklog.Log.Replay]).
func (a *App) Replay(ctx context.Context, r Replay) ([]string, error) {
	return a.hookLog().Replay(ctx, r)
}

func (a *App) hookLog() *hooklog.Log {
	return &hooklog.Log{
		Topic: hookTopic, Engine: func() *engine.Engine { return a.engine },
		Describe: func(body json.RawMessage, into *api.Hook) {
			var env posted
			_ = json.Unmarshal(body, &env) // a body that cannot be read is shown without its content
			into.Type, into.Profile, into.Hook, into.Host = env.Type, env.Profile, env.Hook, env.Host
			into.Payload = env.Body
		},
	}
}

// Ping is what became of a notification that was sent to try a hook.
type Ping = api.Ping

// Ping sends a notification of type ping to each webhook of a profile, or to the one that is named, once and at once.
func (a *App) Ping(ctx context.Context, id, hook, actor, note string) ([]Ping, error) {
	p, ok := a.options.Profiles.Get(id)
	if !ok {
		return nil, job.Errorf(job.NotFound, "ping", "", "there is no profile %.100q", id)
	}
	var hooks []*profile.Webhook
	for i := range p.Webhooks {
		if hook == "" || p.Webhooks[i].Name == hook {
			hooks = append(hooks, &p.Webhooks[i])
		}
	}
	if len(hooks) == 0 {
		return nil, job.Errorf(job.NotFound, "ping", "", "profile %s has no webhook %.100s", p.ID,
			cmp.Or(hook, "at all"))
	}
	if err := a.engine.Operator().Audit(ctx, operator.Entry{Actor: actor, Event: "hook-ping", Note: note,
		Object: strings.TrimSpace(p.ID + " " + hook)}); err != nil {
		return nil, err
	}
	all := make([]Ping, len(hooks))
	for i, w := range hooks {
		began := a.engine.Clock().Now()
		all[i] = Ping{Hook: w.Name, Host: hostOf(w.URL), ID: "ping/" + rand.Text()}
		body, err := a.origin().Event(all[i].ID, "ping", "", a.engine.Clock().Wall(), pinged{p.ID, w.Name})
		if err = errors.Join(err, a.post(ctx, p, w, all[i].ID, body)); err != nil {
			all[i].Error = err.Error()
		}
		all[i].Took = a.engine.Clock().Now().Sub(began).Milliseconds()
	}
	return all, nil
}

// pinged is the data of an event of type ping.
type pinged struct {
	Profile string `json:"profile"`
	Hook    string `json:"hook"`
}
