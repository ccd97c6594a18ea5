package archive

import (
	"context"
	"strings"

	"github.com/stagepost/stagepost/api"
	"github.com/stagepost/stagepost/app/archive/notify"
	"github.com/stagepost/stagepost/engine"
	"github.com/stagepost/stagepost/engine/hooklog"
	"github.com/stagepost/stagepost/engine/operator"
	"github.com/stagepost/stagepost/job"
)

func (a *App) hookLog() *hooklog.Log {
	return &hooklog.Log{
		Topic: notify.Topic, Engine: func() *engine.Engine { return a.engine }, Describe: a.notifier.Describe,
	}
}

// Deliveries lists notifications (see [hooklog.Log.Deliveries]).
func (a *App) Deliveries(ctx context.Context, q hooklog.Query) ([]api.Hook, error) {
	return a.hookLog().Deliveries(ctx, q)
}

// Delivery gives one notification with its payload.
func (a *App) Delivery(ctx context.Context, key string) (api.Hook, error) {
	return a.hookLog().Delivery(ctx, key)
}

// Replay sends notifications again (see [hooklog.Log.Replay]).
func (a *App) Replay(ctx context.Context, r api.ReplayHooks) ([]string, error) {
	return a.hookLog().Replay(ctx, r)
}

// Ping sends a notification of type ping to each webhook, or to the one that is named, once and at once.
func (a *App) Ping(ctx context.Context, p api.PingArchiveHooks) ([]api.Ping, error) {
	if a.engine == nil {
		return nil, job.Errorf(job.Unavailable, "ping", "", "the engine does not run yet")
	}
	err := a.engine.Operator().Audit(ctx, operator.Entry{
		Actor: p.Actor, Event: "hook-ping", Note: p.Note, Object: strings.TrimSpace("archive " + p.Hook),
	})
	if err != nil {
		return nil, err
	}
	return a.notifier.Ping(ctx, p.Hook)
}
