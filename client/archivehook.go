package client

import (
	"context"
	"net/http"
)

// ArchiveHooks lists notifications of archives.
func (c *Client) ArchiveHooks(ctx context.Context, q HookQuery) (Hooks, error) {
	return c.hooks(ctx, archivePrefix+"/hooks", q)
}

// ArchiveHook returns one notification of archives with its payload.
func (c *Client) ArchiveHook(ctx context.Context, key string) (Hook, error) {
	return c.hook(ctx, archivePrefix+"/hooks", key)
}

// ReplayArchiveHooks sends notifications of archives again, under the ids that they had.
func (c *Client) ReplayArchiveHooks(ctx context.Context, b ReplayHooks) ([]string, error) {
	return c.replayHooks(ctx, archivePrefix+"/hooks", b)
}

// PingArchiveHooks sends a notification of type ping to the webhooks of archives.
func (c *Client) PingArchiveHooks(ctx context.Context, b PingArchiveHooks) ([]Ping, error) {
	a, err := send[PingedHooks](ctx, c, http.MethodPost, archivePrefix+"/hooks/ping", nil, b)
	return a.Pings, err
}
