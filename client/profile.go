package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
)

// Profiles returns all ingest profiles.
func (c *Client) Profiles(ctx context.Context) (Profiles, error) {
	return get[Profiles](ctx, c, "/api/v1/ingest/profiles", nil)
}

// Profile returns every value of a profile, and where it came from.
func (c *Client) Profile(ctx context.Context, id string) (ProfileValues, error) {
	return get[ProfileValues](ctx, c, "/api/v1/ingest/profiles/"+url.PathEscape(id), nil)
}

// ProfileSchema returns the JSON Schema of profile files.
func (c *Client) ProfileSchema(ctx context.Context) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, "/api/v1/ingest/profiles/schema", nil)
}

// ReloadProfiles reads the profile directory again. If it is broken nothing changes, and the error, of kind Refused,
// names all mistakes.
func (c *Client) ReloadProfiles(ctx context.Context, b ReloadProfiles) (ProfileChange, error) {
	return send[ProfileChange](ctx, c, http.MethodPost, "/api/v1/ingest/profiles/reload", nil, b)
}
