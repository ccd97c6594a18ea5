package agent

import (
	"context"

	"github.com/stagepost/stagepost/app/compute"
	"github.com/stagepost/stagepost/job"
)

// Local gives the agent to a server in the same process, without HTTP.
func (a *App) Local() compute.Executor { return local{a} }

// local is the agent as an executor that also reports changes.
type local struct{ *App }

var _ compute.Notifier = local{}

// Notify is part of [compute.Notifier].
func (l local) Notify(ctx context.Context, connected func(), changed func(id job.ID)) error {
	changes := l.hub.listen()
	defer l.hub.leave(changes)
	connected()
	for {
		ids, err := changes.next(ctx, l.life)
		if err != nil {
			return err
		}
		for _, id := range l.jobs(ctx, ids) {
			changed(id)
		}
		changed("")
	}
}

// jobs gives the jobs of payloads that came with a ticket.
func (a *App) jobs(ctx context.Context, payloads []job.ID) []job.ID {
	all := make([]job.ID, 0, len(payloads))
	for _, id := range payloads {
		if id == "" {
			continue
		}
		j, err := a.engine.Store().Get(ctx, id)
		if err != nil {
			continue
		}
		if s, err := specOf(&j); err == nil && s.Job != "" {
			all = append(all, s.Job)
		}
	}
	return all
}
