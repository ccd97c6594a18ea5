package ingest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/ingest/profile"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
)

// Delivery is a notification with what became of it.
type Delivery = api.Hook

// Statuses of a delivery.
const (
	HookPending   = "pending" // it will be tried, or tried again
	HookDelivered = "delivered"
	HookGivenUp   = "given-up"
)

// DeliveryQuery selects deliveries, the newest first. Empty fields do not restrict.
type DeliveryQuery struct {
	Job    job.ID
	Status string
	Before int64 // Number of the last one of the page before
	Limit  int   // 0 means 50, at most 1000
}

// Deliveries lists notifications.
func (a *App) Deliveries(ctx context.Context, q DeliveryQuery) ([]Delivery, error) {
	list := job.MessageQuery{Job: q.Job, Topic: hookTopic, Before: q.Before, Limit: q.Limit}
	if q.Status != "" {
		settled := job.Settled(q.Status)
		switch q.Status {
		case HookPending:
			settled = job.Pending
		case HookDelivered, HookGivenUp:
		default:
			return nil, job.Errorf(job.Invalid, "hooks", "", "status must be pending, delivered or given-up, not %.40q", q.Status)
		}
		list.Settled = &settled
	}
	messages, err := a.engine.Store().Outbox(ctx, job.OutboxCall{List: &list})
	if err != nil {
		return nil, err
	}
	all := []Delivery{}
	for i := range messages {
		d := delivery(&messages[i])
		d.Payload = nil
		all = append(all, d)
	}
	return all, nil
}

func delivery(m *job.Message) Delivery {
	var env posted
	_ = json.Unmarshal(m.Body, &env) // a body that cannot be read is shown without what it says
	d := Delivery{
		Number: m.Number, Key: m.Key, Job: m.Job, Type: env.Type, Profile: env.Profile, Hook: env.Hook, Host: env.Host, Created: m.Created,
		Due: m.Due, Attempts: m.Attempts, Status: HookPending, Error: m.Error, Tried: m.Tried, Payload: env.Body,
	}
	if m.Settled != job.Pending {
		d.Status, d.Due = string(m.Settled), time.Time{}
	}
	return d
}

// Delivery gives one notification with its payload.
func (a *App) Delivery(ctx context.Context, key string) (Delivery, error) {
	id, _, _ := strings.Cut(key, "/")
	messages, err := a.engine.Store().Outbox(ctx, job.OutboxCall{Job: job.ID(id)})
	if err != nil && job.KindOf(err) != job.NotFound {
		return Delivery{}, err
	}
	for i := range messages {
		if m := &messages[i]; m.Key == key && m.Topic == hookTopic {
			return delivery(m), nil
		}
	}
	return Delivery{}, job.Errorf(job.NotFound, "hooks", "", "there is no notification %.200s", key)
}

// Replay asks for notifications to be sent again, under the ids they had.
type Replay = api.ReplayHooks

// maxReplay bounds one replay by keys.
const maxReplay = 1000

// Replay makes notifications due that were delivered or given up, with all their tries left, and gives their keys. Nothing is replayed if one of
// the keys is wrong.
func (a *App) Replay(ctx context.Context, r Replay) ([]string, error) {
	switch {
	case strings.TrimSpace(r.Note) == "":
		return nil, job.Errorf(job.Invalid, "replay", "", "a replay needs a reason: it stands in the audit list")
	case r.Failed == (len(r.Keys) > 0):
		return nil, job.Errorf(job.Invalid, "replay", "", "either keys or those that failed")
	case len(r.Keys) > maxReplay:
		return nil, job.Errorf(job.Invalid, "replay", "", "at most %d keys", maxReplay)
	case !r.Failed && !r.Since.IsZero():
		return nil, job.Errorf(job.Invalid, "replay", "", "since is for those that failed")
	}
	keys, err := r.Keys, error(nil)
	if r.Failed {
		keys, err = a.failedHooks(ctx, r.Since)
	} else {
		err = a.replayable(ctx, keys)
	}
	if err != nil || len(keys) == 0 {
		return []string{}, err
	}
	for from := 0; from < len(keys); from += maxReplay {
		if err := a.engine.Operator().Replay(ctx, keys[from:min(from+maxReplay, len(keys))], r.Actor, r.Note); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// replayable wants every key to be that of a notification which is not being tried anyway. Mails are not to be had this way.
func (a *App) replayable(ctx context.Context, keys []string) error {
	for _, key := range keys {
		d, err := a.Delivery(ctx, key)
		if err != nil {
			return err
		}
		if d.Status == HookPending {
			return job.Errorf(job.Refused, "replay", d.Job, "%s is still being tried, next at %s", key, d.Due.UTC().Format(time.RFC3339))
		}
	}
	return nil
}

func (a *App) failedHooks(ctx context.Context, since time.Time) ([]string, error) {
	var keys []string
	q := DeliveryQuery{Status: HookGivenUp, Limit: 1000}
	for {
		page, err := a.Deliveries(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, d := range page {
			if d.Created.Before(since) {
				return keys, nil
			}
			keys = append(keys, d.Key)
		}
		if len(page) < q.Limit {
			return keys, nil
		}
		q.Before = page[len(page)-1].Number
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
		return nil, job.Errorf(job.NotFound, "ping", "", "profile %s has no webhook %.100s", p.ID, cmp.Or(hook, "at all"))
	}
	if err := a.engine.Operator().Audit(ctx, operator.Entry{Actor: actor, Event: "hook-ping", Note: note, Object: strings.TrimSpace(p.ID + " " + hook)}); err != nil {
		return nil, err
	}
	all := make([]Ping, len(hooks))
	for i, w := range hooks {
		began := a.engine.Clock().Now()
		body, err := json.Marshal(pingBody{Type: "ping", Timestamp: a.engine.Clock().Wall().UTC(), Data: pingData{p.ID, w.Name}})
		all[i] = Ping{Hook: w.Name, Host: hostOf(w.URL), ID: "ping/" + rand.Text()}
		if err = errors.Join(err, a.post(ctx, p, w, all[i].ID, body)); err != nil {
			all[i].Error = err.Error()
		}
		all[i].Took = a.engine.Clock().Now().Sub(began).Milliseconds()
	}
	return all, nil
}

type pingBody struct {
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	Data      pingData  `json:"data"`
}

type pingData struct {
	Profile string `json:"profile"`
	Hook    string `json:"hook"`
}
