package client

import (
	"context"
	"net/http"
	"net/url"
)

// StorageLocations returns the storage locations of profiles and inventory.
func (c *Client) StorageLocations(ctx context.Context) ([]StorageLocation, error) {
	a, err := get[StorageLocations](ctx, c, "/api/v1/storage", nil)
	return a.Locations, err
}

// AdoptLocation makes a directory the installation's own, also one that belonged to another installation, and gives
// it as it is afterwards.
func (c *Client) AdoptLocation(ctx context.Context, a Adoption) (StorageLocation, error) {
	return send[StorageLocation](ctx, c, http.MethodPost, "/api/v1/storage", nil, a)
}

// Fixity returns the state of the fixity checks of an application, or of all ("").
func (c *Client) Fixity(ctx context.Context, application string) (Fixity, error) {
	v := url.Values{}
	if application != "" {
		v.Set("application", application)
	}
	return get[Fixity](ctx, c, "/api/v1/fixity", v)
}

// FixityObjects returns a page of the report of fixity checks: objects by application and name.
func (c *Client) FixityObjects(ctx context.Context, q FixityQuery) (FixityObjects, error) {
	v := url.Values{}
	for name, value := range map[string]string{
		"application": q.Application, "location": q.Location, "after": q.After,
	} {
		if value != "" {
			v.Set(name, value)
		}
	}
	for name, value := range map[string]bool{"damaged": q.Damaged, "overdue": q.Overdue} {
		if value {
			v.Set(name, "true")
		}
	}
	return get[FixityObjects](ctx, c, "/api/v1/fixity/objects", number(v, "limit", int64(q.Limit)))
}

// CheckFixity asks for a check of all stored files, which the server does in the background. A check that is under
// way continues.
func (c *Client) CheckFixity(ctx context.Context, f CheckFixity) (Fixity, error) {
	return send[Fixity](ctx, c, http.MethodPost, "/api/v1/fixity", nil, f)
}

// Orphans lists orphaned files, locks and messages.
func (c *Client) Orphans(ctx context.Context) (Orphans, error) {
	return get[Orphans](ctx, c, "/api/v1/orphans", nil)
}

// FixOrphans removes the deletable orphans with level FAIL.
func (c *Client) FixOrphans(ctx context.Context, f FixOrphans) (FixedOrphans, error) {
	return send[FixedOrphans](ctx, c, http.MethodPost, "/api/v1/orphans", nil, f)
}

// Locks returns all locks.
func (c *Client) Locks(ctx context.Context) ([]Lock, error) {
	a, err := get[Locks](ctx, c, "/api/v1/locks", nil)
	return a.Locks, err
}

// BreakLock takes a lock from its holder, whose later writes under it are refused, and gives it as it was. The note
// is the reason and must not be empty.
func (c *Client) BreakLock(ctx context.Context, kind, name, actor, note string) (Lock, error) {
	v := url.Values{"kind": {kind}, "name": {name}, "note": {note}}
	if actor != "" {
		v.Set("actor", actor)
	}
	return call[Lock](ctx, c, http.MethodDelete, "/api/v1/locks", v, nil)
}
