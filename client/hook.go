package client

import (
	"context"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/stagepost/stagepost/job"
)

// HookQuery selects notifications, the newest first. Empty fields do not restrict.
type HookQuery struct {
	Job    job.ID
	Status string
	After  string // Hooks.Next of the page before
	Limit  int    // page size; 0 means 50, at most 1000
}

// Hooks lists notifications.
func (c *Client) Hooks(ctx context.Context, q HookQuery) (Hooks, error) {
	return c.hooks(ctx, "/api/v1/hooks", q)
}

func (c *Client) hooks(ctx context.Context, at string, q HookQuery) (Hooks, error) {
	v := url.Values{}
	for name, text := range map[string]string{"job": string(q.Job), "status": q.Status, "after": q.After} {
		if text != "" {
			v.Set(name, text)
		}
	}
	return get[Hooks](ctx, c, at, number(v, "limit", int64(q.Limit)))
}

// Hook returns one notification with its payload.
func (c *Client) Hook(ctx context.Context, key string) (Hook, error) {
	return c.hook(ctx, "/api/v1/hooks", key)
}

func (c *Client) hook(ctx context.Context, at, key string) (Hook, error) {
	if path.Clean("/"+key) != "/"+key { // what a path does not keep as it is cannot be a key
		return Hook{}, job.Errorf(job.NotFound, "hooks", "", "there is no notification %q", key)
	}
	parts := strings.Split(key, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return get[Hook](ctx, c, at+"/"+strings.Join(parts, "/"), nil)
}

// ReplayHooks sends notifications again, under the ids that they had.
func (c *Client) ReplayHooks(ctx context.Context, b ReplayHooks) ([]string, error) {
	return c.replayHooks(ctx, "/api/v1/hooks", b)
}

func (c *Client) replayHooks(ctx context.Context, at string, b ReplayHooks) ([]string, error) {
	a, err := send[ReplayedHooks](ctx, c, http.MethodPost, at+"/replay", nil, b)
	return a.Keys, err
}

// PingHooks sends a notification of type ping to the webhooks of a profile.
func (c *Client) PingHooks(ctx context.Context, b PingHooks) ([]Ping, error) {
	a, err := send[PingedHooks](ctx, c, http.MethodPost, "/api/v1/hooks/ping", nil, b)
	return a.Pings, err
}

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
