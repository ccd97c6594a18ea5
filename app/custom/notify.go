package custom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stagepost/stagepost/edge/webhook"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/job"
)

// Topic is that of the messages of workers: {"to": NAME, "body": ...} is posted to the webhook NAME of the lifecycle.
// The body is the data of an event.
const Topic = "notification"

// notify delivers a message. The key of the message is the id of the event. All of the event follows from the message,
// so that every attempt has the same bytes.
func (a *App) notify(ctx context.Context, m job.Message) error {
	var n struct {
		To   string
		Body json.RawMessage
	}
	if err := json.Unmarshal(m.Body, &n); err != nil {
		return engine.Fail("notification", err)
	}
	j, err := a.engine.Store().Get(ctx, m.Job)
	if err != nil {
		return err
	}
	a.mu.Lock()
	target := ""
	if f := a.files[string(j.Kind)]; f != nil {
		target = f.spec.Webhooks[n.To]
	}
	a.mu.Unlock()
	if target == "" {
		return engine.Fail("notification", fmt.Errorf("the lifecycle %s has no webhook %.100q", j.Kind, n.To))
	}
	from := webhook.Origin{Installation: a.options.Installation, Application: "custom"}
	body, err := from.Event(m.Key, Topic, string(m.Job), m.Created, n.Body)
	if err != nil {
		return engine.Fail("notification", err)
	}
	sender := webhook.NewSender(webhook.Options{Transport: a.options.Transport})
	err = sender.Send(ctx, target, m.Key, time.Now(), body)
	var busy *webhook.Error
	if errors.As(err, &busy) && busy.RetryAfter > 0 {
		return engine.RetryAfter(busy.RetryAfter, err)
	}
	return err
}
