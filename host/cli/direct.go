package hostcli

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/stagepost/stagepost/client"
	"github.com/stagepost/stagepost/host"
	"github.com/stagepost/stagepost/host/stores"
)

// withStore asks the server that works on the data directory. If none does, it opens the store there; the store's own
// lock keeps two from opening it, so a server that starts meanwhile is no danger.
func withStore[T any](ctx context.Context, c *commands, ask func(context.Context, *client.Client) (T, error),
	direct func(context.Context, *host.Maintenance) (T, error)) (answer T, err error) {
	if c.Settings.Server != "" || c.Served(ctx) {
		api, err := c.API()
		if err != nil {
			return answer, err
		}
		return ask(ctx, api)
	}
	dir, err := filepath.Abs(c.Settings.Data)
	if err != nil {
		return answer, err
	}
	o, err := c.host.Existing(dir)
	if err != nil {
		return answer, err
	}
	store, err := stores.Open(ctx, o)
	if err != nil {
		return answer, err
	}
	defer func() { err = errors.Join(err, store.Closer.Close()) }()
	d := &host.Maintenance{Store: store, Dir: o.Files, Settings: c.host}
	return direct(ctx, d)
}
