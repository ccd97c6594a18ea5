package host

import (
	"context"

	"github.com/stagepost/stagepost/app/ingest"
	"github.com/stagepost/stagepost/client"
)

// lockList joins the server to the application's locks.
type lockList struct{ app *ingest.App }

func (l lockList) Locks(ctx context.Context) ([]client.Lock, error) {
	all, err := l.app.Locks(ctx)
	if err != nil {
		return nil, err
	}
	locks := make([]client.Lock, len(all))
	for i := range all {
		locks[i] = client.Lock(all[i])
	}
	return locks, nil
}

func (l lockList) BreakLock(ctx context.Context, kind, name, actor, note string) (client.Lock, error) {
	was, err := l.app.BreakLock(ctx, kind, name, actor, note)
	return client.Lock(was), err
}
