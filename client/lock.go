package client

import (
	"context"
	"net/http"
	"net/url"
)

// Locks gives all locks.
func (c *Client) Locks(ctx context.Context) ([]Lock, error) {
	a, err := get[Locks](ctx, c, "/api/v1/locks", nil)
	return a.Locks, err
}

// BreakLock takes a lock from its holder, whose later writes under it are refused, and gives it as it was. The note is the reason and must not be empty.
func (c *Client) BreakLock(ctx context.Context, kind, name, actor, note string) (Lock, error) {
	v := url.Values{"kind": {kind}, "name": {name}, "note": {note}}
	if actor != "" {
		v.Set("actor", actor)
	}
	return call[Lock](ctx, c, http.MethodDelete, "/api/v1/locks", v, nil)
}
