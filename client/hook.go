package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/stagepost/stagepost/job"
)

// Hook is a notification with what became of it.
type Hook struct {
	Number   int64           `json:"number"`
	Key      string          `json:"key"` // its webhook-id
	Job      job.ID          `json:"job"`
	Type     string          `json:"type"` // "job.completed"
	Profile  string          `json:"profile"`
	Hook     string          `json:"hook"` // name of the receiver in the profile
	Host     string          `json:"host"`
	Created  time.Time       `json:"created"`
	Due      time.Time       `json:"due,omitzero"` // of the next try; zero when there will be none
	Attempts int             `json:"attempts"`
	Status   string          `json:"status"` // pending, delivered, given-up
	Error    string          `json:"error,omitempty"`
	Tried    []job.Attempt   `json:"tried,omitempty"`   // the last tries, oldest first
	Payload  json.RawMessage `json:"payload,omitempty"` // what is sent; not in lists
}

// HookQuery selects notifications, the newest first. Empty fields do not restrict.
type HookQuery struct {
	Job    job.ID
	Status string
	Before int64 // Hooks.Next of the page before
	Limit  int   // page size; 0 means 50, at most 1000
}

// Hooks is a page of notifications. Next is 0 on the last one.
type Hooks struct {
	Hooks []Hook `json:"hooks"`
	Next  int64  `json:"next,omitempty"`
}

// Hooks lists notifications.
func (c *Client) Hooks(ctx context.Context, q HookQuery) (Hooks, error) {
	v := url.Values{}
	for name, text := range map[string]string{"job": string(q.Job), "status": q.Status} {
		if text != "" {
			v.Set(name, text)
		}
	}
	for name, n := range map[string]int64{"before": q.Before, "limit": int64(q.Limit)} {
		if n != 0 {
			v.Set(name, strconv.FormatInt(n, 10))
		}
	}
	return get[Hooks](ctx, c, "/api/v1/hooks", v)
}

// Hook gives one notification with its payload.
func (c *Client) Hook(ctx context.Context, key string) (Hook, error) {
	if path.Clean("/"+key) != "/"+key { // what a path does not keep as it is cannot be a key
		return Hook{}, job.Errorf(job.NotFound, "hooks", "", "there is no notification %q", key)
	}
	parts := strings.Split(key, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return get[Hook](ctx, c, "/api/v1/hooks/"+strings.Join(parts, "/"), nil)
}

// ReplayHooks is the body that asks for notifications to be sent again: those of the keys, or all that were given up.
type ReplayHooks struct {
	Keys   []string  `json:"keys,omitempty"`
	Failed bool      `json:"failed,omitempty"`
	Since  time.Time `json:"since,omitzero"` // with failed: written at that time or later
	Actor  string    `json:"actor,omitempty"`
	Note   string    `json:"note"` // why; required
}

// ReplayedHooks is the answer to that.
type ReplayedHooks struct {
	Keys []string `json:"keys"`
}

// ReplayHooks sends notifications again, under the ids that they had.
func (c *Client) ReplayHooks(ctx context.Context, b ReplayHooks) ([]string, error) {
	a, err := send[ReplayedHooks](ctx, c, http.MethodPost, "/api/v1/hooks/replay", nil, b)
	return a.Keys, err
}

// PingHooks is the body that asks for the webhooks of a profile to be tried.
type PingHooks struct {
	Profile string `json:"profile"`
	Hook    string `json:"hook,omitempty"` // only this one
	Actor   string `json:"actor,omitempty"`
	Note    string `json:"note,omitempty"` // why
}

// Ping is what became of one try.
type Ping struct {
	Hook  string `json:"hook"`
	Host  string `json:"host"`
	ID    string `json:"id"` // webhook-id
	Took  int64  `json:"took_ms"`
	Error string `json:"error,omitempty"` // empty: it was taken
}

// PingedHooks is the answer to that.
type PingedHooks struct {
	Pings []Ping `json:"pings"`
}

// PingHooks sends a notification of type ping to the webhooks of a profile.
func (c *Client) PingHooks(ctx context.Context, b PingHooks) ([]Ping, error) {
	a, err := send[PingedHooks](ctx, c, http.MethodPost, "/api/v1/hooks/ping", nil, b)
	return a.Pings, err
}
